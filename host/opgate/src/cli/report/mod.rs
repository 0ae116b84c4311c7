//! Reports for users and pipelines: one model, one file for each output format.
//!
//! ```text
//! replayed (reviews) ─┐              ┌─▶ table   for users
//!                     ├─▶ Item, Line ┼─▶ junit   test results
//! checked  (files) ───┤              ├─▶ sarif   results of code scanners
//! stored   (JSON) ────┘              ├─▶ github  annotations of a workflow
//!                                    └─▶ html    a page for a ticket or a browser
//! ```
//!
//! JSON is the serialized result of a replay or check: its members are part of the stable interface.

pub(super) mod complete;
pub(super) mod fix;
pub(super) mod github;
pub(super) mod html;
pub(super) mod junit;
pub(super) mod level;
pub(super) mod page;
pub(super) mod review_record;
pub(super) mod sarif;
mod sarif_fix;
pub(super) mod table;
mod tree;

use std::path::PathBuf;
use std::time::Duration;

use anstyle::Style;
use serde::Serialize;

use self::fix::ReportedFix;
use crate::cli::exit::ExitStatus;
use crate::cli::output::{ERROR, WARNING};
use crate::cli::stdin;
use opgate_admission::policy::Effect;
use opgate_files::Location;
use opgate_text::one_line;
use opgate_text::printed::Form;

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Human-readable text
    Table,
    /// One list
    Json,
    /// One object a line
    Jsonl,
    /// Test results for pipelines
    Junit,
    /// Findings for code scanners
    Sarif,
    /// Annotations of GitHub Actions
    Github,
    /// A page for a ticket or a browser
    Html,
}

impl Format {
    /// Returns how characters are escaped in this format. Annotations are commands of a runner themselves,
    /// and [`github`] escapes them.
    pub(super) fn form(self) -> Option<Form> {
        match self {
            Self::Table => Some(Form::Text),
            Self::Json | Self::Jsonl | Self::Sarif => Some(Form::Json),
            // Character references are the same in both.
            Self::Junit | Self::Html => Some(Form::Xml),
            Self::Github => None,
        }
    }

    /// Reports whether the format contains the documentation of the rules.
    pub(super) fn has_rule_docs(self) -> bool {
        matches!(self, Self::Sarif | Self::Html)
    }
}

/// A rule that is broken.
#[derive(Debug, Serialize)]
pub(super) struct Violation {
    pub(super) policy: String,
    pub(super) rule: String,
    #[serde(rename = "effect")]
    pub(super) effect: &'static str,
    pub(super) field: String,
    pub(super) message: String,
    /// The waiver, if the violation does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waived: Option<AppliedWaiver>,
    /// The changes that fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<ReportedFix>,
}

impl Violation {
    /// Returns about how many bytes it has.
    pub(super) fn byte_size(&self) -> usize {
        const MEMBER_BYTES: usize = 512;
        let edits = self.fix.iter().flat_map(|fix| fix.edits().unwrap_or_default());
        let texts = [&self.policy, &self.rule, &self.field, &self.message];
        let texts = texts.into_iter().map(String::len);
        let edits = edits.map(|edit| edit.edit.byte_size());
        texts.chain(edits).fold(MEMBER_BYTES, usize::saturating_add)
    }
}

/// Why a violation does not count.
#[derive(Debug, Serialize)]
pub(super) struct AppliedWaiver {
    pub(super) reason: String,
    /// The last day on which that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<String>,
    /// Its location.
    #[serde(skip)]
    pub(super) at: ReportLocation,
}

impl AppliedWaiver {
    fn sentence(&self) -> String {
        let Self { reason, until, .. } = self;
        until.as_ref().map_or_else(|| reason.clone(), |until| format!("{reason}, until {until}"))
    }
}

impl From<opgate_admission::policy::Violation> for Violation {
    fn from(v: opgate_admission::policy::Violation) -> Self {
        let level = v.effect.as_str();
        Self {
            policy: v.policy,
            rule: v.rule,
            effect: level,
            field: v.field,
            message: v.message,
            waived: None,
            fix: v.fix.map(ReportedFix::new),
        }
    }
}

impl Violation {
    /// Reports whether it denies, and is not waived.
    pub(super) fn denies(&self) -> bool {
        self.has_effect(Effect::Deny)
    }

