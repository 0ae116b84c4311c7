//! The reads of the policy. Each rule declares the reads that it needs, so that the server watches
//! nothing for rules that are off.

use opgate_sdk::{ClusterRead, Index, copies};

/// ClusterServiceVersions without the label of OLM's copies.
pub(crate) static CSVS: ClusterRead = ClusterRead {
    group: "operators.coreos.com",
    version: "v1alpha1",
    resource: "clusterserviceversions",
    fields: &[
        copies::OPERATOR_NAMESPACE,
        "/spec/replaces",
        "/spec/customresourcedefinitions/owned/*/name",
        "/spec/customresourcedefinitions/owned/*/version",
        "/spec/customresourcedefinitions/required/*/name",
        "/spec/customresourcedefinitions/required/*/version",
        "/spec/webhookdefinitions/*/type",
        "/spec/webhookdefinitions/*/conversionCRDs",
        "/status/phase",
        "/status/reason",
    ],
    label_selector: r#"{"matchExpressions":[{"key":"olm.copiedFrom","operator":"DoesNotExist"}]}"#,
    indexes: &[
        Index { name: "operator-namespace", field: copies::OPERATOR_NAMESPACE, separator: "" },
        Index { name: "reason", field: "/status/reason", separator: "" },
        Index { name: "crd", field: "/spec/customresourcedefinitions/owned/*/name", separator: "" },
        Index {
            name: "required-crd",
            field: "/spec/customresourcedefinitions/required/*/name",
            separator: "",
        },
        Index {
            name: "version",
            field: "/spec/customresourcedefinitions/owned/*/version",
            separator: "",
        },
        Index {
            name: "required-version",
            field: "/spec/customresourcedefinitions/required/*/version",
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

/// CRDs: their versions, and the versions in which objects are stored. Schemas are not part of the
/// read.
pub(crate) static CRDS: ClusterRead = ClusterRead {
    group: "apiextensions.k8s.io",
    version: "v1",
    resource: "customresourcedefinitions",
    fields: &[
        "/spec/versions/*/name",
        "/spec/versions/*/served",
        "/spec/versions/*/storage",
        "/status/storedVersions",
    ],
    ..ClusterRead::EMPTY
};
