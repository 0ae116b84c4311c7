//! Defaults: each is valid by its own schema, and has no field that the API server would drop.

use super::path::Link;
use super::structure::META_FIELDS;
use super::walk::Walk;
use crate::schema::Keyword;
use crate::schema::tree::Tree;
use crate::validation::json::Json;
use crate::validation::{Validator, WorkBudget};

/// Checks the defaults that a walk found. Returns whether it checked all of them.
pub(super) fn check(walk: &mut Walk<'_, '_, '_>, work: &mut WorkBudget) -> bool {
    let tree = walk.tree;
    let defaults = std::mem::take(&mut walk.defaults);
    if defaults.is_empty() {
        return true;
    }
    let Some(root) = Json::parse(tree.raw(0)) else { return false };
    for default in defaults {
        let raw = tree.raw(default.value);
        let Some(schema) = follow(&root, &default.links, tree) else { return false };
        let Some(value) = Json::parse(raw) else { return false };
        let why = if is_pruned(&value, Some(schema), default.is_embedded, false) {
            let errors = Validator::of(schema).errors(&value, work);
            // The default itself is the root, which has no name.
            errors.map(|errors| format!("does not fit its schema: {}", errors.replace("[]: ", "")))
        } else {
            Some("must not have unknown fields".to_owned())
        };
        if let Some(why) = why {
            let shown = match &value {
                Json::Text(text) => opgate_sdk::go::quote(text),
                _ => String::from_utf8_lossy(raw).into_owned(),
            };
            let shown = opgate_compat::go::shorten(&shown, 200);
            walk.add_default(default, &format!("Invalid value: {shown}: {why}"));
        }
    }
    !work.is_exhausted() && !walk.has_more_defaults
}

/// The schema to which links lead.
fn follow<'j>(root: &'j Json<'j>, links: &[Link], tree: &Tree) -> Option<&'j Json<'j>> {
    links.iter().try_fold(root, |schema, link| {
        let inner = schema.member(link.keyword.text())?;
        match link.keyword {
            Keyword::Properties => inner.member(&tree.name(link.node_id)),
            _ => Some(inner),
        }
    })
}

/// Whether a value has only fields of its schema. Both are as deep as JSON that is read, 256 levels.
fn is_pruned(
    value: &Json<'_>,
    schema: Option<&Json<'_>>,
    is_embedded: bool,
    is_open: bool,
) -> bool {
    let member = |name: &str| schema.and_then(|schema| schema.member(name));
    let flag = |name: &str| member(name).is_some_and(Json::is_true);
    // Items of a list that preserves fields preserve them, too.
    let is_open = is_open || flag("x-kubernetes-preserve-unknown-fields");
    let is_embedded = is_embedded || flag("x-kubernetes-embedded-resource");
    match value {
        Json::Object(members) => members.iter().all(|(name, value)| {
            let own = member("properties").and_then(|all| all.member_or_null(name));
            let additional = member("additionalProperties");
            if is_embedded && META_FIELDS.contains(&name.as_ref()) {
                true
            } else if own.is_some() {
                is_pruned(value, own, false, false)
            } else if let Some(additional) = additional {
                let schema = Some(additional).filter(|json| matches!(json, Json::Object(_)));
                is_pruned(value, schema, false, false)
            } else {
                is_open
            }
        }),
        Json::List(items) => {
            let inner = member("items");
            (is_open && inner.is_none())
                || items.iter().all(|item| is_pruned(item, inner, false, is_open))
        }
        _ => true,
    }
}
