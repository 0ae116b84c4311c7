//! `watches.yaml` in the project of an Ansible or Helm Operator.
//!
//! ```text
//! OperatorProject ─▶ its first document ─▶ entries ─▶ Entry: members by name, without case
//!                                                      ├─▶ MSC-12   role and playbook
//!                                                      ├─▶ MSC-13   names, path, types
//!                                                      └─▶ MSC-21   the chart
//! ```
//!
//! The Operators read the file like Go's JSON decoder, after a conversion from YAML: names match
//! without case, the last one of a name counts, numbers and booleans become strings where a string
//! is required, and unknown members are ignored. Ansible Operators first replace `$NAME` and
//! `${NAME}` with environment variables. The resulting values are unknown, so the policy accepts
//! them.

use std::collections::HashSet;

use opgate_compat::go::{duration, folds_to};
use opgate_compat::json::{self, Child, Kind};
use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Fix, Level, Report, Review, corrections, escape, rule, rules};

use crate::targets::PROJECT;

rules![MSC_12, MSC_13, MSC_21];

/// The only file of the document that represents a project.
const FILE: &str = "/spec/files/0";
const FIELD: &str = "spec.files[0]";
/// Maximum bytes of the file as JSON. A result of a host call holds 4 MiB.
const MAX_FILE_BYTES: u32 = 2 << 20;
/// Maximum bytes of a value in a message.
const MAX_SHOWN_BYTES: usize = 256;

