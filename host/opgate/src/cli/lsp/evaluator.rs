//! Evaluates units one after another: those of changed texts first, then the rest of the workspace.
//!
//! ```text
//! jobs ─▶ texts of the editor, queue ─▶ unit ─▶ findings by file ─▶ events
//!                                        ▲ ends early if the generation changes: a key was pressed
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use opgate_admission::cluster::{ClusterOptions, Source};
use opgate_admission::policy::{Configuration, LoadProgress, PolicySet, Profile};
use opgate_builtin_policies::BUILTINS;
use opgate_casefile::CaseFileError;
use opgate_files::{DetectedInput, waivers};
use opgate_input::read::{DEFAULT_MAX_UNIT_BYTES, Reader, UnsavedTexts};
use opgate_lsp::completion::{RuleEntry, Vocabulary};
use opgate_lsp::finding::Severity;
use opgate_lsp::outline::{Outline, is_json};
use opgate_lsp::paths::{FileKind, file_kind};
use opgate_server::DefaultLimits;

use super::client::ClientOptions;
use super::file_findings::{FileFindings, FindingCollector, error_finding};
use super::messages::{EvaluatedUnit, Event, Job, Knowledge, OpenTexts, UnitKey};
use super::scan;
use super::settings::{LoadedPolicies, configuration_file};
use super::units::Units;
use crate::cli::args::ConfigArgs;
use crate::cli::check::collected::{CollectedResults, waiver_directory};
use crate::cli::check::decision_cache::DecisionCache;
use crate::cli::config::validate_text;
use crate::cli::report::page::RulePages;

/// Units whose evaluation took longer wait until no key was pressed for the pause.
const SLOW_EVALUATION: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(200);

/// Number of units whose earlier decisions are kept.
const MAX_CACHED_UNITS: usize = 4;

enum Task {
    File(PathBuf),
    Unit(DetectedInput),
}

/// The thread that evaluates.
pub(super) struct Evaluator {
    options: ClientOptions,
    generation: Arc<AtomicU64>,
    events: Sender<Event>,
    jobs: Sender<Job>,
    open: OpenTexts,
    unsaved: Arc<UnsavedTexts>,
    units: Units,
    queue: VecDeque<Task>,
    /// Files and units whose findings are known, so that half-written texts keep them.
    evaluated: HashSet<PathBuf>,
    /// Saved files outside of all units for which the workspace was searched.
    saved: HashSet<PathBuf>,
    is_scanning: bool,
    needs_scan: bool,
    last_duration: Duration,
    /// The number of units in the background, until they are done.
    background: Option<usize>,
}

/// The policies, and earlier decisions.
struct Policies {
    loaded: LoadedPolicies,
    pages: RulePages,
    caches: VecDeque<(PathBuf, DecisionCache)>,
}

impl Evaluator {
    pub(super) fn new(
        options: ClientOptions,
        generation: Arc<AtomicU64>,
        events: Sender<Event>,
        jobs: Sender<Job>,
    ) -> Self {
        Self {
            options,
            generation,
            events,
            jobs,
            open: OpenTexts::default(),
            unsaved: Arc::default(),
            units: Units::default(),
            queue: VecDeque::new(),
            evaluated: HashSet::new(),
            saved: HashSet::new(),
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
                    self.queue.clear();
                    self.background = None;
                    self.evaluate_units(|_| true);
                }
                Ok(job) => self.add_job(job),
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
        let knowledge = self.knowledge(&loaded, &pages);
        self.send(Event::Ready(Box::new(knowledge)));
        Some(Policies { loaded, pages, caches: VecDeque::new() })
    }

