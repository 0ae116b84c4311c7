//! Evaluates units: those of changed texts first, one after another, then the rest of the workspace, some at a time on
//! all CPUs.
//!
//! ```text
//! jobs ─▶ texts of the editor, queue ─▶ unit ─▶ findings by file ─▶ events
//!                                 │       ▲ ends early if the generation changes: a key was pressed
//!                                 └▶ objects of manifests, for the rules of other files
//! ```

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use opgate_files::{CheckInputType, DetectedInput, parallel, waivers};
use opgate_input::read::{DEFAULT_MAX_UNIT_BYTES, Reader, UnsavedTexts};
use opgate_lsp::finding::Severity;
use opgate_lsp::outline::Outline;
use opgate_lsp::paths::{FileKind, file_kind, has_subjects};

use super::backlog::Backlog;
use super::client::ClientOptions;
use super::file_findings::{FileFindings, FindingCollector, error_finding};
use super::messages::{EvaluatedUnit, Event, FileChanges, FixAllTicket, Job, Knowledge, UnitKey};
use super::open_texts::{OpenTexts, TextMailbox};
use super::scan;
use super::settings::LoadedPolicies;
use super::text_errors::{LineError, case_errors, configuration_errors, syntax_error};
use super::unit_evaluation::{Policies, UnitFindings, UnitParameters};
use super::units::{self, Units};
use crate::cli::check::collected::CollectedResults;
use crate::cli::check::shared_objects::SharedObjects;
use crate::cli::check::units::{is_large, is_shared};
use crate::cli::report::page::RulePages;

/// Units whose evaluation took longer wait until no key was pressed for the pause.
const SLOW_EVALUATION: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(200);

/// Number of units of the background that are evaluated, or files whose objects are shared, at a time: the next key
/// waits for their current calls only.
const BATCH: usize = 32;

/// Files whose content decides which other files are units: patches, and projects.
const UNIT_FILES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "watches.yaml"];

enum Task {
    /// An open or changed file.
    File(PathBuf),
    /// A unit of the background.
    Unit(DetectedInput),
    /// Changed files, of which not all are read before the next key.
    Read { paths: Vec<PathBuf>, is_searched: bool },
    /// Files whose objects others can read.
    Share(Vec<DetectedInput>),
    /// The safe fixes of a file.
    FixAll(FixAllTicket, PathBuf),
}

/// The thread that evaluates.
pub(super) struct Evaluator {
    options: ClientOptions,
    generation: Arc<AtomicU64>,
    events: Sender<Event>,
    jobs: Sender<Job>,
    mailbox: Arc<TextMailbox>,
    backlog: Arc<Backlog>,
    open: OpenTexts,
    unsaved: Arc<UnsavedTexts>,
    units: Units,
    queue: VecDeque<Task>,
    /// Files and units whose findings are known, so that half-written texts keep them.
    evaluated: HashSet<PathBuf>,
    shared: SharedObjects,
    /// The resources that the rules of units read; none if they are not all known.
    reads: HashMap<PathBuf, Option<BTreeSet<String>>>,
    /// The types of files for which the workspace was searched again.
    searched: HashMap<PathBuf, Option<CheckInputType>>,
    is_scanning: bool,
    needs_scan: bool,
    last_duration: Duration,
    /// The number of units in the background, until they are done.
    background: Option<usize>,
}

impl Evaluator {
    pub(super) fn new(
        options: ClientOptions,
        generation: Arc<AtomicU64>,
        events: Sender<Event>,
        jobs: Sender<Job>,
        mailbox: Arc<TextMailbox>,
        backlog: Arc<Backlog>,
    ) -> Self {
        Self {
            options,
            generation,
            events,
            jobs,
            mailbox,
            backlog,
            open: OpenTexts::default(),
            unsaved: Arc::default(),
            units: Units::default(),
            queue: VecDeque::new(),
            evaluated: HashSet::new(),
            shared: SharedObjects::default(),
            reads: HashMap::new(),
            searched: HashMap::new(),
            is_scanning: false,
            needs_scan: false,
            last_duration: Duration::ZERO,
            background: None,
        }
    }

