//! Detects the type of an input file: AdmissionReviews, manifests, or an unsuitable file.
//!
//! ```text
//! Item ─┬▶ AdmissionReview ─────────────────▶ ReviewInput
//!       ├▶ object, list of objects ─▶ make ─▶ ReviewInput, one for each
//!       ├▶ object again, watch event ─▶ make ▶ ReviewInput of the change
//!       ├▶ event of an audit log ─▶ AuditLog ▶ ReviewInput, if it is a write
//!       ├▶ line of a recording ─▶ recording ─▶ ReviewInput with its RecordedDecision
//!       └▶ anything else ───────────────────▶ what it is, and what to do with it
//! ```

mod audit_log;
mod missing_reads;
mod object_versions;
mod recording;
mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use opgate_admission::evaluation::{DecideError, Observer};
use opgate_admission::policy::{Decision, PolicySet};
use opgate_admission::review::{self, Operation, Review, ReviewError};
use opgate_document::Text;
use opgate_files::unsupported_type;
use opgate_input::objects::{self, TypedObject};
use opgate_recording::{RecordedLine, RecordingHeader};
use opgate_text::one_line;

use self::audit_log::AuditLog;
pub(super) use self::missing_reads::MissingReads;
use self::recording::RecordingLines;
pub(super) use self::recording::{
    RecordedDecision, recorded_configuration, with_recorded_platform,
};
use self::watch::{WatchEvent, WatchedObjects};
use crate::cli::input::{InputError, ReviewItem};
use crate::cli::kinds::Kinds;
use crate::cli::make_review::{
    GeneratedReview, MakeReviewError, Manifest, RequestOptions, make_review as make,
};
use crate::cli::report::review_record::InputType;
use crate::cli::verbosity::note;

/// Objects of one document.
const MAX_DOCUMENT_OBJECTS: usize = 100_000;

/// Bytes of all reviews of one document, which are in memory together.
const MAX_DOCUMENT_BYTES: usize = 512 << 20;

/// Lines about files that were taken for something.
const MAX_LINES: usize = 20;

/// A review, and what it was.
pub(super) struct ReviewInput {
    pub(super) source: String,
    pub(super) text: Arc<Text>,
    pub(super) input_type: InputType,
    /// A line for the user.
    pub(super) line: String,
    /// The decision of a recording.
    pub(super) recorded: Option<Arc<RecordedDecision>>,
}

impl ReviewInput {
    /// Reads the review.
    ///
    /// # Errors
    /// If it is not one.
    pub(super) fn review(&self) -> Result<Review<'_>, ReviewError> {
        match &self.recorded {
            Some(_) => Review::read_recorded(&self.text),
            None => Review::read(&self.text),
        }
    }

    /// Returns the policies that the URL of a recorded review names; none if it names none.
    pub(super) fn addressed(&self) -> Option<&[String]> {
        self.recorded.as_ref()?.addressed.as_deref()
    }

    /// Decides the review, with the recorded inputs if there are some. `only` names policies with `/` between them.
    ///
    /// # Errors
    /// If the process is overloaded, or a named policy does not exist.
    pub(super) async fn decide(
        &self,
        review: &Review<'_>,
        set: &PolicySet,
        only: Option<&str>,
        deadline: Instant,
        observer: &impl Observer,
    ) -> Result<Decision, DecideError> {
        let Some(recorded) = &self.recorded else {
            return set.decide(review, only, deadline, observer).await;
        };
        let names: Option<BTreeSet<&str>> = match (only, &recorded.addressed) {
            (Some(only), _) => Some(only.split('/').collect()),
            (None, Some(names)) => Some(names.iter().map(String::as_str).collect()),
            (None, None) => None,
        };
        let inputs = recorded.inputs.clone();
        let decided = set.decide_recorded(review, names.as_ref(), inputs, deadline, observer);
        Ok(decided.await?)
    }
}

