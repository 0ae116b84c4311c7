//! Names as Kubernetes checks and writes them: labels and subdomains of DNS, groups, versions and kinds
//! of APIs, keys and values of labels.
//!
//! The texts are those of apimachinery v0.36. Functions that return an error return its reason only: the
//! caller adds the value and the field.

const LABEL_ERROR: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_ERROR: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_ERROR: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_NAME_ERROR: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const NAME_EXAMPLES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_EXAMPLES: &str = "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Reports whether a text is an RFC 1123 label of any length: `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`.
#[must_use]
pub fn is_label(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.iter().all(|&byte| is_lower(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| is_lower(byte))
        && bytes.last().is_some_and(|&byte| is_lower(byte))
}

/// Reports whether a text is an RFC 1123 subdomain of any length.
#[must_use]
pub fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

/// Returns the errors of Kubernetes for a DNS-1123 subdomain, `IsDNS1123Subdomain`.
#[must_use]
pub fn subdomain_errors(name: &str) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if name.len() > 253 {
        errors.push("must be no more than 253 characters");
    }
    if !is_subdomain(name) {
        errors.push(SUBDOMAIN_ERROR);
    }
    errors
}

/// Returns the errors of Kubernetes for a DNS-1123 label.
#[must_use]
pub fn label_errors(name: &str) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push("must be no more than 63 bytes");
    }
    if !is_label(name) {
        errors.push(if is_subdomain(name) { "must not contain dots" } else { LABEL_ERROR });
    }
    errors
}

/// Returns the error for the group of an API.
#[must_use]
pub fn group_error(group: &str) -> Option<&'static str> {
    let fits = group.len() <= 253 && is_subdomain(group);
    (!fits).then_some("group must be a lowercase RFC 1123 subdomain")
}

/// Returns the error for the version of an API.
#[must_use]
pub fn version_error(version: &str) -> Option<&'static str> {
    (!is_dns1035(version)).then_some("version must be a DNS-1035 label")
}

/// Returns the error for a kind. Kubernetes validates it in lower case.
#[must_use]
pub fn kind_error(kind: &str) -> Option<&'static str> {
    let fits = is_dns1035(&kind.to_ascii_lowercase());
    (!fits).then_some("kind must be a DNS-1035 label, upper case allowed")
}

/// Returns the errors of Kubernetes for a DNS-1035 label, `IsDNS1035Label`.
#[must_use]
pub fn dns1035_errors(name: &str) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push("must be no more than 63 bytes");
    }
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(DNS1035_ERROR);
    }
    errors
}

fn is_dns1035(name: &str) -> bool {
    dns1035_errors(name).is_empty()
}

/// Returns `String()` of a `schema.GroupVersionKind`: `apps/v1, Kind=Deployment`.
#[must_use]
pub fn group_version_kind(group: &str, version: &str, kind: &str) -> String {
    [group, "/", version, ", Kind=", kind].concat()
}

/// Returns the error for the key of a label or an annotation, `IsQualifiedName`.
#[must_use]
pub fn label_key_error(key: &str) -> Option<String> {
    // Nearly all: objects may have very many.
    if key.len() <= 63 && is_qualified(key) {
        return None;
    }
    let mut errors = Vec::new();
    let name = match key.splitn(3, '/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    errors.push("prefix part must be no more than 253 bytes".to_owned());
                }
                if !is_subdomain(prefix) {
                    errors.push(format!("prefix part {SUBDOMAIN_ERROR}"));
                }
            }
            *name
        }
        _ => {
            return Some(format!(
                "a valid label key {QUALIFIED_NAME_ERROR} {NAME_EXAMPLES} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        errors.push(format!("name part {QUALIFIED_NAME_ERROR} {NAME_EXAMPLES}"));
    }
    (!errors.is_empty()).then(|| errors.join("; "))
}

/// Returns the error for the value of a label, in one text.
#[must_use]
pub fn label_value_error(value: &str) -> Option<String> {
    let errors = label_value_errors(value);
    (!errors.is_empty()).then(|| errors.join("; "))
}

/// Returns the errors for the value of a label, `IsValidLabelValue`.
#[must_use]
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_qualified(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character {VALUE_EXAMPLES}"
        ));
    }
    errors
}

