//! CEL expressions. The parser and type checker are in the crate `opgate-cel`.

use opgate_sdk::{rule, rules};

use crate::targets::{CATALOG, CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

rules![CON_11, CON_12];

rule! {
    /// a CEL rule is an expression that compiles
    ///
    /// `rule` of every `cel` is a CEL expression that is not empty and that compiles with the
    /// standard library, the function `semver_compare`, and one variable: `properties`, a list of
    /// maps with `type` and `value`. No variable provides information about the cluster. opgate has
    /// its own parser and type checker, which also reject expressions that nest more than 64 levels
    /// deep, protocol messages and optional values (`a.?b`).
    ///
    /// # Why
    ///
    /// OLM compiles the expression when it reads the constraint, and fails if it cannot. OpenShift
    /// 4.12, Operators, *Common Expression Language (CEL) constraints*, requires a CEL expression
    /// over the properties of Operators.
    ///
    /// # Remediation
    ///
    /// Correct the expression at the position that the message marks. Use `&&` and `||` for logic,
    /// and `properties` for data.
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
    /// value:
    ///   cel:
    ///     rule: doesnt_exist(properties)
    /// ```
    ///
    /// message: `convert olm.constraint to resolver predicate: ERROR: <input>:1:13: undeclared
    /// reference to 'doesnt_exist' (in container '')`, and below it the line of the expression with
    /// a mark.
    pub(crate) CON_11: Deny {
        name: "cel-rule-compiles",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2745, L2758-2783", "OCP 4.15 L1962-2147", "api pkg/constraints/cel.go, pkg/constraints/cel_test.go"],
    }
}

rule! {
    /// a CEL rule is of type bool
    ///
    /// The type checker finds exactly `bool` for `rule` of every `cel` that compiles (CON-11). The
    /// value of a property can have any type, so `properties[0].value` alone is also rejected,
    /// regardless of its type at run time.
    ///
    /// # Why
    ///
    /// A constraint is either satisfied or not, and OLM rejects an expression of another type.
    /// OpenShift 4.12, Operators, *Common Expression Language (CEL) constraints*: the rule
    /// determines whether an Operator satisfies the constraint.
    ///
    /// # Remediation
    ///
    /// Compare the value with something: `properties[0].value == "x"`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   cel:
    ///     rule: properties.exists(p, p.type == 'a' && semver_compare(p.value, '1.0.0') == 0)
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   cel:
    ///     rule: properties[0].value
    /// ```
    ///
    /// message: `cel expressions must have type Bool`
    pub(crate) CON_12: Deny {
        name: "cel-rule-bool",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L2758", "api pkg/constraints/cel.go, pkg/constraints/cel_test.go"],
    }
}
