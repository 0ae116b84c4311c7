//! Reads and changes the sources of a policy, line by line, in the format of rustfmt.

/// The longest line that rustfmt writes.
const MAX_LINE_WIDTH: usize = 100;
/// The longest name that rustfmt puts on a line with others.
const MAX_SHORT_NAME: usize = 10;

/// A rule that a source declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleDeclaration {
    /// `RBF_33`.
    pub(crate) name: String,
    /// Targets and operations: `BUNDLE: Create | Update`.
    pub(crate) on: String,
}

/// Returns the rules that a source declares.
pub(crate) fn declared_rules(source: &str) -> Vec<RuleDeclaration> {
    let mut rules: Vec<RuleDeclaration> = Vec::new();
    let mut is_inside = false;
    let mut on: Option<String> = None;
    for line in source.lines() {
        is_inside |= opens(line);
        let line = line.trim();
        if !is_inside || line.starts_with("//") {
            continue;
        }
        if let Some(name) = rule_name(line) {
            rules.push(RuleDeclaration { name: name.to_owned(), on: String::new() });
        }
        // The list may go over several lines.
        if let Some(start) = line.strip_prefix("on: [") {
            on = Some(start.to_owned());
        } else if let Some(on) = &mut on {
            on.push(' ');
            on.push_str(line);
        }
        if let Some((list, _)) = on.as_deref().and_then(|on| on.split_once(']')) {
            if let Some(rule) = rules.last_mut() {
                list.trim().trim_end_matches(',').clone_into(&mut rule.on);
            }
            (on, is_inside) = (None, false);
        }
    }
    rules
}

fn opens(line: &str) -> bool {
    line == "rule! {" || line == "opgate_sdk::rule! {"
}

/// Returns the name in `pub(crate) RBF_12: Deny {`.
fn rule_name(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(": ")?;
    let is_level = rest.starts_with("Deny {") || rest.starts_with("Warn {");
    name.split_whitespace().last().filter(|_| is_level)
}

/// Returns the source with a section after all others, and before its tests.
pub(crate) fn insert_section(source: &str, section: &str) -> String {
    let macros = if source.lines().any(|line| line == "rule! {") { "" } else { "opgate_sdk::" };
    match source.find("\n#[cfg(test)]\nmod tests") {
        Some(at) => {
            let (code, tests) = source.split_at(at);
            format!("{}\n\n{macros}{section}{tests}", code.trim_end())
        }
        None => format!("{}\n\n{macros}{section}", source.trim_end()),
    }
}

/// Returns the source with a name among the `rules![…]` of the module, and whether the list is new.
pub(crate) fn add_to_list(source: &str, name: &str) -> (String, bool) {
    for opening in ["\nrules![", "\nopgate_sdk::rules!["] {
        if let Some((before, rest)) = source.split_once(opening)
            && let Some((names, after)) = rest.split_once(']')
        {
            let mut names: Vec<&str> =
                names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            let place = names.iter().position(|other| split_number(other) > split_number(name));
            names.insert(place.unwrap_or(names.len()), name);
            return (format!("{before}{}]{after}", format_list(opening, &names)), false);
        }
    }
    let (before, after) = source.split_at(end_of_uses(source));
    let (before, after) = (before.trim_end(), after.trim_start());
    (format!("{before}\n\nopgate_sdk::rules![{name}];\n\n{after}"), true)
}

/// Prefix and number of a name.
fn split_number(name: &str) -> Option<(&str, u64)> {
    let (prefix, number) = name.rsplit_once('_')?;
    Some((prefix, number.parse().ok()?))
}

/// Returns the names as rustfmt writes them, without the bracket at the end.
fn format_list(opening: &str, names: &[&str]) -> String {
    let line = format!("{opening}{}", names.join(", "));
    // With the two characters that follow, and without the line break that it starts with.
    if line.len() < MAX_LINE_WIDTH {
        return line;
    }
    let are_short = names.iter().all(|name| name.len() <= MAX_SHORT_NAME);
    let mut text = opening.to_owned();
    let mut width = MAX_LINE_WIDTH;
    for (index, name) in names.iter().enumerate() {
        let comma = if index + 1 < names.len() { "," } else { "" };
        if are_short && width + 1 + name.len() + comma.len() <= MAX_LINE_WIDTH {
            text.push(' ');
            width += 1;
        } else {
            text.push_str("\n    ");
            width = 4;
        }
        text.push_str(name);
        text.push_str(comma);
        width += name.len() + comma.len();
    }
    text.push('\n');
    text
}

/// Returns the end of the `use` declarations of a source, or else of its documentation.
fn end_of_uses(source: &str) -> usize {
    let (mut end, mut offset) = (0, 0);
    let mut is_use = false;
    for line in source.split_inclusive('\n') {
        offset += line.len();
        is_use |= line.starts_with("use ") || line.starts_with("pub use ");
        if is_use || line.starts_with("//!") {
            end = offset;
        }
        is_use &= !line.trim_end().ends_with(';');
    }
    end
}

