//! Records reviews after they are decided: a queue that never waits, and one thread that writes.
//!
//! ```text
//! serving thread: sampled? ─▶ copy of the review, reads, answer ─▶ queue, limited in bytes ─▶ thread ─▶ output
//!                                              no room: counted, and not recorded ◀─┘
//! ```
//!
//! No request waits for the disk, and no request fails because of it. The thread writes reviews in batches.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use opgate_admission::policy::{Decision, DecisionInputs, PolicySet};
use opgate_admission::review::{Review, TextPart};
use opgate_text::{one_line, without_line_breaks};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::format::{RecordedAnswer, RecordedReview, RecordingHeader};
use crate::output::{Destination, Output};
use crate::redact::Redaction;
use crate::sample::SampleRates;

/// Maximum bytes of the reviews that wait to be written.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// Bytes of a waiting review in addition to its texts.
const REVIEW_OVERHEAD_BYTES: usize = 1 << 10;

/// Maximum bytes of memory that are kept for the next line.
const MAX_LINE_CAPACITY: usize = 256 << 10;

/// The time after which a reader of the file sees a review.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time for writing the queue when the server ends.
const MAX_END_TIME: Duration = Duration::from_secs(5);

/// The time in which reviews are collected before they are written together. Waking the thread for each review would
/// cost as much CPU time as compressing it.
const BATCH_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes of waiting reviews that are written at once.
const MAX_BATCH_BYTES: usize = MAX_QUEUED_BYTES / 4;

/// The interval of log lines about a full queue or a full disk.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What is recorded, and where to.
#[derive(Debug, Clone)]
pub struct RecorderOptions {
    /// Where it goes.
    pub destination: Destination,
    /// The share of reviews.
    pub rates: SampleRates,
    /// The values that it must not have.
    pub redaction: Redaction,
}

/// The reason why there is no recorder.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The destination cannot be written.
    #[error("--record {name}: {error}")]
    Output {
        /// The destination.
        name: String,
        /// The error.
        error: io::Error,
    },
    /// A rate has no effect.
    #[error(
        "--record-sample {0}: neither an outcome (allowed, warned, denied, failed) nor a rule of a policy"
    )]
    Rate(String),
}

type Label = [(&'static str, &'static str); 1];

/// The numbers of sampled reviews.
#[derive(Debug, Clone)]
pub struct Counts {
    family: Family<Label, Counter>,
    written: Counter,
    /// Too many reviews wait to be written.
    dropped: Counter,
    /// The output failed.
    failed: Counter,
}

impl Default for Counts {
    fn default() -> Self {
        let family = Family::<Label, Counter>::default();
        let [written, dropped, failed] = ["written", "dropped", "failed"]
            .map(|result| family.get_or_create(&[("result", result)]).clone());
        Self { family, written, dropped, failed }
    }
}

impl Counts {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let text = "Reviews that were sampled for the recording";
        registry.register("recorded_reviews", text, self.family.clone());
    }
}

/// Records reviews.
#[derive(Debug)]
pub struct Recorder {
    rates: SampleRates,
    queue: Sender<Message>,
    queued_bytes: Arc<AtomicUsize>,
    counts: Counts,
    /// The header of the set that has decided the last review.
    header: Mutex<Option<(Weak<PolicySet>, Arc<RecordingHeader>)>>,
    /// Receives the end of the thread.
    end: Mutex<Option<Receiver<()>>>,
}

enum Message {
    Review(Box<QueuedReview>),
    End,
}

/// A review that waits to be written.
struct QueuedReview {
    header: Arc<RecordingHeader>,
    parts: Vec<TextPart>,
    inputs: Option<Arc<DecisionInputs>>,
    /// Without what is in the parts and inputs.
    review: RecordedReview,
    bytes: usize,
}

