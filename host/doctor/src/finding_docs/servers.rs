//! The pods of the servers, their number, and their clients.

use super::Level::{Critical, Note, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "servers",
    title: "Servers and clients",
    docs: &[
        &TOO_FEW_REPLICAS,
        &NO_DISRUPTION_BUDGET,
        &EVICTIONS_BLOCKED,
        &SINGLE_NODE,
        &SHORT_GRACE_PERIOD,
        &NO_READINESS,
        &UPDATE_INTERRUPTS,
        &NO_MEMORY_LIMIT,
        &CPU_LIMIT,
        &EXCESSIVE_PRIVILEGES,
        &OPEN_TO_ALL_PODS,
        &NO_CLIENT_CA,
        &NO_NETWORK_POLICY,
        &NO_SERVICE_ACCOUNT,
        &NO_TOKEN,
    ],
};

pub(crate) const TOO_FEW_REPLICAS: Doc = Doc {
    id: "DOC-40",
    level: Warning,
    title: "failurePolicy Fail with fewer than two servers",
    impact: "A webhook has `failurePolicy: Fail`, and the Deployment has fewer than two replicas. Whenever the only pod is moved or restarted, API servers reject the requests that the webhook matches.",
    remediation: "Run two or more:\n\n    kubectl -n opgate-system scale deployment opgate --replicas=2",
};

pub(crate) const NO_DISRUPTION_BUDGET: Doc = Doc {
    id: "DOC-41",
    level: Warning,
    title: "No PodDisruptionBudget protects the servers",
    impact: "A webhook has `failurePolicy: Fail`, and no PodDisruptionBudget selects the pods of the servers, or the one that does allows the eviction of all of them. A drain of several nodes can evict all servers at the same time.",
    remediation: "Allow the eviction of one pod at a time:\n\n    kubectl -n opgate-system create poddisruptionbudget opgate --selector=app.kubernetes.io/name=opgate --max-unavailable=1",
};

pub(crate) const EVICTIONS_BLOCKED: Doc = Doc {
    id: "DOC-42",
    level: Warning,
    title: "The PodDisruptionBudget blocks all evictions",
    impact: "The budget of the servers allows no disruption even if all of them are ready (`maxUnavailable: 0`, or `minAvailable` as large as the number of replicas). Drains of their nodes never complete, and neither do updates of the cluster.",
    remediation: "Set `maxUnavailable: 1`:\n\n    kubectl -n opgate-system patch poddisruptionbudget opgate --type=merge -p '{\"spec\": {\"minAvailable\": null, \"maxUnavailable\": 1}}'",
};

pub(crate) const SINGLE_NODE: Doc = Doc {
    id: "DOC-43",
    level: Warning,
    title: "All servers are on one node",
    impact: "All pods of the servers run on the same node, although the cluster has others. If the node fails, no server is available until the pods are moved, which takes minutes.",
    remediation: "Spread them with `topologySpreadConstraints` (`topologyKey: kubernetes.io/hostname`), as the manifests of opgate do, then restart them:\n\n    kubectl -n opgate-system rollout restart deployment opgate",
};

pub(crate) const SHORT_GRACE_PERIOD: Doc = Doc {
    id: "DOC-44",
    level: Warning,
    title: "The pod is killed before the server has drained",
    impact: "`terminationGracePeriodSeconds` is less than a server needs: `--drain-delay` and `--grace-period` together, then 2 s to close idle connections, 3 s to end its leases (with `--installation`), and 5 s to write the last records and traces (with `--record` or `--otlp-endpoint`). Each update interrupts requests in progress, or loses records and traces.",
    remediation: "Set it to 45, as the manifests of opgate do, or to at least 10 s more than `--drain-delay` and `--grace-period` together.",
};

pub(crate) const NO_READINESS: Doc = Doc {
    id: "DOC-45",
    level: Warning,
    title: "Pods get calls before they are ready",
    impact: "The container has no `readinessProbe` for `/readyz` on the ops port. A new pod is an endpoint before its policies are loaded and the cluster cache is synced, and it remains one while it drains. These calls fail.",
    remediation: "Add the probe:\n\n    readinessProbe:\n      httpGet: {path: /readyz, port: 8081}\n      periodSeconds: 2",
};

pub(crate) const UPDATE_INTERRUPTS: Doc = Doc {
    id: "DOC-46",
    level: Warning,
    title: "An update stops all servers at once",
    impact: "The strategy of the Deployment is `Recreate`, or its `maxUnavailable` is as large as the number of replicas. At each update no server is available for some seconds.",
    remediation: "Replace the pods one after the other:\n\n    kubectl -n opgate-system patch deployment opgate --type=merge -p '{\"spec\": {\"strategy\": {\"type\": \"RollingUpdate\", \"rollingUpdate\": {\"maxUnavailable\": 0, \"maxSurge\": 1}}}}'",
};

