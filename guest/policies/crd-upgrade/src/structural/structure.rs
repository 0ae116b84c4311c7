//! Schemas of the structure: each value has a type, and each list has items.

use opgate_compat::json::Kind;

use super::path::PathStep;
use super::walk::{
    Counterpart, InheritedRestrictions, Position, Role, Walk, forbidden_message, invalid_message,
    required_message,
};
use crate::schema::tree::{NodeId, Tree};
use crate::schema::{Keyword, Schema};

/// Members that every object has.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Checks a schema of the structure, and plans the visits of the schemas in it.
pub(super) fn check_structure(
    walk: &mut Walk<'_, '_, '_>,
    node_id: NodeId,
    schema: &Schema<'_>,
    level: Position,
    restrictions: InheritedRestrictions,
) {
    let kind = schema.text(Keyword::Type);
    let is_embedded = schema.flag(Keyword::EmbeddedResource);
    let preserves = schema.flag(Keyword::PreserveUnknownFields);
    let is_int_or_string = schema.flag(Keyword::IntOrString);
    let parts = Counterpart::of(schema);
    check_type(walk, &kind, level, is_embedded, preserves || is_int_or_string);
    if kind == "array" && schema.node_id(Keyword::Items).is_none() {
        walk.add(&[PathStep::Word("items")], || required_message("must be specified"));
    }
    if is_int_or_string {
        for (keyword, is_set) in
            [(Keyword::PreserveUnknownFields, preserves), (Keyword::EmbeddedResource, is_embedded)]
        {
            if is_set {
                let why =
                    "Invalid value: true: must be false if x-kubernetes-int-or-string is true";
                walk.add(&[PathStep::Word(keyword.text())], || why.to_owned());
            }
        }
    }
    let additional = schema.node_id(Keyword::AdditionalProperties);
    if additional.is_some() {
        let why = match level {
            Position::Root => Some("must not be used at the root"),
            _ if is_embedded => Some("must not be used if x-kubernetes-embedded-resource is set"),
            _ => None,
        };
        if let Some(why) = why {
            walk.add(&[PathStep::Word("additionalProperties")], || forbidden_message(why));
        }
    }
    if is_embedded && !preserves && parts.properties.is_none_or(|all| is_empty(walk.tree, all)) {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        walk.add(&[PathStep::Word("properties")], || required_message(why));
    }
    if level == Position::Root || is_embedded {
        check_meta(walk, parts.properties, level);
    }
    if let Some(value) = schema.node_id(Keyword::Default)
        && !restrictions.is_in_meta
    {
        walk.keep_default(value, is_embedded);
    }
    if let Some(node_id) = parts.items {
        walk.push_task(
            Keyword::Items,
            node_id,
            None,
            Role::Structure(Position::Item),
            restrictions,
        );
    }
    plan_properties(walk, parts.properties, level, is_embedded, restrictions);
    if let Some(node_id) = additional.filter(|node_id| walk.tree.kind(*node_id) == Kind::Object) {
        let mut restrictions = restrictions;
        if restrictions.is_in_meta {
            restrictions.no_default =
                Some("inside additionalProperties applying to object metadata");
        }
        let role = Role::Structure(Position::Field);
        walk.push_task(Keyword::AdditionalProperties, node_id, None, role, restrictions);
    }
    let skips_any_of = is_int_or_string_pattern(schema);
    let all_of = schema.node_id(Keyword::AllOf);
    let first = all_of.and_then(|list| walk.tree.children(list).next());
    let skips_first =
        first.is_some_and(|first| is_int_or_string_pattern(&Schema::at(walk.tree, first)));
    // The API server requires counterparts only for schemas below the outermost schema.
    let counterpart = Some(node_id).filter(|_| level == Position::Root);
    walk.push_junctors(schema, counterpart, skips_any_of, skips_first, restrictions);
}

