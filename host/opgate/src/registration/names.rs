//! Validation of names as in API servers, for arguments and for matches of policies.

/// Reports whether a text is a DNS label, as the names of namespaces, Services, versions and resources.
pub(crate) fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Labels with points between them.
pub(crate) fn is_domain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Returns an argument that names a namespace.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not the name of a namespace: use lower case letters, digits and hyphens"
    ))
}

/// Returns an argument that names an object.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    if is_domain(text) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a name: use lower case letters, digits, hyphens and points"))
}
