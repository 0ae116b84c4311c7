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

use opgate_admission::cluster::Listings;
use opgate_admission::policy::PolicySet;
use opgate_files::{self as files, As, Found, Subject, parallel};
use opgate_input::read::Reader;

use super::evaluate::{SubjectEvaluator, SubjectResult};
use super::review::kinds::misspelt;

/// A file of more bytes is read while no other large one is in memory. So is each catalog.
const LARGE: u64 = 16 << 20;

/// Parameters for loading and evaluation.
pub(super) struct Units<'u> {
    set: &'u PolicySet,
    reader: &'u Reader,
    /// The published version.
    pub(super) since: Option<&'u Path>,
    /// Namespace of objects that name none, where their kind is in namespaces.
    pub(super) namespace: Option<&'u str>,
    pub(super) explains: bool,
    large: Mutex<()>,
}

/// The result of something that was found.
#[derive(Default)]
pub(super) struct Unit {
    pub(super) judged: Vec<anyhow::Result<SubjectResult>>,
    /// The detected type, a line for each subject, and whether it is a review.
    pub(super) said: Vec<(bool, String)>,
    pub(super) warnings: Vec<String>,
    /// Why it cannot be read, if it cannot.
    pub(super) error: Option<String>,
}

impl<'u> Units<'u> {
    pub(super) fn new(set: &'u PolicySet, reader: &'u Reader) -> Self {
        let large = Mutex::new(());
        Self { set, reader, since: None, namespace: None, explains: false, large }
    }

    fn load(&self, found: &Found, since: Option<&Path>) -> anyhow::Result<Vec<Subject>> {
        let mut subjects = files::load(found, since, &self.reader.fresh())?;
        if let Some(namespace) = self.namespace {
            let requests = subjects.iter_mut().flat_map(|subject| &mut subject.requests);
            requests.for_each(|request| request.default_namespace(namespace));
        }
        Ok(subjects)
    }

    /// Shows the objects of manifests to each other.
    pub(super) fn show(&self, units: &[(Found, Option<usize>)]) {
        let is_shown = |found: &&Found| found.kind == As::Manifest && found.not_evaluated.is_none();
        let manifests: Vec<&Found> =
            units.iter().map(|(found, _)| found).filter(is_shown).collect();
        let listings = |found: &&Found| {
            let mut listings = Listings::of(self.set.cluster());
            let _large = is_large(found).then(|| self.lock());
            // Unreadable input is reported when it is evaluated.
            for subject in self.load(found, None).unwrap_or_default() {
                for request in &subject.requests {
                    request.each_new(&mut |object, namespace| {
                        listings.take_new(object, namespace, &request.group, &request.resource);
                    });
                }
            }
            listings
        };
        // If two objects have the same name, the last one wins.
        let Ok(()) = parallel::in_order(&manifests, listings, |_, listings| {
            listings.merge_some();
            Ok::<(), std::convert::Infallible>(())
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ()> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads and evaluates something.
    pub(super) fn evaluate(&self, found: &Found) -> Unit {
        let _large = is_large(found).then(|| self.lock());
        let subjects = match self.load(found, self.since) {
            Ok(subjects) => subjects,
            Err(error) => return Unit { error: Some(format!("{error:#}")), ..Unit::default() },
        };
        let judge = |subject: &Subject| {
            let judge =
                SubjectEvaluator::new(self.set).map(|judge| judge.explaining(self.explains));
            judge.and_then(|judge| judge.judge(subject))
        };
        let judged = match &subjects[..] {
            // The packages of a catalog.
            subjects if found.kind == As::Catalog => parallel::map(subjects, judge),
            subjects => subjects.iter().map(judge).collect(),
        };
        let line = |subject: &Subject| {
            let is_review = subject.said(false).is_some();
            subject.said(true).map(|line| (is_review, line))
        };
        let objects = subjects.iter().flat_map(|subject| {
            let objects = subject.requests.iter().filter(|request| !request.stands_for_files());
            objects.map(move |request| (subject, request))
        });
        let warnings = objects.filter_map(|(subject, request)| {
            let why = misspelt(&request.group, &request.kind)?;
            Some(format!("{}: {why}", subject.source))
        });
        let warnings = warnings.collect();
        Unit { judged, said: subjects.iter().filter_map(line).collect(), warnings, error: None }
    }
}

/// Reports whether something is read while no other large thing is.
fn is_large(found: &Found) -> bool {
    let size = || std::fs::metadata(&found.path).map_or(0, |metadata| metadata.len());
    found.kind == As::Catalog || size() > LARGE
}