    /// Collects rules, pages and schemas: of the loaded policies, and of all built-in ones.
    fn knowledge(&self, loaded: &LoadedPolicies, pages: &RulePages) -> Knowledge {
        let mut knowledge = Knowledge { vocabulary: Vocabulary::default(), pages: HashMap::new() };
        knowledge.vocabulary.case_schema =
            serde_json::from_str(opgate_casefile::SCHEMA).unwrap_or_default();
        knowledge.add(&loaded.set, pages);
        let all = Configuration::builtin(Profile::default(), BUILTINS);
        let config =
            ConfigArgs { cache_dir: self.options.cache_dir.clone(), ..ConfigArgs::default() };
        let (state, limits) =
            (ClusterOptions::of(Source::Absent), DefaultLimits::of(Path::new("/")));
        let is_default = configuration_file(&self.options).is_none();
        let set = if is_default {
            None
        } else {
            config.load_set_of(&all, usize::MAX, state, limits, &LoadProgress::default()).ok()
        };
        let set = set.as_ref().unwrap_or(&loaded.set);
        if !is_default {
            knowledge.add(set, &RulePages::of(&all, set, true));
        }
        let descriptors = set.policies().iter().map(|policy| &policy.descriptor);
        knowledge.vocabulary.schema = Configuration::schema(descriptors);
        knowledge
    }

    fn add_job(&mut self, job: Job) {
        match job {
            Job::Texts(texts) => {
                self.open = *texts;
                self.unsaved = Arc::new(UnsavedTexts::new(self.open.texts.clone()));
                for path in std::mem::take(&mut self.open.changed) {
                    self.add_file(path);
                }
            }
            Job::FilesChanged(paths) => paths.into_iter().for_each(|path| self.add_file(path)),
            Job::Saved(path) => {
                // A file that is new, or that is a unit now.
                let is_new = !self.units.contains(&path) && self.saved.insert(path.clone());
                self.add_file(path);
                if is_new {
                    self.scan_again();
                }
            }
            Job::Detected(inputs) => self.take_units(inputs),
            Job::Rescan => self.scan_again(),
            Job::Reload | Job::Stop => {}
        }
    }

