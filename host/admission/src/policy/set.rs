//! The active policies, with the cluster state that they read.
//!
//! ```text
//! configuration ─▶ load each policy ─▶ PolicySet ─▶ evaluation: decides reviews with it
//!                        reads of all ─▶ ClusterState
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::config::{ConfigErrors, Configuration, PolicyConfig};
use super::load::{LoadContext, LoadOutcome, LoadedPolicy, PolicyLoadError, load};
use super::load_progress::LoadProgress;
use super::permits::{Tenant, Tenants};
use super::rule_docs::RuleDocs;
use super::scope::labels_of;
use super::{
    EffectiveMatchRule, Mode, OnError, Platform, PlatformQuery, Policy, PolicyError, Trust,
};
use crate::cluster::{
    self, ClusterState, DirectReader, PossibleState, ResolvedRead, ResourceId, SampleAccess,
    Source, Watches,
};
use crate::review::{Operation, Review};
use opgate_cluster::Key;
use opgate_engine::{Compiler, Engine, EngineError, Pool};

/// A policy that failed to load.
#[derive(Debug)]
pub struct BrokenPolicy {
    /// Its name.
    pub name: String,
    /// The origin of its component.
    pub source: String,
    /// Its mode.
    pub mode: Mode,
    /// The effect of its policy errors.
    pub on_error: OnError,
    /// The error.
    pub error: PolicyLoadError,
}

impl BrokenPolicy {
    /// The matching requests are unknown, so the policy fails on all of them.
    pub(crate) fn policy_error(&self) -> PolicyError {
        PolicyError { policy: self.name.clone(), cause: self.error.to_string(), class: "load" }
    }

    /// Whether the administrator wants requests to fail rather than be allowed without this
    /// policy.
    #[must_use]
    pub fn fails_closed(&self) -> bool {
        self.mode == Mode::Enforce && self.on_error != OnError::Allow
    }
}

/// The reason why there is no policy set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The configuration does not fit the policies.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// wasmtime did not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The active policies.
#[derive(Debug)]
pub struct PolicySet {
    policies: Vec<Arc<Policy>>,
    broken: Vec<BrokenPolicy>,
    off: Vec<String>,
    engine: Arc<Engine>,
    cluster: Arc<ClusterState>,
    /// Direct reads, if the watch is not enough.
    direct: Option<DirectReader>,
    /// Whether direct reads are used for all objects that requests like those under review change.
    is_consistent: bool,
    /// Resources that reviews change and policies read.
    conflicting_resources: Vec<ResourceId>,
    /// The source of the labels of namespaces, if policies select namespaces by them and no API
    /// server does it.
    namespaces: Option<Arc<cluster::ResourceCache>>,
    tenants: Tenants,
    /// Maximum number of calls that wait for each policy.
    queue: usize,
    /// See [`Configuration::digest`].
    digest: String,
    /// The text of the configuration, if it has a file.
    configuration_text: Option<Arc<str>>,
    /// The platform of the cluster, if it was read.
    platform: Option<Platform>,
    trust: Trust,
    platform_query: Option<PlatformQuery>,
    /// The watches. They end with the set.
    watches: Watches,
    /// The documentation of the rules, if the server shows it.
    rule_docs: RuleDocs,
}

/// Maximum number of names of earlier configurations that still get a response.
const MAX_OFF_NAMES: usize = 256;

/// Instances beyond those of the first policies, so that a configuration with some more can share
/// the engine.
const SPARE_INSTANCES: usize = 64;

impl PolicySet {
    /// Loads the policies of a configuration. `queue` is the maximum number of calls that wait for
    /// each; `options` set the source of cluster state.
    ///
    /// # Errors
    /// If the configuration does not fit, or there is no engine. A policy that fails to
    /// load is no error: the others serve, and [`PolicySet::broken`] contains it.
    pub fn load(
        configuration: &Configuration,
        cache: Option<PathBuf>,
        queue: usize,
        options: cluster::ClusterOptions,
    ) -> Result<Self, SetError> {
        Self::load_with(
            configuration,
            cache,
            Compiler::InProcess,
            queue,
            options,
            &LoadProgress::default(),
        )
    }

