//! The documents of a text: as nodes with their positions, and as JSON.

use opgate_document::Text;
use opgate_yaml::BooleanWords;
use opgate_yaml::tree::Node;
use serde_json::Value;

use crate::{Refusal, json};

/// Maximum bytes of JSON for a byte of YAML without aliases, and any text may become this much.
const MAX_JSON_GROWTH: usize = 6;
const MIN_JSON_BUDGET_BYTES: usize = 1 << 20;

/// A text that was parsed.
pub(crate) struct Source<'t> {
    pub(crate) text: &'t str,
    /// Whether it is JSON, and not YAML.
    pub(crate) is_json: bool,
    documents: Vec<(Node, String)>,
}

impl<'t> Source<'t> {
    /// Parses a text as `opgate check` does: as JSON if it looks like JSON, or else as YAML.
    pub(crate) fn parse(text: &'t str, name: &str) -> Result<Self, Refusal> {
        let is_named_json = name.to_ascii_lowercase().ends_with(".json");
        if (is_named_json || text.trim_start().starts_with(['{', '[']))
            && let Ok((_, values)) = Text::parse_values(text.to_owned(), opgate_yaml::MAX_DEPTH)
        {
            let values =
                values.into_iter().filter_map(|range| Some((text.get(range.clone())?, range)));
            let values = values.filter(|(json, _)| *json != "null");
            let document = |(json, range): (&str, std::ops::Range<usize>)| {
                let node = json::parse(text, range.start)?;
                Some((node, json.to_owned()))
            };
            let documents: Option<Vec<_>> = values.map(document).collect();
            let documents = documents.ok_or_else(|| Refusal::Unreadable("not JSON".to_owned()))?;
            return Ok(Self { text, is_json: true, documents });
        }
        let room = text.len().saturating_mul(MAX_JSON_GROWTH).saturating_add(MIN_JSON_BUDGET_BYTES);
        let unreadable =
            |error: opgate_yaml::Error| Refusal::Unreadable(error.message().into_owned());
        let parts = opgate_yaml::documents(text, BooleanWords::Yaml11, room).map_err(unreadable)?;
        let nodes = opgate_yaml::tree::documents(text, BooleanWords::Yaml11).map_err(unreadable)?;
        if parts.len() != nodes.len() {
            return Err(Refusal::Unreadable("an alias stands for nothing".to_owned()));
        }
        let documents = nodes.into_iter().zip(parts.into_iter().map(|part| part.json)).collect();
        Ok(Self { text, is_json: false, documents })
    }

    /// Returns the number of documents.
    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }

    /// Returns the nodes of a document.
    pub(crate) fn root(&self, number: usize) -> Result<&Node, Refusal> {
        self.documents.get(number).map(|(node, _)| node).ok_or(Refusal::NoDocument(number))
    }

    /// Returns the start of every document.
    pub(crate) fn starts(&self) -> impl Iterator<Item = usize> {
        self.documents.iter().map(|(node, _)| node.start)
    }

    /// Returns a document as a value.
    pub(crate) fn value(&self, number: usize) -> Result<Value, Refusal> {
        let (_, json) = self.documents.get(number).ok_or(Refusal::NoDocument(number))?;
        serde_json::from_str(json).map_err(|error| Refusal::Unreadable(error.to_string()))
    }
}

/// Reports whether two values are the same in JSON, whatever the notation of their numbers is.
pub(crate) fn same_json(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| same_json(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, value)| {
                    right.get(name).is_some_and(|other| same_json(value, other))
                })
        }
        (left, right) => left == right,
    }
}
