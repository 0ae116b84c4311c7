//! A dependency or property in files.

use opgate_constraint::names::Gvk;
use opgate_sdk::Document;

use crate::scan::Scan;

/// The type, the value, and the field of the value.
pub(crate) struct Item<'d> {
    pub(crate) kind: String,
    pub(crate) value: Option<Document>,
    /// The field of the value.
    pub(crate) field: &'d str,
}

impl Item<'_> {
    /// A text in the value, or an empty text if it is missing.
    pub(crate) fn text(&self, name: &str) -> String {
        let value = self.value.as_ref();
        value.map(|value| value.text_or_empty(&format!("/{name}"))).unwrap_or_default()
    }

    /// The field of a member of the value, or of the value if there is no such member.
    pub(crate) fn field(&self, name: &str) -> String {
        let has = self.value.as_ref().is_some_and(|value| value.has(&format!("/{name}")));
        if has { format!("{}.{name}", self.field) } else { self.field.to_owned() }
    }

    /// The API that the value names.
    pub(crate) fn gvk(&self) -> Gvk {
        let [group, version, kind] = ["group", "version", "kind"].map(|name| self.text(name));
        Gvk { group, version, kind }
    }

    /// Whether the value is small enough to be read. Reports a violation if it is not.
    pub(crate) fn check_size(&self, scan: &mut Scan<'_, '_>) -> bool {
        self.value.as_ref().is_none_or(|value| scan.check_size(value, "", self.field))
    }

    /// The raw value. YAML is returned as JSON without white space.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.value.as_ref().and_then(|value| value.raw("")).unwrap_or_default()
    }
}
