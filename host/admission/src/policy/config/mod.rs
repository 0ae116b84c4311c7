//! `opgate.yaml`: read strictly. Every error has its line, its column and a hint.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

mod file;
mod prune;
mod remote;
mod schema;

pub use self::file::ReservationScope;
use self::file::{File, ProfileEntry, SourceFile};
pub use self::remote::{PullError, RegistryReference, ResolvedComponent, SignatureKey};
use super::platform::{Platform, PlatformQuery};
use super::profile::Profile;
use super::{Builtin, Mode, OnError, RuleLevel, Scope};
use crate::cluster::SampleGrants;
use crate::object::Object;
use opgate_engine::{Docs, Limits, docs};
use opgate_input::read::{ReadPurpose, Reader};
use opgate_input::yaml::LocatedValue;
use opgate_text::one_line;

/// Maximum bytes of a configuration.
const MAX_FILE_BYTES: usize = 4 << 20;

/// The location of a policy's component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleSource {
    /// Built into the host, by name.
    Builtin(String),
    /// A file. Relative paths are relative to the configuration.
    File(PathBuf),
    /// In a registry.
    Oci(RegistryReference),
}

impl ModuleSource {
    /// Whether it does not come from opgate itself: its component and its schema are then handled
    /// in a subprocess, and it only reads cluster objects that are granted.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        !matches!(self, Self::Builtin(_))
    }
}

impl fmt::Display for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(name) => write!(f, "builtin:{name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Oci(remote) => remote.fmt(f),
        }
    }
}

/// One configured policy.
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    /// Name in URLs, logs and metrics.
    pub name: String,
    /// The component.
    pub module: ModuleSource,
    /// The key that must have signed it, if it is in a registry.
    pub signature: Option<SignatureKey>,
    /// The repository that the signed text must name; any, if there is none.
    pub signed_repository: Option<String>,
    /// The effect of a verdict.
    pub mode: Mode,
    /// The effect of a policy error.
    pub on_error: OnError,
    /// Levels that differ from the rules' defaults.
    pub rules: BTreeMap<String, RuleLevel>,
    /// An object for the policy.
    pub settings: serde_json::Value,
    /// Limits of one call.
    pub limits: Limits,
    /// Namespaces whose objects the policy does not evaluate.
    pub excluded_namespaces: Vec<String>,
    /// Users whose requests the policy does not evaluate.
    pub excluded_users: Vec<String>,
    /// The only namespaces and objects that the policy evaluates.
    pub scope: Scope,
    /// `group/version/resource` that a policy that is not built in may read.
    pub allowed_reads: Vec<String>,
    /// Custom resources that the policy may list.
    pub allowed_samples: SampleGrants,
    /// Pointer of this policy in the file, for errors.
    pointer: String,
    /// The limits that the file sets.
    explicit_limits: ExplicitLimits,
    /// Whether the process only serves these calls, see [`Configuration::apply_file_limits`].
    pub(super) is_for_files: bool,
}

/// Limits that the file sets, whatever their values.
#[derive(Debug, Clone, Copy, Default)]
struct ExplicitLimits {
    time: bool,
    concurrency: bool,
    memory: bool,
}

/// Memory of a call for files, unless the file sets it. A package is one call, and the data that a
/// policy keeps for it can be half as large as its text. Unused memory costs nothing.
const FILES_CALL_MEMORY_BYTES: usize = 1 << 30;

/// Exact names of the users as which controllers run. A policy accepts from them only the actions
/// of a controller. Without a list, the cluster decides under `auto`, and otherwise the profile.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identities {
    /// The Operator Lifecycle Manager.
    pub olm: Option<Vec<String>>,
    /// RukPak.
    pub rukpak: Option<Vec<String>>,
}

impl Identities {
    /// The lists of the configuration by their keys.
    pub(super) fn lists(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let lists = [("olm", &self.olm), ("rukpak", &self.rukpak)];
        lists.into_iter().filter_map(|(key, list)| Some((key, list.as_deref()?)))
    }
}

/// The configuration of the whole host.
#[derive(Debug)]
pub struct Configuration {
    /// The edition that applies.
    pub profile: Profile,
    /// Whether the edition is set, by the configuration or by a cluster. Policies receive it only
    /// then: a rule can apply if an edition was set, and not by default.
    pub is_profile_set: bool,
    /// Whether a server reads the edition from its cluster.
    is_auto: bool,
    /// The platform of the cluster, if it was read.
    platform: Option<Platform>,
    /// The users as which controllers run, if they differ from the profile.
    pub identities: Identities,
    /// Policies in the order in which they serve.
    pub policies: Vec<PolicyConfig>,
    /// The servers that see the reservations of this one; by default, all servers of its installation if it
    /// has one.
    pub reservations: Option<ReservationScope>,
    /// Whether a check fails if there are only warnings.
    pub warnings_as_errors: bool,
    /// The text, if there is a file.
    text: Option<Arc<str>>,
    /// `sha256:…` of the text.
    pub(super) text_digest: Option<String>,
    /// The built-in policies.
    pub(super) builtins: &'static [Builtin],
    /// The URL of the pages of rules, see [`Configuration::page_of`].
    docs_url: Option<String>,
    /// Results of the registries, by policy.
    resolved: BTreeMap<String, Result<ResolvedComponent, PullError>>,
    source_file: Option<SourceFile>,
}

