//! The keywords of one schema at any level: known keywords, and allowed combinations.

use std::collections::BTreeSet;

use opgate_compat::json::{self, Kind};

use super::path::PathStep;
use super::pattern;
use super::structure::is_set;
use super::walk::{
    Counterpart, InheritedRestrictions, Position, Role, Walk, forbidden_message, invalid_message,
    required_message, unsupported_message,
};
use crate::schema::{Keyword, Schema};

/// The types of values.
const SCHEMA_TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The keywords that the API server does not support, and whether an empty value counts as missing.
const UNSUPPORTED_KEYWORDS: [(Keyword, bool); 7] = [
    (Keyword::Id, true),
    (Keyword::Draft, true),
    (Keyword::AdditionalItems, false),
    (Keyword::PatternProperties, true),
    (Keyword::Definitions, true),
    (Keyword::Dependencies, false),
    (Keyword::Reference, false),
];

/// The keywords that the outermost schema of a version with the subresource `status` must not have.
const NOT_WITH_STATUS: [Keyword; 13] = [
    Keyword::AllOf,
    Keyword::AnyOf,
    Keyword::OneOf,
    Keyword::Not,
    Keyword::Default,
    Keyword::Enum,
    Keyword::EmbeddedResource,
    Keyword::IntOrString,
    Keyword::ListMapKeys,
    Keyword::ListType,
    Keyword::MapType,
    Keyword::MaxProperties,
    Keyword::MinProperties,
];

/// The reasons that rules in CEL can give.
const VALIDATION_REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks the keywords of a schema.
pub(super) fn check(
    walk: &mut Walk<'_, '_, '_>,
    schema: &Schema<'_>,
    role: Role,
    restrictions: InheritedRestrictions,
) {
    let word = |keyword: Keyword| [PathStep::Word(keyword.text())];
    let kind = schema.text(Keyword::Type);
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        walk.add(&word(Keyword::Type), || forbidden_message(why));
    } else if !kind.is_empty() && !SCHEMA_TYPES.contains(&kind.as_ref()) {
        walk.add(&word(Keyword::Type), || unsupported_message(&kind, &SCHEMA_TYPES));
    }
    for (keyword, is_empty_nothing) in UNSUPPORTED_KEYWORDS {
        let is_there = if is_empty_nothing {
            is_set(schema, keyword)
        } else {
            schema.node_id(keyword).is_some()
        };
        if is_there {
            let why = format!("{} is not supported", keyword.text());
            walk.add(&word(keyword), || forbidden_message(&why));
        }
    }
    let items = schema.node_id(Keyword::Items);
    if items.is_some_and(|items| walk.tree.kind(items) == Kind::List) {
        let why = "items must be a schema object and not an array";
        walk.add(&word(Keyword::Items), || forbidden_message(why));
    }
    if schema.flag(Keyword::UniqueItems) {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        walk.add(&word(Keyword::UniqueItems), || forbidden_message(why));
    }
    if let Some(why) = restrictions.no_default
        && schema.node_id(Keyword::Default).is_some()
        && matches!(role, Role::Structure(_))
    {
        walk.add(&word(Keyword::Default), || forbidden_message(&format!("must not be set {why}")));
    }
    if restrictions.is_in_meta && schema.flag(Keyword::EmbeddedResource) {
        let why = "must not be used inside of resource meta";
        walk.add(&word(Keyword::EmbeddedResource), || forbidden_message(why));
    }
    if let Some(node_id) = schema.node_id(Keyword::PreserveUnknownFields)
        && walk.tree.raw(node_id) == b"false"
    {
        let why = "Invalid value: false: must be true or undefined";
        walk.add(&word(Keyword::PreserveUnknownFields), || why.to_owned());
    }
    if let Some(additional) = schema.node_id(Keyword::AdditionalProperties)
        && walk.tree.raw(additional) != b"true"
        && is_set(schema, Keyword::Properties)
    {
        let why = "additionalProperties and properties are mutual exclusive";
        walk.add(&word(Keyword::AdditionalProperties), || forbidden_message(why));
    }
    let text = schema.text(Keyword::Pattern);
    if let Some(why) = pattern::pattern_error(&text) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        walk.add(&word(Keyword::Pattern), || invalid_message(&text, &why));
    }
    if role == Role::Structure(Position::Root) {
        check_root(walk, schema);
    }
    if matches!(role, Role::Structure(_)) {
        check_map_type(walk, schema, &kind);
        check_list_type(walk, schema, &kind);
        check_validations(walk, schema);
    }
}

