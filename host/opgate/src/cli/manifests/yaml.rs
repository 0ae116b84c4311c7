//! A value as YAML for people: lists of words in one line, `name` before what belongs to it.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use serde_saphyr::{FlowSeq, SerializeError, ser_options};

/// The text, with a line break at its end. What some reader of YAML, also of version 1.1, would not
/// take for a text has quotes.
///
/// # Errors
/// Never for JSON.
pub(super) fn text(value: &Value) -> Result<String, SerializeError> {
    let options = ser_options! { compact_list_indent: false, prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&Readable(value), options)
}

/// A value that is written in that order and form.
struct Readable<'v>(&'v Value);

impl Serialize for Readable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(name, _)| *name != "name");
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, &Readable(value))?;
                }
                map.end()
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                serializer.collect_seq(items.iter().map(Readable))
            }
            Value::Array(items) => FlowSeq(items).serialize(serializer),
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
    fn what_is_printed_reads_as_what_was_meant() {
        let wanted = [
            requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITES),
            within("on", requests("", &["v1"], &["configmaps"], WRITES)),
            requests("*", &["*"], &["*/*"], &[Operation::Delete]),
        ];
        let odd = json!({
            "name": "n",
            "texts": ["", "null", "No", "1e3", ".5", "-", "a b", "a: b", "# c", "é\n\t\"\\", "a"],
            "y": {},
            "list": [{"b": [], "name": true}, "x", {}, {"a": {"b": [{"c": -1}]}}],
            "nothing": null,
        });
        for value in [printed(&[policy("a", &wanted)]), printed(&[]), odd, json!({})] {
            let text = text(&value).unwrap();
            let read =
                opgate_input::yaml::Located::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(read.value, value, "{text}");
        }
    }
}