    /// Runs until the session ends.
    pub(super) fn run(mut self, todo: &Receiver<Job>) {
        self.start_scan();
        let Some(mut policies) = self.load_policies() else { return };
        loop {
            let job = if self.queue.is_empty() {
                todo.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                todo.try_recv()
            };
            match job {
                Ok(Job::Stop) | Err(TryRecvError::Disconnected) => return,
                Ok(Job::Reload) => {
                    let Some(loaded) = self.load_policies() else { return };
                    policies = loaded;
                    self.queue.retain(|task| matches!(task, Task::FixAll(..)));
                    self.background = None;
                    self.shared = SharedObjects::default();
                    self.evaluate_units(|_| true);
                }
                Ok(job) => self.add_job(job, &mut policies),
                Err(TryRecvError::Empty) => self.run_task(&mut policies, todo),
            }
        }
    }

    fn send(&self, event: Event) {
        // Without a receiver the session has ended, and the next job is its end.
        let _ = self.events.send(event);
    }

    fn load_policies(&self) -> Option<Policies> {
        let loaded = match LoadedPolicies::load(&self.options) {
            Ok(loaded) => loaded,
            Err(error) => {
                self.send(Event::Failed(format!("opgate cannot evaluate: {error:#}")));
                return None;
            }
        };
        for note in &loaded.notes {
            self.send(Event::Note(note.clone()));
        }
        let pages = RulePages::of(&loaded.configuration, &loaded.set, true);
        let knowledge = Knowledge::of(&self.options, &loaded, &pages);
        self.send(Event::Ready(Box::new(knowledge)));
        Some(Policies::new(loaded, pages))
    }

    fn add_job(&mut self, job: Job, policies: &mut Policies) {
        match job {
            Job::Texts => {
                let (open, changed) = self.mailbox.take();
                self.open = open;
                self.unsaved = Arc::new(UnsavedTexts::new(self.open.texts.clone()));
                for path in changed {
                    self.add_file(path);
                }
            }
            Job::FixAll(ticket, path) => self.queue.push_front(Task::FixAll(ticket, path)),
            Job::FilesChanged(changes) => self.add_changed_files(changes),
            Job::Deleted(paths) => self.add_deleted(paths),
            Job::Saved(path) => {
                let is_new = self.can_change_units(&path);
                self.add_file(path);
                if is_new {
                    self.scan_again();
                }
            }
            Job::Detected(inputs) => self.take_units(inputs, policies),
            Job::Roots(roots) => {
                self.options.roots = roots;
                self.scan_again();
            }
            Job::Reload | Job::Stop => {}
        }
    }

    /// Evaluates the units of changed files: those of open ones first, the others once in the background.
    fn add_changed_files(&mut self, changes: FileChanges) {
        let FileChanges { paths, mut needs_scan } = changes;
        let queued: HashSet<_> =
            self.queue.iter().filter_map(Task::unit).map(Path::to_owned).collect();
        let (mut units, mut read) = (HashMap::new(), Vec::new());
        for path in paths {
            if self.open.texts.contains_key(&path) {
                self.add_file(path);
                continue;
            }
            if path.ends_with(waivers::FILE_NAME) {
                self.add_file(path);
                continue;
            }
            read.push(path.clone());
            if let Some(unit) = self.units.known_unit_of(&path) {
                units.insert(unit.path.clone(), unit.clone());
            } else if self.evaluated.contains(&path) || !self.is_inside(&path) {
                self.add_file(path);
            }
        }
        let before = units.len();
        units.retain(|path, _| path.exists());
        needs_scan |= units.len() < before;
        let units: Vec<_> =
            units.into_values().filter(|unit| !queued.contains(&unit.path)).collect();
        let is_searched = needs_scan;
        let read = read.chunks(BATCH);
        self.queue.extend(read.map(|paths| Task::Read { paths: paths.to_vec(), is_searched }));
        self.queue_units(units);
        if needs_scan {
            self.scan_again();
        }
    }

