//! The description of a ClusterServiceVersion: its name, its versions, and the texts that users
//! read.
//!
//! ```text
//! Csv ─┬─ names      its name, and the versions that it replaces
//!      ├─ versions   its version and release
//!      ├─ kube       the Kubernetes version that it needs
//!      ├─ required   fields that the documents require
//!      ├─ contacts   maintainers and links
//!      ├─ looks      maturity, icon, selector
//!      └─ metadata   annotations
//! files ─ header     apiVersion and kind
//! ```

pub(crate) mod contacts;
pub(crate) mod header;
pub(crate) mod kube;
pub(crate) mod looks;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod required;
pub(crate) mod versions;

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Report, Row, Rule};

use crate::csv::Csv;
use crate::object::Object;

/// Maximum number of elements of a list that the rules evaluate. No ClusterServiceVersion that
/// authors write has a hundredth of it, and an object has room for hundreds of thousands.
const MAX_ELEMENTS: u32 = 4_096;

/// Maximum size of a version or a version range that is parsed, in bytes. Parsing takes up to fifty
/// times as much memory as the text, and a version is part of names of at most 63 bytes.
const MAX_VERSION_BYTES: usize = 16 << 10;

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    names::check(csv);
    versions::check(csv);
    kube::check(csv);
    required::check(csv);
    contacts::check(csv);
    looks::check(csv);
    metadata::check(csv);
}

/// Adds violations. Makes the field and the message only while a verdict has room for violations,
/// and counts the others.
fn add_all<T>(
    csv: &mut Csv<'_, '_>,
    rule: &'static Rule,
    found: impl IntoIterator<Item = T>,
    say: impl Fn(T) -> (String, String),
) {
    let mut found = found.into_iter();
    for thing in found.by_ref().take(Report::MAX_VIOLATIONS) {
        let (field, message) = say(thing);
        csv.add(rule, &field, message);
    }
    csv.report.add_count(rule, found.count());
}

/// Visits the first elements of a list, with the values at the columns.
fn visit_first(
    object: &Object<'_>,
    list: &str,
    columns: &[&str],
    mut visit: impl FnMut(u32, Row<'_>),
) {
    let length = object.length(list).unwrap_or_default();
    if length <= MAX_ELEMENTS {
        for (index, row) in (0..).zip(object.rows(list, columns).iter()) {
            visit(index, row);
        }
    } else {
        for index in 0..MAX_ELEMENTS {
            let fields = object.fields(&format!("{list}/{index}"), columns);
            for row in fields.iter() {
                visit(index, row);
            }
        }
    }
}

/// The beginning of a text, for a message that reports its length.
fn quote_start(text: &str) -> String {
    quote(&shorten(text, 64))
}

/// Whether to run one of the validators that are optional upstream: the setting `bundle.optional`
/// selects it by its label, or its rule has a configured level.
pub(crate) fn is_selected(csv: &Csv<'_, '_>, rule: &Rule, validators: &[&str]) -> bool {
    let is_label = |label: &String| {
        let name = label.strip_prefix("name=").unwrap_or(label);
        label == "suite=operatorframework" || validators.contains(&name)
    };
    csv.is_on(rule)
        && (csv.report.is_configured(rule)
            || csv.review.settings.texts("/bundle/optional").iter().any(is_label))
}
