//! Annotations that the console, the catalogs and OLM read.
//!
//! ```text
//! Csv ─┬─▶ examples ─▶ example_apis   alm-examples: JSON, objects, and their APIs
//!      ├─▶ templates                  resources and namespaces to create
//!      ├─▶ features                   infrastructure that the Operator supports
//!      └─▶ properties ─▶ maximum      lists of strings, olm.properties, the last OpenShift version
//! ```
//!
//! The text of an annotation can have more than a megabyte. Lists in it are read in one pass
//! ([`lists`]).

pub(crate) mod example_apis;
pub(crate) mod examples;
pub(crate) mod features;
mod lists;
pub(crate) mod maximum;
pub(crate) mod openshift;
pub(crate) mod properties;
pub(crate) mod templates;

use opgate_sdk::{Report, Rule};

use crate::csv::Csv;

/// Returns the indexes of owned CRDs that lack an example. They are reported together with other
/// missing texts.
pub(crate) fn check(csv: &mut Csv<'_, '_>) -> Vec<usize> {
    let apis_are_new = example_apis::are_touched(csv);
    let examples = examples::check(csv, apis_are_new);
    let without_example = examples.map(|examples| example_apis::check(csv, &examples));
    templates::check(csv);
    features::check(csv);
    properties::check(csv);
    without_example.unwrap_or_default()
}

/// Bytes of a value that a message repeats.
const MAX_SHOWN_BYTES: usize = 1_024;

/// The field of an annotation.
fn field(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

/// Violations of one rule for elements of a list. Makes texts only while a verdict has room for
/// them, and counts the others: a list can have half a million elements.
struct AnnotationViolations {
    rule: &'static Rule,
    count: usize,
}

impl AnnotationViolations {
    fn of(rule: &'static Rule) -> Self {
        Self { rule, count: 0 }
    }

    fn add(&mut self, csv: &mut Csv<'_, '_>, make: impl FnOnce() -> (String, String)) {
        if self.count < Report::MAX_VIOLATIONS {
            let (field, message) = make();
            csv.add(self.rule, &field, message);
        }
        self.count = self.count.saturating_add(1);
    }

    fn finish(self, csv: &mut Csv<'_, '_>) {
        csv.report.add_count(self.rule, self.count.saturating_sub(Report::MAX_VIOLATIONS));
    }
}

#[cfg(test)]
mod tests {
    use opgate_sdk::{Document, GroupVersionResource, Request, RequestParts};
    use serde_json::json;

    use super::*;

    /// The texts of a rule's violations for a new object.
    fn found(rule: &str, object: &serde_json::Value) -> Vec<String> {
        let parts = RequestParts {
            resource: GroupVersionResource {
                group: "operators.coreos.com".to_owned(),
                version: "v1alpha1".to_owned(),
                resource: "clusterserviceversions".to_owned(),
            },
            ..RequestParts::default()
        };
        let request = Request::from(parts);
        // No other rule takes up room in the verdict.
        let rules = crate::POLICY.all_rules().into_iter().filter(|other| other.id != rule);
        let rules: std::collections::BTreeMap<_, _> = rules.map(|r| (r.id, "off")).collect();
        let settings = Document::parse(&json!({"rules": rules}).to_string()).unwrap();
        let object = Document::parse(&object.to_string()).unwrap();
        let routes = crate::POLICY.routes_of(&request, &settings);
        let verdict = crate::POLICY.validate(&request, routes, Some(&object), None, &settings);
        verdict.violations.into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn violations_beyond_the_limit_are_counted() {
        let annotated = |name: &str, list: serde_json::Value| json!({"metadata": {"annotations": {name: list.to_string()}}});
        let kinds: Vec<_> =
            (0..1_000).map(|n| json!({"apiVersion": "a.b/v1", "kind": format!("K{n}")})).collect();
        let mut strangers = annotated("alm-examples", json!(kinds));
        strangers["spec"] = json!({"apiservicedefinitions": {"owned": [{}]}});
        let owned: Vec<_> =
            (0..1_000).map(|n| json!({"name": "a.b", "kind": format!("K{n}")})).collect();
        let mut missing = annotated("alm-examples", json!([]));
        missing["spec"] = json!({"customresourcedefinitions": {"owned": owned}});
        for (rule, object, count) in [
            ("CSV-56", annotated("alm-examples", json!(kinds)), 2_000),
            ("CSV-57", strangers, 1_000),
            ("CSV-58", missing, 1_000),
        ] {
            let found = found(rule, &object);
            assert_eq!(found.len(), Report::MAX_VIOLATIONS, "{rule}");
            let more = format!("{} more violations of this rule", count - Report::MAX_VIOLATIONS);
            assert!(found.last().unwrap().starts_with(&more), "{rule}: {:?}", found.last());
        }
    }
}
