//! The rules, with their levels and sources. What each one says in full is in the rule's module:
//!
//! ```text
//! OperatorGroup          fields    OPG-04 to 10, 12 to 14, 34      what the object itself says
//!                        access    OPG-19, 35                      who writes it
//!                        group     OPG-01 to 03, 11, 15 to 18      what else there is
//! ClusterServiceVersion  csv       OPG-20 to 27, 30, 31            the group of its namespace
//!                        owners    OPG-28, 29                      who else owns the same
//! RBAC                             OPG-32, 33, 36, 37, 38          what ServiceAccounts may do
//! ```

use opgate_sdk::Operation::{Create, Delete, Update};
use opgate_sdk::Rule;

const GROUP: &[&str] = &["OperatorGroup"];
const CSV: &[&str] = &["ClusterServiceVersion"];

/// Every rule of the policy, in the order of their ids.
pub const RULES: &[Rule] = &[
    Rule {
        id: "OPG-01",
        title: "a namespace has one OperatorGroup",
        kinds: GROUP,
        operations: &[Create],
        source: "OCP 4.12 L4026-4044; OCP 4.15 L2615-2642, L3616-3625, L4104-4113; OCP 4.5 L1250-1253; OLM pkg/controller/operators/olm/operatorgroup.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-02",
        title: "the name of an OperatorGroup is unique in the cluster",
        kinds: GROUP,
        operations: &[Create],
        source: "OCP 4.12 L3341-3355, L3498-3512, L3846-3860, L5705-5719, L6176-6190, L8089-8103; OCP 4.15 L2457-2460",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-03",
        title: "the ClusterRoles that OLM names after an OperatorGroup do not exist yet",
        kinds: GROUP,
        operations: &[Create],
        source: "OCP 4.12 L3341-3355, L3464-3512, L3846-3860, L5705-5719, L6176-6190, L8089-8103; OCP 4.5 L1028-1046",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-04",
        title: "the target namespaces are names: a group for all namespaces names none",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L3329-3383, L6447-6457, L6526-6535; OLM pkg/controller/operators/olm/operatorgroup.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-05",
        title: "the selector of an OperatorGroup is a label selector",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L3359-3368, L3841-3843; OLM pkg/controller/operators/olm/operatorgroup.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-06",
        title: "each target namespace of a v1 OperatorGroup is named once",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "api crds/operators.coreos.com_operatorgroups.yaml",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-07",
        title: "the upgrade strategy of a v1 OperatorGroup is a known one",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "api crds/operators.coreos.com_operatorgroups.yaml",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-08",
        title: "an OperatorGroup has one target namespace, or all",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L3361-3371, L3832-3843; OCP 4.15 L2339-2642",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-09",
        title: "a selector stands alone: next to target namespaces it has no effect",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L3375, L3439-3457; OLM pkg/controller/operators/olm/operatorgroup.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-10",
        title: "a selector says what it selects: an empty one selects all namespaces",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L3361-3368, L3375-3383; OLM pkg/controller/operators/olm/operatorgroup.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-11",
        title: "a selector matches a Namespace",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L3359, L3383; OLM pkg/controller/operators/olm/operatorgroup.go, pkg/controller/operators/olm/operator.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-12",
        title: "the items of olm.providedAPIs are <kind>.<version>.<group>",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L3434-3443, L3838; OLM pkg/controller/registry/resolver/cache/operators.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-13",
        title: "OLM's annotations are spelled as OLM spells them",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "api pkg/validation/internal/operatorgroup.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-14",
        title: "the annotations with times of bundle unpacking are Go durations",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OLM pkg/controller/bundle/bundle_unpacker.go, pkg/controller/operators/catalog/operator.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-15",
        title: "the ServiceAccount that an OperatorGroup names exists",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L4035, L7958-7976, L8071-8082, L3449-3451; OCP 4.15 L2615-2642, L5622-5627; OLM pkg/controller/operators/olm/operatorgroup.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-16",
        title: "members that supported the old target namespaces support the new ones",
        kinds: GROUP,
        operations: &[Update],
        source: "OCP 4.12 L3264-3311, L4048; OCP 4.15 L2339-2642; OLM pkg/controller/operators/olm/operator.go; api pkg/operators/v1alpha1/clusterserviceversion.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-17",
        title: "a new OperatorGroup has target namespaces that the members in its namespace support",
        kinds: GROUP,
        operations: &[Create],
        source: "OCP 4.12 L4048; OLM pkg/controller/operators/olm/operator.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-18",
        title: "OperatorGroups that work in the same namespace do not provide the same API",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L3869-3876; OLM pkg/controller/operators/olm/groups.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-19",
        title: "OLM leaves the annotation olm.providedAPIs of a static OperatorGroup alone",
        enabled_by: &["/operatorGroup/olmUsers"],
        kinds: GROUP,
        operations: &[Update],
        source: "OCP 4.12 L3827, L3838-3840",
        ..Rule::OFF
    },
    Rule {
        id: "OPG-20",
        title: "a ClusterServiceVersion is created where there is an OperatorGroup",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L2256, L4026-4044, L25906; OCP 4.15 L1665, L2615-2642, L19590; OLM pkg/controller/operators/olm/operator.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-21",
        title: "a ClusterServiceVersion is created where there is one OperatorGroup only",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L4026-4044; OCP 4.5 L1250-1253; OLM pkg/controller/operators/olm/operator.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-22",
        title: "the install modes of a ClusterServiceVersion support the targets of its OperatorGroup",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L2256, L3264-3320, L4048; OCP 4.15 L2339-2642; OCP 4.5 L901-905, L1254-1256; OLM pkg/controller/operators/olm/operator.go; api pkg/operators/v1alpha1/clusterserviceversion.go, pkg/operators/v1alpha1/clusterserviceversion_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-23",
        title: "a ClusterServiceVersion has install modes",
        enabled_by: &["/operatorGroup/emptyInstallModes"],
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L2436-2447, L3320; api pkg/operators/v1alpha1/clusterserviceversion.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-24",
        title: "the OperatorGroup of a new ClusterServiceVersion has target namespaces",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OLM pkg/controller/operators/olm/operator.go, pkg/controller/operators/olm/operator_test.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-25",
        title: "a ClusterServiceVersion brings no API that an intersecting OperatorGroup provides",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L3869-3929, L3962; OCP 4.15 L2339-2642; OCP 4.5 L901-1246; OLM pkg/controller/operators/olm/groups.go, pkg/controller/operators/olm/operator.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-26",
        title: "an OperatorGroup does not lose APIs to an intersecting one",
        enabled_by: &["/operatorGroup/removeAPIs"],
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L3932-3950; OLM pkg/controller/operators/olm/groups.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-27",
        title: "a member of a static OperatorGroup provides what the group says, and nothing else does",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L3893-3902, L3932-3941; OLM pkg/controller/operators/olm/operator.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-28",
        title: "a CRD has one owner in a namespace",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OLM pkg/controller/operators/olm/operator.go",
        ..Rule::DENY
    },
    Rule {
        id: "OPG-29",
        title: "an API service has one owner",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L20916; OLM pkg/controller/operators/olm/operator.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-30",
        title: "the membership annotations of a ClusterServiceVersion are those of its OperatorGroup",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L2048, L3256, L3391-3420; OCP 4.15 L2339-2642; OLM pkg/controller/operators/olm/operatorgroup.go",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-31",
        title: "a copied ClusterServiceVersion does not show the target namespaces",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L3425, L3783; OCP 4.15 L2339-2642",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-32",
        title: "the ServiceAccount of an OperatorGroup may not write CRDs and API services",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L7946, L8042-8064; OCP 4.15 L5622-5627; OCP 4.5 L2750-2758",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-33",
        title: "no binding lets the ServiceAccount of an OperatorGroup write CRDs and API services",
        kinds: &["ClusterRoleBinding", "ClusterRole"],
        operations: &[Create, Update],
        source: "OCP 4.12 L7946; OCP 4.15 L5622-5627",
        ..Rule::WARN
    },
    Rule {
        id: "OPG-34",
        title: "the OperatorGroup of a tenant targets the tenant's namespace only",
        enabled_by: &["/operatorGroup/tenantNamespaces"],
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L4729-4735, L6423, L6442-6457; OCP 4.15 L2946-2979, L4478-4545",
        ..Rule::OFF
    },
    Rule {
        id: "OPG-35",
        title: "only the configured groups of users write OperatorGroups",
        enabled_by: &["/operatorGroup/adminGroups"],
        kinds: GROUP,
        operations: &[Create, Update, Delete],
        source: "OCP 4.12 L7939; OCP 4.15 L5622-5627",
        ..Rule::OFF
    },
    Rule {
        id: "OPG-36",
        title: "no role lets its subjects write OperatorGroups",
        kinds: &["Role", "ClusterRole"],
        operations: &[Create, Update],
        source: "OCP 4.12 L7939",
        ..Rule::OFF
    },
    Rule {
        id: "OPG-37",
        title: "the ServiceAccount of an OperatorGroup has what a new member asks for",
        kinds: CSV,
        operations: &[Create, Update],
        source: "OCP 4.12 L7949, L7986-8001, L8135, L8281-8311",
        ..Rule::OFF
    },
    Rule {
        id: "OPG-38",
        title: "the ServiceAccount of an OperatorGroup may read and write pull secrets where a member uses one",
        kinds: GROUP,
        operations: &[Create, Update],
        source: "OCP 4.12 L8203-8218; OCP 4.15 L5763-5820",
        ..Rule::OFF
    },
];
