//! Deserialising with serde, borrowed from the JSON text.

/// JSON text of (a part of) a document. Keep it alive while what was parsed borrows from it.
#[derive(Debug, Clone)]
pub struct Raw(Vec<u8>);

impl Raw {
    pub(crate) fn new(json: Vec<u8>) -> Self {
        Self(json)
    }

    /// Deserialises; texts without escapes are borrowed.
    ///
    /// # Errors
    /// Where the JSON does not fit the type: what is wrong, with line and column.
    pub fn parse<'de, T: serde::Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}
