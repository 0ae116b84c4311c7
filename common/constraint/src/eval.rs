//! Whether properties fulfil a constraint, part by part.
//!
//! ```text
//! Constraint + properties ─▶ one Outcome for each node: holds or not, and why
//! ```
//!
//! Nodes are in the order parents before children, so outcomes are computed from the last to the first. All
//! expressions in CEL together have [`opgate_cel::MAX_STEPS`] steps. An expression that needs more has an
//! unknown value, and so do nodes that depend on it.

use std::fmt::Write as _;

use crate::constraint::{Body, Constraint};
use crate::names::Gvk;
use opgate_cel::{Budget, EvaluationError, Program, Properties};
use opgate_compat::go::{quote, shorten};
use opgate_compat::json::{self, Kind};
use opgate_compat::version::Version;

/// A property of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Its type.
    pub kind: String,
    /// The JSON text of its value.
    pub value: Vec<u8>,
}

/// Result of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it holds; `None` if an evaluation reached a limit.
    pub holds: Option<bool>,
    /// The requirement, and the properties found.
    pub explanation: String,
    /// The nodes in it.
    pub children: Vec<usize>,
}

/// Returns the outcomes of a constraint's nodes, in their order; the first is that of the whole.
#[must_use]
pub fn evaluate(constraint: &Constraint, properties: &[Property]) -> Vec<Outcome> {
    let offers = ProvidedProperties::of(properties);
    let mut expressions = ExpressionEvaluator::of(properties);
    let nothing = Outcome { holds: Some(false), explanation: String::new(), children: Vec::new() };
    let mut outcomes = vec![nothing; constraint.nodes.len()];
    for (index, node) in constraint.nodes.iter().enumerate().rev() {
        let of = |children: &[usize], decisive: bool| {
            let holds = |child: &usize| outcomes.get(*child).and_then(|outcome| outcome.holds);
            let mut unknown = false;
            for child in children {
                match holds(child) {
                    Some(found) if found == decisive => return Some(decisive),
                    Some(_) => {}
                    None => unknown = true,
                }
            }
            if unknown { None } else { Some(!decisive) }
        };
        let (holds, mut why, children) = match &node.body {
            Body::Empty => (Some(false), "asks for nothing".to_owned(), &Vec::new()),
            Body::Gvk(gvk) => {
                let found = offers.gvks.contains(gvk);
                let word = if found { "is provided" } else { "is not provided" };
                (Some(found), format!("gvk {gvk} {word}"), &Vec::new())
            }
            Body::Package(package) => {
                let (holds, why) = offers.package(&package.name, |version| {
                    package.parsed.as_ref().is_some_and(|range| range.contains(version))
                });
                let asked = format!(
                    "package {} {}",
                    shorten(&package.name, 256),
                    quote(&shorten(&package.range, 256))
                );
                (Some(holds), format!("{asked}: {why}"), &Vec::new())
            }
            Body::Cel(rule) => {
                let (holds, why) = expressions.evaluate(rule);
                let rule = quote(&shorten(rule, 256));
                (holds, format!("cel {rule} {why}"), &Vec::new())
            }
            Body::All(children) => (of(children, false), "all of".to_owned(), children),
            Body::Any(children) => (of(children, true), "any of".to_owned(), children),
            Body::Not(children) => {
                (of(children, true).map(|any| !any), "none of".to_owned(), children)
            }
        };
        if holds == Some(false) && !node.failure_message.is_empty() {
            let _ = write!(why, " ({})", shorten(&node.failure_message, 256));
        }
        let children = children.clone();
        if let Some(outcome) = outcomes.get_mut(index) {
            *outcome = Outcome { holds, explanation: why, children };
        }
    }
    outcomes
}

/// Formats the outcomes as a tree, one line each.
#[must_use]
pub fn format_tree(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let mut waiting = vec![(0, 0)];
    while let Some((index, depth)) = waiting.pop() {
        let Some(outcome) = outcomes.get(index) else { continue };
        let word = match outcome.holds {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        // Very deep levels are not indented further.
        let indent = 2 * usize::min(depth, 32);
        let _ = writeln!(text, "{:indent$}{word}: {}", "", outcome.explanation);
        waiting.extend(outcome.children.iter().rev().map(|child| (*child, depth + 1)));
    }
    text
}

/// Properties for expressions, and the remaining budget.
struct ExpressionEvaluator<'p> {
    properties: &'p [Property],
    /// Made for the first expression.
    cached: Option<Properties>,
    budget: Budget,
}