fn is_qualified(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.iter().all(|end| end.is_some_and(|b| b.is_ascii_alphanumeric()))
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the pattern, for all texts of up to four of these characters.
    #[test]
    fn labels_and_subdomains_match_the_patterns() {
        const CHARACTERS: [char; 10] = ['a', 'z', '0', '9', '-', '.', '_', 'A', ' ', 'é'];
        let fits = |text: &str| {
            let inner = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-');
            !text.is_empty()
                && text.chars().all(inner)
                && !text.starts_with('-')
                && !text.ends_with('-')
        };
        let mut texts = vec![String::new()];
        let mut start = 0;
        for _ in 0..4 {
            let end = texts.len();
            for at in start..end {
                texts.extend(CHARACTERS.map(|c| format!("{}{c}", texts[at])));
            }
            start = end;
        }
        assert_eq!(texts.len(), 11_111);
        for text in &texts {
            assert_eq!(is_label(text), fits(text), "{text:?}");
            assert_eq!(is_subdomain(text), text.split('.').all(fits), "{text:?}");
        }
        assert!(is_label(&"a".repeat(64)));
    }

    #[test]
    fn labels() {
        assert!(label_errors("3scale-operator").is_empty());
        assert_eq!(label_errors("foo.bar"), ["must not contain dots"]);
        assert_eq!(label_errors("Foo"), [LABEL_ERROR]);
        assert_eq!(label_errors("-a"), [LABEL_ERROR]);
        assert_eq!(label_errors(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn subdomains() {
        assert!(subdomain_errors("etcdoperator.v0.9.4").is_empty());
        assert_eq!(subdomain_errors("Etcd_Operator"), [SUBDOMAIN_ERROR]);
        assert_eq!(subdomain_errors(""), [SUBDOMAIN_ERROR]);
        assert_eq!(subdomain_errors(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(subdomain_errors(&".".repeat(254)).len(), 2);
    }

    #[test]
    fn api_name_parts_are_validated() {
        for group in ["olm.coreos.io", "a"] {
            assert_eq!(group_error(group), None, "{group}");
        }
        assert!(group_error("A.b").is_some() && group_error("a..b").is_some());
        assert!(version_error("v1alpha").is_none() && version_error("1").is_some());
        assert!(kind_error("MyObject").is_none() && kind_error("myresource").is_none());
        assert!(kind_error("My Object").is_some());
    }

    #[test]
    fn label_keys_and_values_are_validated() {
        for key in ["a", "example.com/A_b.c-d", "123"] {
            assert_eq!(label_key_error(key), None, "{key}");
        }
        let name = format!("name part {QUALIFIED_NAME_ERROR} {NAME_EXAMPLES}");
        let long = "k".repeat(254);
        for (key, errors) in [
            ("a b".to_owned(), vec![name.as_str()]),
            ("/a".to_owned(), vec!["prefix part must be non-empty"]),
            ("a/".to_owned(), vec!["name part must be non-empty", &name]),
            ("k".repeat(64), vec!["name part must be no more than 63 bytes"]),
            (format!("{long}/k"), vec!["prefix part must be no more than 253 bytes"]),
        ] {
            assert_eq!(label_key_error(&key), Some(errors.join("; ")));
        }
        assert!(label_key_error("A.b/c").unwrap().starts_with("prefix part a lowercase RFC 1123"));
        assert!(label_key_error("a/b/c").unwrap().ends_with("'/' (e.g. 'example.com/MyName')"));
        for value in ["", "a", "1_2.B"] {
            assert_eq!(label_value_error(value), None, "{value}");
        }
        // The length is counted in bytes.
        let error = label_value_error(&"ä".repeat(32)).unwrap();
        assert!(error.starts_with("must be no more than 63 bytes; a valid label must be"));
        assert!(label_value_error("-").unwrap().ends_with(VALUE_EXAMPLES));
    }

    #[test]
    fn kinds_are_written_as_upstream() {
        assert_eq!(group_version_kind("apps", "v1", "Deployment"), "apps/v1, Kind=Deployment");
        assert_eq!(group_version_kind("", "v1", "Pod"), "/v1, Kind=Pod");
    }
}