impl Recorder {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// If the destination cannot be written, or a rate names nothing of the set.
    pub fn start(options: RecorderOptions, set: &PolicySet) -> Result<Self, StartError> {
        let RecorderOptions { destination, rates, redaction } = options;
        if let Some(name) = rates.unknown(set).first() {
            let name = one_line(name, 64);
            if set.broken().is_empty() {
                return Err(StartError::Rate(name));
            }
            // A server must start although a registry is down.
            tracing::warn!(name, "--record-sample: no rule of the policies that were loaded");
        }
        let name = match &destination {
            Destination::Directory(directory, _) => directory.display().to_string(),
            Destination::Stdout => "-".to_owned(),
        };
        let fail = |error| StartError::Output { name: name.clone(), error };
        let output = Output::open(destination).map_err(fail)?;
        let (recorder, messages) = Self::with_rates(rates);
        let mut writer = Writer {
            output,
            redaction,
            queued_bytes: recorder.queued_bytes.clone(),
            counts: recorder.counts.clone(),
            header: None,
            last_log: None,
            unflushed: 0,
            line: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("recorder".to_owned());
        let (ended, end) = mpsc::channel();
        let run = move || {
            writer.run(&messages);
            // The server waits no longer, if it is gone.
            let _ = ended.send(());
        };
        thread.spawn(run).map_err(fail)?;
        *recorder.end.lock() = Some(end);
        Ok(recorder)
    }

    /// A recorder, and what it sends to the thread.
    fn with_rates(rates: SampleRates) -> (Self, Receiver<Message>) {
        let (queue, messages) = mpsc::channel();
        let recorder = Self {
            rates,
            queue,
            queued_bytes: Arc::default(),
            counts: Counts::default(),
            header: Mutex::default(),
            end: Mutex::default(),
        };
        (recorder, messages)
    }

    /// Whether a review with this uid can be recorded, so that its reads are needed.
    #[must_use]
    pub fn can_record(&self, uid: &str) -> bool {
        self.rates.can_record(uid)
    }

    /// Records a review with its decision, and the body of the response; none if the call failed. Never waits.
    pub fn record(
        &self,
        set: &Arc<PolicySet>,
        review: &Review<'_>,
        addressed: Option<&BTreeSet<&str>>,
        decision: &Decision,
        response: Option<&[u8]>,
    ) {
        if !self.rates.records(&review.uid, decision, set) {
            return;
        }
        let inputs = decision.inputs.clone();
        let reads = inputs.iter().flat_map(|inputs| &inputs.reads).map(|(_, reads)| reads.size());
        let bytes = [review.size(), response.map_or(0, <[u8]>::len), REVIEW_OVERHEAD_BYTES]
            .into_iter()
            .chain(reads)
            .fold(0, usize::saturating_add);
        if !self.reserve(bytes) {
            self.counts.dropped.inc();
            return;
        }
        let Some(answer) = answer(decision, response) else {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.failed.inc();
            return;
        };
        let time = OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default();
        let mut recorded = RecordedReview::new(time, RawValue::NULL.to_owned(), answer);
        let addressed = addressed.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        recorded.addressed = addressed;
        recorded.namespace_labels = review.namespace_labels().cloned();
        recorded.not_repeatable = why_not_repeatable(decision);
        let (header, parts) = (self.header_of(set), review.parts_for_recording());
        let queued = QueuedReview { header, parts, inputs, review: recorded, bytes };
        if self.queue.send(Message::Review(Box::new(queued))).is_err() {
            self.counts.failed.inc();
        }
    }

    /// Reserves room in the queue.
    fn reserve(&self, bytes: usize) -> bool {
        let with =
            |queued: usize| queued.checked_add(bytes).filter(|queued| *queued <= MAX_QUEUED_BYTES);
        self.queued_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }

    /// The counts of sampled reviews.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Writes what waits, and ends the output, within a time limit: a disk or a reader can block. Later reviews are
    /// not recorded.
    pub fn finish(&self) {
        let end = self.end.lock().take();
        if self.queue.send(Message::End).is_ok()
            && let Some(end) = end
            && end.recv_timeout(MAX_END_TIME).is_err()
        {
            tracing::error!(
                "the output of the recording blocks: the last reviews are not recorded"
            );
        }
    }

    fn header_of(&self, set: &Arc<PolicySet>) -> Arc<RecordingHeader> {
        let mut last = self.header.lock();
        match &*last {
            // The weak reference keeps the address of the set.
            Some((of, header)) if Weak::as_ptr(of) == Arc::as_ptr(set) => header.clone(),
            _ => {
                let header = Arc::new(RecordingHeader::of(set));
                *last = Some((Arc::downgrade(set), header.clone()));
                header
            }
        }
    }
}

fn answer(decision: &Decision, response: Option<&[u8]>) -> Option<RecordedAnswer> {
    if let Some(failure) = &decision.failure {
        return Some(RecordedAnswer::Failure(format!(
            "policy {}: {}",
            failure.policy, failure.cause
        )));
    }
    let body = std::str::from_utf8(response?).ok()?.to_owned();
    RawValue::from_string(body).ok().map(RecordedAnswer::Response)
}

/// The reason why a decision depends on more than its recorded inputs.
fn why_not_repeatable(decision: &Decision) -> Option<String> {
    let inputs = decision.inputs.as_deref();
    if let Some(state) = inputs.and_then(|inputs| inputs.server_state.as_ref()) {
        return Some(one_line(state, 1_024));
    }
    if inputs.is_some_and(|inputs| inputs.reads.iter().any(|(_, reads)| reads.is_cut())) {
        return Some("the policies read more than a recording keeps".to_owned());
    }
    // A time limit, for example, depends on the machine.
    let error = decision.policy_errors.first();
    let error = error.map(|error| format!("policy {}: {}", error.policy, error.cause));
    error.or_else(|| {
        let dropped = decision.dropped.first()?;
        Some(format!("policy {}: {}", dropped.policy, dropped.cause))
    })
}

/// The thread that writes.
struct Writer {
    output: Output,
    redaction: Redaction,
    queued_bytes: Arc<AtomicUsize>,
    counts: Counts,
    /// The last header that was written, and its line.
    header: Option<(Arc<RecordingHeader>, Vec<u8>)>,
    last_log: Option<Instant>,
    /// Reviews that are written, and may be buffered.
    unflushed: u64,
    /// The line of the last review, whose memory the next one uses.
    line: Vec<u8>,
}

impl Writer {
    fn run(&mut self, messages: &Receiver<Message>) {
        let mut flushed = Instant::now();
        loop {
            let mut message = messages.recv_timeout(FLUSH_INTERVAL);
            if matches!(message, Ok(Message::Review(_)))
                && self.queued_bytes.load(Ordering::Relaxed) < MAX_BATCH_BYTES
            {
                std::thread::sleep(BATCH_INTERVAL);
            }
            loop {
                match message {
                    Ok(Message::Review(review)) => self.add(*review),
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => {
                        let ended = self.output.finish();
                        self.count_flushed(ended);
                        return;
                    }
                }
                if flushed.elapsed() >= FLUSH_INTERVAL {
                    flushed = Instant::now();
                    let flushed = self.output.flush();
                    self.count_flushed(flushed);
                }
                let Ok(next) = messages.try_recv() else { break };
                message = Ok(next);
            }
        }
    }