    /// Takes over the units of the workspace. Those that are known already are not evaluated again.
    fn take_units(&mut self, inputs: Vec<DetectedInput>) {
        self.is_scanning = false;
        let before: HashSet<_> = self.units.all().map(|unit| unit.path.clone()).collect();
        self.units = Units::new(inputs);
        let now: HashSet<_> = self.units.all().map(|unit| unit.path.clone()).collect();
        for gone in before.difference(&now) {
            self.evaluated.remove(gone);
            self.send(Event::Removed(UnitKey::Unit(gone.clone())));
        }
        self.evaluate_units(|unit| !before.contains(&unit.path));
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
        if self.options.roots.is_empty() {
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
        let mut units: Vec<_> = self.units.all().filter(|unit| is_wanted(unit)).cloned().collect();
        units.sort_by(|a, b| a.path.cmp(&b.path));
        self.background = Some(self.background.unwrap_or_default().saturating_add(units.len()));
        self.queue.extend(units.into_iter().map(Task::Unit));
        let open: Vec<_> = self.open.texts.keys().cloned().collect();
        for path in open {
            self.add_file(path);
        }
        if self.queue.is_empty() {
            let units = self.background.take().unwrap_or_default();
            self.send(Event::Checked(units));
        }
    }

    fn run_task(&mut self, policies: &mut Policies, todo: &Receiver<Job>) {
        let Some(task) = self.queue.pop_front() else { return };
        if self.last_duration > SLOW_EVALUATION && matches!(task, Task::File(_)) {
            // A large catalog is not read again for each key.
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
                    self.add_job(job);
                    return;
                }
                Err(_) => {}
            }
        }
        let generation = self.generation.load(Ordering::Acquire);
        let is_done = match &task {
            Task::File(path) => self.evaluate_file(path, policies, generation),
            Task::Unit(input) => self.evaluate_unit(input, None, policies, generation),
        };
        if !is_done {
            // The job that cancelled it arrives next.
            match task {
                Task::File(path) => self.add_file(path),
                unit @ Task::Unit(_) => self.queue.push_back(unit),
            }
        } else if self.queue.is_empty()
            && let Some(units) = self.background.take()
        {
            self.send(Event::Checked(units));
        }
    }

    fn reader(&self) -> Reader {
        Reader::new(DEFAULT_MAX_UNIT_BYTES).with_unsaved(self.unsaved.clone())
    }

    /// Evaluates an open or changed file. Returns whether it is done, and not cancelled.
    fn evaluate_file(&mut self, path: &Path, policies: &mut Policies, generation: u64) -> bool {
        let text = self.open.texts.get(path).cloned();
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
                self.publish_lines(path, self.case_errors(path, &text, policies));
            }
            (FileKind::Waivers, _) => return self.evaluate_waivers(path, policies, generation),
            (_, text) => {
                let reader = self.reader();
                let unit = self.units.unit_of(path, &reader);
                let error = text.as_ref().and_then(|text| syntax_error(path, text));
                let is_known =
                    unit.as_ref().is_some_and(|unit| self.evaluated.contains(&unit.path));
                if let Some((line, column, message)) = error {
                    let is_ours = is_known || unit.is_some() || self.evaluated.contains(path);
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
                return self.evaluate_unit(&unit, Some((path, &ended)), policies, generation);
            }
        }
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
        let Policies { loaded, pages, caches } = policies;
        let known = caches.iter().position(|(unit, _)| *unit == input.path);
        let known = known.and_then(|index| caches.remove(index)).map(|(_, cache)| cache);
        let (is_edited, mut cache) = (known.is_some(), known.unwrap_or_default());
        cache.start_evaluation(&self.generation, generation);
        let results =
            CollectedResults::of_unit(input, &loaded.configuration, &loaded.set, &reader, &cache);
        let is_done = results.is_some();
        if let Some(results) = results {
            cache.end_evaluation();
            let (main, ended) = match changed {
                Some((path, ended)) => (path.to_owned(), ended.to_vec()),
                None => (main_file(input), Vec::new()),
            };
            let mut collector = FindingCollector::new(&reader, main, waiver_directory(input));
            collector.add_results(&results, pages);
            self.evaluated.insert(input.path.clone());
            self.send_unit(UnitKey::Unit(input.path.clone()), collector.finish(), ended);
        }
        // Only units that are edited are evaluated again and again.
        if changed.is_some() || is_edited {
            caches.push_front((input.path.clone(), cache));
            caches.truncate(MAX_CACHED_UNITS);
        }
        if changed.is_some() {
            self.last_duration = started.elapsed();
        }
        is_done
    }

    /// Replaces the findings of a file by errors with places.
    fn publish_lines(&self, path: &Path, lines: Vec<(Severity, u64, u64, String)>) {
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
        let versions = self.open.versions.clone();
        self.send(Event::Evaluated(EvaluatedUnit { unit, findings, versions, ended }));
    }

    /// Returns the errors of a file with cases.
    fn case_errors(
        &self,
        path: &Path,
        text: &str,
        policies: &Policies,
    ) -> Vec<(Severity, u64, u64, String)> {
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = |path: &Path, text: String| opgate_casefile::File { name: name(path), text };
        let mut files = vec![file(path, text.to_owned())];
        let objects = path.with_file_name(opgate_casefile::OBJECTS_FILE);
        if objects != path {
            let open = self.open.texts.get(&objects).map(ToString::to_string);
            let read = || {
                let opened = opgate_input::read::open_named(&objects).ok()?;
                let purpose = opgate_input::read::ReadPurpose::Scan;
                String::from_utf8(self.reader().read(opened, true, purpose).ok()?).ok()
            };
            files.extend(open.or_else(read).map(|text| file(&objects, text)));
        }
        let kinds = case_kinds(&policies.loaded.set, path);
        let errors = opgate_casefile::read(&files, &kinds).err().unwrap_or_default();
        let own = errors.into_iter().filter(|error| error.file == name(path));
        let line = |error: CaseFileError| {
            let line = u64::try_from(error.line).unwrap_or(1);
            (Severity::Error, line, first_column(text, error.line), error.message)
        };
        own.map(line).collect()
    }
}

