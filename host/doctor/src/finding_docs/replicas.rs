//! Servers that differ from each other, or that do not renew their Lease.

use super::Level::{Critical, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "replicas",
    title: "Differences between servers",
    docs: &[&VERSIONS_DIFFER, &CONFIGURATIONS_DIFFER, &CA_BUNDLES_DIFFER, &LEASE_STALE],
};

pub(crate) const VERSIONS_DIFFER: Doc = Doc {
    id: "DOC-70",
    level: Warning,
    title: "Servers have different versions",
    impact: "The Leases of the servers (`opgate-replica-…`) name different versions, or their pods run images with different digests. During an update this state lasts seconds. If it lasts longer, the same request can get two different decisions, and the webhook registration follows the older version.",
    remediation: "Check why the update does not complete:\n\n    kubectl -n opgate-system rollout status deployment opgate",
};

pub(crate) const CONFIGURATIONS_DIFFER: Doc = Doc {
    id: "DOC-71",
    level: Warning,
    title: "Servers have different configurations",
    impact: "The Leases of the servers name different digests of their configuration or of the webhook registration that belongs to it. After a change of the ConfigMap this state lasts a minute or two. If it lasts longer, one of them cannot load the new configuration and keeps the last good one: the same request can get two different decisions.",
    remediation: "Find the error in the log of the server that the finding names, and in its `/policies` and `/readyz?verbose`. Fix the configuration, or restart the pod.",
};

pub(crate) const CA_BUNDLES_DIFFER: Doc = Doc {
    id: "DOC-72",
    level: Warning,
    title: "Servers have different CA bundles",
    impact: "The Leases of the servers name different digests of the CA bundle (`opgate.dev/ca`). The leader does not complete the rotation of a CA before all servers have seen the new bundle. If this state lasts longer than a few minutes, the rotation is blocked.",
    remediation: "Check whether the volume of the Secret is updated on the node of the server that the finding names, and restart its pod if it is not.",
};

pub(crate) const LEASE_STALE: Doc = Doc {
    id: "DOC-73",
    level: Critical,
    title: "A server does not renew its Lease",
    impact: "The pod of a server runs, but its Lease `opgate-replica-…` was not renewed for more than a minute (it is renewed every 10 s), or it has none; or no server has renewed `opgate-leader`. \
The server cannot write to the API server: most often the API server rejects its token (DOC-74), a permission for Leases is missing, or a NetworkPolicy blocks the connection. \
In most of these cases it cannot read either: after `--cluster-cache-max-age` (5 minutes) calls that query the cluster fail. Without a leader, no server renews certificates and webhook registrations. \
In a dump, the doctor compares Leases with the newest Lease in it; the comparison is exact if the dump has those of nodes (`kube-node-lease`).",
    remediation: "The log of the pod contains the reason (`the lease of this replica cannot be renewed`), and so does `/readyz?verbose`:\n\n    kubectl -n opgate-system logs -l app.kubernetes.io/name=opgate --prefix --since=10m | grep -i lease\n\n\
If the API server rejects the token, check that the ServiceAccount exists, and replace the pods; [more](../operate/cluster-cache.md#rejected-tokens):\n\n    kubectl -n opgate-system get serviceaccount opgate\n    kubectl -n opgate-system rollout restart deployment opgate",
};
