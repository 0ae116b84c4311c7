//! Deserialization with serde that borrows from the JSON text.

/// JSON text of a document or a part of one. Keep it alive while parsed values borrow from it.
#[derive(Debug, Clone)]
pub struct Raw(Vec<u8>);

impl Raw {
    pub(crate) fn new(json: Vec<u8>) -> Self {
        Self(json)
    }

    /// Deserializes the text. Texts without escapes are borrowed.
    ///
    /// # Errors
    /// Fails if the JSON does not fit the type. The error has line and column.
    pub fn parse<'de, T: serde::Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// Deserializes the text with a seed: for values that are read and not kept.
    ///
    /// # Errors
    /// Fails if the JSON does not fit the seed. The error has line and column.
    pub fn parse_with<'de, S: serde::de::DeserializeSeed<'de>>(
        &'de self,
        seed: S,
    ) -> Result<S::Value, serde_json::Error> {
        seed.deserialize(&mut serde_json::Deserializer::from_slice(&self.0))
    }
}
