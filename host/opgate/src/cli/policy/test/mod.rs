//! `opgate policy test`: runs the cases of a policy through its component, and reports like a test
//! runner.
//!
//! ```text
//! source ─▶ build ─▶ component ─┐
//! cases/*.yaml ─▶ opgate-casefile ┴▶ run ─▶ report: table, json, junit
//!        ▲   ▲                       ├────▶ which rules no case covers
//!        │   └────── update ◀────────┘
//!        └── record ◀── objects of a real cluster
//! ```

mod record;
mod report;
pub(super) mod run;
mod watch;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::Args;
use opgate_casefile::{Case, Expectation, File};

use self::record::ClusterRecorder;
use self::report::{CoverageGap, Format, Report};
use self::run::{CaseResult as Judged, CaseRun, Runner};
use super::source::{PolicySubject, SourceArgs};
use crate::cli::exit::{CommandError, ExitStatus};
use opgate_admission::policy::Descriptor;
use opgate_input::read::{ReadPurpose, Reader, open_named};

const AFTER_HELP: &str = "\
Examples:
  opgate policy test .                              Build the directory and run its cases
  opgate policy test . --watch                      Again whenever a file changes
  opgate policy test . --filter 'IMG-1 / a tag'     Only cases whose name contains that
  opgate policy test . --update                     Write what the policy says into cases that fail
  opgate policy test . --record                     Write what cases read of a cluster into them
  opgate policy test . --coverage                   With the lines that the language's tests run
  opgate policy test house.component.wasm -o junit  Without sources, for a pipeline
  opgate policy test --policy bundle-immutability --cases guest/policies/bundle-immutability/cases

Exit status: 0 all cases hold and cover all rules, 1 a case fails or a rule lacks one, 2 wrong usage,
unreadable cases or a failed build, 3 the policy failed. docs/policies/cases.md describes the cases.";

/// Bytes of all files with cases together.
const MAX_CASE_BYTES: usize = 64 << 20;
/// Files with cases: a policy has at most 512 rules.
const MAX_CASE_FILES: usize = 1_024;

/// Arguments of `opgate policy test`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Test {
    #[command(flatten)]
    source: SourceArgs,
    /// Run only cases whose `RULE / NAME` contains this text
    #[arg(long, short, value_name = "TEXT")]
    filter: Option<String>,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    native: NativeArgs,
    /// Write what the policy says into the cases that fail
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    record: RecordArgs,
    /// Run again whenever a file changes, until Ctrl-C
    #[arg(long, conflicts_with_all = ["update", "record"])]
    watch: bool,
    /// Component, or source directory with an opgate.yaml
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
}

/// The tests of the language.
#[derive(Debug, Args)]
struct NativeArgs {
    /// Run the tests of the language itself (`cargo test`, `npm test`, …) before the cases
    #[arg(long)]
    native: bool,
    /// Print the lines that the tests of the language run, by the tool of the language; implies --native
    #[arg(long)]
    coverage: bool,
}

/// The cluster whose objects cases record.
#[derive(Debug, Args)]
struct RecordArgs {
    /// Run cases with a real cluster, and write the objects that they read into the cases that name no `cluster`,
    /// or with --filter into all selected cases
    #[arg(long)]
    record: bool,
    /// With --record: kubeconfig of the cluster [default: KUBECONFIG, or the file that kubectl uses]
    #[arg(long, value_name = "FILE[:FILE]", requires = "record")]
    kubeconfig: Option<OsString>,
    /// With --record: context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "record")]
    kube_context: Option<String>,
}

/// Lines about changed cases.
#[derive(Debug, Default)]
struct Changes {
    lines: Vec<String>,
    /// Whether a case was not recorded.
    has_failed: bool,
}

