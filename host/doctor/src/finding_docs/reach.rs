//! Connectivity between API servers and the servers.

use super::Level::{Critical, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "reach",
    title: "Service and endpoints",
    docs: &[&NO_SERVICE, &NO_PODS, &NO_ENDPOINTS, &WRONG_PORT, &PORT_BLOCKED, &NOT_ALL_READY],
};

pub(crate) const NO_SERVICE: Doc = Doc {
    id: "DOC-10",
    level: Critical,
    title: "The Service does not exist",
    impact: "Webhooks call a Service that does not exist. Every call fails: with `failurePolicy: Fail` API servers reject the requests.",
    remediation: "Create the Service, or, if opgate was removed, first delete the webhook registration:\n\n    kubectl delete validatingwebhookconfiguration opgate",
};

pub(crate) const NO_PODS: Doc = Doc {
    id: "DOC-11",
    level: Critical,
    title: "The selector of the Service matches no pods",
    impact: "No pod, and no pod template of a Deployment in the namespace, has the labels that the Service selects; or the Service has no selector and no endpoints. \
No call reaches a server.",
    remediation: "Compare the two, and correct the selector. The pods that opgate prints have the label `app.kubernetes.io/name: opgate`:\n\n    kubectl -n opgate-system get service opgate -o jsonpath='{.spec.selector}'\n    kubectl -n opgate-system get pods --show-labels",
};

pub(crate) const NO_ENDPOINTS: Doc = Doc {
    id: "DOC-12",
    level: Critical,
    title: "No server is ready",
    impact: "The Service has no ready endpoint: no pod runs, or none is ready. Every call fails. With `failurePolicy: Fail` API servers reject writes of all objects that the webhooks match.",
    remediation: "Check why the pods are not ready; `/readyz?verbose` on the ops port lists the reasons:\n\n    kubectl -n opgate-system get pods\n    kubectl -n opgate-system describe pods -l app.kubernetes.io/name=opgate\n    kubectl -n opgate-system logs deploy/opgate\n\n\
If the outage affects the cluster, delete the webhook registration, and apply it again when the servers are ready.",
};

pub(crate) const WRONG_PORT: Doc = Doc {
    id: "DOC-13",
    level: Critical,
    title: "The Service port does not reach the servers",
    impact: "The Service does not have the port that the webhooks call, its `targetPort` has a name that no container has, or it points to another port than the one on which the server listens (`--listen`, 9443 by default). Connections are refused, or reach the ops port, which does not serve TLS.",
    remediation: "Webhooks call port 443 of the Service unless they name another one. `targetPort` is the port of `--listen`:\n\n    kubectl -n opgate-system patch service opgate --type=json -p '[{\"op\": \"replace\", \"path\": \"/spec/ports/0/targetPort\", \"value\": 9443}]'",
};

pub(crate) const PORT_BLOCKED: Doc = Doc {
    id: "DOC-14",
    level: Critical,
    title: "A NetworkPolicy blocks the webhook port",
    impact: "NetworkPolicies select the pods of the servers, and none of their rules admits the webhook port. If the network enforces them, every call of an API server times out.",
    remediation: "Print the policy with the addresses of your API servers, and apply it:\n\n    opgate manifests network-policy --api-server 10.0.0.11/32 | kubectl apply -f -",
};

pub(crate) const NOT_ALL_READY: Doc = Doc {
    id: "DOC-15",
    level: Warning,
    title: "Some servers are not ready",
    impact: "Fewer pods are ready than the Deployment requests. During an update this state lasts seconds. If it lasts longer, the next failure leaves no server.",
    remediation: "Check the reasons, as for [DOC-12](#doc-12).",
};
