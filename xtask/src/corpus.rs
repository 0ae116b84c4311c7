//! Checks published content, and compares the result with that of the last run: a denial of something that
//! works is an outage for its user, and shows only on what others have published.
//!
//! ```text
//! FOLDER ─▶ opgate check --output jsonl ─┬▶ by rule: how many objects it denies, and warns about
//!                                        ├▶ share without violations, objects a CPU second, memory
//!                                        └▶ what is denied ─▶ target/corpus/last.tsv: what is new?
//! ```
//!
//! The repository contains no corpus. Fetch it with git: docs/reliability.md names the repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{fs, io};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// Subjects and options of a check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CorpusOptions<'a> {
    pub(crate) directories: Vec<&'a str>,
    /// The binary; by default the release build of the workspace.
    pub(crate) binary: Option<&'a str>,
    /// Arguments of `opgate check` before the directories.
    pub(crate) arguments: Vec<&'a str>,
}

/// Lines of output between two samples of the process's memory.
const LINES_PER_MEMORY_SAMPLE: usize = 64;

/// Ticks of the times in `/proc`, a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Results of a run.
#[derive(Debug, Default)]
struct CorpusStats {
    objects: usize,
    without_violations: usize,
    violations: usize,
    unreadable: usize,
    /// By kind of object: all, and those that are denied.
    kinds: BTreeMap<String, (usize, usize)>,
    /// By rule: objects that it denies, and that it warns about.
    rules: BTreeMap<String, (usize, usize)>,
    /// Object and rule of each denial.
    denials: BTreeSet<(String, String)>,
}

/// Resource usage of a process.
#[derive(Debug, Default, Clone, Copy)]
struct Usage {
    cpu_seconds: f64,
    peak_kib: u64,
}

/// Checks the directories; returns the report.
///
/// # Errors
/// If the check cannot run, or denies what it did not deny in the last run.
pub(crate) fn run(root: &Path, options: &CorpusOptions<'_>) -> Result<String> {
    let binary = if let Some(binary) = options.binary {
        PathBuf::from(binary)
    } else {
        let mut build = Command::new(env!("CARGO"));
        let status = build.current_dir(root).args(["build", "--release"]).status()?;
        ensure!(status.success(), "the release build failed");
        root.join("target/release/opgate")
    };
    let mut stats = CorpusStats::default();
    let (mut usage, mut seconds) = (Usage::default(), 0.0);
    for directory in &options.directories {
        let started = Instant::now();
        let used = check(&binary, &options.arguments, directory, &mut stats)
            .with_context(|| format!("opgate check {directory}"))?;
        seconds += started.elapsed().as_secs_f64();
        usage.cpu_seconds += used.cpu_seconds;
        usage.peak_kib = usage.peak_kib.max(used.peak_kib);
    }
    let last = root.join("target/corpus/last.tsv");
    let known = read_denials(&last)?;
    let report = stats.report(usage, seconds);
    let fresh: Vec<_> = match &known {
        Some(known) => stats.denials.difference(known).collect(),
        None => Vec::new(),
    };
    ensure!(fresh.is_empty(), "{report}\n\n{}", format_denials(&fresh));
    write_denials(&last, &stats.denials)?;
    let gone = known.map_or(0, |known| known.difference(&stats.denials).count());
    Ok(format!("{report}\n\n{gone} denials of the last run are gone, none is new"))
}

fn format_denials(fresh: &[&(String, String)]) -> String {
    let mut text =
        format!("{} denials are new (delete target/corpus/last.tsv to accept them):", fresh.len());
    for (object, rule) in fresh.iter().take(100) {
        // Writing to a text does not fail.
        let _ = write!(text, "\n  {rule} {object}");
    }
    text
}

/// Checks one directory, and adds the output.
fn check(
    binary: &Path,
    arguments: &[&str],
    directory: &str,
    stats: &mut CorpusStats,
) -> Result<Usage> {
    let mut child = Command::new(binary)
        .args(["check", "--quiet", "--output", "jsonl"])
        .args(arguments)
        .arg(directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let out = child.stdout.take().context("no output")?;
    let proc_directory = PathBuf::from(format!("/proc/{}", child.id()));
    let mut usage = Usage::default();
    for (number, line) in BufReader::new(out).lines().enumerate() {
        if number.is_multiple_of(LINES_PER_MEMORY_SAMPLE) {
            usage.peak_kib = usage.peak_kib.max(peak_kib(&proc_directory).unwrap_or_default());
        }
        stats.add(&serde_json::from_str(&line?)?);
    }
    // The process has ended, or is ending; its times are available until it is waited for.
    usage.cpu_seconds = cpu_seconds_of(&proc_directory).unwrap_or_default();
    let exit = child.wait()?;
    match exit.code() {
        Some(0..=2) => Ok(usage),
        _ => bail!("ended with {exit}"),
    }
}

/// Returns the largest memory of a process so far, in KiB.
fn peak_kib(process: &Path) -> Option<u64> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Returns user and system time of a process.
fn cpu_seconds_of(process: &Path) -> Option<f64> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name of the program, in brackets, may have spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times =
        fields.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok());
    Some((times.next()? + times.next()?) / TICKS_PER_SECOND)
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

