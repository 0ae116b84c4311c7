//! The registration, and the configuration that it belongs to.

use super::Level::{Critical, Warning};
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme = Theme {
    name: "registration",
    title: "Registration and configuration",
    docs: &[
        &NOT_REGISTERED,
        &NOT_OWNED,
        &STALE,
        &UNKNOWN_POLICY,
        &TWICE,
        &SLOW,
        &CONDITIONS,
        &CONFIG_MISSING,
        &CONFIG_BROKEN,
    ],
};

pub(in crate::cli::doctor) const NOT_REGISTERED: Doc = Doc {
    id: "DOC-01",
    level: Critical,
    title: "No webhook calls this installation",
    harm: "No ValidatingWebhookConfiguration has a webhook whose `clientConfig` names the Service of the installation (or its URL). API servers send \
no request, and nothing is judged.",
    repair: "Wait until the servers are ready, then register them:\n\n    opgate manifests webhook --config opgate.yaml --service opgate-system/opgate --ca tls/ca.crt | kubectl apply -f -\n\n\
If the installation has another name, give it to the doctor: `--installation NAMESPACE/SERVICE`.",
};

pub(in crate::cli::doctor) const NOT_OWNED: Doc = Doc {
    id: "DOC-02",
    level: Warning,
    title: "The registration is not marked as that of the installation",
    harm: "Servers that keep their own certificate or registration write only to a ValidatingWebhookConfiguration with the label \
`opgate.dev/installation: NAMESPACE` and the annotation `opgate.dev/owner: NAMESPACE/SERVICE`. This one has not both of them, and the servers run \
with `--certificates self-managed` or `--manage-webhooks`: they will not update its `caBundle` when the CA changes, and every call will fail \
from then on.",
    repair: "Apply the output of `opgate manifests webhook`, which has both, or set them:\n\n    kubectl label validatingwebhookconfiguration opgate opgate.dev/installation=opgate-system\n    \
kubectl annotate validatingwebhookconfiguration opgate opgate.dev/owner=opgate-system/opgate",
};

pub(in crate::cli::doctor) const STALE: Doc = Doc {
    id: "DOC-03",
    level: Warning,
    title: "The registration is not the one that belongs to the configuration",
    harm: "Webhooks are missing, are too many, or differ from what `opgate manifests webhook` prints for the configuration: it was changed \
and the registration was not applied again, or somebody has edited it. Requests that rules need are not sent, or others are sent for nothing. \
The finding names the fields. The `caBundle`, the order and what API servers add do not count.",
    repair: "Print it again with the configuration that the servers have, look at the difference, and apply it:\n\n    opgate manifests webhook --config opgate.yaml --service opgate-system/opgate --ca tls/ca.crt > webhook.yaml\n    \
kubectl diff -f webhook.yaml\n    kubectl apply -f webhook.yaml\n\nTo exempt more namespaces, use `exclude.namespaces` of the policies, not the selector of the webhook.",
};

pub(in crate::cli::doctor) const UNKNOWN_POLICY: Doc = Doc {
    id: "DOC-04",
    level: Critical,
    title: "A webhook calls a policy that the configuration does not have",
    harm: "The path of the webhook names a policy that no server serves. Each call is answered with 404. With `failurePolicy: Fail` every request \
that the webhook matches is refused; with `Ignore` nobody judges it.",
    repair: "Apply the registration that belongs to the configuration (see [DOC-03](#doc-03)). To remove a policy, apply the new registration first, and \
change the configuration of the servers after that.",
};

pub(in crate::cli::doctor) const TWICE: Doc = Doc {
    id: "DOC-05",
    level: Warning,
    title: "Two configurations call the same installation",
    harm: "More than one ValidatingWebhookConfiguration calls the Service. API servers send each request once for each of them. Usually one is left over \
from an earlier installation: nobody updates its `caBundle` and its rules.",
    repair: "Delete the one that you do not apply any more:\n\n    kubectl delete validatingwebhookconfiguration NAME",
};

pub(in crate::cli::doctor) const SLOW: Doc = Doc {
    id: "DOC-06",
    level: Warning,
    title: "A webhook may take longer than 10 s",
    harm: "`timeoutSeconds` is above 10. While no server answers, every matching request waits for so long, and holds one of the API server's \
requests in flight. Many controllers give up earlier.",
    repair: "Lower `limits.time` of the policies, then print and apply the registration again. `timeoutSeconds` is the longest `limits.time` and one second.",
};

pub(in crate::cli::doctor) const CONDITIONS: Doc = Doc {
    id: "DOC-07",
    level: Warning,
    title: "The API server does not know matchConditions",
    harm: "API servers know `matchConditions` since Kubernetes 1.28. An older one drops them, or refuses the whole configuration. Without them it sends every write of \
the kinds concerned, such as all ConfigMaps and all Pods.",
    repair: "Print the registration for such API servers, and apply it:\n\n    opgate manifests webhook --no-match-conditions --config opgate.yaml --service opgate-system/opgate --ca tls/ca.crt | kubectl apply -f -",
};

pub(in crate::cli::doctor) const CONFIG_MISSING: Doc = Doc {
    id: "DOC-08",
    level: Critical,
    title: "The configuration is missing",
    harm: "The pods mount a ConfigMap that does not exist, or that does not have the file that `--config` names. New pods do not start.",
    repair: "Create it from the configuration:\n\n    kubectl -n opgate-system create configmap opgate --from-file=opgate.yaml",
};

pub(in crate::cli::doctor) const CONFIG_BROKEN: Doc = Doc {
    id: "DOC-09",
    level: Critical,
    title: "The configuration cannot be used",
    harm: "The configuration in the cluster does not parse, or its policies refuse it. Servers that run keep the last good one, if they have one. A pod that \
starts now ends at once, so the next node failure or update takes the webhook away.",
    repair: "Check the file before you apply it, and repair what the message names:\n\n    opgate rules --config opgate.yaml",
};
