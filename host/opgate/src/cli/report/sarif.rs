//! Findings for code scanners, SARIF 2.1.0.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use super::page::RulePages;
use super::sarif_fix::SarifFixes;
use super::{AppliedWaiver, Region, ReportItem, ReportLocation, UnreadableInput, Violation};
use opgate_admission::policy::PolicySet;

/// The rule of results for policy errors.
const POLICY_ERROR: &str = "policy-error";

/// Returns the whole log of a command.
pub(in crate::cli) fn build_log(
    command: &str,
    set: &PolicySet,
    items: &[ReportItem<'_>],
    unreadable: &[UnreadableInput],
    pages: &RulePages,
) -> Value {
    let mut results = Vec::new();
    // Either all results of a run have the member, or none.
    let has_waivers =
        items.iter().flat_map(|item| &item.lines).any(|line| line.violation.waived.is_some());
    let mut rules = RuleIndex::of(set, pages);
    let mut fixes = SarifFixes::new();
    for item in items {
        for line in &item.lines {
            let v = line.violation;
            let index = rules.indexes.get(&(v.policy.as_str(), v.rule.as_str())).copied();
            let mut result =
                result(item, (&v.rule, index), severity(v), &line.sentence(), line.location);
            let parts = [&*v.policy, &v.rule, &v.field, &v.message];
            insert(&mut result, "partialFingerprints", fingerprint(item, line.location, &parts));
            if has_waivers {
                insert(&mut result, "suppressions", suppressions(v.waived.as_ref()));
            }
            if let Some(fixes) = v.fix.as_ref().and_then(|fix| fixes.of(fix, uri)) {
                insert(&mut result, "fixes", fixes);
            }
            results.push(result);
        }
        if let Some(fault) = item.error {
            let index = rules.policy_error_rule();
            let text = fault.sentence();
            let mut result = result(item, (POLICY_ERROR, Some(index)), "error", &text, None);
            let parts = [&*fault.policy, POLICY_ERROR];
            insert(&mut result, "partialFingerprints", fingerprint(item, None, &parts));
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
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": rules.descriptors,
        }},
        // Logs of different commands are different analyses of the same commit.
        "automationDetails": {"id": format!("{}/", command.replace(' ', "-"))},
        "columnKind": "unicodeCodePoints",
        "results": results,
    });
    if !unreadable.is_empty() {
        let notification = |unreadable: &UnreadableInput| {
            let (source, place) = unreadable.position();
            let mut physical = json!({"artifactLocation": {"uri": uri(source)}});
            if let Some((line, column)) = place {
                insert(&mut physical, "region", json!({"startLine": line, "startColumn": column}));
            }
            let (place, text) = (json!({"physicalLocation": physical}), &unreadable.line);
            json!({"level": "error", "message": {"text": text}, "locations": [place]})
        };
        let notifications: Vec<_> = unreadable.iter().map(notification).collect();
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
struct RuleIndex<'s> {
    descriptors: Vec<Value>,
    /// By policy and rule: two policies can be one module.
    indexes: HashMap<(&'s str, &'s str), usize>,
    policy_error_index: Option<usize>,
}

impl<'s> RuleIndex<'s> {
    fn of(set: &'s PolicySet, pages: &RulePages) -> Self {
        let mut rules =
            Self { descriptors: Vec::new(), indexes: HashMap::new(), policy_error_index: None };
        for policy in set.policies() {
            for rule in &policy.descriptor.rules {
                let page = pages.page(&policy.name, &rule.id);
                let sources = rule.sources.join("; ");
                let mut help = json!({"text": page.unwrap_or(&sources)});
                if let Some(page) = page {
                    insert(&mut help, "markdown", json!(page));
                }
                let whole = pages.summary(&policy.name, &rule.id).unwrap_or(&rule.title);
                let configuration = match rule.default.as_str() {
                    "deny" => json!({"level": "error"}),
                    "warn" => json!({"level": "warning"}),
                    _ => json!({"enabled": false}),
                };
                let mut described = json!({
                    "id": rule.id,
                    "shortDescription": {"text": rule.title},
                    "fullDescription": {"text": whole},
                    "help": help,
                    "defaultConfiguration": configuration,
                    "properties": {"tags": [policy.name]},
                });
                if !rule.name.is_empty() {
                    insert(&mut described, "name", json!(rule.name));
                }
                if let Some(url) = pages.url(&policy.name, &rule.id) {
                    insert(&mut described, "helpUri", json!(url));
                }
                rules.indexes.insert((&policy.name, &rule.id), rules.descriptors.len());
                rules.descriptors.push(described);
            }
        }
        rules
    }

