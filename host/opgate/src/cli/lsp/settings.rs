//! The policies of a session: from the configuration that the user names, otherwise from `opgate.yaml` at the top of
//! the workspace, otherwise all built-in ones.
//!
//! The workspace can be the pull request of another user. Its configuration sets levels and settings of built-in policies;
//! its policies from files run only if the user trusts the workspace. Registries are never contacted.

use std::path::{Path, PathBuf};

use opgate_admission::cluster::{ClusterOptions, Source};
use opgate_admission::policy::{Configuration, LoadProgress, ModuleSource, PolicySet, Profile};
use opgate_builtin_policies::BUILTINS;
use opgate_files::parallel;
use opgate_server::DefaultLimits;

use super::client::ClientOptions;
use crate::cli::args::ConfigArgs;
use crate::cli::check::DEFAULT_CALL_TIMEOUT;

/// Name of the configuration in a workspace.
pub(super) const FILE_NAME: &str = "opgate.yaml";

/// The loaded policies, and their configuration.
pub(super) struct LoadedPolicies {
    pub(super) configuration: Configuration,
    pub(super) set: PolicySet,
    /// What the user should know, one line each.
    pub(super) notes: Vec<String>,
}

/// Returns the file with the configuration, if there is one, and whether the user names it.
pub(super) fn configuration_file(options: &ClientOptions) -> Option<(PathBuf, bool)> {
    if let Some(path) = &options.config {
        let base = options.roots.first().filter(|_| path.is_relative());
        return Some((base.map_or_else(|| path.clone(), |base| base.join(path)), true));
    }
    let found = options.roots.iter().map(|root| root.join(FILE_NAME));
    found.into_iter().find(|path| path.is_file()).map(|path| (path, false))
}

impl LoadedPolicies {
    /// Loads the policies. An invalid configuration counts as none.
    ///
    /// # Errors
    /// If the engine or the built-in policies cannot be loaded.
    pub(super) fn load(options: &ClientOptions) -> anyhow::Result<Self> {
        let mut notes = Vec::new();
        let mut configuration = match configuration_file(options) {
            None => Configuration::builtin(Profile::default(), BUILTINS),
            Some((path, is_named)) => Self::read(&path, is_named, options, &mut notes),
        };
        configuration.apply_file_limits(DEFAULT_CALL_TIMEOUT, parallel::worker_count().max(4));
        let set = match Self::load_set(options, &configuration) {
            Ok(set) => set,
            Err(error) => {
                notes.push(format!("the configuration is not used: {error:#}"));
                configuration = Configuration::builtin(Profile::default(), BUILTINS);
                configuration
                    .apply_file_limits(DEFAULT_CALL_TIMEOUT, parallel::worker_count().max(4));
                Self::load_set(options, &configuration)?
            }
        };
        notes.extend(set.broken().iter().map(|b| format!("policy {}: {}", b.name, b.error)));
        Ok(Self { configuration, set, notes })
    }

    fn load_set(
        options: &ClientOptions,
        configuration: &Configuration,
    ) -> anyhow::Result<PolicySet> {
        let config = ConfigArgs { cache_dir: options.cache_dir.clone(), ..ConfigArgs::default() };
        let limits = DefaultLimits::of(Path::new("/"));
        let state = ClusterOptions::of(Source::PartialSnapshot);
        let loaded =
            config.load_set_of(configuration, usize::MAX, state, limits, &LoadProgress::default());
        loaded.map_err(|error| error.error)
    }

    fn read(
        path: &Path,
        is_named: bool,
        options: &ClientOptions,
        notes: &mut Vec<String>,
    ) -> Configuration {
        let shown = path.display();
        let mut configuration = match Configuration::read(path, BUILTINS) {
            Ok(configuration) => configuration,
            Err(errors) => {
                notes.push(format!("{shown} is not used: {errors}"));
                return Configuration::builtin(Profile::default(), BUILTINS);
            }
        };
        let (mut untrusted, mut remote) = (0_usize, 0_usize);
        configuration.policies.retain(|policy| match &policy.module {
            ModuleSource::Builtin(_) => true,
            ModuleSource::File(_) if is_named || options.trusts_workspace => true,
            ModuleSource::File(_) => {
                untrusted += 1;
                false
            }
            ModuleSource::Oci(_) => {
                remote += 1;
                false
            }
        });
        let policies = |count: usize| match count {
            1 => "1 policy".to_owned(),
            count => format!("{count} policies"),
        };
        if untrusted > 0 {
            notes.push(format!(
                "{shown}: not evaluated: {} from files: set trustWorkspace if you trust the workspace",
                policies(untrusted)
            ));
        }
        if remote > 0 {
            notes.push(format!(
                "{shown}: not evaluated: {} from registries: the language server contacts none",
                policies(remote)
            ));
        }
        configuration
    }
}
