//! Flags that several commands have: the configuration with its policies, and the size of the input.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::exit::CommandError;
use crate::cli::registry::RegistryArgs;
use opgate_admission::cluster;
use opgate_admission::policy::{
    Configuration, LoadProgress, PolicyConfig, PolicySet, Profile, SetError,
};
use opgate_builtin_policies::BUILTINS;
use opgate_engine::{Compiler, EngineError};
use opgate_input::read::{DEFAULT_MAX_INPUT_BYTES, DEFAULT_MAX_UNIT_BYTES, Reader};
use opgate_platform::files;
use opgate_server::DefaultLimits;
use opgate_text::units::parse_bytes;

/// Flags that select and configure policies.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ConfigArgs {
    /// Configuration file [default: all built-in policies with their default settings]
    #[arg(long, value_name = "FILE", env = "OPGATE_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// Directory for compiled policies [default: the user's cache directory]
    #[arg(long, value_name = "DIR", env = "OPGATE_CACHE_DIR")]
    pub(super) cache_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) registry: RegistryArgs,
}

impl ConfigArgs {
    /// Returns the configuration, with the components that registries have for it now.
    pub(super) fn configuration(&self) -> anyhow::Result<Configuration> {
        let mut configuration = self.read()?;
        self.resolve(&mut configuration)?;
        Ok(configuration)
    }

    /// Reads the file. Contacts no registry.
    pub(super) fn read(&self) -> anyhow::Result<Configuration> {
        match &self.config {
            Some(path) => Ok(Configuration::read(path, BUILTINS)?),
            None => Ok(Configuration::builtin(Profile::default(), BUILTINS)),
        }
    }

    /// Pulls the components that are in registries. One that cannot be had is no error here: its policy is broken.
    pub(super) fn resolve(&self, configuration: &mut Configuration) -> anyhow::Result<()> {
        let cache = self.cache(configuration);
        self.registry.resolve(configuration, cache.as_deref())
    }

    /// Returns the cache for policies from files; the built-in ones need none.
    pub(super) fn cache(&self, configuration: &Configuration) -> Option<PathBuf> {
        let user = || {
            let directory = std::env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                // A relative one, or an empty `HOME`, is below the current directory, whose author may be another user.
                .filter(|path| path.is_absolute())
                .or_else(|| files::home_directory().map(|home| home.join(".cache")))?;
            Some(directory.join("opgate"))
        };
        let foreign = |p: &PolicyConfig| p.module.is_foreign();
        let needed = configuration.policies.iter().any(foreign);
        self.cache_dir.clone().or_else(user).filter(|_| needed)
    }

    /// Returns the cache for one policy.
    pub(super) fn cache_of(&self, policy: &PolicyConfig) -> Option<PathBuf> {
        let mut configuration = Configuration::builtin(Profile::default(), BUILTINS);
        configuration.policies = vec![policy.clone()];
        self.cache(&configuration)
    }

    pub(super) fn load_set(
        &self,
        options: cluster::ClusterOptions,
    ) -> Result<PolicySet, CommandError> {
        let room = DefaultLimits::of(Path::new("/"));
        self.load_set_of(&self.configuration()?, 1, options, room, &LoadProgress::default())
    }

    pub(super) fn load_set_of(
        &self,
        configuration: &Configuration,
        queue: usize,
        options: cluster::ClusterOptions,
        room: DefaultLimits,
        loading: &LoadProgress,
    ) -> Result<PolicySet, CommandError> {
        let cache = self.cache(configuration);
        let compiler =
            Compiler::in_subprocess(room.subprocess_bytes).map_err(CommandError::engine)?;
        let set = PolicySet::load_with(configuration, cache, compiler, queue, options, loading);
        set.map_err(|error| match error {
            SetError::Config(error) => CommandError::usage(error),
            SetError::Engine(error) => CommandError::engine(error),
        })
    }

    /// Returns the set that is to replace one that serves. Processes that compile have this many bytes of
    /// memory together.
    ///
    /// # Errors
    /// Returns the errors of the configuration or of the machine.
    pub(super) fn candidate_set(
        &self,
        served: &PolicySet,
        configuration: &Configuration,
        children: usize,
    ) -> Result<PolicySet, SetError> {
        let compiler = Compiler::in_subprocess(children).map_err(|e| EngineError::of(&e))?;
        let cache = self.cache(configuration);
        served.load_replacing(configuration, cache, compiler, &LoadProgress::default())
    }

    /// Returns a set for the audit by a server, which serves with another set of the same configuration.
    /// Processes that compile have `children` bytes of memory together, the objects that policies read `memory`.
    ///
    /// # Errors
    /// Returns the errors of the configuration or of the machine.
    pub(super) fn audit_set(
        &self,
        served: &PolicySet,
        configuration: &Configuration,
        children: usize,
        memory: usize,
    ) -> Result<PolicySet, SetError> {
        let compiler = Compiler::in_subprocess(children).map_err(|e| EngineError::of(&e))?;
        served.load_for_audit(configuration, self.cache(configuration), compiler, memory)
    }

    /// Loads the policies as servers do, for any platform.
    pub(super) fn load_server_set(&self) -> Result<PolicySet, CommandError> {
        let mut configuration = self.configuration()?;
        configuration.assume_any_cluster();
        self.load_all_or_fail(&configuration, cluster::Source::Absent)
    }

    /// Returns the policies, all of which can be used.
    pub(super) fn load_all_or_fail(
        &self,
        configuration: &Configuration,
        source: cluster::Source,
    ) -> Result<PolicySet, CommandError> {
        let room = DefaultLimits::of(Path::new("/"));
        let (options, loading) = (cluster::ClusterOptions::of(source), LoadProgress::default());
        let set = self.load_set_of(configuration, usize::MAX, options, room, &loading)?;
        let broken = set.broken().iter().map(|b| format!("policy {}: {}", b.name, b.error));
        let lines: Vec<_> = broken.collect();
        if lines.is_empty() {
            Ok(set)
        } else {
            Err(CommandError::engine(anyhow::anyhow!(lines.join("\n"))))
        }
    }
}

/// Limits of the input.
#[derive(Debug, Args)]
pub(super) struct ReadArgs {
    /// Maximum bytes to read, including the JSON made from YAML: from all files together, or for
    /// `opgate check` from each bundle, catalog or file [default: 1Gi; 256Mi for `opgate check`]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) max_input_size: Option<usize>,
}

impl ReadArgs {
    /// Returns a reader for all files of a command.
    pub(super) fn reader(&self) -> Reader {
        Reader::new(self.max_input_size.unwrap_or(DEFAULT_MAX_INPUT_BYTES))
    }

    /// Returns a reader for many units in sequence: see [`Reader::with_full_budget`].
    pub(super) fn unit_reader(&self) -> Reader {
        Reader::new(self.max_input_size.unwrap_or(DEFAULT_MAX_UNIT_BYTES))
    }
}

/// Calls wait at most this long for each policy in `serve`.
pub(super) const DEFAULT_MAX_QUEUED_CALLS: usize = 64;

/// Parses `NAMESPACE/SERVICE`.
pub(super) fn parse_installation(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !name.is_empty() && name.len() <= 63 && name.chars().all(is_part)
    };
    match text.split_once('/') {
        Some((namespace, service)) if is_name(namespace) && is_name(service) => {
            Ok((namespace.to_owned(), service.to_owned()))
        }
        _ => Err("write NAMESPACE/SERVICE, such as opgate-system/opgate".to_owned()),
    }
}