    fn add(&mut self, review: QueuedReview) {
        let bytes = review.bytes;
        let written = self.write(review);
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.count(written);
    }

    fn count(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.unflushed = self.unflushed.saturating_add(1),
            Err(error) => {
                self.counts.failed.inc_by(std::mem::take(&mut self.unflushed).saturating_add(1));
                self.log_error(Err(error));
            }
        }
    }

    /// Counts the reviews that have reached the output, or not.
    fn count_flushed(&mut self, flushed: io::Result<()>) {
        let count = if flushed.is_ok() { &self.counts.written } else { &self.counts.failed };
        count.inc_by(std::mem::take(&mut self.unflushed));
        self.log_error(flushed);
    }

    fn write(&mut self, queued: QueuedReview) -> io::Result<()> {
        let QueuedReview { header, parts, inputs, mut review, .. } = queued;
        let mut is_redacted = false;
        let redaction = &self.redaction;
        let mut redact = |object: String| match redaction.apply(&object) {
            Some(redacted) => {
                is_redacted = true;
                redacted
            }
            None => object,
        };
        let mut text = String::with_capacity(parts.iter().map(TextPart::size).sum());
        for part in parts {
            match part {
                TextPart::Envelope(part) => text.push_str(&part),
                TextPart::Object(object) => {
                    let object = object.into_visible().ok_or_else(|| unreadable("an object"))?;
                    text.push_str(&redact(object));
                }
            }
        }
        if let Cow::Owned(line) = without_line_breaks(&text) {
            text = line;
        }
        review.review = RawValue::from_string(text)?;
        for (policy, reads) in inputs.iter().flat_map(|inputs| &inputs.reads) {
            let redact: Option<&mut dyn FnMut(String) -> String> =
                if redaction.is_empty() { None } else { Some(&mut redact) };
            let records = reads.to_records(redact).ok_or_else(|| unreadable("a read object"))?;
            review.reads.insert(policy.clone(), records);
        }
        review.pending_objects =
            inputs.map(|inputs| inputs.pending_objects.clone()).unwrap_or_default();
        if is_redacted && review.not_repeatable.is_none() {
            review.not_repeatable = Some("values are redacted".to_owned());
        }
        let is_new = self.header.as_ref().is_none_or(|(last, _)| !Arc::ptr_eq(last, &header));
        if is_new {
            let mut line = Vec::new();
            write_line(&mut line, &*header)?;
            self.header = Some((header.clone(), line));
        }
        let header = self.header.as_ref().map_or(&[][..], |(_, line)| line);
        self.line.clear();
        self.line.shrink_to(MAX_LINE_CAPACITY);
        write_line(&mut self.line, &review)?;
        self.output.write(header, is_new, &self.line)
    }

