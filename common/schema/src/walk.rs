//! An object along its type: one pass over its JSON, without recursion.

use std::fmt::Write as _;
use std::ops::Range;

use opgate_compat::go::shorten;
use opgate_compat::json::{self, Kind, ReadOptions, Sink};

use crate::decode::{DecodeError, decode_error};
use crate::{Type, TypeId};

/// Maximum levels of objects and lists: more than a host allows in a document.
const MAX_DEPTH: usize = 1_024;

/// Receives the errors in an object. Locations are computed only if a caller needs their texts.
pub trait SchemaErrorSink {
    /// Reports a member that its type does not have. `of` is the type.
    fn unknown_field(&mut self, field_path: &FieldPath<'_>, of: TypeId, name: &str) {
        let _ = (field_path, of, name);
    }
    /// Reports a value that its type does not accept.
    fn type_mismatch(&mut self, field_path: &FieldPath<'_>, mismatch: &Mismatch<'_>) {
        let _ = (field_path, mismatch);
    }
}

/// Looks at the JSON of an object of a type.
pub fn walk(json: &[u8], of: TypeId, sink: &mut impl SchemaErrorSink) {
    let levels = Vec::new();
    let mut walk = Walker { json, of, levels, skipped_levels: 0, sink };
    // Invalid JSON has no fields.
    let _ =
        json::read(json, ReadOptions { max_depth: MAX_DEPTH, allow_trailing: false }, &mut walk);
}

/// An open object or list, and where in it the walk is.
struct Level {
    of: LevelKind,
    /// The key of a member, with its quotes.
    key: Range<usize>,
    /// Elements of a list so far.
    count: usize,
    /// The type of the next value.
    next: TypeId,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LevelKind {
    /// Fields of a struct.
    Fields(TypeId),
    /// Members with any names.
    Values,
    /// Elements.
    Items,
}

struct Walker<'w, F> {
    json: &'w [u8],
    /// The type of the whole.
    of: TypeId,
    levels: Vec<Level>,
    /// Levels of a value that is not inspected.
    skipped_levels: usize,
    sink: &'w mut F,
}

/// Position of a value.
pub struct FieldPath<'p> {
    json: &'p [u8],
    levels: &'p [Level],
}

impl FieldPath<'_> {
    /// Returns the path in the notation of violations: `spec.containers[0].image`.
    #[must_use]
    pub fn field(&self) -> String {
        let mut field = String::new();
        for level in self.levels {
            // Writing to a text does not fail.
            let _ = match level.of {
                LevelKind::Items => write!(field, "[{}]", level.count.saturating_sub(1)),
                LevelKind::Fields(_) | LevelKind::Values => {
                    let name = self.name(level);
                    if name.contains(['.', '/']) {
                        write!(field, "[{name}]")
                    } else if field.is_empty() {
                        write!(field, "{name}")
                    } else {
                        write!(field, ".{name}")
                    }
                }
            };
        }
        field
    }

    /// Returns the JSON pointer of the value.
    #[must_use]
    pub fn pointer(&self) -> String {
        let mut pointer = String::new();
        for level in self.levels {
            pointer.push('/');
            if level.of == LevelKind::Items {
                pointer.push_str(&level.count.saturating_sub(1).to_string());
            } else {
                let key = self.json.get(level.key.clone()).unwrap_or_default();
                pointer.push_str(&json::escape(&json::decode_text(key)));
            }
        }
        pointer
    }

    /// Returns the types of the structs on the way and the names in them, without elements: what Go's errors
    /// show. Empty outside of structs.
    fn go_path(&self) -> String {
        let (mut path, mut of) = (String::new(), "");
        for level in self.levels {
            if let LevelKind::Fields(id) = level.of {
                of = id.name().rsplit('.').next().unwrap_or_default();
                let _ = write!(path, ".{}", self.name(level));
            }
        }
        format!("{of}{path}")
    }

    /// Returns the innermost struct, and the name of the field in it that leads here.
    #[must_use]
    pub fn innermost(&self) -> Option<(TypeId, String)> {
        self.levels.iter().rev().find_map(|level| match level.of {
            LevelKind::Fields(id) => Some((id, self.name(level))),
            _ => None,
        })
    }

    fn name(&self, level: &Level) -> String {
        let key = self.json.get(level.key.clone()).unwrap_or_default();
        shorten(&json::decode_text(key), 256)
    }
}

