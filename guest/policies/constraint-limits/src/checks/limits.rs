//! Limits of size and depth.

use opgate_sdk::{rule, rules};

use crate::targets::{CATALOG, CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

rules![CON_01, CON_15, CON_16];

rule! {
    /// an olm.constraint has at most constraints.maxBytes bytes
    ///
    /// The raw JSON text of an `olm.constraint` value has at most `constraints.maxBytes` bytes
    /// (default: 65536), without the property around it; YAML counts as JSON without white space.
    /// opgate finds constraints in the annotations `operatorframework.io/properties` and
    /// `olm.properties` of a ClusterServiceVersion, in `status.bundleLookups` of an `InstallPlan`,
    /// in ConfigMaps that contain a bundle or a catalog, in the files of a bundle, and in the
    /// `olm.bundle` blobs of a catalog. On UPDATE the rule evaluates only the annotations, lookups
    /// and ConfigMap keys that the request changes, unless the setting `ratcheting` is off. Files
    /// are always evaluated as a whole. The size is checked first: no other rule reads a value that
    /// is too large. The rule also rejects a text or value of more than 3 MiB without reading it,
    /// and content of a ConfigMap, or an object in a catalog, that expands to more than
    /// `constraints.maxInflatedBytes`.
    ///
    /// # Why
    ///
    /// A large constraint takes memory and time to evaluate. OpenShift 4.12, Operators, *Nested
    /// compound constraints*, sets a limit of 64 KB for that reason; the code of OLM allows 131072
    /// bytes.
    ///
    /// # Remediation
    ///
    /// Shorten failure messages and remove repeated parts. To use the limit of OLM's code, set
    /// `constraints.maxBytes: 131072`.
    ///
    /// # Accepted
    ///
    /// A value of exactly 65536 bytes.
    ///
    /// # Rejected
    ///
    /// A value of 65537 bytes, whether or not it is valid JSON.
    ///
    /// message: `parse olm.constraint: olm.constraint value is greater than max constraint size
    /// 65536 bytes`. For compressed content of a ConfigMap the message is `the files in binaryData
    /// expand to more than 8388608 bytes`.
    pub(crate) CON_01: Deny {
        name: "constraint-size-limit",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2932", "OCP 4.15 L1962-2147", "api pkg/constraints/constraint.go"],
    }
}

rule! {
    /// compound constraints nest at most constraints.warnDepth levels deep
    ///
    /// No more than `constraints.warnDepth` (default: 10) of `all`, `any` and `not` are nested in
    /// each other. The rule reports each `olm.constraint` once, at its deepest level.
    ///
    /// # Why
    ///
    /// Deep constraints are hard to read and to resolve. The upstream proposal for compound
    /// constraints asks tools to enforce a limit of 10 levels, which OLM does not enforce.
    /// OpenShift 4.12, Operators, *Nested compound constraints*, names no limit.
    ///
    /// # Remediation
    ///
    /// Merge an `all` directly inside an `all`, and an `any` directly inside an `any`.
    ///
    /// # Accepted
    ///
    /// Two levels:
    ///
    /// ```yaml
    /// value:
    ///   any:
    ///     constraints:
    ///     - all:
    ///         constraints:
    ///         - package: {packageName: blue, versionRange: '>=1.0.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// Eleven `all` nested in each other.
    ///
    /// message: `olm.constraint is nested 11 compound levels deep, more than 10`
    pub(crate) CON_15: Warn {
        name: "constraint-nesting-recommendation",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2892-2926", "enhancements compound-bundle-constraints.md"],
    }
}

rule! {
    /// the JSON of a constraint nests at most constraints.maxDepth levels deep
    ///
    /// Objects and lists in the value of an `olm.constraint` nest at most `constraints.maxDepth`
    /// (default: 10000) levels deep. The value itself counts as one level. One `all`, `any` or
    /// `not` takes three levels. No other rule reads a value that is deeper.
    ///
    /// # Why
    ///
    /// OLM's decoder stops at 10000 levels and does not read the constraint. No Operator needs this
    /// depth. It is a defect of a tool, or an attack on the programs that read the value.
    ///
    /// # Remediation
    ///
    /// Write the constraint with fewer levels. If a tool generates it, check the tool for a loop.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   all: {constraints: [{cel: {rule: 'true'}}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// A value of 10001 levels of JSON.
    ///
    /// message: `parse olm.constraint: exceeded max depth`
    pub(crate) CON_16: Deny {
        name: "constraint-json-depth",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["api pkg/constraints/constraint.go"],
    }
}
