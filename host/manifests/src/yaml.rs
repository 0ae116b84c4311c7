//! A value as readable YAML: lists of words in one line, `name` before what belongs to it, `apiVersion` and
//! `kind` before everything, and texts of several lines as such.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use serde_saphyr::{FlowSeq, LitStr, SerializeError, ser_options};

/// Returns the text, with a line break at its end. What some reader of YAML, also of version 1.1, would not
/// take for a text has quotes.
///
/// # Errors
/// Never for JSON.
pub fn text(value: &Value) -> Result<String, SerializeError> {
    let options = ser_options! { compact_list_indent: false, prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&OrderedValue(value), options)
}

/// Objects, a document each.
///
/// # Errors
/// Never for JSON.
pub fn documents(objects: &[Value]) -> Result<String, SerializeError> {
    let documents: Result<Vec<_>, _> = objects.iter().map(text).collect();
    Ok(documents?.join("---\n"))
}

/// Reports whether YAML can contain a text of several lines unquoted.
fn is_plain(text: &str) -> bool {
    let plain = |line: &str| {
        !line.starts_with([' ', '\t'])
            && !line.ends_with([' ', '\t'])
            && !line.contains(|c: char| {
                c != '\n' && (c.is_control() || !('\u{20}'..'\u{7f}').contains(&c))
            })
    };
    let first = text.lines().next().is_some_and(|line| !line.is_empty() && plain(line));
    let rest = text.lines().all(|line| plain(line.trim_start_matches(' ')));
    first && rest && text.ends_with('\n') && !text.ends_with("\n\n") && text.lines().count() > 1
}

/// A value that is written in this order and style.
struct OrderedValue<'v>(&'v Value);

/// The first keys, in this order.
const FIRST_KEYS: [&str; 3] = ["apiVersion", "kind", "name"];

impl Serialize for OrderedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                let first = |name: &str| FIRST_KEYS.iter().position(|first| *first == name);
                members.sort_by_key(|(name, _)| first(name).unwrap_or(FIRST_KEYS.len()));
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, &OrderedValue(value))?;
                }
                map.end()
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                serializer.collect_seq(items.iter().map(OrderedValue))
            }
            Value::Array(items) => FlowSeq(items).serialize(serializer),
            Value::String(text) if is_plain(text) => LitStr(text).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registration::testing::*;
    use opgate_admission::review::Operation;

    #[test]
    fn printed_yaml_reads_back_equal() {
        let wanted = [
            requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITE_OPERATIONS),
            in_namespace("on", requests("", &["v1"], &["configmaps"], WRITE_OPERATIONS)),
            requests("*", &["*"], &["*/*"], &[Operation::Delete]),
        ];
        let odd = json!({
            "name": "n",
            "texts": ["", "null", "No", "1e3", ".5", "-", "a b", "a: b", "# c", "é\n\t\"\\", "a"],
            "y": {},
            "list": [{"b": [], "name": true}, "x", {}, {"a": {"b": [{"c": -1}]}}],
            "nothing": null,
            "lines": [
                "a: b\n# c\nd:\n  - e\n\n  - f\n", "a\n", "a\nb", " a\nb\n", "a\n b \n", "a\n\n", "\na\n",
                "a\n\tb\n", "a\n  \nb\n", "é\nb\n", "---\n...\n",
            ],
            "text": "one\n  two\nthree\n",
        });
        for value in
            [configuration_json(&[policy("a", &wanted)]), configuration_json(&[]), odd, json!({})]
        {
            let text = text(&value).unwrap();
            let read = opgate_input::yaml::LocatedValue::read(&text)
                .unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(read.value, value, "{text}");
        }
    }
}
