//! The value of an `olm.constraint`, and lists of properties: `opgate_constraint::check` with all options,
//! `properties::each` in both forms, `eval`, and the reader of JSON beneath them.
//!
//! The oracles are `serde_json` for what is JSON and what it says, and what must hold between
//! answers: size before everything, upstream never stricter than strict, white space of no account, a
//! constraint inside of `all`, `any` and `not`, a list of properties wrapped and bare. The readers
//! differ where `serde_json` has an opinion on the range of numbers, on halves of surrogate pairs and
//! on more than 128 levels; there only the syntax is compared.
#![no_main]

use std::borrow::Cow;

use libfuzzer_sys::fuzz_target;
use opgate_constraint::constraint::Body;
use opgate_constraint::eval::{self, Property};
use opgate_constraint::properties::{self, Form};
use opgate_constraint::{Check, Constraint, Finding, Options, Report, check};
use opgate_fuzz::large;
use opgate_sdk::go::folds_to;
use opgate_upstream::json::{self, Index, Kind, Reading, Tree};
use serde_json::Value;
use serde_json::value::RawValue;

/// Values of a text whose pointers are looked at: each costs a way through the text.
const POINTERS: usize = 64;

fuzz_target!(|raw: &[u8]| {
    let tree = read(raw);
    constraint(raw, tree.as_ref());
    list(raw, tree.as_ref());
    let between = ["", ",", "[", "{\"a\":", "{\"all\":{\"constraints\":["];
    if let Some(large) = large(raw, &between) {
        let options = Options { max_bytes: usize::MAX, advice: true, ..Options::default() };
        let all = [b"{\"all\":{\"constraints\":[", large.as_slice(), b"]}}"].concat();
        for raw in [&large, &all] {
            let _ = check(raw, &options);
            let _ = check(raw, &Options { upstream: true, ..options });
        }
        let _ = visited(&large, Form::Bare);
        let _ = visited(&[b"[", large.as_slice(), b"]"].concat(), Form::Bare);
    }
});

fn compare(left: &[u8], right: &[u8]) {
    assert_eq!(String::from_utf8_lossy(left), String::from_utf8_lossy(right));
}

/// Reads a text in every way.
fn read(raw: &[u8]) -> Option<Tree<'_>> {
    let lossy = String::from_utf8_lossy(raw);
    let is_json = serde_json::from_str::<&RawValue>(&lossy).is_ok();
    let tree = Tree::parse(raw, Reading::WHOLE);
    assert_eq!(tree.is_ok(), is_json, "{tree:?}");
    assert_eq!(json::check(raw, Reading::WHOLE).is_ok(), is_json);
    let mut children = Vec::new();
    assert_eq!(json::each_child(raw, |child| children.push(child)).is_ok(), is_json);
    for child in &children {
        compare(&raw[child.offset..child.offset + child.raw.len()], child.raw);
    }
    values(raw);
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
        compare(tree.raw(index), child.raw);
        assert_eq!(tree.kind(index), child.kind);
    }
    let small = compact(raw);
    let again = Tree::parse(&small, Reading::WHOLE).expect("the same without white space");
    assert!(small.len() <= raw.len());
    if let Ok(value) = serde_json::from_str::<Value>(&lossy) {
        assert_eq!(said(&tree, 0), value);
        assert_eq!(said(&again, 0), value);
        pointers(&tree, &value);
    }
    Some(tree)
}

/// A text without white space between its tokens.
fn compact(raw: &[u8]) -> Vec<u8> {
    let (mut is_text, mut is_escaped) = (false, false);
    let mut small = raw.to_vec();
    small.retain(|byte| {
        is_text ^= *byte == b'"' && !is_escaped;
        is_escaped = is_text && *byte == b'\\' && !is_escaped;
        is_text || !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
    });
    small
}

/// What a tree says, as another parser would.
fn said(tree: &Tree<'_>, index: Index) -> Value {
    match tree.kind(index) {
        Kind::List => tree.children(index).map(|c| said(tree, c)).collect(),
        Kind::Object => Value::Object(
            tree.children(index).map(|c| (tree.key(c).into_owned(), said(tree, c))).collect(),
        ),
        Kind::Text => Value::String(tree.text(index).expect("a text")),
        _ => serde_json::from_slice(tree.raw(index)).expect("a scalar"),
    }
}

