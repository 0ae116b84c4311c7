//! The `field` of a violation as a path in a document: `spec.files[3].metadata.annotations[a.b]`.
//!
//! The document determines the meaning of the path: a name with points but without brackets is found as well.

use opgate_document::{Kind, Value};

/// Returns the names and indices of a path.
#[must_use]
pub fn path_tokens(field: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let quoted = inner.strip_prefix('"').and_then(|text| text.split_once("\"]"));
            let Some((token, after)) = quoted.or_else(|| inner.split_once(']')) else {
                tokens.push(inner.to_owned());
                break;
            };
            tokens.push(token.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (token, after) = rest.split_at(end);
            tokens.push(token.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        }
    }
    tokens
}

/// Returns the JSON pointer of the target of the tokens in a document, or of the nearest enclosing value, and
/// the remaining tokens.
#[must_use]
pub fn resolve_tokens<'t>(root: Value<'_>, tokens: &'t [String]) -> (String, &'t [String]) {
    let (mut at, mut pointer, mut tokens) = (root, String::new(), tokens);
    while !tokens.is_empty() {
        // The name, or the longest name that the tokens combine to: it can contain points.
        let longest = if at.kind() == Kind::Object { tokens.len() } else { 1 };
        let found = std::iter::once(1).chain((2..=longest).rev()).find_map(|count| {
            let name = tokens.get(..count)?.join(".");
            let step = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            Some((at.get(&step)?, step, count))
        });
        let Some((value, step, count)) = found else { break };
        at = value;
        pointer.push_str(&step);
        tokens = tokens.get(count..).unwrap_or_default();
    }
    (pointer, tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_paths_are_split_like_kubernetes() {
        for (field, expected) in [
            (
                "spec.files[3].documents[0].spec",
                &["spec", "files", "3", "documents", "0", "spec"][..],
            ),
            ("metadata.annotations[olm.x/y].z", &["metadata", "annotations", "olm.x/y", "z"]),
            ("a[\"b]c\"][1][2]", &["a", "b]c", "1", "2"]),
            ("", &[]),
            ("a[b", &["a", "b"]),
            ("..a", &["", "", "a"]),
        ] {
            assert_eq!(path_tokens(field), expected, "{field}");
        }
    }
}
