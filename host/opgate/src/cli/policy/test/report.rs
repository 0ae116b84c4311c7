//! Results of the cases: as text while they run, or at the end for programs.

use std::io::{self, Write as _};
use std::time::Duration;

use opgate_casefile::{Case, Expectation, Violation};
use serde_json::{Value, json};

use super::run::{CaseDecision, CaseResult, CaseRun};
use crate::cli::exit::ExitStatus;
use crate::cli::output::{ERROR, Out, SUCCESS, WARNING, stdout};
use crate::cli::policy::source::PolicySubject;
use crate::cli::report::github;
use crate::cli::report::junit::escape_xml;
use crate::cli::verbosity::{is_quiet, note};
use opgate_admission::policy::Descriptor;
use opgate_text::one_line;
use opgate_text::printed::Form;

/// Form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Human-readable text
    Table,
    /// One object
    Json,
    /// Test results for pipelines
    Junit,
    /// Annotations of GitHub Actions
    Github,
}

impl Format {
    /// Returns the format of the common reports.
    fn form(self) -> Option<Form> {
        match self {
            Self::Table => Some(Form::Text),
            Self::Json => Some(Form::Json),
            Self::Junit => Some(Form::Xml),
            Self::Github => None,
        }
    }
}

/// A rule that its cases do not cover.
#[derive(Debug)]
pub(super) struct CoverageGap {
    pub(super) rule: String,
    pub(super) missing: Vec<Expectation>,
    pub(super) file: String,
}

/// A report under way.
pub(super) struct Report {
    format: Format,
    out: Out,
    name: String,
    version: String,
    source: String,
    cases: String,
}

fn status(result: &CaseResult) -> &'static str {
    match result {
        CaseResult::Ok => "ok",
        CaseResult::Updated => "updated",
        CaseResult::Differs(..)
        | CaseResult::PassesWithoutRule
        | CaseResult::Vacuous(_)
        | CaseResult::Evaluated => "failed",
        CaseResult::Error(_) => "error",
    }
}

/// Returns the place of a case.
fn case_location(directory: &str, case: &Case) -> String {
    one_line(&format!("{directory}/{}:{}", case.location.file, case.location.line), 1_024)
}

fn case_title(case: &Case) -> String {
    one_line(&format!("{} / {}", case.rule, case.name), 512)
}

/// Returns a violation as a line.
fn violation_line(finding: &Violation) -> String {
    let Violation { rule, level, field: at, message, is_prefix: starts } = finding;
    let level = level.as_deref().map(|level| format!("{level} ")).unwrap_or_default();
    let at = at.as_deref().filter(|at| !at.is_empty()).map(|at| format!("{at}: "));
    let rest = if *starts { "…" } else { "" };
    one_line(&format!("{level}{rule} {}{message}{rest}", at.unwrap_or_default()), 4_096)
}

/// Returns the decision of a case as JSON: all that its policy reported, whether it was expected or not.
fn decision_json(decision: &CaseDecision) -> Value {
    let violation = |found: &Violation| {
        let Violation { rule, level, field, message, .. } = found;
        json!({"rule": rule, "level": level, "field": field, "message": message})
    };
    let skipped = |(rule, reason): &(String, String)| json!({"rule": rule, "reason": reason});
    let fix = |(rule, fix): &(String, opgate_edit::Fix)| json!({"rule": rule, "fix": fix});
    let result = &decision.result;
    json!({
        "violations": result.violations.iter().map(violation).collect::<Vec<_>>(),
        "skipped": decision.skipped.iter().map(skipped).collect::<Vec<_>>(),
        "auditAnnotations": result.audit_annotations,
        "reason": result.reason,
        "fixes": result.fixes.iter().map(fix).collect::<Vec<_>>(),
    })
}