    fn log_error(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        if self.last_log.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
            self.last_log = Some(Instant::now());
            tracing::error!(%error, "reviews are not recorded");
        }
    }
}

fn unreadable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} of a review cannot be read"))
}

fn write_line(line: &mut Vec<u8>, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *line, value)?;
    line.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opgate_admission::cluster::{ClusterOptions, Source};
    use opgate_admission::policy::{Configuration, PolicyError, Profile};
    use opgate_admission::review;

    fn set() -> Arc<PolicySet> {
        let configuration = Configuration::builtin(Profile::default(), &[]);
        let options = ClusterOptions::of(Source::Absent);
        Arc::new(PolicySet::load(&configuration, None, 1, options).unwrap())
    }

    /// Records a review whose object has this many bytes.
    fn record(recorder: &Recorder, set: &Arc<PolicySet>, bytes: usize, decision: &Decision) {
        let object = "x".repeat(bytes);
        let json = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u",
            "operation":"CREATE","kind":{{"kind":"Pod"}},"resource":{{"resource":"pods"}},"object":{{"a":"{object}"}}}}}}"#
        );
        let text = review::text(json.into_bytes()).unwrap();
        let review = Review::read(&text).unwrap();
        recorder.record(set, &review, None, decision, Some(b"{}"));
    }

    #[test]
    fn reviews_beyond_the_queue_are_dropped_and_counted() {
        let (recorder, messages) = Recorder::with_rates(SampleRates::default());
        let (set, decision) = (set(), Decision::default());
        for _ in 0..4 {
            record(&recorder, &set, 6 << 20, &decision);
        }
        assert_eq!((recorder.counts.dropped.get(), messages.try_iter().count()), (2, 2));
        assert!(recorder.queued_bytes.load(Ordering::Relaxed) <= MAX_QUEUED_BYTES);
        // Small ones, until their number is the limit.
        for _ in 0..20_000 {
            record(&recorder, &set, 1, &decision);
        }
        let queued = messages.try_iter().count();
        assert!(queued > 1_000 && queued * REVIEW_OVERHEAD_BYTES <= MAX_QUEUED_BYTES, "{queued}");
    }

    /// To replace values takes longer, the more keys a Secret has: requests must not wait for it.
    #[test]
    fn values_of_a_secret_are_replaced_after_the_request() {
        const VALUE: &str = "aHVudGVyMg==";
        let (recorder, messages) = Recorder::with_rates(SampleRates::default());
        let data: Vec<_> = (0..2_000).map(|n| format!(r#""k{n}":"{VALUE}""#)).collect();
        let json = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u",
            "operation":"CREATE","kind":{{"kind":"Secret","version":"v1"}},
            "resource":{{"resource":"secrets","version":"v1"}},"object":{{"data":{{{}}}}}}}}}"#,
            data.join(",")
        );
        let text = review::text(json.into_bytes()).unwrap();
        let review = Review::read(&text).unwrap();
        recorder.record(&set(), &review, None, &Decision::default(), Some(b"{}"));
        let Ok(Message::Review(queued)) = messages.try_recv() else { panic!("no review") };
        // The request only copies the text.
        let copied: usize = queued.parts.iter().map(TextPart::size).sum();
        assert_eq!(copied, text.len());
        let written = queued.parts.into_iter().map(|part| match part {
            TextPart::Envelope(text) => text,
            TextPart::Object(object) => object.into_visible().unwrap(),
        });
        let written: String = written.collect();
        assert!(written.contains("k1999") && !written.contains(VALUE), "{written}");
    }

    #[test]
    fn policy_errors_are_not_repeatable() {
        let (recorder, messages) = Recorder::with_rates(SampleRates::default());
        let policy = "p".to_owned();
        let error = PolicyError { policy, cause: "too late".to_owned(), class: "deadline" };
        let mut decision = Decision::default();
        decision.policy_errors.push(error.clone());
        record(&recorder, &set(), 1, &decision);
        decision.failure = Some(error);
        record(&recorder, &set(), 1, &decision);
        let queued: Vec<_> = messages
            .try_iter()
            .filter_map(|message| match message {
                Message::Review(review) => Some(review.review),
                Message::End => None,
            })
            .collect();
        assert!(queued.iter().all(|r| r.not_repeatable.as_deref() == Some("policy p: too late")));
        assert!(matches!(&queued[0].answer, RecordedAnswer::Response(_)));
        assert!(
            matches!(&queued[1].answer, RecordedAnswer::Failure(f) if f == "policy p: too late")
        );
    }
}
