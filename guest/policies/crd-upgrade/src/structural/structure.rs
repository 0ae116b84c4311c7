//! Schemas of the structure: each value has a type, and each list has items.

use opgate_upstream::json::Kind;

use super::path::Part;
use super::walk::{Counterpart, Level, Role, Surroundings, Walk, forbidden, invalid, required};
use crate::schema::tree::{Place, Tree};
use crate::schema::{Keyword, Schema};

/// Members that every object has.
pub(super) const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Checks a schema of the structure, and plans the visits of the schemas in it.
pub(super) fn visit(
    walk: &mut Walk<'_, '_, '_>,
    place: Place,
    schema: &Schema<'_>,
    level: Level,
    around: Surroundings,
) {
    let kind = schema.text(Keyword::Type);
    let is_embedded = schema.flag(Keyword::EmbeddedResource);
    let preserves = schema.flag(Keyword::PreserveUnknownFields);
    let is_int_or_string = schema.flag(Keyword::IntOrString);
    let parts = Counterpart::of(schema);
    check_type(walk, &kind, level, is_embedded, preserves || is_int_or_string);
    if kind == "array" && schema.place(Keyword::Items).is_none() {
        walk.add(&[Part::Word("items")], || required("must be specified"));
    }
    if is_int_or_string {
        for (keyword, is_set) in
            [(Keyword::PreserveUnknownFields, preserves), (Keyword::EmbeddedResource, is_embedded)]
        {
            if is_set {
                let why =
                    "Invalid value: true: must be false if x-kubernetes-int-or-string is true";
                walk.add(&[Part::Word(keyword.text())], || why.to_owned());
            }
        }
    }
    let additional = schema.place(Keyword::AdditionalProperties);
    if additional.is_some() {
        let why = match level {
            Level::Root => Some("must not be used at the root"),
            _ if is_embedded => Some("must not be used if x-kubernetes-embedded-resource is set"),
            _ => None,
        };
        if let Some(why) = why {
            walk.add(&[Part::Word("additionalProperties")], || forbidden(why));
        }
    }
    if is_embedded && !preserves && parts.properties.is_none_or(|all| is_empty(walk.tree, all)) {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        walk.add(&[Part::Word("properties")], || required(why));
    }
    if level == Level::Root || is_embedded {
        check_meta(walk, parts.properties, level);
    }
    if let Some(value) = schema.place(Keyword::Default)
        && !around.is_in_meta
    {
        walk.keep_default(value, is_embedded);
    }
    if let Some(place) = parts.items {
        walk.plan(Keyword::Items, place, None, Role::Structure(Level::Item), around);
    }
    plan_properties(walk, parts.properties, level, is_embedded, around);
    if let Some(place) = additional.filter(|place| walk.tree.kind(*place) == Kind::Object) {
        let mut around = around;
        if around.is_in_meta {
            around.no_default = Some("inside additionalProperties applying to object metadata");
        }
        let role = Role::Structure(Level::Field);
        walk.plan(Keyword::AdditionalProperties, place, None, role, around);
    }
    let skips_any_of = is_int_or_string_pattern(schema);
    let all_of = schema.place(Keyword::AllOf);
    let first = all_of.and_then(|list| walk.tree.children(list).next());
    let skips_first =
        first.is_some_and(|first| is_int_or_string_pattern(&Schema::at(walk.tree, first)));
    // The API server requires counterparts only for schemas below the outermost schema.
    let counterpart = Some(place).filter(|_| level == Level::Root);
    walk.plan_junctors(schema, counterpart, skips_any_of, skips_first, around);
}

fn check_type(
    walk: &mut Walk<'_, '_, '_>,
    kind: &str,
    level: Level,
    is_embedded: bool,
    may_be_missing: bool,
) {
    let at = [Part::Word("type")];
    match (kind, level) {
        ("object", _) => {}
        ("", _) if is_embedded => {
            walk.add(&at, || required("must be object if x-kubernetes-embedded-resource is true"));
        }
        (_, _) if is_embedded => {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            walk.add(&at, || invalid(kind, why));
        }
        ("", _) if may_be_missing => {}
        ("", Level::Root) => walk.add(&at, || required("must not be empty at the root")),
        ("", Level::Item) => {
            walk.add(&at, || required("must not be empty for specified array items"));
        }
        ("", Level::Field) => {
            walk.add(&at, || required("must not be empty for specified object fields"));
        }
        (_, Level::Root) => walk.add(&at, || invalid(kind, "must be object at the root")),
        _ => {}
    }
}

