//! The cluster cache of the servers.

use super::Level::{Critical, Warning};
use super::{Doc, Topic};

pub(crate) const THEME: Topic = Topic {
    name: "cache",
    title: "Cluster cache",
    docs: &[
        &TOKEN_REJECTED,
        &CACHE_NOT_READY,
        &WATCH_FAILED,
        &RESERVATION_LIMIT,
        &LEDGER_UNUSABLE,
        &LOCAL_RESERVATIONS,
    ],
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

pub(crate) const RESERVATION_LIMIT: Doc = Doc {
    id: "DOC-77",
    level: Warning,
    title: "A tenant has nearly reached its reservation limit",
    impact: "A tenant (a namespace and a user) uses 80 % or more of its [reservations](../operate/reservations.md): it sends many requests that opgate allows and that are then not stored, for example because of a quota or another webhook. \
When the tenant reaches the limit, the server responds to its further requests for the resource with 503. Other tenants have separate limits.",
    remediation: "The finding names the tenant. Find the reason for the rejected requests in the audit log of the API server by user and namespace, and stop or fix that client. If the load is legitimate, raise the limit with `--client-ca`.",
};

pub(crate) const LEDGER_UNUSABLE: Doc = Doc {
    id: "DOC-78",
    level: Critical,
    title: "A server cannot use the ledger of reservations, or it is nearly full",
    impact: "The servers share their [reservations](../operate/reservations.md#replicas) in the ConfigMap `opgate-reservations`. A server that cannot read or write it fails requests that would reserve a change, and `onError` decides about them. \
If the ledger is full, such requests get 503.",
    remediation: "The finding has the reason. The [table of reasons](../operate/reservations.md#replicas) has the remedies. If it is nearly full, find the tenant with the most reservations in `/policies`.",
};

pub(crate) const LOCAL_RESERVATIONS: Doc = Doc {
    id: "DOC-79",
    level: Warning,
    title: "Several servers do not share their reservations",
    impact: "The configuration has `reservations: local`, or the servers have no `--installation`, and several servers run. Two requests that exclude each other can both be allowed if they reach two servers within milliseconds: rules that compare objects, such as OPG-01, are then broken in the cluster.",
    remediation: "Remove `reservations: local` from the configuration, and restart the servers. Servers outside of an installation need `--installation` and the [permissions for the ledger](../operate/reservations.md#replicas).",
};
