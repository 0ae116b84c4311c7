//! What the policies take the cluster and its controllers for.

use super::Level::{Critical, Warning};
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme =
    Theme { name: "identities", title: "Profile and identities", docs: &[&UNTRUSTED, &PROFILE] };

pub(in crate::cli::doctor) const UNTRUSTED: Doc = Doc {
    id: "DOC-66",
    level: Critical,
    title: "OLM writes as a user whom the policies do not trust",
    harm: "A ClusterRoleBinding gives a service account the role of OLM (`system:controller:operator-lifecycle-manager`), and the account is not among the identities of OLM. Policies take what it writes for that of an ordinary user: writes that only OLM may make are denied, and Operators are not installed.",
    repair: "Add the account to `identities.olm` in the configuration, or remove `profile` and `identities` from it, so that the servers read both from the cluster. `/readyz?verbose` of a server shows what it trusts. \
If OLM does not run as this account, delete the binding: the account can do anything with the cluster.",
};

pub(in crate::cli::doctor) const PROFILE: Doc = Doc {
    id: "DOC-67",
    level: Warning,
    title: "The profile is that of another platform",
    harm: "The configuration names a profile of OpenShift and the cluster is none, or the other way round. Policies apply another edition of the documentation, and trust the accounts as which OLM and RukPak run elsewhere: anyone who can create the namespaces of these accounts can create the accounts.",
    repair: "Remove `profile` from the configuration, so that the servers read it from the cluster, or print one that fits:\n\n    opgate config init --from-cluster",
};