fn check_root(walk: &mut Walk<'_, '_, '_>, schema: &Schema<'_>) {
    if schema.flag(Keyword::Nullable) {
        walk.add(&[PathStep::Word("nullable")], || {
            forbidden_message("nullable cannot be true at the root")
        });
    }
    if walk.has_status {
        for keyword in NOT_WITH_STATUS.into_iter().filter(|keyword| is_set(schema, *keyword)) {
            let why =
                "must not be used at the root of the schema if the status subresource is enabled";
            walk.add(&[PathStep::Word(keyword.text())], || forbidden_message(why));
        }
    }
}

fn check_map_type(walk: &mut Walk<'_, '_, '_>, schema: &Schema<'_>, kind: &str) {
    if schema.node_id(Keyword::MapType).is_none() {
        return;
    }
    let found = schema.text(Keyword::MapType);
    if kind != "object" {
        let why = "must be object if x-kubernetes-map-type is specified";
        add_type(walk, kind, why);
    }
    let supported = ["atomic", "granular"];
    if !supported.contains(&found.as_ref()) {
        walk.add(&[PathStep::Word(Keyword::MapType.text())], || {
            unsupported_message(&found, &supported)
        });
    }
}

fn add_type(walk: &mut Walk<'_, '_, '_>, kind: &str, why: &str) {
    let text = if kind.is_empty() { required_message(why) } else { invalid_message(kind, why) };
    walk.add(&[PathStep::Word("type")], || text);
}

fn check_list_type(walk: &mut Walk<'_, '_, '_>, schema: &Schema<'_>, kind: &str) {
    let has_type = schema.node_id(Keyword::ListType).is_some();
    let found = schema.text(Keyword::ListType);
    let keys = schema.text_elements(Keyword::ListMapKeys);
    let at_type = [PathStep::Word(Keyword::ListType.text())];
    if !keys.is_empty() && found != "map" {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        let text = if has_type { invalid_message(&found, why) } else { required_message(why) };
        walk.add(&at_type, || text);
    }
    if !has_type {
        return;
    }
    if kind != "array" {
        add_type(walk, kind, "must be array if x-kubernetes-list-type is specified");
    }
    if !matches!(found.as_ref(), "atomic" | "set" | "map") {
        walk.add(&at_type, || unsupported_message(&found, &["atomic", "set", "map"]));
    }
    let tree = walk.tree;
    let items = Counterpart::of(schema).items.map(|node_id| Schema::at(tree, node_id));
    if matches!(found.as_ref(), "set" | "map")
        && items.as_ref().is_some_and(|items| items.flag(Keyword::Nullable))
    {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {found}");
        walk.add(&[PathStep::Word("items"), PathStep::Word("nullable")], || {
            forbidden_message(&why)
        });
    }
    match (found.as_ref(), items) {
        ("set", Some(items)) if kind == "array" => check_set(walk, &items),
        ("map", items) => check_keys(walk, items.as_ref(), &keys),
        _ => {}
    }
}

/// Items of a set are compared as a whole.
fn check_set(walk: &mut Walk<'_, '_, '_>, items: &Schema<'_>) {
    let keyword = match items.text(Keyword::Type).as_ref() {
        "array" => Keyword::ListType,
        "object" => Keyword::MapType,
        _ => return,
    };
    let found = items.text(keyword);
    // A list is atomic by default, and an object is not.
    let is_atomic = found == "atomic"
        || (keyword == Keyword::ListType && items.node_id(Keyword::ListType).is_none());
    if !is_atomic {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        walk.add(&[PathStep::Word("items"), PathStep::Word(keyword.text())], || {
            invalid_message(&found, why)
        });
    }
}