    /// Reports whether it has this effect, and is not waived.
    pub(super) fn has_effect(&self, effect: Effect) -> bool {
        self.waived.is_none() && self.effect == effect.as_str()
    }

    fn style(&self) -> Style {
        if self.denies() { ERROR } else { WARNING }
    }
}

/// A policy without a verdict.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PolicyErrorRecord {
    pub(super) policy: String,
    pub(super) cause: String,
}

impl PolicyErrorRecord {
    fn sentence(&self) -> String {
        let Self { policy, cause } = self;
        if policy.is_empty() { cause.clone() } else { format!("policy {policy}: {cause}") }
    }
}

/// A place in a file.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub(super) struct ReportLocation {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) column: u64,
    #[serde(skip)]
    pub(super) excerpt: String,
}

impl ReportLocation {
    /// Returns `file:line:column`.
    pub(in crate::cli) fn describe(&self) -> String {
        one_line(&format!("{}:{}:{}", self.file, self.line, self.column), 1_024)
    }

    /// Returns the line of the location, if it is known and not empty.
    fn excerpt(&self) -> Option<Excerpt> {
        let column = usize::try_from(self.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let length = self.excerpt.chars().count();
        if self.excerpt.trim().is_empty() || column > length {
            return None;
        }
        // A long line is cut around the column.
        let start = if length <= MAX_EXCERPT_CHARS {
            0
        } else {
            column.saturating_sub(MAX_EXCERPT_CHARS / 2)
        };
        let text: String = self.excerpt.chars().skip(start).take(MAX_EXCERPT_CHARS).collect();
        Some(Excerpt { text: text.trim_end().to_owned(), column: column - start })
    }
}

/// Characters of a line that are shown.
const MAX_EXCERPT_CHARS: usize = 120;

/// The line of a location, or the part of it around the column.
struct Excerpt {
    /// Not empty, without white space at its end.
    text: String,
    /// Characters before the location. The location can be behind the end of the text.
    column: usize,
}

impl From<Location> for ReportLocation {
    fn from(place: Location) -> Self {
        let Location { file, line, column, excerpt } = place;
        Self { file, line, column, excerpt }
    }
}

/// Result of one review, bundle, package or manifest.
pub(super) struct ReportItem<'r> {
    /// The file or directory.
    pub(super) source: &'r str,
    /// Its location, if the source is more than the name of a file.
    pub(super) region: Option<Region<'r>>,
    /// The object: `CREATE v1/configmaps ns/name`, `RegistryBundle x`.
    pub(super) object: String,
    pub(super) outcome: ExitStatus,
    /// Why it is denied or has failed.
    pub(super) message: String,
    pub(super) time: Option<Duration>,
    pub(super) lines: Vec<ReportedViolation<'r>>,
    /// Whether its violations have locations in files.
    pub(super) is_located: bool,
    pub(super) error: Option<&'r PolicyErrorRecord>,
    /// Why it was not evaluated, if so.
    pub(super) not_evaluated: Option<&'r str>,
    /// The outcome that the summary counts.
    pub(super) result_kind: ResultKind,
}

/// Outcome of a review or a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultKind {
    Passed,
    Warned,
    Denied,
    Failed,
    NotEvaluated,
}

impl ResultKind {
    /// Returns the kind of a result with this outcome, which was evaluated or not, and has warnings or not.
    pub(super) fn of(outcome: ExitStatus, is_evaluated: bool, warns: bool) -> Self {
        match outcome {
            ExitStatus::Engine => Self::Failed,
            ExitStatus::Denied | ExitStatus::Usage => Self::Denied,
            ExitStatus::Ok if !is_evaluated => Self::NotEvaluated,
            ExitStatus::Ok if warns => Self::Warned,
            ExitStatus::Ok => Self::Passed,
        }
    }
}

