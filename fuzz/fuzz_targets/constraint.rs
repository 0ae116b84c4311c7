//! The value of an `olm.constraint`, and lists of properties: `opgate_constraint::check` with all options,
//! `properties::each` in both formats, `eval`, and the JSON reader.
//!
//! Oracles: `serde_json` for syntax and values, and invariants. The size is checked first. Upstream's mode
//! accepts all that strict mode accepts. White space does not matter. A constraint has the same result in
//! `all` and `any`, and the opposite in `not`. Wrapped and bare lists have the same properties.
//!
//! `serde_json` limits the range of numbers, rejects lone surrogates, and stops at 128 levels. For such texts
//! only the syntax is compared.
#![no_main]

use std::borrow::Cow;

use libfuzzer_sys::fuzz_target;
use opgate_constraint::constraint::Body;
use opgate_constraint::eval::{self, Property};
use opgate_constraint::properties::{self, ListFormat, PropertiesError};
use opgate_constraint::{Check, Constraint, Options, Report, Violation, check};
use opgate_fuzz::repeat_input;
use opgate_sdk::go::folds_to;
use opgate_compat::json::{self, Index, Kind, ReadOptions, Tree};
use serde_json::Value;
use serde_json::value::RawValue;

/// Values of a text whose pointers are checked: each resolution reads the text.
const MAX_POINTERS: usize = 64;

fuzz_target!(|raw: &[u8]| {
    let tree = check_json(raw);
    check_constraint(raw, tree.as_ref());
    check_list(raw, tree.as_ref());
    let separators = ["", ",", "[", "{\"a\":", "{\"all\":{\"constraints\":["];
    if let Some(repeated) = repeat_input(raw, &separators) {
        let options = Options { max_bytes: usize::MAX, advice: true, ..Options::default() };
        let all = [b"{\"all\":{\"constraints\":[", repeated.as_slice(), b"]}}"].concat();
        for raw in [&repeated, &all] {
            let _ = check(raw, &options);
            let _ = check(raw, &Options { upstream: true, ..options });
        }
        let _ = visit_properties(&repeated, ListFormat::Bare);
        let list = [b"[", repeated.as_slice(), b"]"].concat();
        let _ = visit_properties(&list, ListFormat::Bare);
    }
});

fn assert_same_text(left: &[u8], right: &[u8]) {
    assert_eq!(String::from_utf8_lossy(left), String::from_utf8_lossy(right));
}

/// Reads a text with each function of the JSON reader, and compares the results with `serde_json`.
fn check_json(raw: &[u8]) -> Option<Tree<'_>> {
    let lossy = String::from_utf8_lossy(raw);
    let is_json = serde_json::from_str::<&RawValue>(&lossy).is_ok();
    let tree = Tree::parse(raw, ReadOptions::WHOLE);
    assert_eq!(tree.is_ok(), is_json, "{tree:?}");
    assert_eq!(json::check(raw, ReadOptions::WHOLE).is_ok(), is_json);
    let mut children = Vec::new();
    assert_eq!(json::each_child(raw, |child| children.push(child)).is_ok(), is_json);
    for child in &children {
        assert_same_text(&raw[child.offset..child.offset + child.raw.len()], child.raw);
    }
    check_stream(raw);
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => {
            assert!(error.offset <= raw.len() && !error.to_string().is_empty());
            assert!(error.pointer.is_empty() || error.pointer.starts_with('/'));
            return None;
        }
    };
    assert_eq!(tree.children(0).count(), children.len());
    for (index, child) in tree.children(0).zip(&children) {
        assert_same_text(tree.raw(index), child.raw);
        assert_eq!(tree.kind(index), child.kind);
    }
    let compact = without_spaces(raw);
    let compact_tree = Tree::parse(&compact, ReadOptions::WHOLE).expect("the same JSON");
    assert!(compact.len() <= raw.len());
    if let Ok(value) = serde_json::from_str::<Value>(&lossy) {
        assert_eq!(to_value(&tree, 0), value);
        assert_eq!(to_value(&compact_tree, 0), value);
        check_pointers(&tree, &value);
    }
    Some(tree)
}

