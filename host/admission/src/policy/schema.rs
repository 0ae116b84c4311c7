//! Checks the settings of a policy against its schema.
//!
//! The schema comes out of the sandbox. Its size is limited before it is used: its cost can be the
//! product of patterns and texts, and a validator uses many times the memory of its text.

use jsonschema::error::ValidationErrorKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use opgate_engine::subprocess::{Job, WorkerProgram};

/// The reason why settings cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema is invalid.
    #[error("its settings schema {0}")]
    Invalid(String),
    /// The check has no result.
    #[error("{0}")]
    Unchecked(String),
}

/// Maximum number of values in a schema, of regular expressions among them, and bytes of all of
/// those.
const MAX_VALUES: usize = 20_000;
const MAX_PATTERNS: usize = 128;
const MAX_PATTERN_BYTES: usize = 8 << 10;
/// Maximum nesting of values.
const MAX_DEPTH: usize = 64;

/// Maximum number of reported errors.
const MAX_ERRORS: usize = 64;

/// An error in the settings by the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SettingsError {
    /// The location, below the settings.
    pub(super) pointer: String,
    /// The message.
    pub(super) text: String,
}

/// Returns the errors in settings.
///
/// # Errors
/// If the schema is invalid.
pub(super) fn check(schema: &str, settings: &Value) -> Result<Vec<SettingsError>, SchemaError> {
    let schema: Value = serde_json::from_str(schema)
        .map_err(|e| SchemaError::Invalid(format!("is not JSON: {e}")))?;
    ensure_bounded(&schema)?;
    let validator = jsonschema::draft202012::new(&schema).map_err(|e| {
        SchemaError::Invalid(format!(
            "is not valid: {}",
            opgate_text::one_line(&e.to_string(), 512)
        ))
    })?;
    let mut found = Vec::new();
    for error in validator.iter_errors(settings).take(MAX_ERRORS) {
        let at = error.instance_path().as_str();
        if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
            let rule = error.schema_path().as_str();
            let around = rule.strip_suffix("/additionalProperties").unwrap_or_default();
            for key in unexpected.iter().take(MAX_ERRORS) {
                let hint = key_hint(&schema, around, key);
                let escaped = key.replace('~', "~0").replace('/', "~1");
                let text = format!("unknown setting `{key}`{hint}");
                found.push(SettingsError { pointer: format!("{at}/{escaped}"), text });
            }
        } else {
            let text = opgate_text::one_line(&error.to_string(), 512);
            found.push(SettingsError { pointer: at.to_owned(), text });
        }
    }
    Ok(found)
}

/// [`check`] in a subprocess.
///
/// # Errors
/// As for [`check`], and if the process ends early.
pub(super) fn check_in_subprocess(
    program: &WorkerProgram,
    schema: &str,
    settings: &Value,
) -> Result<Vec<SettingsError>, SchemaError> {
    let found = program
        .run(Job::Settings, &[schema.as_bytes(), settings.to_string().as_bytes()])
        .map_err(|why| SchemaError::Invalid(format!("cannot be used: {why}")))?;
    serde_json::from_slice(&found)
        .map_err(|e| SchemaError::Unchecked(format!("its settings could not be checked: {e}")))
}

/// The work of a child for [`Job::Settings`].
///
/// # Errors
/// As for `check`.
pub fn run_settings_job(parts: &[Vec<u8>]) -> Result<Vec<u8>, SchemaError> {
    let [schema, settings] = parts else {
        return Err(SchemaError::Unchecked("no settings".to_owned()));
    };
    let schema = std::str::from_utf8(schema).map_err(|e| SchemaError::Unchecked(e.to_string()))?;
    let settings =
        serde_json::from_slice(settings).map_err(|e| SchemaError::Unchecked(e.to_string()))?;
    serde_json::to_vec(&check(schema, &settings)?)
        .map_err(|e| SchemaError::Unchecked(e.to_string()))
}

