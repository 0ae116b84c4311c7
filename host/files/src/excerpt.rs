//! Selection of the lines of files to show below a violation.
//!
//! Reports go to terminals, and to logs with more readers than the file. A line is shown only if no part of
//! it belongs to a Secret, or to another object than that of the violation: [`is_in_secret`] checks the
//! objects around the location, [`can_be_shown`] the line. If they cannot be distinguished, the line is not
//! shown. File, line and column are always shown.

use opgate_document::{Kind, Value};

/// Characters of base64 in a row that can be an object. Digests are longer, but in hexadecimal.
const MIN_BASE64_CHARS: usize = 40;

/// Reports whether a value is a Secret, of any group and version, or a kind that is made into one
/// (`SealedSecret`).
fn is_secret(value: Value<'_>) -> bool {
    value.kind() == Kind::Object
        && value
            .get("/kind")
            .and_then(|kind| kind.text())
            .is_some_and(|kind| kind.ends_with("Secret"))
}

/// Reports whether the target of a JSON pointer, or anything around it, is a Secret.
pub(crate) fn is_in_secret(root: Value<'_>, pointer: &str) -> bool {
    let mut at = root;
    for token in pointer.split('/').skip(1) {
        if is_secret(at) {
            return true;
        }
        let Some(next) = at.get(&format!("/{token}")) else { return false };
        at = next;
    }
    is_secret(at)
}

/// Reports whether a text that is no document can have a Secret in it.
pub(crate) fn mentions_secret(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), b"Secret").is_some()
}

/// Reports whether a line contains no object: neither directly, nor in a text with any escapes, nor in
/// base64.
pub(crate) fn can_be_shown(line: &str) -> bool {
    let line = line.trim();
    let lower = line.to_ascii_lowercase();
    let has_object = lower.contains("apiversion") || is_kind_of_secret(&lower);
    (!has_object || is_single_member(&lower)) && !has_base64(line)
}

/// Reports whether `kind` is followed by `secret`, in any quotes.
fn is_kind_of_secret(lower: &str) -> bool {
    lower.match_indices("kind").any(|(at, kind)| {
        let behind = lower.get(at + kind.len()..).unwrap_or_default();
        behind.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).starts_with("secret")
    })
}

/// Reports whether a line is one member with a short name, and nothing else: `- apiVersion: v1`, `"kind":
/// "Secret",`.
fn is_single_member(lower: &str) -> bool {
    let member = lower.trim_start_matches(['-', ' ']).trim_end_matches(',');
    let Some((name, value)) = member.split_once(':') else { return false };
    let quotes = ['"', '\'', ' '];
    let is_word = |text: &str, more: &[char]| {
        text.trim_matches(quotes).chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
    };
    is_word(name, &[]) && is_word(value, &['.', '/', '-'])
}

/// Reports whether there is a long text of base64 in it.
fn has_base64(line: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_');
    line.split(|c: char| !is_letter(c)).filter(|run| run.len() >= MIN_BASE64_CHARS).any(|run| {
        let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
        has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
    })
}

#[cfg(test)]
mod tests {
    use opgate_document::Document;

    use super::*;

    #[test]
    fn lines_with_objects_are_not_shown() {
        let image = format!("image: quay.io/a/b@sha256:{}", "0a1b".repeat(16));
        for line in [
            "- apiVersion: v1",
            "\"apiVersion\": \"operators.coreos.com/v1alpha1\",",
            "kind: Secret",
            "  \"kind\": \"Secret\",",
            "{kind: ClusterRole, name: a}",
            "secretName: a",
            "- name: SECRET_KIND",
            &image,
            "",
        ] {
            assert!(can_be_shown(line), "{line}");
        }
        for line in [
            r#"{"apiVersion":"v1","kind":"List","items":[{"kind":"ConfigMap"}]}"#,
            r#"kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"v1","data":{"p":"aA=="}}'"#,
            r#""applied": "{\"apiVersion\":\"v1\"}","#,
            r#"a: "{\\\"apiVersion\\\":1}""#,
            "secret.yaml: \"kind: Secret\\nstringData: {p: x}\"",
            "- {kind: Secret, stringData: {p: x}}",
            "items: [{kind: 'Secret', data: {p: eA==}}]",
            "{\"schema\":\"olm.bundle\",\"data\":\"eyJhcGlWZXJzaW9uIjoidjEiLCJraW5kIjoiU2VjcmV0In0=\"}",
            "applied: H4sIAAAAAAAA/4xSy27bMBC89ysInqVIfsSJdStS9FQUQXvopQcuuZS",
        ] {
            assert!(!can_be_shown(line), "{line}");
        }
    }

    #[test]
    fn pointers_into_secrets_are_detected() {
        let json = r#"{"kind": "List", "items": [{"kind": "Pod", "a": {"b": 1}}, {"kind": "Secret", "a": {"b": 1}}]}"#;
        let document = Document::parse(json).unwrap();
        for (pointer, expected) in [
            ("", false),
            ("/items", false),
            ("/items/0/a/b", false),
            ("/items/1", true),
            ("/items/1/a/b", true),
            ("/items/1/none/at/all", true),
        ] {
            assert_eq!(is_in_secret(document.root(), pointer), expected, "{pointer}");
        }
    }
}
