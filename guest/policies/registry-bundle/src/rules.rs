//! The rules, with their levels and sources. What each one says in full is in the rule's module:
//!
//! ```text
//! layout        RBF-01, 14, 15              dependencies  RBF-17, 18
//! annotations   RBF-02 to 05, 21, 27        properties    RBF-19, 20
//! dockerfile    RBF-22                      scorecard     RBF-31
//! manifests     RBF-06, 10 to 13, 16, 32    apis          RBF-07 to 09
//! objects       RBF-23 to 25                removed       RBF-26
//! package       RBF-28 to 30
//! ```
//!
//! RBF-14 and RBF-15 need the compressed size, which only the host can know (`spec.compressedSize`):
//! of every file of `manifests/` and `metadata/` what gzip and base64 make of it. Where it is not given,
//! because a file cannot be read, and the others are large enough for it to matter, both are left out.

use opgate_sdk::{Operation, Rule};

const KINDS: &[&str] = &["RegistryBundle"];

/// A folder is judged as it is, whether it is new or was published before.
pub(crate) const OPERATIONS: &[Operation] = &[Operation::Create, Operation::Update];

/// Every rule of the policy, in the order of their ids.
pub const RULES: &[Rule] = &[
    Rule {
        id: "RBF-01",
        title: "a bundle has the directories manifests/ and metadata/",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L317-331, L12105-12122, L19123-19135, L22634-22645, L23638-23660; OCP 4.15 L274-325, L17241-17400; OCP 4.5 L225-237; OKD L25-35; operator-registry pkg/lib/bundle/validate.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-02",
        title: "metadata/ holds a file with annotations",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L415-432; OCP 4.15 L336-366; OKD L60-70; operator-registry pkg/lib/bundle/validate.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-03",
        title: "the annotations name media type, manifests, metadata, package and channels",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L420-463; OCP 4.15 L336-366; OCP 4.5 L252-264; OKD L60-76; operator-registry pkg/lib/bundle/validate.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-04",
        title: "the media type of a bundle with a ClusterServiceVersion is registry+v1",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L427, L437-438; OCP 4.15 L336-366; OKD L65, L71; operator-registry pkg/lib/bundle/validate.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-05",
        title: "the annotations name at least one channel, and no empty one",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L296-299, L431-463; OCP 4.15 L274-278; OCP 4.5 L218; OKD L21, L69-70, L75-76; operator-registry pkg/lib/bundle/validate.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-06",
        title: "manifests/ holds exactly one ClusterServiceVersion",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L302, L317; OCP 4.15 L274-278; OCP 4.5 L219, L225; OKD L22, L25; operator-registry pkg/registry/csv.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-07",
        title: "every CRD that the ClusterServiceVersion owns is in manifests/",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L305; OCP 4.15 L274-278; OCP 4.5 L201, L220; OKD L23; api pkg/validation/internal/bundle.go; operator-registry pkg/lib/validation/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-08",
        title: "every CRD in manifests/ is owned by the ClusterServiceVersion",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L22661-22667; OCP 4.15 L17241-17400; api pkg/validation/internal/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-09",
        title: "no version of a CRD is in manifests/ twice",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "api pkg/validation/internal/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-10",
        title: "manifests/ holds supported kinds only",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L335-389, L22740, L22827; OCP 4.15 L302-325, L16409, L16776, L17396-17397; OCP 4.5 L238-242; OKD L36-54; operator-registry pkg/lib/bundle/validate.go, pkg/lib/bundle/supported_resources.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-11",
        title: "CRDs are of apiextensions.k8s.io/v1 or v1beta1",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L4886; operator-registry pkg/lib/bundle/validate.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-12",
        title: "every file in manifests/ is a Kubernetes object with valid metadata",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L317; operator-registry pkg/lib/bundle/validate.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-13",
        title: "no ServiceAccount has the name of one that the deployments use",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "api pkg/validation/internal/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-14",
        title: "a compressed bundle is no larger than 1 MiB",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "api pkg/validation/internal/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-15",
        title: "a compressed bundle stays below 85 percent of the limit",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "api pkg/validation/internal/bundle.go",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-16",
        title: "a bundle with a release is named after package, version and release, and substitutes for none",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "api pkg/validation/internal/bundle.go; operator-registry pkg/lib/validation/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-17",
        title: "metadata/dependencies.yaml lists dependencies that can be read",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L474-514, L2685-2720; OCP 4.15 L368-401, L1927-1960; OCP 4.5 L297-320; OKD L78-102; operator-registry pkg/registry/types.go, pkg/lib/bundle/validate.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-18",
        title: "a dependency is of a known type",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L482-494, L2688-2700; OCP 4.15 L368-401; OCP 4.5 L300-308; OKD L81-90; operator-registry pkg/registry/types.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-19",
        title: "metadata/properties.yaml lists properties with type and value",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L677-683, L2626-2665; OCP 4.15 L1886-1921; operator-registry pkg/registry/types.go, pkg/registry/parse.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-20",
        title: "a property has type and value at the level of the item",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L2653-2665; operator-registry pkg/registry/types.go",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-21",
        title: "com.redhat.openshift.versions is a version or an ordered range",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L21728-21767; OCP 4.15 L15828-15874",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-22",
        title: "labels of bundle.Dockerfile agree with annotations.yaml",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L470, L21755-21767; OCP 4.15 L336-366; OCP 4.5 L295-296; OKD L77",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-23",
        title: "a PodDisruptionBudget lets pods be evicted",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "api pkg/validation/internal/object.go",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-24",
        title: "a PriorityClass is not the default of the cluster",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "api pkg/validation/internal/object.go",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-25",
        title: "roles do not let anybody change disruption budgets or the default SecurityContextConstraints",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "api pkg/validation/internal/object.go",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-26",
        title: "manifests and permissions use no API that Kubernetes removed",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L4556-4559, L8337-8340, L21652-21697; api pkg/validation/internal/removed_apis.go",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-27",
        title: "channels are named candidate, fast or stable",
        enabled_by: &["/bundle/optional"],
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L1911, L6881, L22740; api pkg/validation/internal/good_practices.go",
        ..Rule::OFF
    },
    Rule {
        id: "RBF-28",
        title: "the legacy package manifest format is not used",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L4564, L23601-23608; OCP 4.15 L2874, L18399; OCP 4.5 L156-202",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-29",
        title: "a package manifest has a name, channels and a default channel",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L2373-2379; OCP 4.5 L186-198; api pkg/validation/internal/package_manifest.go",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-30",
        title: "a package has every ClusterServiceVersion that its channels and versions refer to",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.5 L196-202, L3118-3119",
        ..Rule::DENY
    },
    Rule {
        id: "RBF-31",
        title: "the scorecard configuration names tests with image and entrypoint",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L22097-22159, L22396-22428; OCP 4.15 L16942-16960",
        ..Rule::WARN
    },
    Rule {
        id: "RBF-32",
        title: "a file in manifests/ holds one document",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L317-331; operator-registry pkg/registry/decode.go",
        ..Rule::WARN
    },
];
