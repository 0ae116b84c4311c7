//! The policies of a session: from the configuration that the user names, otherwise from `opgate.yaml` at the top of
//! the workspace, otherwise all built-in ones.
//!
//! The workspace can be the pull request of another user. Its configuration sets levels and settings of built-in policies;
//! its policies from files run only if the user trusts the workspace. Registries are never contacted.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use opgate_admission::cluster::{ClusterOptions, Source};
use opgate_admission::policy::{
    Configuration, LoadProgress, ModuleSource, PolicyConfig, PolicySet, Profile,
};
use opgate_builtin_policies::BUILTINS;
use opgate_files::parallel;
use opgate_server::DefaultLimits;
use opgate_text::one_line;

use super::client::ClientOptions;
use crate::cli::args::ConfigArgs;
use crate::cli::check::DEFAULT_CALL_TIMEOUT;

/// Name of the configuration in a workspace.
pub(super) const FILE_NAME: &str = "opgate.yaml";

/// Maximum number of policies that the workspace configures.
const MAX_WORKSPACE_POLICIES: usize = 64;

/// Maximum memory of a call, unless the user trusts the workspace or names the configuration: a workspace can ask for
/// it, and fill it.
const MAX_UNTRUSTED_CALL_BYTES: usize = 256 << 20;

/// The loaded policies, and their configuration.
pub(super) struct LoadedPolicies {
    pub(super) configuration: Configuration,
    pub(super) set: PolicySet,
    /// What the user should know, one line each.
    pub(super) notes: Vec<String>,
}

/// Maximum bytes of the errors of a configuration.
const MAX_ERROR_BYTES: usize = 1 << 10;

/// Returns the places where a configuration can be, the first one first.
pub(super) fn configuration_places(options: &ClientOptions) -> Vec<PathBuf> {
    if let Some(path) = &options.config {
        let base = options.roots.first().filter(|_| path.is_relative());
        return vec![base.map_or_else(|| path.clone(), |base| base.join(path))];
    }
    options.roots.iter().map(|root| root.join(FILE_NAME)).collect()
}

/// Returns the file with the configuration, if there is one, and whether the user names it.
pub(super) fn configuration_file(options: &ClientOptions) -> Option<(PathBuf, bool)> {
    let is_named = options.config.is_some();
    // A link of the workspace can lead anywhere.
    let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_file());
    let place = configuration_places(options).into_iter().find(|path| is_named || is_file(path));
    place.map(|path| (path, is_named))
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
        apply_limits(&mut configuration, options);
        let set = match Self::load_set(options, &configuration) {
            Ok(set) => set,
            Err(error) => {
                notes.push(format!("the configuration is not used: {error:#}"));
                configuration = Configuration::builtin(Profile::default(), BUILTINS);
                apply_limits(&mut configuration, options);
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
                let errors = one_line(&errors.to_string(), MAX_ERROR_BYTES);
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
        let mut repeated = 0_usize;
        if !is_named {
            // Each one takes memory and time to load.
            let mut known = HashSet::new();
            let mut is_new = |policy: &PolicyConfig| match &policy.module {
                ModuleSource::Builtin(name) => known.insert(name.clone()),
                _ => known.len() < MAX_WORKSPACE_POLICIES && known.insert(policy.name.clone()),
            };
            let count = configuration.policies.len();
            configuration.policies.retain(|policy| is_new(policy));
            repeated = count.saturating_sub(configuration.policies.len());
        }
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
        if repeated > 0 {
            notes.push(format!(
                "{shown}: not evaluated: {}: the language server evaluates each built-in policy of a workspace once, and at most {MAX_WORKSPACE_POLICIES} policies",
                policies(repeated)
            ));
        }
        configuration
    }
}

/// Limits the calls of policies: of those that the workspace configures, it sets neither time nor concurrency, and
/// without trust not much memory.
fn apply_limits(configuration: &mut Configuration, options: &ClientOptions) {
    let concurrency = parallel::worker_count().max(4);
    configuration.apply_file_limits(DEFAULT_CALL_TIMEOUT, concurrency);
    if options.config.is_some() {
        return;
    }
    for policy in &mut configuration.policies {
        let limits = &mut policy.limits;
        limits.cpu_time = DEFAULT_CALL_TIMEOUT;
        limits.concurrency = concurrency;
        if !options.trusts_workspace {
            limits.memory = limits.memory.min(MAX_UNTRUSTED_CALL_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;

    use super::*;

    #[test]
    fn policies_of_a_workspace_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        let mut text = String::from(
            "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- name: own\n  module: builtin:subscription\n  limits: {memory: 1Gi, concurrency: 100, time: 30s}\n",
        );
        for number in 0..200 {
            let _ = writeln!(text, "- name: p{number}\n  module: builtin:cluster-service-version");
            let _ = writeln!(text, "- name: f{number}\n  module: f.wasm");
        }
        fs::write(&path, text).unwrap();
        for (is_named, trusts_workspace, count, note_count, memory) in [
            (true, false, 401, 0, 1 << 30),
            (false, true, MAX_WORKSPACE_POLICIES, 1, 1 << 30),
            (false, false, 2, 2, MAX_UNTRUSTED_CALL_BYTES),
        ] {
            let config = is_named.then(|| path.clone());
            let options = ClientOptions { config, trusts_workspace, ..ClientOptions::default() };
            let mut notes = Vec::new();
            let mut configuration = LoadedPolicies::read(&path, is_named, &options, &mut notes);
            assert_eq!(configuration.policies.len(), count, "{notes:?}");
            assert_eq!(notes.len(), note_count, "{notes:?}");
            apply_limits(&mut configuration, &options);
            assert!(configuration.policies.iter().all(|policy| policy.limits.memory <= memory));
            let limits = &configuration.policies[0].limits;
            assert_eq!(limits.memory, memory);
            assert_eq!(limits.cpu_time == DEFAULT_CALL_TIMEOUT, !is_named);
            assert_eq!(limits.concurrency < 100, !is_named);
        }
    }

    #[cfg(unix)]
    #[test]
    fn link_is_no_configuration_of_a_workspace() {
        let (outside, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (target, link) = (outside.path().join("a.yaml"), directory.path().join(FILE_NAME));
        fs::write(&target, "a: 1\n").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let roots = vec![directory.path().to_owned()];
        let workspace = ClientOptions { roots, ..ClientOptions::default() };
        assert_eq!(configuration_file(&workspace), None);
        let named = ClientOptions { config: Some(link.clone()), ..workspace };
        assert_eq!(configuration_file(&named), Some((link, true)));
    }
}
