//! Webhooks of others.

use super::Level::{Note, Warning};
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme =
    Theme { name: "others", title: "Webhooks of others", docs: &[&DOWN, &LATE, &STARTS, &CHANGES] };

pub(in crate::cli::doctor) const DOWN: Doc = Doc {
    id: "DOC-80",
    level: Warning,
    title: "A webhook of somebody else refuses the same requests",
    harm: "A webhook of another configuration is about requests that opgate judges, has `failurePolicy: Fail`, and its Service does not exist or has no ready endpoint. These requests fail, whatever opgate says about them, and \
what opgate has allowed and reserved is not stored.",
    repair: "Repair the servers of that webhook, or delete its configuration if they are gone for good.",
};

pub(in crate::cli::doctor) const LATE: Doc = Doc {
    id: "DOC-81",
    level: Note,
    title: "A webhook of somebody else may take long",
    harm: "A webhook for requests that opgate judges has `timeoutSeconds` above 10. An API server may store an object that opgate has allowed so much later; opgate counts it as allowed for `--reservation-ttl` (2 s by default) only. \
Two requests that exclude each other can then both be allowed.",
    repair: "Lower the time-out of that webhook, or set `--reservation-ttl` of opgate to it.",
};

pub(in crate::cli::doctor) const STARTS: Doc = Doc {
    id: "DOC-82",
    level: Warning,
    title: "opgate cannot start while a webhook of somebody else is down",
    harm: "A webhook of another configuration has `failurePolicy: Fail` and matches pods or Deployments in the namespace of opgate. If both are down at a time, such as after a power failure, each may wait for the other.",
    repair: "Exempt the namespace of opgate in that webhook. Most have a label for it, such as `policies.example.com/ignore`; or add it to the webhook's `namespaceSelector`.",
};

pub(in crate::cli::doctor) const CHANGES: Doc = Doc {
    id: "DOC-83",
    level: Note,
    title: "A webhook of somebody else may change the servers",
    harm: "A MutatingWebhookConfiguration matches the pods or the Deployment of opgate: it may add a sidecar, change images or resources. A sidecar that takes over connections breaks the TLS between API servers and opgate.",
    repair: "Exempt the namespace or the pods; a service mesh has a label for it (`sidecar.istio.io/inject: \"false\"`, `linkerd.io/inject: disabled`).",
};