/// Returns why a case failed: lines that begin with `-` for the expected result, `+` for the actual one.
fn failure_lines(CaseRun { case, result, .. }: &CaseRun) -> Vec<String> {
    let rule = &case.rule;
    match result {
        CaseResult::Ok | CaseResult::Updated => Vec::new(),
        CaseResult::Error(why) => {
            vec![format!("no verdict: {}", one_line(&why.to_string(), 4_096))]
        }
        CaseResult::PassesWithoutRule => {
            vec!["it holds with the rule off as well, so it says nothing about the rule".to_owned()]
        }
        CaseResult::Vacuous(why) => vec![one_line(
            &format!(
                "vacuous: {rule} does not evaluate the request: {why}; change the request, or write `matches: false`"
            ),
            4_096,
        )],
        CaseResult::Evaluated => {
            vec![format!("it has `matches: false`, and {rule} evaluates the request")]
        }
        CaseResult::Differs(diff, _) => {
            let missing =
                diff.missing.iter().map(|finding| format!("- {}", violation_line(finding)));
            let found =
                diff.unexpected.iter().map(|finding| format!("+ {}", violation_line(finding)));
            let others =
                diff.other_differences.iter().map(|other| format!("! {}", one_line(other, 4_096)));
            missing.chain(found).chain(others).collect()
        }
    }
}

impl CoverageGap {
    /// Formats a gap: `IMG-3: no case that it rejects (IMG-3.yaml, below `reject`)`
    fn message(&self) -> String {
        let lacks: Vec<_> = self.missing.iter().map(|expects| expects.as_str()).collect();
        let Self { rule, file, .. } = self;
        format!("{rule}: no case below {} in {file}", lacks.join(", "))
    }
}

impl Report {
    pub(super) fn start(
        format: Format,
        subject: &PolicySubject,
        descriptor: &Descriptor,
        count: usize,
    ) -> io::Result<Self> {
        let mut report = Self {
            format,
            out: stdout(format.form()),
            name: descriptor.name.clone(),
            version: descriptor.version.clone(),
            source: subject.policy.module.to_string(),
            cases: subject.cases.display().to_string(),
        };
        if format == Format::Table && !is_quiet() {
            let Self { out, name, version, source, .. } = &mut report;
            let cases = if count == 1 { "case" } else { "cases" };
            writeln!(out, "{name} {version} ({source}): {count} {cases}\n")?;
        }
        Ok(report)
    }

    /// Reports a finished case.
    pub(super) fn add_run(&mut self, ran: &CaseRun) -> io::Result<()> {
        if self.format != Format::Table {
            return Ok(());
        }
        let (style, word) = match status(&ran.result) {
            "ok" => (SUCCESS, "ok"),
            "failed" => (ERROR, "FAILED"),
            _ => (ERROR, "ERROR"),
        };
        let whose = case_title(&ran.case);
        if is_quiet() && word == "ok" {
            return Ok(());
        }
        writeln!(self.out, "{whose} ... {}{word}{}", style.render(), style.render_reset())
    }

    /// Reports the end of all cases.
    pub(super) fn finish(
        mut self,
        ran: &[CaseRun],
        lacking: &[CoverageGap],
        updated: &[String],
        filtered: usize,
        took: Duration,
    ) -> io::Result<ExitStatus> {
        let count = |what: &str| ran.iter().filter(|ran| status(&ran.result) == what).count();
        let counts = [count("ok"), count("failed"), count("error")];
        match self.format {
            Format::Table => self.table(ran, lacking, updated, filtered, counts, took)?,
            Format::Json => self.json(ran, lacking, updated, filtered, counts, took)?,
            Format::Junit => self.junit(ran, lacking, counts, took)?,
            Format::Github => self.github(ran, lacking)?,
        }
        self.out.flush()?;
        if self.format != Format::Table {
            for line in updated {
                note(line);
            }
        }
        let [_, failed, errors] = counts;
        Ok(match (errors, failed, lacking.is_empty()) {
            (0, 0, true) => ExitStatus::Ok,
            (0, _, _) => ExitStatus::Denied,
            _ => ExitStatus::Engine,
        })
    }

