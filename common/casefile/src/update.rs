//! Writes to the file of a case: the result of a policy, or the objects of a cluster. Of the members for these, it
//! changes only those that differ. Other text stays unchanged, with comments and order.
//!
//! ```text
//! text ─▶ places ─▶ lines of each member ─▶ other lines ─▶ read again: this case has the new members, and
//!                                                          the others are what they were
//! ```

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::entry::OUTCOME_MEMBERS;
use crate::tree::{self, Node};
use crate::{
    Case, Expectation, File, Location, OBJECTS_FILE, PolicyResult, Violation, documents, read,
};

/// The reason why a result cannot be updated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UpdateError(String);

/// Members of a violation, in the order in which they are written.
const VIOLATION_MEMBERS: [&str; 5] = ["rule", "field", "level", "message", "messagePrefix"];

/// Returns the text of a case file in which the case expects the given result. `files` are all files of the
/// directory, `kinds` as for [`read`]; `level` is the level of a rule for which a case sets none.
///
/// # Errors
/// If the case cannot express the answer, or if its text cannot be changed without touching more.
pub fn update(
    files: &[File],
    kinds: &[&str],
    case: &Case,
    result: &PolicyResult,
    level: impl Fn(&str) -> Option<&'static str>,
) -> Result<String, UpdateError> {
    let finds = result.violations.iter().any(|finding| finding.rule == case.rule);
    let skips = result.skipped.contains(&case.rule);
    let (rule, below) = (&case.rule, case.expects.as_str());
    match case.expects {
        Expectation::Accept if finds => {
            return Err(UpdateError(format!(
                "it is below `{below}`, and {rule} finds something: move it below `reject`"
            )));
        }
        Expectation::Reject if !finds => {
            return Err(UpdateError(format!(
                "it is below `{below}`, and {rule} finds nothing: move it"
            )));
        }
        Expectation::Skip if !skips => {
            return Err(UpdateError(format!(
                "it is below `{below}`, and {rule} is evaluated: move it"
            )));
        }
        _ => {}
    }
    let without_result = |case: &Case| Case {
        violations: Vec::new(),
        skipped: BTreeSet::new(),
        audit_annotations: None,
        reason: None,
        ..case.clone()
    };
    let wanted = |old: &Map<String, Value>| expected_members(case, result, old, level);
    rewrite(files, kinds, case, &OUTCOME_MEMBERS, wanted, without_result)
}

/// The member of a case with the objects of the cluster.
const CLUSTER_MEMBER: [&str; 1] = ["cluster"];

/// Returns the text of a case file in which the case has these objects of the cluster. `files` are all files of the
/// directory, `kinds` as for [`read`].
///
/// # Errors
/// If the text of the case cannot be changed without touching more.
pub fn set_cluster(
    files: &[File],
    kinds: &[&str],
    case: &Case,
    objects: &[Value],
) -> Result<String, UpdateError> {
    let without_cluster = |case: &Case| Case { cluster: None, has_cluster: true, ..case.clone() };
    let wanted = |_: &Map<String, Value>| Map::from_iter([("cluster".to_owned(), json!(objects))]);
    rewrite(files, kinds, case, &CLUSTER_MEMBER, wanted, without_cluster)
}

/// Returns the text of a case file in which the case has the `wanted` ones of the `managed` members. Apart from
/// what these are, `rest` is equal before and after.
fn rewrite(
    files: &[File],
    kinds: &[&str],
    case: &Case,
    managed: &[&str],
    wanted: impl FnOnce(&Map<String, Value>) -> Map<String, Value>,
    rest: impl Fn(&Case) -> Case,
) -> Result<String, UpdateError> {
    let below = case.expects.as_str();
    let file = files.iter().find(|file| file.name == case.location.file);
    let file =
        file.ok_or_else(|| UpdateError(format!("there is no file {}", case.location.file)))?;
    let (value, tree) = tree::parse(file).map_err(|wrong| UpdateError(wrong.to_string()))?;
    let index = case.location.index;
    let old = value.get(below).and_then(|list| list.get(index)).and_then(Value::as_object);
    let node = tree.member(below).and_then(|list| list.elements.get(index));
    let (Some(old), Some(node)) = (old, node) else {
        return Err(UpdateError("it has moved".to_owned()));
    };
    let by_hand = || UpdateError("its text cannot be changed safely: edit it manually".to_owned());
    let text = replace_members(&file.text, &tree, node, old, (managed, &wanted(old)))?;
    // The written text must mean exactly that.
    let is_it = |one: &Case| {
        (&one.location.file, &one.rule, &one.name) == (&case.location.file, &case.rule, &case.name)
    };
    let other = File { name: file.name.clone(), text: text.clone() };
    let is_shared = |one: &&File| one.name == OBJECTS_FILE;
    let of = |file: &File| -> Result<Vec<Case>, UpdateError> {
        let files: Vec<_> = files.iter().filter(is_shared).cloned().chain([file.clone()]).collect();
        read(&files, kinds).map_err(|_| by_hand())
    };
    let (before, after) = (of(file)?, of(&other)?);
    let same = before.len() == after.len()
        && before.iter().zip(&after).all(|(before, after)| {
            let lined = |case: &Case| Case { location: Location::default(), ..case.clone() };
            // An accepted case inherits the subject of the rejected one that it fixes.
            let inherits = before.location.file == case.location.file
                && before.fixes.as_ref() == Some(&case.name);
            if is_it(before) || inherits {
                lined(&rest(before)) == lined(&rest(after))
            } else {
                lined(before) == lined(after)
            }
        });
    if same { Ok(text) } else { Err(by_hand()) }
}

