//! Facts that identify the object under review, in few bytes. No value of a Secret is among them.

use opgate_document::Document;
use opgate_text::one_line;

use super::{Operation, Review};

/// Maximum bytes of a text.
const MAX_TEXT_BYTES: usize = 253;

/// Maximum number of owners that are read. Objects with more have no controller for this purpose.
const MAX_OWNERS: usize = 16;

/// The controller of an object, as the object names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `name`.
    pub name: String,
    /// `uid`.
    pub uid: String,
}

impl Review<'_> {
    /// The uid of the stored object. An object that is created already has a uid, which no stored object will have
    /// if the request is denied.
    #[must_use]
    pub fn stored_uid(&self) -> Option<String> {
        let range = self.old_object.as_ref().or(self.object.as_ref());
        let range = range.filter(|_| self.operation != Operation::Create)?;
        text(&Document::part(self.text.clone(), range.clone()), "/metadata/uid")
    }

    /// The start of the name, if the API server has generated the name of a created object.
    #[must_use]
    pub fn generated_name_prefix(&self) -> Option<String> {
        text(&self.created_object()?, "/metadata/generateName").filter(|prefix| !prefix.is_empty())
    }

    /// The controller that has created the object: an owner reference with `controller: true`.
    #[must_use]
    pub fn creating_controller(&self) -> Option<Controller> {
        let object = self.created_object()?;
        let owners = object.get("/metadata/ownerReferences")?;
        let owner = owners.items().take(MAX_OWNERS).find(|owner| {
            owner.get("/controller").and_then(|value| value.boolean()).unwrap_or_default()
        })?;
        let field = |pointer| owner.get(pointer)?.text().map(|text| one_line(text, MAX_TEXT_BYTES));
        Some(Controller {
            api_version: field("/apiVersion")?,
            kind: field("/kind")?,
            name: field("/name")?,
            uid: field("/uid")?,
        })
    }

    fn created_object(&self) -> Option<Document> {
        let range = self.object.as_ref().filter(|_| self.operation == Operation::Create)?;
        Some(Document::part(self.text.clone(), range.clone()))
    }
}

fn text(object: &Document, pointer: &str) -> Option<String> {
    object.get(pointer)?.text().map(|text| one_line(text, MAX_TEXT_BYTES))
}