/// Removes the white space between the tokens of a text.
fn without_spaces(raw: &[u8]) -> Vec<u8> {
    let (mut is_text, mut is_escaped) = (false, false);
    let mut compact = raw.to_vec();
    compact.retain(|byte| {
        is_text ^= *byte == b'"' && !is_escaped;
        is_escaped = is_text && *byte == b'\\' && !is_escaped;
        is_text || !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
    });
    compact
}

/// Converts a tree to a value of `serde_json`.
fn to_value(tree: &Tree<'_>, index: Index) -> Value {
    match tree.kind(index) {
        Kind::List => tree.children(index).map(|c| to_value(tree, c)).collect(),
        Kind::Object => Value::Object(
            tree.children(index).map(|c| (tree.key(c).into_owned(), to_value(tree, c))).collect(),
        ),
        Kind::Text => Value::String(tree.text(index).expect("a text")),
        _ => serde_json::from_slice(tree.raw(index)).expect("a scalar"),
    }
}

/// Asserts that pointers resolve to their values, unless an object has duplicate names.
fn check_pointers(tree: &Tree<'_>, value: &Value) {
    let mut waiting = vec![(0, 0)];
    let mut all = Vec::new();
    let mut has_duplicates = false;
    while let Some((index, depth)) = waiting.pop() {
        all.push((index, depth));
        let first = waiting.len();
        waiting.extend(tree.children(index).map(|child| (child, depth + 1)));
        let count = waiting.len() - first;
        has_duplicates |= tree.kind(index) == Kind::Object
            && count_distinct_names(tree, index).is_none_or(|names| names != count);
    }
    for &(index, depth) in
        all.iter().filter(|(_, depth)| !has_duplicates && *depth <= 64).take(MAX_POINTERS)
    {
        let pointer = tree.pointer(index);
        assert_eq!(pointer.matches('/').count(), depth, "{pointer}");
        assert_eq!(value.pointer(&pointer), Some(&to_value(tree, index)), "{pointer}");
    }
}

fn count_distinct_names(tree: &Tree<'_>, index: Index) -> Option<usize> {
    to_value(tree, index).as_object().map(serde_json::Map::len)
}

/// Reads a stream of values.
fn check_stream(raw: &[u8]) {
    let mut rest = raw;
    while let Ok((value, after)) = json::split_first(rest) {
        assert!(!value.is_empty() && after.len() < rest.len());
        assert!(json::check(value, ReadOptions::WHOLE).is_ok());
        rest = after;
    }
}

/// Returns the number of levels of lists and objects.
fn count_levels(tree: &Tree<'_>) -> usize {
    let mut waiting = vec![(0, 1)];
    let mut deepest = 0;
    while let Some((index, depth)) = waiting.pop() {
        if matches!(tree.kind(index), Kind::List | Kind::Object) {
            deepest = deepest.max(depth);
            waiting.extend(tree.children(index).map(|child| (child, depth + 1)));
        }
    }
    deepest
}

/// Asserts the effects of options and of white space.
fn check_constraint(raw: &[u8], tree: Option<&Tree<'_>>) {
    let default = Options::default();
    let strict = check_report(raw, &default);
    let upstream = check_report(raw, &Options { upstream: true, ..default });
    check_report(raw, &Options { documented_keys: false, ..default });
    check_report(raw, &Options { warn_depth: 0, advice: true, ..default });

    let exact = check_report(raw, &Options { max_bytes: raw.len(), ..default });
    assert!(exact.violations.iter().all(|violation| violation.check != Check::Size));
    if let Some(max_bytes) = raw.len().checked_sub(1) {
        let smaller = check_report(raw, &Options { max_bytes, ..default });
        assert!(matches!(smaller.violations.as_slice(), [only] if only.check == Check::Size));
    }
    if strict.violations.is_empty() {
        assert_eq!(upstream, strict);
    }
    let Some(tree) = tree else { return };

    for max_depth in [0, 3] {
        let bounded = check_report(raw, &Options { max_depth, ..default });
        let is_deep =
            matches!(bounded.violations.as_slice(), [only] if only.check == Check::JsonDepth);
        assert_eq!(is_deep, count_levels(tree) > max_depth);
    }
    let has_no = |check: Check| strict.violations.iter().all(|violation| violation.check != check);
    // Only if upstream reads the same fields. It reads an outermost null as an empty constraint.
    if has_no(Check::Fields) && tree.kind(0) != Kind::Null && strict.omitted.is_empty() {
        for violation in &upstream.violations {
            assert!(
                strict.violations.contains(violation),
                "{violation:?}: {:?}",
                strict.violations
            );
        }
    }
    assert_eq!(check_report(&without_spaces(raw), &default), strict);
    if let Some(constraint) = &strict.constraint {
        check_evaluation(raw, constraint);
    }
}

