//! Reviews of a recording that `opgate serve --record` wrote, with the inputs and the answer of each decision.
//!
//! ```text
//! line ─┬▶ header ─▶ kept: what the following reviews were decided with
//!       └▶ review ─▶ text, RecordedDecision ─▶ decided again with the recorded inputs
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::cli::explanation::list_some;
use opgate_admission::cluster::ReadAnswers;
use opgate_admission::evaluation::RecordedInputs;
use opgate_admission::policy::{ConfigErrors, Configuration, Profile};
use opgate_builtin_policies::BUILTINS;
use opgate_document::Value;
use opgate_recording::{RecordedAnswer, RecordedLine, RecordedReview, RecordingHeader};

/// Name of the configuration of a recording in errors.
const CONFIGURATION_NAME: &str = "the recording's opgate.yaml";

/// What a recording has of a decision, besides the review.
#[derive(Debug)]
pub(in crate::cli) struct RecordedDecision {
    /// What the decision depended on.
    pub(super) inputs: RecordedInputs,
    /// The policies that the URL named; all if none.
    pub(super) addressed: Option<Vec<String>>,
    /// The answer of the server.
    pub(in crate::cli) answer: RecordedAnswer,
    /// Why the decision cannot be repeated, if so.
    pub(in crate::cli) not_repeatable: Option<String>,
    /// What it was decided with, if the recording has its header.
    pub(in crate::cli) header: Option<Arc<RecordingHeader>>,
}

/// Reads the lines of recordings.
#[derive(Debug, Default)]
pub(super) struct RecordingLines {
    header: Option<Arc<RecordingHeader>>,
    /// Whether a review without a header was read.
    has_no_header: bool,
}

impl RecordingLines {
    /// Records that a review has no header, and returns whether it is the first one.
    pub(super) fn mark_missing_header(&mut self) -> bool {
        !std::mem::replace(&mut self.has_no_header, true)
    }

    /// Returns the last header.
    pub(super) fn header(&self) -> Option<&Arc<RecordingHeader>> {
        self.header.as_ref()
    }

    /// Returns the text of a line as a server writes it. It may nest deeper than other inputs, because objects are
    /// members of members in it; each object is checked when it is read.
    pub(super) fn text(line: &[u8]) -> Option<&str> {
        line.starts_with(RecordedLine::START).then(|| std::str::from_utf8(line).ok()).flatten()
    }

    /// Reports whether a document is a line of a recording.
    pub(super) fn is_line(document: Value<'_>) -> bool {
        let text = |pointer: &str| document.get(pointer).and_then(|value| value.text());
        match (text("/apiVersion"), text("/kind")) {
            (Some(api_version), Some(kind)) => RecordedLine::is_kind(api_version, kind),
            _ => false,
        }
    }

    /// Returns the text of the review and its decision; none for a header.
    ///
    /// # Errors
    /// If a member is missing or has another type.
    pub(super) fn read(
        &mut self,
        json: &str,
    ) -> Result<Option<(String, RecordedDecision)>, serde_json::Error> {
        match RecordedLine::read(json)? {
            RecordedLine::Header(header) => {
                self.header = Some(Arc::new(*header));
                Ok(None)
            }
            RecordedLine::Review(review) => Ok(Some(self.decision(*review))),
        }
    }

    fn decision(&self, recorded: RecordedReview) -> (String, RecordedDecision) {
        let RecordedReview { review, addressed, namespace_labels, reads, pending_objects, .. } =
            recorded;
        let answers = reads.into_iter();
        let answers = answers.map(|(policy, reads)| (policy, Arc::new(ReadAnswers::of(reads))));
        let inputs = RecordedInputs {
            reads: answers.collect::<BTreeMap<_, _>>(),
            namespace_labels,
            pending_objects,
        };
        let decision = RecordedDecision {
            inputs,
            addressed,
            answer: recorded.answer,
            not_repeatable: recorded.not_repeatable,
            header: self.header.clone(),
        };
        (review.get().to_owned(), decision)
    }
}

/// Returns the configuration of a recording.
///
/// # Errors
/// If it is not one for this opgate: all errors, each with line and column; or if it names policies that are not
/// built in. A recording does not choose the files and registries that a replay reads.
pub(in crate::cli) fn recorded_configuration(
    header: &RecordingHeader,
) -> Result<Configuration, ConfigErrors> {
    let configuration = match &header.configuration {
        Some(text) => Configuration::parse(Path::new(CONFIGURATION_NAME), text, BUILTINS),
        None => Ok(Configuration::builtin(Profile::default(), BUILTINS)),
    };
    let configuration = configuration?;
    let foreign = configuration.policies.iter().filter(|policy| policy.module.is_foreign());
    let names: Vec<_> = foreign.map(|policy| policy.name.as_str()).collect();
    if !names.is_empty() {
        let names = list_some(&names);
        let text = format!("{CONFIGURATION_NAME}: policies that are not built in: {names}");
        return Err(ConfigErrors::one(text));
    }
    Ok(with_recorded_platform(configuration, header))
}

/// Returns a configuration for the cluster of a recording.
pub(in crate::cli) fn with_recorded_platform(
    mut configuration: Configuration,
    header: &RecordingHeader,
) -> Configuration {
    if let Some(platform) = &header.platform {
        configuration.set_platform(platform.clone());
    }
    configuration
}