    fn table(
        &mut self,
        ran: &[CaseRun],
        lacking: &[CoverageGap],
        updated: &[String],
        filtered: usize,
        [ok, failed, errors]: [usize; 3],
        took: Duration,
    ) -> io::Result<()> {
        let Self { out, cases, .. } = self;
        let wrong: Vec<_> = ran
            .iter()
            .filter(|ran| !matches!(ran.result, CaseResult::Ok | CaseResult::Updated))
            .collect();
        if !wrong.is_empty() {
            writeln!(out, "\nFailures (- expected, + found):")?;
        }
        for ran in wrong {
            writeln!(out, "\n{}: {}", case_location(cases, &ran.case), case_title(&ran.case))?;
            for line in failure_lines(ran) {
                let style = match line.get(..1) {
                    Some("-") => ERROR,
                    Some("+") => SUCCESS,
                    _ => WARNING,
                };
                writeln!(out, "  {}{line}{}", style.render(), style.render_reset())?;
            }
        }
        if !lacking.is_empty() {
            writeln!(out, "\nNot covered:")?;
        }
        for lacking in lacking {
            writeln!(out, "  {}", lacking.message())?;
        }
        if !updated.is_empty() {
            writeln!(out)?;
        }
        for line in updated {
            writeln!(out, "{line}")?;
        }
        let updated = ran.iter().filter(|ran| matches!(ran.result, CaseResult::Updated)).count();
        let updated = if updated == 0 { String::new() } else { format!(", {updated} updated") };
        let word = if failed + errors == 0 && lacking.is_empty() { "ok" } else { "FAILED" };
        let style = if word == "ok" { SUCCESS } else { ERROR };
        let errors =
            if errors == 0 { String::new() } else { format!(", {errors} without a verdict") };
        let filtered =
            if filtered == 0 { String::new() } else { format!(", {filtered} filtered out") };
        let lacking = match lacking.len() {
            0 => String::new(),
            1 => ", 1 rule not covered".to_owned(),
            count => format!(", {count} rules not covered"),
        };
        let (start, end, seconds) = (style.render(), style.render_reset(), took.as_secs_f64());
        writeln!(
            out,
            "\nresult: {start}{word}{end}. {ok} passed, {failed} failed{errors}{updated}{filtered}{lacking}; {seconds:.2} s"
        )
    }

    /// Converts the results to JSON. The members are part of the stable interface.
    fn json(
        &mut self,
        ran: &[CaseRun],
        lacking: &[CoverageGap],
        updated: &[String],
        filtered: usize,
        [ok, failed, errors]: [usize; 3],
        took: Duration,
    ) -> io::Result<()> {
        let finding = |finding: &Violation| {
            let Violation { rule, level, field: at, message, is_prefix: starts } = finding;
            let name = if *starts { "messagePrefix" } else { "message" };
            json!({"rule": rule, "level": level, "field": at, name: message})
        };
        let list = |findings: &[Violation]| findings.iter().map(finding).collect::<Vec<Value>>();
        let case = |ran: &CaseRun| {
            let Case { rule, name, location: place, expects, .. } = &ran.case;
            let mut one = json!({
                "rule": rule,
                "name": name,
                "expects": expects.as_str(),
                "file": format!("{}/{}", self.cases, place.file),
                "line": place.line,
                "status": status(&ran.result),
                "seconds": ran.duration.as_secs_f64(),
                "decision": ran.decision.as_ref().map(decision_json),
            });
            if let Some(members) = one.as_object_mut()
                && !matches!(ran.result, CaseResult::Ok | CaseResult::Updated)
            {
                members.insert("why".to_owned(), json!(failure_lines(ran)));
                if let CaseResult::Differs(diff, _) = &ran.result {
                    members.insert("missing".to_owned(), json!(list(&diff.missing)));
                    members.insert("unexpected".to_owned(), json!(list(&diff.unexpected)));
                }
            }
            one
        };
        let lacking = lacking.iter().map(|lacking| {
            let lacks: Vec<_> = lacking.missing.iter().map(|expects| expects.as_str()).collect();
            json!({"rule": lacking.rule, "lacks": lacks})
        });
        let all = json!({
            "policy": self.name,
            "version": self.version,
            "source": self.source,
            "passed": ok,
            "failed": failed,
            "errors": errors,
            "filtered": filtered,
            "seconds": took.as_secs_f64(),
            "cases": ran.iter().map(case).collect::<Vec<_>>(),
            "notCovered": lacking.collect::<Vec<_>>(),
            "updated": updated,
        });
        writeln!(self.out, "{all:#}")
    }