/// Returns the members for the given result.
fn expected_members(
    case: &Case,
    result: &PolicyResult,
    old: &Map<String, Value>,
    level: impl Fn(&str) -> Option<&'static str>,
) -> Map<String, Value> {
    let found = case.match_violations(result, &level).reported;
    let written = |(finding, expected): &(&Violation, Option<&Violation>), own: bool| {
        let mut members = Map::new();
        if !own {
            members.insert("rule".to_owned(), json!(finding.rule));
        }
        // Expectations that already match are not rewritten.
        let at = match expected {
            Some(expected) => expected.field.clone(),
            None => finding.field.clone().filter(|at| !at.is_empty()),
        };
        let at = at.map(|at| json!(documents::to_case_field(&at, &case.location.paths)));
        members.extend(at.map(|at| ("field".to_owned(), at)));
        let of_rule = level(&finding.rule);
        let written = expected.is_some_and(|expected| expected.level.is_some());
        if let Some(level) = finding
            .level
            .as_deref()
            .filter(|level| written || of_rule.is_some_and(|own| own != *level))
        {
            members.insert("level".to_owned(), json!(level));
        }
        let (name, text) = match expected.filter(|expected| expected.is_prefix) {
            Some(expected) => ("messagePrefix", &expected.message),
            None => ("message", &finding.message),
        };
        members.insert(name.to_owned(), json!(text));
        Value::Object(members)
    };
    let (own, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(finding, _)| finding.rule == case.rule);
    let mut all = Map::new();
    let own: Vec<_> = own.iter().map(|one| written(one, true)).collect();
    match own.as_slice() {
        [] => {}
        [Value::Object(only)] if !old.contains_key("violations") => all.extend(only.clone()),
        _ => drop(all.insert("violations".to_owned(), json!(own))),
    }
    let others: Vec<_> = others.iter().map(|one| written(one, false)).collect();
    if !others.is_empty() {
        all.insert("otherViolations".to_owned(), json!(others));
    }
    let mut skipped = case.counted_skips(result);
    if case.expects == Expectation::Skip {
        skipped.remove(&case.rule);
    }
    if !skipped.is_empty() {
        all.insert("skipped".to_owned(), json!(skipped));
    }
    if case.audit_annotations.is_some() {
        all.insert("auditAnnotations".to_owned(), json!(result.audit_annotations));
    }
    // The fixed object is written manually.
    all.extend(old.get("fixed").map(|fixed| ("fixed".to_owned(), fixed.clone())));
    all.extend(result.reason.as_ref().map(|reason| ("reason".to_owned(), json!(reason))));
    all
}

/// Returns the text with others of the managed members of one case: the wanted ones.
fn replace_members(
    text: &str,
    tree: &Node,
    node: &Node,
    old: &Map<String, Value>,
    (managed, wanted): (&[&str], &Map<String, Value>),
) -> Result<String, UpdateError> {
    let line_start = |offset: usize| {
        text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
    };
    let before = |offset: usize| text.get(line_start(offset)..offset).unwrap_or_default();
    let column = before(node.offset).chars().count();
    let flow = "it is written in braces, or with anchors: edit it manually";
    let mut members: Vec<_> =
        node.members.iter().map(|(name, node)| (name.as_str(), node.offset)).collect();
    members.sort_by_key(|(_, offset)| *offset);
    // Each member is on separate lines: the first behind `- `, the others below it.
    for (number, (_, offset)) in members.iter().enumerate() {
        let before = before(*offset);
        let is_plain = before.chars().all(|c| c == ' ' || (number == 0 && c == '-'));
        if before.chars().count() != column || !is_plain {
            return Err(UpdateError(flow.to_owned()));
        }
    }
    let (Some((first, start)), true) = (members.first(), column > 0) else {
        return Err(UpdateError(flow.to_owned()));
    };
    if managed.contains(first) {
        return Err(UpdateError(format!("it begins with `{first}`: write its name first")));
    }
    // It ends at the next one, or at another member of the file.
    let lists = tree.members.iter().flat_map(|(_, list)| &list.elements);
    let borders = tree.members.iter().map(|(_, node)| node).chain(lists);
    let borders = borders.map(|node| line_start(node.offset));
    let end = borders.filter(|border| border > start).min().unwrap_or(text.len());
    let mut out = text.get(..*start).unwrap_or_default().to_owned();
    let mut kept_end = 0;
    let mut left: Vec<&str> =
        managed.iter().copied().filter(|name| wanted.contains_key(*name)).collect();
    let mut tail = String::new();
    for (number, (name, offset)) in members.iter().enumerate() {
        let from = if number == 0 { *offset } else { line_start(*offset) };
        let to = members.get(number + 1).map_or(end, |(_, next)| line_start(*next));
        let span = text.get(from..to).ok_or_else(|| UpdateError(flow.to_owned()))?;
        // Comments and empty lines at its end belong to what follows.
        let (span, comments) = span.split_at(content_end(span));
        if !managed.contains(name) || wanted.get(*name) == old.get(*name) {
            out.push_str(span);
        } else if let Some(value) = wanted.get(*name) {
            out.push_str(&format_member(name, value, column));
        }
        left.retain(|other| other != name);
        kept_end = to;
        if number + 1 == members.len() {
            comments.clone_into(&mut tail);
        } else {
            out.push_str(comments);
        }
    }
    if !left.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    for name in left {
        out.push_str(&format_member(name, wanted.get(name).unwrap_or(&Value::Null), column));
    }
    out.push_str(&tail);
    out.push_str(text.get(kept_end..).unwrap_or_default());
    Ok(out)
}

