//! Third-party webhooks.

use super::Level::{Note, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "other-webhooks",
    title: "Third-party webhooks",
    docs: &[&BACKEND_UNAVAILABLE, &SLOW_WEBHOOK, &START_DEADLOCK, &SERVER_MUTATION],
};

pub(crate) const BACKEND_UNAVAILABLE: Doc = Doc {
    id: "DOC-80",
    level: Warning,
    title: "A third-party webhook rejects the same requests",
    impact: "A webhook of another configuration matches requests that opgate evaluates, has `failurePolicy: Fail`, and its Service does not exist or has no ready endpoint. These requests fail regardless of opgate's decision, and changes that opgate has allowed and reserved are not stored.",
    remediation: "Fix the servers of that webhook, or delete its configuration if they were removed permanently.",
};

pub(crate) const SLOW_WEBHOOK: Doc = Doc {
    id: "DOC-81",
    level: Note,
    title: "A third-party webhook may be slow",
    impact: "A webhook for requests that opgate evaluates has `timeoutSeconds` above 10. An API server may store an object this long after opgate has allowed it, but opgate keeps the reservation only for `--reservation-ttl` (2 s by default). \
Two requests that exclude each other can then both be allowed.",
    remediation: "Lower the timeout of that webhook, or set `--reservation-ttl` of opgate to the same value.",
};

pub(crate) const START_DEADLOCK: Doc = Doc {
    id: "DOC-82",
    level: Warning,
    title: "opgate cannot start while a third-party webhook is down",
    impact: "A webhook of another configuration has `failurePolicy: Fail` and matches pods or Deployments in the namespace of opgate. If both are down at the same time, for example after a power failure, each may wait for the other.",
    remediation: "Exempt the namespace of opgate in that webhook. Most webhooks have a label for this purpose, such as `policies.example.com/ignore`. Otherwise add the namespace to the webhook's `namespaceSelector`.",
};

pub(crate) const SERVER_MUTATION: Doc = Doc {
    id: "DOC-83",
    level: Note,
    title: "A third-party webhook may change the servers",
    impact: "A MutatingWebhookConfiguration matches the pods or the Deployment of opgate: it may add a sidecar, change images or resources. A sidecar that intercepts connections breaks the TLS between API servers and opgate.",
    remediation: "Exempt the namespace or the pods; a service mesh has a label for this purpose (`sidecar.istio.io/inject: \"false\"`, `linkerd.io/inject: disabled`).",
};
