//! Kubernetes semantic equality of values whose Go type is known.
//!
//! `equality.Semantic.DeepEqual` compares decoded Go values, not JSON. Members that the type does
//! not have make no difference. A missing field that is not a pointer has its zero value. An empty
//! list is the same as none, but a pointer to an empty struct is not the same as no pointer. A
//! [`Shape`] describes the type as far as necessary.

use crate::{Document, Kind};

/// The Go type behind a JSON value.
#[derive(Debug)]
pub enum Shape {
    /// `string`, `bool` or a number: missing is the same as the zero value.
    Scalar,
    /// A struct by value, with its fields by JSON name.
    Struct(&'static [(&'static str, Shape)]),
    /// A pointer to a struct: missing is not the same as `{}`.
    Pointer(&'static [(&'static str, Shape)]),
    /// A slice: missing is the same as `[]`, and the order matters.
    List(&'static Shape),
}

impl Shape {
    /// Reports whether the values at one pointer in two documents are semantically equal.
    ///
    /// Compares two values. For an object of the cluster, the fields of the type must be declared, not the
    /// whole value.
    #[must_use]
    #[track_caller]
    pub fn equal(&self, left: &Document, right: &Document, pointer: &str) -> bool {
        // Equal JSON is equal for every type, and this is by far the most frequent case.
        let is_whole = matches!(self, Self::Scalar)
            || left.is_stored_whole(pointer) && right.is_stored_whole(pointer);
        (is_whole && left.equal(pointer, right, pointer))
            || self.differs_in_spelling_only(left, right, pointer)
    }

    #[track_caller]
    fn differs_in_spelling_only(&self, left: &Document, right: &Document, pointer: &str) -> bool {
        let fields_equal = |fields: &'static [(&'static str, Self)]| {
            fields
                .iter()
                .all(|(name, shape)| shape.equal(left, right, &format!("{pointer}/{name}")))
        };
        let both = |allowed: &[Kind]| {
            allowed.contains(&left.kind(pointer)) && allowed.contains(&right.kind(pointer))
        };
        match self {
            Self::Scalar => is_zero(left, pointer) && is_zero(right, pointer),
            Self::Struct(fields) => {
                both(&[Kind::Missing, Kind::Null, Kind::Object]) && fields_equal(fields)
            }
            Self::Pointer(fields) => both(&[Kind::Object]) && fields_equal(fields),
            Self::List(item) => {
                if is_empty(left, pointer) && is_empty(right, pointer) {
                    return true;
                }
                let length = left.length(pointer).unwrap_or_default();
                both(&[Kind::List])
                    && right.length(pointer) == Some(length)
                    && (0..length)
                        .all(|index| item.equal(left, right, &format!("{pointer}/{index}")))
            }
        }
    }
}

fn is_empty(document: &Document, pointer: &str) -> bool {
    match document.kind(pointer) {
        Kind::Missing | Kind::Null => true,
        Kind::List => document.length(pointer) == Some(0),
        _ => false,
    }
}

fn is_zero(document: &Document, pointer: &str) -> bool {
    match document.kind(pointer) {
        Kind::Missing | Kind::Null => true,
        Kind::Boolean => document.boolean(pointer) == Some(false),
        Kind::Number => document.number(pointer) == Some(0.0),
        Kind::Text => document.text(pointer).is_some_and(|text| text.is_empty()),
        Kind::List | Kind::Object => false,
    }
}
