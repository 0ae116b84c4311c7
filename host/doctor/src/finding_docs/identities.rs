//! The profile of the cluster, and the identities of its controllers.

use super::Level::{Critical, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "identities",
    title: "Profile and identities",
    docs: &[&UNTRUSTED_OLM_USER, &WRONG_PROFILE],
};

pub(crate) const UNTRUSTED_OLM_USER: Doc = Doc {
    id: "DOC-66",
    level: Critical,
    title: "OLM writes as a user that the policies do not trust",
    impact: "A ClusterRoleBinding gives a service account the role of OLM (`system:controller:operator-lifecycle-manager`), and the account is not among the identities of OLM. Policies treat its requests like those of an ordinary user: they deny writes that are reserved for OLM, and Operators are not installed.",
    remediation: "Add the account to `identities.olm` in the configuration, or remove `profile` and `identities` from it, so that the servers read both from the cluster. `/readyz?verbose` of a server lists its identities. \
If OLM does not run as this account, delete the binding: the account has all permissions in the cluster.",
};

pub(crate) const WRONG_PROFILE: Doc = Doc {
    id: "DOC-67",
    level: Warning,
    title: "The profile is that of another platform",
    impact: "The configuration names a profile of OpenShift but the cluster is not OpenShift, or the reverse. Policies apply another edition of the documentation, and trust the accounts of OLM and RukPak on the other platform: a user with permission to create the namespaces of these accounts can create the accounts.",
    remediation: "Remove `profile` from the configuration, so that the servers read it from the cluster, or print a matching one:\n\n    opgate config init --from-cluster",
};