/// Pointers lead where they say, unless a member is hidden by a later one of its name.
fn pointers(tree: &Tree<'_>, value: &Value) {
    let mut waiting = vec![(0, 0)];
    let mut all = Vec::new();
    let mut hides = false;
    while let Some((index, depth)) = waiting.pop() {
        all.push((index, depth));
        let first = waiting.len();
        waiting.extend(tree.children(index).map(|child| (child, depth + 1)));
        let named = waiting.len() - first;
        hides |= tree.kind(index) == Kind::Object
            && said_members(tree, index).is_none_or(|members| members != named);
    }
    for &(index, depth) in all.iter().filter(|(_, depth)| !hides && *depth <= 64).take(POINTERS) {
        let pointer = tree.pointer(index);
        assert_eq!(pointer.matches('/').count(), depth, "{pointer}");
        assert_eq!(value.pointer(&pointer), Some(&said(tree, index)), "{pointer}");
    }
}

fn said_members(tree: &Tree<'_>, index: Index) -> Option<usize> {
    said(tree, index).as_object().map(serde_json::Map::len)
}

/// Values one after the other.
fn values(raw: &[u8]) {
    let mut rest = raw;
    while let Ok((value, after)) = json::first(rest) {
        assert!(!value.is_empty() && after.len() < rest.len());
        assert!(json::check(value, Reading::WHOLE).is_ok());
        rest = after;
    }
}

