//! The rules, with their levels and sources.
//!
//! Files come as CREATE, or as UPDATE where there is a published state to compare with. CON-11 and
//! CON-12 go by a parser and type checker of our own, see `opgate_constraint::cel` for what it knows.

use opgate_sdk::Operation::{self, Create, Update};
use opgate_sdk::{DefaultLevel, Level, Rule};

const ALL: &[&str] =
    &["ClusterServiceVersion", "InstallPlan", "ConfigMap", "RegistryBundle", "FileBasedCatalog"];
const ANNOTATED: &[&str] = &["ClusterServiceVersion", "InstallPlan", "ConfigMap", "RegistryBundle"];
const FILES: &[&str] = &["RegistryBundle", "FileBasedCatalog"];
const BUNDLE: &[&str] = &["RegistryBundle"];
const WRITES: &[Operation] = &[Create, Update];

/// The level of a rule unless the configuration says otherwise. A rule that is off by default denies
/// where a setting asks for it, and is advice otherwise.
#[must_use]
pub fn level(id: &str) -> Level {
    let rule = RULES.iter().find(|rule| rule.id == id);
    let denies = |rule: &Rule| match rule.default_level {
        DefaultLevel::Deny => true,
        DefaultLevel::Warn => false,
        DefaultLevel::Off => !rule.enabled_by.is_empty(),
    };
    if rule.is_some_and(denies) { Level::Deny } else { Level::Warn }
}

/// Every rule of the policy, in the order of their ids.
pub const RULES: &[Rule] = &[
    Rule {
        id: "CON-01",
        title: "an olm.constraint has at most constraints.maxBytes bytes",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2932; OCP 4.15 L1962-2147; api pkg/constraints/constraint.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-02",
        title: "an olm.constraint is a JSON object",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2730; api pkg/constraints/constraint.go; OLM pkg/controller/registry/resolver/resolver.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-03",
        title: "an olm.constraint has no unknown or repeated fields",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2730-2749, L2802-2926; OCP 4.15 L1962-2147; api pkg/constraints/constraint.go, pkg/constraints/constraint_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-04",
        title: "a constraint asks for something",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2730-2749, L2837; OLM pkg/controller/registry/resolver/resolver.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-05",
        title: "a constraint is of exactly one type",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2730-2749; OLM pkg/controller/registry/resolver/resolver.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-06",
        title: "failure messages and the leaves of a constraint are strings",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2730, L2837-2848; api pkg/constraints/constraint.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-07",
        title: "a gvk constraint has a group, a version and a kind",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L849-857, L2735-2737; OCP 4.15 L726-803; api pkg/constraints/constraint.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-08",
        title: "a package constraint names a package",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L831-838, L2739-2741, L2811-2813; api pkg/constraints/constraint.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-09",
        title: "the versionRange of a package constraint is a semver range",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L868-875, L2482, L3132; OLM pkg/controller/registry/resolver/resolver.go; api pkg/constraints/constraint_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-10",
        title: "a semver range means what it says",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2482, L3132; api pkg/constraints/constraint.go",
        ..Rule::WARN
    },
    Rule {
        id: "CON-11",
        title: "a CEL rule is an expression that compiles",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2745, L2758-2783; OCP 4.15 L1962-2147; api pkg/constraints/cel.go, pkg/constraints/cel_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-12",
        title: "a CEL rule is of type bool",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2758; api pkg/constraints/cel.go, pkg/constraints/cel_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-13",
        title: "all, any and not contain at least one constraint",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2747-2749, L2892-2926; OCP 4.15 L1962-2147; OLM pkg/controller/registry/resolver/resolver.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-14",
        title: "not stands within all or any only",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2853-2884; OCP 4.15 L2079-2099",
        ..Rule::WARN
    },
    Rule {
        id: "CON-15",
        title: "compound constraints nest at most constraints.warnDepth levels deep",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L2892-2926; enhancements compound-bundle-constraints.md",
        ..Rule::WARN
    },
    Rule {
        id: "CON-16",
        title: "the JSON of a constraint nests at most constraints.maxDepth levels deep",
        kinds: ALL,
        operations: WRITES,
        source: "api pkg/constraints/constraint.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-17",
        title: "annotations with properties are lists of properties in JSON",
        kinds: ANNOTATED,
        operations: WRITES,
        source: "OLM pkg/controller/registry/resolver/projection/properties.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-18",
        title: "required packages, APIs and labels are objects, and their ranges semver ranges",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L868-896; OLM pkg/controller/registry/resolver/resolver.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-19",
        title: "a package dependency names a package",
        kinds: BUNDLE,
        operations: WRITES,
        source: "OCP 4.12 L486, L505-514, L2692, L2711-2720; OCP 4.15 L368-401, L1927-1960; OCP 4.5 L302-305; OKD L83-86, L94-97; operator-registry pkg/registry/types.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-20",
        title: "a package dependency has a version or a semver range",
        kinds: BUNDLE,
        operations: WRITES,
        source: "OCP 4.12 L486, L2692, L3121, L3132; OCP 4.15 L368-401; OCP 4.5 L302-305; OKD L83-86; operator-registry pkg/registry/types.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-21",
        title: "an API dependency has a group, a version and a kind",
        kinds: BUNDLE,
        operations: WRITES,
        source: "OCP 4.12 L490, L510-514, L2696; OCP 4.15 L368-401; OCP 4.5 L306-308; OKD L87-88, L98-102; operator-registry pkg/registry/types.go",
        ..Rule::DENY
    },
    Rule {
        id: "CON-22",
        title: "APIs are named as Kubernetes wants it",
        kinds: ALL,
        operations: WRITES,
        source: "OCP 4.12 L849, L886, L2735-2737, L4901; OCP 4.15 L726-803; OKD L271, L293",
        ..Rule::DENY
    },
    Rule {
        id: "CON-23",
        title: "an olm.constraint in dependencies.yaml is a CEL expression, as the registry reads it",
        enabled_by: &["/bundle/dependenciesCelOnly"],
        kinds: BUNDLE,
        operations: WRITES,
        source: "OCP 4.12 L494, L2700; operator-registry pkg/registry/types.go",
        ..Rule::OFF
    },
    Rule {
        id: "CON-24",
        title: "dependencies on one Operator are by package or by API, not both",
        kinds: BUNDLE,
        operations: WRITES,
        source: "OCP 4.12 L3153-3169; OCP 4.15 L2228-2294",
        ..Rule::OFF
    },
    Rule {
        id: "CON-25",
        title: "every API that a CSV requires is a dependency",
        kinds: BUNDLE,
        operations: WRITES,
        source: "OCP 4.12 L3089; OCP 4.15 L2228-2294",
        ..Rule::WARN
    },
    Rule {
        id: "CON-26",
        title: "a package range has a lower bound",
        kinds: FILES,
        operations: WRITES,
        source: "OCP 4.12 L3091-3113; OCP 4.15 L2228-2294",
        ..Rule::WARN
    },
    Rule {
        id: "CON-27",
        title: "a package range has no narrow upper bound",
        kinds: FILES,
        operations: WRITES,
        source: "OCP 4.12 L486, L3116-3124, L3132; OCP 4.15 L2228-2294",
        ..Rule::WARN
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_that_are_told_without_a_policy() {
        // CON-25 looks at whole bundles, and CON-24 is off: neither is about a constraint alone.
        for rule in RULES.iter().filter(|rule| !matches!(rule.id, "CON-24" | "CON-25")) {
            let advice = level(rule.id) == Level::Warn;
            assert_eq!(opgate_constraint::levels::is_advice(rule.id), advice, "{}", rule.id);
        }
    }
}