/// Checks a value, and asserts the invariants of each report.
fn check_report(raw: &[u8], options: &Options) -> Report {
    let report = check(raw, options);
    let read_options =
        ReadOptions { max_depth: options.max_depth, allow_trailing: options.upstream };
    let tree = Tree::parse(raw, read_options).ok().filter(|_| raw.len() <= options.max_bytes);
    assert_violations(&report.violations, tree.as_ref());
    if let Some(constraint) = &report.constraint {
        let nodes = &constraint.nodes;
        let mut references = vec![0; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            if let Body::All(children) | Body::Any(children) | Body::Not(children) = &node.body {
                for &child in children {
                    assert!(child > index);
                    references[child] += 1;
                }
            }
        }
        assert!(references[0] == 0 && references[1..].iter().all(|count| *count == 1));
    } else {
        assert!(!report.violations.is_empty());
    }
    report
}

/// Asserts that violations have a message, and point to existing values.
fn assert_violations(violations: &[Violation], tree: Option<&Tree<'_>>) {
    for violation in violations {
        let Violation { check, pointer, message } = violation;
        assert!(!message.is_empty(), "{violation:?}");
        // A missing member does not exist, but its parent does.
        let existing = if *check == Check::Required {
            pointer.rsplit_once('/').map_or("", |(parent, _)| parent)
        } else {
            pointer
        };
        if let Some(tree) = tree {
            assert!(exists(tree, existing), "{violation:?}");
        }
    }
}

/// Reports whether a value exists at a pointer, which can be below any of several duplicate members.
fn exists(tree: &Tree<'_>, pointer: &str) -> bool {
    let mut found: Vec<Index> = vec![0];
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        let mut next = Vec::new();
        for index in found {
            match tree.kind(index) {
                Kind::List => {
                    next.extend(token.parse().ok().and_then(|at| tree.children(index).nth(at)))
                }
                _ => next.extend(tree.children(index).filter(|&child| tree.key(child) == name)),
            }
        }
        found = next;
    }
    !found.is_empty()
}