    /// Reads the names in changed files. They can change the units, unless the workspace is searched anyway.
    fn read_changed(&mut self, paths: &[PathBuf], is_searched: bool) {
        let reader = self.reader();
        let names = parallel::map(paths, |path| scan::file_names(path, &reader));
        for (path, declared) in paths.iter().zip(names) {
            self.send(Event::Names(path.clone(), declared.unwrap_or_default()));
        }
        if !is_searched && paths.iter().any(|path| self.can_change_units(path)) {
            self.scan_again();
        }
    }

    /// Evaluates the units of which something was deleted, a file or a directory.
    fn add_deleted(&mut self, deleted: Vec<PathBuf>) {
        let deleted: HashSet<_> = deleted.into_iter().collect();
        let around = |unit: &DetectedInput| {
            unit.path.ancestors().find_map(|path| deleted.get(path)).cloned()
        };
        let mut paths: HashSet<_> = self.units.all().filter_map(around).collect();
        paths.extend(deleted.iter().filter(|path| self.units.contains(path)).cloned());
        if !paths.is_empty() {
            let paths = paths.into_iter().collect();
            self.add_changed_files(FileChanges { paths, needs_scan: true });
        }
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.options.roots.iter().any(|root| path.starts_with(root))
    }

    /// Returns whether the workspace can have other units after a change of a file: it decides about other files, it
    /// has another type than its unit, or it is in none and has another type than before.
    fn can_change_units(&mut self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        if UNIT_FILES.iter().any(|known| name == *known) {
            return true;
        }
        let known = match self.units.known_unit_of(path) {
            // Every file can be a blob.
            Some(unit) if unit.path == path || unit.input_type == CheckInputType::Catalog => {
                Some(unit.input_type)
            }
            Some(_) => return false,
            None => None,
        };
        let found = units::detect_file(path, &self.reader()).map(|unit| unit.input_type);
        (known.is_none() || known != found)
            && self.searched.insert(path.to_owned(), found) != Some(found)
    }

    /// Puts units behind everything else.
    fn queue_units(&mut self, mut units: Vec<DetectedInput>) {
        units.sort_by(|a, b| a.path.cmp(&b.path));
        let manifests: Vec<_> = units.iter().filter(|unit| is_shared(unit)).cloned().collect();
        let share = manifests.chunks(BATCH).map(|files| Task::Share(files.to_vec()));
        // Before the first unit.
        self.queue.extend(share);
        self.queue.extend(units.into_iter().map(Task::Unit));
    }

    /// Takes over the units of the workspace. Those that are known already are not evaluated again.
    fn take_units(&mut self, inputs: Vec<DetectedInput>, policies: &mut Policies) {
        self.is_scanning = false;
        let by_path = |units: &Units| -> HashMap<_, _> {
            units.all().map(|unit| (unit.path.clone(), unit.clone())).collect()
        };
        let before = by_path(&self.units);
        self.units = Units::new(inputs);
        let now = by_path(&self.units);
        let mut objects = BTreeSet::new();
        for path in before.keys() {
            let unit = now.get(path);
            if unit.is_none() {
                self.evaluated.remove(path);
                self.reads.remove(path);
                self.send(Event::Removed(UnitKey::Unit(path.clone())));
            }
            if !unit.is_some_and(is_shared) {
                objects.extend(self.shared.remove(path, &policies.loaded.set, &self.reader()));
            }
        }
        self.queue.retain(|task| task.unit().is_none_or(|path| now.contains_key(path)));
        self.objects_changed(&objects, None, policies);
        self.evaluate_units(|unit| before.get(&unit.path) != Some(unit));
        if std::mem::take(&mut self.needs_scan) {
            self.start_scan();
        }
    }

    /// Searches the workspace again, after a search that is under way.
    fn scan_again(&mut self) {
        if self.is_scanning {
            self.needs_scan = true;
        } else {
            self.start_scan();
        }
    }

    /// Searches the workspace in another thread.
    fn start_scan(&mut self) {
        if self.options.roots.is_empty() && self.units.all().next().is_none() {
            return;
        }
        let (roots, jobs, events) =
            (self.options.roots.clone(), self.jobs.clone(), self.events.clone());
        let thread = std::thread::Builder::new().name("lsp-scan".to_owned());
        let started =
            thread.stack_size(super::STACK_BYTES).spawn(move || scan::scan(&roots, &jobs, &events));
        self.is_scanning = started.is_ok();
    }