    /// [`PolicySet::load`] for untrusted components, which are compiled in a subprocess. `loading`
    /// contains the policies that are not loaded yet.
    ///
    /// # Errors
    /// As for [`PolicySet::load`].
    pub fn load_with(
        configuration: &Configuration,
        cache: Option<PathBuf>,
        compiler: Compiler,
        queue: usize,
        options: cluster::ClusterOptions,
        loading: &LoadProgress,
    ) -> Result<Self, SetError> {
        let mut pool = pool_of(configuration);
        if options.source == Source::Live || options.source == Source::Absent {
            pool.instances = pool.instances.saturating_add(SPARE_INSTANCES);
        }
        let engine = Engine::start(pool, cache)?.with_compiler(compiler.clone());
        let engine = Arc::new(engine);
        let context =
            LoadContext { engine, compiler, queue, source: options.source, replaced: &[] };
        Self::assemble(configuration, context, options, loading, None)
    }

    /// [`PolicySet::load_with`] for a set that is to replace this one while it serves. The sets share
    /// the engine, if the pool of instances is large enough; the code of policies; their permits
    /// and queues, if their limits are equal; and kinds of the cluster that both read in the same
    /// way. To the other set, policies that only this set has count as switched off.
    ///
    /// # Errors
    /// As for [`PolicySet::load`].
    pub fn load_replacing(
        &self,
        configuration: &Configuration,
        cache: Option<PathBuf>,
        compiler: Compiler,
        loading: &LoadProgress,
    ) -> Result<Self, SetError> {
        let options = self.cluster.options();
        let queue = self.queue;
        let shares_lane = |config: &&PolicyConfig| {
            let policy = self.policies.iter().find(|policy| policy.name == config.name);
            policy.is_some_and(|p| {
                p.dispatcher.is_reusable_for(config.limits, queue, config.is_for_files)
            })
        };
        let others = configuration.policies.iter().filter(|config| !shares_lane(config));
        let more = others.map(|config| config.limits.concurrency).sum();
        let engine = self.engine_for(configuration, more, cache, &compiler)?;
        let (source, replaced) = (options.source, self.policies.as_slice());
        let context = LoadContext { engine, compiler, queue, source, replaced };
        Self::assemble(configuration, context, options, loading, Some(self))
    }

    /// Loads a set that evaluates the stored objects of the cluster while this one serves. The sets share the
    /// engine, if its pool is large enough, and the code of policies, but no permits and no cluster state.
    /// `memory` is the maximum for the objects that policies read.
    ///
    /// # Errors
    /// As for [`PolicySet::load`].
    pub fn load_for_audit(
        &self,
        configuration: &Configuration,
        cache: Option<PathBuf>,
        compiler: Compiler,
        memory: usize,
    ) -> Result<Self, SetError> {
        let more = pool_of(configuration).instances;
        let engine = self.engine_for(configuration, more, cache, &compiler)?;
        let options =
            cluster::ClusterOptions { memory, ..cluster::ClusterOptions::of(Source::Listed) };
        let (queue, source) = (self.queue, options.source);
        let context = LoadContext { engine, compiler, queue, source, replaced: &[] };
        Self::assemble(configuration, context, options, &LoadProgress::default(), None)
    }

    /// The engine of this set, if its pool has `more` instances left for a configuration, or a new one.
    fn engine_for(
        &self,
        configuration: &Configuration,
        more: usize,
        cache: Option<PathBuf>,
        compiler: &Compiler,
    ) -> Result<Arc<Engine>, SetError> {
        let mut pool = pool_of(configuration);
        if self.engine.has_capacity(more, pool.memory) {
            self.engine.use_cache_directory(cache);
            return Ok(self.engine.clone());
        }
        pool.instances = pool.instances.saturating_add(SPARE_INSTANCES);
        Ok(Arc::new(Engine::start(pool, cache)?.with_compiler(compiler.clone())))
    }

