//! Validation of custom resources with the schemas of CRDs, with the messages of Kubernetes.
//!
//! ```text
//! schema (JSON) ─▶ Schema, read where values come to it ─┐
//! object (JSON) ─────────────────────────────────────────┴─▶ validate ─▶ Outcome ─▶ one text
//! ```
//!
//! This is the validation of `k8s.io/kube-openapi`, with its deviations from JSON Schema, and the
//! messages of `k8s.io/apiextensions-apiserver`. OLM and RukPak call both. Rules in CEL
//! (`x-kubernetes-validations`), types of lists and the metadata of embedded resources are not
//! validated, and unknown fields are allowed. Members are visited in byte order: upstream's order
//! is random.
//!
//! The [`WorkBudget`] of one review is limited, and so is the depth. If a limit is exceeded or a pattern
//! is not supported, the result is uncertain: valid, but `not` and `oneOf` do not rely on it.

mod combined;
mod float;
mod format;
pub(crate) mod json;
mod number;
mod outcome;
mod pattern;
mod schema;

use std::cmp::Ordering;

use json::Json;
use outcome::{Outcome, Path, format_value, marshal_to_string, quoted};
use pattern::Patterns;
use schema::{Additional, Schema};

/// The maximum number of pairs of value and schema that are evaluated in one review, about 0.1 µs
/// each.
const MAX_STEPS: usize = 400_000;

/// The remaining work of validation.
#[derive(Debug)]
pub(crate) struct WorkBudget {
    remaining: usize,
    patterns: Patterns,
}

impl Default for WorkBudget {
    fn default() -> Self {
        Self { remaining: MAX_STEPS, patterns: Patterns::default() }
    }
}

impl WorkBudget {
    /// Takes steps. If there are fewer steps left than that, none remain.
    fn spend(&mut self, steps: usize) -> bool {
        let left = self.remaining.checked_sub(steps);
        self.remaining = left.unwrap_or_default();
        left.is_some()
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.remaining == 0
    }
}

/// A schema against which objects are validated.
#[derive(Debug)]
pub(crate) struct Validator<'s>(Schema<'s>);

impl<'s> Validator<'s> {
    pub(crate) fn of(schema: &'s Json<'s>) -> Self {
        Self(Schema::of(schema))
    }

    /// The errors of an object: the field errors of Kubernetes, in one text.
    pub(crate) fn errors(&self, object: &Json<'_>, work: &mut WorkBudget) -> Option<String> {
        validate(&self.0, object, &Path::Root, work).text()
    }
}

/// Validates one value with one schema. The order of the checks is that of upstream.
fn validate(
    schema: &Schema<'_>,
    value: &Json<'_>,
    path: &Path<'_>,
    work: &mut WorkBudget,
) -> Outcome {
    if !work.spend(1) {
        return Outcome::doubtful();
    }
    let mut outcome = Outcome::default();
    if *value == Json::Null {
        outcome.merge(validate_type(schema, value, path));
        validate_choice(schema, value, path, &mut outcome);
        return outcome;
    }
    if !schema.types.is_empty() || !schema.format.is_empty() {
        outcome.merge(validate_type(schema, value, path));
        outcome.matches += 1;
    }
    outcome.merge(combined::validate(schema, value, path, work));
    outcome.matches += 1;
    match value {
        Json::Text(text) => {
            validate_string(schema, text, path, work, &mut outcome);
            outcome.matches += 1;
            if !schema.format.is_empty() && !matches!(schema.single_type(), "integer" | "number") {
                match format::matches_format(schema.format, text, work) {
                    Some(true) => {}
                    Some(false) => outcome.add_type(path, schema.format, text),
                    None => outcome.is_doubtful = true,
                }
                outcome.matches += 1;
            }
        }
        Json::List(items) => {
            outcome.merge(validate_list(schema, items, path, work));
            outcome.matches += 1;
        }
        _ => {
            if let Some(number) = number::Number::of(value) {
                outcome.merge(number::validate(schema, number, path));
                outcome.matches += 1;
            }
        }
    }
    validate_choice(schema, value, path, &mut outcome);
    outcome.matches += 1;
    if let Json::Object(_) = value {
        outcome.merge(validate_object(schema, value, path, work));
        outcome.matches += 1;
    }
    outcome.matches += 1;
    outcome
}

