//! The active policies, and the evaluation of a review by them.
//!
//! ```text
//! review ─▶ every policy that matches ─▶ decision
//!                 ▲                          │
//!                 └── cluster::decide: once for each possible state ◀┘
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::bench::{ReviewEvaluator, reserve_response_memory};
use super::config::{ConfigErrors, Configuration, PolicyConfig};
use super::decision::DecisionBuilder;
use super::load::{Context, Loaded, load};
use super::loading::Loading;
use super::permits::Tenants;
use super::review_time::ReviewTime;
use super::scope::labels_of;
use super::{Decision, Mode, OnError, Overload, Policy, PolicyError, Requests, Trust, Wanted};
use crate::cluster::{
    self, ClusterState, Direct, PolicyView, PossibleState, ReadConsistency, ResolvedRead,
    SampleAccess, Source, Watches,
};
use crate::review::{Operation, Review};
use opgate_cluster::Key;
use opgate_engine::{Compiler, Engine, EngineError, Pool};

/// A policy that failed to load.
#[derive(Debug)]
pub struct Broken {
    /// Its name.
    pub name: String,
    /// The origin of its component.
    pub source: String,
    /// Its mode.
    pub mode: Mode,
    /// The effect of its policy errors.
    pub on_error: OnError,
    /// The error.
    pub error: String,
}

impl Broken {
    /// The matching requests are unknown, so the policy fails on all of them.
    fn fault(&self) -> PolicyError {
        PolicyError { policy: self.name.clone(), cause: self.error.clone(), class: "load" }
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

/// The reason why a review got no decision.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The server is overloaded.
    #[error(transparent)]
    Overload(#[from] Overload),
    /// There is no such policy.
    #[error("there is no policy {name:?}{hint}")]
    NoPolicy {
        /// The requested name.
        name: String,
        /// A similar name.
        hint: String,
    },
}

/// Receives each call of a policy, for metrics.
pub trait Observer {
    /// Called after a policy has returned a verdict or failed.
    fn called(&self, policy: &Policy, took: Duration);

    /// Called with the queries of a call. If a review is evaluated again because the cluster has
    /// changed, each evaluation is a separate call.
    fn read(&self, policy: &Policy, tallies: Vec<cluster::Tally>) {
        let _ = (policy, tallies);
    }
}

/// An observer that does nothing.
impl Observer for () {
    fn called(&self, _: &Policy, _: Duration) {}
}

/// The active policies.
#[derive(Debug)]
pub struct PolicySet {
    policies: Vec<Arc<Policy>>,
    broken: Vec<Broken>,
    off: Vec<String>,
    engine: Arc<Engine>,
    cluster: Arc<ClusterState>,
    /// Direct reads, if the watch is not enough.
    direct: Option<Direct>,
    /// Whether direct reads are used for all objects that requests like those under review change.
    is_consistent: bool,
    /// Kinds (positions) that reviews change and policies read.
    contested: Vec<usize>,
    /// The source of the labels of namespaces, if policies select namespaces by them and no API
    /// server does it.
    namespaces: Option<Arc<cluster::ResourceCache>>,
    tenants: Tenants,
    /// Maximum number of calls that wait for each policy.
    queue: usize,
    /// See [`Configuration::digest`].
    digest: String,
    trust: Trust,
    wanted: Option<Wanted>,
    /// The watches. They end with the set.
    watches: Watches,
}

/// Maximum number of names of earlier configurations that still get a response.
const MOST_OFF: usize = 256;

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
        options: cluster::Options,
    ) -> Result<Self, SetError> {
        Self::load_with(configuration, cache, Compiler::Here, queue, options, &Loading::default())
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
        options: cluster::Options,
        loading: &Loading,
    ) -> Result<Self, SetError> {
        let mut pool = pool_of(configuration);
        if options.source == Source::Live || options.source == Source::Absent {
            pool.instances = pool.instances.saturating_add(SPARE_INSTANCES);
        }
        let engine = Engine::start(pool, cache)?.with_compiler(compiler.clone());
        let engine = Arc::new(engine);
        let context = Context { engine, compiler, queue, source: options.source, replaces: None };
        Self::assemble(configuration, context, options, loading)
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
        loading: &Loading,
    ) -> Result<Self, SetError> {
        let options = self.cluster.options();
        let queue = self.queue;
        let shares_lane = |config: &&PolicyConfig| {
            let policy = self.policies.iter().find(|policy| policy.name == config.name);
            policy.is_some_and(|p| p.lane.fits(config.limits, queue, config.is_for_files))
        };
        let others = configuration.policies.iter().filter(|config| !shares_lane(config));
        let more = others.map(|config| config.limits.concurrency).sum();
        let mut pool = pool_of(configuration);
        let engine = if self.engine.has_room(more, pool.memory) {
            self.engine.cache_in(cache);
            self.engine.clone()
        } else {
            pool.instances = pool.instances.saturating_add(SPARE_INSTANCES);
            Arc::new(Engine::start(pool, cache)?.with_compiler(compiler.clone()))
        };
        let (source, replaces) = (options.source, Some(self));
        let context = Context { engine, compiler, queue, source, replaces };
        Self::assemble(configuration, context, options, loading)
    }