/// Returns the paths of a command as one text.
pub(super) fn describe_paths(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| match path.to_str() {
        Some(stdin::NAME) => "standard input".to_owned(),
        _ => path.display().to_string(),
    };
    paths.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Returns `the cluster of the context NAME, namespace NAME`, as far as they are named.
pub(super) fn describe_cluster(context: Option<&str>, namespace: Option<&str>) -> String {
    let cluster = context.map_or_else(
        || "a running cluster".to_owned(),
        |context| format!("the cluster of the context {context}"),
    );
    match namespace {
        Some(namespace) => format!("{cluster}, namespace {namespace}"),
        None => cluster,
    }
}

/// Returns `OperatorGroup operators/global`.
pub(super) fn describe_object(kind: &str, namespace: Option<&str>, name: &str) -> String {
    let object = match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    };
    one_line(object.trim_end(), 512)
}

/// Number of items with each outcome.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    passed: usize,
    warned: usize,
    denied: usize,
    failed: usize,
    not_evaluated: usize,
}

impl Counts {
    pub(super) fn add(&mut self, became: ResultKind) {
        *match became {
            ResultKind::Passed => &mut self.passed,
            ResultKind::Warned => &mut self.warned,
            ResultKind::Denied => &mut self.denied,
            ResultKind::Failed => &mut self.failed,
            ResultKind::NotEvaluated => &mut self.not_evaluated,
        } += 1;
    }

    pub(super) fn total(&self) -> usize {
        let Self { passed, warned, denied, failed, not_evaluated } = *self;
        passed + warned + denied + failed + not_evaluated
    }

    /// Formats the summary `1 passed, 2 warned, 0 denied, 0 errors, 3 not evaluated`: `warned` and `not
    /// evaluated` only if there are any.
    pub(super) fn summary(&self, passed: &str) -> String {
        let Self { passed: count, warned, denied, failed, not_evaluated: unevaluated } = *self;
        let some = |count: usize, what: &str| match count {
            0 => String::new(),
            count => format!(", {count} {what}"),
        };
        let (warned, unevaluated) = (some(warned, "warned"), some(unevaluated, "not evaluated"));
        let errors = if failed == 1 { "error" } else { "errors" };
        format!("{count} {passed}{warned}, {denied} denied, {failed} {errors}{unevaluated}")
    }
}

impl<'r> ReportItem<'r> {
    /// Returns its location: the file or directory, and the first line if it is known.
    fn position(&self) -> (&'r str, Option<(u64, u64)>) {
        self.region
            .as_ref()
            .map_or((self.source, None), |region| (region.file, region.start.map(|line| (line, 1))))
    }
}

/// Lines of a file that are one review.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region<'r> {
    pub(super) file: &'r str,
    /// From 1, if it is known.
    pub(super) start: Option<u64>,
    /// The last one, if it is known.
    pub(super) end: Option<u64>,
}

/// One violation of it.
pub(super) struct ReportedViolation<'r> {
    pub(super) violation: &'r Violation,
    pub(super) location: Option<&'r ReportLocation>,
}

impl ReportedViolation<'_> {
    /// Returns the message, with the field if there is no location.
    fn sentence(&self) -> String {
        let Violation { field, message, .. } = self.violation;
        if self.location.is_some() || field.is_empty() {
            message.clone()
        } else {
            format!("{field}: {message}")
        }
    }

    /// Returns `file:line:column`, or the source of the violation.
    fn describe_position(&self, source: &str) -> String {
        self.location.map_or_else(|| one_line(source, 1_024), ReportLocation::describe)
    }
}

/// Something that cannot be read, and that no policy has reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnreadableInput {
    /// The path.
    pub(super) source: String,
    /// One line that names it as well.
    pub(super) line: String,
}

impl UnreadableInput {
    /// Returns the file, and line and column from 1, if its line begins with them.
    fn position(&self) -> (&str, Option<(u64, u64)>) {
        let found = self.line.split_once(": ").and_then(|(place, _)| {
            let (rest, column) = place.rsplit_once(':')?;
            let (file, line) = rest.rsplit_once(':')?;
            Some((file, (line.parse().ok()?, column.parse().ok()?)))
        });
        found.map_or((self.source.as_str(), None), |(file, place)| (file, Some(place)))
    }
}

/// Counts allowed and denied items, and errors.
fn count_outcomes(items: &[ReportItem<'_>]) -> [usize; 3] {
    let count = |outcome: ExitStatus| items.iter().filter(|item| item.outcome == outcome).count();
    [count(ExitStatus::Ok), count(ExitStatus::Denied), count(ExitStatus::Engine)]
}
