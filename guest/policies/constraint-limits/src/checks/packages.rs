//! Packages that a constraint names, and their version ranges.

use opgate_sdk::{rule, rules};

use crate::targets::{CATALOG, CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

rules![CON_08, CON_09, CON_10];

rule! {
    /// a package constraint names a package
    ///
    /// In every `package` of a constraint, `packageName` is set and not empty; `name` is the same
    /// key in another spelling (CON-03). If `package` has an unknown or repeated field, CON-03 is
    /// reported instead. With `constraints.mode: upstream`, an empty or missing name is accepted.
    ///
    /// # Why
    ///
    /// No package has an empty name, so the dependency is never satisfied. OpenShift 4.12,
    /// Operators, *Generic constraints*: the type means the same as `olm.package`, which names a
    /// package.
    ///
    /// # Remediation
    ///
    /// Set `packageName` to the name of the package in the catalog.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   package: {packageName: blue, versionRange: '>=1.0.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   package: {versionRange: '>=1.0.0'}
    /// ```
    ///
    /// message: `olm.constraint package.packageName must be a non-empty string`
    pub(crate) CON_08: Deny {
        name: "package-constraint-name",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L831-838, L2739-2741, L2811-2813", "api pkg/constraints/constraint.go"],
    }
}

rule! {
    /// the versionRange of a package constraint is a semver range
    ///
    /// `versionRange` (or `version`) of a `package` constraint is a range in the syntax of OLM's
    /// semver library: comparators such as `>=1.0.0`, joined by spaces, with `||` between
    /// alternatives. The operators are `=`, `==`, `!`, `!=`, `>`, `>=`, `<`, `<=` and none; a
    /// version has three numbers, or an `x` instead of the second or third. An empty or missing
    /// range, a `^` or `~` before a whole version, a comma after a version, and a `v` before it are
    /// rejected. Before an `x` the library accepts them, and it drops a separate `-` or comma:
    /// CON-10 reports such ranges. CON-18 evaluates the ranges of `olm.package.required`, CON-20
    /// those of dependencies.
    ///
    /// # Why
    ///
    /// OLM cannot convert the constraint to a predicate, and fails to resolve the bundle. OpenShift
    /// 4.12, Operators, *olm.package.required*, requires a valid semver range.
    ///
    /// # Remediation
    ///
    /// Write bounds instead of `^` and `~`: `>=1.2.3`, with an upper bound only where later
    /// versions are known not to work (CON-27). To accept any version, write `>=0.0.0`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   package: {packageName: blue, versionRange: '> 1.0.0 !1.2.1'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   package: {packageName: blue, versionRange: '^1.2.3'}
    /// ```
    ///
    /// message: `convert olm.constraint to resolver predicate: Could not parse Range "^1.2.3":
    /// Could not parse comparator "^" in "^1.2.3"`. For an empty range the message is `convert
    /// olm.constraint to resolver predicate: Last element in range is '||'`.
    pub(crate) CON_09: Deny {
        name: "package-constraint-version-range",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L868-875, L2482, L3132", "OLM pkg/controller/registry/resolver/resolver.go", "api pkg/constraints/constraint_test.go"],
    }
}

rule! {
    /// a semver range is unambiguous
    ///
    /// A valid range does not depend on unexpected behavior of the semver library. The library
    /// drops a separate character (`1.0.0 - 2.0.0`, `^ 1.2.3`); an unknown operator before an `x`
    /// means one exact version (`^1.2.x`, `~1.x`); `1.x.x` means `1.0.x`; `!1.2.x` matches no
    /// version; and OLM cannot evaluate an empty alternative between two `||`. The rule applies to
    /// `package` constraints, `olm.package.required` and `olm.package` dependencies, to `skipRange`
    /// in the channels of a catalog, and to the annotation `olm.skipRange` of a
    /// ClusterServiceVersion in a request, in a bundle, or in `olm.csv.metadata` of a catalog. Each
    /// range is reported once. CON-09, CON-18, CON-20 and FBC-22 report unreadable ranges.
    ///
    /// # Why
    ///
    /// OLM uses a different range than the author intended, so it installs another version or none.
    /// OpenShift 4.12, Operators, *Replacing multiple Operators*: a range has the format that the
    /// semver library supports.
    ///
    /// # Remediation
    ///
    /// Write the range with `>=` and `<`: `>=1.2.0 <1.3.0` instead of `~1.2.x`, `1.x` instead of
    /// `1.x.x`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   annotations:
    ///     olm.skipRange: '>=4.1.0 <4.1.2'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata:
    ///   annotations:
    ///     olm.skipRange: '^1.2.x'
    /// ```
    ///
    /// message: `range "^1.2.x" is accepted but does not mean what it says: "^1.2.x" means exactly
    /// 1.2.0`
    pub(crate) CON_10: Warn {
        name: "unambiguous-version-range",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2482, L3132", "api pkg/constraints/constraint.go"],
    }
}
