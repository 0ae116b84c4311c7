//! Findings for code scanners, SARIF 2.1.0.

use serde_json::{Value, json};

use super::page::Pages;
use super::{At, Item, Unread, Violation, Waived};
use opgate_admission::policy::Set;

/// The whole log.
pub(in crate::cli) fn log(
    set: &Set,
    items: &[Item<'_>],
    unread: &[Unread],
    pages: &Pages,
) -> Value {
    let mut results = Vec::new();
    // Either all results of a run have the member, or none.
    let has_waivers =
        items.iter().flat_map(|item| &item.lines).any(|line| line.violation.waived.is_some());
    for item in items {
        for line in &item.lines {
            let v = line.violation;
            let mut result = result(item, &v.rule, severity(v), &line.sentence(), line.place);
            if has_waivers {
                insert(&mut result, "suppressions", suppressions(v.waived.as_ref()));
            }
            results.push(result);
        }
        if let Some(fault) = item.error {
            let mut result = result(item, "fault", "error", &fault.sentence(), None);
            if has_waivers {
                insert(&mut result, "suppressions", suppressions(None));
            }
            results.push(result);
        }
    }
    let mut run = json!({
        "tool": {"driver": {
            "name": "opgate",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rules(set, pages),
        }},
        "results": results,
    });
    if !unread.is_empty() {
        let notification = |Unread { source, line }: &Unread| {
            let place = json!({"physicalLocation": {"artifactLocation": {"uri": uri(source)}}});
            json!({"level": "error", "message": {"text": line}, "locations": [place]})
        };
        let notifications: Vec<_> = unread.iter().map(notification).collect();
        let invocation =
            json!({"executionSuccessful": false, "toolExecutionNotifications": notifications});
        insert(&mut run, "invocations", json!([invocation]));
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    })
}

/// The rules of all policies, each with its page.
fn rules(set: &Set, pages: &Pages) -> Vec<Value> {
    let mut rules = Vec::new();
    for policy in set.policies() {
        for rule in &policy.descriptor.rules {
            let mut help = json!({"text": rule.source});
            if let Some(page) = pages.page(&policy.name, &rule.id) {
                insert(&mut help, "markdown", json!(page));
            }
            let mut described =
                json!({"id": rule.id, "shortDescription": {"text": rule.title}, "help": help});
            if let Some(url) = pages.url(&policy.name, &rule.id) {
                insert(&mut described, "helpUri", json!(url));
            }
            rules.push(described);
        }
    }
    rules
}

fn result(item: &Item<'_>, rule: &str, level: &str, text: &str, place: Option<&At>) -> Value {
    let source = place.map_or_else(|| item.uri.clone(), |place| uri(&place.file));
    let mut physical = json!({"artifactLocation": {"uri": source}});
    if let Some(place) = place {
        let region = json!({"startLine": place.line, "startColumn": place.column});
        insert(&mut physical, "region", region);
    }
    json!({
        "ruleId": rule,
        "level": level,
        "message": {"text": text},
        "locations": [{
            "physicalLocation": physical,
            "logicalLocations": [{"fullyQualifiedName": item.object}],
        }],
    })
}

/// What is waived stays a result, with the reason.
fn suppressions(waived: Option<&Waived>) -> Value {
    let suppression = |Waived { reason, until, .. }: &Waived| {
        let mut suppression = json!({"kind": "external", "justification": reason});
        if let Some(until) = until {
            insert(&mut suppression, "properties", json!({"until": until}));
        }
        suppression
    };
    waived.map(suppression).into_iter().collect()
}

/// Adds a member to an object.
fn insert(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

fn severity(violation: &Violation) -> &'static str {
    match violation.level {
        "deny" => "error",
        "warn" => "warning",
        _ => "note",
    }
}

/// A path as a reference: what is special there is escaped.
pub(in crate::cli) fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "-._~/".contains(c) => uri.push(c),
            _ => {
                // Writing to a text does not fail.
                let _ = std::fmt::Write::write_fmt(&mut uri, format_args!("%{byte:02X}"));
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_references() {
        assert_eq!(uri("a b/ä#2.yaml"), "a%20b/%C3%A4%232.yaml");
    }
}
