//! Recommendations for version ranges of packages, in files only.

use opgate_sdk::{rule, rules};

use crate::targets::{CATALOG, REGISTRY_BUNDLE};

rules![CON_26, CON_27];

rule! {
    /// a package range has a lower bound
    ///
    /// In the files of a bundle and in the `olm.bundle` blobs of a catalog, every alternative of a
    /// range has a lower bound (`>`, `>=`) or an exact version. The rule applies to `olm.package`
    /// dependencies, to `olm.package.required`, and to `package` constraints. Properties in
    /// annotations of ClusterServiceVersions are not checked. CON-09, CON-18, CON-20 and FBC-38
    /// report unreadable ranges.
    ///
    /// # Why
    ///
    /// An API can gain fields without a new API version. An old release of the package then has the
    /// API, but lacks the fields that the Operator writes. OpenShift 4.12, Operators, *Dependency
    /// best practices*, recommends a minimum version.
    ///
    /// # Remediation
    ///
    /// Add the lowest version that works: `>=1.4.0`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: '>0.27.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: '<2.0.0'}
    /// ```
    ///
    /// message: `package dependency on "prometheus" has no minimum version`
    pub(crate) CON_26: Warn {
        name: "package-range-lower-bound",
        on: [REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L3091-3113", "OCP 4.15 L2228-2294"],
    }
}

rule! {
    /// a package range has no narrow upper bound
    ///
    /// A range with a lower and an upper bound spans at least one major version: the upper bound is
    /// not below the lower one with its major number raised by one, so `>=1.5.0` requires `<2.5.0`
    /// or higher. If there are several alternatives, the lowest lower bound and the highest upper
    /// bound count. Exact versions and exclusions with `!` are accepted, and so is a range in which
    /// an alternative has only one bound (CON-26). A wildcard counts as the range that it expands
    /// to: `1.x` is accepted, `1.2.x` is narrow. The rule evaluates the same fields as CON-26.
    ///
    /// # Why
    ///
    /// A narrow range keeps the other package from being updated for everyone in the cluster, and
    /// administrators cannot override it. OpenShift 4.12, Operators, *Dependency best practices*,
    /// recommends no maximum version or a very wide range.
    ///
    /// # Remediation
    ///
    /// Drop the upper bound, or raise it to at least one major version above the lower one. To skip
    /// a release that is known to be broken, exclude it: `>1.0.0 !1.2.1`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: '>1.0.0 <2.0.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// dependencies:
    /// - type: olm.package
    ///   value: {packageName: prometheus, version: '>=1.0.0 <1.1.0'}
    /// ```
    ///
    /// message: `package dependency on "prometheus" has a narrow maximum version; whenever
    /// possible, do not set a maximum version`
    pub(crate) CON_27: Warn {
        name: "package-range-upper-bound",
        on: [REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L486, L3116-3124, L3132", "OCP 4.15 L2228-2294"],
    }
}