/// `apiVersion`, `kind` and `metadata` of an object: the API server knows their types.
fn check_meta(walk: &mut Walk<'_, '_, '_>, properties: Option<Place>, level: Level) {
    let Some(properties) = properties else { return };
    let tree = walk.tree;
    let found = META.map(|name| (name, walk.members(properties).get(name).copied()));
    for (name, place) in found {
        let Some(place) = place else { continue };
        let schema = Schema::at(tree, place);
        let kind = schema.text(Keyword::Type);
        let at = [Part::Word("properties"), Part::Key(name), Part::Word("type")];
        let wanted = if name == "metadata" { "object" } else { "string" };
        // A missing type is reported when the schema is visited.
        if !kind.is_empty() && kind != wanted {
            walk.add(&at, || invalid(&kind, &format!("must be {wanted}")));
        }
        if name == "metadata" && level == Level::Root && restricts_metadata(&schema) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            walk.add(&[Part::Word("properties"), Part::Key(name)], || forbidden(why));
        }
    }
}

/// Whether the schema of the metadata defines more than a type and restrictions of names.
fn restricts_metadata(schema: &Schema<'_>) -> bool {
    let tree = schema.tree;
    let is_name = |name: &str| matches!(name, "name" | "generateName");
    schema.keywords(None).any(|keyword| match keyword {
        Keyword::Type | Keyword::Default => false,
        Keyword::Properties => {
            let all = schema.place(keyword);
            all.is_some_and(|all| tree.children(all).any(|member| !is_name(&tree.name(member))))
        }
        _ => is_set(schema, keyword),
    })
}

/// Whether a keyword has a value in Go.
pub(super) fn is_set(schema: &Schema<'_>, keyword: Keyword) -> bool {
    let Some(place) = schema.place(keyword) else { return false };
    let raw = schema.tree.raw(place);
    !matches!(raw, b"false" | b"\"\"") && !is_empty(schema.tree, place)
}

/// Whether a list or an object is empty.
fn is_empty(tree: &Tree, place: Place) -> bool {
    let raw = tree.raw(place);
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    matches!(raw.first(), Some(b'{' | b'[')) && inner.iter().all(u8::is_ascii_whitespace)
}

fn plan_properties(
    walk: &mut Walk<'_, '_, '_>,
    properties: Option<Place>,
    level: Level,
    is_embedded: bool,
    around: Surroundings,
) {
    let Some(properties) = properties else { return };
    let tree = walk.tree;
    for place in tree.children(properties) {
        let mut around = around;
        if level == Level::Root || is_embedded {
            let name = tree.name(place);
            if META.contains(&name.as_ref()) {
                around.is_in_meta = true;
                if level == Level::Root {
                    around.no_default = Some(match name.as_ref() {
                        "apiVersion" => "in top-level apiVersion",
                        "kind" => "in top-level kind",
                        _ => "in top-level metadata",
                    });
                }
            }
        }
        walk.plan(Keyword::Properties, place, None, Role::Structure(Level::Field), around);
    }
}

/// Whether `anyOf` is the one that belongs to `x-kubernetes-int-or-string`: an integer, or a text.
fn is_int_or_string_pattern(schema: &Schema<'_>) -> bool {
    let Some(list) = schema.place(Keyword::AnyOf) else { return false };
    let mut types = schema.tree.children(list).map(|place| {
        let schema = Schema::at(schema.tree, place);
        let is_alone = schema.keywords(None).all(|keyword| keyword == Keyword::Type);
        is_alone.then(|| schema.text(Keyword::Type))
    });
    let mut is_next = |wanted: &str| types.next().flatten().is_some_and(|found| found == wanted);
    is_next("integer") && is_next("string") && types.next().is_none()
}