/// Returns the start of the trailing lines that are empty or comments.
fn content_end(span: &str) -> usize {
    let mut end = span.len();
    for line in span.split_inclusive('\n').rev() {
        let content = line.trim();
        if !(content.is_empty() || content.starts_with('#')) {
            break;
        }
        end -= line.len();
    }
    end
}

/// Returns a member as lines.
fn format_member(name: &str, value: &Value, column: usize) -> String {
    let indent = " ".repeat(column);
    if CLUSTER_MEMBER.contains(&name) {
        let lines = member_lines(name, value).into_iter().map(|line| format!("{indent}{line}\n"));
        return lines.collect::<Vec<_>>().concat();
    }
    match value {
        Value::Array(list) if list.iter().all(Value::is_object) => {
            let mut lines = vec![format!("{indent}{name}:\n")];
            for element in list {
                let member = |name| Some((name, element.get(name)?));
                let members = VIOLATION_MEMBERS.into_iter().filter_map(member);
                for (number, (name, value)) in members.enumerate() {
                    let mark = if number == 0 { "- " } else { "  " };
                    lines.push(format!("{indent}{mark}{name}: {}\n", scalar(value)));
                }
            }
            lines.concat()
        }
        Value::Array(list) => {
            let list: Vec<_> = list.iter().map(scalar).collect();
            format!("{indent}{name}: [{}]\n", list.join(", "))
        }
        Value::Object(members) if !members.is_empty() => {
            let mut lines = vec![format!("{indent}{name}:\n")];
            for (name, value) in members {
                lines.push(format!("{indent}  {}: {}\n", scalar(&json!(name)), scalar(value)));
            }
            lines.concat()
        }
        value => format!("{indent}{name}: {}\n", scalar(value)),
    }
}

/// Returns a member with each of its values on a separate line.
fn member_lines(name: &str, value: &Value) -> Vec<String> {
    let name = scalar(&json!(name));
    match value {
        Value::Object(members) if members.is_empty() => vec![format!("{name}: {{}}")],
        Value::Array(list) if list.is_empty() => vec![format!("{name}: []")],
        Value::Object(_) | Value::Array(_) => {
            let lines = block_lines(value).into_iter().map(|line| format!("  {line}"));
            std::iter::once(format!("{name}:")).chain(lines).collect()
        }
        value => vec![format!("{name}: {}", scalar(value))],
    }
}

/// Returns a value as lines of YAML, without indentation.
fn block_lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().flat_map(|(name, value)| member_lines(name, value)).collect()
        }
        Value::Array(list) if !list.is_empty() => {
            let element = |element: &Value| {
                let marks = std::iter::once("- ").chain(std::iter::repeat("  "));
                let lines = marks.zip(block_lines(element));
                lines.map(|(mark, line)| format!("{mark}{line}")).collect::<Vec<_>>()
            };
            list.iter().flat_map(element).collect()
        }
        value => vec![scalar(value)],
    }
}

/// Returns a text unquoted if YAML reads it as a string, and otherwise quoted as in JSON.
fn scalar(value: &Value) -> String {
    const RESERVED_WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let Some(text) = value.as_str() else { return value.to_string() };
    let is_inside = |c: char| c.is_alphanumeric() || "-_./@=()'+;,:#[]\"".contains(c);
    // A colon at the end of a word and a number sign at its beginning mean something else.
    let is_word = |word: &str| {
        !word.is_empty()
            && word.chars().all(is_inside)
            && !word.ends_with(':')
            && !word.starts_with('#')
    };
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.split(' ').all(is_word)
        && !RESERVED_WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { value.to_string() }
}
