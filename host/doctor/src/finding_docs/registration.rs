//! The webhook registration, and the configuration that it belongs to.

use super::Level::{Critical, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "registration",
    title: "Webhook registration and configuration",
    docs: &[
        &NOT_REGISTERED,
        &NOT_OWNED,
        &OUTDATED_REGISTRATION,
        &UNKNOWN_POLICY,
        &DUPLICATE_REGISTRATION,
        &LONG_TIMEOUT,
        &UNSUPPORTED_CONDITIONS,
        &CONFIG_MISSING,
        &CONFIG_INVALID,
    ],
};

pub(crate) const NOT_REGISTERED: Doc = Doc {
    id: "DOC-01",
    level: Critical,
    title: "No webhook calls this installation",
    impact: "No ValidatingWebhookConfiguration has a webhook whose `clientConfig` names the Service of the installation (or its URL). API servers send no requests, and opgate evaluates nothing.",
    remediation: "Wait until the servers are ready, then register them:\n\n    opgate manifests webhook --config opgate.yaml --service opgate-system/opgate --ca tls/ca.crt | kubectl apply -f -\n\n\
If the installation has another name, pass it to the doctor: `--installation NAMESPACE/SERVICE`.",
};

pub(crate) const NOT_OWNED: Doc = Doc {
    id: "DOC-02",
    level: Warning,
    title: "The webhook registration does not belong to the installation",
    impact: "Servers that manage their certificate or webhook registration write only to a ValidatingWebhookConfiguration with the label \
`opgate.dev/installation: NAMESPACE` and the annotation `opgate.dev/owner: NAMESPACE/SERVICE`. This one lacks at least one of them, and the servers run with `--certificates self-managed` or `--manage-webhooks`: they will not update its `caBundle` when the CA changes, and every call will fail \
from then on.",
    remediation: "Apply the output of `opgate manifests webhook`, which has both, or set them:\n\n    kubectl label validatingwebhookconfiguration opgate opgate.dev/installation=opgate-system\n    \
kubectl annotate validatingwebhookconfiguration opgate opgate.dev/owner=opgate-system/opgate",
};

pub(crate) const OUTDATED_REGISTRATION: Doc = Doc {
    id: "DOC-03",
    level: Warning,
    title: "The webhook registration does not match the configuration",
    impact: "Webhooks are missing, redundant, or differ from the output of `opgate manifests webhook` for the configuration: the configuration was changed and the webhook registration was not applied again, or a user has edited it. API servers do not send requests that rules need, or send unnecessary ones. The finding names the fields. The doctor ignores the `caBundle`, the order and defaults that API servers add.",
    remediation: "Print it again with the configuration of the servers, review the difference, and apply it:\n\n    opgate manifests webhook --config opgate.yaml --service opgate-system/opgate --ca tls/ca.crt > webhook.yaml\n    \
kubectl diff -f webhook.yaml\n    kubectl apply -f webhook.yaml\n\nTo exempt more namespaces, use `exclude.namespaces` of the policies, not the selector of the webhook.",
};

pub(crate) const UNKNOWN_POLICY: Doc = Doc {
    id: "DOC-04",
    level: Critical,
    title: "A webhook calls a policy that the configuration does not have",
    impact: "The path of the webhook names a policy that no server has. Servers respond to each call with 404. With `failurePolicy: Fail` API servers reject every request that the webhook matches; with `Ignore` no policy evaluates it.",
    remediation: "Apply the webhook registration that belongs to the configuration (see [DOC-03](#doc-03)). To remove a policy, first apply the new webhook registration, then change the configuration of the servers.",
};

pub(crate) const DUPLICATE_REGISTRATION: Doc = Doc {
    id: "DOC-05",
    level: Warning,
    title: "Two webhook configurations call the same installation",
    impact: "More than one ValidatingWebhookConfiguration calls the Service. API servers send each request once for each of them. Usually one remains from an earlier installation, and its `caBundle` and rules are no longer updated.",
    remediation: "Delete the one that you no longer apply:\n\n    kubectl delete validatingwebhookconfiguration NAME",
};

pub(crate) const LONG_TIMEOUT: Doc = Doc {
    id: "DOC-06",
    level: Warning,
    title: "A webhook may take longer than 10 s",
    impact: "`timeoutSeconds` is above 10. While no server is available, every matching request waits for this time, and uses one of the API server's requests in flight. Many controllers time out earlier.",
    remediation: "Lower `limits.time` of the policies, then print and apply the webhook registration again. `timeoutSeconds` is the longest `limits.time` plus one second.",
};

pub(crate) const UNSUPPORTED_CONDITIONS: Doc = Doc {
    id: "DOC-07",
    level: Warning,
    title: "The API server does not support matchConditions",
    impact: "API servers support `matchConditions` since Kubernetes 1.28. An older one drops them, or rejects the whole configuration. Without them it sends every write of the matched kinds, such as all ConfigMaps and all Pods.",
    remediation: "Print the webhook registration for such API servers, and apply it:\n\n    opgate manifests webhook --no-match-conditions --config opgate.yaml --service opgate-system/opgate --ca tls/ca.crt | kubectl apply -f -",
};

pub(crate) const CONFIG_MISSING: Doc = Doc {
    id: "DOC-08",
    level: Critical,
    title: "The configuration is missing",
    impact: "The pods mount a ConfigMap that does not exist, or that does not have the file that `--config` names. New pods do not start.",
    remediation: "Create it from the configuration:\n\n    kubectl -n opgate-system create configmap opgate --from-file=opgate.yaml",
};

pub(crate) const CONFIG_INVALID: Doc = Doc {
    id: "DOC-09",
    level: Critical,
    title: "The configuration is invalid",
    impact: "The configuration in the cluster does not parse, or its policies reject it. Running servers keep the last good one, if they have one. A new pod exits immediately, so the next node failure or update makes the webhook unavailable.",
    remediation: "Check the file before you apply it, and fix the errors in the message:\n\n    opgate rules --config opgate.yaml",
};
