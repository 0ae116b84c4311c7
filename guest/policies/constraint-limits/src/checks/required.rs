//! The older properties that declare requirements.

use opgate_sdk::{rule, rules};

use crate::targets::{CATALOG, CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

rules![CON_18];

rule! {
    /// required packages, APIs and labels are objects, and their ranges semver ranges
    ///
    /// The values of the properties `olm.package.required`, `olm.gvk.required` and
    /// `olm.label.required` are JSON objects whose `packageName`, `versionRange`, `group`,
    /// `version`, `kind` and `label` are strings if they are set. `versionRange` of
    /// `olm.package.required` is a semver range (CON-09 defines the syntax), and is required. Other
    /// types of properties are not checked. In a catalog in files the rule evaluates only
    /// annotations of ClusterServiceVersions; FBC-37 and FBC-38 evaluate the properties of its
    /// bundles. The rule treats copies and UPDATEs like CON-17.
    ///
    /// # Why
    ///
    /// OLM converts these properties to dependencies, and fails on one that it cannot read.
    /// OpenShift 4.12, Operators, *olm.package.required* and *olm.gvk.required*, describes the
    /// values.
    ///
    /// # Remediation
    ///
    /// Correct the value at the location that the message names. To accept any version, write
    /// `versionRange: '>=0.0.0'`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// type: olm.package.required
    /// value: {packageName: etcd, versionRange: '>3.1.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// type: olm.package.required
    /// value: {packageName: etcd, versionRange: ''}
    /// ```
    ///
    /// message: `Last element in range is '||'`. For a label that is a number the message is `json:
    /// cannot unmarshal number into Go struct field .label of type string`.
    pub(crate) CON_18: Deny {
        name: "required-property-values",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L868-896", "OLM pkg/controller/registry/resolver/resolver.go"],
    }
}
