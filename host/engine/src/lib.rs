//! Runs policies in wasmtime, with limits on everything.
//!
//! ```text
//! component ─check─▶ image (embedded, cached or compiled) ─▶ Module ─call─▶ fresh instance ─▶ verdict
//! ```
//!
//! This module starts the [`Engine`] and loads policies: `component_check.rs` checks a component, and
//! `cache.rs` or `compile.rs` provide its image. A [`Module`] (`module.rs`) is the code of a policy,
//! ready to be instantiated. Each call has a separate instance, with limits on time, memory, tables,
//! stack, handles and copied bytes. The limits are set before the first instruction of the guest, and
//! are the same for `describe`, `validate-settings` and `validate`.

mod bindings;
mod cache;
mod call_clock;
mod call_error;
mod compile;
mod component_check;
mod confine;
mod docs;
mod document_handle;
mod epoch_ticker;
mod file_type;
mod imports;
mod inputs;
mod instance_quota;
mod limits;
mod memory_image;
mod memory_limiter;
mod module;
pub mod reader;
mod settings;
mod state;
pub mod subprocess;
mod trap;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

pub use opgate_system::Image;
use wasmtime::component::Linker;
use wasmtime::{InstanceAllocationStrategy, PoolingAllocationConfig};

use bindings::ClusterPolicyPre;
pub use bindings::types as wit;
pub use cache::Cache;
pub use call_clock::{Budget, SharedCpuTime, TimeLimit, WorkerControl, thread_cpu_time};
pub use call_error::{CallError, Import};
use compile::unusable_error;
pub use compile::{Compiler, run_compile_job};
pub use component_check::MAX_COMPONENT_BYTES as MAX_COMPONENT;
pub use component_check::VERSION as CONTRACT;
pub use component_check::{ComponentError, interfaces};
pub use docs::{Docs, docs};
use epoch_ticker::Ticker;
pub use file_type::FileType;
pub use inputs::{Inputs, RequestParts, RequestTexts};
pub use instance_quota::InstanceQuota;
pub use limits::Limits;
use memory_image::build_memory_images;
use module::Code;
pub use module::{CallResult, HostWork, LogLine, Module};
use parking_lot::Mutex;

/// The target for which policies are compiled: that of the host, without optional CPU features.
pub const TARGET: &str = env!("OPGATE_TARGET");

/// The version of wasmtime that runs them.
pub const WASMTIME: &str = env!("OPGATE_WASMTIME");

/// Part of an instance's memory and table that is cleared in place. Pages beyond it that a guest
/// used are unmapped. Guests of the SDK keep stack, data and a small heap below it.
const RESIDENT_MEMORY_BYTES: usize = 128 << 10;
const RESIDENT_TABLE_BYTES: usize = 4 << 10;

/// An error while the engine starts.
#[derive(Debug, thiserror::Error)]
#[error("the engine cannot start: {0}")]
pub struct EngineError(String);

impl EngineError {
    /// The error for another reason.
    #[must_use]
    pub fn of(why: &impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// The reason why the component of a policy failed to load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The component is not a policy.
    #[error(transparent)]
    Rejected(#[from] ComponentError),
    /// wasmtime cannot compile or link it.
    #[error("cannot be used: {0}")]
    Unusable(String),
    /// The process that compiles it refused it, or ended early.
    #[error("cannot be compiled: {0}")]
    NotCompiled(String),
}

/// The engine that all policies share.
pub struct Engine {
    engine: wasmtime::Engine,
    ticker: Ticker,
    cache: Mutex<Option<Arc<Cache>>>,
    compiler: Compiler,
    pooled: bool,
    pool: Pool,
    /// Instances of the pool that are reserved.
    reserved: Mutex<usize>,
    /// Code that is in use, by digest: loading a component again shares it.
    loaded_code: Mutex<Vec<Weak<Code>>>,
    /// Large components are loaded one at a time: loading takes 100 MiB each.
    large: Mutex<()>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("pooled", &self.pooled).finish_non_exhaustive()
    }
}

/// The size of the pool of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Instances that exist at the same time: the sum of the concurrency of all policies.
    pub instances: usize,
    /// The maximum memory of any policy.
    pub memory: usize,
}