rule! {
    /// an entry of watches.yaml does not have both a role and a playbook
    ///
    /// No entry of `watches.yaml` has both `role` and `playbook`. Empty strings count as absent.
    ///
    /// # Why
    ///
    /// The fields are mutually exclusive (OpenShift 4.12, Operators, *watches.yaml file*). The
    /// Operator runs the playbook and ignores the role, without an error.
    ///
    /// # Remediation
    ///
    /// Remove one of them. A playbook can call roles.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// - {version: v1alpha1, group: test1.example.com, kind: Test1, role: /opt/ansible/roles/Test1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// - version: v1alpha1
    ///   group: test1.example.com
    ///   kind: Test1
    ///   role: /opt/ansible/roles/Test1
    ///   playbook: /opt/ansible/playbook.yml
    /// ```
    ///
    /// `message: role and playbook are mutually exclusive for test1.example.com/v1alpha1 Test1`
    MSC_12: Deny {
        name: "watches-no-role-with-playbook",
        on: [PROJECT: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L14269-14282", "OCP 4.15 L10739-10805"],
    }
}

rule! {
    /// an Operator can read its watches.yaml
    ///
    /// The first document of `watches.yaml` is a list. Each entry has a non-empty `group`,
    /// `version` and `kind`, and no two entries have the same ones. It has a `role`, a `playbook`
    /// or a `chart`. `reconcilePeriod` is a duration such as `5s`, or 0. `manageStatus`,
    /// `watchDependentResources`, `watchClusterScopedResources`, `snakeCaseParameters`,
    /// `watchAnnotationsChanges` and `markUnsafe` are booleans, `maxRunnerArtifacts` and
    /// `maxConcurrentReconciles` whole numbers, `vars`, `selector`, `overrideValues` and
    /// `finalizer` maps, `blacklist` is a list. Values of `overrideValues` are not lists or maps. A
    /// `finalizer` has a `name`, and a `role`, a `playbook` or `vars`. The rule compares names
    /// without case. It accepts a value with a `$`, which refers to an environment variable.
    /// Entries are counted from 0. The rule denies an unreadable file.
    ///
    /// # Why
    ///
    /// The Operator reads the file when it starts, and stops at the first error (OpenShift 4.12,
    /// Operators, *watches.yaml file*; `internal/ansible/watches` of ansible-operator-plugins,
    /// `pkg/watches` of helm-operator-plugins). It reports no error only for a missing group, but
    /// then it watches a kind of the core group.
    ///
    /// # Remediation
    ///
    /// The message names the entry, the member and the required value. Add a missing `group`,
    /// `version` or `kind` from the CRD that the Operator watches, and one of `role`, `playbook`
    /// and `chart`. Write booleans and numbers without quotes, and durations with a unit. Remove
    /// one of two entries for the same kind.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// - {group: a.b, version: v1, kind: K, playbook: p.yml, reconcilePeriod: 0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// - {version: v1, kind: K, role: r}
    /// ```
    ///
    /// `message: watches.yaml entry 0: group must not be empty`
    MSC_13: Warn {
        name: "valid-watches-file",
        on: [PROJECT: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L14237-14466, L15169-15173, L15636-15743, L16738-16744, L19661-19678", "operator-framework/ansible-operator-plugins internal/ansible/watches/watches.go", "operator-framework/helm-operator-plugins pkg/watches/watches.go"],
    }
}

rule! {
    /// the chart of an entry of watches.yaml exists
    ///
    /// `chart` of each entry of `watches.yaml` is a directory or an archive in the project,
    /// relative to the directory of `watches.yaml`. Absolute paths, paths with `..` and values with
    /// a `$` may refer to files outside of the project: the policy skips the rule for such an
    /// entry. Entries are counted from 0.
    ///
    /// # Why
    ///
    /// The Operator loads the charts when it starts, and stops if one is missing (`pkg/watches` of
    /// helm-operator-plugins). The paths are those of its image, into which the `Dockerfile` of the
    /// project copies `helm-charts` (OpenShift 4.12, Operators, *Helm-based Operators*).
    ///
    /// # Remediation
    ///
    /// Correct the path, or add the chart. If the chart has another path in the image than in the
    /// project, write the absolute path in the image.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The project has the directory helm-charts/nginx.
    /// - {group: demo.example.com, version: v1alpha1, kind: Nginx, chart: helm-charts/nginx}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// - {group: demo.example.com, version: v1alpha1, kind: Nginx, chart: helm-charts/missing}
    /// ```
    ///
    /// `message: watches.yaml[0]: chart "helm-charts/missing" does not exist`
    MSC_21: Warn {
        name: "watches-chart-exists",
        on: [PROJECT: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L15636", "operator-framework/helm-operator-plugins pkg/watches/watches.go"],
    }
}

/// The rule evaluates a project independently of its published version.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.object else { return };
    if let Some(why) = object.text(&format!("{FILE}/error/message")) {
        let message = format!("watches.yaml cannot be read: {why}");
        return report.add_as(Level::Deny, &MSC_13, format!("{FIELD}.error"), message);
    }
    if let Some(why) = object.text(&format!("{FILE}/twice/message")) {
        let message = format!("watches.yaml: {why}; the last one counts");
        report.add(&MSC_13, format!("{FIELD}.twice"), message);
    }
    let (pointer, field) = (format!("{FILE}/documents/0"), format!("{FIELD}.documents[0]"));
    if object.size(&pointer).is_some_and(|size| size > MAX_FILE_BYTES) {
        let why = "watches.yaml is too large to be evaluated";
        report.skip(&MSC_12, &field, why);
        report.skip(&MSC_21, &field, why);
        return report.skip(&MSC_13, &field, why);
    }
    // A file without a document has no entries.
    let Some(raw) = object.raw(&pointer) else { return };
    if json::kind(&raw) != Some(Kind::List) {
        return report.add(&MSC_13, &field, "watches.yaml: must be a list of entries");
    }
    let charts = object.texts("/spec/directories").into_iter().collect();
    let mut file = WatchesFile { field: &field, known: HashSet::new(), charts, report };
    let mut index = 0_usize;
    // The host has checked that it is JSON.
    let _ = json::each_child(&raw, |entry| {
        file.check_entry(index, &entry);
        index = index.saturating_add(1);
    });
}

/// The members of a map, in the order of the names; the last one of a name counts.
struct Members<'j, const N: usize>([Option<Child<'j>>; N]);

impl<'j, const N: usize> Members<'j, N> {
    fn of(raw: &'j [u8], names: [&str; N]) -> Self {
        let mut found = [const { None }; N];
        let _ = json::each_child(raw, |child| {
            let Some(key) = child.key.map(json::decode_text) else { return };
            let at = names.iter().position(|name| folds_to(&key, name));
            if let Some(found) = at.and_then(|at| found.get_mut(at)) {
                *found = (child.kind != Kind::Null).then_some(child);
            }
        });
        Self(found)
    }

    fn get(&self, at: usize) -> Option<&Child<'j>> {
        self.0.get(at)?.as_ref()
    }

    /// A value as a string; empty if there is none.
    fn text(&self, at: usize) -> String {
        match self.get(at) {
            Some(child) if child.kind == Kind::Text => json::text(child.raw),
            Some(child) if is_scalar(child) => String::from_utf8_lossy(child.raw).into_owned(),
            _ => String::new(),
        }
    }

    /// A map with entries.
    fn map(&self, at: usize) -> Option<&'j [u8]> {
        let map = self.get(at).filter(|child| child.kind == Kind::Object)?.raw;
        let mut any = false;
        let _ = json::each_child(map, |_| any = true);
        any.then_some(map)
    }
}

