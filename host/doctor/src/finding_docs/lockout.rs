//! Webhooks that prevent a cluster from recovering.

use super::Level::{Critical, Note, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "lockout",
    title: "Lock-out",
    docs: &[
        &OWN_NAMESPACE,
        &RECOVERY_OBJECTS,
        &UNSTORED_RESOURCES,
        &ALL_RESOURCES,
        &ALL_NAMESPACES,
        &OLM_RECOVERY,
    ],
};

pub(crate) const OWN_NAMESPACE: Doc = Doc {
    id: "DOC-30",
    level: Critical,
    title: "A webhook matches the namespace of the opgate servers",
    impact: "With `failurePolicy: Fail` the webhook matches objects that the servers need to start (pods, Deployments, Secrets, Leases and others) in their own namespace. Once no server is available, API servers reject the creation of their pods, and no server can start.",
    remediation: "Apply the output of `opgate manifests webhook`, which exempts the namespace. To recover now, delete the webhook registration, wait until the servers are ready, and apply it again:\n\n    kubectl delete validatingwebhookconfiguration opgate",
};

pub(crate) const RECOVERY_OBJECTS: Doc = Doc {
    id: "DOC-31",
    level: Critical,
    title: "A webhook matches objects that the cluster needs to recover",
    impact: "With `failurePolicy: Fail` the webhook matches Pods, Deployments, Leases, Secrets or other basic objects of `kube-system`, `kube-node-lease`, a namespace of OpenShift or of OLM, or Nodes. \
While no server is available, DNS, networks, controllers and nodes cannot recover, and nodes become `NotReady` if their Leases cannot be renewed.",
    remediation: "Exempt these namespaces with `exclude.namespaces` of the policy, or set `onError: allow` or `mode: warn` for it. Then print and apply the webhook registration again.",
};

pub(crate) const UNSTORED_RESOURCES: Doc = Doc {
    id: "DOC-32",
    level: Critical,
    title: "A webhook matches requests that are not stored",
    impact: "With `failurePolicy: Fail` a rule matches `subjectaccessreviews`, `tokenreviews` or similar resources, or everything (`*/*` of all API groups). API servers create these objects for every request to an extension, and kubelets for every request to them. While no server is available, no request is authorised, and the servers themselves cannot start.",
    remediation: "List the API groups and resources that the policy evaluates, without wildcards. The finding names the webhook and the rule.",
};

pub(crate) const ALL_RESOURCES: Doc = Doc {
    id: "DOC-33",
    level: Warning,
    title: "A webhook matches all resources",
    impact: "A rule matches all resources of all API groups, with `failurePolicy: Ignore` and without `matchConditions`. API servers send each write of the cluster, including Leases, Events and access reviews. While no server is available, each of them waits for `timeoutSeconds`.",
    remediation: "List the API groups and resources that the policy evaluates, or add conditions to its matches.",
};

pub(crate) const ALL_NAMESPACES: Doc = Doc {
    id: "DOC-34",
    level: Warning,
    title: "Namespaces cannot be created while no server is available",
    impact: "With `failurePolicy: Fail` and without `matchConditions` a webhook matches all Namespaces. With the conditions that `opgate manifests webhook` prints, API servers send only those with a pod security label.",
    remediation: "Print the webhook registration without `--no-match-conditions` if the API servers are 1.28 or newer, and apply it. On older ones run at least two servers, or set `mode: warn` for the policy `pod-security`.",
};

pub(crate) const OLM_RECOVERY: Doc = Doc {
    id: "DOC-35",
    level: Note,
    title: "OLM cannot recover while no server is available",
    impact: "With `failurePolicy: Fail` a webhook matches ClusterServiceVersions, OperatorGroups, Subscriptions or CatalogSources in a namespace in which OLM itself runs. OLM's own `packageserver` \
is such a ClusterServiceVersion.",
    remediation: "Exclude the namespaces of OLM in each policy that matches its objects; [an example](../operate/webhooks.md#outages):\n\n    exclude:\n      namespaces: [openshift-operator-lifecycle-manager]",
};