    fn assemble(
        configuration: &Configuration,
        context: LoadContext<'_>,
        options: cluster::ClusterOptions,
        loading: &LoadProgress,
        replaced: Option<&Self>,
    ) -> Result<Self, SetError> {
        let (mut loaded_policies, mut broken, mut off) = (Vec::new(), Vec::new(), Vec::new());
        let mut errors = ConfigErrors::default();
        let asked = |config: &&PolicyConfig| config.mode != Mode::Off;
        let configs: Vec<_> = configuration.policies.iter().filter(asked).collect();
        off.extend(configuration.policies.iter().filter(|c| !asked(c)).map(|c| c.name.clone()));
        let one = |config: &PolicyConfig| load(&context, configuration, config);
        for (config, loaded) in configs.iter().zip(load_in_parallel(&configs, loading, one)) {
            match loaded {
                Ok(LoadOutcome::Loaded(policy)) => loaded_policies.push(*policy),
                Ok(LoadOutcome::Broken(error)) => {
                    broken.push(BrokenPolicy {
                        name: config.name.clone(),
                        source: config.module.to_string(),
                        mode: config.mode,
                        on_error: config.on_error,
                        error,
                    });
                }
                Err(wrong) => errors.extend(wrong),
            }
        }
        errors.or(())?;
        let mut readings: Vec<_> = loaded_policies.iter().flat_map(|p| p.reads.clone()).collect();
        // For requests of an API server, the API server has evaluated the labels.
        let selects = |policy: &LoadedPolicy| {
            policy.match_rules.iter().any(EffectiveMatchRule::has_namespace_selector)
        };
        let of_namespaces = (!matches!(options.source, Source::Live | Source::Absent)
            && loaded_policies.iter().any(selects))
        .then(ResolvedRead::of_namespaces)
        .flatten();
        readings.extend(of_namespaces.clone());
        let mut cluster = match replaced {
            // Objects from files are read again, and the old set keeps the previous ones until it
            // is dropped.
            Some(other) if options.source == Source::Live => {
                ClusterState::replacing(&readings, &other.cluster)
            }
            _ => ClusterState::new(&readings, options),
        };
        // Only these can return samples from files.
        if matches!(options.source, Source::Snapshot | Source::PartialSnapshot)
            && loaded_policies
                .iter()
                .any(|policy| matches!(policy.sample_access, SampleAccess::On(_)))
        {
            cluster = cluster.with_file_samples();
        }
        let cluster = Arc::new(cluster);
        let policies: Vec<_> = loaded_policies
            .into_iter()
            .map(|policy| Arc::new(policy.with_cluster(&cluster)))
            .collect();
        let contested = conflicting_resources(&cluster, &policies);
        let namespaces = of_namespaces.and_then(|reading| cluster.cache_of(&reading).cloned());
        if let Some(other) = replaced {
            let known: BTreeSet<&str> =
                configuration.policies.iter().map(|config| config.name.as_str()).collect();
            let left = other.names().filter(|name| !known.contains(name)).map(str::to_owned);
            off.extend(left.collect::<Vec<_>>());
            off.truncate(MAX_OFF_NAMES);
        }
        let loaded = |config: &PolicyConfig| {
            let policy = policies.iter().find(|policy: &&Arc<Policy>| policy.name == config.name);
            policy.map(|policy| policy.module.digest())
        };
        let digest = configuration.digest_with(loaded);
        let tenants = replaced.map(|other| other.tenants.clone()).unwrap_or_default();
        let LoadContext { engine, queue, .. } = context;
        Ok(Self {
            policies,
            broken,
            off,
            engine,
            cluster,
            direct: None,
            is_consistent: false,
            conflicting_resources: contested,
            namespaces,
            tenants,
            queue,
            digest,
            configuration_text: configuration.file_text().cloned(),
            platform: configuration.platform().cloned(),
            trust: Trust::of(configuration),
            platform_query: configuration.platform_query(),
            watches: Watches::default(),
            rule_docs: RuleDocs::default(),
        })
    }

