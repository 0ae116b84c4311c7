//! Validation of names as in API servers, for arguments and for matches of policies.

/// The reason why a text is no name of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// Reports whether a text is a DNS label, as the names of namespaces, Services, versions and resources.
#[must_use]
pub fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Reports whether a text is DNS labels with points between them.
#[must_use]
pub fn is_domain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Returns an argument that names a namespace.
///
/// # Errors
/// If it is no name of a namespace.
pub fn namespace(text: &str) -> Result<String, NameError> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(NameError(format!(
        "{text:?} is not the name of a namespace: use lower case letters, digits and hyphens"
    )))
}

/// Returns an argument that names an object.
///
/// # Errors
/// If it is no name of an object.
pub fn object_name(text: &str) -> Result<String, NameError> {
    if is_domain(text) {
        return Ok(text.to_owned());
    }
    Err(NameError(format!(
        "{text:?} is not a name: use lower case letters, digits, hyphens and points"
    )))
}