/// Asserts that `all` and `any` keep the result of a constraint, and that `not` inverts it.
fn check_evaluation(raw: &[u8], constraint: &Constraint) {
    let properties = [
        ("olm.package", r#"{"packageName":"etcd","version":"1.2.3"}"#),
        ("olm.gvk", r#"{"group":"a.b","version":"v1","kind":"K"}"#),
        ("other", "[1"),
    ];
    let properties = properties
        .map(|(kind, value)| Property { kind: kind.to_owned(), value: value.as_bytes().to_vec() });
    let outcomes = eval::evaluate(constraint, &properties);
    assert_eq!(outcomes.len(), constraint.nodes.len());
    assert!(eval::format_tree(&outcomes).lines().count() >= outcomes.len());
    let holds = outcomes[0].holds;
    for (name, expected) in [("all", holds), ("any", holds), ("not", holds.map(|holds| !holds))] {
        let [before, after] = [format!(r#"{{"{name}":{{"constraints":["#), "]}}".to_owned()];
        let outer = [before.as_bytes(), raw, after.as_bytes()].concat();
        let report = check_report(&outer, &Options { max_bytes: usize::MAX, ..Options::default() });
        let constraint = report.constraint.expect("the outer constraint");
        let outcomes = eval::evaluate(&constraint, &properties);
        assert_eq!(outcomes[0].holds, expected);
    }
}

/// A visited property: its index, its type and its value.
type VisitedProperty<'p> = (usize, String, Cow<'p, [u8]>);

/// Visits the properties of a list, and checks each as a property with a requirement.
fn visit_properties(
    raw: &[u8],
    format: ListFormat,
) -> (Vec<VisitedProperty<'static>>, Result<(), PropertiesError>) {
    let mut all = Vec::new();
    let result = properties::each(raw, format, |property| {
        all.push((property.index, property.kind.to_owned(), property.value.to_vec().into()));
        for kind in ["olm.package.required", "olm.gvk.required", "olm.label.required"] {
            let property = properties::Property { kind, ..property };
            let violations = properties::check(property, &Options::default()).violations;
            let tree = Tree::parse(property.value, ReadOptions::WHOLE).ok();
            assert_violations(&violations, tree.as_ref());
        }
    });
    (all, result)
}

/// Asserts that a list has the same properties in both formats, and as read from its tree.
fn check_list(raw: &[u8], tree: Option<&Tree<'_>>) {
    let (bare, result) = visit_properties(raw, ListFormat::Bare);
    let (_, _) = visit_properties(raw, ListFormat::Wrapped);
    let Some(tree) = tree else {
        assert!(bare.is_empty() && result.is_err());
        return;
    };
    let wrapped = [b"{\"properties\":", raw, b"}"].concat();
    let (wrapped, wrapped_result) = visit_properties(&wrapped, ListFormat::Wrapped);
    assert_eq!(wrapped, bare);
    assert_eq!(wrapped_result.is_ok(), result.is_ok(), "{result:?} {wrapped_result:?}");
    if let Some((expected, is_valid)) = expected_properties(tree) {
        assert_eq!(bare, expected);
        assert_eq!(result.is_ok(), is_valid, "{result:?}");
    }
    // A constraint in a list.
    let property = [b"[{\"type\":\"olm.constraint\",\"value\":", raw, b"}]"].concat();
    let mut count = 0;
    let read = properties::each(&property, ListFormat::Bare, |property| {
        count += 1;
        let value = tree.raw(0);
        assert_same_text(property.value, value);
        let options = Options::default();
        assert_eq!(properties::check(property, &options), check(value, &options));
    });
    assert_eq!((read, count), (Ok(()), 1));
}

/// Returns the properties of a list by its tree, and whether the list is valid; `None` if a property has
/// duplicate names.
fn expected_properties<'j>(tree: &Tree<'j>) -> Option<(Vec<VisitedProperty<'j>>, bool)> {
    let mut all = Vec::new();
    if !matches!(tree.kind(0), Kind::List | Kind::Null) {
        return Some((all, false));
    }
    let mut is_valid = true;
    for (index, item) in tree.children(0).enumerate() {
        is_valid &= matches!(tree.kind(item), Kind::Object | Kind::Null);
        if tree.kind(item) != Kind::Object {
            continue;
        }
        let member = |name: &str| {
            let named = |child: &Index| {
                let key = tree.key(*child);
                key == name || folds_to(&key, name)
            };
            let mut found = tree.children(item).filter(named);
            let first = found.next();
            if found.next().is_some() { None } else { Some(first) }
        };
        let (kind, value) = (member("type")?, member("value")?);
        let kind = kind.filter(|&kind| tree.kind(kind) != Kind::Null);
        if kind.is_some_and(|kind| tree.kind(kind) != Kind::Text) {
            is_valid = false;
        } else if kind.is_some() || value.is_some() {
            let kind = kind.and_then(|kind| tree.text(kind)).unwrap_or_default();
            let value = value.map(|value| tree.raw(value)).unwrap_or_default();
            all.push((index, kind, value.into()));
        }
    }
    Some((all, is_valid))
}
