//! The evaluated objects: one article for each that needs attention, and lists of the others.

use maud::{Markup, html};

use super::rules::RuleTable;
use crate::cli::report::table::format_thousands;
use crate::cli::report::{ReportItem, ReportLocation, ReportedViolation, ResultKind, Violation};
use opgate_text::html::visible;

/// Renders the objects with violations, errors or another outcome than `passed`, the most severe outcome first.
pub(super) fn render_reported(
    items: &[ReportItem<'_>],
    rules: &RuleTable<'_>,
    passed: &str,
) -> Markup {
    let mut found: Vec<_> = items.iter().filter(|item| is_reported(item)).collect();
    found.sort_by_key(|item| severity(item.result_kind));
    html! {
        @if !found.is_empty() {
            section {
                h2 #objects { "Objects with violations or errors" }
                @for item in found {
                    article {
                        h3 { (visible(name(item))) }
                        p {
                            (outcome(item.result_kind, passed)) " "
                            span.muted { (visible(item.source)) }
                        }
                        @if let Some(error) = item.error {
                            p.message { (visible(&error.sentence())) }
                        } @else if item.lines.is_empty() && !item.message.is_empty() {
                            p.message { (visible(&item.message)) }
                        }
                        @if !item.lines.is_empty() {
                            ul.violations { @for line in &item.lines { (violation(line, rules)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the objects that no rule evaluated, with reasons.
pub(super) fn render_not_evaluated(items: &[ReportItem<'_>]) -> Markup {
    let all: Vec<_> =
        items.iter().filter(|item| item.result_kind == ResultKind::NotEvaluated).collect();
    html! {
        @if !all.is_empty() {
            section {
                h2 #not-evaluated { "Objects that were not evaluated" }
                ul {
                    @for item in all {
                        li { (source(item)) ": " (visible(item.not_evaluated.unwrap_or_default())) }
                    }
                }
            }
        }
    }
}

/// Renders the objects that passed without a violation, in a list that is closed at first.
pub(super) fn render_passed(items: &[ReportItem<'_>], passed: &str) -> Markup {
    let is_shown =
        |item: &&ReportItem<'_>| item.result_kind == ResultKind::Passed && !is_reported(item);
    let all: Vec<_> = items.iter().filter(is_shown).collect();
    html! {
        @if !all.is_empty() {
            section {
                h2 #passed { "Objects without violations" }
                details {
                    summary { (format_thousands(all.len())) " " (passed) }
                    ul { @for item in all { li { (source(item)) } } }
                }
            }
        }
    }
}

fn is_reported(item: &ReportItem<'_>) -> bool {
    let is_listed = match item.result_kind {
        ResultKind::Denied | ResultKind::Failed | ResultKind::Warned => true,
        ResultKind::Passed | ResultKind::NotEvaluated => false,
    };
    is_listed || !item.lines.is_empty()
}

fn severity(kind: ResultKind) -> u8 {
    match kind {
        ResultKind::Failed => 0,
        ResultKind::Denied => 1,
        ResultKind::Warned => 2,
        ResultKind::NotEvaluated => 3,
        ResultKind::Passed => 4,
    }
}

/// Returns the object, or the source of results without one.
fn name<'i>(item: &'i ReportItem<'_>) -> &'i str {
    if item.object.is_empty() { item.source } else { &item.object }
}

/// Renders the object with its source.
fn source(item: &ReportItem<'_>) -> Markup {
    html! {
        (visible(name(item))) " "
        span.muted { (visible(item.source)) }
    }
}

fn outcome(kind: ResultKind, passed: &str) -> Markup {
    let (word, class) = match kind {
        ResultKind::Passed => (passed, "good"),
        ResultKind::Warned => ("warned", "warn"),
        ResultKind::Denied => ("denied", "deny"),
        ResultKind::Failed => ("error", "deny"),
        ResultKind::NotEvaluated => ("not evaluated", "warn"),
    };
    html! { strong.badge.(class) { (word) } }
}

fn violation(line: &ReportedViolation<'_>, rules: &RuleTable<'_>) -> Markup {
    let Violation { policy, rule, effect, field, message, waived, .. } = line.violation;
    let class = if waived.is_some() { "good" } else { effect };
    html! {
        li {
            p {
                strong.badge.(class) { @if waived.is_some() { "waived " } (effect) } " "
                (rules.link(policy, rule)) " "
                span.message { (visible(message)) }
            }
            dl {
                @if !field.is_empty() { dt { "Field" } dd { code { (visible(field)) } } }
                @if let Some(location) = line.location {
                    dt { "Location" } dd { code { (place(location)) } }
                }
                @if let Some(waived) = waived { dt { "Waived" } dd { (visible(&waived.sentence())) } }
            }
            @if let Some(location) = line.location { (excerpt(location)) }
        }
    }
}

/// Renders `file:line:column`.
fn place(location: &ReportLocation) -> Markup {
    let ReportLocation { file, line, column, .. } = location;
    html! { (visible(file)) ":" (line) ":" (column) }
}

/// Renders the line of a location, with a mark at the column.
fn excerpt(location: &ReportLocation) -> Markup {
    let Some(excerpt) = location.excerpt() else { return html! {} };
    let mut characters = excerpt.text.chars();
    let before: String = characters.by_ref().take(excerpt.column).collect();
    let marked = characters.next().map_or_else(|| " ".to_owned(), String::from);
    html! {
        pre {
            span.muted { (location.line) " | " }
            (visible(&before)) mark { (visible(&marked)) } (visible(characters.as_str()))
        }
    }
}
