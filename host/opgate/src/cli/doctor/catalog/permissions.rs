//! What the servers may do.

use super::Level::{Critical, Note, Warning};
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme = Theme {
    name: "permissions",
    title: "Permissions",
    docs: &[&MISSING, &WRITES, &SECRETS, &MORE],
};

pub(in crate::cli::doctor) const MISSING: Doc = Doc {
    id: "DOC-60",
    level: Critical,
    title: "The servers lack a permission that they need",
    harm: "No role that is bound to the ServiceAccount grants a permission that the configuration needs, or that servers need for what they keep themselves (`--certificates self-managed`, `--manage-webhooks`). Calls of policies that ask about the resource end with a policy error: with `mode: enforce` requests are refused. \
If nothing can be read, a new pod never becomes ready.",
    repair: "Print the roles for the configuration, and apply them:\n\n    opgate manifests rbac --config opgate.yaml --service-account opgate-system/opgate | kubectl apply -f -\n\n\
`/readyz?verbose` of a server names what it lacks.",
};

pub(in crate::cli::doctor) const WRITES: Doc = Doc {
    id: "DOC-61",
    level: Warning,
    title: "The servers may change things",
    harm: "A role that is bound to the ServiceAccount grants wildcards, or verbs that write, beyond what opgate writes: Leases, Events and its Secret in its own namespace, and its ValidatingWebhookConfiguration. \
Whoever takes over a server can use them.",
    repair: "Remove the rule or the binding, and grant what `opgate manifests rbac` prints.",
};

pub(in crate::cli::doctor) const SECRETS: Doc = Doc {
    id: "DOC-62",
    level: Warning,
    title: "The servers may read Secrets of all namespaces",
    harm: "A role that is bound to the ServiceAccount for the whole cluster grants `secrets`. opgate never needs that: rules that look at Secrets look at one namespace, by a Role of that namespace.",
    repair: "Remove `secrets` from the ClusterRole, and grant what `opgate manifests rbac` prints.",
};

pub(in crate::cli::doctor) const MORE: Doc = Doc {
    id: "DOC-63",
    level: Note,
    title: "The servers may read more than the configuration needs",
    harm: "A role that is bound to the ServiceAccount grants reads of resources that no rule of the configuration looks at. They are left over from an earlier configuration, or belong to rules that are off.",
    repair: "Print the roles for the configuration, and apply them: `opgate manifests rbac --config opgate.yaml`. Delete roles that it does not print any more.",
};
