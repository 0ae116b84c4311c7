//! Names as API servers take them, of arguments and of what policies ask for.

/// A label of DNS, as namespaces, Services, versions and resources have them.
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

/// An argument that names a namespace.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not the name of a namespace: use lower case letters, digits and hyphens"
    ))
}

/// An argument that names an object.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    if is_domain(text) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a name: use lower case letters, digits, hyphens and points"))
}
