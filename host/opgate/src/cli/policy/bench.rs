//! `opgate policy bench`: the cost of a policy in a server, for a fixed amount of work.
//!
//! ```text
//! component ─▶ load: compiled, from the cache ─┐
//! reviews, or the policy's cases ─▶ calls ─────┴▶ p50, p99, memory, host calls, fast path
//! ```

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};

use super::Format;
use super::load::LoadedComponent;
use super::source::{PolicySubject, SourceArgs};
use super::test::read_cases;
use super::test::run::Runner;
use crate::cli::args::ReadArgs;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::input;
use crate::cli::output::{stream, text_or_json};
use opgate_admission::policy::{Measurement, ModuleSource};
use opgate_admission::review::Review;
use opgate_document::{Document, Text};

const AFTER_HELP: &str = "\
Examples:
  opgate policy bench .                                  With the reviews of the policy's cases
  opgate policy bench house.component.wasm reviews       With recorded reviews
  opgate policy bench . --calls 10000 -o json

Exit status: 0 measured, 2 wrong usage, 3 the policy fails or exceeds its limits. docs/policies/inspect.md
describes the figures.";

/// Calls about each review before those that count.
const WARM_UP_CALLS: usize = 20;

/// Reviews that are used, the first ones.
const MAX_REVIEWS: usize = 200;

/// Arguments of `opgate policy bench`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Bench {
    #[command(flatten)]
    source: SourceArgs,
    /// Calls to make, one after another, as many about each review
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calls: u32,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    read: ReadArgs,
    /// Component, or source directory with an opgate.yaml
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Files or directories with reviews [default: the reviews of its cases]
    #[arg(value_name = "REVIEW")]
    reviews: Vec<PathBuf>,
}

/// All calls.
struct Measurements {
    reviews: usize,
    /// In the order of their times.
    calls: Vec<Measurement>,
    /// Imports that a call calls, at most.
    host_calls: u64,
    /// The review of the longest call.
    slowest: String,
    total: Duration,
}

/// Load times.
struct LoadTimes {
    /// With compilation, or for a built-in policy from the embedded image.
    cold: Duration,
    /// From the cache, if there is one.
    cached: Option<Duration>,
}

