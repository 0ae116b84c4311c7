//! What can be written at a cursor.

use std::ops::Range;

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionList, MarkupContent, MarkupKind, TextEdit,
};
use serde_json::Value;

use crate::annotations::{self, Annotation, AnnotationPlace};
use crate::cursor::{Cursor, Slot};
use crate::lines::LineIndex;
use crate::names::DefinedKind;
use crate::outline::{Key, Outline};
use crate::paths::FileKind;

/// A rule that can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleEntry {
    /// Its id.
    pub id: String,
    /// The policy.
    pub policy: String,
    /// The requirement in one sentence.
    pub title: String,
}

/// The words that a user can write.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// All rules.
    pub rules: Vec<RuleEntry>,
    /// The schema of `opgate.yaml`.
    pub schema: Value,
    /// The schema of files with cases.
    pub case_schema: Value,
}

/// Something that can be written.
struct Choice {
    text: String,
    kind: CompletionItemKind,
    detail: Option<String>,
    documentation: Option<String>,
}

impl Choice {
    fn new(text: impl Into<String>, kind: CompletionItemKind) -> Self {
        Self { text: text.into(), kind, detail: None, documentation: None }
    }

    fn with_documentation(self, text: impl Into<String>) -> Self {
        Self { documentation: Some(text.into()), ..self }
    }
}

/// An open text, for completion.
#[derive(Debug)]
pub struct CompletionContext<'t> {
    /// The kind of the file.
    pub kind: FileKind,
    /// The text.
    pub text: &'t str,
    /// Its lines.
    pub lines: &'t LineIndex,
    /// Its structure.
    pub outline: &'t Outline,
    /// The words.
    pub vocabulary: &'t Vocabulary,
}

/// The types of `spec.installModes`.
const INSTALL_MODES: [(&str, &str); 4] = [
    ("OwnNamespace", "The Operator watches its own namespace"),
    ("SingleNamespace", "The Operator watches one namespace"),
    ("MultiNamespace", "The Operator watches several namespaces"),
    ("AllNamespaces", "The Operator watches all namespaces"),
];