    /// All names of policies that get a response, those of earlier configurations last.
    fn names(&self) -> impl Iterator<Item = &str> {
        let serving = self.policies.iter().map(|policy| policy.name.as_str());
        let broken = self.broken.iter().map(|broken| broken.name.as_str());
        serving.chain(broken).chain(self.off.iter().map(String::as_str))
    }

    /// The digest of the configuration and the components of this set: `sha256:…`, see
    /// [`Configuration::digest`].
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The text of the configuration of this set, if it has a file.
    #[must_use]
    pub fn configuration_text(&self) -> Option<&Arc<str>> {
        self.configuration_text.as_ref()
    }

    /// The platform of the cluster, if it was read for this set.
    #[must_use]
    pub fn platform(&self) -> Option<&Platform> {
        self.platform.as_ref()
    }

    /// The edition that applies, and the trusted identities.
    #[must_use]
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The data that a server has read from its cluster to determine them, see
    /// [`Configuration::platform_query`].
    #[must_use]
    pub fn platform_query(&self) -> Option<PlatformQuery> {
        self.platform_query
    }

    /// Keeps the watches of the cluster until the set is dropped.
    pub fn keep_watches(&mut self, watches: Watches) {
        self.watches = watches;
    }

    /// The watches of the cluster.
    #[must_use]
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Keeps the documentation of the rules.
    pub fn keep_rule_docs(&mut self, docs: RuleDocs) {
        self.rule_docs = docs;
    }

    /// The documentation of the rules; empty unless it is kept.
    #[must_use]
    pub fn rule_docs(&self) -> &RuleDocs {
        &self.rule_docs
    }

    /// Policies that failed to load in this set and not in the other one.
    pub fn newly_broken<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = &'s BrokenPolicy> {
        let was_broken = |name: &str| other.broken.iter().any(|broken| broken.name == name);
        self.broken.iter().filter(move |broken| !was_broken(&broken.name))
    }

    /// Whether this set reads objects that are reviewed, and the other one does not read them, or
    /// not in the same way. A change that was allowed before this set was loaded may be stored
    /// after they are listed.
    #[must_use]
    pub fn has_new_reads(&self, other: &Self) -> bool {
        let resources = self.conflicting_resources.iter().filter_map(|id| self.cluster.cache(*id));
        resources.into_iter().any(|cache| !other.cluster.shares(cache))
    }

    /// The cluster state that the policies read.
    #[must_use]
    pub fn cluster(&self) -> &Arc<ClusterState> {
        &self.cluster
    }

    /// Enables direct reads from the API server for queries that the watch cannot answer exactly
    /// enough. With `consistently`, opgate reads the relevant objects directly whenever two
    /// requests of the same kind could conflict.
    pub fn read_directly(
        &mut self,
        api: impl cluster::DirectReadSource + 'static,
        consistently: bool,
    ) {
        self.direct = Some(DirectReader::new(api));
        self.is_consistent = consistently;
    }

    /// The source of direct reads, if they are enabled.
    pub(crate) fn direct_reader(&self) -> Option<&DirectReader> {
        self.direct.as_ref()
    }

    /// Whether opgate reads the relevant objects directly whenever two requests could conflict.
    pub(crate) fn is_consistent(&self) -> bool {
        self.is_consistent
    }

    /// Resources that reviews change and policies read: two requests for them can conflict.
    pub(crate) fn conflicting_resources(&self) -> &[ResourceId] {
        &self.conflicting_resources
    }

    /// The tenant whose permits and time the calls of a review use.
    pub(crate) fn tenant_of(&self, review: &Review<'_>) -> Tenant {
        self.tenants.of(review.own_namespace(), &review.username)
    }

    /// Policies that serve, in the order of the configuration.
    #[must_use]
    pub fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// Policies that failed to load.
    #[must_use]
    pub fn broken(&self) -> &[BrokenPolicy] {
        &self.broken
    }

    /// Policies whose mode is off.
    pub(super) fn off(&self) -> &[String] {
        &self.off
    }

    /// Whether a policy of this name is loaded, or failed to load.
    #[must_use]
    pub fn serves(&self, name: &str) -> bool {
        self.policies.iter().any(|policy| policy.name == name)
            || self.broken.iter().any(|broken| broken.name == name)
    }

    /// Whether calls by this name get a response: the policy serves, or is off.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// The engine that all of them use.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The cache whose objects decide in addition to a request which policies match it, if there is one.
    #[must_use]
    pub fn namespace_labels(&self) -> Option<&cluster::ResourceCache> {
        self.namespaces.as_deref()
    }

    /// Resolves the labels of the namespace of a review that comes from a file, for
    /// [`Policy::matches`]. A Namespace has the labels itself.
    pub fn resolve_namespace_labels(&self, review: &Review<'_>) {
        let Some(namespaces) = &self.namespaces else { return };
        let labels = if review.is_namespace() {
            let inputs = review.inputs();
            let namespace = inputs.object.or(inputs.old_object);
            namespace.map(|namespace| labels_of(&review.name, namespace.root()))
        } else {
            let key = Key::new("", &review.namespace);
            let found =
                namespaces.get(&key, None, PossibleState::Stored).ok().and_then(|got| got.object);
            found.map(|namespace| labels_of(&review.namespace, namespace.document().root()))
        };
        if let Some(labels) = labels {
            review.set_namespace_labels(labels);
        }
    }
}