/// Returns the header of a recording, if the item is one.
pub(super) fn recording_header(item: &ReviewItem) -> Option<RecordingHeader> {
    let written = item.text.as_ref().ok().and_then(|text| RecordingLines::text(text));
    let json = if let Some(json) = written {
        json.to_owned()
    } else {
        let document = item.document().ok()?;
        RecordingLines::is_line(document.root()).then(|| document.root().raw().into_owned())?
    };
    match RecordedLine::read(&json).ok()? {
        RecordedLine::Header(header) => Some(*header),
        RecordedLine::Review(_) => None,
    }
}

/// The reason why an object of a document has no review.
enum ObjectError {
    /// A complete line, with the source.
    Line(String),
    /// Without the source.
    Reason(String),
}

impl From<MakeReviewError> for ObjectError {
    fn from(error: MakeReviewError) -> Self {
        match error {
            MakeReviewError::Manifest(line) => Self::Line(line),
            MakeReviewError::Object(error) => Self::Reason(error.to_string()),
        }
    }
}

/// Makes reviews of what is given.
#[derive(Debug, Default)]
pub(super) struct ReviewFactory {
    kinds: Kinds,
    request_options: RequestOptions,
    audit_log: AuditLog,
    watched: WatchedObjects,
    recording: RecordingLines,
}

impl ReviewFactory {
    /// Returns the reviews of an item.
    ///
    /// # Errors
    /// Returns the reviews of an item, or one line with the source that describes the actual type or the
    /// error.
    pub(super) fn create_reviews(
        &mut self,
        item: &ReviewItem,
    ) -> Result<Vec<ReviewInput>, InputError> {
        let source = item.source.as_str();
        if item.text.as_ref().is_ok_and(|text| text.trim_ascii().is_empty()) {
            return Err(InputError::Line(format!("{source}: {EMPTY_INPUT}")));
        }
        if let Some(json) = item.text.as_ref().ok().and_then(|text| RecordingLines::text(text)) {
            return self.recorded_review(item, json);
        }
        let text = item.checked_text().map_err(|why| why.with_empty_text(EMPTY_INPUT))?;
        let wrong = match Review::read(&text) {
            Ok(review) => {
                let line = describe_review(source, "an AdmissionReview", &review);
                let source = source.to_owned();
                return Ok(vec![ReviewInput {
                    source,
                    text: text.clone(),
                    input_type: InputType::Review,
                    line,
                    recorded: None,
                }]);
            }
            Err(error @ ReviewError::Shape(_)) => error,
            Err(error) => return Err(item.error_line(&error)),
        };
        let document = item.document()?;
        if RecordingLines::is_line(document.root()) {
            return self.recorded_review(item, &text);
        }
        let is_audit_event = audit_log::is_audit_event(document.root());
        let (event, root) = match WatchEvent::of(document.root()) {
            Some((WatchEvent::Bookmark, _)) => return Ok(Vec::new()),
            Some((WatchEvent::Error, status)) => {
                let message = status.get("/message").and_then(|value| value.text());
                let message = one_line(message.unwrap_or_default(), 512);
                return Err(InputError::Line(format!("{source}: the watch failed: {message}")));
            }
            Some((event, object)) => (Some(event), object),
            None => (None, document.root()),
        };
        if let Some(what) = unsupported_type(document.root()).filter(|_| !is_audit_event) {
            return Err(InputError::Line(format!("{source}: {what}")));
        }
        if document.get("/kind").and_then(|kind| kind.text()) == Some("AdmissionReview") {
            return Err(item.error_line(&wrong));
        }
        let mut review_input = Vec::new();
        let mut error = None;
        let (mut count, mut bytes) = (0_usize, 0_usize);
        objects::for_each_object(root, None, &mut |found| {
            count = count.saturating_add(1);
            if error.is_some() {
                return;
            }
            let one = match found {
                _ if count > MAX_DOCUMENT_OBJECTS => {
                    Err(ObjectError::Reason(format!("more than {MAX_DOCUMENT_OBJECTS} objects")))
                }
                _ if bytes > MAX_DOCUMENT_BYTES => {
                    let mebibytes = MAX_DOCUMENT_BYTES >> 20;
                    let what = "of requests in one document: write an object on each line instead";
                    Err(ObjectError::Reason(format!("more than {mebibytes} MiB {what}")))
                }
                Ok(found) => self.create_review(item, &found, event),
                // Neither a review nor an object.
                Err(_) if count == 1 && review_input.is_empty() => {
                    Err(ObjectError::Reason(format!("{wrong}; {UNKNOWN_INPUT}")))
                }
                Err(wrong) => Err(ObjectError::Reason(wrong.to_string())),
            };
            match one {
                Ok(one) => {
                    let size = one.as_ref().map_or(0, |one: &ReviewInput| one.text.len());
                    bytes = bytes.saturating_add(size);
                    review_input.extend(one);
                }
                Err(ObjectError::Line(line)) => error = Some(line),
                Err(ObjectError::Reason(why)) => error = Some(format!("{source}: {why}")),
            }
        });
        if let Some(error) = error {
            return Err(InputError::Line(error));
        }
        if is_audit_event {
            self.audit_log.add_evaluated(review_input.len());
        } else if review_input.is_empty() {
            return Err(InputError::Line(format!(
                "{source}: a list without objects: it contains nothing to evaluate"
            )));
        }
        Ok(review_input)
    }

