//! Schemas below junctors: they restrict a value, and define neither its type nor its purpose.

use opgate_compat::json::Kind;

use super::path::PathStep;
use super::structure::is_set;
use super::walk::{Counterpart, InheritedRestrictions, Role, Walk, forbidden_message};
use crate::schema::tree::NodeId;
use crate::schema::{Keyword, Schema};

/// The keywords that only the structure defines, each with its required value here.
const FORBIDDEN_KEYWORDS: [(Keyword, &str); 11] = [
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
pub(super) fn check_validation(
    walk: &mut Walk<'_, '_, '_>,
    schema: &Schema<'_>,
    counterpart: Option<NodeId>,
    skips_any_of: bool,
    restrictions: InheritedRestrictions,
) {
    for (keyword, why) in FORBIDDEN_KEYWORDS {
        let is_there = match keyword {
            Keyword::Default | Keyword::ListType | Keyword::MapType => {
                schema.node_id(keyword).is_some()
            }
            _ => is_set(schema, keyword),
        };
        if is_there {
            walk.add(&[PathStep::Word(keyword.text())], || forbidden_message(why));
        }
    }
    if is_set(schema, Keyword::Validations) {
        let at = [PathStep::Word(Keyword::Validations.text())];
        walk.add(&at, || forbidden_message("must be empty to be structural"));
    }
    // `false` has no effect.
    if is_set_or_empty(schema, Keyword::AdditionalProperties) {
        let at = [PathStep::Word("additionalProperties")];
        walk.add(&at, || forbidden_message("must be undefined to be structural"));
    }
    let parts = Counterpart::of(schema);
    let known = counterpart.map(|node_id| walk.counterpart(node_id));
    let role = |counterpart| Role::Validation { counterpart, skips_any_of: false };
    if let Some(node_id) = parts.items {
        let items = known.and_then(|known| known.items);
        if known.is_some() && items.is_none() {
            walk.add_missing(&[PathStep::Word("items")]);
        }
        walk.push_task(Keyword::Items, node_id, None, role(items), restrictions);
    }
    if let Some(properties) = parts.properties {
        visit_properties(walk, properties, known, restrictions);
    }
    walk.push_junctors(schema, counterpart, skips_any_of, false, restrictions);
}

fn visit_properties(
    walk: &mut Walk<'_, '_, '_>,
    properties: NodeId,
    known: Option<Counterpart>,
    restrictions: InheritedRestrictions,
) {
    let tree = walk.tree;
    for node_id in tree.children(properties) {
        let name = tree.name(node_id);
        let at = [PathStep::Word("properties"), PathStep::Key(&name)];
        let all = known.and_then(|known| known.properties);
        let own = all.and_then(|all| walk.members(all).get(&name).copied());
        if name == "metadata" {
            walk.add(&at, || forbidden_message("must not be specified in a nested context"));
        } else if known.is_some() && own.is_none() {
            walk.add_missing(&at);
        }
        let role = Role::Validation { counterpart: own, skips_any_of: false };
        walk.push_task(Keyword::Properties, node_id, None, role, restrictions);
    }
}

/// Whether a keyword with a schema or a flag allows anything.
fn is_set_or_empty(schema: &Schema<'_>, keyword: Keyword) -> bool {
    let Some(node_id) = schema.node_id(keyword) else { return false };
    schema.tree.kind(node_id) == Kind::Object || schema.tree.raw(node_id) == b"true"
}