/// The pool that the policies of a configuration need.
fn pool_of(configuration: &Configuration) -> Pool {
    let instances = configuration.policies.iter().map(|p| p.limits.concurrency).sum();
    let memory = configuration.policies.iter().map(|p| p.limits.memory).max();
    Pool { instances, memory: memory.unwrap_or(1 << 20) }
}

/// Number of components from files that are loaded at a time. A component that takes long, which
/// its author determines, does not delay the others.
const MAX_CONCURRENT_LOADS: usize = 4;

/// Loads policies, those from files in parallel. Returns the results in the same order.
fn load_in_parallel<T: Send>(
    configs: &[&PolicyConfig],
    loading: &LoadProgress,
    load: impl Fn(&PolicyConfig) -> T + Sync,
) -> Vec<T> {
    loading.expect(configs.iter().map(|config| config.name.as_str()));
    let one = |config: &PolicyConfig| {
        loading.mark_started(&config.name);
        let loaded = load(config);
        loading.mark_finished(&config.name);
        loaded
    };
    let is_file = |config: &PolicyConfig| config.module.is_foreign();
    let next = AtomicUsize::new(0);
    let files = || {
        let mut loaded = Vec::new();
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let Some(config) = configs.get(number)
        {
            if is_file(config) {
                loaded.push((number, one(config)));
            }
        }
        loaded
    };
    let count = configs.iter().filter(|config| is_file(config)).count();
    let mut all = std::thread::scope(|scope| {
        let threads = 0..count.min(MAX_CONCURRENT_LOADS);
        let threads: Vec<_> = threads.map(|_| scope.spawn(files)).collect();
        let builtin = configs.iter().enumerate().filter(|(_, config)| !is_file(config));
        let mut all: Vec<_> = builtin.map(|(number, config)| (number, one(config))).collect();
        for thread in threads {
            match thread.join() {
                Ok(loaded) => all.extend(loaded),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, loaded)| loaded).collect()
}

/// Resources that policies read and whose objects are reviewed: two requests for them can conflict.
fn conflicting_resources(cluster: &ClusterState, policies: &[Arc<Policy>]) -> Vec<ResourceId> {
    let is_reviewed = |kind: &cluster::ResourceCache| {
        let resource = kind.resource();
        !resource.is_server_version()
            && policies.iter().flat_map(|policy| &policy.match_rules).any(|requests| {
                let has = |list: &[String], name: &str| list.iter().any(|l| l == "*" || l == name);
                has(&requests.rule.groups, &resource.group)
                    && has(&requests.rule.resources, &resource.resource)
                    && requests
                        .rule
                        .operations
                        .iter()
                        .any(|o| matches!(o, Operation::Create | Operation::Update))
            })
    };
    let resources = cluster.caches_with_ids();
    resources.filter(|(_, cache)| is_reviewed(cache)).map(|(id, _)| id).collect()
}
