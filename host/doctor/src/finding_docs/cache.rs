//! The cluster cache of the servers.

use super::Level::{Critical, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "cache",
    title: "Cluster cache",
    docs: &[&TOKEN_REJECTED, &CACHE_NOT_READY, &WATCH_FAILED],
};

pub(crate) const TOKEN_REJECTED: Doc = Doc {
    id: "DOC-74",
    level: Critical,
    title: "The API server does not accept the token of a server",
    impact: "The API server responds to the server with 401: it cannot authenticate the server, and no permission helps. The token has expired, its ServiceAccount or its Pod was deleted (even if one of the same name was created since), \
its audience is not one of the API server, the key that signed it was replaced, or clocks differ by hours. Calls that query the cluster fail when the cluster cache is older than `--cluster-cache-max-age`; the server does not renew certificates and webhook registrations.",
    remediation: "Check that the ServiceAccount exists, that the token volume of the pod is projected (`serviceAccountToken`, which the kubelet renews), and the clocks; then replace the pods. [More](../operate/cluster-cache.md#rejected-tokens):\n\n    kubectl -n opgate-system get serviceaccount opgate\n    kubectl -n opgate-system rollout restart deployment opgate",
};

pub(crate) const CACHE_NOT_READY: Doc = Doc {
    id: "DOC-75",
    level: Critical,
    title: "The cluster cache of a resource is not ready",
    impact: "A server has never listed a resource that policies read, or has received no data about it for longer than `--cluster-cache-max-age`. Calls that query it end with a policy error, and `mode` and `onError` determine the decision. The finding names the cause. \
The server reports this in its Lease, or, if its Lease is old or missing, at `/policies`.",
    remediation: "Most often a permission is missing (DOC-60): grant the permissions that `opgate manifests rbac` prints. Otherwise check the health of the API server, or of the aggregated API server that serves the resource; [more](../operate/cluster-cache.md#resources-that-are-not-ready).",
};

pub(crate) const WATCH_FAILED: Doc = Doc {
    id: "DOC-76",
    level: Warning,
    title: "A server cannot watch a resource",
    impact: "The watch of a resource has failed for more than 5 s. The server still uses its cluster cache, reads the decisive objects directly from the API server, and reports a policy error when the cache is older than `--cluster-cache-max-age`.",
    remediation: "The finding names the cause. While an API server restarts, the problem is temporary; otherwise check its health, and `/readyz?verbose` of the pod; [more](../operate/cluster-cache.md#resources-that-are-not-ready).",
};