/// The keys of the items of a map.
fn check_keys(
    walk: &mut Walk<'_, '_, '_>,
    items: Option<&Schema<'_>>,
    keys: &[std::borrow::Cow<'_, str>],
) {
    let at_keys = [PathStep::Word(Keyword::ListMapKeys.text())];
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        walk.add(&at_keys, || required_message(why));
    }
    // A list without items is reported as such.
    let Some(items) = items else { return };
    let kind = items.text(Keyword::Type);
    if kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        walk.add(&[PathStep::Word("items"), PathStep::Word("type")], || {
            invalid_message(&kind, why)
        });
        return;
    }
    let tree = walk.tree;
    let required_names = items.text_elements(Keyword::Required);
    let required_names: BTreeSet<&str> = required_names.iter().map(AsRef::as_ref).collect();
    let properties = Counterpart::of(items).properties;
    let mut known = BTreeSet::new();
    for key in keys {
        if !known.insert(key.as_ref()) {
            walk.add(&at_keys, || invalid_message(key, "must not contain duplicate entries"));
            continue;
        }
        let found = properties.and_then(|all| walk.members(all).get(key.as_ref()).copied());
        let Some(property) = found.map(|node_id| Schema::at(tree, node_id)) else {
            walk.add(&at_keys, || {
                invalid_message(key, "entries must all be names of item properties")
            });
            continue;
        };
        let at = |word| {
            [
                PathStep::Word("items"),
                PathStep::Word("properties"),
                PathStep::Key(key),
                PathStep::Word(word),
            ]
        };
        let kind = property.text(Keyword::Type);
        if matches!(kind.as_ref(), "array" | "object") {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            walk.add(&at("type"), || invalid_message(&kind, why));
        }
        if !required_names.contains(key.as_ref()) && property.node_id(Keyword::Default).is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            walk.add(&at("default"), || required_message(why));
        }
        if property.flag(Keyword::Nullable) {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            walk.add(&at("nullable"), || forbidden_message(why));
        }
    }
}

/// Checks the members around CEL rules. The CEL rules themselves are not read.
fn check_validations(walk: &mut Walk<'_, '_, '_>, schema: &Schema<'_>) {
    let Some(list) = schema.node_id(Keyword::Validations) else { return };
    let tree = walk.tree;
    for (index, rule) in tree.children(list).enumerate() {
        let mut fields = [None, None, None];
        for member in tree.children(rule) {
            let slot = match tree.name(member).as_ref() {
                "rule" => 0,
                "message" => 1,
                "reason" => 2,
                _ => continue,
            };
            if let Some(field) = fields.get_mut(slot) {
                *field = Some(json::decode_text(tree.raw(member)))
                    .filter(|_| tree.kind(member) == Kind::Text);
            }
        }
        let [rule, message, reason] = fields;
        let (rule, message) = (rule.unwrap_or_default(), message.unwrap_or_default());
        let at = |word| {
            [
                PathStep::Word(Keyword::Validations.text()),
                PathStep::Index(index),
                PathStep::Word(word),
            ]
        };
        let has_lines = |text: &str| text.trim().contains(['\n', '\r']);
        if rule.trim().is_empty() {
            walk.add(&at("rule"), || required_message("rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            walk.add(&at("message"), || {
                invalid_message(&message, "must be non-empty if specified")
            });
        } else if has_lines(&message) {
            walk.add(&at("message"), || invalid_message(&message, "must not contain line breaks"));
        } else if has_lines(&rule) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            walk.add(&at("message"), || required_message(why));
        }
        if let Some(reason) = reason.filter(|reason| !VALIDATION_REASONS.contains(&reason.as_ref()))
        {
            walk.add(&at("reason"), || unsupported_message(&reason, &VALIDATION_REASONS));
        }
    }
}
