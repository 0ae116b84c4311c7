//! Webhooks that keep a cluster from healing.

use super::Level::{Critical, Note, Warning};
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme = Theme {
    name: "lockout",
    title: "Lock-out",
    docs: &[&OWN_NAMESPACE, &SYSTEM, &VIRTUAL, &EVERYTHING, &NAMESPACES, &OLM],
};

pub(in crate::cli::doctor) const OWN_NAMESPACE: Doc = Doc {
    id: "DOC-30",
    level: Critical,
    title: "A webhook matches the namespace of its own servers",
    harm: "With `failurePolicy: Fail` the webhook matches what the servers need to start (pods, Deployments, Secrets, Leases and others) in their own namespace. Once no server \
answers, API servers refuse to create their pods: nothing starts any more.",
    repair: "Apply the output of `opgate manifests webhook`, which exempts the namespace. To get out of it now, delete the registration, wait until the servers are ready, and apply it again:\n\n    kubectl delete validatingwebhookconfiguration opgate",
};

pub(in crate::cli::doctor) const SYSTEM: Doc = Doc {
    id: "DOC-31",
    level: Critical,
    title: "A webhook matches what the cluster needs to recover",
    harm: "With `failurePolicy: Fail` the webhook matches Pods, Deployments, Leases, Secrets or other basic objects of `kube-system`, `kube-node-lease`, a namespace of OpenShift or of OLM, or Nodes. \
While no server answers, DNS, networks, controllers and nodes cannot be repaired, and nodes become `NotReady` if their Leases cannot be renewed.",
    repair: "Exempt these namespaces with `exclude.namespaces` of the policy, or set `onError: allow` or `mode: warn` for it. Then print and apply the registration again.",
};

pub(in crate::cli::doctor) const VIRTUAL: Doc = Doc {
    id: "DOC-32",
    level: Critical,
    title: "A webhook matches requests that are not stored",
    harm: "With `failurePolicy: Fail` a rule matches `subjectaccessreviews`, `tokenreviews` or similar resources, or everything (`*/*` of all API groups). API servers ask these for \
every request to an extension, and kubelets for every request to them. While no server answers, nobody is authorised, and the servers themselves cannot be started.",
    repair: "Name the API groups and resources that the policy judges, without wildcards. The finding names the webhook and the rule.",
};

pub(in crate::cli::doctor) const EVERYTHING: Doc = Doc {
    id: "DOC-33",
    level: Warning,
    title: "A webhook asks for everything",
    harm: "A rule matches all resources of all API groups, with `failurePolicy: Ignore` and without `matchConditions`. API servers send each write of the cluster, also Leases, Events \
and access reviews. While no server answers, each of them waits for `timeoutSeconds`.",
    repair: "Name the API groups and resources that the policy judges, or add conditions to its matches.",
};

pub(in crate::cli::doctor) const NAMESPACES: Doc = Doc {
    id: "DOC-34",
    level: Warning,
    title: "Nobody can create a namespace while no server answers",
    harm: "With `failurePolicy: Fail` and without `matchConditions` a webhook matches all Namespaces. With the conditions that `opgate manifests webhook` prints, API servers send only those with a \
label of pod security.",
    repair: "Print the registration without `--no-match-conditions` if the API servers are 1.28 or newer, and apply it. On older ones run at least two servers, or let the policy `pod-security` warn.",
};

pub(in crate::cli::doctor) const OLM: Doc = Doc {
    id: "DOC-35",
    level: Note,
    title: "OLM cannot repair itself while no server answers",
    harm: "With `failurePolicy: Fail` a webhook matches ClusterServiceVersions, OperatorGroups, Subscriptions or CatalogSources in a namespace in which OLM itself runs. OLM's own `packageserver` \
is such a ClusterServiceVersion.",
    repair: "Exclude the namespaces of OLM in each policy about its objects; [an example](../operate/webhooks.md#outages):\n\n    exclude:\n      namespaces: [openshift-operator-lifecycle-manager]",
};
