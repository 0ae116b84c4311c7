//! Loads and evaluates what was found, one thing after another, so that memory does not grow with their number.
//!
//! ```text
//! found ─┬▶ manifests: their objects, for the queries of each other ─▶ Cluster (1)
//!        └▶ load ─▶ evaluate ─▶ Unit, in order ─▶ CheckRun (2)
//! ```
//!
//! Manifests are read twice: a rule that gets an object by name finds it in the other files of the command,
//! for example the Namespace of a Pod. The files are no complete list of a cluster's objects, so a rule that
//! lists all objects of a kind still needs `--cluster-state`.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use opgate_admission::cluster::ListingBuilder;
use opgate_admission::policy::PolicySet;
use opgate_document::Value;
use opgate_files::{self as files, CheckInputType, DetectedInput, Request, Subject, parallel};
use opgate_input::read::Reader;
use opgate_platform::files::{display_path, rename_path};
use tracing::subscriber::NoSubscriber;

use super::decision_cache::DecisionCache;
use super::evaluate::{SubjectEvaluator, SubjectResult};
use super::report::{CheckRecord, FixCandidate};
use crate::cli::kinds::misspelling_hint;
use crate::cli::report::Violation;

/// A file of more bytes is read while no other large one is in memory. So is each catalog.
const LARGE_FILE_BYTES: u64 = 16 << 20;

/// Parameters for loading and evaluation.
pub(super) struct UnitEvaluator<'u> {
    set: &'u PolicySet,
    reader: &'u Reader,
    /// The published version.
    pub(super) baseline: Option<&'u Path>,
    /// Namespace of objects that name none, where their kind is in namespaces.
    pub(super) namespace: Option<&'u str>,
    pub(super) explains: bool,
    /// Whether pod templates of workloads are evaluated as Pods.
    pub(super) expands: bool,
    /// Earlier decisions on the same units.
    pub(super) decisions: Option<&'u DecisionCache>,
    large_lock: Mutex<()>,
}

/// The result of something that was found.
#[derive(Default)]
pub(super) struct UnitResult {
    pub(super) results: Vec<anyhow::Result<SubjectResult>>,
    /// The detected type, a line for each subject, and whether it is a review.
    pub(super) input_type_lines: Vec<(bool, String)>,
    pub(super) warnings: Vec<String>,
    /// Why it cannot be read, if it cannot.
    pub(super) error: Option<String>,
}

impl<'u> UnitEvaluator<'u> {
    pub(super) fn new(set: &'u PolicySet, reader: &'u Reader) -> Self {
        let large = Mutex::new(());
        Self {
            set,
            reader,
            baseline: None,
            namespace: None,
            explains: false,
            expands: true,
            decisions: None,
            large_lock: large,
        }
    }

    fn load(
        &self,
        reader: &Reader,
        input: &DetectedInput,
        since: Option<&Path>,
    ) -> anyhow::Result<Vec<Subject>> {
        let mut subjects = files::load(input, since, &reader.with_full_budget())?;
        if let Some(namespace) = self.namespace {
            let requests = subjects.iter_mut().flat_map(|subject| &mut subject.requests);
            requests.for_each(|request| request.set_default_namespace(namespace));
        }
        Ok(subjects)
    }