    /// Puts a file before everything else.
    fn add_file(&mut self, path: PathBuf) {
        self.queue.retain(|task| !matches!(task, Task::File(known) if *known == path));
        self.queue.push_front(Task::File(path));
    }

    /// Evaluates open files first, then the units that are wanted.
    fn evaluate_units(&mut self, is_wanted: impl Fn(&DetectedInput) -> bool) {
        let units: Vec<_> = self.units.all().filter(|unit| is_wanted(unit)).cloned().collect();
        // A search that finds nothing new needs no message.
        if !units.is_empty() || self.units.all().next().is_none() {
            let count = self.background.unwrap_or_default().saturating_add(units.len());
            self.background = Some(count);
        }
        self.queue_units(units);
        let open: Vec<_> = self.open.texts.keys().cloned().collect();
        for path in open {
            self.add_file(path);
        }
        self.end_background();
    }

    fn end_background(&mut self) {
        if self.queue.is_empty()
            && let Some(units) = self.background.take()
        {
            self.send(Event::Checked(units));
        }
    }

    fn run_task(&mut self, policies: &mut Policies, todo: &Receiver<Job>) {
        let Some(task) = self.queue.pop_front() else { return };
        let is_of_user = matches!(task, Task::File(_) | Task::FixAll(..));
        // A large catalog is not read again for each key, and no result is made that waits for the editor.
        let waits = self.last_duration > SLOW_EVALUATION && matches!(task, Task::File(_))
            || !is_of_user && self.backlog.is_full();
        if waits {
            match todo.recv_timeout(PAUSE) {
                Ok(Job::Stop) => {
                    let _ = self.jobs.send(Job::Stop);
                    return;
                }
                Ok(Job::Reload) => {
                    let _ = self.jobs.send(Job::Reload);
                }
                Ok(job) => {
                    self.queue.push_front(task);
                    self.add_job(job, policies);
                    return;
                }
                Err(_) if !is_of_user && self.backlog.is_full() => {
                    self.queue.push_front(task);
                    return;
                }
                Err(_) => {}
            }
        }
        let generation = self.generation.load(Ordering::Acquire);
        // What is not done was cancelled by a job that arrives next.
        match task {
            Task::File(path) => {
                if !self.evaluate_file(&path, policies, generation) {
                    self.add_file(path);
                }
            }
            Task::FixAll(ticket, path) => {
                if !self.fix_all(ticket, &path, policies, generation) {
                    self.queue.push_front(Task::FixAll(ticket, path));
                }
            }
            Task::Read { paths, is_searched } => self.read_changed(&paths, is_searched),
            Task::Share(inputs) => self.share(&inputs, None, policies),
            Task::Unit(input) => self.evaluate_background(input, policies, generation),
        }
        self.end_background();
    }

    /// Evaluates units of the background: this one, and others that are in the queue.
    fn evaluate_background(
        &mut self,
        first: DetectedInput,
        policies: &mut Policies,
        generation: u64,
    ) {
        let is_alone = |unit: &DetectedInput| is_large(unit) || policies.has_cache(&unit.path);
        if is_alone(&first) {
            if !self.evaluate_unit(&first, None, policies, generation) {
                self.queue.push_back(Task::Unit(first));
            }
            return;
        }
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Some(Task::Unit(next)) = self.queue.front()
            && !is_alone(next)
            && let Some(Task::Unit(next)) = self.queue.pop_front()
        {
            batch.push(next);
        }
        let (open, unsaved, counter) = (&self.open.texts, &self.unsaved, &self.generation);
        let evaluate = |input: &DetectedInput| {
            let reader = &reader_of(unsaved);
            let unit = UnitParameters { input, reader, open, main_file: None };
            policies.evaluate_once(&unit, counter, generation)
        };
        let results = parallel::map(&batch, evaluate);
        for (input, result) in batch.into_iter().zip(results) {
            match result {
                Some(findings) => self.take_findings(&input.path, findings, Vec::new()),
                None => self.queue.push_back(Task::Unit(input)),
            }
        }
    }

