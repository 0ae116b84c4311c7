//! Schemas below junctors: they restrict a value, and define neither its type nor its purpose.

use opgate_upstream::json::Kind;

use super::path::Part;
use super::structure::is_set;
use super::walk::{Counterpart, Role, Surroundings, Walk, forbidden};
use crate::schema::tree::Place;
use crate::schema::{Keyword, Schema};

/// The keywords that only the structure defines, each with its required value here.
const FORBIDDEN: [(Keyword, &str); 11] = [
    (Keyword::Type, "must be empty to be structural"),
    (Keyword::Default, "must be undefined to be structural"),
    (Keyword::Title, "must be empty to be structural"),
    (Keyword::Description, "must be empty to be structural"),
    (Keyword::Nullable, "must be false to be structural"),
    (Keyword::PreserveUnknownFields, "must be false to be structural"),
    (Keyword::EmbeddedResource, "must be false to be structural"),
    (Keyword::IntOrString, "must be false to be structural"),
    (Keyword::ListMapKeys, "must be empty to be structural"),
    (Keyword::ListType, "must be undefined to be structural"),
    (Keyword::MapType, "must be undefined to be structural"),
];

/// Checks a schema below a junctor, and plans the visits of the schemas in it.
pub(super) fn visit(
    walk: &mut Walk<'_, '_, '_>,
    schema: &Schema<'_>,
    counterpart: Option<Place>,
    skips_any_of: bool,
    around: Surroundings,
) {
    for (keyword, why) in FORBIDDEN {
        let is_there = match keyword {
            Keyword::Default | Keyword::ListType | Keyword::MapType => {
                schema.place(keyword).is_some()
            }
            _ => is_set(schema, keyword),
        };
        if is_there {
            walk.add(&[Part::Word(keyword.text())], || forbidden(why));
        }
    }
    if is_set(schema, Keyword::Validations) {
        let at = [Part::Word(Keyword::Validations.text())];
        walk.add(&at, || forbidden("must be empty to be structural"));
    }
    // `false` has no effect.
    if is_set_or_empty(schema, Keyword::AdditionalProperties) {
        let at = [Part::Word("additionalProperties")];
        walk.add(&at, || forbidden("must be undefined to be structural"));
    }
    let parts = Counterpart::of(schema);
    let known = counterpart.map(|place| walk.counterpart(place));
    let role = |counterpart| Role::Validation { counterpart, skips_any_of: false };
    if let Some(place) = parts.items {
        let items = known.and_then(|known| known.items);
        if known.is_some() && items.is_none() {
            walk.add_missing(&[Part::Word("items")]);
        }
        walk.plan(Keyword::Items, place, None, role(items), around);
    }
    if let Some(properties) = parts.properties {
        visit_properties(walk, properties, known, around);
    }
    walk.plan_junctors(schema, counterpart, skips_any_of, false, around);
}

fn visit_properties(
    walk: &mut Walk<'_, '_, '_>,
    properties: Place,
    known: Option<Counterpart>,
    around: Surroundings,
) {
    let tree = walk.tree;
    for place in tree.children(properties) {
        let name = tree.name(place);
        let at = [Part::Word("properties"), Part::Key(&name)];
        let all = known.and_then(|known| known.properties);
        let own = all.and_then(|all| walk.members(all).get(&name).copied());
        if name == "metadata" {
            walk.add(&at, || forbidden("must not be specified in a nested context"));
        } else if known.is_some() && own.is_none() {
            walk.add_missing(&at);
        }
        let role = Role::Validation { counterpart: own, skips_any_of: false };
        walk.plan(Keyword::Properties, place, None, role, around);
    }
}

/// Whether a keyword with a schema or a flag allows anything.
fn is_set_or_empty(schema: &Schema<'_>, keyword: Keyword) -> bool {
    let Some(place) = schema.place(keyword) else { return false };
    schema.tree.kind(place) == Kind::Object || schema.tree.raw(place) == b"true"
}
