//! Values in descriptors: texts, settings and operations.

use opgate_document::Document;
use opgate_engine::wit;
use opgate_text::one_line;

use crate::review::Operation;

/// Maximum bytes of titles, sources and other texts for people.
pub(super) const MAX_TEXT_BYTES: usize = 1_024;

/// A text that the settings may name.
#[derive(Debug, Clone)]
pub struct Setting {
    /// JSON pointer into the settings.
    pub pointer: String,
    /// Used if the settings have no text there.
    pub default: String,
}

impl Setting {
    /// The text in the settings, or the default.
    #[must_use]
    pub fn of(&self, settings: &Document) -> String {
        let named = settings.get(&self.pointer).and_then(|value| value.text());
        named.unwrap_or(&self.default).to_owned()
    }
}

pub(super) fn setting(from: &wit::Setting) -> Setting {
    Setting { pointer: from.pointer.clone(), default: one_line(&from.default, MAX_TEXT_BYTES) }
}

pub(super) fn operations(from: &[wit::Operation]) -> Vec<Operation> {
    let operation = |operation: &wit::Operation| match operation {
        wit::Operation::Create => Operation::Create,
        wit::Operation::Update => Operation::Update,
        wit::Operation::Delete => Operation::Delete,
        wit::Operation::Connect => Operation::Connect,
    };
    from.iter().map(operation).collect()
}

pub(super) fn lines(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| one_line(text, MAX_TEXT_BYTES)).collect()
}
