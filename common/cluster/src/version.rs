//! The version of an API server, as an object that policies read like any other.
//!
//! ```text
//! /version of an API server, or a file with its answer ─▶ ServerVersion "kubernetes"
//! ```
//!
//! No API server has objects of this resource. The host provides the only one.

use opgate_document::{Document, Value};
use serde_json::{Map, json};

use crate::Resource;

const GROUP: &str = "opgate.dev";
const VERSION: &str = "v1alpha1";
const PLURAL: &str = "serverversions";

/// The members of the answer that the object has. All of them are texts.
const MEMBERS: [&str; 4] = ["gitVersion", "major", "minor", "platform"];

impl Resource {
    /// Reports whether this is the version of the API server, `opgate.dev/v1alpha1/serverversions`.
    #[must_use]
    pub fn is_server_version(&self) -> bool {
        self.group == GROUP && self.version == VERSION && self.resource == PLURAL
    }
}

/// Returns the object for a response of `/version`; `None` for any other document. The response names neither
/// kind nor API version, unlike every object.
#[must_use]
pub fn server_version(answer: Value<'_>) -> Option<Document> {
    let text = |name: &str| answer.get(&format!("/{name}")).and_then(|value| value.text());
    let is_object = answer.get("/apiVersion").is_some() || answer.get("/kind").is_some();
    if is_object || text("gitVersion").is_none_or(str::is_empty) {
        return None;
    }
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(format!("{GROUP}/{VERSION}")));
    object.insert("kind".to_owned(), json!("ServerVersion"));
    object.insert("metadata".to_owned(), json!({"name": "kubernetes"}));
    for name in MEMBERS {
        if let Some(value) = text(name) {
            object.insert(name.to_owned(), json!(value));
        }
    }
    Document::of(serde_json::Value::Object(object).to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_response_is_a_server_version() {
        let of = |json: &str| {
            let object = server_version(Document::parse(json).unwrap().root())?;
            Some(object.root().raw().into_owned())
        };
        let answer = r#"{"major":"1","minor":"25+","gitVersion":"v1.25.4-gke.\"2","goVersion":"go1.19",
            "platform":"linux/amd64","metadata":{"name":"other"},"compiler":7}"#;
        let object = Document::parse(&of(answer).unwrap()).unwrap();
        for (pointer, text) in [
            ("/apiVersion", "opgate.dev/v1alpha1"),
            ("/kind", "ServerVersion"),
            ("/metadata/name", "kubernetes"),
            ("/gitVersion", "v1.25.4-gke.\"2"),
            ("/major", "1"),
            ("/minor", "25+"),
            ("/platform", "linux/amd64"),
        ] {
            assert_eq!(object.get(pointer).and_then(|v| v.text()), Some(text), "{pointer}");
        }
        assert!(object.get("/goVersion").is_none());
        for (json, is_one) in [
            (r#"{"gitVersion":"v1.2.3"}"#, true),
            (r#"{"gitVersion":""}"#, false),
            (r#"{"gitVersion":1}"#, false),
            (r#"{"serverVersion":{"gitVersion":"v1.2.3"}}"#, false),
            (r#"{"gitVersion":"v1.2.3","kind":"ServerVersion"}"#, false),
            (r#"{"gitVersion":"v1.2.3","apiVersion":"opgate.dev/v1alpha1"}"#, false),
            (r#"["gitVersion"]"#, false),
            ("null", false),
        ] {
            assert_eq!(of(json).is_some(), is_one, "{json}");
        }
    }
}
