//! Parses the `field` of a violation: `spec.files[3].documents[0].metadata.annotations[a.b]`.

use std::sync::Arc;

use super::content::File;

/// Returns the names and indices of a path.
pub(crate) fn path_tokens(field: &str) -> Vec<String> {
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

/// The target of the first tokens of a field.
pub(super) struct FieldTarget<'f, 't> {
    pub(super) file: &'f Arc<File>,
    /// The document in it, if the field refers to one.
    pub(super) document: Option<usize>,
    /// The rest.
    pub(super) tokens: &'t [String],
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