    /// Takes over the findings of a unit.
    fn take_findings(&mut self, unit: &Path, findings: UnitFindings, ended: Vec<UnitKey>) {
        let UnitFindings { files, reads } = findings;
        self.evaluated.insert(unit.to_owned());
        self.reads.insert(unit.to_owned(), reads);
        self.send_unit(UnitKey::Unit(unit.to_owned()), files, ended);
    }

    /// Shares the objects of manifests, and evaluates again what depends on those that have changed, except for one
    /// unit, which is evaluated next.
    fn share(&mut self, inputs: &[DetectedInput], next: Option<&Path>, policies: &mut Policies) {
        let changed = self.shared.update(inputs, &policies.loaded.set, &self.reader());
        self.objects_changed(&changed, next, policies);
    }

    fn objects_changed(
        &mut self,
        resources: &BTreeSet<String>,
        next: Option<&Path>,
        policies: &mut Policies,
    ) {
        if resources.is_empty() {
            return;
        }
        policies.forget_decisions();
        let queued: HashSet<_> = self.queue.iter().filter_map(Task::unit).collect();
        let depends = |reads: &Option<BTreeSet<String>>| {
            reads.as_ref().is_none_or(|reads| !reads.is_disjoint(resources))
        };
        let mut units: Vec<_> = self
            .units
            .all()
            .filter(|unit| Some(unit.path.as_path()) != next && !queued.contains(&*unit.path))
            .filter(|unit| self.reads.get(&unit.path).is_some_and(depends))
            .cloned()
            .collect();
        units.sort_by(|a, b| a.path.cmp(&b.path));
        self.queue.extend(units.into_iter().map(Task::Unit));
    }

    /// Answers with the text of a file after its safe fixes. Returns whether it is done, and not cancelled.
    fn fix_all(
        &mut self,
        ticket: FixAllTicket,
        path: &Path,
        policies: &mut Policies,
        generation: u64,
    ) -> bool {
        let reader = self.reader();
        let text = self.open.texts.get(path).filter(|text| syntax_error(path, text).is_none());
        let unit = text.and_then(|_| self.units.unit_of(path, &reader));
        let fixed = if let Some(unit) = unit {
            let mut cache = policies.take_cache(&unit.path).unwrap_or_default();
            cache.start_evaluation(&self.generation, generation);
            let LoadedPolicies { configuration, set, .. } = &policies.loaded;
            let policies_of = (configuration, set);
            let fixed = CollectedResults::fixed_text(&unit, path, policies_of, &reader, &cache);
            let is_cancelled = cache.is_cancelled();
            policies.keep_cache(&unit.path, cache);
            if is_cancelled {
                return false;
            }
            fixed
        } else {
            None
        };
        self.send(Event::Fixed(ticket, fixed));
        true
    }

    fn reader(&self) -> Reader {
        reader_of(&self.unsaved)
    }