fn is_scalar(child: &Child<'_>) -> bool {
    !matches!(child.kind, Kind::List | Kind::Object)
}

/// Whether an environment variable determines the value.
fn is_variable(child: &Child<'_>) -> bool {
    child.kind == Kind::Text && child.raw.contains(&b'$')
}

/// The members of an entry.
const MEMBERS: [&str; 20] = [
    "group",
    "version",
    "kind",
    "role",
    "playbook",
    "chart",
    RECONCILE_PERIOD,
    OVERRIDE_VALUES,
    FINALIZER,
    "manageStatus",
    "watchDependentResources",
    "watchClusterScopedResources",
    "snakeCaseParameters",
    "watchAnnotationsChanges",
    "markUnsafe",
    "maxRunnerArtifacts",
    "maxConcurrentReconciles",
    "vars",
    "selector",
    "blacklist",
];
const RECONCILE_PERIOD: &str = "reconcilePeriod";
const OVERRIDE_VALUES: &str = "overrideValues";
const FINALIZER: &str = "finalizer";

/// The required value of a member, as far as its type determines it.
fn type_error(member: &str, found: &Child<'_>) -> Option<&'static str> {
    let is_whole = || std::str::from_utf8(found.raw).is_ok_and(|n| n.parse::<i64>().is_ok());
    let (is_right, what) = match member {
        "group" | "version" | "kind" | "role" | "playbook" | "chart" => {
            (is_scalar(found), "a string")
        }
        "maxRunnerArtifacts" | "maxConcurrentReconciles" => (is_whole(), "a whole number"),
        "blacklist" => (found.kind == Kind::List, "a list"),
        "vars" | "selector" | OVERRIDE_VALUES | FINALIZER => (found.kind == Kind::Object, "a map"),
        // The member also has a format.
        RECONCILE_PERIOD => {
            (matches!(found.kind, Kind::Text | Kind::Number), "a duration such as 5s, or 0")
        }
        _ => (found.kind == Kind::Boolean, "a boolean"),
    };
    (!is_right && !is_variable(found)).then_some(what)
}

/// The pointer of a member of an entry.
fn member_pointer(index: usize, member: &Child<'_>) -> String {
    let key = member.key.map(json::decode_text).unwrap_or_default();
    format!("{FILE}/documents/0/{index}/{}", escape(&key))
}

/// The boolean or the number that a text means.
fn correct_type(index: usize, member: &Child<'_>, what: &str) -> Option<Fix> {
    let text = (member.kind == Kind::Text).then(|| json::text(member.raw))?;
    let value = match what {
        "a boolean" => corrections::boolean(&text)?.to_string(),
        "a whole number" => text.trim().parse::<i64>().ok()?.to_string(),
        _ => return None,
    };
    let fix = Fix::safe(format!("write {value} without quotes"));
    Some(fix.set(member_pointer(index, member), value))
}

struct WatchesFile<'f, 'r> {
    field: &'f str,
    /// Group, version and kind of the entries so far.
    known: HashSet<[String; 3]>,
    /// The charts of the project that the host found.
    charts: HashSet<String>,
    report: &'f mut Report<'r>,
}

impl WatchesFile<'_, '_> {
    /// Reports a violation. Creates no text for violations that the verdict cannot hold: a file can
    /// have many.
    fn report_invalid(&mut self, index: usize, member: &str, what: impl FnOnce() -> String) {
        if self.report.is_full(&MSC_13) {
            return self.report.add_count(&MSC_13, 1);
        }
        let dot = if member.is_empty() { "" } else { "." };
        let field = format!("{}[{index}]{dot}{member}", self.field);
        self.report.add(&MSC_13, field, format!("watches.yaml entry {index}: {}", what()));
    }

    fn check_entry(&mut self, index: usize, entry: &Child<'_>) {
        if !matches!(entry.kind, Kind::Object | Kind::Null) {
            return self.report_invalid(index, "", || "must be a map".to_owned());
        }
        let members = Members::of(entry.raw, MEMBERS);
        for (at, name) in MEMBERS.into_iter().enumerate() {
            if let Some(what) = members.get(at).and_then(|found| type_error(name, found)) {
                self.report_invalid(index, name, || format!("{name} must be {what}"));
                let found = members.get(at);
                self.report.set_fix(&MSC_13, || correct_type(index, found?, what));
            } else if at < 3 && members.text(at).is_empty() {
                // A missing member has the location of its entry.
                self.report_invalid(index, name, || format!("{name} must not be empty"));
            }
        }
        let [group, version, kind, role, playbook, chart] =
            [0, 1, 2, 3, 4, 5].map(|at| members.text(at));
        self.check_path(index, &members, [&role, &playbook, &chart]);
        if role.is_empty() || playbook.is_empty() {
        } else if self.report.is_full(&MSC_12) {
            self.report.add_count(&MSC_12, 1);
        } else {
            let [group, version, kind] =
                [&group, &version, &kind].map(|t| shorten(t, MAX_SHOWN_BYTES));
            let message =
                format!("role and playbook are mutually exclusive for {group}/{version} {kind}");
            self.report.add(&MSC_12, format!("{}[{index}].playbook", self.field), message);
        }
        if members.get(5).is_some_and(|found| found.kind == Kind::Text) {
            self.check_chart(index, &chart);
        }
        self.check_unique(index, [group, version, kind]);
        if let Some(period) = members.get(6) {
            self.check_period(index, period);
        }
        if let Some(values) = members.map(7) {
            self.check_values(index, values);
        }
        if let Some(finalizer) = members.get(8).filter(|found| found.kind == Kind::Object) {
            self.check_finalizer(index, finalizer.raw);
        }
    }

    fn check_path<const N: usize>(
        &mut self,
        index: usize,
        members: &Members<'_, N>,
        paths: [&str; 3],
    ) {
        let is_scalar = (3..6).all(|at| members.get(at).is_none_or(is_scalar));
        if is_scalar && paths.into_iter().all(str::is_empty) {
            self.report_invalid(index, "", || "must specify role, playbook or chart".to_owned());
        }
    }

    fn check_chart(&mut self, index: usize, chart: &str) {
        if chart.is_empty() || self.charts.contains(chart) {
            return;
        }
        let field = format!("{}[{index}].chart", self.field);
        if chart.starts_with('/') || chart.contains('$') || chart.split('/').any(|p| p == "..") {
            let why = "charts outside of the project are not known";
            return self.report.skip_part(&MSC_21, &field, why);
        }
        if self.report.is_full(&MSC_21) {
            return self.report.add_count(&MSC_21, 1);
        }
        let chart = quote(&shorten(chart, MAX_SHOWN_BYTES));
        let message = format!("watches.yaml[{index}]: chart {chart} does not exist");
        self.report.add(&MSC_21, field, message);
    }

    fn check_unique(&mut self, index: usize, names: [String; 3]) {
        let [group, version, kind] = &names;
        if version.is_empty() || kind.is_empty() {
            return;
        }
        if self.known.contains(&names) {
            self.report_invalid(index, "", || {
                let [group, version, kind] =
                    [group, version, kind].map(|t| shorten(t, MAX_SHOWN_BYTES));
                format!("duplicate GVK: {group}/{version}, Kind={kind}")
            });
        } else {
            self.known.insert(names);
        }
    }

    fn check_period(&mut self, index: usize, found: &Child<'_>) {
        match found.kind {
            Kind::Text if !is_variable(found) => {
                if let Err(why) = duration::check(&json::decode_text(found.raw)) {
                    self.report_invalid(index, RECONCILE_PERIOD, || {
                        format!(
                            "{RECONCILE_PERIOD}: {}",
                            shorten(&why.to_string(), MAX_SHOWN_BYTES)
                        )
                    });
                    self.report.set_fix(&MSC_13, || {
                        let text = corrections::go_duration(&json::decode_text(found.raw))?;
                        Some(corrections::write(member_pointer(index, found), &text))
                    });
                }
            }
            Kind::Number if found.raw != b"0" => {
                self.report_invalid(index, RECONCILE_PERIOD, || {
                    format!("{RECONCILE_PERIOD} must be a duration such as 5s, or 0")
                });
            }
            _ => {}
        }
    }

    fn check_values(&mut self, index: usize, values: &[u8]) {
        let _ = json::each_child(values, |value| {
            let Some(key) = value.key.filter(|_| !is_scalar(&value)) else { return };
            let name = shorten(&json::decode_text(key), MAX_SHOWN_BYTES);
            let at = format!("{OVERRIDE_VALUES}[{name}]");
            self.report_invalid(index, &at, || format!("{at} must be a string"));
        });
    }

    fn check_finalizer(&mut self, index: usize, finalizer: &[u8]) {
        let members = Members::of(finalizer, ["name", "role", "playbook", "vars"]);
        if members.text(0).is_empty() {
            self.report_invalid(index, FINALIZER, || "finalizer must have name".to_owned());
        }
        let runs = !(members.text(1).is_empty() && members.text(2).is_empty());
        if !runs && members.map(3).is_none() {
            self.report_invalid(index, FINALIZER, || {
                "finalizer must specify role, playbook or vars".to_owned()
            });
        }
    }
}
