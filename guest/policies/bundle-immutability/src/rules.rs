//! The rules, with their levels and sources.
//!
//! RPK-07, RPK-19, RPK-20 and RPK-21, and the ConfigMap part of RPK-22 and RPK-23, need the
//! cluster's ConfigMaps and Bundles and are left out where there is no cluster to ask.

use opgate_sdk::Operation::{Create, Delete, Update};
use opgate_sdk::Rule;

const BUNDLE: &[&str] = &["Bundle"];
const DEPLOYMENT: &[&str] = &["BundleDeployment"];
const BOTH: &[&str] = &["Bundle", "BundleDeployment"];
const CONFIG_MAP: &[&str] = &["ConfigMap"];

/// Every rule of the policy, in the order of their ids.
pub const RULES: &[Rule] = &[
    Rule {
        id: "RPK-01",
        title: "the spec of a Bundle is semantically the same before and after an UPDATE",
        kinds: BUNDLE,
        operations: &[Update],
        source: "OCP 4.12 L1099-1152, L1246; OCP 4.15 L971-1034, L19926-19988; OKD L387-419; rukpak v0.16.0 internal/webhook/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-02",
        title: "source type image comes with spec.source.image",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "OCP 4.12 L1091-1094; OCP 4.15 L956-965, L19912-19921; OKD L378-386; rukpak v0.16.0 internal/webhook/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-03",
        title: "source type git comes with spec.source.git",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "OCP 4.12 L1118-1129; OCP 4.15 L987-998, L19940-19951; OKD L401-412; rukpak v0.16.0 internal/webhook/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-04",
        title: "source type configMaps comes with at least one entry in spec.source.configMaps",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "rukpak v0.16.0 internal/webhook/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-05",
        title: "the directory of a Git source stays within the repository",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "rukpak v0.16.0 internal/webhook/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-06",
        title: "the paths of a ConfigMap source stay within the bundle",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "rukpak v0.16.0 internal/webhook/bundle.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-07",
        title: "ConfigMaps that a Bundle refers to are immutable where they exist",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "rukpak v0.16.0 internal/webhook/bundle.go, test/e2e/plain_provisioner_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-08",
        title: "directories and paths can be unpacked: neither `..` nor absolute",
        enabled_by: &["/rukpak/strictPaths"],
        kinds: BUNDLE,
        operations: &[Create],
        source: "rukpak v0.16.0 internal/source/git.go, internal/webhook/bundle.go",
        ..Rule::WARN
    },
    Rule {
        id: "RPK-09",
        title: "spec.source has exactly one of git, image, configMaps, upload and http",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "rukpak v0.16.0 manifests/base/apis/crds/patches/bundle_validation.yaml, test/e2e/api_validation_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-10",
        title: "a Git reference has exactly one of branch, commit and tag",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "OCP 4.12 L1126-1127, L1159; rukpak v0.16.0 manifests/base/apis/crds/patches/bundle_validation.yaml, test/e2e/api_validation_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-11",
        title: "the required fields of the source are there",
        kinds: BUNDLE,
        operations: &[Create, Update],
        source: "OCP 4.12 L1091-1094, L1123-1128; rukpak v0.16.0 api/v1alpha1/bundle_types.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-12",
        title: "a provisioner class and a source are set",
        kinds: BOTH,
        operations: &[Create, Update],
        source: "OCP 4.12 L1058, L1080, L1095, L1129, L1246-1273; OCP 4.15 L950, L1119, L20052-20071; OKD L371-375, L470-481",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-13",
        title: "a provisioner class is a lower-case name of letters, digits and hyphens",
        kinds: BOTH,
        operations: &[Create, Update],
        source: "rukpak v0.16.0 api/v1alpha1/bundle_types.go, test/e2e/api_validation_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-14",
        title: "the name of a Bundle has at most 52 characters",
        kinds: BUNDLE,
        operations: &[Create],
        source: "rukpak v0.16.0 manifests/base/apis/crds/patches/bundle_validation.yaml, test/e2e/api_validation_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-15",
        title: "the name of a v1alpha1 BundleDeployment has at most 45 characters",
        kinds: DEPLOYMENT,
        operations: &[Create],
        source: "rukpak v0.16.0 manifests/base/apis/crds/patches/bundledeployment_validation.yaml, test/e2e/api_validation_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-16",
        title: "a provisioner class names a known provisioner",
        kinds: BOTH,
        operations: &[Create, Update],
        source: "OCP 4.12 L1058-1061, L1095, L1283; OCP 4.15 L1117-1119, L19897-19899, L21008-21012; OKD L365-367, L482-487",
        ..Rule::WARN
    },
    Rule {
        id: "RPK-17",
        title: "a source names an image by digest or a Git commit",
        kinds: BOTH,
        operations: &[Create, Update],
        source: "OCP 4.12 L1118-1135, L1154-1176; OCP 4.15 L1022-1034, L19980-19988; OKD L420-433",
        ..Rule::WARN
    },
    Rule {
        id: "RPK-18",
        title: "the source type is a known one and names the source that is set",
        kinds: BUNDLE,
        operations: &[Create],
        source: "OCP 4.12 L1091-1094, L1123-1128; rukpak v0.16.0 api/v1alpha1/bundle_types.go",
        ..Rule::WARN
    },
    Rule {
        id: "RPK-19",
        title: "a ConfigMap that a Bundle refers to is created immutable",
        kinds: CONFIG_MAP,
        operations: &[Create],
        source: "rukpak v0.16.0 internal/webhook/configmaps.go, manifests/base/apis/webhooks/patches/namespace_selectors.yaml",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-20",
        title: "a ConfigMap that a Bundle refers to is not deleted",
        kinds: CONFIG_MAP,
        operations: &[Delete],
        source: "rukpak v0.16.0 internal/webhook/configmaps.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-21",
        title: "no two ConfigMaps of a Bundle give the same file",
        kinds: BUNDLE,
        operations: &[Create],
        source: "rukpak v0.16.0 internal/source/configmaps.go",
        ..Rule::WARN
    },
    Rule {
        id: "RPK-22",
        title: "the source of a v1alpha2 BundleDeployment passes the source checks of Bundles",
        kinds: DEPLOYMENT,
        operations: &[Create, Update],
        source: "rukpak v0.17.0 internal/webhook/bundledeployment.go",
        ..Rule::DENY
    },
    Rule {
        id: "RPK-23",
        title: "the template of a v1alpha1 BundleDeployment gives a Bundle that will be accepted",
        kinds: DEPLOYMENT,
        operations: &[Create, Update],
        source: "OCP 4.12 L1109, L1246, L1258-1273; OCP 4.15 L1095-1110, L20052-20071; OKD L466-481; rukpak v0.16.0 internal/webhook/bundle.go",
        ..Rule::WARN
    },
    Rule {
        id: "RPK-24",
        title: "only the configured users and groups write BundleDeployments",
        enabled_by: &["/rukpak/allowedUsers", "/rukpak/allowedGroups"],
        kinds: DEPLOYMENT,
        operations: &[Create, Update, Delete],
        source: "OCP 4.12 L1242; OCP 4.15 L1084, L20041",
        ..Rule::OFF
    },
    Rule {
        id: "RPK-25",
        title: "OLM 1.0 installs plain bundles from images only",
        kinds: DEPLOYMENT,
        operations: &[Create, Update],
        source: "OCP 4.15 L20987-21040, L21780",
        ..Rule::WARN
    },
];
