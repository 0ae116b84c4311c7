//! Secrets with which images are pulled: their types, and the keys that these need.

use crate::go::{quote, shorten};
use crate::{Document, escape};

/// The types, each with the key of its data.
const TYPES: [(&str, &str); 2] = [
    ("kubernetes.io/dockerconfigjson", ".dockerconfigjson"),
    ("kubernetes.io/dockercfg", ".dockercfg"),
];

/// Returns why no image can be pulled with an existing or missing Secret. Only its type and the names of its
/// keys are read.
#[must_use]
pub fn error(secret: Option<&Document>) -> Option<String> {
    let Some(secret) = secret else { return Some("does not exist".to_owned()) };
    let found = secret.text_or_empty("/type");
    let Some((_, key)) = TYPES.into_iter().find(|(kind, _)| *kind == found) else {
        let [(json, _), (plain, _)] = TYPES;
        let found = quote(&shorten(&found, 253));
        return Some(format!("has the type {found}, not {json} or {plain}"));
    };
    // An API server moves what a manifest has in `stringData` to `data`.
    let has_key = ["data", "stringData"]
        .into_iter()
        .any(|member| secret.kind(&format!("/{member}/{}", escape(key))) != crate::Kind::Missing);
    (!has_key).then(|| format!("has no key {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_keys() {
        assert_eq!(error(None).as_deref(), Some("does not exist"));
        for (secret, expected) in [
            (r#"{"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":""}}"#, None),
            (r#"{"type":"kubernetes.io/dockercfg","data":{".dockercfg":null}}"#, None),
            (r#"{"type":"kubernetes.io/dockercfg","stringData":{".dockercfg":"{}"}}"#, None),
            (
                r#"{"type":"kubernetes.io/dockercfg","data":{".dockerconfigjson":""}}"#,
                Some("has no key .dockercfg"),
            ),
            (
                r#"{"type":"Opaque","data":{".dockerconfigjson":""}}"#,
                Some(
                    r#"has the type "Opaque", not kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg"#,
                ),
            ),
        ] {
            let secret = Document::parse(secret).unwrap();
            assert_eq!(error(Some(&secret)).as_deref(), expected);
        }
    }
}
