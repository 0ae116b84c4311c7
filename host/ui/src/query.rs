//! Parameters of a query.

/// Returns the value of the first parameter with this name; empty if it has none.
#[must_use]
pub fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = query?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    let spaced = value.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        for (query, name, expected) in [
            (None, "q", None),
            (Some("a=1"), "q", None),
            (Some("fragment"), "fragment", Some("")),
            (Some("a&q=x+%3Cb%3E&q=2"), "q", Some("x <b>")),
            (Some("q=%ff%zz"), "q", Some("\u{fffd}%zz")),
        ] {
            assert_eq!(parameter(query, name).as_deref(), expected, "{query:?}");
        }
    }
}