    /// Evaluates an open or changed file. Returns whether it is done, and not cancelled.
    fn evaluate_file(&mut self, path: &Path, policies: &mut Policies, generation: u64) -> bool {
        let text = self.open.texts.get(path).cloned();
        if text.is_none() && !self.is_inside(path) && self.end_unit_outside(path) {
            return true;
        }
        let kind = match &text {
            Some(text) => file_kind(path, text, &Outline::of(text)),
            None if path.ends_with(waivers::FILE_NAME) => FileKind::Waivers,
            None => FileKind::Objects,
        };
        match (kind, text) {
            (FileKind::Configuration, Some(text)) => {
                self.publish_lines(path, configuration_errors(path, &text));
            }
            (FileKind::Cases, Some(text)) => {
                let (open, reader) = (&self.open.texts, self.reader());
                let errors = case_errors(path, &text, open, &reader, &policies.loaded.set);
                self.publish_lines(path, errors);
            }
            (FileKind::Waivers, _) => return self.evaluate_waivers(path, policies, generation),
            (_, text) => {
                let reader = self.reader();
                let unit = self.units.unit_of(path, &reader);
                let error = text.as_ref().and_then(|text| syntax_error(path, text));
                let is_known =
                    unit.as_ref().is_some_and(|unit| self.evaluated.contains(&unit.path));
                if let Some((line, column, message)) = error {
                    let has_subjects = || {
                        let text = text.as_deref().unwrap_or_default();
                        has_subjects(text, &Outline::of(text))
                    };
                    let is_ours = is_known
                        || unit.is_some()
                        || self.evaluated.contains(path)
                        || has_subjects();
                    if is_ours {
                        self.publish_syntax(path, line, column, &message);
                    }
                    // The last findings stay while the text is half-written.
                    return true;
                }
                let mut ended = vec![UnitKey::Syntax(path.to_owned())];
                let Some(unit) = unit else {
                    self.evaluated.remove(path);
                    self.send_unit(UnitKey::Unit(path.to_owned()), FileFindings::new(), ended);
                    return true;
                };
                if unit.path != path && self.evaluated.remove(path) {
                    // It was evaluated alone before the bundle around it was known.
                    ended.push(UnitKey::Unit(path.to_owned()));
                }
                if is_shared(&unit) && self.units.contains(&unit.path) {
                    self.share(std::slice::from_ref(&unit), Some(&unit.path), policies);
                }
                return self.evaluate_unit(&unit, Some((path, &ended)), policies, generation);
            }
        }
        true
    }

    /// Ends the findings of a unit outside of the workspace, of which no file is open any more. Returns whether it
    /// is one.
    fn end_unit_outside(&mut self, closed: &Path) -> bool {
        let unit = self.units.unit_of(closed, &self.reader()).map(|unit| unit.path);
        let unit = unit.unwrap_or_else(|| closed.to_owned());
        if self.open.texts.keys().any(|open| open.starts_with(&unit)) {
            return false;
        }
        self.evaluated.remove(&unit);
        self.reads.remove(&unit);
        let ended = vec![UnitKey::Unit(closed.to_owned())];
        self.send_unit(UnitKey::Unit(unit), FileFindings::new(), ended);
        true
    }

    /// Evaluates the units of a file with waivers.
    fn evaluate_waivers(&mut self, path: &Path, policies: &mut Policies, generation: u64) -> bool {
        let Some(directory) = path.parent() else { return true };
        let mut units = self.units.with_waivers_in(directory);
        if units.is_empty() {
            // Before the workspace is searched, or outside of it.
            let manifests = directory.join("manifests");
            let around = self.units.unit_of(&manifests.join("x.yaml"), &self.reader());
            units.extend(around.filter(|unit| unit.path == directory));
        }
        let open = self.open.texts.keys().filter(|open| open.parent() == Some(directory));
        let open: Vec<_> = open.filter(|open| *open != path).cloned().collect();
        for file in open {
            let alone = self.units.unit_of(&file, &self.reader());
            units.extend(alone.filter(|unit| unit.path == file));
        }
        if units.is_empty() {
            let empty = CollectedResults::of_waivers(
                directory,
                &policies.loaded.configuration,
                &policies.loaded.set,
                &self.reader(),
            );
            let reader = self.reader();
            let mut collector = FindingCollector::new(&reader, path.to_owned(), None);
            collector.add_results(&empty, &policies.pages);
            self.evaluated.insert(path.to_owned());
            self.send_unit(UnitKey::Unit(path.to_owned()), collector.finish(), Vec::new());
            return true;
        }
        if self.evaluated.remove(path) {
            self.send_unit(UnitKey::Unit(path.to_owned()), FileFindings::new(), Vec::new());
        }
        units.iter().all(|unit| self.evaluate_unit(unit, None, policies, generation))
    }

