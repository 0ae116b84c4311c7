//! The edit that adds a waiver to `.opgate.yaml`.

use crate::outline::{Key, Outline};

/// A text to insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insertion {
    /// The byte of the text.
    pub offset: usize,
    /// The inserted text.
    pub text: String,
}

/// Why no waiver can be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WaiverEditError {
    /// The file already has one for the rule.
    #[error(".opgate.yaml has a waiver of this rule already: give its reason there")]
    Exists,
    /// The waivers are written in a style that is not extended.
    #[error(".opgate.yaml has no list of waivers, one on each line: add the waiver manually")]
    Form,
}

/// Returns the text to add to a file for a waiver. Without a reason it has an empty one, which its author must
/// fill in before the waiver has an effect.
///
/// # Errors
/// If the file has a waiver of the rule, or is not written in blocks.
pub fn insertion(text: &str, rule: &str, reason: &str) -> Result<Insertion, WaiverEditError> {
    let insertion = insertion_of_lines(text, rule, reason)?;
    let has_windows_lines = text.contains("\r\n");
    let inserted =
        if has_windows_lines { insertion.text.replace('\n', "\r\n") } else { insertion.text };
    Ok(Insertion { text: inserted, ..insertion })
}

fn insertion_of_lines(text: &str, rule: &str, reason: &str) -> Result<Insertion, WaiverEditError> {
    let outline = Outline::of(text);
    let waiver = |indent: &str| {
        let reason = serde_json::Value::from(reason);
        format!("{indent}- rule: {rule}\n{indent}  reason: {reason}\n")
    };
    let break_before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let Some(document) = outline.documents().next() else {
        let text = format!("{break_before}waivers:\n{}", waiver("  "));
        return Ok(Insertion { offset: usize::MAX, text });
    };
    let Some(list) = outline.get(document, &["waivers"]) else {
        return match outline.children(document).next() {
            None => Ok(Insertion {
                offset: usize::MAX,
                text: format!("{break_before}waivers:\n{}", waiver("  ")),
            }),
            Some(_) => Err(WaiverEditError::Form),
        };
    };
    let items: Vec<_> = outline.children(list).collect();
    let is_same = |item: &usize| outline.text_at(text, *item, &["rule"]).as_deref() == Some(rule);
    if items.iter().any(is_same) {
        return Err(WaiverEditError::Exists);
    }
    let nodes = outline.nodes();
    let Some(final_item) = items.last().and_then(|item| nodes.get(*item)) else {
        let node = nodes.get(list).ok_or(WaiverEditError::Form)?;
        let rest = text.get(node.key_range.end..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        // `waivers:`, with nothing behind it.
        let is_empty =
            line.trim() == ":" || line.trim_start_matches(':').trim_start().starts_with('#');
        if !is_empty || !matches!(node.key, Key::Name(_)) {
            return Err(WaiverEditError::Form);
        }
        return Ok(behind_line(text, node.key_range.end, &waiver("  ")));
    };
    let start = text.get(..final_item.key_range.start).unwrap_or_default();
    let indent = start.rsplit('\n').next().unwrap_or_default();
    if !indent.trim().is_empty() || text.get(final_item.key_range.clone()) != Some("-") {
        return Err(WaiverEditError::Form);
    }
    Ok(behind_line(text, end_of_comments(text, final_item.end, indent.len()), &waiver(indent)))
}

/// Returns the end of the last line of a comment that follows an item, and is indented deeper than its dash.
fn end_of_comments(text: &str, end: usize, indent: usize) -> usize {
    let rest = text.get(end..).unwrap_or_default();
    let mut at = end + rest.find('\n').map_or(rest.len(), |newline| newline + 1);
    let mut found = end;
    for line in text.get(at..).unwrap_or_default().split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        if !content.starts_with('#') || line.len() - content.len() <= indent {
            break;
        }
        found = at + line.trim_end().len();
        at += line.len();
    }
    found
}

/// Inserts behind the line of an offset.
fn behind_line(text: &str, offset: usize, inserted: &str) -> Insertion {
    let rest = text.get(offset..).unwrap_or_default();
    match rest.find('\n') {
        Some(newline) => Insertion { offset: offset + newline + 1, text: inserted.to_owned() },
        None => Insertion { offset: text.len(), text: format!("\n{inserted}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(text: &str, rule: &str, reason: &str) -> Result<String, WaiverEditError> {
        let Insertion { offset, text: inserted } = insertion(text, rule, reason)?;
        let mut made = text.to_owned();
        made.insert_str(offset.min(made.len()), &inserted);
        Ok(made)
    }

    #[test]
    fn waiver_is_added_behind_the_others() {
        for (text, expected) in [
            ("", "waivers:\n  - rule: A-1\n    reason: \"x \\\"y\\\"\"\n"),
            ("# none", "# none\nwaivers:\n  - rule: A-1\n    reason: \"x \\\"y\\\"\"\n"),
            ("waivers:\n", "waivers:\n  - rule: A-1\n    reason: \"x \\\"y\\\"\"\n"),
            (
                "waivers:\n- rule: B-1\n  reason: b\n# end\n",
                "waivers:\n- rule: B-1\n  reason: b\n- rule: A-1\n  reason: \"x \\\"y\\\"\"\n# end\n",
            ),
            (
                "waivers:\n  - rule: B-1\n    reason: b",
                "waivers:\n  - rule: B-1\n    reason: b\n  - rule: A-1\n    reason: \"x \\\"y\\\"\"\n",
            ),
        ] {
            assert_eq!(insert(text, "A-1", "x \"y\"").as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            (
                "waivers:\n  - rule: B-1\n    reason: b\n    # about b\n  # end\n",
                "waivers:\n  - rule: B-1\n    reason: b\n    # about b\n  - rule: A-1\n    reason: \"\"\n  # end\n",
            ),
            (
                "waivers:\r\n- rule: B-1\r\n  reason: b\r\n",
                "waivers:\r\n- rule: B-1\r\n  reason: b\r\n- rule: A-1\r\n  reason: \"\"\r\n",
            ),
        ] {
            assert_eq!(insert(text, "A-1", "").as_deref(), Ok(expected), "{text}");
        }
        for (text, error) in [
            ("waivers:\n- rule: A-1\n", WaiverEditError::Exists),
            ("waivers: [{rule: B-1, reason: b}]\n", WaiverEditError::Form),
            ("waivers: []\n", WaiverEditError::Form),
            ("other: 1\n", WaiverEditError::Form),
        ] {
            assert_eq!(insert(text, "A-1", ""), Err(error), "{text}");
        }
    }
}
