//! Parses the `field` of a violation: `spec.files[3].documents[0].metadata.annotations[a.b]`.

use std::sync::Arc;

pub(crate) use opgate_input::field::path_tokens;

use super::content::File;

/// The target of the first tokens of a field.
pub(super) struct FieldTarget<'f, 't> {
    pub(super) file: &'f Arc<File>,
    /// The document in it, if the field refers to one.
    pub(super) document: Option<usize>,
    /// The rest.
    pub(super) tokens: &'t [String],
}
