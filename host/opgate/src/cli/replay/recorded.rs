//! `opgate replay --verify-recorded`: compares each decision with the one in the recording.
//!
//! ```text
//! RecordedDecision ─┬▶ answer of the server ─┐
//!                   └▶ inputs ─▶ decision ───┴▶ differences, and the inputs that differ ─▶ stdout
//! ```

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::sync::Arc;

use opgate_admission::policy::PolicySet;
use opgate_recording::{RecordedAnswer, RecordingHeader};
use opgate_text::printed::Form;
use opgate_text::{one_line, without_space};

use super::LocalDecision;
use super::against::AdmissionResponse;
use crate::cli::exit::ExitStatus;
use crate::cli::output::{self, Out};
use crate::cli::report::review_record::ReviewRecord;
use crate::cli::review_input::RecordedDecision;
use crate::cli::verbosity::note;

/// Maximum bytes of a line of a difference.
const MAX_LINE_BYTES: usize = 1_024;

/// Maximum lines of an answer in a difference, and of reads that the recording does not have.
const MAX_LINES: usize = 16;

/// A comparison in progress.
pub(super) struct RecordedComparison {
    out: Out,
    same: usize,
    different: usize,
    not_repeatable: usize,
    /// Reviews of other inputs, which have no recorded decision.
    unrecorded: usize,
    /// The last header whose differences were printed.
    header: Option<Arc<RecordingHeader>>,
}

impl RecordedComparison {
    pub(super) fn new() -> Self {
        let out = output::stdout(Some(Form::Text));
        Self { out, same: 0, different: 0, not_repeatable: 0, unrecorded: 0, header: None }
    }

    /// Prints how a decision differs from the recorded one, and returns the exit status so far. Breaks if the
    /// reader has closed the output.
    pub(super) fn compare(
        &mut self,
        recorded: Option<&RecordedDecision>,
        local: &LocalDecision,
        set: &PolicySet,
    ) -> io::Result<ControlFlow<(), ExitStatus>> {
        let Some(recorded) = recorded else {
            self.unrecorded = self.unrecorded.saturating_add(1);
            return Ok(ControlFlow::Continue(ExitStatus::Ok));
        };
        if is_same(&recorded.answer, local) {
            self.same = self.same.saturating_add(1);
            return Ok(ControlFlow::Continue(ExitStatus::Ok));
        }
        if recorded.not_repeatable.is_some() {
            self.not_repeatable = self.not_repeatable.saturating_add(1);
        } else {
            self.different = self.different.saturating_add(1);
        }
        let is_broken = match self.print_difference(recorded, local, set) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => true,
            printed => printed.map(|()| false)?,
        };
        let outcome =
            if recorded.not_repeatable.is_some() { ExitStatus::Ok } else { ExitStatus::Denied };
        Ok(if is_broken { ControlFlow::Break(()) } else { ControlFlow::Continue(outcome) })
    }

    fn print_difference(
        &mut self,
        recorded: &RecordedDecision,
        local: &LocalDecision,
        set: &PolicySet,
    ) -> io::Result<()> {
        let LocalDecision { record, response, missing_reads } = local;
        let (before, now) =
            (Answer::of_recording(&recorded.answer), Answer::of(record, response.as_deref()));
        let mut head = format!("{}: {}: {}", record.source, record.object(), before.decision);
        if before.decision != now.decision {
            head = format!("{head} → {}", now.decision);
        }
        writeln!(self.out, "~ {}", one_line(&head, MAX_LINE_BYTES))?;
        for (sign, one, other) in [("-", &before, &now), ("+", &now, &before)] {
            let lines = one.lines.iter().filter(|line| !other.lines.contains(line));
            write_lines(&mut self.out, sign, lines)?;
        }
        if let Some(why) = &recorded.not_repeatable {
            let line = format!("not repeatable: {why}");
            return write_lines(&mut self.out, "#", [line].iter());
        }
        let reads = missing_reads.iter();
        let reads: Vec<_> =
            reads.map(|(policy, read)| format!("policy {policy}: {read}")).collect();
        write_lines(&mut self.out, "# read that the recording does not have:", reads.iter())?;
        if let Some(error) = &record.error {
            let line = format!("policy {}: {}", error.policy, error.cause);
            write_lines(&mut self.out, "# error now:", [line].iter())?;
        }
        let Some(header) = &recorded.header else { return Ok(()) };
        let differences = header.differences(set);
        if differences.is_empty() && reads.is_empty() && record.error.is_none() {
            let line =
                "the recorded inputs are the same: report this as a bug of opgate".to_owned();
            return write_lines(&mut self.out, "#", [line].iter());
        }
        // Once for all reviews that were decided with the same.
        if self.header.as_ref().is_some_and(|known| Arc::ptr_eq(known, header)) {
            return Ok(());
        }
        self.header = Some(header.clone());
        write_lines(&mut self.out, "# recorded with", differences.iter())
    }

    /// Prints the numbers of decisions.
    ///
    /// # Errors
    /// If there was no recorded one.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        let Self { same, different, not_repeatable, unrecorded, .. } = self;
        let mut line = format!("{same} decided as recorded, {different} differently");
        for (count, what) in [
            (*not_repeatable, "not repeatable"),
            (*unrecorded, "reviews that are not of a recording"),
        ] {
            if count > 0 {
                line = format!("{line}, {count} {what}");
            }
        }
        note(line);
        anyhow::ensure!(*unrecorded == 0, "not of a recording: there is nothing to compare with");
        Ok(())
    }
}

