//! The permissions of the servers.

use super::Level::{Critical, Note, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "permissions",
    title: "Permissions",
    docs: &[&MISSING_PERMISSION, &EXCESSIVE_WRITES, &SECRET_READS, &EXCESSIVE_READS],
};

pub(crate) const MISSING_PERMISSION: Doc = Doc {
    id: "DOC-60",
    level: Critical,
    title: "The servers lack a required permission",
    impact: "No role that is bound to the ServiceAccount grants a permission that the configuration needs, or that servers need to manage certificates and webhook registrations (`--certificates self-managed`, `--manage-webhooks`). Calls of policies that query the resource end with a policy error: with `mode: enforce` opgate denies the requests. \
If the servers cannot read any resource, a new pod never becomes ready.",
    remediation: "Print the roles for the configuration, and apply them:\n\n    opgate manifests rbac --config opgate.yaml --service-account opgate-system/opgate | kubectl apply -f -\n\n\
`/readyz?verbose` of a server lists the missing permissions.",
};

pub(crate) const EXCESSIVE_WRITES: Doc = Doc {
    id: "DOC-61",
    level: Warning,
    title: "The servers have write access to other resources",
    impact: "A role that is bound to the ServiceAccount grants wildcards, or write verbs, for resources that opgate does not write. It writes only Leases, Events and its Secret in its own namespace, and its ValidatingWebhookConfiguration. \
An attacker who compromises a server can use them.",
    remediation: "Remove the rule or the binding, and grant the permissions that `opgate manifests rbac` prints.",
};

pub(crate) const SECRET_READS: Doc = Doc {
    id: "DOC-62",
    level: Warning,
    title: "The servers can read Secrets of all namespaces",
    impact: "A role that is bound to the ServiceAccount for the whole cluster grants `secrets`. opgate never needs this permission: rules that read Secrets read one namespace, with a Role in that namespace.",
    remediation: "Remove `secrets` from the ClusterRole, and grant the permissions that `opgate manifests rbac` prints.",
};

pub(crate) const EXCESSIVE_READS: Doc = Doc {
    id: "DOC-63",
    level: Note,
    title: "The servers can read more resources than the configuration needs",
    impact: "A role that is bound to the ServiceAccount grants reads of resources that no rule of the configuration reads. They remain from an earlier configuration, or belong to rules that are off.",
    remediation: "Print the roles for the configuration, and apply them: `opgate manifests rbac --config opgate.yaml`. Delete roles that it no longer prints.",
};
