//! Checks of an edited text against the text before.

use std::ops::Range;

use opgate_edit::{Edit, Pointer};
use opgate_yaml::BooleanWords;
use opgate_yaml::tree::{Node, NodeKind, ScalarStyle};
use serde_json::Value;

/// A text and an edit of one of its documents.
pub(crate) struct Case {
    pub(crate) text: String,
    pub(crate) name: &'static str,
    pub(crate) document: usize,
    pub(crate) edit: Edit,
}

/// Checks the text after an edit. Returns what is wrong.
pub(crate) fn check(case: &Case, new: &str) -> Result<(), String> {
    check_meaning(case, new)?;
    let touched = touched_lines(case);
    check_lines(case, new, touched.as_ref())?;
    if case.name == "a.yaml" {
        check_comments(case, new, touched.as_ref())?;
    }
    check_line_ends(case, new)?;
    check_repetition(case, new)
}

fn apply(case: &Case, text: &str, edit: &Edit) -> Result<String, String> {
    opgate_fix::apply(text, case.name, case.document, std::slice::from_ref(edit))
        .map_err(|refusal| refusal.to_string())
}

fn documents(text: &str) -> Result<Vec<Value>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let parts = opgate_yaml::documents(text, BooleanWords::Yaml11, 1 << 20)
        .map_err(|error| error.message().into_owned())?;
    let value = |json: &str| serde_json::from_str(json).map_err(|error| error.to_string());
    parts.iter().map(|part| value(&part.json)).collect()
}

/// The document is that after the edit, and the others are unchanged.
fn check_meaning(case: &Case, new: &str) -> Result<(), String> {
    let mut expected = documents(&case.text)?;
    opgate_edit::apply(&mut expected[case.document], std::slice::from_ref(&case.edit))
        .map_err(|error| error.to_string())?;
    let found = documents(new)?;
    if found == expected { Ok(()) } else { Err(format!("{found:?} is not {expected:?}")) }
}

/// Returns the lines that the edit may change: those of the value, or of the collection in brackets around it.
/// None for a new entry between lines.
fn touched_lines(case: &Case) -> Option<Range<usize>> {
    let mark = if case.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let text = &case.text[mark..];
    let roots = opgate_yaml::tree::documents(text, BooleanWords::Yaml11).unwrap();
    let pointer = Pointer::parse(case.edit.pointer()).unwrap();
    let lines = |range: &Range<usize>| {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count();
        line(range.start)..line(range.end) + 1
    };
    let mut node = &roots[case.document];
    let mut own = node.start..node.end;
    let mut is_in_brackets = false;
    let (mut count, mut around) = (0, own.clone());
    for (depth, token) in pointer.tokens().iter().enumerate() {
        is_in_brackets = text[node.start..].starts_with(['{', '[']);
        around = own.clone();
        let is_insert =
            matches!(case.edit, Edit::Insert { .. }) && depth + 1 == pointer.tokens().len();
        let child = child(node, token).filter(|_| !is_insert);
        let Some((start, value, siblings)) = child else {
            // A new entry: between lines, unless the value around it has none.
            let is_new_on_lines = !is_in_brackets && length(node) > 0;
            if is_new_on_lines && token == "0" && !begins_line(text, node.start) {
                // The first element moves to a new line.
                return Some(lines(&(node.start..node.start)));
            }
            return if is_new_on_lines { None } else { Some(lines(&own)) };
        };
        (own, node, count) = (start..value.end.max(start + 1), value, siblings);
    }
    if is_in_brackets && matches!(case.edit, Edit::Remove { .. }) {
        return Some(lines(&around));
    }
    if matches!(case.edit, Edit::Remove { .. }) && count == 1 {
        return Some(lines(&around));
    }
    let mut range = lines(&own);
    if matches!(case.edit, Edit::Remove { .. }) && !begins_line(text, own.start) {
        // The next member moves behind the dash.
        let behind = text.split('\n').skip(range.end);
        range.end += behind.take_while(|line| line.trim().is_empty()).count() + 1;
    }
    Some(range)
}

fn begins_line(text: &str, at: usize) -> bool {
    text[..at].rsplit('\n').next().unwrap_or_default().trim().is_empty()
}

fn length(node: &Node) -> usize {
    match &node.kind {
        NodeKind::Map(_, members) => members.len(),
        NodeKind::List(_, elements) => elements.len(),
        _ => 0,
    }
}