    /// Returns the review of a line of a recording; none for a header.
    fn recorded_review(
        &mut self,
        item: &ReviewItem,
        json: &str,
    ) -> Result<Vec<ReviewInput>, InputError> {
        let source = item.source.as_str();
        let fail = |error: &dyn std::fmt::Display| {
            let error = one_line(&error.to_string(), 512);
            InputError::Line(format!("{source}: not a line of a recording: {error}"))
        };
        let line = self.recording.read(json).map_err(|error| fail(&error))?;
        let Some((text, recorded)) = line else { return Ok(Vec::new()) };
        if recorded.header.is_none() && self.recording.mark_missing_header() {
            tracing::warn!(
                "{source}: no line `Recording` before it, as at the beginning of each file: the policies of --config, by default all built-in ones, decide"
            );
        }
        let text = review::text(text.into_bytes()).map_err(|error| fail(&error))?;
        let review = Review::read_recorded(&text).map_err(|error| fail(&error))?;
        let line = describe_review(source, "a recorded review", &review);
        Ok(vec![ReviewInput {
            source: source.to_owned(),
            text: text.clone(),
            input_type: InputType::RecordedReview,
            line,
            recorded: Some(Arc::new(recorded)),
        }])
    }

    /// Returns the review of an object of a document, or the object that is one; none for an audit event
    /// without a review.
    fn create_review(
        &mut self,
        item: &ReviewItem,
        found: &TypedObject<'_, '_>,
        event: Option<WatchEvent>,
    ) -> Result<Option<ReviewInput>, ObjectError> {
        let source = match found.pointer {
            "" => item.source.clone(),
            pointer => format!("{}{}", item.source, pointer.replace("/items/", "#")),
        };
        let fail = |error: ReviewError| ObjectError::Line(format!("{source}: {error}"));
        if audit_log::is_audit_event(found.value) {
            let Some(json) = self.audit_log.review(found.value) else { return Ok(None) };
            let text = review::text(json.into_bytes()).map_err(fail)?;
            let review = Review::read(&text).map_err(fail)?;
            let line = describe_review(&source, "an audit event", &review);
            let text = text.clone();
            let (input_type, recorded) = (InputType::AuditEvent, None);
            return Ok(Some(ReviewInput { source, text, input_type, line, recorded }));
        }
        if let Some(what) = unsupported_type(found.value) {
            return Err(ObjectError::Line(format!("{source}: {what}")));
        }
        if found.kind == "AdmissionReview" {
            // An element of a list.
            let text = review::text(found.value.raw().into_owned().into_bytes());
            let text = text.map_err(fail)?;
            let review = Review::read(&text).map_err(fail)?;
            let line = describe_review(&source, "an AdmissionReview", &review);
            return Ok(Some(ReviewInput {
                source,
                text: text.clone(),
                input_type: InputType::Review,
                line,
                recorded: None,
            }));
        }
        let (group, _) = found.group_version();
        self.kinds.add_definition(group, found.kind, found.value);
        let manifest = Manifest::of(&source, found);
        let old = self.watched.replace(&item.line_range().file, found.value, &manifest);
        let operation = match event {
            Some(WatchEvent::Deleted) => Some(Operation::Delete),
            Some(WatchEvent::Modified) if old.is_none() => {
                return Err(ObjectError::Line(format!("{source}: {NO_PREVIOUS_VERSION}")));
            }
            _ => None,
        };
        let options = RequestOptions { operation, ..self.request_options.clone() };
        let old = old.filter(|_| operation.is_none());
        let GeneratedReview { json, operation, user, notes } =
            make(&manifest, old.as_ref(), &options, &self.kinds)?;
        let text = review::text(json.into_bytes()).map_err(fail)?;
        for note in notes {
            tracing::warn!("{note}");
        }
        let line = format!("{source}: a manifest, evaluated as {} by {user}", operation.as_str());
        let (input_type, recorded) = (InputType::Manifest, None);
        Ok(Some(ReviewInput { source, text, input_type, line, recorded }))
    }

