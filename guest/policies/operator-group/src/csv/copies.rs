//! The parts of a ClusterServiceVersion that identify a copy with its original.

use opgate_sdk::Shape;
use opgate_sdk::copies::CopyComparison;

use super::MODES;
use crate::reads::CSVS;

const API: &[(&str, Shape)] =
    &[("group", Shape::Scalar), ("version", Shape::Scalar), ("kind", Shape::Scalar)];
const RESOURCE: &[(&str, Shape)] =
    &[("name", Shape::Scalar), ("version", Shape::Scalar), ("kind", Shape::Scalar)];
const SECRETS: Shape = Shape::List(&Shape::Struct(&[("name", Shape::Scalar)]));
const DEPLOYMENT: &[(&str, Shape)] = &[(
    "spec",
    Shape::Struct(&[(
        "template",
        Shape::Struct(&[("spec", Shape::Struct(&[("imagePullSecrets", SECRETS)]))]),
    )]),
)];

pub(super) static COPIES: CopyComparison = CopyComparison {
    read: &CSVS,
    compared_fields: &[
        ("/spec/installModes", MODES),
        ("/spec/customresourcedefinitions/owned", Shape::List(&Shape::Struct(RESOURCE))),
        ("/spec/apiservicedefinitions/owned", Shape::List(&Shape::Struct(API))),
        ("/spec/replaces", Shape::Scalar),
        ("/spec/skips", Shape::List(&Shape::Scalar)),
        ("/spec/install/spec/deployments", Shape::List(&Shape::Struct(DEPLOYMENT))),
    ],
    other_fields: &[
        "/spec/install/spec/permissions",
        "/spec/install/spec/clusterPermissions",
        "/metadata/annotations/olm.operatorGroup",
        "/metadata/annotations/olm.operatorNamespace",
        "/metadata/annotations/olm.targetNamespaces",
    ],
};