/// A value of another type.
pub struct Mismatch<'m> {
    of: TypeId,
    kind: Kind,
    /// A number as written.
    number: &'m str,
    error: DecodeError,
}

impl Mismatch<'_> {
    /// Returns the kind of value that the type accepts; none if it accepts several kinds, or has a syntax.
    #[must_use]
    pub fn wanted(&self) -> Option<Kind> {
        match self.of.get() {
            Type::Boolean => Some(Kind::Boolean),
            Type::String => Some(Kind::Text),
            Type::Int32 | Type::Int64 => Some(Kind::Number),
            Type::List(_) => Some(Kind::List),
            _ => None,
        }
    }

    /// Reports whether the type is a list of texts.
    #[must_use]
    pub fn wants_texts(&self) -> bool {
        matches!(self.of.get(), Type::List(inner) if TypeId(inner).get() == Type::String)
    }

    /// Reports whether the type is a quantity, such as `64Mi`.
    #[must_use]
    pub fn wants_quantity(&self) -> bool {
        self.of.get() == Type::Quantity
    }

    /// Returns the words of Go's decoder.
    #[must_use]
    pub fn message(&self, field_path: &FieldPath<'_>) -> String {
        let number = match self.error {
            DecodeError::Type(true) => format!(" {}", shorten(self.number, 64)),
            _ => String::new(),
        };
        let found = self.kind.go_name();
        match &self.error {
            DecodeError::Custom(why) => why.clone(),
            DecodeError::Value(wanted) => {
                format!("json: cannot unmarshal {found} into Go value of type {wanted}")
            }
            DecodeError::Type(_) => format!(
                "json: cannot unmarshal {found}{number} into Go struct field {} of type {}",
                field_path.go_path(),
                self.of.go_name()
            ),
        }
    }
}

impl<F: SchemaErrorSink> Walker<'_, F> {
    /// Returns the type of the value that begins. An element is counted.
    fn advance_type(&mut self) -> TypeId {
        let Some(level) = self.levels.last_mut() else { return self.of };
        if level.of == LevelKind::Items {
            level.count = level.count.saturating_add(1);
        }
        level.next
    }

    fn report_mismatch(&mut self, of: TypeId, kind: Kind, number: &str, refusal: DecodeError) {
        let field_path = FieldPath { json: self.json, levels: &self.levels };
        self.sink.type_mismatch(&field_path, &Mismatch { of, kind, number, error: refusal });
    }
}