/// Levels of lists and objects.
fn levels(tree: &Tree<'_>) -> usize {
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

fn constraint(raw: &[u8], tree: Option<&Tree<'_>>) {
    let default = Options::default();
    let strict = checked(raw, &default);
    let upstream = checked(raw, &Options { upstream: true, ..default });
    checked(raw, &Options { documented_keys: false, ..default });
    checked(raw, &Options { warn_depth: 0, advice: true, ..default });

    let exact = checked(raw, &Options { max_bytes: raw.len(), ..default });
    assert!(exact.findings.iter().all(|finding| finding.check != Check::Size));
    if let Some(max_bytes) = raw.len().checked_sub(1) {
        let larger = checked(raw, &Options { max_bytes, ..default });
        assert!(matches!(larger.findings.as_slice(), [only] if only.check == Check::Size));
    }
    if strict.findings.is_empty() {
        assert_eq!(upstream, strict);
    }
    let Some(tree) = tree else { return };

    for max_depth in [0, 3] {
        let bounded = checked(raw, &Options { max_depth, ..default });
        let is_deep = matches!(bounded.findings.as_slice(), [only] if only.check == Check::Depth);
        assert_eq!(is_deep, levels(tree) > max_depth);
    }
    let is_sound = |check: Check| strict.findings.iter().all(|f| f.check != check);
    // Where upstream sees the same fields. It takes an outermost null for an empty constraint.
    if is_sound(Check::Fields) && tree.kind(0) != Kind::Null && strict.left_out.is_empty() {
        for finding in &upstream.findings {
            assert!(strict.findings.contains(finding), "{finding:?}: {:?}", strict.findings);
        }
    }
    assert_eq!(checked(&compact(raw), &default), strict);
    if let Some(constraint) = &strict.constraint {
        evaluated(raw, constraint);
    }
}

/// Checks a value, and what every report must be.
fn checked(raw: &[u8], options: &Options) -> Report {
    let report = check(raw, options);
    let reading = Reading { max_depth: options.max_depth, trailing: options.upstream };
    let tree = Tree::parse(raw, reading).ok().filter(|_| raw.len() <= options.max_bytes);
    sound(&report.findings, tree.as_ref());
    if let Some(constraint) = &report.constraint {
        let nodes = &constraint.nodes;
        let mut referred = vec![0; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            if let Body::All(children) | Body::Any(children) | Body::Not(children) = &node.body {
                for &child in children {
                    assert!(child > index);
                    referred[child] += 1;
                }
            }
        }
        assert!(referred[0] == 0 && referred[1..].iter().all(|count| *count == 1));
    } else {
        assert!(!report.findings.is_empty());
    }
    report
}

fn sound(findings: &[Finding], tree: Option<&Tree<'_>>) {
    for finding in findings {
        let Finding { check, pointer, message } = finding;
        assert!(!message.is_empty(), "{finding:?}");
        // What is wrong with a range that is not there is said of its place.
        let place = if *check == Check::Required {
            pointer.rsplit_once('/').map_or("", |(p, _)| p)
        } else {
            pointer
        };
        if let Some(tree) = tree {
            assert!(leads_somewhere(tree, place), "{finding:?}");
        }
    }
}

/// Whether there is something at a pointer; of members of one name it may be any.
fn leads_somewhere(tree: &Tree<'_>, pointer: &str) -> bool {
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

/// Evaluates a constraint, alone and inside of another one.
fn evaluated(raw: &[u8], constraint: &Constraint) {
    let properties = [
        ("olm.package", r#"{"packageName":"etcd","version":"1.2.3"}"#),
        ("olm.gvk", r#"{"group":"a.b","version":"v1","kind":"K"}"#),
        ("other", "[1"),
    ];
    let properties = properties
        .map(|(kind, value)| Property { kind: kind.to_owned(), value: value.as_bytes().to_vec() });
    let outcomes = eval::evaluate(constraint, &properties);
    assert_eq!(outcomes.len(), constraint.nodes.len());
    assert!(eval::rendered(&outcomes).lines().count() >= outcomes.len());
    let holds = outcomes[0].holds;
    for (name, expected) in [("all", holds), ("any", holds), ("not", holds.map(|holds| !holds))] {
        let [before, after] = [format!(r#"{{"{name}":{{"constraints":["#), "]}}".to_owned()];
        let around = [before.as_bytes(), raw, after.as_bytes()].concat();
        let report = checked(&around, &Options { max_bytes: usize::MAX, ..Options::default() });
        let constraint = report.constraint.expect("a constraint around one");
        let outcomes = eval::evaluate(&constraint, &properties);
        assert_eq!(outcomes[0].holds, expected);
    }
}

/// A property as it is visited: its place, its type and its value.
type Visited<'p> = (usize, String, Cow<'p, [u8]>);

fn visited(raw: &[u8], form: Form) -> (Vec<Visited<'static>>, Result<(), String>) {
    let mut all = Vec::new();
    let result = properties::each(raw, form, |property| {
        all.push((property.index, property.kind.to_owned(), property.value.to_vec().into()));
        for kind in ["olm.package.required", "olm.gvk.required", "olm.label.required"] {
            let property = properties::Property { kind, ..property };
            let findings = properties::check(property, &Options::default()).findings;
            let tree = Tree::parse(property.value, Reading::WHOLE).ok();
            sound(&findings, tree.as_ref());
        }
    });
    (all, result)
}

fn list(raw: &[u8], tree: Option<&Tree<'_>>) {
    let (bare, result) = visited(raw, Form::Bare);
    let (_, _) = visited(raw, Form::Wrapped);
    let Some(tree) = tree else {
        assert!(bare.is_empty() && result.is_err());
        return;
    };
    let wrapped = [b"{\"properties\":", raw, b"}"].concat();
    let (same, same_result) = visited(&wrapped, Form::Wrapped);
    assert_eq!(same, bare);
    assert_eq!(same_result.is_ok(), result.is_ok(), "{result:?} {same_result:?}");
    if let Some((expected, is_fine)) = expected(tree) {
        assert_eq!(bare, expected);
        assert_eq!(result.is_ok(), is_fine, "{result:?}");
    }
    // A constraint in a list.
    let property = [b"[{\"type\":\"olm.constraint\",\"value\":", raw, b"}]"].concat();
    let mut count = 0;
    let read = properties::each(&property, Form::Bare, |property| {
        count += 1;
        let value = tree.raw(0);
        compare(property.value, value);
        let options = Options::default();
        assert_eq!(properties::check(property, &options), check(value, &options));
    });
    assert_eq!((read, count), (Ok(()), 1));
}

/// The properties of a list and whether all of it can be read, by a tree; `None` where a name stands
/// twice.
fn expected<'j>(tree: &Tree<'j>) -> Option<(Vec<Visited<'j>>, bool)> {
    let mut all = Vec::new();
    if !matches!(tree.kind(0), Kind::List | Kind::Null) {
        return Some((all, false));
    }
    let mut is_fine = true;
    for (place, item) in tree.children(0).enumerate() {
        is_fine &= matches!(tree.kind(item), Kind::Object | Kind::Null);
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
            is_fine = false;
        } else if kind.is_some() || value.is_some() {
            let kind = kind.and_then(|kind| tree.text(kind)).unwrap_or_default();
            let value = value.map(|value| tree.raw(value)).unwrap_or_default();
            all.push((place, kind, value.into()));
        }
    }
    Some((all, is_fine))
}