impl CorpusStats {
    fn add(&mut self, record: &Value) {
        let (kind, source, name) =
            (text(record, "kind"), text(record, "source"), text(record, "name"));
        if kind.is_empty() {
            self.unreadable += 1;
            return;
        }
        let mut rules: BTreeMap<&str, bool> = BTreeMap::new();
        let violations = record.get("violations").and_then(Value::as_array);
        for violation in violations.into_iter().flatten() {
            self.violations += 1;
            *rules.entry(text(violation, "rule")).or_default() |=
                text(violation, "level") == "deny";
        }
        let of_kind = self.kinds.entry(kind.to_owned()).or_default();
        of_kind.0 += 1;
        of_kind.1 += usize::from(rules.values().any(|denies| *denies));
        self.objects += 1;
        self.without_violations += usize::from(rules.is_empty());
        for (rule, denies) in rules {
            let of_rule = self.rules.entry(rule.to_owned()).or_default();
            if denies {
                of_rule.0 += 1;
                self.denials.insert((format!("{source} {kind} {name}"), rule.to_owned()));
            } else {
                of_rule.1 += 1;
            }
        }
    }

    fn report(&self, usage: Usage, seconds: f64) -> String {
        let mut text = String::from("| kind | objects | denied |\n|---|---|---|\n");
        // Writing to a text does not fail.
        for (kind, (all, denied)) in &self.kinds {
            let _ = writeln!(text, "| {kind} | {all} | {denied} |");
        }
        text.push_str("\n| rule | denies | warns |\n|---|---|---|\n");
        let mut rules: Vec<_> = self.rules.iter().collect();
        rules.sort_by_key(|(_, (denies, warns))| std::cmp::Reverse((*denies, *warns)));
        for (rule, (denies, warns)) in rules {
            let _ = writeln!(text, "| {rule} | {denies} | {warns} |");
        }
        let Usage { cpu_seconds, peak_kib } = usage;
        let percent = percentage(self.without_violations * 100, self.objects);
        let mean = percentage(self.violations, self.objects);
        let _ = write!(
            text,
            "\n{} objects, {percent:.1} % without a violation, {mean:.2} violations an object; {} not read\n\
             {seconds:.1} s, {cpu_seconds:.1} CPU seconds, {:.0} objects a CPU second, {} MiB",
            self.objects,
            self.unreadable,
            if cpu_seconds > 0.0 { percentage(self.objects, 1) / cpu_seconds } else { 0.0 },
            peak_kib / 1_024,
        );
        text
    }
}

fn percentage(part: usize, whole: usize) -> f64 {
    let number = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    if whole == 0 { 0.0 } else { number(part) / number(whole) }
}

/// Returns the denials of the last run; none if there was none.
fn read_denials(path: &Path) -> Result<Option<BTreeSet<(String, String)>>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let pair = |line: &str| {
        let (rule, object) = line.split_once('\t')?;
        Some((object.to_owned(), rule.to_owned()))
    };
    Ok(Some(text.lines().filter_map(pair).collect()))
}

fn write_denials(path: &Path, denials: &BTreeSet<(String, String)>) -> Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut lines = String::new();
    for (object, rule) in denials {
        // Writing to a text does not fail.
        let _ = writeln!(lines, "{rule}\t{object}");
    }
    fs::write(path, lines).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(name: &str, violations: &[(&str, &str)]) -> Value {
        let violations: Vec<_> =
            violations.iter().map(|(rule, level)| json!({"rule": rule, "level": level})).collect();
        json!({"source": "a", "kind": "Bundle", "name": name, "violations": violations})
    }

    #[test]
    fn objects_are_counted_by_rule_and_kind() {
        let mut stats = CorpusStats::default();
        stats.add(&record("x", &[("A-1", "warn"), ("A-1", "deny"), ("A-2", "warn")]));
        stats.add(&record("y", &[("A-2", "warn"), ("A-2", "warn")]));
        stats.add(&record("z", &[]));
        stats.add(&json!({"source": "b", "kind": "", "violations": []}));
        let report = stats.report(Usage { cpu_seconds: 2.0, peak_kib: 2_048 }, 1.0);
        for line in [
            "| Bundle | 3 | 1 |",
            "| A-1 | 1 | 0 |",
            "| A-2 | 0 | 2 |",
            "3 objects, 33.3 % without a violation, 1.67 violations an object; 1 not read",
            "1.0 s, 2.0 CPU seconds, 2 objects a CPU second, 2 MiB",
        ] {
            assert!(report.contains(line), "{line}:\n{report}");
        }
        let denied = ("a Bundle x".to_owned(), "A-1".to_owned());
        assert_eq!(stats.denials, BTreeSet::from([denied]));
    }

    /// Returns a program that prints what `opgate check` would.
    fn printing(directory: &Path, records: &[Value]) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = directory.join("opgate");
        let lines: Vec<_> = records.iter().map(|record| format!("echo '{record}'")).collect();
        let lines = lines.join("\n");
        fs::write(&path, format!("#!/bin/sh\n{lines}\nexit 1\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn new_denial_fails_and_names_its_object() {
        let directory = tempfile::tempdir().unwrap();
        let run_with = |records: &[Value]| {
            let binary = printing(directory.path(), records);
            let binary = binary.to_str();
            let options =
                CorpusOptions { directories: vec!["f"], binary, ..CorpusOptions::default() };
            run(directory.path(), &options)
        };
        let known = [record("x", &[("A-1", "deny")]), record("y", &[])];
        assert!(run_with(&known).unwrap().ends_with("none is new"));
        let fresh = [record("x", &[("A-1", "deny")]), record("y", &[("A-2", "deny")])];
        let error = run_with(&fresh).unwrap_err().to_string();
        assert!(error.contains("1 denials are new") && error.contains("A-2 a Bundle y"), "{error}");
        let fewer = run_with(&known[1..]).unwrap();
        assert!(fewer.ends_with("1 denials of the last run are gone, none is new"), "{fewer}");
    }
}