fn child<'n>(node: &'n Node, token: &str) -> Option<(usize, &'n Node, usize)> {
    match &node.kind {
        NodeKind::Map(_, members) => {
            let member = members.iter().rfind(|member| member.name.as_deref() == Some(token))?;
            Some((member.key.start, &member.value, members.len()))
        }
        NodeKind::List(_, elements) => {
            let element = elements.get(token.parse::<usize>().ok()?)?;
            Some((element.dash, &element.value, elements.len()))
        }
        _ => None,
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Every other line stays, in order.
fn check_lines(case: &Case, new: &str, touched: Option<&Range<usize>>) -> Result<(), String> {
    let is_open = !case.text.ends_with('\n');
    if is_open && new.ends_with('\n') || !is_open && !new.ends_with('\n') {
        return Err("the end of the text changed".to_owned());
    }
    // A last line without a line break can get one, and empty lines behind it are removed with it.
    let plain = |text: &str| {
        let text = text.trim_start_matches('\u{feff}');
        if is_open { format!("{}\n", text.trim_end_matches(['\r', '\n'])) } else { text.to_owned() }
    };
    let (old, new) = (plain(&case.text), plain(new));
    let (old, new) = (lines(&old), lines(&new));
    let content = |line: &&str| {
        if is_open { line.trim_end_matches(['\r', '\n']).to_owned() } else { (*line).to_owned() }
    };
    let (old, new): (Vec<_>, Vec<_>) =
        (old.iter().map(content).collect(), new.iter().map(content).collect());
    let wrong = |range: &dyn std::fmt::Debug| Err(format!("lines changed, not only {range:?}"));
    let Some(touched) = touched else {
        // The old lines are the start and the end.
        let is_inserted =
            (0..=old.len()).any(|at| new.starts_with(&old[..at]) && new.ends_with(&old[at..]));
        return if is_inserted && new.len() >= old.len() { Ok(()) } else { wrong(&"new lines") };
    };
    let (head, tail) = (&old[..touched.start.min(old.len())], &old[touched.end.min(old.len())..]);
    let tail = if is_open && tail.iter().all(String::is_empty) { &[] } else { tail };
    // Empty lines at the end vanish with what was behind them.
    let head = head.len()
        - if tail.is_empty() && is_open {
            head.iter().rev().take_while(|line| line.is_empty()).count()
        } else {
            0
        };
    let fits = head + tail.len() <= new.len();
    if fits && new.starts_with(&old[..head]) && new.ends_with(tail) {
        Ok(())
    } else {
        wrong(touched)
    }
}

/// Adds the ranges of the texts, without the first lines of block scalars.
fn add_texts(text: &str, node: &Node, texts: &mut Vec<Range<usize>>) {
    match &node.kind {
        NodeKind::Scalar(ScalarStyle::Literal | ScalarStyle::Folded) => {
            let first = text[node.start..].find('\n').map_or(node.end, |at| node.start + at);
            texts.push(first.min(node.end)..node.end);
        }
        NodeKind::Scalar(_) => texts.push(node.start..node.end),
        NodeKind::Alias => {}
        NodeKind::Map(_, members) => {
            for member in members {
                add_texts(text, &member.key, texts);
                add_texts(text, &member.value, texts);
            }
        }
        NodeKind::List(_, elements) => {
            for element in elements {
                add_texts(text, &element.value, texts);
            }
        }
    }
}

/// Returns the comments: their texts, and their lines.
fn comments(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let text = text.trim_start_matches('\u{feff}');
    let mut texts = Vec::new();
    for root in opgate_yaml::tree::documents(text, BooleanWords::Yaml11).unwrap() {
        add_texts(text, &root, &mut texts);
    }
    let mut start = 0;
    for (number, line) in text.split('\n').enumerate() {
        let line_start = start;
        start += line.len() + 1;
        for (at, _) in line.match_indices("# c") {
            if texts.iter().any(|text| text.contains(&(line_start + at))) {
                continue;
            }
            let name: String = line[at + 3..].chars().take_while(char::is_ascii_digit).collect();
            if !name.is_empty() && line[at + 3 + name.len()..].starts_with('.') {
                found.push((format!("# c{name}."), number));
            }
        }
    }
    found
}

/// Comments stay, at what they stand behind or above, unless they are inside of what is removed.
fn check_comments(case: &Case, new: &str, touched: Option<&Range<usize>>) -> Result<(), String> {
    let is_removal = matches!(case.edit, Edit::Remove { .. });
    let after = comments(new);
    let (old, new) = (case.text.trim_start_matches('\u{feff}'), new.trim_start_matches('\u{feff}'));
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    for (comment, number) in comments(&case.text) {
        let is_touched = touched.is_some_and(|touched| touched.contains(&number));
        let Some((_, now)) = after.iter().find(|(other, _)| *other == comment) else {
            if is_removal && is_touched {
                continue;
            }
            return Err(format!("{comment} is lost"));
        };
        let is_alone = old[number].trim_start().starts_with('#');
        if is_alone != new[*now].trim_start().starts_with('#') && !is_touched {
            return Err(format!("{comment} is on another line"));
        }
        if !is_alone && is_touched && !is_removal {
            // Behind the same name or bracket, if that is on the line.
            let word = |line: &str| {
                let line = line.trim_start().trim_start_matches(['-', ' ', '\'', '"']);
                line.split([':', ',', '\'', '"', ' ', ']', '}'])
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            };
            let is_entry = old[number].contains(": ");
            let is_in_replaced =
                matches!(&case.edit, Edit::Set { pointer, .. } if is_collection(case, pointer));
            if is_entry
                && !is_in_replaced
                && !case.edit.pointer().is_empty()
                && word(old[number]).starts_with('k')
                && word(old[number]) != word(new[*now])
                && !matches!(case.edit, Edit::RenameKey { .. })
            {
                return Err(format!("{comment} is behind another entry"));
            }
        }
        let around = case.edit.pointer().rsplit_once('/').map_or("", |(around, _)| around);
        if is_alone && matches!(case.edit, Edit::Insert { .. }) && !is_filled(case, around) {
            check_comment_above(&old, number, &new, *now, &comment)?;
        }
    }
    Ok(())
}

/// A comment above an element stays above it, when another one is inserted.
fn check_comment_above(
    old: &[&str],
    number: usize,
    new: &[&str],
    now: usize,
    comment: &str,
) -> Result<(), String> {
    let next = |lines: &[&str], number: usize| {
        let is_content =
            |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        lines[number + 1..].iter().find(is_content).map(|line| (**line).to_owned())
    };
    // An empty line separates it from the element.
    let mut below = old[number + 1..].iter();
    let next_other = below.find(|line| !line.trim_start().starts_with('#'));
    if next_other.is_some_and(|line| line.trim().is_empty()) {
        return Ok(());
    }
    let column = |line: &str| line.len() - line.trim_start().len();
    let (before, after) = (next(old, number), next(new, now));
    // Above a list in a list, it belongs to the outer one.
    if before.as_ref().is_some_and(|line| line.trim_start().starts_with("- -")) {
        return Ok(());
    }
    let is_deeper = after.as_ref().is_some_and(|line| column(line) < column(old[number]));
    if before == after || is_deeper || before.is_none() || old[number + 1..].is_empty() {
        return Ok(());
    }
    // The brackets get a comma.
    let plain = |line: Option<String>| {
        line.map(|line| {
            line.split(['[', '{', ',', '#']).next().unwrap_or_default().trim().to_owned()
        })
    };
    if plain(before.clone()) == plain(after.clone()) {
        return Ok(());
    }
    Err(format!("{comment} is no longer above {before:?}, but {after:?}"))
}

/// New lines end as a line next to them.
fn check_line_ends(case: &Case, new: &str) -> Result<(), String> {
    let has_windows = case.text.contains("\r\n");
    let has_unix = case.text.replace("\r\n", "").contains('\n');
    let is_windows = new.contains("\r\n");
    let is_unix = new.replace("\r\n", "").contains('\n');
    if !has_windows && is_windows || has_windows && !has_unix && is_unix {
        return Err("line ends of another kind".to_owned());
    }
    if has_windows && has_unix {
        // The changed lines, with one on each side.
        let (old, new) = (lines(case.text.trim_start_matches('\u{feff}')), lines(new));
        let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let rest = old.len().min(new.len()) - head;
        let tail = old.iter().rev().zip(new.iter().rev()).take(rest);
        let tail = tail.take_while(|(old, new)| old == new).count();
        let next = old.len() - tail;
        let above = old[next..].iter().take_while(|line| line.trim_start().starts_with('#'));
        let next = next + above.count() + 1;
        let near = &old[head.saturating_sub(1)..next.min(old.len())];
        let ends = |lines: &[&str], windows: bool| {
            lines.iter().any(|line| line.ends_with('\n') && line.ends_with("\r\n") == windows)
        };
        let added = &new[head..new.len() - tail];
        for windows in [true, false] {
            if ends(added, windows) && !ends(near, windows) {
                return Err(format!(
                    "line ends that the lines next to it do not have: {near:?} {added:?}"
                ));
            }
        }
    }
    Ok(())
}

/// The same edit again changes nothing, and the opposite one leads back.
fn check_repetition(case: &Case, new: &str) -> Result<(), String> {
    match &case.edit {
        Edit::Set { .. } => {
            let again = apply(case, new, &case.edit);
            if again.as_deref() != Ok(new) {
                return Err(format!("again: {again:?}"));
            }
            Ok(())
        }
        Edit::Insert { pointer, value } => {
            let (around, last) = pointer.rsplit_once('/').unwrap();
            let index = if last == "-" { None } else { last.parse::<usize>().ok() };
            let Some(index) = index else { return Ok(()) };
            let undo = Edit::Remove { pointer: format!("{around}/{index}") };
            let _ = value;
            match apply(case, new, &undo) {
                Ok(back) if back == case.text => Ok(()),
                Ok(back)
                    if is_filled(case, around)
                        || back.replace([' ', '\r', '\n'], "")
                            == case.text.replace([' ', '\r', '\n'], "") =>
                {
                    Ok(())
                }
                other => Err(format!("removed again: {other:?}")),
            }
        }
        _ => Ok(()),
    }
}

fn is_collection(case: &Case, pointer: &str) -> bool {
    let value = documents(&case.text).unwrap().swap_remove(case.document);
    value.pointer(pointer).is_some_and(|value| value.is_array() || value.is_object())
}

/// Reports whether the collection was empty.
fn is_filled(case: &Case, pointer: &str) -> bool {
    let value = documents(&case.text).unwrap().swap_remove(case.document);
    value.pointer(pointer).and_then(Value::as_array).is_none_or(Vec::is_empty)
}