impl Engine {
    /// Starts an engine. Instances come from a pool. If the address space is too small for a pool
    /// (`ulimit -v`, some containers), instances are created on demand, which is slower.
    ///
    /// # Errors
    /// If the engine cannot start without a pool either.
    pub fn start(pool: Pool, directory: Option<PathBuf>) -> Result<Self, EngineError> {
        let failed = |e: wasmtime::Error| EngineError(format!("{e:#}"));
        let mut config = settings::config(TARGET, true).map_err(failed)?;
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling_config(pool)));
        let (engine, pooled) = match wasmtime::Engine::new(&config) {
            Ok(engine) => (engine, true),
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "no pool of instances: the address space is short; evaluations will be slower"
                );
                let config = settings::config(TARGET, false).map_err(failed)?;
                (wasmtime::Engine::new(&config).map_err(failed)?, false)
            }
        };
        let ticker = Ticker::start(engine.weak())
            .map_err(|e| EngineError(format!("no thread for the clock: {e}")))?;
        let (taken, codes, large) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (cache, compiler) = (Mutex::default(), Compiler::InProcess);
        let engine = Self {
            engine,
            ticker,
            cache,
            compiler,
            pooled,
            pool,
            reserved: taken,
            loaded_code: codes,
            large,
        };
        engine.use_cache_directory(directory);
        Ok(engine)
    }

    /// Caches compiled components in this directory, if none is used yet.
    pub fn use_cache_directory(&self, directory: Option<PathBuf>) {
        let mut cache = self.cache.lock();
        if cache.is_some() {
            return;
        }
        *cache = directory.and_then(|directory| match Cache::open(&directory) {
            Ok(cache) => Some(Arc::new(cache)),
            Err(error) => {
                tracing::warn!(%error, "no cache: policies are compiled at every start");
                None
            }
        });
    }

    /// Sets the compiler for components from files and registries.
    #[must_use]
    pub fn with_compiler(self, compiler: Compiler) -> Self {
        Self { compiler, ..self }
    }

    /// The compiler for components from files and registries.
    #[must_use]
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Whether instances come from a pool.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        self.pooled
    }

    /// Loads a component from a file or a registry: checks it, then reads its image from the cache
    /// or compiles it.
    ///
    /// # Errors
    /// If it is not a policy, or not a valid component.
    pub fn load(
        self: &Arc<Self>,
        component: &[u8],
        granted_cluster: bool,
    ) -> Result<Module, LoadError> {
        self.load_with(&self.compiler, component, granted_cluster)
    }

    /// [`Engine::load`] with another compiler than that of the engine.
    ///
    /// # Errors
    /// As for [`Engine::load`].
    pub fn load_with(
        self: &Arc<Self>,
        compiler: &Compiler,
        component: &[u8],
        granted_cluster: bool,
    ) -> Result<Module, LoadError> {
        let load = || {
            component_check::check(component, granted_cluster, self.pool.memory)?;
            let _alone = component_check::is_large(component).then(|| self.large.lock());
            let digest = digest(component);
            if let Some(known) = self.find_loaded(&digest) {
                return Ok(known);
            }
            let cache = self.cache.lock().clone();
            let cached = cache.and_then(|cache| cache.read(&self.engine, &digest));
            let loaded = match cached {
                Some(loaded) => loaded,
                None => self.compile(compiler, component, &digest)?,
            };
            self.link(&loaded, digest)
        };
        // No content of a component ends this process. A panic leaves nothing incomplete, because
        // the result does not exist yet.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(load))
            .unwrap_or_else(|_| Err(LoadError::NotCompiled("it makes the engine panic".to_owned())))
    }

    /// Loads a policy that the build compiled, with the digest of its component. If the image does
    /// not fit this engine, which happens without a pool, the component is compiled.
    ///
    /// # Errors
    /// As for [`Engine::load`]. A test ensures that there are none.
    pub fn load_builtin(
        self: &Arc<Self>,
        component: impl FnOnce() -> Vec<u8>,
        digest: &str,
        image: &Image,
    ) -> Result<Module, LoadError> {
        if let Some(known) = self.find_loaded(digest) {
            return Ok(known);
        }
        match image.load(&self.engine) {
            Ok(loaded) => self.link(&loaded, digest.to_owned()),
            Err(error) => {
                tracing::debug!(%error, "the embedded image does not fit; compiling");
                self.load(&component(), true)
            }
        }
    }

    /// The code of a component that is in use.
    fn find_loaded(&self, digest: &str) -> Option<Module> {
        let mut codes = self.loaded_code.lock();
        codes.retain(|code| code.strong_count() > 0);
        codes.iter().filter_map(Weak::upgrade).find(|code| code.digest == digest).map(Module)
    }

    fn compile(
        &self,
        compiler: &Compiler,
        component: &[u8],
        digest: &str,
    ) -> Result<wasmtime::component::Component, LoadError> {
        let purpose = cache::image_purpose(&self.engine, digest);
        let image = compiler.compile(&self.engine, self.pooled, &purpose, component)?;
        let loaded = image.load(&self.engine).map_err(|e| unusable_error(&e))?;
        if let Some(cache) = self.cache.lock().clone() {
            cache.write(&self.engine, digest, &image);
        }
        Ok(loaded)
    }

    fn link(
        self: &Arc<Self>,
        component: &wasmtime::component::Component,
        digest: String,
    ) -> Result<Module, LoadError> {
        let unusable = |e: wasmtime::Error| unusable_error(&e);
        let mut linker = Linker::new(&self.engine);
        imports::define(&mut linker).map_err(unusable)?;
        let pre = linker.instantiate_pre(component).map_err(unusable)?;
        let pre = ClusterPolicyPre::new(pre).map_err(unusable)?;
        let validate = component.get_export_index(None, "validate");
        let validate = validate.ok_or_else(|| LoadError::Unusable("no `validate`".to_owned()))?;
        build_memory_images(component)?;
        let code = Arc::new(Code { engine: self.clone(), pre, validate, digest });
        self.loaded_code.lock().push(Arc::downgrade(&code));
        Ok(Module(code))
    }
}

