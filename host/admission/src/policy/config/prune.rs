//! Files with several errors: the invalid parts are cut out of the value, and the rest is read
//! again, so that all errors are reported in one run.

use serde_json::{Map, Value, json};

/// Maximum number of reported errors of one file.
pub(super) const MAX_ERRORS: usize = 64;

/// Cuts out the value at a pointer. Returns whether that removed anything.
///
/// An element of `policies` is replaced by one that has no effect, so that the positions of the
/// others stay. Other lists are emptied.
pub(super) fn remove_value(value: &mut Value, pointer: &str) -> bool {
    let Some((around, name)) = pointer.rsplit_once('/') else { return false };
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(around) {
        Some(Value::Object(members)) => members.remove(&name).is_some(),
        Some(Value::Array(elements)) if around == "/policies" => {
            let Ok(index) = name.parse::<usize>() else { return false };
            let Some(element) = elements.get_mut(index) else { return false };
            // Not a name in use: it has the maximum length of a name.
            let nothing = json!({"name": format!("x{index:039}"), "module": "-", "mode": "off"});
            std::mem::replace(element, nothing.clone()) != nothing
        }
        Some(Value::Array(_)) => remove_value(value, around),
        _ => false,
    }
}

/// Adds a member that is required to read any of the file.
pub(super) fn add_required_members(value: &mut Value) -> bool {
    let Some(members) = value.as_object_mut() else { return false };
    let add = |members: &mut Map<String, Value>, name: &str| {
        let is_new = !members.contains_key(name);
        if is_new {
            members.insert(name.to_owned(), Value::String(String::new()));
        }
        is_new
    };
    let (version, kind) = (add(members, "apiVersion"), add(members, "kind"));
    version || kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_parts_are_removed_and_the_rest_is_kept() {
        let all = json!({"a": {"b~/c": [1, 2], "d": 3}, "policies": [{"x": 1}, {"name": "a"}]});
        for (pointer, expected) in [
            ("", None),
            ("/nowhere", None),
            ("/a/d", Some(json!({"a": {"b~/c": [1, 2]}, "policies": [{"x": 1}, {"name": "a"}]}))),
            ("/a/b~0~1c/1", Some(json!({"a": {"d": 3}, "policies": [{"x": 1}, {"name": "a"}]}))),
            ("/policies/7", None),
        ] {
            let mut value = all.clone();
            assert_eq!(remove_value(&mut value, pointer).then_some(value), expected, "{pointer}");
        }
        let mut value = all.clone();
        assert!(remove_value(&mut value, "/policies/0"));
        assert_eq!(value["policies"][0]["mode"], "off");
        assert_eq!(value["policies"][1], all["policies"][1]);
        assert!(!remove_value(&mut value, "/policies/0"), "it cannot be cut twice");
    }
}
