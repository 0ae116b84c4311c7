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
use opgate_ui::BASE_STYLE;

/// The style of the page, after the one that it shares with other pages.
const STYLE: &str = include_str!("page.css");

/// Maximum characters of the text that names what was evaluated.
const MAX_SUBJECT_CHARS: usize = 512;

/// The command that evaluated the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum EvaluationCommand {
    /// `opgate check`.
    Check,
    /// `opgate audit`.
    Audit,
    /// `opgate replay`.
    Replay,
}

impl EvaluationCommand {
    pub(in crate::cli) fn as_str(self) -> &'static str {
        match self {
            Self::Check => "opgate check",
            Self::Audit => "opgate audit",
            Self::Replay => "opgate replay",
        }
    }

    /// Returns the word for the outcome of an object without denial.
    fn passed(self) -> &'static str {
        match self {
            Self::Check | Self::Audit => "passed",
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

    /// Renders the sections of the result, for another page around them.
    pub(in crate::cli) fn render_sections(&self) -> Markup {
        let rules = RuleTable::of(self.items, self.pages);
        let passed = self.command.passed();
        html! {
            (self.summary(&self.counts()))
            (rules.render())
            (objects::render_reported(self.items, &rules, passed))
            (self.unreadable_inputs())
            (objects::render_not_evaluated(self.items))
            (objects::render_passed(self.items, passed))
            (rules.render_remediation())
        }
    }

    /// Returns the numbers of objects by outcome, in one line.
    pub(in crate::cli) fn headline(&self) -> String {
        self.counts().summary(self.command.passed())
    }

    fn render(&self) -> Markup {
        let title = format!("{}: {}", self.command.as_str(), self.headline());
        let subject = short_line(self.subject, MAX_SUBJECT_CHARS);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(content_security_policy());
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) }
                    style { (PreEscaped(BASE_STYLE)) (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        h1 { "Result of " code { (self.command.as_str()) } }
                        p.subject { "Evaluated: " (visible(&subject)) }
                        (self.render_sections())
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
            EvaluationCommand::Check | EvaluationCommand::Audit => "Passed",
            EvaluationCommand::Replay => "Allowed",
        };
        let rows = [
            ("Denied", denied, "deny"),
            ("Errors", failed, "deny"),
            ("Warned", warned, "warn"),
            ("Not evaluated", not_evaluated, "warn"),
            ("Unreadable inputs", self.unreadable.len(), "deny"),
            (passed_label, passed, "good"),
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
    let style = [BASE_STYLE, STYLE].concat();
    let hash = STANDARD.encode(digest(&SHA256, style.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}
