//! Results of many reviews, in the forms that people and pipelines read.

use std::io::{self, BufWriter, Write as _};
use std::time::Duration;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::json;

use super::Outcome;
use opgate_admission::policy::{DecideError, Decision, Effect, Set};
use opgate_admission::review::Review;
use opgate_text::one_line;

/// Style of errors and denials.
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const FAINT: Style = Style::new().dimmed();

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// One list
    Json,
    /// One object a line
    Jsonl,
    /// Test results for pipelines
    Junit,
    /// Findings for code scanners
    Sarif,
}

/// What became of one review. The members are part of the command line's contract.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    source: String,
    uid: String,
    operation: &'static str,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    allowed: bool,
    status: Option<Status>,
    violations: Vec<Violation>,
    warnings: Vec<String>,
    error: Option<Fault>,
    microseconds: u64,
}

#[derive(Debug, Serialize)]
struct Status {
    code: u16,
    reason: String,
    message: String,
}

/// A rule that is broken.
#[derive(Debug, Serialize)]
pub(super) struct Violation {
    pub(super) policy: String,
    pub(super) rule: String,
    pub(super) level: &'static str,
    pub(super) field: String,
    pub(super) message: String,
}

impl From<opgate_admission::policy::Violation> for Violation {
    fn from(v: opgate_admission::policy::Violation) -> Self {
        let level = v.effect.as_str();
        Self { policy: v.policy, rule: v.rule, level, field: v.field, message: v.message }
    }
}

impl Violation {
    pub(super) fn sentence(&self) -> String {
        let at = if self.field.is_empty() { "" } else { ": " };
        format!("{}{at}{}", self.field, self.message)
    }

    pub(super) fn denies(&self) -> bool {
        self.level == Effect::Deny.as_str()
    }

    pub(super) fn style(&self) -> Style {
        if self.denies() { ERROR } else { WARNING }
    }

    /// The level as SARIF has it.
    pub(super) fn severity(&self) -> &'static str {
        match self.level {
            "deny" => "error",
            "warn" => "warning",
            _ => "note",
        }
    }
}

/// A policy without a verdict.
#[derive(Debug, Serialize)]
pub(super) struct Fault {
    pub(super) policy: String,
    pub(super) cause: String,
}

impl Record {
    pub(super) fn new(
        review: &Review<'_>,
        source: &str,
        decided: Result<Decision, DecideError>,
        took: Duration,
    ) -> Self {
        let mut record = Self {
            source: source.to_owned(),
            uid: review.uid.clone().into_owned(),
            operation: review.operation.as_str(),
            resource: review.resource_path(),
            subresource: review.sub_resource.clone().into_owned(),
            namespace: review.namespace.clone().into_owned(),
            name: review.name.clone().into_owned(),
            allowed: true,
            status: None,
            violations: Vec::new(),
            warnings: Vec::new(),
            error: None,
            microseconds: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        };
        match decided {
            Ok(decision) => record.take(decision),
            Err(error) => record.fail(String::new(), error.to_string()),
        }
        record
    }

    fn take(&mut self, decision: Decision) {
        self.warnings = decision.warnings;
        self.violations = decision.violations.into_iter().map(Violation::from).collect();
        if let Some(denial) = decision.denial {
            self.allowed = false;
            let (code, reason, message) = (denial.code, denial.reason, denial.message);
            self.status = Some(Status { code, reason, message });
        }
        let fault = decision.faults.into_iter().next();
        self.error = fault.map(|f| Fault { policy: f.policy, cause: f.cause });
        if let Some(fault) = decision.failure {
            self.fail(fault.policy, fault.cause);
        }
    }

    /// The webhook would have given no answer.
    fn fail(&mut self, policy: String, cause: String) {
        self.allowed = false;
        let message =
            if policy.is_empty() { cause.clone() } else { format!("policy {policy}: {cause}") };
        self.status = Some(Status { code: 500, reason: "InternalError".to_owned(), message });
        self.error = Some(Fault { policy, cause });
    }

    pub(super) fn outcome(&self) -> Outcome {
        match (&self.error, self.allowed) {
            (Some(_), _) => Outcome::Engine,
            (None, false) => Outcome::Denied,
            (None, true) => Outcome::Ok,
        }
    }

    fn object(&self) -> String {
        let sub = if self.subresource.is_empty() {
            String::new()
        } else {
            format!("/{}", self.subresource)
        };
        let namespace =
            if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let kind = self.resource.trim_start_matches('/');
        one_line(&format!("{} {kind}{sub} {namespace}{}", self.operation, self.name), 512)
    }
}

pub(super) type Out = BufWriter<AutoStream<io::Stdout>>;

/// A report under way.
pub(super) struct Report {
    format: Format,
    out: Out,
    kept: Vec<Record>,
    rules: Vec<serde_json::Value>,
    counts: [usize; 3],
}

impl Report {
    pub(super) fn start(format: Format, set: &Set) -> Self {
        let rules = sarif_rules(set);
        let out = BufWriter::new(AutoStream::auto(io::stdout()));
        Self { format, out, kept: Vec::new(), rules, counts: [0; 3] }
    }