impl CompletionContext<'_> {
    /// Returns what can be written at an offset. `kinds` returns those of the CRDs of the
    /// bundle; they are read only if they are needed.
    #[must_use]
    pub fn complete(&self, offset: usize, kinds: &dyn Fn() -> Vec<DefinedKind>) -> CompletionList {
        let Some(cursor) = Cursor::of(self.text, offset) else { return CompletionList::default() };
        let items =
            self.choices(&cursor, kinds).into_iter().map(|choice| self.item(&cursor, choice));
        CompletionList { is_incomplete: false, items: items.collect(), ..CompletionList::default() }
    }

    fn choices(&self, cursor: &Cursor, kinds: &dyn Fn() -> Vec<DefinedKind>) -> Vec<Choice> {
        match self.kind {
            FileKind::Waivers => self.waiver_choices(cursor),
            FileKind::Cases => self.case_choices(cursor),
            FileKind::Configuration => self.configuration_choices(cursor),
            FileKind::BundleAnnotations => {
                annotation_choices(cursor, &["annotations"], AnnotationPlace::Bundle)
            }
            FileKind::Objects if self.is_csv(cursor) => self.csv_choices(cursor, kinds),
            FileKind::Objects | FileKind::Catalog => Vec::new(),
        }
    }

    fn is_csv(&self, cursor: &Cursor) -> bool {
        let document = self.document(cursor);
        let kind =
            document.and_then(|document| self.outline.text_at(self.text, document, &["kind"]));
        kind.as_deref() == Some("ClusterServiceVersion")
    }

    fn document(&self, cursor: &Cursor) -> Option<usize> {
        self.outline.documents().nth(cursor.document)
    }

    /// Returns the text of a member of the value around a cursor.
    fn sibling(&self, cursor: &Cursor, name: &str) -> Option<String> {
        let around = match cursor.slot {
            Slot::Name => cursor.path.as_slice(),
            Slot::Value => cursor.path.split_last()?.1,
        };
        let node = self.outline.find(self.document(cursor)?, around)?;
        self.outline.text_at(self.text, node, &[name])
    }

    fn waiver_choices(&self, cursor: &Cursor) -> Vec<Choice> {
        match cursor.slot {
            Slot::Value if cursor.is_at(&["waivers", "*", "rule"]) => self.rules(|_| true),
            Slot::Name if cursor.is_at(&["waivers", "*"]) => names(&[
                ("rule", "Id or name of the rule that is waived"),
                ("reason", "The rationale, in up to 512 bytes"),
                ("until", "The last day in UTC, such as 2027-01-31"),
            ]),
            Slot::Name if cursor.path.is_empty() => names(&[("waivers", "The waived rules")]),
            _ => Vec::new(),
        }
    }

    fn case_choices(&self, cursor: &Cursor) -> Vec<Choice> {
        let is_rule = cursor.path.last().is_some_and(|key| key.is("rule"));
        if cursor.slot == Slot::Value && is_rule {
            return self.rules(|_| true);
        }
        let schema = &self.vocabulary.case_schema;
        schema_choices(cursor, &schemas_at(schema, Some(schema), &cursor.path))
    }

    fn csv_choices(&self, cursor: &Cursor, kinds: &dyn Fn() -> Vec<DefinedKind>) -> Vec<Choice> {
        let found = annotation_choices(
            cursor,
            &["metadata", "annotations"],
            AnnotationPlace::ClusterServiceVersion,
        );
        if !found.is_empty() {
            return found;
        }
        let modes = ["spec", "installModes", "*"];
        let owned = ["spec", "customresourcedefinitions", "owned", "*"];
        let is_in = |path: &[&str], name: &str| {
            let mut path = path.to_vec();
            path.push(name);
            cursor.slot == Slot::Value && cursor.is_at(&path)
        };
        if is_in(&modes, "type") {
            let mode = |(mode, meaning): (&str, &str)| {
                Choice::new(mode, CompletionItemKind::EnumMember).with_documentation(meaning)
            };
            return INSTALL_MODES.into_iter().map(mode).collect();
        }
        if is_in(&modes, "supported") {
            return booleans();
        }
        if cursor.slot == Slot::Name && cursor.is_at(&modes) {
            return names(&[
                ("type", "The install mode"),
                ("supported", "Whether the Operator supports it"),
            ]);
        }
        if cursor.slot == Slot::Name && cursor.is_at(&owned) {
            return names(&[
                ("name", "Name of the CustomResourceDefinition"),
                ("kind", "The kind"),
                ("version", "The version"),
                ("displayName", "Name for people"),
                ("description", "Short description"),
            ]);
        }
        let name = self.sibling(cursor, "name");
        let kind = self.sibling(cursor, "kind");
        let choice = |text: &String, detail: &String| Choice {
            detail: Some(detail.clone()),
            ..Choice::new(text.clone(), CompletionItemKind::Class)
        };
        if is_in(&owned, "kind") {
            return kinds().iter().map(|defined| choice(&defined.kind, &defined.name)).collect();
        }
        if is_in(&owned, "name") {
            return kinds().iter().map(|defined| choice(&defined.name, &defined.kind)).collect();
        }
        if is_in(&owned, "version") {
            let is_this = |defined: &&DefinedKind| {
                Some(&defined.name) == name.as_ref() || Some(&defined.kind) == kind.as_ref()
            };
            let kinds = kinds();
            let versions = kinds
                .iter()
                .filter(is_this)
                .flat_map(|d| d.versions.iter().map(|v| choice(v, &d.name)));
            return versions.collect();
        }
        Vec::new()
    }

    fn configuration_choices(&self, cursor: &Cursor) -> Vec<Choice> {
        let policy = self.policy_of(cursor);
        if let Some((policy, rest)) = &policy
            && rest.first().is_some_and(|key| key.is("rules"))
        {
            if cursor.slot == Slot::Name && rest.len() == 1 {
                return self.rules(|rule| rule.policy == *policy);
            }
            if cursor.slot == Slot::Value && rest.len() == 2 {
                let level = |level: &&str| Choice::new(*level, CompletionItemKind::EnumMember);
                return ["deny", "warn", "off"].iter().map(level).collect();
            }
        }
        let schema = &self.vocabulary.schema;
        let schemas = match &policy {
            Some((policy, rest)) if rest.first().is_some_and(|key| key.is("settings")) => {
                let settings = schema.pointer(&format!("/$defs/{policy}-settings"));
                schemas_at(schema, settings, rest.get(1..).unwrap_or_default())
            }
            _ => schemas_at(schema, Some(schema), &cursor.path),
        };
        schema_choices(cursor, &schemas)
    }

    /// Returns the built-in policy that a cursor in `policies` is in, and the path in its entry.
    fn policy_of<'c>(&self, cursor: &'c Cursor) -> Option<(String, &'c [Key])> {
        let [list, item, rest @ ..] = cursor.path.as_slice() else { return None };
        if !list.is("policies") {
            return None;
        }
        let node = self.outline.find(self.document(cursor)?, &[list.clone(), item.clone()])?;
        let text_at = |name: &str| self.outline.text_at(self.text, node, &[name]);
        let policy = match text_at("module") {
            Some(module) => module.strip_prefix("builtin:")?.to_owned(),
            None => text_at("name")?,
        };
        Some((policy, rest))
    }

    fn rules(&self, is_wanted: impl Fn(&RuleEntry) -> bool) -> Vec<Choice> {
        let rules = self.vocabulary.rules.iter().filter(|rule| is_wanted(rule));
        let choice = |rule: &RuleEntry| Choice {
            detail: Some(rule.policy.clone()),
            ..Choice::new(rule.id.clone(), CompletionItemKind::Constant)
                .with_documentation(rule.title.clone())
        };
        rules.map(choice).collect()
    }

    fn item(&self, cursor: &Cursor, choice: Choice) -> CompletionItem {
        let Choice { text, kind, detail, documentation } = choice;
        let range: Range<usize> = cursor.typed.clone();
        let opened = self.text.get(range.clone()).and_then(|typed| typed.chars().next());
        let is_text = cursor.slot == Slot::Name || !is_plain_json(&text);
        let quote = match opened {
            Some('\'') => "'",
            Some('"') => "\"",
            _ if cursor.is_json && is_text => "\"",
            _ => "",
        };
        let is_name = cursor.slot == Slot::Name && !cursor.has_colon;
        let colon = if is_name { ": " } else { "" };
        let new_text = format!("{quote}{text}{quote}{colon}");
        let edit = TextEdit { range: self.lines.range(self.text, &range), new_text };
        CompletionItem {
            // Clients compare what is typed, with its quote, with it.
            filter_text: (!quote.is_empty()).then(|| format!("{quote}{text}{quote}")),
            label: text,
            kind: Some(kind),
            detail,
            documentation: documentation
                .map(|value| MarkupContent { kind: MarkupKind::PlainText, value }.into()),
            text_edit: Some(edit.into()),
            ..CompletionItem::default()
        }
    }
}

