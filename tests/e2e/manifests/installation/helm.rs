//! As much of Helm as the chart uses: `if`, `else if`, `else`, `range`, `end`, texts, `toJson`, `int`, `eq`, `gt`,
//! `hasPrefix`, `trimPrefix`, `printf`, `merge`, `dict`, `coalesce`, `ternary`, `.Capabilities.APIVersions.Has`, parentheses, and paths
//! from `.Values` and `.Release`.
//!
//! ```text
//! template ─▶ texts and actions ─▶ rendered ─▶ YAML ─▶ objects
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Whether the cluster serves a version of an API.
const SERVES_FUNCTION: &str = ".Capabilities.APIVersions.Has";

/// A chart.
pub(super) struct Chart {
    /// The values where nothing is set.
    pub(super) values: Value,
    /// By name.
    pub(super) templates: BTreeMap<String, String>,
}

/// A piece of a template.
enum TemplateToken<'t> {
    Text(&'t str),
    Action(&'t str),
}

impl Chart {
    pub(super) fn read(directory: &Path) -> Self {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let mut templates = BTreeMap::new();
        for entry in std::fs::read_dir(directory.join("templates")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                templates.insert(name, read(&path));
            }
        }
        let values = serde_saphyr::from_str(&read(&directory.join("values.yaml"))).unwrap();
        Self { values, templates }
    }

    /// The objects of a release in a namespace, with these values instead of those of the chart.
    pub(super) fn render(&self, namespace: &str, values: &Value) -> Vec<Value> {
        self.render_for(&["flowcontrol.apiserver.k8s.io/v1"], namespace, values)
    }

    /// As [`render`](Self::render), for a cluster that serves these versions of APIs.
    pub(super) fn render_for(
        &self,
        served: &[&str],
        namespace: &str,
        values: &Value,
    ) -> Vec<Value> {
        let mut all = self.values.clone();
        for (name, value) in values.as_object().unwrap() {
            all[name] = value.clone();
        }
        let context = json!({
            "Values": all,
            "Release": {"Namespace": namespace},
            "Capabilities": {"APIVersions": served},
        });
        let rendered = self.templates.values().map(|template| render_template(template, &context));
        rendered.flat_map(|text| super::documents(&format!("\n{text}"))).collect()
    }
}

fn render_template(template: &str, context: &Value) -> String {
    let mut text = String::new();
    // For each open `if`: whether this branch is taken, and whether one was.
    let mut open: Vec<(bool, bool)> = Vec::new();
    let template = &expand_ranges(template, context);
    for piece in tokenize(template) {
        let is_on = open.iter().all(|(taken, _)| *taken);
        match piece {
            TemplateToken::Text(plain) if is_on => text.push_str(plain),
            TemplateToken::Text(_) => {}
            TemplateToken::Action(action) => {
                let words = action.trim();
                if let Some(condition) = words.strip_prefix("if ") {
                    let holds = is_true(&evaluate(condition, context));
                    open.push((holds, holds));
                } else if let Some(condition) = words.strip_prefix("else if ") {
                    let holds = is_true(&evaluate(condition, context));
                    let (taken, was) = open.last_mut().unwrap();
                    (*taken, *was) = (holds && !*was, holds || *was);
                } else if words == "else" {
                    let (taken, was) = open.last_mut().unwrap();
                    *taken = !*was;
                } else if words == "end" {
                    open.pop().unwrap();
                } else if is_on {
                    text.push_str(&match evaluate(words, context) {
                        Value::String(text) => text,
                        other => other.to_string(),
                    });
                }
            }
        }
    }
    assert!(open.is_empty(), "{template}");
    text
}

/// Repeats the text of a `range` for each item, which the text has as `{{ toJson . }}`. Items have no braces twice.
fn expand_ranges(template: &str, context: &Value) -> String {
    let Some((before, rest)) = template.split_once("{{ range ") else { return template.to_owned() };
    let (list, rest) = rest.split_once(" }}").unwrap();
    let (body, after) = rest.split_once("{{ end }}").unwrap();
    let items = evaluate(list, context);
    let items = items.as_array().into_iter().flatten();
    let repeated: String =
        items.map(|item| body.replace("{{ toJson . }}", &item.to_string())).collect();
    format!("{before}{repeated}{}", expand_ranges(after, context))
}

