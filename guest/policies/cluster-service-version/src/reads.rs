//! The cluster objects that the policy reads. Each rule declares the reads that it needs, so a
//! server watches nothing for rules that are off.

use opgate_sdk::{ClusterRead, Index, copies};

/// ClusterServiceVersions without the label of OLM's copies.
pub(crate) static CSVS: ClusterRead = ClusterRead {
    group: "operators.coreos.com",
    version: "v1alpha1",
    resource: "clusterserviceversions",
    fields: &[
        "/metadata/annotations/olm.properties",
        "/metadata/annotations/operatorframework.io~1properties",
        "/metadata/annotations/operators.openshift.io~1infrastructure-features",
        "/metadata/annotations/features.operators.openshift.io~1disconnected",
        copies::OPERATOR_NAMESPACE,
        "/spec/version",
        "/spec/replaces",
        "/spec/skips",
        "/spec/installModes",
        "/spec/customresourcedefinitions/owned/*/name",
        "/spec/customresourcedefinitions/owned/*/version",
        "/spec/customresourcedefinitions/owned/*/kind",
        "/spec/customresourcedefinitions/required/*/name",
        "/spec/customresourcedefinitions/required/*/version",
        "/spec/customresourcedefinitions/required/*/kind",
        "/spec/apiservicedefinitions/owned/*/group",
        "/spec/apiservicedefinitions/owned/*/version",
        "/spec/apiservicedefinitions/owned/*/kind",
        "/spec/apiservicedefinitions/required/*/group",
        "/spec/apiservicedefinitions/required/*/version",
        "/spec/apiservicedefinitions/required/*/kind",
        "/spec/webhookdefinitions/*/type",
        "/spec/webhookdefinitions/*/conversionCRDs",
        "/status/phase",
        "/status/reason",
    ],
    label_selector: r#"{"matchExpressions":[{"key":"olm.copiedFrom","operator":"DoesNotExist"}]}"#,
    indexes: &[
        Index { name: "word", field: "/metadata/name", separator: "." },
        Index { name: "label-word", field: "/metadata/labels/#", separator: "." },
        Index { name: "replaces", field: "/spec/replaces", separator: "" },
        Index { name: "crd", field: "/spec/customresourcedefinitions/owned/*/name", separator: "" },
        Index {
            name: "required-crd",
            field: "/spec/customresourcedefinitions/required/*/name",
            separator: "",
        },
        Index {
            name: "apiservice",
            field: "/spec/apiservicedefinitions/owned/*/{group}~1{version}",
            separator: "",
        },
        Index {
            name: "required-apiservice",
            field: "/spec/apiservicedefinitions/required/*/{group}~1{version}",
            separator: "",
        },
        Index {
            name: "conversion",
            field: "/spec/webhookdefinitions/*/conversionCRDs/*",
            separator: "",
        },
    ],
    ..ClusterRead::EMPTY
};

/// CRDs: the versions that they serve.
pub(crate) static CRDS: ClusterRead = ClusterRead {
    group: "apiextensions.k8s.io",
    version: "v1",
    resource: "customresourcedefinitions",
    fields: &[
        "/spec/versions/*/name",
        "/spec/versions/*/served",
        "/spec/names/kind",
        "/spec/preserveUnknownFields",
    ],
    ..ClusterRead::EMPTY
};

/// `APIService`s, named `<version>.<group>`.
pub(crate) static API_SERVICES: ClusterRead = ClusterRead {
    group: "apiregistration.k8s.io",
    version: "v1",
    resource: "apiservices",
    ..ClusterRead::EMPTY
};

/// The version of the API server: one object, `kubernetes`, that the host provides.
pub(crate) static SERVER_VERSIONS: ClusterRead = ClusterRead {
    group: "opgate.dev",
    version: "v1alpha1",
    resource: "serverversions",
    fields: &["/gitVersion"],
    ..ClusterRead::EMPTY
};

/// The version of an OpenShift cluster: one object, `version`. There is none on other clusters.
pub(crate) static CLUSTER_VERSIONS: ClusterRead = ClusterRead {
    group: "config.openshift.io",
    version: "v1",
    resource: "clusterversions",
    fields: &["/status/desired/version", "/status/history/*/state", "/status/history/*/version"],
    ..ClusterRead::EMPTY
};
