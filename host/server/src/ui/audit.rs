//! The section of the overview about the audit of the cluster.

use std::cmp::Reverse;

use maud::{Markup, html};
use opgate_text::html::visible_line;
use opgate_ui::Table;

use super::cells::{duration, rule_link, time};
use super::installation::{AuditCount, AuditState, AuditSummary};
use super::table_limits;

/// Maximum bytes of a name.
const MAX_NAME_BYTES: usize = 253;

/// Renders the results of the last audit, or the reason why there are none.
pub(super) fn render_audit(state: &AuditState) -> Markup {
    html! {
        section aria-labelledby="audit" {
            h2 #audit { "Audit" }
            @match state {
                AuditState::Off => p { "The audit is off: " code { "--audit-interval" } " turns it on." },
                AuditState::NotLeader => p { "The leader has the results of the audit." },
                AuditState::Pending => p { "The first audit of this leader is not complete." },
                AuditState::Complete(summary) => (render_summary(summary)),
            }
        }
    }
}

fn render_summary(summary: &AuditSummary) -> Markup {
    let AuditSummary { ended, duration: took, objects, errors, violations } = summary;
    let mut violations: Vec<_> = violations.iter().collect();
    violations.sort_by_key(|violation| (severity(&violation.effect), Reverse(violation.count)));
    let table = Table {
        id: "audit-table",
        caption: "Violations by stored objects, denials first",
        headings: &["Rule", "Policy", "Namespace", "Effect", "Violations"],
        empty: "No stored object violates a rule.",
        max_bytes: table_limits::AUDIT,
    };
    html! {
        dl {
            dt { "Ended" } dd { (time(*ended)) ", after " (duration(*took)) }
            dt { "Objects" } dd #audit-objects { (objects) }
            dt { "Errors" } dd { span.(if *errors > 0 { "deny" } else { "muted" }) { (errors) } }
        }
        (table.render(violations.into_iter().map(render_count)))
    }
}

fn render_count(violation: &AuditCount) -> Markup {
    let AuditCount { policy, rule, namespace, effect, count } = violation;
    let class = match effect.as_str() {
        "deny" => "deny",
        "warn" => "warn",
        _ => "audit",
    };
    // Rules of policies that are not active any more, and sums, have no documentation.
    let is_id = rule.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    html! { tr {
        th scope="row" { @if is_id { (rule_link(rule)) } @else { (visible_line(rule, MAX_NAME_BYTES)) } }
        td { (visible_line(policy, MAX_NAME_BYTES)) }
        td.text {
            @if namespace.is_empty() { span.muted { "(cluster)" } }
            @else { (visible_line(namespace, MAX_NAME_BYTES)) }
        }
        td { span.badge.(class) { (visible_line(effect, MAX_NAME_BYTES)) } }
        td.number { (count) }
    } }
}

fn severity(effect: &str) -> u8 {
    match effect {
        "deny" => 0,
        "warn" => 1,
        _ => 2,
    }
}