/// Returns the column of the first character of a line, from 1.
fn first_column(text: &str, line: usize) -> u64 {
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let indent = line.chars().take_while(|c| c.is_whitespace()).count();
    u64::try_from(indent).unwrap_or_default().saturating_add(1)
}

/// Returns the kinds of directories that the policy of a rule matches.
fn case_kinds(set: &PolicySet, path: &Path) -> Vec<&'static str> {
    let rule = path.file_stem().unwrap_or_default().to_string_lossy();
    let kind = |resource: &String| match resource.as_str() {
        "registrybundles" => Some("RegistryBundle"),
        "plainbundles" => Some("PlainBundle"),
        "operatorprojects" => Some("OperatorProject"),
        _ => None,
    };
    let owner = set.policies().iter().find(|policy| policy.descriptor.rule(&rule).is_some());
    match owner {
        Some(policy) => {
            policy.descriptor.matches.iter().flat_map(|r| &r.resources).filter_map(kind).collect()
        }
        None => vec!["RegistryBundle"],
    }
}

/// Returns the errors of a configuration.
fn configuration_errors(path: &Path, text: &str) -> Vec<(Severity, u64, u64, String)> {
    match validate_text(path, text) {
        Ok(errors) => errors
            .into_iter()
            .map(|(place, message)| {
                let (line, column) = place.unwrap_or((1, 1));
                (Severity::Error, line, column, message)
            })
            .collect(),
        Err(error) => vec![(Severity::Error, 1, 1, format!("{:#}", error.error))],
    }
}

/// Returns line, column and message of the first error of a text that is neither YAML nor JSON.
fn syntax_error(path: &Path, text: &str) -> Option<(u64, u64, String)> {
    let text = text.trim_start_matches('\u{feff}');
    let is_json_file = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    if is_json_file || is_json(text) {
        let values = serde_json::Deserializer::from_str(text);
        let mut values = values.into_iter::<serde::de::IgnoredAny>();
        let error = values.find_map(Result::err)?;
        if is_json_file {
            let number = |number: usize| u64::try_from(number).unwrap_or(1).max(1);
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default().to_owned();
            let (line, column) = (number(error.line()), number(error.column()));
            return Some((line, column, format!("not JSON: {message}")));
        }
    }
    let words = opgate_yaml::BooleanWords::Yaml11;
    let error = opgate_input::yaml::parse_documents_tolerant(text, words).err()?;
    Some((error.line, error.column, format!("not YAML: {}", error.message)))
}

/// Returns the file that stands for a unit as a whole.
fn main_file(input: &DetectedInput) -> PathBuf {
    if input.directory.is_some() || !input.path.is_dir() {
        return input.path.clone();
    }
    let annotations = input.path.join("metadata/annotations.yaml");
    if annotations.is_file() {
        return annotations;
    }
    let first = |directory: &Path| {
        let mut files: Vec<_> = directory
            .read_dir()
            .ok()?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| opgate_lsp::paths::is_document(path))
            .collect();
        files.sort();
        files.into_iter().next()
    };
    first(&input.path.join("manifests"))
        .or_else(|| first(&input.path))
        .unwrap_or_else(|| input.path.join("opgate.yaml"))
}

impl Knowledge {
    /// Adds rules that are not known yet.
    fn add(&mut self, set: &PolicySet, pages: &RulePages) {
        for policy in set.policies() {
            for rule in &policy.descriptor.rules {
                if self.pages.contains_key(&rule.id) {
                    continue;
                }
                let page = pages.page(&policy.name, &rule.id).unwrap_or_default().to_owned();
                self.pages.insert(rule.id.clone(), page);
                self.vocabulary.rules.push(RuleEntry {
                    id: rule.id.clone(),
                    policy: policy.descriptor.name.clone(),
                    title: rule.title.clone(),
                });
            }
        }
    }
}
