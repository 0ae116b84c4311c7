//! The structure of a constraint: JSON with known fields and types.

use opgate_sdk::{rule, rules};

use crate::targets::{CATALOG, CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

rules![CON_02, CON_03, CON_06];

rule! {
    /// an olm.constraint is a JSON object
    ///
    /// The value of every `olm.constraint` (CON-01 lists the fields) is one JSON object with
    /// nothing after it. Inside it, `gvk`, `package`, `cel`, `all`, `any` and `not` are objects,
    /// and `constraints` is a list of objects. A value that is missing, `null`, of another type or
    /// broken JSON is rejected; a nested `null` counts as not set. With `constraints.mode:
    /// upstream`, a value that is `null` is an empty constraint (CON-04), and data after the value
    /// is ignored.
    ///
    /// # Why
    ///
    /// OLM cannot decode anything else, and fails to resolve the dependencies of the bundle.
    /// OpenShift 4.12, Operators, *Generic constraints*, requires an object.
    ///
    /// # Remediation
    ///
    /// Write an object. In YAML, check the indentation: keys that are not indented below `value`
    /// leave it `null`, as in the example of a `not` constraint in OpenShift 4.12.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   cel:
    ///     rule: 'properties.exists(p, p.type == "certified")'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value: []
    /// ```
    ///
    /// message: `parse olm.constraint: json: cannot unmarshal array into Go value of type
    /// constraints.Constraint`
    pub(crate) CON_02: Deny {
        name: "constraint-json-object",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2730", "api pkg/constraints/constraint.go", "OLM pkg/controller/registry/resolver/resolver.go"],
    }
}

rule! {
    /// an olm.constraint has no unknown or repeated fields
    ///
    /// A constraint, nested ones included, can have the keys `failureMessage`, `gvk`, `package`,
    /// `cel`, `all`, `any` and `not`; `gvk` can have `group`, `version` and `kind`, `package` can
    /// have `packageName` and `versionRange`, `cel` can have `rule`, and `all`, `any` and `not` can
    /// have `constraints`. In `package`, `name` and `version` are other spellings of the two keys,
    /// unless `constraints.packageKeys` is `code`. Keys are case-sensitive, and no key is set
    /// twice, in one spelling or in two. With `constraints.mode: upstream`, case does not matter
    /// and keys may repeat; unknown keys are still rejected.
    ///
    /// # Why
    ///
    /// OLM rejects a constraint with an unknown field. If a field is repeated, one value silently
    /// overwrites the other. OpenShift 4.12, Operators, *Generic constraints*, lists the types.
    ///
    /// # Remediation
    ///
    /// Correct the spelling, or remove the field. Prefer `packageName` and `versionRange`: OLM's
    /// code accepts no other spellings, although examples in the documentation use `name`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   package: {packageName: foo, versionRange: '>=1.0.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   none: {constraints: [{gvk: {group: a.b, version: v1, kind: K}}]}
    /// ```
    ///
    /// message: `parse olm.constraint: json: unknown field "none"`. For a repeated field the
    /// message is `parse olm.constraint: json: duplicate field "name"`.
    pub(crate) CON_03: Deny {
        name: "constraint-known-fields",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2730-2749, L2802-2926", "OCP 4.15 L1962-2147", "api pkg/constraints/constraint.go, pkg/constraints/constraint_test.go"],
    }
}

rule! {
    /// failure messages and the fields of gvk, package and cel constraints are strings
    ///
    /// `failureMessage`, the fields of `gvk` and `package`, and `rule` of `cel` are strings if they
    /// are set, at every level of nesting. `failureMessage` is optional everywhere. A field that is
    /// `null` counts as not set.
    ///
    /// # Why
    ///
    /// OLM decodes the constraint into a structure with strings, and fails on any other type.
    /// OpenShift 4.12, Operators, *Generic constraints*, calls the message a string.
    ///
    /// # Remediation
    ///
    /// Put the value into quotes: YAML reads `1.5` as a number and `true` as a boolean.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   failureMessage: '5'
    ///   cel: {rule: 'true'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   failureMessage: 5
    ///   cel: {rule: 'true'}
    /// ```
    ///
    /// message: `parse olm.constraint: json: cannot unmarshal number into Go struct field
    /// Constraint.failureMessage of type string`
    pub(crate) CON_06: Deny {
        name: "constraint-string-fields",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2730, L2837-2848", "api pkg/constraints/constraint.go"],
    }
}
