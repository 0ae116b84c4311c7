//! The syntax of the reference to the image of a Catalog.

/// The field with the image of a Catalog.
pub(crate) const REF: &str = "/spec/source/image/ref";

/// Registry and repository of a reference. The first part is a registry if it has the syntax of
/// one.
pub(crate) fn split_reference(reference: &str) -> (Option<&str>, &str) {
    match reference.split_once('/') {
        Some((registry, rest)) if registry.contains(['.', ':']) || registry == "localhost" => {
            (Some(registry), rest)
        }
        _ => (None, reference),
    }
}

/// Whether a string is a reference by the library of catalogd (it has fewer rules than the library
/// of OLM). A digest only needs to exist.
pub(crate) fn is_reference(text: &str) -> bool {
    let (named, digest) = match text.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (text, None),
    };
    let (name, tag) = match named.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (named, None),
    };
    let (registry, repository) = split_reference(name);
    let is_printable = |byte: u8| byte.is_ascii_graphic();
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-./".contains(&byte);
    let is_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    registry.is_none_or(|registry| !registry.ends_with(':') && registry.bytes().all(is_printable))
        && (1..=255).contains(&repository.len())
        && repository.bytes().all(is_inner)
        && tag.is_none_or(|tag| (1..=128).contains(&tag.len()) && tag.bytes().all(is_tag))
        && digest.is_none_or(|digest| {
            digest.split_once(':').is_some_and(|(_, hex)| !hex.is_empty())
                && digest.bytes().all(is_printable)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        for text in [
            "registry.redhat.io/redhat/redhat-operator-index:v4.15",
            "quay.io/x/y@sha256:0123",
            "quay.io/x/y:v1@sha256:0123",
            "localhost:5000/catalog",
            "[fd00::1]:5000/a/b:c",
            "Registry.example.com/a_b..c/d",
            "catalog",
            "a/b:V1",
            "example.com/a",
        ] {
            assert!(is_reference(text), "{text}");
        }
        for text in [
            " ",
            "not an image",
            "quay.io/x y",
            "quay.io/X/y",
            "quay.io/x/y:",
            "quay.io/x/y:a b",
            "quay.io/x/y@",
            "quay.io/x/y@sha256",
            "quay.io/x/y@sha256:",
            "https://quay.io/x/y",
            "quay.io/",
            "<image>",
            "quay.io/x/y:é",
        ] {
            assert!(!is_reference(text), "{text}");
        }
    }
}