    /// Returns what the reviews of a recording were decided with, from the last header.
    pub(super) fn recording_header(&self) -> Option<&Arc<RecordingHeader>> {
        self.recording.header()
    }

    /// Counts an audit event that no rule evaluates. Most events of a cluster are such.
    pub(super) fn set_unevaluated_event(&mut self) {
        self.audit_log.set_unevaluated();
    }

    /// Returns a line about the events of audit logs; none without events.
    pub(super) fn audit_log_summary(&self) -> Option<String> {
        self.audit_log.summary()
    }
}

/// Returns `a.json: an AdmissionReview, UPDATE of v1/pods ns/name by admin`.
fn describe_review(source: &str, input: &str, review: &Review<'_>) -> String {
    let namespace = review.own_namespace();
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let (path, sub) = (review.resource_path(), &review.sub_resource);
    let sub = if sub.is_empty() { String::new() } else { format!("/{sub}") };
    let by =
        if review.username.is_empty() { String::new() } else { format!(" by {}", review.username) };
    let what = format!(
        "{} of {}{sub} {namespace}{}{by}",
        review.operation.as_str(),
        path.trim_start_matches('/'),
        review.name
    );
    format!("{source}: {input}, {}", one_line(&what, 512))
}

/// Error for an empty file.
pub(super) const EMPTY_INPUT: &str =
    "empty: it should hold AdmissionReviews or manifests (apiVersion, kind, metadata)";

const NO_PREVIOUS_VERSION: &str = "a change of an object without its previous version: \
    `kubectl get --watch` prints it first, without `--watch-only`";

const UNKNOWN_INPUT: &str = "and no manifest: apiVersion and kind are missing; \
    `opgate review new` creates an AdmissionReview from a manifest";

/// The lines about detected types of files, limited in number.
#[derive(Debug, Default)]
pub(super) struct InputLines {
    printed: usize,
    omitted: usize,
}

impl InputLines {
    /// Reports the detected type of a file: always if it is unexpected, otherwise with `all`.
    pub(super) fn print(&mut self, review_input: &ReviewInput, all: bool) {
        if review_input.input_type != InputType::Manifest && !all {
            return;
        }
        if all || self.printed < MAX_LINES {
            self.printed += 1;
            note(one_line(&review_input.line, 1_024));
        } else {
            self.omitted += 1;
        }
    }

    /// Reports the number of further files.
    pub(super) fn finish(&self) {
        if self.omitted > 0 {
            note(format!("and {} more manifests, evaluated in the same way", self.omitted));
        }
    }
}
