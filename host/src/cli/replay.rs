//! `opgate replay`: decides recorded reviews as the server would.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;

use super::report::{Format, Record, Report};
use super::{ConfigArgs, Failure, Outcome, input};
use crate::policy::Set;
use crate::review::Review;

/// Arguments of `opgate replay`.
#[derive(Debug, Args)]
pub(super) struct Replay {
    #[command(flatten)]
    config: ConfigArgs,
    /// The cluster as the policies see it: what `kubectl get -A -o yaml` prints
    #[arg(long, value_name = "PATH")]
    context: Vec<PathBuf>,
    /// Form of the output
    #[arg(long, value_name = "FORM", default_value = "table")]
    output: Format,
    /// Files with reviews (JSON, YAML, JSON Lines), folders, or `-`
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// A replay waits for nobody; the policies' own limits hold.
const PATIENCE: Duration = Duration::from_secs(3_600);

impl Replay {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let Self { config, context, output, paths } = self;
        let set = config.complete_set()?;
        let (files, skipped) = input::files(&paths)?;
        if skipped > 0 {
            tracing::warn!(files = skipped, "left out: not .json, .jsonl, .ndjson, .yaml or .yml");
        }
        for path in &context {
            std::fs::metadata(path).with_context(|| path.display().to_string())?;
        }
        if !context.is_empty() {
            tracing::warn!("--context is not used: no policy of this version reads the cluster");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let mut report = Report::start(output, &set);
        let mut outcome = Outcome::Ok;
        let mut decisions = 0usize;
        for file in files {
            for item in input::read(&file) {
                let decided = item.checked().and_then(|text| {
                    let review = Review::read(&text).map_err(|e| item.error(&e))?;
                    Ok(runtime.block_on(decide(&set, &review, &item.source)))
                });
                match decided {
                    Ok(record) => {
                        outcome = outcome.max(record.outcome());
                        decisions += 1;
                        match report.add(record) {
                            // Whoever reads the output has seen enough; what was found counts.
                            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                                return Ok(outcome);
                            }
                            other => other?,
                        }
                    }
                    Err(why) => {
                        outcome = outcome.max(Outcome::Usage);
                        tracing::error!("{why}");
                    }
                }
            }
        }
        match report.end() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(outcome),
            other => other?,
        }
        if decisions == 0 && outcome == Outcome::Ok {
            return Err(Failure::usage(anyhow::anyhow!("there is no review in what was named")));
        }
        Ok(outcome)
    }
}

async fn decide(set: &Set, review: &Review<'_>, source: &str) -> Record {
    let started = Instant::now();
    let decided = set.decide(review, None, started + PATIENCE, &()).await;
    Record::new(review, source, decided, started.elapsed())
}
