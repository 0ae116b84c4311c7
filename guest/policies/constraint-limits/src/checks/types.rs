//! The requirement of a constraint: one type, either simple or compound.

use opgate_sdk::{rule, rules};

use crate::targets::{CATALOG, CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

rules![CON_04, CON_05, CON_13, CON_14];

rule! {
    /// a constraint has a requirement
    ///
    /// Every constraint, nested ones included, sets at least one of `gvk`, `package`, `cel`, `all`,
    /// `any` and `not`. A `failureMessage` alone is not enough, and a key that is `null` counts as
    /// not set. If a field of the same constraint is unknown or repeated, CON-03 is reported
    /// instead.
    ///
    /// # Why
    ///
    /// OLM cannot convert an empty constraint to a predicate, and fails to resolve the bundle.
    /// OpenShift 4.12, Operators, *Generic constraints*: a constraint is of a particular type.
    ///
    /// # Remediation
    ///
    /// Add the requirement, or remove the constraint. In YAML, check the indentation below the key.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   gvk: {group: blues.example.com, version: v1beta1, kind: Blue}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   failureMessage: Blue is required
    /// ```
    ///
    /// message: `convert olm.constraint to resolver predicate: constraint is empty`
    pub(crate) CON_04: Deny {
        name: "constraint-not-empty",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2730-2749, L2837", "OLM pkg/controller/registry/resolver/resolver.go"],
    }
}

rule! {
    /// a constraint is of exactly one type
    ///
    /// A constraint, nested ones included, sets no more than one of `gvk`, `package`, `cel`, `all`,
    /// `any` and `not`; CON-04 reports a constraint that sets none. `failureMessage` can be set in
    /// addition. With `constraints.mode: upstream`, several types are accepted.
    ///
    /// # Why
    ///
    /// OLM's resolver uses the first of `gvk`, `package`, `all`, `any`, `not` and `cel` and
    /// silently ignores the others, so their requirements are not enforced. OpenShift 4.12,
    /// Operators, *Generic constraints*: a constraint is of a particular type.
    ///
    /// # Remediation
    ///
    /// Put each part into the list of an `all`, or write one property for each.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   all:
    ///     constraints:
    ///     - gvk: {group: a.b, version: v1, kind: K}
    ///     - package: {packageName: foo, versionRange: '>=1.0.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   gvk: {group: a.b, version: v1, kind: K}
    ///   package: {packageName: foo, versionRange: '>=1.0.0'}
    /// ```
    ///
    /// message: `olm.constraint must set exactly one of gvk, package, cel, all, any, not; found
    /// gvk, package`
    pub(crate) CON_05: Deny {
        name: "constraint-exactly-one-type",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2730-2749", "OLM pkg/controller/registry/resolver/resolver.go"],
    }
}

rule! {
    /// all, any and not contain at least one constraint
    ///
    /// The list `constraints` of every `all`, `any` and `not` has at least one element; an absent
    /// list counts as empty. If the object has an unknown or repeated field, CON-03 is reported
    /// instead. With `constraints.mode: upstream`, an empty or absent list is accepted.
    ///
    /// # Why
    ///
    /// OLM always satisfies an empty `all` or `not`, and never an empty `any`. Neither is useful.
    /// OpenShift 4.12, Operators, *Generic constraints*: the three contain one or more constraints.
    ///
    /// # Remediation
    ///
    /// Add a constraint to the list, or remove the `all`, `any` or `not`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   any:
    ///     constraints:
    ///     - gvk: {group: blues.example.com, version: v1, kind: Blue}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   all: {constraints: []}
    /// ```
    ///
    /// message: `olm.constraint all.constraints must contain one or more constraints`
    pub(crate) CON_13: Deny {
        name: "compound-constraint-not-empty",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2747-2749, L2892-2926", "OCP 4.15 L1962-2147", "OLM pkg/controller/registry/resolver/resolver.go"],
    }
}

rule! {
    /// a not constraint is an element of all or any
    ///
    /// A `not` is an element of the list of an `all` or `any`. It is neither at the top of an
    /// `olm.constraint` nor directly inside another `not`. The rule is the same under every
    /// profile: the text of OpenShift 4.15 advises against `not` together with `all` or `any`, but
    /// its example has it there.
    ///
    /// # Why
    ///
    /// A negation only removes solutions. It has no use without a constraint that first selects
    /// candidates. OpenShift 4.12, Operators, *Compound constraints (all, any, not)*, advises
    /// against it.
    ///
    /// # Remediation
    ///
    /// Move the `not` into an `all`, next to the constraint that selects the candidates.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   all:
    ///     constraints:
    ///     - package: {packageName: blue, versionRange: '>=1.0.0'}
    ///     - not: {constraints: [{gvk: {group: greens.example.com, version: v1, kind: Green}}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   not: {constraints: [{gvk: {group: greens.example.com, version: v1, kind: Green}}]}
    /// ```
    ///
    /// message: `the not compound constraint should only be used within all or any constraints`
    pub(crate) CON_14: Warn {
        name: "not-constraint-nested",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2853-2884", "OCP 4.15 L2079-2099"],
    }
}
