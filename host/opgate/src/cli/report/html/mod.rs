//! A page for a ticket or a browser: one HTML file without scripts, which needs no other file.
//!
//! ```text
//! ReportItem, UnreadableInput ─▶ Page ─┬▶ summary
//!                                      ├▶ rules: numbers, links, remediation ◀─ RulePages
//!                                      ├▶ objects: violations, not evaluated, passed
//!                                      └▶ unreadable inputs
//! ```
//!
//! `maud` escapes every text, and [`visible`] shows control characters. The page of a result is always the
//! same: it contains no time.

mod objects;
mod rules;

use std::io;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::rules::RuleTable;
use super::page::RulePages;
use super::table::format_thousands;
use super::{Counts, ReportItem, UnreadableInput};
use opgate_text::html::visible;
use opgate_text::short_line;

const STYLE: &str = include_str!("page.css");

/// Maximum characters of the text that names what was evaluated.
const MAX_SUBJECT_CHARS: usize = 512;

/// The command that evaluated the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum EvaluationCommand {
    /// `opgate check`.
    Check,
    /// `opgate replay`.
    Replay,
}

impl EvaluationCommand {
    fn as_str(self) -> &'static str {
        match self {
            Self::Check => "opgate check",
            Self::Replay => "opgate replay",
        }
    }

    /// Returns the word for the outcome of an object without denial.
    fn passed(self) -> &'static str {
        match self {
            Self::Check => "passed",
            Self::Replay => "allowed",
        }
    }
}

/// A result with the texts around it.
pub(in crate::cli) struct Page<'p> {
    pub(in crate::cli) command: EvaluationCommand,
    /// What was evaluated: paths, or a cluster.
    pub(in crate::cli) subject: &'p str,
    pub(in crate::cli) items: &'p [ReportItem<'p>],
    pub(in crate::cli) unreadable: &'p [UnreadableInput],
    /// The number of violations that are not shown, if there are any.
    pub(in crate::cli) hidden: Option<String>,
    pub(in crate::cli) pages: &'p RulePages,
}

impl Page<'_> {
    /// Writes the page.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(in crate::cli) fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        writeln!(out, "{}", self.render().into_string())
    }

    fn render(&self) -> Markup {
        let rules = RuleTable::of(self.items, self.pages);
        let (counts, passed) = (self.counts(), self.command.passed());
        let title = format!("{}: {}", self.command.as_str(), counts.summary(passed));
        let subject = short_line(self.subject, MAX_SUBJECT_CHARS);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(content_security_policy());
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        h1 { "Result of " code { (self.command.as_str()) } }
                        p.subject { "Evaluated: " (visible(&subject)) }
                        (self.summary(&counts))
                        (rules.render())
                        (objects::render_reported(self.items, &rules, passed))
                        (self.unreadable_inputs())
                        (objects::render_not_evaluated(self.items))
                        (objects::render_passed(self.items, passed))
                        (rules.render_remediation())
                    }
                    footer.muted { p { "opgate " (env!("CARGO_PKG_VERSION")) } }
                }
            }
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.items.iter().for_each(|item| counts.add(item.result_kind));
        counts
    }

    fn summary(&self, counts: &Counts) -> Markup {
        let Counts { passed, warned, denied, failed, not_evaluated } = *counts;
        let passed_label = match self.command {
            EvaluationCommand::Check => "Passed",
            EvaluationCommand::Replay => "Allowed",
        };
        let rows = [
            ("Denied", denied, "deny"),
            ("Errors", failed, "deny"),
            ("Warned", warned, "warn"),
            ("Not evaluated", not_evaluated, "warn"),
            ("Unreadable inputs", self.unreadable.len(), "deny"),
            (passed_label, passed, "pass"),
        ];
        html! {
            section {
                h2 #summary { "Summary" }
                table.summary {
                    caption { "Objects by outcome" }
                    thead { tr { th scope="col" { "Outcome" } th.number scope="col" { "Number" } } }
                    tbody { @for (label, count, class) in rows { tr {
                        th scope="row" { (label) }
                        td.number.(if count > 0 { class } else { "muted" }) { (format_thousands(count)) }
                    } } }
                }
                @if let Some(hidden) = &self.hidden { p { (hidden) } }
            }
        }
    }

    fn unreadable_inputs(&self) -> Markup {
        html! {
            @if !self.unreadable.is_empty() {
                section {
                    h2 #unreadable { "Unreadable inputs" }
                    ul { @for UnreadableInput { line, .. } in self.unreadable {
                        li { (visible(line)) }
                    } }
                }
            }
        }
    }
}

/// Returns a policy by which a browser loads nothing, runs nothing, and applies only the style of the page.
fn content_security_policy() -> String {
    let hash = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}