impl<F: SchemaErrorSink> Sink for Walker<'_, F> {
    fn key(&mut self, key: Range<usize>) {
        if self.skipped_levels > 0 {
            return;
        }
        let Some(level) = self.levels.last_mut() else { return };
        level.key = key;
        let LevelKind::Fields(of) = level.of else { return };
        let name = json::decode_text(self.json.get(level.key.clone()).unwrap_or_default());
        if let Some(next) = of.field(&name) {
            level.next = next;
            return;
        }
        // Go decodes it into the field nonetheless; an API server does not.
        level.next = of.field_ignoring_case(&name).unwrap_or(TypeId(0));
        let field_path = FieldPath { json: self.json, levels: &self.levels };
        self.sink.unknown_field(&field_path, of, &name);
    }

    fn open(&mut self, kind: Kind, _: usize) {
        if self.skipped_levels > 0 {
            self.skipped_levels = self.skipped_levels.saturating_add(1);
            return;
        }
        let of = self.advance_type();
        let resolved = match of.get() {
            Type::Either(inner) if kind == Kind::List => Some((LevelKind::Items, TypeId(inner))),
            Type::Either(inner) => match TypeId(inner).get() {
                Type::Struct(..) => Some((LevelKind::Fields(TypeId(inner)), TypeId(0))),
                _ => None,
            },
            Type::List(inner) if kind == Kind::List => Some((LevelKind::Items, TypeId(inner))),
            Type::Map(inner) if kind == Kind::Object => Some((LevelKind::Values, TypeId(inner))),
            Type::Struct(..) if kind == Kind::Object => Some((LevelKind::Fields(of), TypeId(0))),
            _ => None,
        };
        if let Some((of, next)) = resolved {
            self.levels.push(Level { of, key: 0..0, count: 0, next });
            return;
        }
        self.skipped_levels = 1;
        let refusal = match of.get() {
            Type::List(_) | Type::Map(_) | Type::Struct(..) => Some(DecodeError::Type(false)),
            scalar => decode_error(scalar, kind, ""),
        };
        if let Some(refusal) = refusal {
            self.report_mismatch(of, kind, "", refusal);
        }
    }

    fn close(&mut self, _: Kind, _: usize) {
        if self.skipped_levels > 0 {
            self.skipped_levels = self.skipped_levels.saturating_sub(1);
        } else {
            self.levels.pop();
        }
    }

    fn scalar(&mut self, kind: Kind, range: Range<usize>) {
        if self.skipped_levels > 0 {
            return;
        }
        let of = self.advance_type();
        let wanted = of.get();
        // Most values are texts in the place of texts.
        if matches!(wanted, Type::Any) || wanted == Type::String && kind == Kind::Text {
            return;
        }
        let text = json::decode_text(self.json.get(range).unwrap_or_default());
        if let Some(refusal) = decode_error(wanted, kind, &text) {
            self.report_mismatch(of, kind, &text, refusal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Collector(Vec<String>);

    impl SchemaErrorSink for Collector {
        fn unknown_field(&mut self, field_path: &FieldPath<'_>, of: TypeId, name: &str) {
            let meant = of.nearest(name).map(|name| format!(", {name}?")).unwrap_or_default();
            assert!(field_path.pointer().ends_with(&format!("/{}", json::escape(name))));
            self.0.push(format!("{}: unknown{meant}", field_path.field()));
        }
        fn type_mismatch(&mut self, field_path: &FieldPath<'_>, mismatch: &Mismatch<'_>) {
            self.0.push(format!("{}: {}", field_path.field(), mismatch.message(field_path)));
        }
    }

    fn walk_all(api_version: &str, kind: &str, json: &str) -> Vec<String> {
        let mut all = Collector::default();
        walk(json.as_bytes(), TypeId::of_kind(api_version, kind).unwrap(), &mut all);
        all.0
    }

    #[test]
    fn unknown_fields_are_found_with_the_nearest_name() {
        for (json, expected) in [
            (
                r#"{"spec":{"template":{"spec":{"contianers":[{"nmae":1}]}}}}"#,
                &["spec.template.spec.contianers: unknown, containers?"][..],
            ),
            (
                r#"{"spec":{"Replicas":"x"}}"#,
                &[
                    "spec.Replicas: unknown, replicas?",
                    "spec.Replicas: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.Replicas of type int32",
                ],
            ),
            (
                r#"{"metadata":{"labels":{"any.thing/x":"y"}},"spec":{"template":{"spec":{"containers":[{},{"env":[{"nam":"A"}]}]}}}}"#,
                &["spec.template.spec.containers[1].env[0].nam: unknown, name?"],
            ),
            (r#"{"a.b":{"c":[{}]},"spec":null}"#, &["[a.b]: unknown"]),
        ] {
            assert_eq!(walk_all("apps/v1", "Deployment", json), expected, "{json}");
        }
    }

    #[test]
    fn schemas_inside_crds_are_checked() {
        let json = r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{
            "properties":{"a":{"typ":"string"},"b":{"items":[{"typo":1},{"type":"string"}],"default":{"typ":1},"x-kubernetes-preserve-unknown-fields":true}},
            "additionalProperties":{"formt":"x"},"allOf":[{"additionalProperties":false}]
        }}}]}}"#;
        assert_eq!(
            walk_all("apiextensions.k8s.io/v1", "CustomResourceDefinition", json),
            [
                "spec.versions[0].schema.openAPIV3Schema.properties.a.typ: unknown, type?",
                "spec.versions[0].schema.openAPIV3Schema.properties.b.items[0].typo: unknown, type?",
                "spec.versions[0].schema.openAPIV3Schema.additionalProperties.formt: unknown, format?",
            ]
        );
    }

    #[test]
    fn values_of_wrong_types_are_reported_as_in_go() {
        let spec = |rest: &str| {
            format!(r#"{{"spec":{{"install":{{"spec":{{"deployments":[{{"spec":{rest}}}]}}}}}}}}"#)
        };
        for (rest, field, message) in [
            (
                r#"{"paused":"no"}"#,
                "paused",
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.install.spec.deployments.spec.paused of type bool",
            ),
            (
                r#"{"replicas":1.5}"#,
                "replicas",
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.install.spec.deployments.spec.replicas of type int32",
            ),
            (
                r#"{"template":{"spec":{"containers":{}}}}"#,
                "template.spec.containers",
                "json: cannot unmarshal object into Go struct field PodSpec.spec.install.spec.deployments.spec.template.spec.containers of type []v1.Container",
            ),
            (
                r#"{"template":{"spec":{"containers":[{"resources":{"limits":{"memory":"64 Mi"}}}]}}}"#,
                "template.spec.containers[0].resources.limits.memory",
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            (
                r#"{"template":{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}}"#,
                "template.spec.containers[0].livenessProbe.httpGet.port",
                "json: cannot unmarshal bool into Go value of type int32",
            ),
            (
                r#"{"template":{"spec":{"containers":["x"]}}}"#,
                "template.spec.containers[0]",
                "json: cannot unmarshal string into Go struct field PodSpec.spec.install.spec.deployments.spec.template.spec.containers of type v1.Container",
            ),
            (
                r#"{"template":{"metadata":{"labels":{"a.b/c":1}}}}"#,
                "template.metadata.labels[a.b/c]",
                "json: cannot unmarshal number into Go struct field ObjectMeta.spec.install.spec.deployments.spec.template.metadata.labels of type string",
            ),
            (
                r#"{"template":{"metadata":{"creationTimestamp":"today"}}}"#,
                "template.metadata.creationTimestamp",
                "parsing time \"today\" as \"2006-01-02T15:04:05Z07:00\": cannot parse it",
            ),
        ] {
            let expected = format!("spec.install.spec.deployments[0].spec.{field}: {message}");
            let found =
                walk_all("operators.coreos.com/v1alpha1", "ClusterServiceVersion", &spec(rest));
            assert_eq!(found, [expected], "{rest}");
        }
        let fits = r#"{"paused":null,"replicas":1.0,"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[null,{"resources":{"limits":{"cpu":1,"memory":"64Mi"}},"readinessProbe":{"httpGet":{"port":"http"}}}]}}}"#;
        assert_eq!(
            walk_all("operators.coreos.com/v1alpha1", "ClusterServiceVersion", &spec(fits)),
            [""; 0]
        );
    }

    #[test]
    fn deep_and_invalid_json_causes_no_panic() {
        let deep = "[".repeat(100_000);
        for json in [&*deep, "", "{", "1", r#"{"spec":"#, r#"{"spec":{"x":{"#] {
            walk_all("v1", "ConfigMap", json);
        }
    }
}