/// Fails if a schema is too large, or refers to others.
fn ensure_bounded(schema: &Value) -> Result<(), SchemaError> {
    let (mut values, mut patterns, mut bytes) = (0_usize, 0_usize, 0_usize);
    let mut pattern = |text: &str| {
        patterns = patterns.saturating_add(1);
        bytes = bytes.saturating_add(text.len());
        if patterns > MAX_PATTERNS || bytes > MAX_PATTERN_BYTES {
            return Err(SchemaError::Invalid(format!(
                "has more than {MAX_PATTERNS} patterns or {MAX_PATTERN_BYTES} bytes in them"
            )));
        }
        Ok(())
    };
    let mut todo = vec![(schema, 1)];
    while let Some((part, depth)) = todo.pop() {
        values = values.saturating_add(1);
        if values > MAX_VALUES || depth > MAX_DEPTH {
            return Err(SchemaError::Invalid(format!(
                "has more than {MAX_VALUES} values or {MAX_DEPTH} levels"
            )));
        }
        match part {
            Value::Object(members) => {
                for (key, value) in members {
                    match (key.as_str(), value) {
                        ("$ref" | "$dynamicRef" | "$recursiveRef", _) => {
                            return Err(SchemaError::Invalid(
                                "has references, which are not supported".to_owned(),
                            ));
                        }
                        ("pattern", Value::String(text)) => pattern(text)?,
                        ("patternProperties", Value::Object(members)) => {
                            members.keys().try_for_each(|text| pattern(text))?;
                        }
                        _ => {}
                    }
                }
                todo.extend(members.values().map(|value| (value, depth + 1)));
            }
            Value::Array(items) => todo.extend(items.iter().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// The nearest name to an unknown key, or the location where a key of that name belongs.
fn key_hint(schema: &Value, around: &str, key: &str) -> String {
    let properties = schema.pointer(&format!("{around}/properties")).and_then(Value::as_object);
    let extra = properties.into_iter().flat_map(|p| p.keys().map(String::as_str));
    let hint = opgate_text::hint(key, extra);
    if !hint.is_empty() {
        return hint;
    }
    let mut elsewhere = Vec::new();
    let mut todo = vec![(String::new(), schema)];
    while let Some((path, schema)) = todo.pop() {
        for (name, member) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if name == key || path == key {
                elsewhere.push(path.clone());
            }
            todo.push((path, member));
        }
    }
    elsewhere.sort();
    elsewhere.first().map(|path| format!("; it belongs at `settings.{path}`")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_limits_are_checked_before_use() {
        let patterns = |count: usize, length: usize| {
            let pattern = |n: usize| (format!("{n}{}", "a".repeat(length)), json!({}));
            json!({"patternProperties": (0..count).map(pattern).collect::<serde_json::Map<_, _>>()})
        };
        let mut deep = json!({});
        for _ in 0..40 {
            deep = json!({"properties": {"a": deep}});
        }
        let wide: Vec<_> = (0..30_000).map(|n| json!(n)).collect();
        let each = json!({"pattern": "a"});
        let many: Vec<_> = std::iter::repeat_n(each, 200).collect();
        for (schema, says) in [
            (patterns(129, 1), "more than 128 patterns"),
            (patterns(2, 5_000), "or 8192 bytes in them"),
            (json!({"anyOf": many}), "more than 128 patterns"),
            (deep, "64 levels"),
            (json!({"enum": wide}), "more than 20000 values"),
            (json!({"properties": {"a": {"$ref": "#"}}}), "references, which are not supported"),
        ] {
            let error = check(&schema.to_string(), &json!({})).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(check(&patterns(20, 20).to_string(), &json!({})), Ok(Vec::new()));
        let error = check(&"[".repeat(1_000), &json!({})).unwrap_err().to_string();
        assert!(error.contains("is not JSON: recursion limit"), "{error}");
    }
}
