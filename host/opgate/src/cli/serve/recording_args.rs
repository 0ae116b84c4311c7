//! Arguments about the recording of reviews.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use opgate_admission::policy::PolicySet;
use opgate_recording::{
    Destination, Recorder, RecorderOptions, Redaction, SampleRate, SampleRates,
};
use opgate_server::ExternalMetrics;
use opgate_text::units::parse_bytes;

use crate::cli::exit::CommandError;

/// Less is not enough for the largest reviews.
const MIN_DIRECTORY_BYTES: usize = 16 << 20;

/// Flags that record reviews.
#[derive(Debug, Args)]
pub(super) struct RecordingArgs {
    /// Record reviews with their decisions, and everything that these depended on, for `opgate replay`: in files of
    /// this directory, or with - on standard output
    #[arg(long, value_name = "DIR|-", env = "OPGATE_RECORD")]
    record: Option<PathBuf>,
    /// Maximum size of the files in that directory; opgate deletes the oldest
    #[arg(long, value_name = "SIZE", default_value = "1Gi", value_parser = parse_bytes, requires = "record")]
    record_max_size: usize,
    /// Share of the reviews to record, by outcome (allowed, warned, denied, failed) or by rule: `allowed=0.01`; may
    /// be repeated [default: 1 for each outcome]
    #[arg(long, value_name = "NAME=RATE", requires = "record")]
    record_sample: Vec<SampleRate>,
    /// JSON pointer to values in objects that the recording must not have, such as `/spec/containers/*/env/*/value`;
    /// may be repeated. Values of Secrets are never recorded
    #[arg(long, value_name = "POINTER", requires = "record")]
    record_redact: Vec<String>,
}

impl RecordingArgs {
    /// Starts the recording.
    pub(super) fn start(self, set: &PolicySet) -> Result<Option<Arc<Recorder>>, CommandError> {
        let Self { record, record_max_size, record_sample, record_redact } = self;
        let Some(record) = record else { return Ok(None) };
        let destination = if record.as_os_str() == "-" {
            Destination::Stdout
        } else if record_max_size < MIN_DIRECTORY_BYTES {
            let text = "--record-max-size is less than 16Mi, which the largest reviews need";
            return Err(CommandError::usage(anyhow::anyhow!(text)));
        } else {
            Destination::Directory(record, u64::try_from(record_max_size).unwrap_or(u64::MAX))
        };
        let redaction = Redaction::of(&record_redact);
        let redaction = redaction
            .map_err(|error| CommandError::usage(anyhow::anyhow!("--record-redact: {error}")))?;
        let rates = SampleRates::of(record_sample);
        let options = RecorderOptions { destination, rates, redaction };
        let recorder = Recorder::start(options, set).map_err(CommandError::usage)?;
        Ok(Some(Arc::new(recorder)))
    }
}

/// The metrics of a recording.
pub(super) fn metrics(recorder: &Recorder) -> ExternalMetrics {
    let counts = recorder.counts();
    ExternalMetrics::new(move |registry| counts.register(registry))
}