fn write_lines<'l>(
    out: &mut Out,
    sign: &str,
    lines: impl Iterator<Item = &'l String>,
) -> io::Result<()> {
    let mut more = 0_usize;
    for (index, line) in lines.enumerate() {
        if index < MAX_LINES {
            writeln!(out, "    {sign} {}", one_line(line, MAX_LINE_BYTES))?;
        } else {
            more = more.saturating_add(1);
        }
    }
    if more > 0 {
        writeln!(out, "    {sign} and {more} more")?;
    }
    Ok(())
}

/// Whether the server would send the same bytes again. A recording can have been written again by another program,
/// such as jq: white space between values does not count.
fn is_same(answer: &RecordedAnswer, local: &LocalDecision) -> bool {
    match (answer, &local.response) {
        (RecordedAnswer::Response(before), Some(now)) => {
            let before = before.get();
            before.as_bytes() == now.as_slice()
                || without_space(before).as_bytes() == now.as_slice()
        }
        (RecordedAnswer::Failure(before), None) => {
            let error = local.record.error.as_ref();
            error
                .is_some_and(|error| *before == format!("policy {}: {}", error.policy, error.cause))
        }
        _ => false,
    }
}

/// An answer as lines.
struct Answer {
    decision: &'static str,
    lines: Vec<String>,
}

impl Answer {
    fn of_recording(answer: &RecordedAnswer) -> Self {
        match answer {
            RecordedAnswer::Response(body) => Self::of_body(body.get().as_bytes()),
            RecordedAnswer::Failure(failure) => {
                Self { decision: "fail", lines: vec![failure.clone()] }
            }
        }
    }

    fn of(record: &ReviewRecord, response: Option<&[u8]>) -> Self {
        match (response, &record.error) {
            (Some(body), _) => Self::of_body(body),
            (None, Some(error)) => {
                let lines = vec![format!("policy {}: {}", error.policy, error.cause)];
                Self { decision: "fail", lines }
            }
            (None, None) => Self { decision: "fail", lines: Vec::new() },
        }
    }

    fn of_body(body: &[u8]) -> Self {
        match AdmissionResponse::parse(body) {
            Ok(response) => Self { decision: response.decision(), lines: response.into_lines() },
            Err(error) => Self { decision: "fail", lines: vec![error.to_string()] },
        }
    }
}