impl<'p> ExpressionEvaluator<'p> {
    fn of(properties: &'p [Property]) -> Self {
        Self { properties, cached: None, budget: Budget::default() }
    }

    /// Evaluates an expression; returns its value and an explanation.
    fn evaluate(&mut self, rule: &str) -> (Option<bool>, String) {
        let program = match Program::compile(rule) {
            Ok(program) => program,
            Err(fault) => return (Some(false), format!("does not compile: {fault}")),
        };
        let texts = self.properties.iter().map(|p| (p.kind.as_str(), p.value.as_slice()));
        let seen = self.cached.get_or_insert_with(|| Properties::new(texts));
        match program.run(seen, &mut self.budget) {
            Ok(true) => (Some(true), "is true".to_owned()),
            Ok(false) => match program.first_false_term(seen, &mut self.budget) {
                Some(part) => {
                    let part = quote(&shorten(part, 256));
                    (Some(false), format!("is false because {part} is"))
                }
                None => (Some(false), "is false".to_owned()),
            },
            // For OLM, what fails is false.
            Err(EvaluationError::Error(error)) => {
                (Some(false), format!("fails: {}", shorten(&error, 512)))
            }
            Err(EvaluationError::Limit(limit)) => (None, format!("is given up: {limit}")),
        }
    }
}

/// APIs and packages that properties provide.
struct ProvidedProperties {
    gvks: Vec<Gvk>,
    packages: Vec<(String, String)>,
}

impl ProvidedProperties {
    fn of(properties: &[Property]) -> Self {
        let mut offers = Self { gvks: Vec::new(), packages: Vec::new() };
        for property in properties {
            let text = |name: &str| {
                let mut text = String::new();
                // A value that is not JSON offers nothing.
                let _ = json::each_child(&property.value, |child| {
                    if child.kind == Kind::Text && child.is_named(name) {
                        text = json::text(child.raw);
                    }
                });
                text
            };
            match property.kind.as_str() {
                "olm.gvk" => {
                    let [group, version, kind] = ["group", "version", "kind"].map(text);
                    offers.gvks.push(Gvk { group, version, kind });
                }
                "olm.package" => offers.packages.push((text("packageName"), text("version"))),
                _ => {}
            }
        }
        offers
    }

    fn package(&self, name: &str, contains: impl Fn(&Version) -> bool) -> (bool, String) {
        let mut why = "there is no such package".to_owned();
        for (_, version) in self.packages.iter().filter(|(found, _)| found == name) {
            let shown = shorten(version, 64);
            match Version::parse(version) {
                Ok(parsed) if contains(&parsed) => return (true, format!("{shown} is in range")),
                Ok(_) => why = format!("{shown} is not in range"),
                Err(error) => why = format!("{} is no version: {error}", quote(&shown)),
            }
        }
        (false, why)
    }
}

#[cfg(test)]
mod tests {
    use crate::constraint::{Options, check};

    use super::*;

    fn constraint(json: &str) -> Constraint {
        check(json.as_bytes(), &Options { upstream: true, ..Options::default() })
            .constraint
            .unwrap()
    }

