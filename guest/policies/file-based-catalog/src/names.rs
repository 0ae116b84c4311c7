//! Names as Kubernetes checks them: labels of DNS, groups, versions and kinds of APIs.

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.iter().all(|&byte| is_lower(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| is_lower(byte))
        && bytes.last().is_some_and(|&byte| is_lower(byte))
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

/// What Kubernetes says against a DNS-1123 label.
pub(crate) fn label_errors(name: &str) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push("must be no more than 63 bytes");
    }
    if !is_label(name) {
        errors.push(if is_subdomain(name) { "must not contain dots" } else { LABEL });
    }
    errors
}

/// What is wrong with the group of an API.
pub(crate) fn group_error(group: &str) -> Option<&'static str> {
    let fits = group.len() <= 253 && is_subdomain(group);
    (!fits).then_some("group must be a lowercase RFC 1123 subdomain")
}

/// What is wrong with the version of an API.
pub(crate) fn version_error(version: &str) -> Option<&'static str> {
    (!is_dns1035(version)).then_some("version must be a DNS-1035 label")
}

/// What is wrong with a kind. Kubernetes looks at it in lower case.
pub(crate) fn kind_error(kind: &str) -> Option<&'static str> {
    let fits = is_dns1035(&kind.to_ascii_lowercase());
    (!fits).then_some("kind must be a DNS-1035 label, upper case allowed")
}

fn is_dns1035(name: &str) -> bool {
    name.len() <= 63 && is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        assert!(label_errors("3scale-operator").is_empty());
        assert_eq!(label_errors("foo.bar"), ["must not contain dots"]);
        assert_eq!(label_errors("Foo"), [LABEL]);
        assert_eq!(label_errors("-a"), [LABEL]);
        assert_eq!(label_errors(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn parts_of_apis() {
        for group in ["olm.coreos.io", "a"] {
            assert_eq!(group_error(group), None, "{group}");
        }
        assert!(group_error("A.b").is_some() && group_error("a..b").is_some());
        assert!(version_error("v1alpha").is_none() && version_error("1").is_some());
        assert!(kind_error("MyObject").is_none() && kind_error("myresource").is_none());
        assert!(kind_error("My Object").is_some());
    }
}
