//! The JSON of the documents for policies, combined from parts of files.

use std::fmt::Write as _;
use std::sync::Arc;

use opgate_document::Document;

use super::content::ReadError;
use super::template;

/// API group of the documents that represent files.
pub const GROUP: &str = "opgate.dev";
/// Their version.
pub(crate) const VERSION: &str = "v1alpha1";

/// A review that is being combined.
#[derive(Default)]
pub(super) struct DocumentWriter {
    /// Its text, with a `null` for each of the parts.
    pub(super) json: String,
    pub(super) parts: Vec<(usize, Arc<Document>)>,
}

impl DocumentWriter {
    /// Adds a value from another text.
    pub(super) fn add_part(&mut self, document: Arc<Document>) {
        self.parts.push((self.json.len(), document));
        self.json.push_str("null");
    }
}

/// Returns a text as JSON.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes a list.
pub(super) fn write_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

/// Writes the error of a file as a member: `error` if it is unreadable, `twice` otherwise.
pub(super) fn write_problem(out: &mut String, member: &str, read_error: &ReadError) {
    let why = json_string(&opgate_text::one_line(&template::error_message(read_error), 1_024));
    let (line, column) = (read_error.line, read_error.column);
    // Writing to a text does not fail.
    let _ = write!(out, r#","{member}":{{"line":{line},"column":{column},"message":{why}}}"#);
}