impl Test {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let subject = self.source.subject(self.path.as_deref())?;
        if self.watch {
            return watch::watch(&subject, || self.run_once(&subject));
        }
        self.run_once(&subject)
    }

    /// Builds, runs and reports.
    fn run_once(&self, subject: &PolicySubject) -> Result<ExitStatus, CommandError> {
        let is_tested = match (self.native.coverage, self.native.native) {
            (true, _) => subject.measure_coverage()?,
            (false, true) => subject.native_test()?,
            (false, false) => true,
        };
        if !is_tested {
            return Ok(ExitStatus::Denied);
        }
        if !self.source.no_build {
            subject.build()?;
        }
        let started = Instant::now();
        let mut files = case_files(&subject.cases)?;
        let mut runner = Runner::load(&subject.policy, &self.source.config)?;
        let kinds = document_kinds(&runner.descriptor);
        let mut cases = parse_cases(&subject.cases, &files, &kinds)?;
        ensure_known_rules(&runner.descriptor, &cases, &subject.cases)?;
        let mut changes = Changes::default();
        if self.record.record {
            changes = self.record_cases(subject, &mut files, &kinds, &cases, &mut runner)?;
            cases = parse_cases(&subject.cases, &files, &kinds)?;
        }
        let all = cases.len();
        let cases: Vec<_> = cases.into_iter().filter(|case| self.is_selected(case)).collect();
        if cases.is_empty() {
            let what = if all == 0 { "has no cases" } else { "has no such case" };
            return Err(CommandError::usage(anyhow!("{}: {what}", subject.cases.display())));
        }
        let lacking = match self.filter {
            Some(_) => Vec::new(),
            None => find_gaps(&runner.descriptor, &cases),
        };
        let mut report = Report::start(self.output, subject, &runner.descriptor, cases.len())?;
        let filtered = all - cases.len();
        let cases: Vec<_> = cases.into_iter().map(run::to_single_lines).collect();
        let mut ran = runner.run(cases, &mut |ran| report.add_run(ran))?;
        if self.update {
            let updated = Self::update_cases(subject, &files, &kinds, &mut ran, &runner);
            changes.lines.extend(updated);
        }
        let took: Duration = started.elapsed();
        let outcome = report.finish(&ran, &lacking, &changes.lines, filtered, took)?;
        Ok(if changes.has_failed { outcome.max(ExitStatus::Denied) } else { outcome })
    }

    fn is_selected(&self, case: &Case) -> bool {
        let text = format!("{} / {}", case.rule, case.name);
        self.filter.as_ref().is_none_or(|filter| text.contains(filter.as_str()))
    }

    /// Reports whether a case is recorded: not one of a skipped rule, and without --filter none that names its cluster.
    fn is_recorded(&self, case: &Case) -> bool {
        let is_skipped = case.expects == Expectation::Skip || !case.skipped.is_empty();
        self.is_selected(case) && !is_skipped && (self.filter.is_some() || !case.has_cluster)
    }

    /// Writes the objects that cases read from a real cluster into their files.
    fn record_cases(
        &self,
        subject: &PolicySubject,
        files: &mut [File],
        kinds: &[&str],
        cases: &[Case],
        runner: &mut Runner,
    ) -> Result<Changes, CommandError> {
        let kubeconfig = self.record.kubeconfig.as_deref().unwrap_or(OsStr::new(""));
        let mut recorder =
            ClusterRecorder::connect(kubeconfig, self.record.kube_context.as_deref())?;
        let mut changes = Changes::default();
        for case in cases.iter().filter(|case| self.is_recorded(case)) {
            let whose = format!("{} / {}", case.rule, case.name);
            let objects = recorder.record(runner, case).map_err(|why| why.to_string());
            let written = objects.and_then(|objects| {
                let Some(objects) = objects else { return Ok(None) };
                let text = opgate_casefile::set_cluster(files, kinds, case, &objects);
                let text = text.map_err(|why| why.to_string())?;
                write_case_file(subject, files, &case.location.file, text)?;
                Ok(Some(objects.len()))
            });
            match written {
                Ok(None) => {
                    changes.lines.push(format!("not recorded {whose}: it reads nothing"));
                }
                Ok(Some(count)) => {
                    let objects = if count == 1 { "object" } else { "objects" };
                    let file = &case.location.file;
                    changes.lines.push(format!("recorded {whose} in {file}: {count} {objects}"));
                }
                Err(why) => {
                    changes.lines.push(format!("not recorded {whose}: {why}"));
                    changes.has_failed = true;
                }
            }
        }
        Ok(changes)
    }

    /// Writes answers into cases that fail. Gives a line for each: what was written, or why not.
    fn update_cases(
        subject: &PolicySubject,
        files: &[File],
        kinds: &[&str],
        ran: &mut [CaseRun],
        runner: &Runner,
    ) -> Vec<String> {
        let mut files = files.to_vec();
        let mut lines = Vec::new();
        for ran in ran {
            let Judged::Differs(_, answer) = &ran.result else { continue };
            let case = &ran.case;
            let whose = format!("{} / {}", case.rule, case.name);
            let level = |rule: &str| runner.level(rule);
            let text = opgate_casefile::update(&files, kinds, case, answer, level);
            let written = text
                .map_err(|why| why.to_string())
                .and_then(|text| write_case_file(subject, &mut files, &case.location.file, text));
            match written {
                Ok(()) => {
                    lines.push(format!("updated {whose} in {}", case.location.file));
                    ran.result = Judged::Updated;
                }
                Err(why) => lines.push(format!("not updated {whose}: {why}")),
            }
        }
        lines
    }
}

