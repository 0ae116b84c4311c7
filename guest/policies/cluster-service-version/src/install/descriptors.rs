//! Descriptors: hints for user interfaces on how to show a field of an API.

use opgate_sdk::corrections;
use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Kind, escape, rule, rules};

use crate::csv::Csv;
use crate::entries::{ChangedList, Entries, RuleViolations};
use crate::targets::{CATALOG, CSV};

rules![CSV_42];

rule! {
    /// descriptors have a path with dots, and no other fields than those of descriptors
    ///
    /// Each entry of `specDescriptors`, `statusDescriptors` and `actionDescriptors`, of owned and
    /// required CRDs and API services, has a `path`. The path is a list of fields with dots in
    /// between: no part is empty, and there are no spaces, and no slashes outside of brackets. In
    /// addition to `path`, the entry has only `displayName`, `description`, `x-descriptors` and
    /// `value`. The content of `x-descriptors` is not checked. `resources[].name` may be empty.
    /// Copies are exempt if OLM writes them or the original exists. An UPDATE is evaluated only if
    /// it changes a list of descriptors.
    ///
    /// # Why
    ///
    /// The console looks for the field that the path names in objects of the API, and shows nothing
    /// if the field is missing. The API server removes fields that it does not know. See OpenShift
    /// 4.12, Operators, *Owned CRDs*.
    ///
    /// # Remediation
    ///
    /// Write the path below `spec` or `status`, without this prefix: `resources.limits` for
    /// `spec.resources.limits`. Remove the field that the message names.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// specDescriptors:
    /// - displayName: Credentials
    ///   path: credentials
    ///   x-descriptors: ['urn:alm:descriptor:com.tectonic.ui:selector:core:v1:Secret']
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// specDescriptors: [{displayName: Size}]
    /// ```
    ///
    /// `message: descriptor specDescriptors[0] of "etcdclusters.etcd.database.coreos.com": path is
    /// required`
    ///
    /// Other ends of the message: `path "spec/size" is not dot-delimited`, `unknown field "type"`
    CSV_42: Warn {
        name: "valid-descriptors",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20419-20466, L20498-20519", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

/// The lists, in the order of their columns.
const LISTS: [&str; 3] = ["specDescriptors", "statusDescriptors", "actionDescriptors"];
const COLUMNS: [&str; 6] =
    ["", "/path", "/displayName", "/description", "/x-descriptors", "/value"];
const MEMBERS: [&str; 5] = ["path", "displayName", "description", "x-descriptors", "value"];

/// Maximum cost of all descriptors that are read, and the cost of a list in descriptors. Lists are
/// read one by one.
const MAX_COST: u32 = 30_000;
const LIST_COST: u32 = 20;

/// Evaluates the descriptors of a list of APIs. `columns` are the columns of the name and of the
/// first list.
pub(super) fn check(
    csv: &mut Csv<'_, '_>,
    pointer: &str,
    place: &str,
    apis: &ChangedList,
    columns: [usize; 2],
) {
    let [name, first] = columns;
    let mut remaining = MAX_COST;
    let mut wrong = RuleViolations::of(&CSV_42);
    for (index, api) in apis.entries().iter() {
        for (column, list) in (first..).zip(LISTS) {
            let length = api.length(column).unwrap_or_default();
            if api.kind(column) != Kind::List || length == 0 {
                continue;
            }
            let Some(rest) = remaining.checked_sub(LIST_COST.saturating_add(length)) else {
                return;
            };
            remaining = rest;
            if wrong.is_full() {
                return;
            }
            let pointer = format!("{pointer}/{index}/{list}");
            if csv.touches_json(&pointer) {
                let field = format!("{place}[{index}].{list}");
                let list = DescriptorList { pointer, field, list, length };
                list.check(csv, api.text_or_empty(name), &mut wrong);
            }
        }
    }
}

struct DescriptorList {
    pointer: String,
    field: String,
    list: &'static str,
    length: u32,
}

impl DescriptorList {
    fn check(&self, csv: &mut Csv<'_, '_>, api: &str, wrong: &mut RuleViolations) {
        let object = csv.object;
        let entries = Entries::read_first_of(self.length, object, &self.pointer, &COLUMNS);
        for (index, row) in entries.iter() {
            if wrong.is_full() {
                return;
            }
            let at = |member: &str| {
                let is_plain = !member.contains(['.', '[', ']']);
                let member = if is_plain { format!(".{member}") } else { format!("[{member}]") };
                format!("{}[{index}]{member}", self.field)
            };
            let say =
                |why: &str| format!("descriptor {}[{index}] of {}: {why}", self.list, quote(api));
            match row.text_or_empty(1) {
                "" => wrong.add(csv, || [at("path"), say("path is required")]),
                path if is_delimited(path) => {}
                path => {
                    wrong.add(csv, || {
                        [at("path"), say(&format!("path {} is not dot-delimited", quote(path)))]
                    });
                    csv.fix(&CSV_42, || {
                        let parts = path.split(['.', '/']).map(str::trim);
                        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
                        // The path begins below the spec or the status.
                        let parts = match &parts[..] {
                            ["spec" | "status", rest @ ..] if !rest.is_empty() => rest,
                            parts => parts,
                        };
                        let dotted = parts.join(".");
                        let pointer = format!("{}/{index}/path", self.pointer);
                        is_delimited(&dotted).then(|| corrections::propose(pointer, &dotted))
                    });
                }
            }
            let known = (1..COLUMNS.len()).filter(|&column| row.kind(column) != Kind::Missing);
            if row.length(0).is_none_or(|members| u32::try_from(known.count()) == Ok(members)) {
                continue;
            }
            let members = object.keys(&format!("{}/{index}", self.pointer));
            for member in members.iter().filter(|member| !MEMBERS.contains(&member.as_str())) {
                wrong.add(csv, || [at(member), say(&format!("unknown field {}", quote(member)))]);
                csv.fix(&CSV_42, || {
                    let meant = corrections::word(member, &MEMBERS)?;
                    let is_there = members.iter().any(|member| member == meant);
                    let pointer = format!("{}/{index}/{}", self.pointer, escape(member));
                    let fix = Fix::safe(format!("rename the field to {meant}"));
                    (!is_there).then(|| fix.rename_key(pointer, meant))
                });
            }
        }
    }
}

/// Whether a path consists of fields with dots in between. Names of fields in brackets may have any
/// letters: `annotations["example.com/a"]`.
fn is_delimited(path: &str) -> bool {
    if path.contains('[') {
        return !path.starts_with(['.', '/']);
    }
    !path.contains(|letter: char| letter == '/' || letter.is_whitespace())
        && path.split('.').all(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_dots() {
        for path in [
            "size",
            "resources.limits",
            "pods[0].name",
            "a.b-c_d",
            "$.x",
            "annotations[\"example.com/a b\"]",
            "a\\.b",
        ] {
            assert!(is_delimited(path), "{path}");
        }
        for path in ["", ".", "a.", ".a", "a..b", "spec/size", "/size", "a b", " ", "/a[0]", ".[0]"]
        {
            assert!(!is_delimited(path), "{path}");
        }
    }
}
