//! Whether an Operator is upgradeable, by its OperatorCondition: a port of OLM's
//! `pkg/controller/operators/olm/operatorconditions.go`.
//!
//! ```text
//! spec.overrides ─▶ status.conditions ─▶ spec.conditions
//! ```
//!
//! The first list with an entry of the type `Upgradeable` decides. OLM itself reads only the lists
//! up to `status.conditions`, to which it copies the conditions that an Operator writes to
//! `spec.conditions`.

use opgate_sdk::Document;
use opgate_sdk::go::quote;

/// The only type that OLM interprets.
pub const TYPE: &str = "Upgradeable";

/// An entry of the type `Upgradeable`.
struct Entry {
    index: usize,
    status: String,
    message: String,
}

/// The reason why OLM does not replace the Operator, in OLM's words; none if it does.
#[must_use]
pub fn upgrade_objection(condition: &Document) -> Option<String> {
    if let Some(entry) = find_entry(condition, "/spec/overrides") {
        return (entry.status != "True").then(|| status_message(&entry));
    }
    if let Some(entry) = find_entry(condition, "/status/conditions") {
        let generation = |pointer: &str| condition.integer(pointer).unwrap_or_default();
        let observed = format!("/status/conditions/{}/observedGeneration", entry.index);
        if generation(&observed) != generation("/metadata/generation") {
            let (name, status) = (quote(TYPE), quote(&entry.status));
            return Some(format!("the operatorcondition status {name}={status} is outdated"));
        }
        return (entry.status == "False").then(|| status_message(&entry));
    }
    let entry = find_entry(condition, "/spec/conditions")?;
    (entry.status == "False").then(|| status_message(&entry))
}

fn status_message(entry: &Entry) -> String {
    format!("the operator is not upgradeable: {}", entry.message)
}

fn find_entry(condition: &Document, list: &str) -> Option<Entry> {
    let rows = condition.rows(list, &["/type", "/status", "/message"]);
    let (index, row) = rows.iter().enumerate().find(|(_, row)| row.text(0) == Some(TYPE))?;
    let (status, message) = (row.text_or_empty(1), row.text_or_empty(2));
    Some(Entry { index, status: status.to_owned(), message: message.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_precede_the_last_observed_condition() {
        let entry = |status: &str| {
            format!(
                r#"[{{"type":"Ready","status":"False"}},{{"type":"Upgradeable","status":"{status}","message":"m"}}]"#
            )
        };
        let observed = |status: &str, generation: u32| {
            format!(
                r#"[{{"type":"Upgradeable","status":"{status}","message":"m","observedGeneration":{generation}}}]"#
            )
        };
        let no = Some("the operator is not upgradeable: m");
        let outdated = Some(r#"the operatorcondition status "Upgradeable"="True" is outdated"#);
        // Overrides, conditions of the status, conditions of the spec.
        for (overrides, status, spec, expected) in [
            ("[]", "[]", "[]", None),
            (&*entry("True"), &*observed("False", 3), &*entry("False"), None),
            (&entry("True"), &observed("False", 2), "[]", None),
            (&entry("False"), &observed("True", 3), "[]", no),
            (&entry("Unknown"), &observed("True", 3), "[]", no),
            ("[]", &observed("True", 3), "[]", None),
            ("[]", &observed("Unknown", 3), "[]", None),
            ("[]", &observed("False", 3), "[]", no),
            ("[]", &observed("True", 2), "[]", outdated),
            ("[]", &observed("True", 4), "[]", outdated),
            ("[]", &entry("True"), "[]", outdated),
            ("[]", &observed("True", 3), &entry("False"), None),
            ("[]", "[]", &entry("False"), no),
            ("[]", "[]", &entry("True"), None),
            ("{}", r#"[1,{"type":1}]"#, "null", None),
        ] {
            let json = format!(
                r#"{{"metadata":{{"generation":3}},"spec":{{"overrides":{overrides},"conditions":{spec}}},"status":{{"conditions":{status}}}}}"#
            );
            let condition = Document::parse(&json).unwrap();
            assert_eq!(upgrade_objection(&condition).as_deref(), expected, "{json}");
        }
        let condition =
            Document::parse(&format!(r#"{{"status":{{"conditions":{}}}}}"#, entry("False")));
        assert_eq!(upgrade_objection(&condition.unwrap()).as_deref(), no);
    }
}
