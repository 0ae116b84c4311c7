//! Lists the objects of a cluster that the webhook would deny today, before an administrator enables it.
//!
//! ```text
//! file ────▶ Dump ─┬▶ context: what policies read of the objects ─▶ Cluster (1)
//!                  └▶ evaluation of objects in batches ───────────▶ results (2)
//! cluster ─▶ Connection ─┬▶ fill ─▶ Cluster (1)
//!                        └▶ objects of the kinds that policies match ─▶ results (2)
//! ```
//!
//! Each object is evaluated as if it were created now, with all other objects present. Everything is read
//! twice, and only the parts that policies read of other objects are kept, so that memory does not grow with
//! the cluster.

mod discovery;
mod evaluation_memory;
mod live;
mod result_sink;
mod review_priority;

use std::sync::atomic::{AtomicUsize, Ordering};

use opgate_admission::cluster::ListingBuilder;
use opgate_admission::policy::PolicySet;
use opgate_compat::kinds::plural;
use opgate_files::dump::{Dump, Slot};
use opgate_files::parallel;
use opgate_input::read::Reader;

use crate::cli::check::evaluate::{
    CheckRun, EvaluateError, Progress, SubjectEvaluator, SubjectResult, is_exempt,
};
use crate::cli::exit::CommandError;
use crate::cli::report::UnreadableInput;
pub(in crate::cli) use evaluation_memory::{
    EvaluationMemory, RememberedResult, RememberedViolation, SkippedObject,
};
pub(in crate::cli) use live::{
    AuditedCluster, EvaluationThreads, LiveCluster, evaluate_cluster, served_groups,
};
pub(in crate::cli) use result_sink::{ObjectIdentity, ResultSink};
pub(in crate::cli) use review_priority::ReviewPriority;

/// Maximum number of objects: their results are kept for the report.
const MAX_OBJECTS: usize = 1_000_000;

/// Maximum number of lines about what is no object.
const MAX_INPUT_ERRORS: usize = 1_000;

/// Shows the objects of dumps to the policies.
pub(super) fn load_cluster_state(
    dumps: &mut [(Dump, Option<usize>)],
    set: &PolicySet,
    reader: &Reader,
) {
    for (dump, _) in dumps {
        let lists = parallel::map(dump.slots(), |slot| add_objects(dump, slot, set, reader));
        let mut lists: Vec<_> = lists.into_iter().flatten().collect();
        lists.dedup();
        for slot in dump.keep_whole(&lists) {
            parallel::map(&[slot], |slot| add_objects(dump, slot, set, reader));
        }
    }
}

/// Shows the objects of a part. Gives the list that must be read as a whole instead.
fn add_objects(dump: &Dump, slot: &Slot, set: &PolicySet, reader: &Reader) -> Option<usize> {
    let part = dump.read(slot, reader);
    let mut listings = ListingBuilder::of(set.cluster());
    part.for_each_object(&mut |found| {
        listings.add(found.value, found.group_version().0, &plural(found.kind));
    });
    listings.merge();
    part.unreadable_list()
}

/// The policy set of an audit, and whether it explains its results.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuditOptions<'s> {
    pub(super) set: &'s PolicySet,
    pub(super) explains: bool,
}

/// Results of one section of a dump.
#[derive(Default)]
struct SlotResults {
    results: Vec<anyhow::Result<SubjectResult>>,
    terminating: usize,
    exempt: usize,
    unreadable: Vec<String>,
}

/// Evaluates the objects of dumps.
///
/// # Errors
/// If the engine fails.
pub(super) fn evaluate_dumps(
    dumps: &[(Dump, Option<usize>)],
    options: AuditOptions<'_>,
    reader: &Reader,
    progress: &Progress,
    check_run: &mut CheckRun<'_>,
) -> Result<(), CommandError> {
    let count = AtomicUsize::new(0);
    let one = |dump: &Dump, slot: &Slot| {
        let part = dump.read(slot, reader);
        let mut all = part.subjects();
        let count_of_all = all.subjects.len();
        all.subjects.retain(|subject| !is_exempt(subject));
        let mut found = SlotResults {
            terminating: all.terminating,
            unreadable: all.errors,
            ..SlotResults::default()
        };
        found.exempt = count_of_all - all.subjects.len();
        found.unreadable.extend(part.error_line());
        let before = count.fetch_add(all.subjects.len(), Ordering::Relaxed);
        if before < MAX_OBJECTS {
            let evaluator = SubjectEvaluator::new(options.set).with_explanations(options.explains);
            for subject in &all.subjects {
                match evaluator.evaluate(subject) {
                    Ok(result) => found.results.push(Ok(result)),
                    Err(EvaluateError::Unreadable(line)) => found.unreadable.push(line),
                    Err(EvaluateError::Engine(error)) => found.results.push(Err(error)),
                }
            }
        }
        progress.step();
        found
    };
    for (dump, waivers) in dumps {
        check_run.set_audit();
        let mut lines = 0;
        for found in parallel::map(dump.slots(), |slot| one(dump, slot)) {
            check_run.terminating += found.terminating;
            check_run.exempt += found.exempt;
            for evaluated in found.results {
                check_run.add_result(evaluated.map_err(CommandError::engine)?, *waivers);
            }
            for line in found.unreadable {
                lines += 1;
                if lines <= MAX_INPUT_ERRORS {
                    check_run
                        .unreadable
                        .push(UnreadableInput { source: dump.name().to_owned(), line });
                }
            }
        }
        if lines > MAX_INPUT_ERRORS {
            let line = format!("{}: {} more errors", dump.name(), lines - MAX_INPUT_ERRORS);
            check_run.unreadable.push(UnreadableInput { source: dump.name().to_owned(), line });
        }
    }
    if count.load(Ordering::Relaxed) > MAX_OBJECTS {
        let line = format!("more than {MAX_OBJECTS} objects: not all are evaluated");
        check_run.unreadable.push(UnreadableInput { source: String::new(), line });
    }
    Ok(())
}
