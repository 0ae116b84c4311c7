//! Annotations that the console, the catalogs and OLM read.
//!
//! ```text
//! Csv ─┬─▶ examples ─▶ example_apis   alm-examples: JSON, objects, and the APIs that they are of
//!      ├─▶ templates                  resources and namespaces to create
//!      ├─▶ features                   what infrastructure the Operator supports
//!      └─▶ properties ─▶ openshift    lists of strings, olm.properties, the last OpenShift version
//! ```
//!
//! The text of an annotation can have more than a megabyte. Lists in it are read in one pass
//! ([`lists`]).

pub(crate) mod example_apis;
pub(crate) mod examples;
pub(crate) mod features;
mod lists;
pub(crate) mod openshift;
pub(crate) mod properties;
pub(crate) mod templates;

use opgate_sdk::{Report, Rule};

use crate::csv::Csv;

pub(crate) fn judge(csv: &mut Csv<'_, '_>) {
    let apis_are_new = example_apis::are_touched(csv);
    if let Some(examples) = examples::judge(csv, apis_are_new) {
        example_apis::judge(csv, &examples);
    }
    templates::judge(csv);
    features::judge(csv);
    properties::judge(csv);
}

/// Bytes of a value that a message repeats.
const SHOWN: usize = 1_024;

/// The field of an annotation.
fn field(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

/// Findings of one rule about elements of a list. Texts are made of as many as a verdict has room
/// for, and the others are counted: a list can have half a million elements.
struct Many {
    rule: &'static Rule,
    count: usize,
}

impl Many {
    fn of(rule: &'static Rule) -> Self {
        Self { rule, count: 0 }
    }

    fn add(&mut self, csv: &mut Csv<'_, '_>, make: impl FnOnce() -> (String, String)) {
        if self.count < Report::ROOM {
            let (field, message) = make();
            csv.add(self.rule, &field, message);
        }
        self.count = self.count.saturating_add(1);
    }

    fn finish(self, csv: &mut Csv<'_, '_>) {
        csv.report.add_more(self.rule, self.count.saturating_sub(Report::ROOM));
    }
}