    /// Returns the index of the rule for policy errors; adds it with the first one.
    fn policy_error_rule(&mut self) -> usize {
        let described = &mut self.descriptors;
        *self.policy_error_index.get_or_insert_with(|| {
            let text = "a policy returned no valid verdict: it failed, or exceeded a limit";
            described.push(json!({
                "id": POLICY_ERROR,
                "shortDescription": {"text": text},
                "fullDescription": {"text": text},
                "help": {"text": "the text of the result names the cause; docs/configuration.md describes policy errors"},
                "defaultConfiguration": {"level": "error"},
            }));
            described.len() - 1
        })
    }
}

fn result(
    item: &ReportItem<'_>,
    (rule, index): (&str, Option<usize>),
    level: &str,
    text: &str,
    place: Option<&ReportLocation>,
) -> Value {
    let (source, region) = match (place, &item.region) {
        (Some(place), _) => (place.file.as_str(), Some(region_at(place))),
        (None, Some(region)) => (region.file, review_region(region)),
        (None, None) => (item.source, None),
    };
    let mut physical = json!({"artifactLocation": {"uri": uri(source)}});
    if let Some(region) = region {
        insert(&mut physical, "region", region);
    }
    let mut result = json!({
        "ruleId": rule,
        "level": level,
        "message": {"text": text},
        "locations": [{
            "physicalLocation": physical,
            "logicalLocations": [{"fullyQualifiedName": item.object}],
        }],
    });
    if let Some(index) = index {
        insert(&mut result, "ruleIndex", json!(index));
    }
    result
}

/// Returns the region from the location to the end of its line.
fn region_at(place: &ReportLocation) -> Value {
    let length = place.excerpt.trim_end().chars().count();
    let end = u64::try_from(length).unwrap_or(u64::MAX).saturating_add(1);
    let mut region = json!({"startLine": place.line, "startColumn": place.column});
    // The line may be too long to be kept.
    if end > place.column {
        insert(&mut region, "endLine", json!(place.line));
        insert(&mut region, "endColumn", json!(end));
    }
    region
}

/// Returns the lines of a review.
fn review_region(region: &Region<'_>) -> Option<Value> {
    let start = region.start?;
    let mut value = json!({"startLine": start});
    if let Some(end) = region.end {
        insert(&mut value, "endLine", json!(end.max(start)));
    }
    Some(value)
}

/// Returns a fingerprint that is stable when lines are added above: a dismissed violation stays dismissed.
fn fingerprint(item: &ReportItem<'_>, place: Option<&ReportLocation>, parts: &[&str]) -> Value {
    let file = place.map_or(item.source, |place| &place.file);
    let file = uri(file);
    let all: Vec<_> = [&*file, &item.object].iter().chain(parts).copied().collect();
    let digest = opgate_engine::digest(all.join("\0").as_bytes());
    json!({"opgateViolation/v1": digest.trim_start_matches("sha256:")})
}

/// Returns the suppression of a waived violation, which stays a result, with the reason.
fn suppressions(waived: Option<&AppliedWaiver>) -> Value {
    let suppression = |AppliedWaiver { reason, until, .. }: &AppliedWaiver| {
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
    match violation.effect {
        "deny" => "error",
        "warn" => "warning",
        _ => "note",
    }
}

/// Converts a path to a URI reference, with special characters escaped. An absolute path gets a scheme,
/// because without one it would be below the root of the sources.
fn uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let mut uri = String::with_capacity(path.len());
    if Path::new(path).is_absolute() {
        uri.push_str(if path.starts_with('/') { "file://" } else { "file:///" });
    }
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
    fn paths_are_converted_to_uri_references() {
        assert_eq!(uri("a b/ä#2.yaml"), "a%20b/%C3%A4%232.yaml");
        assert_eq!(uri("./a:b.yaml"), "a%3Ab.yaml");
        assert_eq!(uri("/tmp/x y"), "file:///tmp/x%20y");
    }
}
