//! Loads a component as a server would: under its limits, and compiled in a separate process.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::cli::args::ConfigArgs;
use crate::cli::exit::CommandError;
use opgate_admission::policy::{Descriptor, ModuleSource, PolicyConfig, describe, read_component};
use opgate_builtin_policies::BUILTINS;
use opgate_engine::{Compiler, Engine, FileType, Limits, Module, Pool};
use opgate_server::DefaultLimits;

/// A component, and what it says about itself.
pub(super) struct LoadedComponent {
    pub(super) module: Module,
    pub(super) descriptor: Descriptor,
    /// The component.
    pub(super) bytes: Vec<u8>,
    pub(super) source: String,
    pub(super) limits: Limits,
    /// From the bytes to a descriptor.
    pub(super) load_time: Duration,
}

impl LoadedComponent {
    /// Creates the component of a policy.
    pub(super) fn of(policy: &PolicyConfig, config: &ConfigArgs) -> Result<Self, CommandError> {
        let bytes = match &policy.module {
            ModuleSource::Builtin(name) => {
                let builtin = BUILTINS.iter().find(|builtin| builtin.name == name);
                builtin.ok_or_else(|| anyhow!("there is no built-in policy {name:?}"))?.component()
            }
            ModuleSource::File(path) => {
                read_component(path).with_context(|| path.display().to_string())?
            }
            ModuleSource::Oci(_) => {
                return Err(CommandError::usage(anyhow!("{}: pull it first", policy.module)));
            }
        };
        let cache = config.cache_of(policy);
        Self::of_bytes(&policy.module.to_string(), bytes, policy.limits, cache.as_deref())
    }

    /// Loads a component. Only its descriptor is requested.
    pub(super) fn of_bytes(
        source: &str,
        bytes: Vec<u8>,
        limits: Limits,
        cache: Option<&Path>,
    ) -> Result<Self, CommandError> {
        let form = FileType::of(&bytes);
        if form != FileType::Component {
            return Err(CommandError::engine(anyhow!("{source}: {}", form.remediation())));
        }
        let pool = Pool { instances: 1, memory: limits.memory };
        let room = DefaultLimits::of(Path::new("/"));
        let compiler =
            Compiler::in_subprocess(room.subprocess_bytes).map_err(CommandError::engine)?;
        let engine =
            Engine::start(pool, cache.map(Path::to_owned)).map_err(CommandError::engine)?;
        let engine = Arc::new(engine.with_compiler(compiler));
        let of_it = |e: &dyn Display| CommandError::engine(anyhow!("{source}: {e}"));
        let started = Instant::now();
        let module = engine.load(&bytes, true).map_err(|e| of_it(&e))?;
        let descriptor = describe(&module, "inspected", limits).map_err(|e| of_it(&e))?;
        let (source, took) = (source.to_owned(), started.elapsed());
        Ok(Self { module, descriptor, bytes, source, limits, load_time: took })
    }
}