fn is_plain_json(text: &str) -> bool {
    matches!(text, "true" | "false" | "null") || text.parse::<f64>().is_ok()
}

fn names(all: &[(&str, &str)]) -> Vec<Choice> {
    let name = |(name, meaning): &(&str, &str)| {
        Choice::new(*name, CompletionItemKind::Property).with_documentation(*meaning)
    };
    all.iter().map(name).collect()
}

fn booleans() -> Vec<Choice> {
    ["true", "false"].map(|value| Choice::new(value, CompletionItemKind::Value)).into()
}

/// Returns the keys of annotations in a map, or the values of one.
fn annotation_choices(cursor: &Cursor, map: &[&str], place: AnnotationPlace) -> Vec<Choice> {
    let all = || annotations::annotations().filter(move |annotation| annotation.place == place);
    if cursor.slot == Slot::Name && cursor.is_at(map) {
        let key = |annotation: Annotation| {
            Choice::new(annotation.key, CompletionItemKind::Property)
                .with_documentation(annotation.meaning)
        };
        return all().map(key).collect();
    }
    let Some((key, around)) = cursor.path.split_last() else { return Vec::new() };
    if cursor.slot == Slot::Value && crate::cursor::ends_with(around, map) {
        let values = all().filter(|annotation| key.is(annotation.key)).flat_map(|a| a.values);
        let value = |value: &str| {
            // Annotations are texts.
            let text = if is_plain_json(value) { format!("\"{value}\"") } else { value.to_owned() };
            Choice::new(text, CompletionItemKind::EnumMember)
        };
        return values.map(value).collect();
    }
    Vec::new()
}

