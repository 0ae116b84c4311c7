//! The policies that the host carries: for its build script, and for the SBOM of the image.

/// Packages under `guest/` that the host carries, in the order in which they serve.
pub(crate) const POLICIES: [&str; 15] = [
    "bundle-immutability",
    "operator-group",
    "constraint-limits",
    "cluster-service-version",
    "pod-security",
    "operator-condition",
    "platform-operator",
    "crd-upgrade",
    "catalog-source",
    "subscription",
    "olm-v1",
    "platform-configuration",
    "registry-bundle",
    "plain-bundle",
    "file-based-catalog",
];