impl Bench {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let subject = self.source.subject(self.path.as_deref())?;
        if !self.source.no_build {
            subject.build()?;
        }
        let (loads, size) = self.measure_loads(&subject)?;
        let mut runner = Runner::load(&subject.policy, &self.source.config)?;
        let measurements = if self.reviews.is_empty() {
            self.measure_cases(&subject, &mut runner)?
        } else {
            self.measure_reviews(&runner)?
        };
        let failed = measurements.calls.iter().find_map(|call| call.error.clone());
        let mut out = stream(Some(text_or_json(self.output == Format::Json)));
        let (limits, descriptor) = (subject.policy.limits, &runner.descriptor);
        let name = format!("{} {}", descriptor.name, descriptor.version);
        match self.output {
            Format::Table => {
                writeln!(out, "{name} ({})\n", subject.policy.module)?;
                write_table(&mut out, &loads, size, &measurements, limits)?;
            }
            Format::Json => {
                let source = subject.policy.module.to_string();
                let mut all = to_json(&loads, size, &measurements, limits);
                if let Some(members) = all.as_object_mut() {
                    members.insert("policy".to_owned(), json!(descriptor.name));
                    members.insert("version".to_owned(), json!(descriptor.version));
                    members.insert("source".to_owned(), json!(source));
                }
                writeln!(out, "{all:#}")?;
            }
        }
        match failed {
            Some(why) => {
                Err(CommandError::engine(anyhow!("{name}: a call ended in a policy error: {why}")))
            }
            None => Ok(ExitStatus::Ok),
        }
    }

    /// Loads the component without the cache, and from the cache.
    fn measure_loads(&self, subject: &PolicySubject) -> Result<(LoadTimes, usize), CommandError> {
        let policy = &subject.policy;
        let cache = self.source.config.cache_of(policy);
        let of = |bytes: Vec<u8>, cache: Option<&std::path::Path>| {
            LoadedComponent::of_bytes(&policy.module.to_string(), bytes, policy.limits, cache)
        };
        let first = LoadedComponent::of(policy, &self.source.config)?;
        let bytes = first.bytes;
        drop(first.module);
        let cold = of(bytes.clone(), None)?.load_time;
        let is_file = matches!(policy.module, ModuleSource::File(_));
        let cached = match cache.filter(|_| is_file) {
            // The first load above has written it.
            Some(cache) => Some(of(bytes.clone(), Some(&cache))?.load_time),
            None => None,
        };
        Ok((LoadTimes { cold, cached }, bytes.len()))
    }

    fn calls(&self) -> usize {
        usize::try_from(self.calls).unwrap_or(usize::MAX)
    }

    /// Measures the cases of the policy, each with its settings and its cluster state.
    fn measure_cases(
        &self,
        subject: &PolicySubject,
        runner: &mut Runner,
    ) -> Result<Measurements, CommandError> {
        let mut cases = read_cases(subject, &runner.descriptor)?;
        cases.truncate(MAX_REVIEWS);
        let each = self.calls().div_ceil(cases.len().max(1));
        let mut all = Vec::new();
        for case in cases {
            let name = format!("{} / {}", case.rule, case.name);
            let _ = runner.measure(&case, WARM_UP_CALLS);
            match runner.measure(&case, each) {
                Ok(Some((calls, host_calls))) => all.push((name, calls, host_calls)),
                Ok(None) => {}
                Err(why) => return Err(CommandError::usage(anyhow!("{name}: {why}"))),
            }
        }
        Measurements::of(all)
    }

    /// Measures reviews from files, with default settings and without cluster state.
    fn measure_reviews(&self, runner: &Runner) -> Result<Measurements, CommandError> {
        let policy = runner.policy()?;
        let reader = self.read.reader();
        let (files, _) = input::list_files(&self.reviews)?;
        let mut texts = Vec::new();
        for item in files.iter().flat_map(|file| input::read(file, &reader)) {
            let text = item.checked_text().map_err(CommandError::usage)?;
            if texts.len() < MAX_REVIEWS {
                texts.push((item.source, text));
            }
        }
        let mut reviews = Vec::new();
        for (name, text) in &texts {
            let review = Review::read(text).map_err(|error| {
                let hint = manifest_hint(name, text);
                CommandError::usage(anyhow!("{name}: {error}{hint}"))
            })?;
            if policy.matches(&review) {
                reviews.push((name, review));
            }
        }
        let each = self.calls().div_ceil(reviews.len().max(1));
        let mut all = Vec::new();
        for (name, review) in reviews {
            for _ in 0..WARM_UP_CALLS {
                let _ = policy.measure(&review);
            }
            let calls = (0..each).map(|_| policy.measure(&review)).collect();
            all.push((name.clone(), calls, policy.count_host_calls(&review)));
        }
        Measurements::of(all)
    }
}

/// Returns how to make a review of a text that is a manifest.
fn manifest_hint(name: &str, text: &Arc<Text>) -> String {
    let document = Document::part(text.clone(), 0..text.len());
    let has = |pointer: &str| document.get(pointer).and_then(|value| value.text()).is_some();
    if !(has("/apiVersion") && has("/kind") && has("/metadata/name")) {
        return String::new();
    }
    let file = name.split('#').next().unwrap_or(name);
    format!("; create a review of the manifest with `opgate review new -f {file} > review.json`")
}

impl Measurements {
    /// Creates it from reviews, each with its name, its calls and the number of imports per call.
    fn of(reviews: Vec<(String, Vec<Measurement>, u64)>) -> Result<Self, CommandError> {
        if reviews.is_empty() {
            let text = "the policy matches no review: name reviews after PATH";
            return Err(CommandError::usage(anyhow!(text)));
        }
        let count = reviews.len();
        let (mut calls, mut host_calls) = (Vec::new(), 0);
        for (name, of_it, imports) in reviews {
            host_calls = imports.max(host_calls);
            calls.extend(of_it.into_iter().map(|call| (name.clone(), call)));
        }
        calls.sort_by_key(|(_, call)| call.wall_time);
        let slowest = calls.last().map(|(name, _)| name.clone()).unwrap_or_default();
        let calls: Vec<_> = calls.into_iter().map(|(_, call)| call).collect();
        let total = calls.iter().map(|call| call.wall_time).sum();
        Ok(Self { reviews: count, calls, host_calls, slowest, total })
    }

    /// Returns the time that this percentage of calls stays within.
    fn percentile(&self, percent: usize) -> Duration {
        let last = self.calls.len().saturating_sub(1);
        let at = last * percent / 100;
        self.calls.get(at).map(|call| call.wall_time).unwrap_or_default()
    }

    fn memory(&self) -> usize {
        self.calls.iter().map(|call| call.memory).max().unwrap_or_default()
    }

    fn slow_calls(&self) -> usize {
        self.calls.iter().filter(|call| !call.is_fast()).count()
    }

