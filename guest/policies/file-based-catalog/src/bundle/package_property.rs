//! The values of a property `olm.package`.

use opgate_sdk::Kind;

use crate::go_text::{wrong_field, wrong_value};
use crate::properties::{PACKAGE_NAME, Property, RELEASE, VALUE, VERSION};

/// The values of the property.
pub(crate) struct PackageProperty {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) release: String,
    /// The error that makes the value unreadable.
    pub(super) error: Option<(&'static str, String)>,
}

impl PackageProperty {
    pub(crate) fn of(property: &Property<'_>) -> Self {
        let mut found = Self {
            index: property.index,
            name: property.text(PACKAGE_NAME).to_owned(),
            version: String::new(),
            release: String::new(),
            error: None,
        };
        if property.kind(VALUE) != Kind::Object {
            let why = wrong_value(property.kind(VALUE), "property.Package");
            found.error = Some((".value", why));
            return found;
        }
        for (inner, column, struct_field, text) in [
            (".value.version", VERSION, "Package.version", &mut found.version),
            (".value.release", RELEASE, "Package.release", &mut found.release),
        ] {
            match property.kind(column) {
                Kind::Text => property.text(column).clone_into(text),
                Kind::Missing | Kind::Null => {}
                kind => {
                    let why = wrong_field(kind, struct_field, "string");
                    found.error.get_or_insert((inner, why));
                }
            }
        }
        // `Release` would not be found, and the other members would be reported as empty.
        let names = [("packageName", PACKAGE_NAME), ("version", VERSION), ("release", RELEASE)];
        let missing = names.iter().filter(|(_, column)| property.kind(*column) == Kind::Missing);
        let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
        let known = names.len().saturating_sub(missing.len());
        if property.members().map(usize::try_from) != Some(Ok(known)) {
            let hints = missing.into_iter().map(|name| (name, property.hint(name)));
            if let Some((name, hint)) = hints.into_iter().find(|(_, hint)| !hint.is_empty()) {
                let why = format!("{name} must be set{hint}");
                found.error.get_or_insert((".value", why));
            }
        }
        found
    }
}