    fn properties() -> Vec<Property> {
        [
            ("olm.package", r#"{"packageName":"fuz","version":"1.2.0"}"#),
            ("olm.gvk", r#"{"group":"a.b","version":"v1","kind":"K"}"#),
            ("other", "red"),
        ]
        .map(|(kind, value)| Property { kind: kind.to_owned(), value: value.into() })
        .into()
    }

    #[test]
    fn constraint_parts_evaluate_as_upstream() {
        let fuz = r#"{"package":{"packageName":"fuz","versionRange":">=1.0.0"}}"#;
        let old = r#"{"package":{"packageName":"fuz","versionRange":"<1.0.0"}}"#;
        let gvk = r#"{"gvk":{"group":"a.b","version":"v1","kind":"K"}}"#;
        let cel = r#"{"cel":{"rule":"properties.exists(p, p.type == 'olm.gvk')"}}"#;
        let fails = r#"{"cel":{"rule":"properties[9].type == 'a'"}}"#;
        // More steps than there are, without an end that decides.
        let ten = "[0,1,2,3,4,5,6,7,8,9]";
        let explodes = ["a", "b", "c", "d", "e", "f", "g"]
            .iter()
            .fold("true".to_owned(), |inner, name| format!("{ten}.all({name}, {inner})"));
        let explodes = &format!(r#"{{"cel":{{"rule":"{explodes}"}}}}"#);
        let compound = |name: &str, of: &[&str]| {
            format!(r#"{{"{name}":{{"constraints":[{}]}}}}"#, of.join(","))
        };
        for (json, holds) in [
            (fuz.to_owned(), Some(true)),
            (old.to_owned(), Some(false)),
            (gvk.to_owned(), Some(true)),
            (cel.to_owned(), Some(true)),
            (fails.to_owned(), Some(false)),
            (explodes.to_owned(), None),
            (compound("all", &[fuz, gvk]), Some(true)),
            (compound("all", &[fuz, old]), Some(false)),
            (compound("all", &[fuz, cel]), Some(true)),
            (compound("all", &[fuz, explodes]), None),
            (compound("all", &[old, explodes]), Some(false)),
            (compound("any", &[old, gvk]), Some(true)),
            (compound("any", &[explodes, gvk]), Some(true)),
            (compound("any", &[explodes, old]), None),
            (compound("not", &[old]), Some(true)),
            (compound("not", &[old, gvk]), Some(false)),
            (compound("not", &[fails]), Some(true)),
            (compound("not", &[explodes]), None),
            (compound("all", &[]), Some(true)),
            (compound("any", &[]), Some(false)),
            (compound("not", &[]), Some(true)),
            (compound("all", &[&compound("not", &[old]), &compound("any", &[gvk])]), Some(true)),
        ] {
            assert_eq!(evaluate(&constraint(&json), &properties())[0].holds, holds, "{json}");
        }
    }

    #[test]
    fn failing_part_of_a_constraint_is_marked() {
        let json = r#"{"failureMessage":"both","all":{"constraints":[
            {"package":{"packageName":"fuz","versionRange":">=2.0.0"}},
            {"gvk":{"group":"a.b","version":"v1","kind":"K"}}]}}"#;
        let text = format_tree(&evaluate(&constraint(json), &properties()));
        let expected = "no: all of (both)\n  no: package fuz \">=2.0.0\": 1.2.0 is not in range\n  yes: gvk a.b/v1, Kind=K is provided\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn false_expression_reports_its_cause() {
        for (rule, why) in [
            ("true", r#"yes: cel "true" is true"#),
            ("true && 1 > 2", r#"no: cel "true && 1 > 2" is false because "1 > 2" is"#),
            ("1 > 2", r#"no: cel "1 > 2" is false"#),
            (
                "properties[0].value.x == 1",
                r#"no: cel "properties[0].value.x == 1" fails: no such key: x"#,
            ),
            (
                "properties[2].type == 'other'",
                r#"no: cel "properties[2].type == 'other'" fails: no such key: type"#,
            ),
        ] {
            let json = serde_json::json!({"cel": {"rule": rule}}).to_string();
            let text = format_tree(&evaluate(&constraint(&json), &properties()));
            assert_eq!(text.trim_end(), why, "{rule}");
        }
    }

    #[test]
    fn deep_constraint_is_evaluated() {
        let json = r#"{"not":{"constraints":["#.repeat(2_000)
            + r#"{"gvk":{"group":"a.b","version":"v1","kind":"K"}}"#
            + &"]}}".repeat(2_000);
        let outcomes = evaluate(&constraint(&json), &properties());
        assert_eq!(outcomes[0].holds, Some(true));
        assert_eq!(format_tree(&outcomes).lines().count(), 2_001);
    }
}
