//! The documents of a text: as nodes with their positions, and as JSON.

use std::cell::OnceCell;
use std::ops::Range;

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
    /// Each document, with its start.
    documents: Vec<(usize, String)>,
    /// The nodes of each document, which only a text that is edited needs.
    roots: OnceCell<Result<Vec<Node>, Refusal>>,
}

impl<'t> Source<'t> {
    /// Parses a text as `opgate check` does: as JSON if it looks like JSON, or else as YAML.
    pub(crate) fn parse(text: &'t str, name: &str) -> Result<Self, Refusal> {
        let is_named_json = name.to_ascii_lowercase().ends_with(".json");
        if (is_named_json || text.trim_start().starts_with(['{', '[']))
            && let Ok((_, values)) = Text::parse_values(text.to_owned(), opgate_yaml::MAX_DEPTH)
        {
            let value = |range: Range<usize>| Some((range.start, text.get(range)?.to_owned()));
            let documents = values.into_iter().filter_map(value);
            let documents = documents.filter(|(_, json)| json != "null").collect();
            return Ok(Self { text, is_json: true, documents, roots: OnceCell::new() });
        }
        let room = text.len().saturating_mul(MAX_JSON_GROWTH).saturating_add(MIN_JSON_BUDGET_BYTES);
        let parts = opgate_yaml::documents(text, BooleanWords::Yaml11, room)
            .map_err(|error| unreadable(&error))?;
        let documents = parts.into_iter().map(|part| (part.offset, part.json)).collect();
        Ok(Self { text, is_json: false, documents, roots: OnceCell::new() })
    }

    fn parse_nodes(&self) -> Result<Vec<Node>, Refusal> {
        if self.is_json {
            let roots = self.documents.iter().map(|(start, _)| json::parse(self.text, *start));
            let roots: Option<Vec<_>> = roots.collect();
            return roots.ok_or_else(|| Refusal::Unreadable("not JSON".to_owned()));
        }
        let roots = opgate_yaml::tree::documents(self.text, BooleanWords::Yaml11)
            .map_err(|error| unreadable(&error))?;
        if roots.len() != self.documents.len() {
            return Err(Refusal::Unreadable("an alias stands for nothing".to_owned()));
        }
        Ok(roots)
    }

    fn roots(&self) -> Result<&[Node], Refusal> {
        let roots = self.roots.get_or_init(|| self.parse_nodes());
        roots.as_deref().map_err(Clone::clone)
    }

    /// Returns the number of documents.
    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }

    /// Returns the nodes of a document.
    pub(crate) fn root(&self, number: usize) -> Result<&Node, Refusal> {
        self.roots()?.get(number).ok_or(Refusal::NoDocument(number))
    }

    /// Returns the start of every document.
    pub(crate) fn starts(&self) -> Result<Vec<usize>, Refusal> {
        Ok(self.roots()?.iter().map(|node| node.start).collect())
    }

    /// Returns a document as JSON text.
    pub(crate) fn json(&self, number: usize) -> Option<&str> {
        self.documents.get(number).map(|(_, json)| json.as_str())
    }

    /// Returns a document as a value.
    pub(crate) fn value(&self, number: usize) -> Result<Value, Refusal> {
        let (_, json) = self.documents.get(number).ok_or(Refusal::NoDocument(number))?;
        serde_json::from_str(json).map_err(|error| Refusal::Unreadable(error.to_string()))
    }
}

fn unreadable(error: &opgate_yaml::Error) -> Refusal {
    Refusal::Unreadable(error.message().into_owned())
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