/// Returns `lib.rs` with the rules of a module (`rbac::RULES`) among those of the policy; none if it has no
/// such list.
pub(crate) fn add_module(library: &str, new: &str) -> Option<String> {
    let (head, rest) = library.split_once("policy! {")?;
    let (before, rest) = rest.split_once("rules: [")?;
    let (modules, after) = rest.split_once(']')?;
    let mut modules: Vec<&str> =
        modules.split(',').map(str::trim).filter(|module| !module.is_empty()).collect();
    let place = modules.iter().position(|other| *other > new);
    modules.insert(place.unwrap_or(modules.len()), new);
    let line = format!("    rules: [{}],", modules.join(", "));
    let list = if line.len() <= MAX_LINE_WIDTH && !rest.starts_with('\n') {
        modules.join(", ")
    } else {
        format!("\n        {},\n    ", modules.join(",\n        "))
    };
    Some(format!("{head}policy! {{{before}rules: [{list}]{after}"))
}

/// Returns the kind of the first route of a policy, as `lib.rs` names it.
pub(crate) fn first_target(library: &str) -> Option<&str> {
    let (_, rest) = library.split_once("policy! {")?;
    let (_, rest) = rest.split_once("routes: [")?;
    let (kind, _) = rest.split_once("=>")?;
    Some(kind.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
//! One.

use std::fmt;
use opgate_sdk::{
    Document, rule, rules,
};

rules![A_01, A_03];

rule! {
    /// A_02: Deny { is no rule
    A_01: Deny {
        on: [X: Create],
        source: \"\",
    }
}

rule! {
    /// three
    pub(crate) A_03: Warn {
        on: [
            X: Create | Update,
            Y: Delete,
        ],
        source: \"\",
    }
}

fn check() {}

#[cfg(test)]
mod tests {}
";

    #[test]
    fn rules_are_found_with_their_targets() {
        let found = declared_rules(MODULE);
        let found: Vec<_> = found.iter().map(|r| (r.name.as_str(), r.on.as_str())).collect();
        assert_eq!(found, [("A_01", "X: Create"), ("A_03", "X: Create | Update, Y: Delete")]);
    }

    #[test]
    fn section_is_inserted_before_the_tests() {
        let found = insert_section(MODULE, "rule! { A_02 }\n");
        assert!(found.ends_with("fn check() {}\n\nrule! { A_02 }\n\n#[cfg(test)]\nmod tests {}\n"));
        assert_eq!(
            insert_section("//! One.\n", "rule! { A_02 }\n"),
            "//! One.\n\nopgate_sdk::rule! { A_02 }\n"
        );
    }

    #[test]
    fn names_are_listed_in_order() {
        let listed = |name| add_to_list(MODULE, name);
        for (name, list) in
            [("A_02", "rules![A_01, A_02, A_03];"), ("A_10", "rules![A_01, A_03, A_10];")]
        {
            let (text, is_new) = listed(name);
            assert!(text.contains(list) && !is_new, "{text}");
        }
        let (text, is_new) = add_to_list(&MODULE.replace("rules![A_01, A_03];\n\n", ""), "A_04");
        assert!(is_new);
        assert!(
            text.contains("rule, rules,\n};\n\nopgate_sdk::rules![A_04];\n\nrule! {"),
            "{text}"
        );
    }

    #[test]
    fn long_lists_are_broken_as_rustfmt_does() {
        let mut text = "\nrules![LONG_01];".to_owned();
        for number in 2..=13 {
            text = add_to_list(&text, &format!("LONG_{number:02}")).0;
        }
        let expected = "
rules![
    LONG_01, LONG_02, LONG_03, LONG_04, LONG_05, LONG_06, LONG_07, LONG_08, LONG_09, LONG_10,
    LONG_11, LONG_12, LONG_13
];";
        assert_eq!(text, expected);
        let text = add_to_list(&text, "LONGER_PREFIX_14").0;
        assert!(
            text.starts_with("\nrules![\n    LONG_01,\n") && text.ends_with("_14\n];"),
            "{text}"
        );
    }

    #[test]
    fn a_new_module_is_among_those_of_the_policy() {
        let library =
            "opgate_sdk::policy! {\n    rules: [b::RULES],\n    routes: [x::Y => check],\n}";
        let found = add_module(library, "a::RULES").unwrap();
        assert!(found.contains("    rules: [a::RULES, b::RULES],\n"), "{found}");
        let library = library.replace("[b::RULES]", "[\n        b::RULES,\n    ]");
        let found = add_module(&library, "c::RULES").unwrap();
        assert!(found.contains("[\n        b::RULES,\n        c::RULES,\n    ],\n"), "{found}");
        assert_eq!(first_target(&library).unwrap(), "x::Y");
        assert_eq!(add_module("fn main() {}", "a::RULES"), None);
    }
}