/// The reason why the documentation of a policy cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DocsError(String);

/// All errors in a configuration, each with its location.
#[derive(Debug, Default, thiserror::Error)]
pub struct ConfigErrors(Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// Maximum bytes of an error.
const MAX_ERROR_BYTES: usize = 4 << 10;

impl ConfigErrors {
    /// One error.
    #[must_use]
    pub fn one(text: impl AsRef<str>) -> Self {
        let mut errors = Self::default();
        errors.push(text.as_ref());
        errors
    }

    /// Adds an error as one line: names and values in it come from the file.
    pub(super) fn push(&mut self, text: impl AsRef<str>) {
        self.0.push(one_line(text.as_ref(), MAX_ERROR_BYTES));
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The errors, each after its location.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(super) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl Configuration {
    /// All of these built-in policies with their defaults.
    #[must_use]
    pub fn builtin(profile: Profile, builtins: &'static [Builtin]) -> Self {
        Self {
            profile,
            is_profile_set: profile != Profile::default(),
            is_auto: profile == Profile::default(),
            platform: None,
            identities: Identities::default(),
            policies: default_policies(builtins),
            reservations: None,
            warnings_as_errors: false,
            text: None,
            text_digest: None,
            builtins,
            docs_url: None,
            resolved: BTreeMap::new(),
            source_file: None,
        }
    }

    /// Reads a file, which can name these built-in policies.
    ///
    /// # Errors
    /// If it cannot be read or is invalid: all errors, each with line and column.
    pub fn read(path: &Path, builtins: &'static [Builtin]) -> Result<Self, ConfigErrors> {
        Self::parse(path, &Self::text(path)?, builtins)
    }

    /// The text of a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not text.
    pub fn text(path: &Path) -> Result<String, ConfigErrors> {
        let opened = opgate_input::read::open_named(path)
            .and_then(|opened| Reader::new(MAX_FILE_BYTES).read(opened, true, ReadPurpose::Keep));
        let bytes = opened.map_err(|e| ConfigErrors::one(format!("{}: {e}", path.display())))?;
        String::from_utf8(bytes)
            .map_err(|e| ConfigErrors::one(format!("{}: not UTF-8: {e}", path.display())))
    }

    /// Parses the text of a file. The path is for the errors and for relative paths in the text.
    ///
    /// # Errors
    /// As for [`Configuration::read`].
    pub fn parse(
        path: &Path,
        text: &str,
        builtins: &'static [Builtin],
    ) -> Result<Self, ConfigErrors> {
        let (found, errors) = Self::parse_lenient(path, text, builtins);
        match found {
            Some(found) => errors.or(found),
            None => Err(errors),
        }
    }

    /// Parses the text of a file as [`Configuration::parse`] does. Returns all errors, and the
    /// valid rest of the file. The rest can have more errors that only the policies detect.
    #[must_use]
    pub fn parse_lenient(
        path: &Path,
        text: &str,
        builtins: &'static [Builtin],
    ) -> (Option<Self>, ConfigErrors) {
        let located = match LocatedValue::read(text) {
            Ok(located) => located,
            Err(e) => {
                let text = format!("{}:{}:{}: {}", path.display(), e.line, e.column, e.message);
                return (None, ConfigErrors::one(text));
            }
        };
        let source_file = SourceFile { builtins, path: path.to_path_buf(), located };
        let mut errors = ConfigErrors::default();
        let mut value = source_file.located.value.clone();
        let file = loop {
            let error = match serde_path_to_error::deserialize::<_, Object<File>>(&value) {
                Ok(Object(file)) => break file,
                Err(error) => error,
            };
            let (pointer, text) = source_file.type_error(&error);
            errors.push(source_file.locate(&pointer, &text));
            let is_less = prune::remove_value(&mut value, &pointer)
                || pointer.is_empty() && prune::add_required_members(&mut value);
            if !is_less || errors.0.len() >= prune::MAX_ERRORS {
                return (None, errors);
            }
        };
        let has_head = |key: &str| source_file.located.value.get(key).is_some();
        if has_head("apiVersion") && file.api_version != "opgate.dev/v1alpha1" {
            let text = format!("apiVersion is {:?}, not \"opgate.dev/v1alpha1\"", file.api_version);
            errors.push(source_file.locate("/apiVersion", &text));
        }
        if has_head("kind") && file.kind != "Configuration" {
            let text = format!("kind is {:?}, not \"Configuration\"", file.kind);
            errors.push(source_file.locate("/kind", &text));
        }
        let Object(identities) = file.identities;
        for (key, users) in identities.lists() {
            // A name with spaces around it matches no user. Such a list would only show when
            // requests of OLM are denied.
            let wrong = |user: &String| user.is_empty() || user.trim() != user;
            for (index, user) in users.iter().enumerate().filter(|(_, user)| wrong(user)) {
                let text = format!(
                    "{user:?} is not the name of a user: write it as the log of opgate does (`user=`)"
                );
                errors.push(source_file.locate(&format!("/identities/{key}/{index}"), &text));
            }
        }
        if let Some(url) = &file.docs_url {
            let is_url = url.starts_with("https://") || url.starts_with("http://");
            if !is_url || url.len() > 512 || url.contains(|c: char| c.is_control() || c == ' ') {
                let text = format!(
                    "docsUrl is {url:?}: write an address such as https://docs.example.com/rules"
                );
                errors.push(source_file.locate("/docsUrl", &text));
            }
        }
        // Without a list, all policies apply; but a `policies` key without a value is a mistake.
        if source_file.located.value.get("policies").is_some_and(serde_json::Value::is_null) {
            let text = "policies has no value: name policies, write [] for none, or leave it out for all built-in ones";
            errors.push(source_file.locate("/policies", text));
        }
        let mut policies: Vec<PolicyConfig> = Vec::new();
        match file.policies {
            None => policies = default_policies(builtins),
            Some(entries) => {
                for (index, Object(entry)) in entries.into_iter().enumerate() {
                    let pointer = format!("/policies/{index}");
                    if policies.iter().any(|p| p.name == entry.name) {
                        let text = format!("a policy named {:?} is already there", entry.name);
                        errors.push(source_file.locate(&format!("{pointer}/name"), &text));
                    }
                    if let Some(policy) = source_file.read_policy(entry, pointer, &mut errors) {
                        policies.push(policy);
                    }
                }
            }
        }
        let profile = file.profile.and_then(ProfileEntry::profile);
        let found = Self {
            profile: profile.unwrap_or_default(),
            is_profile_set: profile.is_some(),
            is_auto: profile.is_none(),
            platform: None,
            identities,
            policies,
            reservations: file.reservations,
            warnings_as_errors: file.check.0.warnings_as_errors,
            text: Some(text.into()),
            text_digest: Some(opgate_engine::digest(text.as_bytes())),
            builtins,
            docs_url: file.docs_url,
            resolved: BTreeMap::new(),
            source_file: Some(source_file),
        };
        (Some(found), errors)
    }

    /// The data that a server reads from its cluster before it serves this configuration, if any.
    #[must_use]
    pub fn platform_query(&self) -> Option<PlatformQuery> {
        let Identities { olm, rukpak } = &self.identities;
        self.is_auto.then(|| PlatformQuery { olm: olm.is_none(), rukpak: rukpak.is_none() })
    }

    /// Sets the platform of the cluster, unless the configuration sets it.
    pub fn set_platform(&mut self, platform: Platform) {
        if self.is_auto {
            self.profile = platform.profile;
            self.is_profile_set = true;
            self.platform = Some(platform);
        }
    }

    /// Requests the data that a server requests for any cluster: some rules are off until an
    /// edition is set, and then on under each of them or without effect.
    pub fn assume_any_cluster(&mut self) {
        self.is_profile_set |= self.is_auto;
    }

    /// The platform of the cluster, if it was read.
    #[must_use]
    pub fn platform(&self) -> Option<&Platform> {
        self.platform.as_ref()
    }

    /// The text of the file, if there is one.
    #[must_use]
    pub fn file_text(&self) -> Option<&Arc<str>> {
        self.text.as_ref()
    }

    /// The documentation of a policy's rules, by their IDs.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub fn docs_of(&self, module: &ModuleSource) -> Result<Docs, DocsError> {
        match module {
            ModuleSource::Builtin(name) => {
                let builtin = self.builtins.iter().find(|builtin| builtin.name == name);
                Ok(builtin.map(|builtin| docs(&builtin.component())).unwrap_or_default())
            }
            ModuleSource::File(path) => {
                let bytes = super::component_file::read(path);
                Ok(docs(&bytes.map_err(|e| DocsError(format!("{}: {e}", path.display())))?))
            }
            ModuleSource::Oci(remote) => {
                let mut named = self.policies.iter().filter(|policy| policy.module == *module);
                let found = named.find_map(|policy| self.resolved_component(&policy.name).ok());
                Ok(docs(found.ok_or_else(|| DocsError(format!("{remote}: it was not pulled")))?))
            }
        }
    }

    /// The URL of the pages of rules that the file sets.
    #[must_use]
    pub fn docs_url(&self) -> Option<&str> {
        self.docs_url.as_deref()
    }

    /// The file that it was read from; none without one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.source_file.as_ref().map(|file| file.path.as_path())
    }

    /// The page of a rule, if `docsUrl` is set. `{policy}` and `{rule}` in it are replaced;
    /// without `{policy}`, it is the directory of the generated pages.
    #[must_use]
    pub fn page_of(&self, policy: &str, rule: &str) -> Option<String> {
        self.docs_url.as_deref().map(|url| rule_page(url, policy, rule))
    }

    /// Sets the time, the concurrent calls and the memory of the policies for packages of files,
    /// unless the file sets them. No API request waits for a decision on files.
    pub fn apply_file_limits(&mut self, time: Duration, concurrency: usize) {
        for policy in &mut self.policies {
            if !policy.explicit_limits.time {
                policy.limits.cpu_time = time;
            }
            if !policy.explicit_limits.concurrency {
                policy.limits.concurrency = concurrency;
            }
            if !policy.explicit_limits.memory {
                policy.limits.memory = FILES_CALL_MEMORY_BYTES;
            }
            policy.is_for_files = true;
        }
    }

    /// Sets the limits of the policies for an audit: calls that no API request waits for, with the memory of any
    /// other call. Unless the file sets it, `time` is the CPU time of a call.
    pub fn apply_audit_limits(&mut self, time: Duration, concurrency: usize) {
        for policy in &mut self.policies {
            if !policy.explicit_limits.time {
                policy.limits.cpu_time = time;
            }
            policy.limits.concurrency = concurrency;
            policy.is_for_files = true;
        }
    }

    /// Prefixes a text with the location of a part of a policy, if there is a file.
    #[must_use]
    pub fn locate(&self, policy: &PolicyConfig, pointer: &str, text: &str) -> String {
        match &self.source_file {
            Some(source_file) => source_file.locate(&format!("{}{pointer}", policy.pointer), text),
            None => format!("policy {}: {text}", policy.name),
        }
    }
}

/// The page of a rule below an address, see [`Configuration::page_of`].
pub(in crate::policy) fn rule_page(url: &str, policy: &str, rule: &str) -> String {
    let anchor = rule.to_ascii_lowercase();
    if url.contains("{policy}") || url.contains("{rule}") {
        url.replace("{policy}", policy).replace("{rule}", &anchor)
    } else {
        format!("{}/{policy}.md#{anchor}", url.trim_end_matches('/'))
    }
}

fn default_policies(builtins: &[Builtin]) -> Vec<PolicyConfig> {
    let policy = |builtin: &Builtin| PolicyConfig {
        name: builtin.name.to_owned(),
        module: ModuleSource::Builtin(builtin.name.to_owned()),
        signature: None,
        signed_repository: None,
        mode: Mode::default(),
        on_error: OnError::default(),
        rules: BTreeMap::new(),
        settings: serde_json::Value::Object(serde_json::Map::new()),
        limits: Limits::default(),
        excluded_namespaces: Vec::new(),
        excluded_users: Vec::new(),
        scope: Scope::default(),
        allowed_reads: Vec::new(),
        allowed_samples: SampleGrants::default(),
        pointer: String::new(),
        explicit_limits: ExplicitLimits::default(),
        is_for_files: false,
    };
    builtins.iter().map(policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text from a file cannot look like another error, or like another line of a log.
    #[test]
    fn configuration_error_is_one_line() {
        let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
        for text in [
            "? \"\n\n x\"\n: 1\n".to_owned(),
            format!("{head}\"x\\nopgate.yaml:9:9: y\": 1\n"),
            format!("{head}profile: \"a\\r\\nb\"\n"),
            format!("{head}check: {{warningsAsErrors: \"\\e[31m\\n\"}}\n"),
            format!("{head}policies: [{{name: \"a\\nb\"}}]\n"),
        ] {
            let errors = Configuration::parse(Path::new("opgate.yaml"), &text, &[]).unwrap_err();
            let said = errors.to_string();
            assert_eq!(said.lines().count(), errors.0.len(), "{said:?}");
            assert!(!said.contains(['\r', '\u{1b}']), "{said:?}");
        }
    }
}