fn validate_type(schema: &Schema<'_>, value: &Json<'_>, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    // The name of the type, and its format in Go.
    let (name, format) = match value {
        Json::Null => {
            if schema.types.is_empty() || schema.is_type("null") || schema.nullable {
                outcome.matches += 1;
            } else {
                outcome.add_type(path, &schema.types.join(","), "null");
            }
            return outcome;
        }
        Json::Boolean(_) => ("boolean", ""),
        Json::Integer(_) => ("integer", "int64"),
        Json::Float(_) => ("number", "float64"),
        Json::Text(_) => ("string", ""),
        Json::List(_) => ("array", ""),
        Json::Object(_) => ("object", ""),
    };
    let is_text = matches!(value, Json::Text(_) | Json::List(_));
    let is_number = match value {
        Json::Integer(_) => schema.is_type("number"),
        Json::Float(number) => schema.is_type("integer") && float::is_integer(*number),
        _ => false,
    };
    let is_right = schema.is_type(name) || is_number;
    if !is_text && !schema.format.is_empty() && !is_right && format != schema.format {
        outcome.add_type(path, schema.format, format);
    } else if is_text
        && !schema.format.is_empty()
        && !(schema.is_type("number") || schema.is_type("integer"))
        || is_right
    {
        outcome.matches += 1;
    } else {
        outcome.add_type(path, &schema.types.join(","), name);
    }
    outcome
}

/// Length and pattern: the first failure counts.
fn validate_string(
    schema: &Schema<'_>,
    text: &str,
    path: &Path<'_>,
    work: &mut WorkBudget,
    outcome: &mut Outcome,
) {
    let schema::Limits { min: least, max: most } = schema.length;
    if least.is_some() || most.is_some() {
        let length = to_i64(text.chars().count());
        if let Some(most) = most.filter(|most| length > *most) {
            outcome.add(
                path,
                &format!("Too long: {}", limit_message(most, "may not be more than", "byte")),
            );
            return;
        }
        if let Some(least) = least.filter(|least| length < *least) {
            let why = format!("{path} in body should be at least {least} chars long");
            outcome.add_invalid(path, &quoted(text), &why);
            return;
        }
    }
    if schema.pattern.is_empty() {
        return;
    }
    match pattern::matches(schema.pattern, text, work) {
        Some(true) => {}
        Some(false) => {
            let why = format!("{path} in body should match '{}'", schema.pattern);
            outcome.add_invalid(path, &quoted(text), &why);
        }
        None => outcome.is_doubtful = true,
    }
}

fn to_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// `may not be more than 2 bytes`.
fn limit_message(most: i64, how: &str, what: &str) -> String {
    let plural = if most == 1 { "" } else { "s" };
    format!("{how} {most} {what}{plural}")
}

fn report_too_many(found: i64, most: i64, path: &Path<'_>, outcome: &mut Outcome) {
    let most = limit_message(most, "must have at most", "item");
    outcome.add(path, &format!("Too many: {found}: {most}"));
}

