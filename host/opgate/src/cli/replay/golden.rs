//! Expected decisions in a file: `--bless` writes those of this run, `--verify` compares.
//!
//! ```text
//! ReviewRecord ─▶ GoldenDecision ─┬▶ --bless: FILE, one line for each review
//! FILE ─▶ GoldenDecision ─────────┴▶ --verify: differences ─▶ stdout
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use opgate_input::read::{FilePath, ReadPurpose, Reader};
use opgate_text::one_line;
use opgate_text::printed::Form;
use serde::{Deserialize, Serialize};

use crate::cli::exit::CommandError;
use crate::cli::output;
use crate::cli::report::review_record::ReviewRecord;
use crate::cli::write_file::write_atomically;

/// Maximum bytes of a violation in a difference.
const MAX_LINE_BYTES: usize = 1_024;

/// The decision on a review, as far as it must stay the same.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GoldenDecision {
    source: String,
    /// `CREATE v1/pods ns/name`
    request: String,
    /// `allow`, `deny`, `notEvaluated` if no rule evaluates the review; in a run also `fail`, if the webhook
    /// returns no decision.
    decision: String,
    violations: Vec<GoldenViolation>,
    /// The policy error of a run. Such a run is not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GoldenViolation {
    policy: String,
    rule: String,
    effect: String,
    field: String,
    message: String,
}

/// The decisions of a run or of a file, in their order.
#[derive(Debug, Default)]
pub(super) struct GoldenDecisions(Vec<GoldenDecision>);

impl GoldenDecisions {
    /// Reads a file that `--bless` wrote.
    ///
    /// # Errors
    /// Names the file, and the line that is no decision.
    pub(super) fn read(path: &Path, reader: &Reader) -> Result<Self, CommandError> {
        let name = path.display();
        let bytes = FilePath::Named(path)
            .open()
            .and_then(|file| reader.read(file, true, ReadPurpose::Keep));
        let bytes = bytes.with_context(|| name.to_string())?;
        let lines = bytes.split(|byte| *byte == b'\n').enumerate();
        let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
        let decisions = lines.map(|(index, line)| {
            serde_json::from_slice(line).map_err(|error| {
                let (line, column) = (index.saturating_add(1), error.column());
                CommandError::usage(anyhow::anyhow!(
                    "{name}:{line}:{column}: not a decision that `opgate replay --bless` writes: {error}"
                ))
            })
        });
        let mut decisions = Self(decisions.collect::<Result<_, _>>()?);
        for decision in &mut decisions.0 {
            decision.source = source_name(&decision.source).to_owned();
        }
        Ok(decisions)
    }

    /// Writes all decisions to a file.
    ///
    /// # Errors
    /// If the file cannot be written. An earlier file is then unchanged.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        for decision in &self.0 {
            serde_json::to_writer(&mut bytes, decision)?;
            bytes.push(b'\n');
        }
        write_atomically(path, &bytes)
    }

    /// Adds a decision of this run.
    pub(super) fn add(&mut self, record: &ReviewRecord) {
        let violations = record.violations.iter().map(|violation| GoldenViolation {
            policy: violation.policy.clone(),
            rule: violation.rule.clone(),
            effect: violation.effect.to_owned(),
            field: violation.field.clone(),
            message: violation.message.clone(),
        });
        let decision = match (record.allowed, record.failed) {
            (true, _) if record.not_evaluated.is_some() => "notEvaluated",
            (true, _) => "allow",
            (false, true) => "fail",
            (false, false) => "deny",
        };
        let error = record.error.as_ref().map(|e| format!("policy {}: {}", e.policy, e.cause));
        self.0.push(GoldenDecision {
            source: source_name(&record.source).to_owned(),
            request: record.object(),
            decision: decision.to_owned(),
            violations: violations.collect(),
            error,
        });
    }

    /// Reports whether no source is one of another run: the paths are others, and not the decisions.
    pub(super) fn has_other_sources(&self, other: &Self) -> bool {
        let sources: BTreeSet<_> = other.0.iter().map(|one| one.source.as_str()).collect();
        let is_known = |one: &GoldenDecision| sources.contains(one.source.as_str());
        !self.0.is_empty() && !sources.is_empty() && !self.0.iter().any(is_known)
    }

    /// Returns the number of decisions.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Prints how the decisions of this run differ from the expected ones: `~` for another decision or other
    /// violations, `-` for a review that is not in this run, `+` for one that only this run has. Returns the number
    /// of differences.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub(super) fn print_differences(&self, expected: &Self) -> io::Result<usize> {
        let mut out = output::stdout(Some(Form::Text));
        let (expected, actual) = (expected.by_source(), self.by_source());
        let mut count = 0_usize;
        for (key, old) in &expected {
            match actual.get(key) {
                Some(new) if new == old => continue,
                Some(new) => out.write_all(describe_change(old, new).as_bytes())?,
                None => writeln!(out, "- {}", old.summary())?,
            }
            count = count.saturating_add(1);
        }
        for (_, new) in actual.iter().filter(|(key, _)| !expected.contains_key(key)) {
            writeln!(out, "+ {}", new.summary())?;
            count = count.saturating_add(1);
        }
        out.flush()?;
        Ok(count)
    }

    /// The decisions by source. Those with the same source, of a file that is named twice, are numbered.
    fn by_source(&self) -> BTreeMap<(&str, usize), &GoldenDecision> {
        let mut counts = BTreeMap::<_, usize>::new();
        let mut key = |decision: &'_ GoldenDecision| {
            let count = counts.entry(decision.source.clone()).or_default();
            *count = count.saturating_add(1);
            *count
        };
        self.0.iter().map(|one| ((one.source.as_str(), key(one)), one)).collect()
    }
}

/// Returns a source without `./`: a directory can be named `reviews` and `./reviews`.
fn source_name(source: &str) -> &str {
    let mut name = source;
    while let Some(rest) = name.strip_prefix("./") {
        name = rest.trim_start_matches('/');
    }
    name
}

impl GoldenDecision {
    /// Returns `a.json: CREATE v1/pods ns/name: deny`.
    fn summary(&self) -> String {
        let text = format!("{}: {}: {}", self.source, self.request, self.decision);
        one_line(&text, MAX_LINE_BYTES)
    }
}

/// Describes a change: the decisions, and the violations that only one of them has.
fn describe_change(old: &GoldenDecision, new: &GoldenDecision) -> String {
    let mut text = format!("~ {}", old.summary());
    if old.request != new.request {
        text = format!("{text} → {}: {}", one_line(&new.request, MAX_LINE_BYTES), new.decision);
    } else if old.decision != new.decision {
        text = format!("{text} → {}", new.decision);
    }
    text.push('\n');
    let mut add = |sign: char, one: &GoldenDecision, other: &GoldenDecision| {
        // Equal violations count: a field can have two.
        let mut others: Vec<_> = other.violations.iter().collect();
        for violation in &one.violations {
            if let Some(index) = others.iter().position(|other| *other == violation) {
                others.swap_remove(index);
                continue;
            }
            let GoldenViolation { policy, effect, rule, field, message } = violation;
            let line = format!("{effect} {rule} {field}: {message} (policy {policy})");
            // Writing to a text does not fail.
            let _ = writeln!(text, "    {sign} {}", one_line(&line, MAX_LINE_BYTES));
        }
        if let Some(error) = one.error.as_ref().filter(|_| one.error != other.error) {
            let _ = writeln!(text, "    {sign} error: {}", one_line(error, MAX_LINE_BYTES));
        }
    };
    add('-', old, new);
    add('+', new, old);
    text
}