    /// Shows the objects of manifests to each other.
    pub(super) fn share_objects(&self, units: &[(DetectedInput, Option<usize>)]) {
        let manifests: Vec<&DetectedInput> =
            units.iter().map(|(input, _)| input).filter(|input| is_shared(input)).collect();
        let listings = |input: &&DetectedInput| {
            let mut listings = ListingBuilder::of(self.set.cluster());
            self.for_each_shared(input, &mut |object, namespace, request| {
                listings.add_unstored(object, namespace, &request.group, &request.resource);
            });
            listings
        };
        // If two objects have the same name, the last one wins.
        let Ok(()) = parallel::for_each_in_order(&manifests, listings, |_, listings| {
            listings.merge_partial();
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// Visits the objects of a file that others can read: each with its namespace and its request.
    pub(super) fn for_each_shared(
        &self,
        input: &DetectedInput,
        visit: &mut impl FnMut(Value<'_>, &str, &Request),
    ) {
        let _large = is_large(input).then(|| self.lock());
        // Unreadable input is reported when it is evaluated, and so is everything that is logged.
        let load = || self.load(self.reader, input, None).unwrap_or_default();
        let subjects = tracing::subscriber::with_default(NoSubscriber::default(), load);
        for request in subjects.iter().flat_map(|subject| &subject.requests) {
            request.for_each_new_object(&mut |object, namespace| visit(object, namespace, request));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ()> {
        self.large_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads and evaluates something.
    pub(super) fn evaluate(&self, input: &DetectedInput) -> UnitResult {
        self.evaluate_with(self.reader, input)
    }

    /// Loads and evaluates something with another reader.
    pub(super) fn evaluate_with(&self, reader: &Reader, input: &DetectedInput) -> UnitResult {
        let _large = is_large(input).then(|| self.lock());
        let subjects = match self.load(reader, input, self.baseline) {
            Ok(mut subjects) => {
                if self.expands {
                    subjects.iter_mut().for_each(Subject::expand_pod_templates);
                }
                subjects
            }
            Err(error) => {
                return UnitResult { error: Some(format!("{error:#}")), ..UnitResult::default() };
            }
        };
        let evaluator = SubjectEvaluator::new(self.set)
            .with_explanations(self.explains)
            .with_decisions(self.decisions);
        let evaluate_request =
            |subject: &Subject| evaluator.evaluate(subject).map_err(anyhow::Error::from);
        let evaluated = match &subjects[..] {
            // The packages of a catalog.
            subjects if input.input_type == CheckInputType::Catalog => {
                parallel::map(subjects, evaluate_request)
            }
            subjects => subjects.iter().map(evaluate_request).collect(),
        };
        let line = |subject: &Subject| {
            let is_review = subject.input_type_line(false).is_some();
            subject.input_type_line(true).map(|line| (is_review, line))
        };
        let objects = subjects.iter().flat_map(|subject| {
            let objects = subject.requests.iter().filter(|request| !request.represents_files());
            objects.map(move |request| (subject, request))
        });
        let warnings = objects.filter_map(|(subject, request)| {
            let why = misspelling_hint(&request.group, &request.kind)?;
            Some(format!("{}: {why}", subject.source))
        });
        let warnings = warnings.collect();
        UnitResult {
            results: evaluated,
            input_type_lines: subjects.iter().filter_map(line).collect(),
            warnings,
            error: None,
        }
    }
}

impl UnitResult {
    /// Creates the result of something that cannot be read.
    pub(super) fn of_error(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// Moves everything, also the edits of fixes, from one directory to another.
    pub(super) fn move_paths(&mut self, from: &Path, to: &Path) {
        for result in self.results.iter_mut().flatten() {
            result.record.move_fixes(from, to);
        }
        // A directory without a name has no separator at its end.
        let from_inside = from.join("");
        let (to_inside, to) = (display_path(&to.join("")), display_path(to));
        self.rename_paths(|path| {
            rename_path(&rename_path(path, &from_inside, &to_inside), from, &to)
        });
    }

    /// Gives other names to paths.
    fn rename_paths(&mut self, named: impl Fn(&str) -> String) {
        for result in self.results.iter_mut().flatten() {
            result.record.rename_paths(&named);
        }
        let lines = self.input_type_lines.iter_mut().map(|(_, line)| line);
        for line in lines.chain(&mut self.warnings).chain(&mut self.error) {
            *line = named(line);
        }
    }

    fn records(&self) -> impl Iterator<Item = &CheckRecord> {
        self.results.iter().flatten().map(|result| &result.record)
    }

    /// Returns about how many bytes it has.
    pub(super) fn byte_size(&self) -> usize {
        const RECORD_BYTES: usize = 1 << 10;
        let lines = self.input_type_lines.iter().map(|(_, line)| line).chain(&self.warnings);
        let lines = lines.map(String::len);
        let records = self.results.iter().map(|_| RECORD_BYTES);
        let violations = self.violations().map(|(_, violation)| violation.byte_size());
        lines.chain(records).chain(violations).fold(0, usize::saturating_add)
    }

    /// Iterates over the violations, each with the source of its object.
    pub(super) fn violations(&self) -> impl Iterator<Item = (&str, &Violation)> {
        let records = self.records();
        records.flat_map(|record| record.violations().map(|violation| (record.source(), violation)))
    }

    /// Iterates over the violations with a fix.
    pub(super) fn fixes(&self) -> impl Iterator<Item = FixCandidate<'_>> {
        self.records().flat_map(CheckRecord::fixes)
    }

    /// Returns why a part of it has no result, if so.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = self.results.iter().find_map(|result| result.as_ref().err());
        let errors = self.records().find_map(CheckRecord::policy_error);
        let unread = self.results.iter().flatten().find_map(|result| result.unreported.first());
        self.error
            .clone()
            .or_else(|| failed.map(|error| format!("{error:#}")))
            .or_else(|| errors.map(|error| error.cause.clone()))
            .or_else(|| unread.map(|(_, line)| line.clone()))
    }
}

/// Reports whether others can read the objects of a file.
pub(in crate::cli) fn is_shared(input: &DetectedInput) -> bool {
    input.input_type == CheckInputType::Manifest && input.not_evaluated.is_none()
}

/// Reports whether something is read while no other large thing is.
pub(in crate::cli) fn is_large(input: &DetectedInput) -> bool {
    let size = || std::fs::metadata(&input.path).map_or(0, |metadata| metadata.len());
    input.input_type == CheckInputType::Catalog || size() > LARGE_FILE_BYTES
}