fn validate_list(
    schema: &Schema<'_>,
    items: &[Json<'_>],
    path: &Path<'_>,
    work: &mut WorkBudget,
) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(inner) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            if outcome.is_full() {
                break;
            }
            outcome.merge(validate(inner.get(), item, &Path::Item(path, index), work));
        }
    }
    let length = to_i64(items.len());
    if let Some(least) = schema.item_count.min.filter(|least| length < *least) {
        let why = format!("{path} in body should have at least {least} items");
        outcome.add_invalid(path, &length.to_string(), &why);
    }
    if let Some(most) = schema.item_count.max.filter(|most| length > *most) {
        report_too_many(length, most, path, &mut outcome);
    }
    if schema.unique_items {
        if !work.spend(items.len().saturating_mul(16)) {
            outcome.is_doubtful = true;
        } else if has_duplicates(items) {
            let why = format!("{path} in body shouldn't contain duplicates");
            outcome.add_invalid(path, "\"\"", &why);
        }
    }
    outcome.matches += 1;
    outcome
}

fn has_duplicates(items: &[Json<'_>]) -> bool {
    let mut sorted: Vec<&Json<'_>> = items.iter().collect();
    sorted.sort_by(|left, right| left.order(right));
    sorted.is_sorted_by(|left, right| left.order(right) == Ordering::Less).eq(&false)
}

fn validate_object(
    schema: &Schema<'_>,
    value: &Json<'_>,
    path: &Path<'_>,
    work: &mut WorkBudget,
) -> Outcome {
    let mut outcome = Outcome::default();
    let members = value.members();
    let length = to_i64(members.len());
    if let Some(least) = schema.member_count.min.filter(|least| length < *least) {
        let why = format!("{path} in body should have at least {least} properties");
        outcome.add_invalid(path, &length.to_string(), &why);
    }
    if let Some(most) = schema.member_count.max.filter(|most| length > *most) {
        report_too_many(length, most, path, &mut outcome);
    }
    for (name, member) in members {
        match &schema.additional {
            Additional::Allowed => break,
            _ if outcome.is_full() => break,
            _ if schema.property(name).is_some() => {}
            Additional::Forbidden => {
                let why = format!("{} in body is a forbidden property", Path::Member(path, name));
                outcome.add_invalid(path, &quoted(name), &why);
            }
            Additional::Schema(inner) => {
                outcome.merge(validate(inner.get(), member, &Path::Member(path, name), work));
            }
        }
    }
    for (name, member) in members {
        if let Some(inner) = schema.property(name).filter(|_| !outcome.is_full()) {
            outcome.merge(validate(inner.get(), member, &Path::Property(path, name), work));
        }
    }
    for name in &schema.required {
        if value.member_or_null(name).is_none() && !outcome.is_full() {
            outcome.add(&Path::Member(path, name), "Required value");
        }
    }
    outcome
}

/// `enum`. `null` is never one of the choices, and numbers are compared as Go converts them.
fn validate_choice(schema: &Schema<'_>, value: &Json<'_>, path: &Path<'_>, outcome: &mut Outcome) {
    if schema.choices.is_empty() || schema.choices.iter().any(|choice| is_choice(value, choice)) {
        return;
    }
    let mut supported = String::new();
    for choice in schema.choices {
        if supported.len() > 2_000 {
            break;
        }
        let text = choice.text().map_or_else(|| marshal_to_string(choice), str::to_owned);
        let comma = if supported.is_empty() { "" } else { ", " };
        supported.push_str(comma);
        supported.push_str(&quoted(&text));
    }
    let value = format_value(value);
    outcome.add(path, &format!("Unsupported value: {value}: supported values: {supported}"));
}

fn is_choice(value: &Json<'_>, choice: &Json<'_>) -> bool {
    match (value, choice) {
        (Json::Null, _) => false,
        (Json::Integer(number), Json::Float(_)) => Json::Float(float::to_f64(*number)) == *choice,
        (Json::Float(number), Json::Integer(choice)) => float::truncate(*number) == *choice,
        // Go converts a number to the character with that code.
        (Json::Integer(number), Json::Text(choice)) => {
            let code = u32::try_from(*number).ok().and_then(char::from_u32);
            let c = code.unwrap_or(char::REPLACEMENT_CHARACTER);
            choice.chars().eq([c])
        }
        _ => value == choice,
    }
}

#[cfg(test)]
mod tests;