    /// Evaluates a unit. Returns whether it is done, and not cancelled.
    fn evaluate_unit(
        &mut self,
        input: &DetectedInput,
        changed: Option<(&Path, &[UnitKey])>,
        policies: &mut Policies,
        generation: u64,
    ) -> bool {
        let started = Instant::now();
        let reader = self.reader();
        let known = policies.take_cache(&input.path);
        let (is_edited, mut cache) = (known.is_some(), known.unwrap_or_default());
        cache.start_evaluation(&self.generation, generation);
        // It can be gone, also if it is open.
        let is_there = |path: &&Path| self.open.texts.contains_key(*path) && path.is_file();
        let main_file = changed.map(|(path, _)| path).filter(is_there);
        let unit = UnitParameters { input, reader: &reader, open: &self.open.texts, main_file };
        let findings = policies.evaluate(&unit, &cache);
        let is_done = findings.is_some();
        if let Some(findings) = findings {
            cache.end_evaluation();
            let ended = changed.map(|(_, ended)| ended.to_vec()).unwrap_or_default();
            self.take_findings(&input.path, findings, ended);
        }
        // Only units that are edited are evaluated again and again.
        if changed.is_some() || is_edited {
            policies.keep_cache(&input.path, cache);
        }
        if changed.is_some() {
            self.last_duration = started.elapsed();
        }
        is_done
    }

    /// Replaces the findings of a file by errors with places.
    fn publish_lines(&self, path: &Path, lines: Vec<LineError>) {
        let reader = self.reader();
        let mut collector = FindingCollector::new(&reader, path.to_owned(), None);
        for (severity, line, column, message) in lines {
            let place = (path.to_owned(), line, column);
            collector.add(Some(place), error_finding(severity, &message));
        }
        self.send_unit(UnitKey::Unit(path.to_owned()), collector.finish(), Vec::new());
    }

    fn publish_syntax(&self, path: &Path, line: u64, column: u64, message: &str) {
        let reader = self.reader();
        let mut collector = FindingCollector::new(&reader, path.to_owned(), None);
        let place = (path.to_owned(), line, column);
        collector.add(Some(place), error_finding(Severity::Error, message));
        self.send_unit(UnitKey::Syntax(path.to_owned()), collector.finish(), Vec::new());
    }

    fn send_unit(&self, unit: UnitKey, findings: FileFindings, ended: Vec<UnitKey>) {
        let revisions = self.open.revisions.clone();
        let charge = self.backlog.charge(&findings);
        self.send(Event::Evaluated(EvaluatedUnit { unit, findings, revisions, ended, charge }));
    }
}

impl Task {
    fn unit(&self) -> Option<&Path> {
        match self {
            Self::Unit(input) => Some(&input.path),
            _ => None,
        }
    }
}

fn reader_of(unsaved: &Arc<UnsavedTexts>) -> Reader {
    Reader::new(DEFAULT_MAX_UNIT_BYTES).with_unsaved(unsaved.clone())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use super::*;

    /// A checkout of another branch can change all files of a workspace.
    #[test]
    fn changed_files_are_read_in_batches_behind_edits() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let paths: Vec<_> = (0..100).map(|number| root.join(format!("{number}.yaml"))).collect();
        for path in &paths {
            fs::write(path, "kind: CustomResourceDefinition\nmetadata: {name: a}\n").unwrap();
        }
        let (events, received) = mpsc::channel();
        let (jobs, _todo) = mpsc::channel();
        let options = ClientOptions { roots: vec![root.clone()], ..ClientOptions::default() };
        let (generation, mailbox, backlog) = (Arc::default(), Arc::default(), Arc::default());
        let mut evaluator = Evaluator::new(options, generation, events, jobs, mailbox, backlog);
        evaluator.is_scanning = true;
        evaluator.add_changed_files(FileChanges { paths, needs_scan: true });
        assert_eq!(received.try_iter().count(), 0);
        evaluator.add_file(root.join("edited.yaml"));
        let mut tasks: Vec<_> = evaluator.queue.drain(..).collect();
        assert!(matches!(tasks.remove(0), Task::File(path) if path.ends_with("edited.yaml")));
        let mut count = 0;
        for task in tasks {
            let Task::Read { paths, is_searched } = task else { panic!("another task") };
            assert!(paths.len() <= BATCH && is_searched);
            evaluator.read_changed(&paths, is_searched);
            let names = received
                .try_iter()
                .filter(|event| matches!(event, Event::Names(_, declared) if declared.len() == 1));
            count += names.count();
        }
        assert_eq!(count, 100);
    }
}