    fn junit(
        &mut self,
        ran: &[CaseRun],
        lacking: &[CoverageGap],
        [_, failed, errors]: [usize; 3],
        took: Duration,
    ) -> io::Result<()> {
        let Self { out, name, cases, .. } = self;
        let tests = ran.len() + lacking.len();
        let failures = failed + lacking.len();
        let counts = format!(
            "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{:.6}\"",
            took.as_secs_f64()
        );
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<testsuites {counts}>")?;
        writeln!(out, "  <testsuite name=\"{}\" {counts}>", escape_xml(name))?;
        for ran in ran {
            let Case { rule, name: case, location: at, .. } = &ran.case;
            let file = escape_xml(&format!("{cases}/{}", at.file));
            let (class, case, line) =
                (escape_xml(&format!("{name}.{rule}")), escape_xml(case), at.line);
            let time = ran.duration.as_secs_f64();
            write!(
                out,
                "    <testcase classname=\"{class}\" name=\"{case}\" file=\"{file}\" line=\"{line}\" time=\"{time:.6}\""
            )?;
            let lines = failure_lines(ran);
            let message = escape_xml(lines.first().map_or("", String::as_str));
            let text =
                escape_xml(&format!("{}\n{}", case_location(cases, &ran.case), lines.join("\n")));
            match ran.result {
                CaseResult::Ok | CaseResult::Updated => writeln!(out, "/>")?,
                CaseResult::Error(_) => writeln!(
                    out,
                    ">\n      <error message=\"{message}\">{text}</error>\n    </testcase>"
                )?,
                CaseResult::Differs(..)
                | CaseResult::PassesWithoutRule
                | CaseResult::Vacuous(_)
                | CaseResult::Evaluated => writeln!(
                    out,
                    ">\n      <failure message=\"{message}\">{text}</failure>\n    </testcase>"
                )?,
            }
        }
        for lacking in lacking {
            let (class, line) =
                (escape_xml(&format!("{name}.{}", lacking.rule)), escape_xml(&lacking.message()));
            writeln!(out, "    <testcase classname=\"{class}\" name=\"is covered\" time=\"0\">")?;
            writeln!(out, "      <failure message=\"{line}\"></failure>\n    </testcase>")?;
        }
        writeln!(out, "  </testsuite>\n</testsuites>")
    }

    fn github(&mut self, ran: &[CaseRun], lacking: &[CoverageGap]) -> io::Result<()> {
        let Self { out, cases, .. } = self;
        let wrong =
            ran.iter().filter(|ran| !matches!(ran.result, CaseResult::Ok | CaseResult::Updated));
        let failed = wrong.map(|ran| {
            let file = format!("{cases}/{}", ran.case.location.file);
            let line = u64::try_from(ran.case.location.line).unwrap_or(1);
            (
                file,
                line,
                format!("opgate: {}", case_title(&ran.case)),
                failure_lines(ran).join("\n"),
            )
        });
        let lacking = lacking.iter().map(|lacking| {
            let file = format!("{cases}/{}", lacking.file);
            (file, 1, format!("opgate: {} is not covered", lacking.rule), lacking.message())
        });
        github::write_failures(out, failed.chain(lacking))
    }
}