/// Returns the schemas of the value at a path.
fn schemas_at<'s>(root: &'s Value, start: Option<&'s Value>, path: &[Key]) -> Vec<&'s Value> {
    let mut found = Vec::new();
    if let Some(start) = start {
        add_alternatives(root, start, 0, &mut found);
    }
    for key in path {
        let mut next = Vec::new();
        for schema in found {
            let inner = match key {
                Key::Item(_) => schema.get("items"),
                Key::Name(name) => schema
                    .get("properties")
                    .and_then(|properties| properties.get(name))
                    .or_else(|| schema.get("additionalProperties").filter(|more| more.is_object())),
                Key::Document => None,
            };
            if let Some(inner) = inner {
                add_alternatives(root, inner, 0, &mut next);
            }
        }
        found = next;
    }
    found
}

/// Adds a schema and those that it is made of.
fn add_alternatives<'s>(
    root: &'s Value,
    schema: &'s Value,
    depth: usize,
    all: &mut Vec<&'s Value>,
) {
    /// Maximum number of references, one in another.
    const MAX_REFERENCES: usize = 16;
    if depth > MAX_REFERENCES || all.len() > 256 {
        return;
    }
    all.push(schema);
    let reference = schema.get("$ref").and_then(Value::as_str);
    if let Some(pointer) = reference.and_then(|reference| reference.strip_prefix('#'))
        && let Some(target) = root.pointer(pointer)
    {
        add_alternatives(root, target, depth + 1, all);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let parts = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        // Conditions are for single policies.
        for part in parts.filter(|part| part.get("if").is_none()) {
            add_alternatives(root, part, depth + 1, all);
        }
    }
}

/// Returns the members or values of schemas that apply together.
fn schema_choices(cursor: &Cursor, schemas: &[&Value]) -> Vec<Choice> {
    if cursor.slot == Slot::Value {
        return schemas.iter().flat_map(|schema| values(schema)).collect();
    }
    let is_forbidden = |name: &str| {
        let property = |schema: &&Value| schema.get("properties")?.get(name).cloned();
        schemas.iter().filter_map(property).any(|property| property == false)
    };
    let mut all: Vec<Choice> = Vec::new();
    for choice in schemas.iter().flat_map(|schema| members(schema)) {
        if !is_forbidden(&choice.text) && all.iter().all(|known| known.text != choice.text) {
            all.push(choice);
        }
    }
    all
}

fn description(schema: &Value) -> Option<String> {
    schema.get("description").and_then(Value::as_str).map(str::to_owned)
}

fn members(schema: &Value) -> Vec<Choice> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let choice = |(name, schema): (&String, &Value)| Choice {
        documentation: description(schema),
        ..Choice::new(name.clone(), CompletionItemKind::Property)
    };
    properties.into_iter().flatten().map(choice).collect()
}