    pub(super) fn add(&mut self, record: Record) -> io::Result<()> {
        let [allowed, denied, failed] = &mut self.counts;
        *match record.outcome() {
            Outcome::Ok => allowed,
            Outcome::Denied | Outcome::Usage => denied,
            Outcome::Engine => failed,
        } += 1;
        match self.format {
            Format::Table => self.row(&record),
            Format::Jsonl => {
                serde_json::to_writer(&mut self.out, &record)?;
                writeln!(self.out)
            }
            Format::Json | Format::Junit | Format::Sarif => {
                self.kept.push(record);
                Ok(())
            }
        }
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        match self.format {
            Format::Table => {
                let [allowed, denied, failed] = self.counts;
                self.out.flush()?;
                anstream::eprintln!("{allowed} allowed, {denied} denied, {failed} failed");
            }
            Format::Jsonl => {}
            Format::Json => {
                serde_json::to_writer_pretty(&mut self.out, &self.kept)?;
                writeln!(self.out)?;
            }
            Format::Junit => self.junit()?,
            Format::Sarif => {
                let sarif = self.sarif();
                serde_json::to_writer_pretty(&mut self.out, &sarif)?;
                writeln!(self.out)?;
            }
        }
        self.out.flush()
    }

    fn row(&mut self, record: &Record) -> io::Result<()> {
        let (word, style) = match record.outcome() {
            Outcome::Ok if record.violations.is_empty() => ("allow", GOOD),
            Outcome::Ok => ("allow", WARNING),
            Outcome::Denied | Outcome::Usage => ("deny", ERROR),
            Outcome::Engine => ("failed", ERROR),
        };
        let source = one_line(&record.source, 512);
        writeln!(
            self.out,
            "{style}{word:6}{style:#} {}  {FAINT}{source}{FAINT:#}",
            record.object()
        )?;
        for violation in &record.violations {
            let style = violation.style();
            let Violation { rule, level, .. } = violation;
            writeln!(self.out, "       {style}{level:5}{style:#} {rule} {}", violation.sentence())?;
        }
        if let Some(Fault { policy, cause }) = &record.error {
            writeln!(self.out, "       {ERROR}fault{ERROR:#} policy {policy}: {cause}")?;
        }
        Ok(())
    }

    fn junit(&mut self) -> io::Result<()> {
        let out = &mut self.out;
        let [allowed, denied, failed] = self.counts;
        let tests = allowed + denied + failed;
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<testsuites tests=\"{tests}\" failures=\"{denied}\" errors=\"{failed}\">")?;
        writeln!(
            out,
            "  <testsuite name=\"opgate replay\" tests=\"{tests}\" failures=\"{denied}\" errors=\"{failed}\">"
        )?;
        for record in &self.kept {
            let seconds = Duration::from_micros(record.microseconds).as_secs_f64();
            writeln!(
                out,
                "    <testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.6}\">",
                xml(&record.source),
                xml(&record.object())
            )?;
            let status = record.status.as_ref();
            let message = status.map(|s| xml(&s.message)).unwrap_or_default();
            let lines: Vec<_> = record
                .violations
                .iter()
                .map(|v| xml(&format!("{} {} {}", v.level, v.rule, v.sentence())))
                .collect();
            let lines = lines.join("\n");
            match record.outcome() {
                Outcome::Ok if lines.is_empty() => {}
                Outcome::Ok => writeln!(out, "      <system-out>{lines}</system-out>")?,
                Outcome::Denied | Outcome::Usage => {
                    writeln!(out, "      <failure message=\"{message}\">{lines}</failure>")?;
                }
                Outcome::Engine => {
                    writeln!(out, "      <error message=\"{message}\">{lines}</error>")?;
                }
            }
            writeln!(out, "    </testcase>")?;
        }
        writeln!(out, "  </testsuite>\n</testsuites>")
    }

    fn sarif(&self) -> serde_json::Value {
        let result = |record: &Record, rule: &str, level: &str, text: String| {
            json!({
                "ruleId": rule,
                "level": level,
                "message": {"text": text},
                "locations": [{
                    "physicalLocation": {"artifactLocation": {"uri": record.source}},
                    "logicalLocations": [{"fullyQualifiedName": record.object()}],
                }],
            })
        };
        let mut results = Vec::new();
        for record in &self.kept {
            for v in &record.violations {
                results.push(result(record, &v.rule, v.severity(), v.sentence()));
            }
            if let Some(fault) = &record.error {
                let text = format!("policy {}: {}", fault.policy, fault.cause);
                results.push(result(record, "fault", "error", text));
            }
        }
        sarif_log(&self.rules, &results, &[])
    }
}

/// The rules of all policies, as SARIF describes them.
pub(super) fn sarif_rules(set: &Set) -> Vec<serde_json::Value> {
    let rule = |rule: &opgate_admission::policy::Rule| json!({"id": rule.id, "shortDescription": {"text": rule.title}, "help": {"text": rule.source}});
    set.policies().iter().flat_map(|p| p.descriptor.rules.iter().map(rule)).collect()
}

/// Findings in the form of code scanners, and what went wrong beside them.
pub(super) fn sarif_log(
    rules: &[serde_json::Value],
    results: &[serde_json::Value],
    notifications: &[serde_json::Value],
) -> serde_json::Value {
    let mut run = json!({
        "tool": {"driver": {
            "name": "opgate",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rules,
        }},
        "results": results,
    });
    if let (false, Some(run)) = (notifications.is_empty(), run.as_object_mut()) {
        let invocation =
            json!({"executionSuccessful": false, "toolExecutionNotifications": notifications});
        run.insert("invocations".to_owned(), json!([invocation]));
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    })
}

/// A text inside of XML.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            // XML 1.0 has no way to write other controls.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
