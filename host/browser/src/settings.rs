//! The settings of a policy: those that it receives, and a check of their names and types.
//!
//! A server checks settings with a validator of JSON Schema. This check knows the keywords `type`, `enum`,
//! `properties`, `additionalProperties` and `items`, so that a misspelled name is an error here, too.

use serde_json::{Map, Value};

use crate::bindings::types::Descriptor;
use crate::configuration::PolicyConfig;

/// Maximum nesting of settings, and number of errors.
const MAX_DEPTH: usize = 64;
const MAX_ERRORS: usize = 64;

/// Returns the settings that the policy receives: the configured ones and, if its schema has such properties,
/// `profile`, `identities` and `rules` of its configuration, and `files`.
pub(crate) fn with_common_settings(descriptor: &Descriptor, config: &PolicyConfig) -> Value {
    let mut settings = config.settings.clone();
    let schema: Value = serde_json::from_str(&descriptor.settings_schema).unwrap_or_default();
    let has = |name: &str| schema.pointer(&format!("/properties/{name}")).is_some();
    if let Some(profile) = config.profile.filter(|_| has("profile")) {
        let profile = serde_json::to_value(profile).unwrap_or_default();
        settings.entry("profile").or_insert(profile);
    }
    if config.files && has("files") {
        settings.insert("files".to_owned(), Value::Bool(true));
    }
    for (key, users) in &config.identities {
        if has(&format!("identities/properties/{key}")) {
            let own = settings.entry("identities").or_insert_with(|| Value::Object(Map::new()));
            if let Some(own) = own.as_object_mut() {
                own.entry(key.as_str()).or_insert_with(|| users.as_slice().into());
            }
        }
    }
    if has("rules") && !config.rules.is_empty() {
        let level = |(id, level): (&String, &crate::configuration::RuleLevel)| {
            (id.clone(), Value::from(level.as_str()))
        };
        settings.insert("rules".to_owned(), config.rules.iter().map(level).collect());
    }
    Value::Object(settings)
}

/// Returns the errors in configured settings, a line each.
pub(crate) fn check(descriptor: &Descriptor, settings: &Map<String, Value>) -> Vec<String> {
    if descriptor.settings_schema.is_empty() {
        let none = settings.is_empty();
        let text = || format!("policy {} takes no settings", descriptor.name);
        return (!none).then(text).into_iter().collect();
    }
    if settings.contains_key("rules") {
        let text = "settings.rules: the levels of rules do not belong in `settings`: set `rules` of the policy";
        return vec![text.to_owned()];
    }
    let schema: Value = serde_json::from_str(&descriptor.settings_schema).unwrap_or_default();
    let mut errors = Vec::new();
    for (name, value) in settings {
        let path = format!("settings.{name}");
        check_member(&schema, name, value, &path, MAX_DEPTH, &mut errors);
    }
    errors.truncate(MAX_ERRORS);
    errors
}

fn check_member(
    schema: &Value,
    name: &str,
    value: &Value,
    path: &str,
    depth: usize,
    errors: &mut Vec<String>,
) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    if let Some(schema) = properties.and_then(|known| known.get(name)) {
        check_value(schema, value, path, depth, errors);
    } else if others == Some(&Value::Bool(false)) {
        let known = properties.into_iter().flat_map(Map::keys).map(String::as_str);
        let hint = opgate_text::hint(name, known);
        errors.push(format!("{path}: unknown setting `{name}`{hint}"));
    } else if let Some(schema) = others {
        check_value(schema, value, path, depth, errors);
    }
}

fn check_value(schema: &Value, value: &Value, path: &str, depth: usize, errors: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1).filter(|_| errors.len() < MAX_ERRORS) else { return };
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of_type(value, name)) {
        return errors.push(format!("{path}: {value} is not of type {}", types.join(" or ")));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let allowed: Vec<_> = allowed.iter().map(Value::to_string).collect();
        return errors.push(format!("{path}: {value} is not one of {}", allowed.join(", ")));
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                check_member(schema, name, value, &format!("{path}.{name}"), depth, errors);
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                check_value(schema, item, &format!("{path}[{index}]"), depth, errors);
            }
        }
        _ => {}
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(schema: &str) -> Descriptor {
        Descriptor {
            name: "p".to_owned(),
            version: String::new(),
            title: String::new(),
            rules: Vec::new(),
            matches: Vec::new(),
            reads: Vec::new(),
            sampling_rules: Vec::new(),
            settings_schema: schema.to_owned(),
        }
    }

    const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"properties":{
        "level":{"enum":["warn","deny"]},
        "users":{"type":"array","items":{"type":"string"}},
        "limit":{"type":["integer","null"]},
        "names":{"type":"object","additionalProperties":{"type":"boolean"}},
        "rules":{"type":"object"}}}"#;

    #[test]
    fn settings_are_checked_by_name_type_and_value() {
        for (settings, expected) in [
            (r#"{"level":"deny","users":["a"],"limit":null,"names":{"a":true}}"#, ""),
            (r#"{"levle":1}"#, "settings.levle: unknown setting `levle`; did you mean \"level\"?"),
            (r#"{"level":"x"}"#, "settings.level: \"x\" is not one of \"warn\", \"deny\""),
            (r#"{"users":["a",1]}"#, "settings.users[1]: 1 is not of type string"),
            (r#"{"limit":1.5}"#, "settings.limit: 1.5 is not of type integer or null"),
            (r#"{"names":{"a":1}}"#, "settings.names.a: 1 is not of type boolean"),
            (r#"{"rules":{}}"#, "settings.rules: the levels of rules do not belong in `settings`"),
        ] {
            let settings: Map<String, Value> = serde_json::from_str(settings).unwrap();
            let found = check(&descriptor(SCHEMA), &settings).join("\n");
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        }
        let settings = Map::from_iter([("a".to_owned(), Value::Null)]);
        assert_eq!(check(&descriptor(""), &settings), ["policy p takes no settings"]);
    }
}