fn check_type(
    walk: &mut Walk<'_, '_, '_>,
    kind: &str,
    level: Position,
    is_embedded: bool,
    may_be_missing: bool,
) {
    let at = [PathStep::Word("type")];
    match (kind, level) {
        ("object", _) => {}
        ("", _) if is_embedded => {
            walk.add(&at, || {
                required_message("must be object if x-kubernetes-embedded-resource is true")
            });
        }
        (_, _) if is_embedded => {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            walk.add(&at, || invalid_message(kind, why));
        }
        ("", _) if may_be_missing => {}
        ("", Position::Root) => walk.add(&at, || required_message("must not be empty at the root")),
        ("", Position::Item) => {
            walk.add(&at, || required_message("must not be empty for specified array items"));
        }
        ("", Position::Field) => {
            walk.add(&at, || required_message("must not be empty for specified object fields"));
        }
        (_, Position::Root) => {
            walk.add(&at, || invalid_message(kind, "must be object at the root"));
        }
        _ => {}
    }
}

/// `apiVersion`, `kind` and `metadata` of an object: the API server knows their types.
fn check_meta(walk: &mut Walk<'_, '_, '_>, properties: Option<NodeId>, level: Position) {
    let Some(properties) = properties else { return };
    let tree = walk.tree;
    let found = META_FIELDS.map(|name| (name, walk.members(properties).get(name).copied()));
    for (name, node_id) in found {
        let Some(node_id) = node_id else { continue };
        let schema = Schema::at(tree, node_id);
        let kind = schema.text(Keyword::Type);
        let at = [PathStep::Word("properties"), PathStep::Key(name), PathStep::Word("type")];
        let wanted = if name == "metadata" { "object" } else { "string" };
        // A missing type is reported when the schema is visited.
        if !kind.is_empty() && kind != wanted {
            walk.add(&at, || invalid_message(&kind, &format!("must be {wanted}")));
        }
        if name == "metadata" && level == Position::Root && restricts_metadata(&schema) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            walk.add(&[PathStep::Word("properties"), PathStep::Key(name)], || {
                forbidden_message(why)
            });
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
            let all = schema.node_id(keyword);
            all.is_some_and(|all| tree.children(all).any(|member| !is_name(&tree.name(member))))
        }
        _ => is_set(schema, keyword),
    })
}

/// Whether a keyword has a value in Go.
pub(super) fn is_set(schema: &Schema<'_>, keyword: Keyword) -> bool {
    let Some(node_id) = schema.node_id(keyword) else { return false };
    let raw = schema.tree.raw(node_id);
    !matches!(raw, b"false" | b"\"\"") && !is_empty(schema.tree, node_id)
}

/// Whether a list or an object is empty.
fn is_empty(tree: &Tree, node_id: NodeId) -> bool {
    let raw = tree.raw(node_id);
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    matches!(raw.first(), Some(b'{' | b'[')) && inner.iter().all(u8::is_ascii_whitespace)
}

fn plan_properties(
    walk: &mut Walk<'_, '_, '_>,
    properties: Option<NodeId>,
    level: Position,
    is_embedded: bool,
    restrictions: InheritedRestrictions,
) {
    let Some(properties) = properties else { return };
    let tree = walk.tree;
    for node_id in tree.children(properties) {
        let mut restrictions = restrictions;
        if level == Position::Root || is_embedded {
            let name = tree.name(node_id);
            if META_FIELDS.contains(&name.as_ref()) {
                restrictions.is_in_meta = true;
                if level == Position::Root {
                    restrictions.no_default = Some(match name.as_ref() {
                        "apiVersion" => "in top-level apiVersion",
                        "kind" => "in top-level kind",
                        _ => "in top-level metadata",
                    });
                }
            }
        }
        walk.push_task(
            Keyword::Properties,
            node_id,
            None,
            Role::Structure(Position::Field),
            restrictions,
        );
    }
}

/// Whether `anyOf` is the one that belongs to `x-kubernetes-int-or-string`: an integer, or a text.
fn is_int_or_string_pattern(schema: &Schema<'_>) -> bool {
    let Some(list) = schema.node_id(Keyword::AnyOf) else { return false };
    let mut types = schema.tree.children(list).map(|node_id| {
        let schema = Schema::at(schema.tree, node_id);
        let is_alone = schema.keywords(None).all(|keyword| keyword == Keyword::Type);
        is_alone.then(|| schema.text(Keyword::Type))
    });
    let mut is_next = |wanted: &str| types.next().flatten().is_some_and(|found| found == wanted);
    is_next("integer") && is_next("string") && types.next().is_none()
}
