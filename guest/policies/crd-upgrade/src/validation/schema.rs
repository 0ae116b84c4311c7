//! A schema of a CRD. Each part is read when a value reaches it.
//!
//! Keywords that the API server forbids in CRDs are not read: `$ref`, `definitions`,
//! `dependencies`, `patternProperties`, `additionalItems`, and `items` as a list.

use std::cell::OnceCell;

use super::format;
use super::json::Json;

/// A schema in another one.
#[derive(Debug)]
pub(super) struct Subschema<'s> {
    json: &'s Json<'s>,
    schema: OnceCell<Box<Schema<'s>>>,
}

impl<'s> Subschema<'s> {
    fn of(json: &'s Json<'s>) -> Self {
        Self { json, schema: OnceCell::new() }
    }

    pub(super) fn get(&self) -> &Schema<'s> {
        self.schema.get_or_init(|| Box::new(Schema::of(self.json)))
    }
}

/// The value of `additionalProperties`.
#[derive(Debug)]
pub(super) enum Additional<'s> {
    Allowed,
    Forbidden,
    Schema(Subschema<'s>),
}

/// Limits of numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberLimits {
    pub(super) multiple_of: Option<f64>,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
}

/// A minimum and a maximum number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) min: Option<i64>,
    pub(super) max: Option<i64>,
}

/// One level of a schema.
#[derive(Debug)]
pub(super) struct Schema<'s> {
    pub(super) types: Vec<&'s str>,
    pub(super) nullable: bool,
    /// A format that the API server supports for the type, or `None`.
    pub(super) format: &'s str,
    pub(super) numbers: NumberLimits,
    pub(super) length: Limits,
    pub(super) pattern: &'s str,
    pub(super) item_count: Limits,
    pub(super) unique_items: bool,
    pub(super) member_count: Limits,
    pub(super) choices: &'s [Json<'s>],
    pub(super) all_of: Vec<Subschema<'s>>,
    pub(super) any_of: Vec<Subschema<'s>>,
    pub(super) one_of: Vec<Subschema<'s>>,
    pub(super) not: Option<Subschema<'s>>,
    pub(super) items: Option<Subschema<'s>>,
    /// Sorted by name, in byte order.
    pub(super) properties: Vec<(&'s str, Subschema<'s>)>,
    pub(super) additional: Additional<'s>,
    pub(super) required: Vec<&'s str>,
}

impl<'s> Schema<'s> {
    pub(super) fn of(json: &'s Json<'s>) -> Self {
        let text = |name: &str| json.member(name).and_then(Json::text).unwrap_or_default();
        let is_set = |name: &str| json.member(name).is_some_and(Json::is_true);
        let number = |name: &str| json.member(name).and_then(Json::number);
        let count = |name: &str| number(name).map(super::float::truncate);
        let limits = |min, max| Limits { min: count(min), max: count(max) };
        let inner =
            |name: &str| json.member(name).filter(|json| is_object(json)).map(Subschema::of);
        let list = |name: &str| json.member(name).map(Json::items).unwrap_or_default();
        let several =
            |name| list(name).iter().filter(|json| is_object(json)).map(Subschema::of).collect();
        let mut types: Vec<&str> = match text("type") {
            "" => Vec::new(),
            name => vec![name],
        };
        if is_set("x-kubernetes-int-or-string") {
            types = vec!["integer", "string"];
        }
        let additional = match json.member("additionalProperties") {
            Some(Json::Boolean(false)) => Additional::Forbidden,
            Some(schema @ Json::Object(_)) => Additional::Schema(Subschema::of(schema)),
            _ => Additional::Allowed,
        };
        let properties = json.member("properties").map(Json::members).unwrap_or_default();
        Self {
            nullable: is_set("nullable"),
            format: format::known_format(&types, text("format")),
            numbers: NumberLimits {
                multiple_of: number("multipleOf"),
                minimum: number("minimum"),
                exclusive_minimum: is_set("exclusiveMinimum"),
                maximum: number("maximum"),
                exclusive_maximum: is_set("exclusiveMaximum"),
            },
            length: limits("minLength", "maxLength"),
            pattern: text("pattern"),
            item_count: limits("minItems", "maxItems"),
            unique_items: is_set("uniqueItems"),
            member_count: limits("minProperties", "maxProperties"),
            choices: list("enum"),
            all_of: several("allOf"),
            any_of: several("anyOf"),
            one_of: several("oneOf"),
            not: inner("not"),
            items: inner("items"),
            properties: properties
                .iter()
                .map(|(name, json)| (&**name, Subschema::of(json)))
                .collect(),
            additional,
            required: list("required").iter().filter_map(Json::text).collect(),
            types,
        }
    }

    pub(super) fn is_type(&self, name: &str) -> bool {
        self.types.contains(&name)
    }

    /// The type, if there is exactly one.
    pub(super) fn single_type(&self) -> &'s str {
        match self.types.as_slice() {
            [name] => name,
            _ => "",
        }
    }

    pub(super) fn property(&self, name: &str) -> Option<&Subschema<'s>> {
        let at = self.properties.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
        self.properties.get(at).map(|(_, inner)| inner)
    }
}

fn is_object(json: &Json<'_>) -> bool {
    matches!(json, Json::Object(_))
}