fn values(schema: &Value) -> Vec<Choice> {
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let texts = listed.chain(schema.get("const")).filter_map(Value::as_str);
    let mut all: Vec<_> =
        texts.map(|text| Choice::new(text, CompletionItemKind::EnumMember)).collect();
    if schema.get("type").and_then(Value::as_str) == Some("boolean") {
        all.extend(booleans());
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vocabulary() -> Vocabulary {
        let rule = |id: &str, policy: &str| RuleEntry {
            id: id.to_owned(),
            policy: policy.to_owned(),
            title: "x".to_owned(),
        };
        Vocabulary {
            rules: vec![rule("A-1", "a"), rule("B-1", "b")],
            schema: json!({
                "properties": {
                    "kind": {"const": "Configuration"},
                    "policies": {"items": {
                        "properties": {"name": {"type": "string"}, "mode": {"enum": ["enforce", "warn"]}},
                        "allOf": [{"if": {}, "then": {"properties": {"never": {}}}}],
                    }},
                },
                "$defs": {"a-settings": {"properties": {"csv": {"properties": {"strict": {"type": "boolean"}}}}}},
            }),
            case_schema: json!({
                "properties": {
                    "rule": {},
                    "accept": {"items": {"allOf": [
                        {"$ref": "#/$defs/case"},
                        {"properties": {"message": false}},
                    ]}},
                },
                "$defs": {"case": {"properties": {"create": {}, "message": {}}}},
            }),
        }
    }

    /// Returns the line of the cursor with each choice.
    fn complete(kind: FileKind, marked: &str) -> Vec<String> {
        let offset = marked.find('^').unwrap();
        let text = marked.replace('^', "");
        let (lines, outline, vocabulary) = (LineIndex::of(&text), Outline::of(&text), vocabulary());
        let context = CompletionContext {
            kind,
            text: &text,
            lines: &lines,
            outline: &outline,
            vocabulary: &vocabulary,
        };
        let kinds = || {
            vec![DefinedKind {
                name: "as.b.c".to_owned(),
                kind: "A".to_owned(),
                versions: vec!["v1".to_owned()],
            }]
        };
        let list = context.complete(offset, &kinds);
        let line = |item: &CompletionItem| {
            let Some(lsp_types::CompletionItemTextEdit::TextEdit(edit)) = &item.text_edit else {
                return String::new();
            };
            let mut made = text.clone();
            let start = lines.offset(&text, edit.range.start);
            made.replace_range(start..lines.offset(&text, edit.range.end), &edit.new_text);
            let (_, line) = LineIndex::of(&made).line(&made, lines.line_of(offset));
            line.trim_start().to_owned()
        };
        list.items.iter().map(line).collect()
    }

    #[test]
    fn choices_fit_their_place() {
        let csv = |rest: &str| format!("kind: ClusterServiceVersion\n{rest}");
        for (kind, text, expected) in [
            (
                FileKind::Waivers,
                "waivers:\n- rule: ^\n".to_owned(),
                &["- rule: A-1", "- rule: B-1"][..],
            ),
            (
                FileKind::Waivers,
                "waivers:\n- r^: x\n".to_owned(),
                &["- rule: x", "- reason: x", "- until: x"],
            ),
            (FileKind::Cases, "rule: ^".to_owned(), &["rule: A-1", "rule: B-1"]),
            (FileKind::Cases, "rule: A-1\naccept:\n- ^".to_owned(), &["- create: "]),
            (
                FileKind::Objects,
                csv("spec:\n  installModes:\n  - type: Own^"),
                &[
                    "- type: OwnNamespace",
                    "- type: SingleNamespace",
                    "- type: MultiNamespace",
                    "- type: AllNamespaces",
                ],
            ),
            (
                FileKind::Objects,
                csv("spec:\n  customresourcedefinitions:\n    owned:\n    - kind: ^\n"),
                &["- kind: A"],
            ),
            (
                FileKind::Objects,
                csv(
                    "spec:\n  customresourcedefinitions:\n    owned:\n    - kind: A\n      version: ^\n",
                ),
                &["version: v1"],
            ),
            (
                FileKind::Objects,
                csv("metadata:\n  annotations:\n    certified: ^"),
                &["certified: \"true\"", "certified: \"false\""],
            ),
            (FileKind::Objects, "kind: Pod\nmetadata:\n  annotations:\n    ^".to_owned(), &[]),
            (FileKind::Configuration, "^".to_owned(), &["kind: ", "policies: "]),
            (FileKind::Configuration, "kind: ^".to_owned(), &["kind: Configuration"]),
            (
                FileKind::Configuration,
                "policies:\n- name: a\n  ^".to_owned(),
                &["mode: ", "name: "],
            ),
            (
                FileKind::Configuration,
                "policies:\n- name: a\n  rules:\n    ^".to_owned(),
                &["A-1: "],
            ),
            (
                FileKind::Configuration,
                "policies:\n- name: a\n  rules: {A-1: ^}".to_owned(),
                &["rules: {A-1: deny}", "rules: {A-1: warn}", "rules: {A-1: off}"],
            ),
            (
                FileKind::Configuration,
                "policies:\n- name: x\n  module: builtin:a\n  settings:\n    csv:\n      strict: ^"
                    .to_owned(),
                &["strict: true", "strict: false"],
            ),
            (
                FileKind::Configuration,
                "{\"policies\": [{\"name\": \"a\", \"mode\": \"^\"}]}".to_owned(),
                &[
                    "{\"policies\": [{\"name\": \"a\", \"mode\": \"enforce\"}]}",
                    "{\"policies\": [{\"name\": \"a\", \"mode\": \"warn\"}]}",
                ],
            ),
        ] {
            let found = complete(kind, &text);
            let expected: Vec<_> =
                expected.iter().map(|line| line.trim_end_matches('\n')).collect();
            assert_eq!(found, expected, "{text}");
        }
        let keys = complete(FileKind::BundleAnnotations, "annotations:\n  operators^\n");
        assert!(keys.contains(&"operators.operatorframework.io.bundle.package.v1: ".to_owned()));
    }
}
