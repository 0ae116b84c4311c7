//! What servers know of the cluster.

use super::Level::{Critical, Warning};
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme = Theme {
    name: "cache",
    title: "What servers know of the cluster",
    docs: &[&TOKEN, &NOT_CURRENT, &INTERRUPTED, &RESERVATIONS],
};

pub(in crate::cli::doctor) const TOKEN: Doc = Doc {
    id: "DOC-74",
    level: Critical,
    title: "The API server does not accept the token of a server",
    harm: "The API server answers the server with 401: it does not know who asks, and no permission helps. The token has expired, its ServiceAccount or its Pod was deleted (also if one of the same name was created since), \
its audience is not one of the API server, the key that signed it was replaced, or clocks differ by hours. Calls that ask about the cluster fail when what the server knows is older than `--cluster-cache-max-age`; certificates and webhooks are not renewed.",
    repair: "Check that the ServiceAccount exists, that the token volume of the pod is projected (`serviceAccountToken`, written anew by the kubelet), and the clocks; then replace the pods. [More](../operate/cluster-cache.md#rejected-tokens):\n\n\
    kubectl -n opgate-system get serviceaccount opgate\n    kubectl -n opgate-system rollout restart deployment opgate",
};

pub(in crate::cli::doctor) const NOT_CURRENT: Doc = Doc {
    id: "DOC-75",
    level: Critical,
    title: "A server has no current view of a resource",
    harm: "A server has never listed a resource that policies read, or has heard nothing of it for longer than `--cluster-cache-max-age`. Calls that ask about it end with a policy error, and `mode` and `onError` decide about the request. The finding has the cause. \
The server says so in its Lease, or, where its Lease is old or missing, at `/policies`.",
    repair: "Most often a permission is missing (DOC-60): grant what `opgate manifests rbac` prints. Otherwise see the health of the API server, or of the server behind it that serves the resource; [more](../operate/cluster-cache.md#resources-that-are-not-ready).",
};

pub(in crate::cli::doctor) const INTERRUPTED: Doc = Doc {
    id: "DOC-76",
    level: Warning,
    title: "A server cannot watch a resource",
    harm: "The watch of a resource has failed for more than 5 s. The server still answers from what it knows, asks the API server directly where that must be exact, and has no answer when `--cluster-cache-max-age` is over.",
    repair: "The finding has the cause. While an API server restarts, this ends by itself; otherwise see its health, and `/readyz?verbose` of the pod; [more](../operate/cluster-cache.md#resources-that-are-not-ready).",
};

pub(in crate::cli::doctor) const RESERVATIONS: Doc = Doc {
    id: "DOC-77",
    level: Warning,
    title: "A tenant has nearly no room left for reservations",
    harm: "A tenant (a namespace and a user) uses 80 % or more of the [reservations](../operate/reservations.md) that it may have: it makes many requests that opgate allows and that are then not stored, for example because of a quota or another webhook. \
When there is no room left, its further requests for the resource get 503. Others have room of their own.",
    repair: "The finding names the tenant. Find out what its requests are refused for, in the audit log of the API server by user and namespace, and stop or repair that client. If it is an honest one, raise its room with a container of more memory and `--client-ca`.",
};
