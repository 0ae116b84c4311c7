//! The objects of a document: itself, or the elements of a list, which may be lists again.
//!
//! ```text
//! List ─┬▶ object
//!       └▶ OperatorGroupList ─▶ objects without a kind of their own: that of the list
//! ```

use std::fmt::{self, Write as _};

use opgate_document::{Kind, Value};

/// An object, and what it is.
#[derive(Debug)]
pub struct TypedObject<'d, 'p> {
    /// JSON pointer of the object in the document.
    pub pointer: &'p str,
    /// The object.
    pub value: Value<'d>,
    /// Its `apiVersion`, or that of the typed list that it is in.
    pub api_version: &'p str,
    /// Its kind, or that of the typed list that it is in.
    pub kind: &'p str,
}

impl TypedObject<'_, '_> {
    /// Its API group and version.
    #[must_use]
    pub fn group_version(&self) -> (&str, &str) {
        self.api_version.split_once('/').unwrap_or(("", self.api_version))
    }

    /// Reports whether it declares its type itself.
    #[must_use]
    pub fn declares_type(&self) -> bool {
        is_text(self.value, "apiVersion") && is_text(self.value, "kind")
    }
}

/// A part of a document that is no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectError {
    /// JSON pointer of the part.
    pub pointer: String,
    /// The error.
    pub message: String,
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.pointer, self.message)
    }
}

/// Type of list elements that do not declare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementType {
    /// The `apiVersion`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

impl ElementType {
    /// Returns the type of the elements of a list of this kind: an `OperatorGroupList` contains groups. None
    /// if the kind is not that of a list.
    #[must_use]
    pub fn of_list(api_version: &str, kind: &str) -> Option<Self> {
        let kind = kind.strip_suffix("List")?.to_owned();
        Some(Self { api_version: api_version.to_owned(), kind })
    }
}

/// Calls `visit` with each object of a document in order, or with the reason why a part of it is no object.
/// `outer` is the type of a document that does not declare it. Lists nest no deeper than documents do.
pub fn for_each_object<'d>(
    root: Value<'d>,
    outer: Option<&ElementType>,
    visit: &mut impl FnMut(Result<TypedObject<'d, '_>, ObjectError>),
) {
    visit_value(root, &mut String::new(), outer, visit);
}

fn visit_value<'d>(
    value: Value<'d>,
    pointer: &mut String,
    outer: Option<&ElementType>,
    visit: &mut impl FnMut(Result<TypedObject<'d, '_>, ObjectError>),
) {
    let own = |name: &str| value.get(name).and_then(|v| v.text()).filter(|text| !text.is_empty());
    let outer = outer.filter(|outer| !outer.kind.is_empty());
    let api_version = own("/apiVersion").or(outer.map(|outer| outer.api_version.as_str()));
    let kind = own("/kind").or(outer.map(|outer| outer.kind.as_str()));
    let (Some(api_version), Some(kind)) = (api_version, kind) else {
        let missing = if api_version.is_none() { "apiVersion" } else { "kind" };
        return report_error(
            format!("/{missing} is missing: not a Kubernetes object"),
            pointer,
            visit,
        );
    };
    let items = value.get("/items").map(|items| (items, items.kind()));
    match (ElementType::of_list(api_version, kind), items) {
        (Some(element_type), Some((items, Kind::List))) => {
            for_each_element(items, "/items", pointer, Some(&element_type), visit);
        }
        // Go writes an empty list as null.
        (Some(_), Some((_, Kind::Null))) => {}
        (Some(_), Some(_)) => report_error("/items is not a list".to_owned(), pointer, visit),
        (None, _) | (_, None) => visit(Ok(TypedObject { pointer, value, api_version, kind })),
    }
}

fn report_error<'d>(
    why: String,
    pointer: &str,
    visit: &mut impl FnMut(Result<TypedObject<'d, '_>, ObjectError>),
) {
    visit(Err(ObjectError { pointer: pointer.to_owned(), message: why }));
}

/// Iterates over the objects of a JSON array at a pointer below another one.
pub fn for_each_element<'d>(
    items: Value<'d>,
    at: &str,
    pointer: &mut String,
    element_type: Option<&ElementType>,
    visit: &mut impl FnMut(Result<TypedObject<'d, '_>, ObjectError>),
) {
    let length = pointer.len();
    for (index, item) in items.items().enumerate() {
        // Writing to a text does not fail.
        let _ = write!(pointer, "{at}/{index}");
        visit_value(item, pointer, element_type, visit);
        pointer.truncate(length);
    }
}

fn is_text(value: Value<'_>, name: &str) -> bool {
    value.get(&format!("/{name}")).and_then(|v| v.text()).is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use opgate_document::Document;

    use super::*;

    fn expand_lists(json: &str) -> Vec<String> {
        let document = Document::parse(json).unwrap();
        let mut all = Vec::new();
        for_each_object(document.root(), None, &mut |found| {
            all.push(match found {
                Ok(found) => format!("{} {} {}", found.pointer, found.api_version, found.kind),
                Err(wrong) => wrong.to_string(),
            });
        });
        all
    }

    #[test]
    fn lists_are_expanded_to_their_items() {
        for (json, expected) in [
            (r#"{"apiVersion":"v1","kind":"Pod"}"#, &[" v1 Pod"][..]),
            (r#"{"apiVersion":"v1","kind":"List","items":null}"#, &[]),
            (r#"{"apiVersion":"v1","kind":"List","items":{}}"#, &["/items is not a list"]),
            // A kind that ends like one of a list.
            (r#"{"apiVersion":"g/v1","kind":"AllowList"}"#, &[" g/v1 AllowList"]),
            (
                r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"g/v1","kind":"XList","items":[{},{"kind":"Y"}]},{"apiVersion":"v1","kind":"Pod"},{"kind":"Pod"}]}"#,
                &[
                    "/items/0/items/0 g/v1 X",
                    "/items/0/items/1 g/v1 Y",
                    "/items/1 v1 Pod",
                    "/items/2/apiVersion is missing: not a Kubernetes object",
                ],
            ),
            (r#"{"a":1}"#, &["/apiVersion is missing: not a Kubernetes object"]),
        ] {
            assert_eq!(expand_lists(json), expected, "{json}");
        }
    }
}
