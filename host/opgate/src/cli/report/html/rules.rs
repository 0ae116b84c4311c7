//! The rules of the violations: the table with their numbers, and the section with their remediation.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::cli::report::page::RulePages;
use crate::cli::report::table::format_thousands;
use crate::cli::report::{ReportItem, Violation};
use opgate_admission::policy::Effect;
use opgate_text::html::{render_docs, visible};

/// The violations of a rule that are counted separately.
const COUNTS: [&str; 4] = ["deny", "warn", "audit", "waived"];

/// The violations of a rule.
struct RuleRow<'r> {
    policy: &'r str,
    rule: &'r str,
    /// A number for each of the [`COUNTS`].
    counts: [usize; COUNTS.len()],
    /// Number of objects with these violations.
    objects: usize,
}

/// All rules with violations, by policy and id.
pub(super) struct RuleTable<'r> {
    rows: Vec<RuleRow<'r>>,
    pages: &'r RulePages,
}

impl<'r> RuleTable<'r> {
    /// Counts the violations of each rule.
    pub(super) fn of(items: &'r [ReportItem<'r>], pages: &'r RulePages) -> Self {
        let mut rows = BTreeMap::new();
        for item in items {
            let mut rules_of_item = BTreeSet::new();
            for violation in item.lines.iter().map(|line| line.violation) {
                let key = (violation.policy.as_str(), violation.rule.as_str());
                let row = rows.entry(key).or_insert_with(|| RuleRow {
                    policy: &violation.policy,
                    rule: &violation.rule,
                    counts: [0; COUNTS.len()],
                    objects: 0,
                });
                row.add(violation);
                row.objects += usize::from(rules_of_item.insert(key));
            }
        }
        Self { rows: rows.into_values().collect(), pages }
    }

    /// Renders the table; nothing if there is no violation.
    pub(super) fn render(&self) -> Markup {
        html! {
            @if !self.rows.is_empty() {
                section {
                    h2 #rules { "Rules" }
                    table {
                        caption { "Violations by rule" }
                        thead { tr {
                            th scope="col" { "Rule" }
                            th.number scope="col" { "Violations" }
                            th.number scope="col" { "Objects" }
                        } }
                        tbody { @for row in &self.rows { tr {
                            th scope="row" {
                                (self.link(row.policy, row.rule)) " "
                                span { (visible(self.pages.title(row.policy, row.rule).unwrap_or_default())) }
                                div.muted { "Policy " (visible(row.policy)) }
                            }
                            td.number { @for (count, name) in row.counts() {
                                div { (format_thousands(count)) " " (name) }
                            } }
                            td.number { (format_thousands(row.objects)) }
                        } } }
                    }
                }
            }
        }
    }

    /// Renders the requirement and remediation of each rule whose documentation is known.
    pub(super) fn render_remediation(&self) -> Markup {
        let documented = |row: &&RuleRow<'_>| self.has_docs(row.policy, row.rule);
        let rows: Vec<_> = self.rows.iter().filter(documented).collect();
        html! {
            @if !rows.is_empty() {
                section {
                    h2 #remediation { "Remediation" }
                    @for RuleRow { policy, rule, .. } in rows {
                        article id=(self.anchor(policy, rule)) {
                            h3 { (visible(rule)) }
                            @if let Some(summary) = self.pages.summary(policy, rule) {
                                (render_docs(summary))
                            }
                            @if let Some(remediation) = self.pages.remediation(policy, rule) {
                                h4 { "Fix" }
                                (render_docs(remediation))
                            }
                            p.muted {
                                @if let Some(url) = self.pages.url(policy, rule) {
                                    a href=(url) { (visible(url)) }
                                } @else {
                                    "Details: " code {
                                        (visible(&self.pages.explain_command(std::iter::once(*policy)))) " " (visible(rule))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Renders the id of a rule, with a link to its published page, or else to its remediation on this page.
    pub(super) fn link(&self, policy: &str, rule: &str) -> Markup {
        let anchor = || format!("#{}", self.anchor(policy, rule));
        let local = self.has_docs(policy, rule).then(anchor);
        let address = self.pages.url(policy, rule).map(str::to_owned).or(local);
        html! {
            @match address {
                Some(address) => a href=(address) { (visible(rule)) },
                None => (visible(rule)),
            }
        }
    }

    /// Reports whether the page has a remediation for a rule.
    fn has_docs(&self, policy: &str, rule: &str) -> bool {
        self.pages.remediation(policy, rule).or_else(|| self.pages.summary(policy, rule)).is_some()
    }

    /// Returns the id of the element with the remediation of a rule. Two policies can have rules of one name.
    fn anchor(&self, policy: &str, rule: &str) -> String {
        let key = |row: &RuleRow<'r>| (row.policy, row.rule).cmp(&(policy, rule));
        let (Ok(index) | Err(index)) = self.rows.binary_search_by(key);
        format!("rule-{}", index + 1)
    }
}

impl RuleRow<'_> {
    fn add(&mut self, violation: &Violation) {
        let [deny, warn, audit, waived] = &mut self.counts;
        *match violation {
            Violation { waived: Some(_), .. } => waived,
            _ if violation.has_effect(Effect::Deny) => deny,
            _ if violation.has_effect(Effect::Warn) => warn,
            _ => audit,
        } += 1;
    }

    /// Returns the numbers that are not 0, with their names.
    fn counts(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.counts.into_iter().zip(COUNTS).filter(|(count, _)| *count > 0)
    }
}