/// Gives a file another text. A directory that is tested can be anyone's: no link is followed.
///
/// # Errors
/// One line that names the file.
fn write_case_file(
    subject: &PolicySubject,
    files: &mut [File],
    name: &str,
    text: String,
) -> Result<(), String> {
    if let Some(file) = files.iter_mut().find(|file| file.name == name) {
        let path = subject.cases.join(name);
        let failed = |why: std::io::Error| format!("{}: {why}", path.display());
        if !std::fs::symlink_metadata(&path).map_err(failed)?.is_file() {
            return Err(format!("{}: not a regular file", path.display()));
        }
        std::fs::write(&path, &text).map_err(failed)?;
        file.text = text;
    }
    Ok(())
}

/// Returns the cases of a policy.
pub(super) fn read_cases(
    subject: &PolicySubject,
    descriptor: &Descriptor,
) -> Result<Vec<Case>, CommandError> {
    parse_cases(&subject.cases, &case_files(&subject.cases)?, &document_kinds(descriptor))
}

fn parse_cases(
    directory: &Path,
    files: &[File],
    kinds: &[&str],
) -> Result<Vec<Case>, CommandError> {
    opgate_casefile::read(files, kinds).map_err(|wrong| {
        let line = |wrong: &_| format!("{}/{wrong}", directory.display());
        let lines: Vec<_> = wrong.iter().map(line).collect();
        CommandError::usage(anyhow!(lines.join("\n")))
    })
}

/// Reads the case files of a directory.
fn case_files(directory: &Path) -> Result<Vec<File>, CommandError> {
    let named_directory = || directory.display().to_string();
    let entries = std::fs::read_dir(directory).with_context(|| {
        format!("{}: the directory with the cases of the policy (--cases)", named_directory())
    })?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(named_directory)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            paths.push(path);
        }
        if paths.len() > MAX_CASE_FILES {
            let text = format!("{}: more than {MAX_CASE_FILES} files", named_directory());
            return Err(CommandError::usage(anyhow!(text)));
        }
    }
    paths.sort();
    let reader = Reader::new(MAX_CASE_BYTES);
    let mut files = Vec::new();
    for path in paths {
        let whose = || path.display().to_string();
        let opened = open_named(&path).with_context(whose)?;
        let bytes = reader.read(opened, true, ReadPurpose::Keep).with_context(whose)?;
        let text = String::from_utf8(bytes).with_context(whose)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push(File { name, text });
    }
    Ok(files)
}

/// Returns the document kinds that the policy matches, which determine the type of a bundle in a case.
fn document_kinds(descriptor: &Descriptor) -> Vec<&'static str> {
    let kind = |resource: &String| match resource.as_str() {
        "registrybundles" => Some("RegistryBundle"),
        "plainbundles" => Some("PlainBundle"),
        "operatorprojects" => Some("OperatorProject"),
        _ => None,
    };
    descriptor.matches.iter().flat_map(|rule| &rule.resources).filter_map(kind).collect()
}

/// Checks that every file belongs to an existing rule.
fn ensure_known_rules(
    descriptor: &Descriptor,
    cases: &[Case],
    directory: &Path,
) -> Result<(), CommandError> {
    let Some(case) = cases.iter().find(|case| descriptor.rule(&case.rule).is_none()) else {
        return Ok(());
    };
    let ids = descriptor.rules.iter().map(|rule| rule.id.as_str());
    let hint = opgate_text::hint(&case.rule, ids);
    let (file, rule) = (directory.join(&case.location.file), &case.rule);
    let text = format!("{}: {} has no rule {rule:?}{hint}", file.display(), descriptor.name);
    Err(CommandError::usage(anyhow!(text)))
}

/// Rules without a case that they accept, reject or, where they need the cluster, skip.
fn find_gaps(descriptor: &Descriptor, cases: &[Case]) -> Vec<CoverageGap> {
    let one = |rule: &opgate_admission::policy::Rule| {
        let has = |expects| cases.iter().any(|c| c.rule == rule.id && c.expects == expects);
        let reads = descriptor.reads.iter().any(|read| read.rules.contains(&rule.id));
        let needs_cluster = reads || descriptor.samples.contains(&rule.id);
        let mut wanted = vec![Expectation::Accept, Expectation::Reject];
        wanted.extend(needs_cluster.then_some(Expectation::Skip));
        wanted.retain(|expects| !has(*expects));
        let file = format!("{}.yaml", rule.id);
        (!wanted.is_empty()).then(|| CoverageGap { rule: rule.id.clone(), missing: wanted, file })
    };
    descriptor.rules.iter().filter_map(one).collect()
}