/// Spare instances for calls at load time, while others serve: four components from files and a built-in
/// one are loaded at a time.
const SPARE_INSTANCES: u32 = 8;

fn pooling_config(pool: Pool) -> PoolingAllocationConfig {
    let instances =
        u32::try_from(pool.instances).unwrap_or(u32::MAX).saturating_add(SPARE_INSTANCES);
    let many = |each: usize| u32::try_from(each).unwrap_or(u32::MAX);
    let total = |each: usize| instances.saturating_mul(many(each));
    let mut config = PoolingAllocationConfig::new();
    config
        .total_component_instances(instances)
        .total_core_instances(total(limits::MAX_INSTANCES))
        .total_memories(total(limits::MAX_MEMORIES))
        .total_tables(total(limits::MAX_TABLES))
        .max_memories_per_component(many(limits::MAX_MEMORIES))
        .max_core_instances_per_component(many(limits::MAX_INSTANCES))
        .max_tables_per_component(many(limits::MAX_TABLES))
        .max_tables_per_module(many(limits::MAX_TABLES))
        .max_memory_size(pool.memory)
        .table_elements(limits::MAX_TABLE_ELEMENTS)
        .linear_memory_keep_resident(RESIDENT_MEMORY_BYTES)
        .table_keep_resident(RESIDENT_TABLE_BYTES);
    config
}

/// `sha256:…` of a component.
#[must_use]
pub fn digest(component: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, component);
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("sha256:".to_owned()).chain(hex).collect()
}
