//! What a ClusterServiceVersion says about itself: its name and versions, and what people read.
//!
//! ```text
//! Csv ─┬─ names      its name, and the versions that it replaces
//!      ├─ versions   its version and release
//!      ├─ kube       the Kubernetes that it needs
//!      ├─ required   what the documents want every version to say
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

use opgate_sdk::go::{quote, shortened};
use opgate_sdk::{Report, Row, Rule};

use crate::csv::Csv;
use crate::object::Object;

/// Elements of a list that are looked at. No ClusterServiceVersion that people write has a hundredth
/// of it, and an object has room for hundreds of thousands.
const ELEMENTS: u32 = 4_096;

/// Bytes of a version or a range of versions that are parsed: that takes up to fifty times as much
/// memory, and a version is written into names of at most 63 bytes.
const LONGEST: usize = 16 << 10;

pub(crate) fn judge(csv: &mut Csv<'_, '_>) {
    names::judge(csv);
    versions::judge(csv);
    kube::judge(csv);
    required::judge(csv);
    contacts::judge(csv);
    looks::judge(csv);
    metadata::judge(csv);
}

/// Adds findings: each is a field and a message as long as a verdict has room for them, and is
/// counted afterwards.
fn add_each<T>(
    csv: &mut Csv<'_, '_>,
    rule: &'static Rule,
    found: impl IntoIterator<Item = T>,
    say: impl Fn(T) -> (String, String),
) {
    let mut found = found.into_iter();
    for thing in found.by_ref().take(Report::ROOM) {
        let (field, message) = say(thing);
        csv.add(rule, &field, message);
    }
    csv.report.add_more(rule, found.count());
}

/// Visits the first elements of a list, with the values at the columns.
fn first(object: &Object<'_>, list: &str, columns: &[&str], mut visit: impl FnMut(u32, Row<'_>)) {
    let length = object.length(list).unwrap_or_default();
    if length <= ELEMENTS {
        for (index, row) in (0..).zip(object.rows(list, columns).iter()) {
            visit(index, row);
        }
    } else {
        for index in 0..ELEMENTS {
            let fields = object.fields(&format!("{list}/{index}"), columns);
            for row in fields.iter() {
                visit(index, row);
            }
        }
    }
}

/// A text for a message about its length.
fn start(text: &str) -> String {
    quote(&shortened(text, 64))
}

/// Whether one of the validators that are optional upstream is to run: the setting
/// `bundle.optional` selects it by its label, or its rule has a configured level.
pub(crate) fn is_selected(csv: &Csv<'_, '_>, rule: &Rule, validators: &[&str]) -> bool {
    let is_label = |label: &String| {
        let name = label.strip_prefix("name=").unwrap_or(label);
        label == "suite=operatorframework" || validators.contains(&name)
    };
    csv.is_on(rule)
        && (csv.report.is_configured(rule)
            || csv.review.settings.texts("/bundle/optional").iter().any(is_label))
}