    fn assemble(
        configuration: &Configuration,
        context: Context<'_>,
        options: cluster::Options,
        loading: &Loading,
    ) -> Result<Self, SetError> {
        let (mut policies, mut broken, mut off) = (Vec::new(), Vec::new(), Vec::new());
        let mut errors = ConfigErrors::default();
        let asked = |config: &&PolicyConfig| config.mode != Mode::Off;
        let configs: Vec<_> = configuration.policies.iter().filter(asked).collect();
        off.extend(configuration.policies.iter().filter(|c| !asked(c)).map(|c| c.name.clone()));
        let one = |config: &PolicyConfig| load(&context, configuration, config);
        for (config, loaded) in configs.iter().zip(load_in_parallel(&configs, loading, one)) {
            match loaded {
                Ok(Loaded::Policy(policy)) => policies.push(*policy),
                Ok(Loaded::Broken(error)) => {
                    broken.push(Broken {
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
        let mut readings: Vec<_> = policies.iter().flat_map(|p| p.readings.clone()).collect();
        // For requests of an API server, the API server has evaluated the labels.
        let selects = |policy: &Policy| policy.requests.iter().any(Requests::has_selector);
        let of_namespaces = (!matches!(options.source, Source::Live | Source::Absent)
            && policies.iter().any(selects))
        .then(ResolvedRead::of_namespaces)
        .flatten();
        readings.extend(of_namespaces.clone());
        let mut cluster = match context.replaces {
            // Objects from files are read again, and the old set keeps the previous ones until it
            // is dropped.
            Some(other) if options.source == Source::Live => {
                ClusterState::replacing(&readings, &other.cluster)
            }
            _ => ClusterState::new(&readings, options),
        };
        // Only these can return samples from files.
        if matches!(options.source, Source::Snapshot | Source::PartialSnapshot)
            && policies.iter().any(|policy| matches!(policy.sampling, SampleAccess::On(_)))
        {
            cluster = cluster.keeping_files();
        }
        let cluster = Arc::new(cluster);
        for policy in &mut policies {
            let view = PolicyView::new(&cluster, &policy.readings, std::mem::take(&mut policy.off));
            policy.view = Arc::new(view.sampling(policy.sampling.clone()));
        }
        let contested = conflicting_resources(&cluster, &policies);
        let namespaces = of_namespaces.and_then(|reading| cluster.kind_of(&reading).cloned());
        let policies: Vec<_> = policies.into_iter().map(Arc::new).collect();
        if let Some(other) = context.replaces {
            let known: BTreeSet<&str> =
                configuration.policies.iter().map(|config| config.name.as_str()).collect();
            let left = other.names().filter(|name| !known.contains(name)).map(str::to_owned);
            off.extend(left.collect::<Vec<_>>());
            off.truncate(MOST_OFF);
        }
        let loaded = |config: &PolicyConfig| {
            let policy = policies.iter().find(|policy: &&Arc<Policy>| policy.name == config.name);
            policy.map(|policy| policy.module.digest())
        };
        let digest = configuration.digest_with(loaded);
        let tenants = context.replaces.map(|other| other.tenants.clone()).unwrap_or_default();
        let Context { engine, queue, .. } = context;
        Ok(Self {
            policies,
            broken,
            off,
            engine,
            cluster,
            direct: None,
            is_consistent: false,
            contested,
            namespaces,
            tenants,
            queue,
            digest,
            trust: Trust::of(configuration),
            wanted: configuration.wanted(),
            watches: Watches::default(),
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

    /// The edition that applies, and the trusted identities.
    #[must_use]
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The data that a server has read from its cluster to determine them, see
    /// [`Configuration::wanted`].
    #[must_use]
    pub fn wanted(&self) -> Option<Wanted> {
        self.wanted
    }

    /// Keeps the watches of the cluster until the set is dropped.
    pub fn keep(&mut self, watches: Watches) {
        self.watches = watches;
    }

    /// The watches of the cluster.
    #[must_use]
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Policies that failed to load in this set and not in the other one.
    pub fn newly_broken<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = &'s Broken> {
        let was_broken = |name: &str| other.broken.iter().any(|broken| broken.name == name);
        self.broken.iter().filter(move |broken| !was_broken(&broken.name))
    }

    /// Whether this set reads objects that are reviewed, and the other one does not read them, or
    /// not in the same way. A change that was allowed before this set was loaded may be stored
    /// after they are listed.
    #[must_use]
    pub fn has_new_reads(&self, other: &Self) -> bool {
        let kinds = self.contested.iter().filter_map(|at| self.cluster.kinds().get(*at));
        kinds.into_iter().any(|kind| !other.cluster.shares(kind))
    }

    /// The cluster state that the policies read.
    #[must_use]
    pub fn cluster(&self) -> &Arc<ClusterState> {
        &self.cluster
    }

    /// Enables direct reads from the API server for queries that the watch cannot answer exactly
    /// enough. With `consistently`, opgate reads the relevant objects directly whenever two
    /// requests of the same kind could conflict.
    pub fn read_directly(&mut self, api: impl cluster::Api + 'static, consistently: bool) {
        self.direct = Some(Direct::new(api));
        self.is_consistent = consistently;
    }

    /// Policies that serve, in the order of the configuration.
    #[must_use]
    pub fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// Policies that failed to load.
    #[must_use]
    pub fn broken(&self) -> &[Broken] {
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

    /// Decides a review: calls every policy that matches, or only those that `only` names: one
    /// name, or several with `/` between them.
    ///
    /// # Errors
    /// If the server is overloaded, or there is no policy with a name. A policy that
    /// fails or failed to load is no error, but a part of the decision.
    pub async fn decide(
        &self,
        review: &Review<'_>,
        only: Option<&str>,
        deadline: Instant,
        observer: &impl Observer,
    ) -> Result<Decision, DecideError> {
        // A name that occurs twice counts once.
        let names: Option<BTreeSet<&str>> = only.map(|names| names.split('/').collect());
        for name in names.iter().flatten() {
            self.broken_one(name)?;
        }
        self.decide_among(review, names.as_ref(), deadline, observer).await
    }

    /// [`PolicySet::decide`] with only the policies that have one of these names. Names that the set
    /// does not have are ignored.
    ///
    /// # Errors
    /// If the server is overloaded.
    pub async fn decide_among(
        &self,
        review: &Review<'_>,
        names: Option<&BTreeSet<&str>>,
        deadline: Instant,
        observer: &impl Observer,
    ) -> Result<Decision, DecideError> {
        let is_meant = |name: &str| names.is_none_or(|names| names.contains(name));
        let mut builder = DecisionBuilder::default();
        for broken in self.broken.iter().filter(|broken| is_meant(&broken.name)) {
            builder.fault(broken.fault(), broken.mode, broken.on_error);
        }
        // In the order in which they serve, whatever the order of the names.
        let mut matching: Vec<_> =
            self.policies.iter().filter(|policy| is_meant(&policy.name)).collect();
        self.resolve_namespace_labels(review);
        matching.retain(|policy| policy.matches(review));
        // A review that no policy of this set evaluates can conflict with one that the next set
        // evaluates.
        if matching.is_empty() && !self.cluster.is_kept_elsewhere(review) {
            let mut decision = builder.build();
            reserve_response_memory(review, &mut decision)?;
            return Ok(decision);
        }
        let inputs = Arc::new(review.inputs());
        let tenant = self.tenants.of(review.own_namespace(), &review.username);
        let time = ReviewTime::of(&matching, review.size());
        let bench = ReviewEvaluator {
            cluster: &self.cluster,
            contested: &self.contested,
            review,
            builder,
            matching,
            inputs,
            tenant,
            deadline,
            time,
            observer,
        };
        let exactness = ReadConsistency {
            direct: self.direct.as_ref(),
            always: self.is_consistent,
            contested: &self.contested,
        };
        let judged = cluster::decide(&self.cluster, exactness, deadline.into(), &bench).await?;
        let mut decision = judged.decision;
        reserve_response_memory(review, &mut decision)?;
        Ok(decision)
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
            // A review that is decided again has them already.
            let _ = review.namespace_labels.set(labels);
        }
    }

    /// The policy with this name if it failed to load; none if it serves, or is off.
    fn broken_one(&self, name: &str) -> Result<Option<&Broken>, DecideError> {
        let is_off = || self.off.iter().any(|off| off == name);
        let broken = self.broken.iter().find(|broken| broken.name == name);
        if broken.is_some() || self.policies.iter().any(|p| p.name == name) || is_off() {
            return Ok(broken);
        }
        let hint = opgate_text::hint(name, self.policies.iter().map(|p| p.name.as_str()));
        Err(DecideError::NoPolicy { name: opgate_text::one_line(name, 64), hint })
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
const LOADED_AT_A_TIME: usize = 4;

/// Loads policies, those from files in parallel. Returns the results in the same order.
fn load_in_parallel<T: Send>(
    configs: &[&PolicyConfig],
    loading: &Loading,
    load: impl Fn(&PolicyConfig) -> T + Sync,
) -> Vec<T> {
    loading.expect(configs.iter().map(|config| config.name.as_str()));
    let one = |config: &PolicyConfig| {
        loading.began(&config.name);
        let loaded = load(config);
        loading.ended(&config.name);
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
        let threads = 0..count.min(LOADED_AT_A_TIME);
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

/// Kinds that policies read and whose objects are reviewed: two requests for them can conflict.
fn conflicting_resources(cluster: &ClusterState, policies: &[Policy]) -> Vec<usize> {
    let is_reviewed = |kind: &cluster::ResourceCache| {
        let resource = kind.resource();
        !resource.is_server_version()
            && policies.iter().flat_map(|policy| &policy.requests).any(|requests| {
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
    let kinds = cluster.kinds().iter().enumerate();
    kinds.filter(|(_, kind)| is_reviewed(kind)).map(|(position, _)| position).collect()
}