    fn calls_per_second(&self) -> u128 {
        let calls = u128::try_from(self.calls.len()).unwrap_or_default();
        (calls * 1_000_000_000).checked_div(self.total.as_nanos()).unwrap_or_default()
    }
}

/// Formats a number of bytes.
pub(super) fn format_kib(bytes: usize) -> String {
    let kib = bytes.div_ceil(1 << 10);
    if kib < 10 << 10 { format!("{kib} KiB") } else { format!("{} MiB", kib.div_ceil(1 << 10)) }
}

/// Returns a time with three digits.
fn format_time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        small if small < 1_000.0 => format!("{small:.1} µs"),
        small if small < 1e6 => format!("{:.2} ms", small / 1e3),
        large => format!("{:.2} s", large / 1e6),
    }
}

fn write_table(
    out: &mut impl std::io::Write,
    loads: &LoadTimes,
    size: usize,
    measurements: &Measurements,
    limits: opgate_engine::Limits,
) -> std::io::Result<()> {
    let mut line = |what: &str, text: String| writeln!(out, "{what:18} {text}");
    line("component", format_kib(size))?;
    line("load, cold", format!("{} (compiled)", format_time(loads.cold)))?;
    if let Some(cached) = loads.cached {
        line("load, cached", format_time(cached))?;
    }
    let count = measurements.calls.len();
    line("calls", format!("{count}, about {} reviews, one after another", measurements.reviews))?;
    line("evaluation, p50", format_time(measurements.percentile(50)))?;
    line("evaluation, p99", format_time(measurements.percentile(99)))?;
    let longest =
        format!("{} ({})", format_time(measurements.percentile(100)), measurements.slowest);
    line("longest", opgate_text::one_line(&longest, 256))?;
    line("calls a second", measurements.calls_per_second().to_string())?;
    let most = format_kib(limits.memory);
    line("memory", format!("{} of {most}", format_kib(measurements.memory())))?;
    line("host calls", format!("{} at most", measurements.host_calls))?;
    line("fast path", fast_path(measurements.slow_calls(), count))?;
    let within =
        if measurements.calls.iter().any(|call| call.error.is_some()) { "no" } else { "yes" };
    line("within its limits", format!("{within} ({} ms, {most})", limits.cpu_time.as_millis()))
}

/// Returns how a server runs the calls. One that is short for most tenants starts on the fast path, and is repeated on a
/// worker thread if it is long. A policy whose calls are long for most tenants starts there at once.
fn fast_path(slow: usize, count: usize) -> String {
    let used = format!("{slow} of {count} calls used more than 2 ms of CPU time");
    if slow == 0 {
        "yes: no call used more than 2 ms of CPU time".to_owned()
    } else if slow.saturating_mul(2) > count {
        format!("no: {used}; a server runs such a policy on worker threads, once for each call")
    } else {
        format!(
            "no: {used}; a server can run such a call twice, the second time on a worker thread"
        )
    }
}

/// Converts the figures to JSON. The members are part of the stable interface.
fn to_json(
    loads: &LoadTimes,
    size: usize,
    measurements: &Measurements,
    limits: opgate_engine::Limits,
) -> Value {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let slow = measurements.slow_calls();
    json!({
        "size": size,
        "loadColdMicroseconds": micros(loads.cold),
        "loadCachedMicroseconds": loads.cached.map(micros),
        "reviews": measurements.reviews,
        "calls": measurements.calls.len(),
        "p50Microseconds": micros(measurements.percentile(50)),
        "p99Microseconds": micros(measurements.percentile(99)),
        "longestMicroseconds": micros(measurements.percentile(100)),
        "longestReview": measurements.slowest,
        "callsPerSecond": u64::try_from(measurements.calls_per_second()).unwrap_or(u64::MAX),
        "memory": measurements.memory(),
        "memoryLimit": limits.memory,
        "hostCalls": measurements.host_calls,
        "beyondFastLane": slow,
        "staysInFastLane": slow == 0,
        "timeLimitMicroseconds": micros(limits.cpu_time),
        "faults": measurements.calls.iter().filter(|call| call.error.is_some()).count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_are_usually_short_run_twice() {
        for (slow, expected) in [
            (0, "yes: no call"),
            (1, "a server can run such a call twice"),
            (50, "a server can run such a call twice"),
            (51, "once for each call"),
            (100, "once for each call"),
        ] {
            let found = fast_path(slow, 100);
            assert!(found.contains(expected), "{slow}: {found}");
        }
    }
}