/// Texts and actions, in turn. `{{-` takes the space before it away.
fn tokenize(template: &str) -> Vec<TemplateToken<'_>> {
    let (mut pieces, mut rest) = (Vec::new(), template);
    while let Some((before, after)) = rest.split_once("{{") {
        // An action may have braces within quotes.
        let mut quoted = false;
        let end = after.char_indices().find(|(at, c)| {
            quoted ^= *c == '"';
            !quoted && after[*at..].starts_with("}}")
        });
        let (action, after) = after.split_at(end.unwrap().0);
        let trimmed = action.strip_prefix('-');
        pieces.push(TemplateToken::Text(if trimmed.is_some() {
            before.trim_end()
        } else {
            before
        }));
        pieces.push(TemplateToken::Action(trimmed.unwrap_or(action)));
        rest = &after[2..];
    }
    pieces.push(TemplateToken::Text(rest));
    pieces
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(holds) => *holds,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// The words of an expression: texts with their quotes, parentheses, names.
fn expression_words(expression: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in expression.chars() {
        quoted ^= c == '"';
        match c {
            '(' | ')' if !quoted => words.extend([c.to_string(), String::new()]),
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn evaluate(expression: &str, context: &Value) -> Value {
    let words = expression_words(expression);
    let (value, rest) = evaluate_call(&words, context);
    assert!(rest.is_empty(), "{expression}");
    value
}

/// A function with its arguments up to a closing parenthesis, or a single operand.
fn evaluate_call<'w>(words: &'w [String], context: &Value) -> (Value, &'w [String]) {
    let (mut arguments, mut rest) = (Vec::new(), words);
    let name = words[0].as_str();
    let is_function = name == SERVES_FUNCTION
        || !name.starts_with(['.', '"', '(']) && name.parse::<f64>().is_err();
    if is_function {
        rest = &rest[1..];
    }
    while let Some(word) = rest.first().filter(|word| *word != ")") {
        rest = &rest[1..];
        arguments.push(match word.as_str() {
            "(" => {
                let (inner, after) = evaluate_call(rest, context);
                rest = &after[1..];
                inner
            }
            path if path.starts_with('.') => {
                path.split('.').skip(1).fold(context.clone(), |value, name| value[name].clone())
            }
            literal => serde_json::from_str(literal).unwrap(),
        });
    }
    let value = match (name, &arguments[..]) {
        (_, [operand]) if !is_function => operand.clone(),
        ("toJson", [value]) => json!(value.to_string()),
        (SERVES_FUNCTION, [version]) => {
            let served = context["Capabilities"]["APIVersions"].as_array().unwrap();
            json!(served.contains(version))
        }
        ("coalesce", values) => {
            values.iter().find(|value| is_true(value)).cloned().unwrap_or_default()
        }
        ("ternary", [yes, no, condition]) => if is_true(condition) { yes } else { no }.clone(),
        ("int", [value]) => {
            json!(value.as_f64().unwrap().trunc().to_string().parse::<i64>().unwrap())
        }
        // One text in another.
        ("printf", [format, text]) => {
            json!(format.as_str().unwrap().replace("%s", text.as_str().unwrap()))
        }
        ("eq", [a, b]) => json!(a == b),
        ("gt", [a, b]) => json!(a.as_i64().unwrap() > b.as_i64().unwrap()),
        ("trimPrefix", [prefix, text]) => {
            let (prefix, text) = (prefix.as_str().unwrap(), text.as_str().unwrap());
            json!(text.strip_prefix(prefix).unwrap_or(text))
        }
        ("hasPrefix", [prefix, text]) => {
            json!(text.as_str().unwrap().starts_with(prefix.as_str().unwrap()))
        }
        ("dict", pairs) => {
            let pairs =
                pairs.chunks(2).map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone()));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        // What is first takes precedence.
        ("merge", [Value::Object(first), Value::Object(second)]) => {
            let mut merged = second.clone();
            merged.extend(first.clone());
            Value::Object(merged)
        }
        _ => panic!("{name} with {} arguments is not known here", arguments.len()),
    };
    (value, rest)
}