pub(crate) const NO_MEMORY_LIMIT: Doc = Doc {
    id: "DOC-47",
    level: Warning,
    title: "The container has no memory limit",
    impact: "The server derives its own limits from that of the container. Without a limit it assumes the memory of the node, and the node may kill it, or other pods, when memory is short.",
    remediation: "Set a limit, and a request of the same size if possible; [recommended sizes](../operate/start-a-server.md#memory-and-connections):\n\n    kubectl -n opgate-system set resources deployment opgate --limits=memory=512Mi",
};

pub(crate) const CPU_LIMIT: Doc = Doc {
    id: "DOC-48",
    level: Warning,
    title: "The container has a CPU limit",
    impact: "A call needs a CPU for about a millisecond. A CPU limit throttles the whole server for up to 100 ms when its share of a period is used: calls are delayed, and long ones time out.",
    remediation: "Remove the limit, and keep the request:\n\n    kubectl -n opgate-system patch deployment opgate --type=json -p '[{\"op\": \"remove\", \"path\": \"/spec/template/spec/containers/0/resources/limits/cpu\"}]'",
};

pub(crate) const EXCESSIVE_PRIVILEGES: Doc = Doc {
    id: "DOC-49",
    level: Note,
    title: "The container has unnecessary privileges",
    impact: "The server needs no privileges: it runs as any user, with a read-only root filesystem, without capabilities. This container lacks these restrictions.",
    remediation: "Set the security context of opgate's manifests: `runAsNonRoot: true`, `allowPrivilegeEscalation: false`, `readOnlyRootFilesystem: true`, `capabilities: {drop: [ALL]}`, `seccompProfile: {type: RuntimeDefault}`.",
};

pub(crate) const OPEN_TO_ALL_PODS: Doc = Doc {
    id: "DOC-50",
    level: Warning,
    title: "Every pod in the cluster can call the webhook",
    impact: "The servers run without `--client-ca`, and no NetworkPolicy selects their pods. Every pod can request decisions, reserve objects that do not exist, and learn from responses which namespaces and accounts exist.",
    remediation: "Restrict the port in one of the two ways, or both; [instructions](../operate/restrict-clients.md):\n\n    opgate manifests network-policy --api-server 10.0.0.11/32 | kubectl apply -f -",
};

pub(crate) const NO_CLIENT_CA: Doc = Doc {
    id: "DOC-51",
    level: Note,
    title: "Clients need no certificate",
    impact: "A NetworkPolicy selects the pods, but the servers run without `--client-ca`: all clients that the NetworkPolicy admits can call the webhook. If its rule for the port names no addresses, it admits all clients. Otherwise it admits all processes with an address of an API server, such as pods on the network of its node.",
    remediation: "List the addresses of the API servers in the NetworkPolicy (`opgate manifests network-policy --api-server CIDR`). Configure a client certificate for the API servers, and its CA for opgate; [instructions](../operate/restrict-clients.md). Managed control planes usually do not allow this: then ignore the finding.",
};

pub(crate) const NO_NETWORK_POLICY: Doc = Doc {
    id: "DOC-52",
    level: Note,
    title: "No NetworkPolicy protects the servers",
    impact: "Clients need a certificate, but no NetworkPolicy selects the pods: every pod can open connections to the webhook port, and read the ops port, which needs no certificate.",
    remediation: "Print a NetworkPolicy with the addresses of your API servers, and apply it:\n\n    opgate manifests network-policy --api-server 10.0.0.11/32 --metrics-from monitoring | kubectl apply -f -",
};

pub(crate) const NO_SERVICE_ACCOUNT: Doc = Doc {
    id: "DOC-53",
    level: Critical,
    title: "The ServiceAccount of the pods does not exist",
    impact: "The pods name a ServiceAccount that does not exist in the namespace. API servers reject new pods.",
    remediation: "Create it:\n\n    kubectl -n opgate-system create serviceaccount opgate",
};

pub(crate) const NO_TOKEN: Doc = Doc {
    id: "DOC-54",
    level: Critical,
    title: "The servers have no token to read the cluster",
    impact: "`automountServiceAccountToken` is `false`, no volume projects a token, and the servers run without `--cluster-source none` and without a kubeconfig. They exit when they start: `in-cluster credentials: …`.",
    remediation: "Remove `automountServiceAccountToken: false` from the pods and from the ServiceAccount, or set `--cluster-source none` if no rule needs other objects.",
};
