//! The fields of Kubernetes' and OLM's kinds, and their types: whether an object has what its API decodes.
//!
//! ```text
//! apiVersion, kind ─▶ table ─▶ TypeId ─┐
//! JSON of an object, in one pass ──────┴▶ walk ─┬▶ Findings::unknown   a member that the type does not have
//!                                               └▶ Findings::mismatch  a value that the type does not take
//! ```
//!
//! The table is made by `cargo xtask kinds` and is read-only data: nothing is allocated or parsed before it is used.

mod decode;
mod table;
mod walk;

use opgate_compat::nearest;

pub use decode::quantity_error;
pub use opgate_compat::json::Kind;
pub use walk::{FieldPath, Mismatch, SchemaErrorSink, walk};

/// The type of a value. Null fits all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    /// Anything.
    Any,
    Boolean,
    /// Base64.
    Bytes,
    IntOrString,
    Int32,
    Int64,
    Number,
    Quantity,
    String,
    /// RFC 3339.
    Time,
    /// A list of the type with this number.
    List(u16),
    /// An object with any names, and values of the type.
    Map(u16),
    /// The type, a list of it, or a scalar: a schema in a schema.
    Either(u16),
    /// An object: what Go calls its type, and its fields with the numbers of their types.
    Struct(&'static str, &'static [(&'static str, u16)]),
}

/// Returns the kinds of the table, each with its apiVersion.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    table::KINDS.iter().map(|(api_version, kind, _)| (*api_version, *kind))
}

/// A type of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId(u16);

impl TypeId {
    /// Returns the type of the objects of a kind, if the table has it.
    #[must_use]
    pub fn of_kind(api_version: &str, kind: &str) -> Option<Self> {
        let wanted = (api_version, kind);
        let found =
            table::KINDS.binary_search_by(|(version, kind, _)| (*version, *kind).cmp(&wanted));
        table::KINDS.get(found.ok()?).map(|(_, _, number)| Self(*number))
    }

    /// Returns the name of the type in Go, with its package: `v1.Container`. Empty if it is no object.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.get() {
            Type::Struct(name, _) => name,
            _ => "",
        }
    }

    /// Returns the field with the most similar name, if one is similar enough.
    #[must_use]
    pub fn nearest(self, name: &str) -> Option<&'static str> {
        nearest::nearest(name, self.fields().iter().map(|(field, _)| *field))
    }

    fn get(self) -> Type {
        table::TYPES.get(usize::from(self.0)).copied().unwrap_or(Type::Any)
    }

    fn fields(self) -> &'static [(&'static str, u16)] {
        match self.get() {
            Type::Struct(_, fields) => fields,
            _ => &[],
        }
    }

    fn field(self, name: &str) -> Option<Self> {
        let fields = self.fields();
        let found = fields.binary_search_by(|(field, _)| (*field).cmp(name)).ok()?;
        fields.get(found).map(|(_, number)| Self(*number))
    }

    /// Returns the field that Go's decoder takes for a name that is written in other letters.
    fn field_ignoring_case(self, name: &str) -> Option<Self> {
        let is_it = |(field, _): &&(&str, u16)| opgate_compat::go::folds_to(name, field);
        self.fields().iter().find(is_it).map(|(_, number)| Self(*number))
    }

    /// Returns Go's name of the type.
    fn go_name(self) -> String {
        let (mut shown, mut of) = (String::new(), self);
        // Lists of lists end with a struct or a scalar.
        loop {
            let (prefix, next) = match of.get() {
                Type::List(next) => ("[]", next),
                Type::Map(next) => ("map[string]", next),
                Type::Either(next) => ("", next),
                Type::Any => return shown + "interface {}",
                Type::Boolean => return shown + "bool",
                Type::Bytes => return shown + "[]uint8",
                Type::IntOrString => return shown + "intstr.IntOrString",
                Type::Int32 => return shown + "int32",
                Type::Int64 => return shown + "int64",
                Type::Number => return shown + "float64",
                Type::Quantity => return shown + "resource.Quantity",
                Type::String => return shown + "string",
                Type::Time => return shown + "v1.Time",
                Type::Struct(name, _) => return shown + name,
            };
            shown.push_str(prefix);
            of = Self(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_indices_resolve_to_types() {
        let count = table::TYPES.len();
        let check = |number: u16| assert!(usize::from(number) < count, "{number}");
        assert!(table::KINDS.is_sorted_by_key(|(version, kind, _)| (version, kind)));
        for (_, _, number) in table::KINDS {
            check(*number);
            assert!(!TypeId(*number).name().is_empty());
        }
        for of in table::TYPES {
            match of {
                Type::List(number) | Type::Map(number) | Type::Either(number) => check(*number),
                Type::Struct(name, fields) => {
                    assert!(fields.is_sorted_by_key(|(name, _)| name), "{name}");
                    fields.iter().for_each(|(_, number)| check(*number));
                }
                _ => {}
            }
        }
    }

    /// Limits the table that a policy contains, and that each of its instances maps: names once, and on 32
    /// bits 12 bytes for a field and 20 for a type.
    #[test]
    fn table_stays_small() {
        let names = table::TYPES.iter().flat_map(|of| match of {
            Type::Struct(name, fields) => {
                fields.iter().map(|(field, _)| *field).chain([*name]).collect()
            }
            _ => Vec::new(),
        });
        let names: std::collections::BTreeSet<_> = names.collect();
        let fields: usize =
            (0..).map(TypeId).take(table::TYPES.len()).map(|t| t.fields().len()).sum();
        let size = names.iter().map(|name| name.len()).sum::<usize>()
            + 12 * fields
            + 20 * table::TYPES.len();
        println!(
            "{} types, {fields} fields, {} names, {size} bytes",
            table::TYPES.len(),
            names.len()
        );
        assert!(size < 60_000, "{size} bytes");
    }

    #[test]
    fn kinds_are_found_by_their_version() {
        let found = |version, kind| TypeId::of_kind(version, kind).map(TypeId::name);
        assert_eq!(found("apps/v1", "Deployment"), Some("v1.Deployment"));
        assert_eq!(found("v1", "ConfigMap"), Some("v1.ConfigMap"));
        assert_eq!(found("apps/v1beta1", "Deployment"), None);
        assert_eq!(found("", ""), None);
    }
}
