//! Whether API servers reach the servers.

use super::Level::{Critical, Warning};
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme = Theme {
    name: "reach",
    title: "Service and endpoints",
    docs: &[&NO_SERVICE, &NO_PODS, &NO_ENDPOINTS, &WRONG_PORT, &SHUT, &NOT_ALL_READY],
};

pub(in crate::cli::doctor) const NO_SERVICE: Doc = Doc {
    id: "DOC-10",
    level: Critical,
    title: "The Service does not exist",
    harm: "Webhooks call a Service that is not there. Every call fails: with `failurePolicy: Fail` API servers refuse the requests.",
    repair: "Create the Service, or, if opgate was removed, delete the registration first of all:\n\n    kubectl delete validatingwebhookconfiguration opgate",
};

pub(in crate::cli::doctor) const NO_PODS: Doc = Doc {
    id: "DOC-11",
    level: Critical,
    title: "The selector of the Service matches nothing",
    harm: "No pod, and no pod template of a Deployment in the namespace, has the labels that the Service selects; or the Service has no selector and no endpoints. \
No call arrives anywhere.",
    repair: "Compare the two, and correct the selector. The pods that opgate prints have the label `app.kubernetes.io/name: opgate`:\n\n    kubectl -n opgate-system get service opgate -o jsonpath='{.spec.selector}'\n    kubectl -n opgate-system get pods --show-labels",
};

pub(in crate::cli::doctor) const NO_ENDPOINTS: Doc = Doc {
    id: "DOC-12",
    level: Critical,
    title: "No server is ready",
    harm: "The Service has no ready endpoint: no pod runs, or none is ready. Every call fails. With `failurePolicy: Fail` nobody can write what the webhooks are about.",
    repair: "See why the pods are not ready; `/readyz?verbose` on the ops port names what is missing:\n\n    kubectl -n opgate-system get pods\n    kubectl -n opgate-system describe pods -l app.kubernetes.io/name=opgate\n    kubectl -n opgate-system logs deploy/opgate\n\n\
If that takes long and the cluster suffers, delete the registration, and apply it again when the servers are ready.",
};

pub(in crate::cli::doctor) const WRONG_PORT: Doc = Doc {
    id: "DOC-13",
    level: Critical,
    title: "The port does not lead to the servers",
    harm: "The Service does not have the port that the webhooks call, its `targetPort` has a name that no container has, or it leads to another port than the one on which the \
server listens (`--listen`, 9443 by default). Connections are refused, or reach the ops port, which speaks no TLS.",
    repair: "Webhooks call port 443 of the Service unless they name another one. `targetPort` is the port of `--listen`:\n\n    kubectl -n opgate-system patch service opgate --type=json -p '[{\"op\": \"replace\", \"path\": \"/spec/ports/0/targetPort\", \"value\": 9443}]'",
};

pub(in crate::cli::doctor) const SHUT: Doc = Doc {
    id: "DOC-14",
    level: Critical,
    title: "The network policy lets nobody reach the webhook port",
    harm: "NetworkPolicies select the pods of the servers, and no rule of them admits the webhook port. Where the network enforces them, every call of an API server times out.",
    repair: "Print the policy with the addresses of your API servers, and apply it:\n\n    opgate manifests network-policy --api-server 10.0.0.11/32 | kubectl apply -f -",
};

pub(in crate::cli::doctor) const NOT_ALL_READY: Doc = Doc {
    id: "DOC-15",
    level: Warning,
    title: "Some servers are not ready",
    harm: "Fewer pods are ready than the Deployment wants. During an update that lasts seconds. If it lasts longer, the next failure leaves no server.",
    repair: "See why, as for [DOC-12](#doc-12).",
};
