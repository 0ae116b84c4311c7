//! `opgate.yaml`: strict, with line, column and a hint for everything that is wrong with it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::{Builtin, Mode, OnError, RuleLevel};
use crate::object::Object;
use opgate_engine::{Docs, Limits, docs};
use opgate_input::read::{Reader, Use};
use opgate_input::yaml::Located;
use opgate_text::one_line;
use opgate_text::units::{parse_bytes, parse_duration};

/// Bytes of a configuration.
const MAX_FILE: usize = 4 << 20;

/// Which edition of the documentation wins where they contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
pub enum Profile {
    /// OpenShift 4.5.
    #[serde(rename = "ocp-4.5")]
    #[value(name = "ocp-4.5")]
    Ocp45,
    /// OpenShift 4.12.
    #[serde(rename = "ocp-4.12")]
    #[value(name = "ocp-4.12")]
    Ocp412,
    /// OpenShift 4.15.
    #[default]
    #[serde(rename = "ocp-4.15")]
    #[value(name = "ocp-4.15")]
    Ocp415,
    /// As the upstream projects behave.
    #[serde(rename = "upstream")]
    #[value(name = "upstream")]
    Upstream,
}

impl Profile {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ocp45 => "ocp-4.5",
            Self::Ocp412 => "ocp-4.12",
            Self::Ocp415 => "ocp-4.15",
            Self::Upstream => "upstream",
        }
    }
}

/// Where a policy's component is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleSource {
    /// Carried by the host, by name.
    Builtin(String),
    /// A file; relative paths are relative to the configuration.
    File(PathBuf),
}

impl fmt::Display for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(name) => write!(f, "builtin:{name}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// One policy as it is configured.
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    /// Name in URLs, logs and metrics.
    pub name: String,
    /// The component.
    pub module: ModuleSource,
    /// What a verdict does.
    pub mode: Mode,
    /// What a fault does.
    pub on_error: OnError,
    /// Levels that differ from the rules' defaults.
    pub rules: BTreeMap<String, RuleLevel>,
    /// An object, for the policy.
    pub settings: serde_json::Value,
    /// Limits of one call.
    pub limits: Limits,
    /// Namespaces whose objects the policy does not see.
    pub excluded_namespaces: Vec<String>,
    /// Users whose requests the policy does not see.
    pub excluded_users: Vec<String>,
    /// `group/version/resource` that a foreign policy may read.
    pub cluster: Vec<String>,
    /// Pointer of this policy in the file, for errors.
    pointer: String,
    /// Which of the limits the file sets.
    given: Given,
    /// Whether nobody is served beside its calls, see [`Configuration::for_files`].
    pub(super) is_for_files: bool,
}

/// Limits that are not the defaults, whatever their values.
#[derive(Debug, Clone, Copy, Default)]
struct Given {
    time: bool,
    concurrency: bool,
    memory: bool,
}

/// Memory of a call about files, unless the file says otherwise. A package is one call, and what a
/// policy notes of it may be half as large as its text; memory that is not used costs nothing.
const MEMORY_FOR_FILES: usize = 1 << 30;

/// Exact names of users as which controllers run. What only a controller does is believed from
/// them; where there is no list, policies go by the profile.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identities {
    /// The Operator Lifecycle Manager.
    pub olm: Option<Vec<String>>,
    /// RukPak.
    pub rukpak: Option<Vec<String>>,
}

impl Identities {
    /// The lists by their keys.
    pub(super) fn lists(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let lists = [("olm", &self.olm), ("rukpak", &self.rukpak)];
        lists.into_iter().filter_map(|(key, list)| Some((key, list.as_deref()?)))
    }
}

/// The configuration of the whole host.
#[derive(Debug)]
pub struct Configuration {
    /// Edition that wins.
    pub profile: Profile,
    /// As whom controllers run, where that is not as the profile has it.
    pub identities: Identities,
    /// Policies in the order in which they serve.
    pub policies: Vec<PolicyConfig>,
    /// Whether a check fails where there are only warnings.
    pub warnings_as_errors: bool,
    /// The policies that the program carries.
    pub(super) builtins: &'static [Builtin],
    /// Where the pages of rules are, see [`Configuration::page_of`].
    docs_url: Option<String>,
    origin: Option<Origin>,
}

/// The file, to point into.
#[derive(Debug)]
struct Origin {
    builtins: &'static [Builtin],
    path: PathBuf,
    located: Located,
}

/// Everything that is wrong with a configuration, each with its place.
#[derive(Debug, Default, thiserror::Error)]
pub struct ConfigErrors(Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// Bytes of an error.
const LONGEST: usize = 4 << 10;

impl ConfigErrors {
    /// One error.
    #[must_use]
    pub fn one(text: impl AsRef<str>) -> Self {
        let mut errors = Self::default();
        errors.push(text.as_ref());
        errors
    }

    /// Adds an error, as one line: names and values in it are those that stand in a file.
    pub(super) fn push(&mut self, text: impl AsRef<str>) {
        self.0.push(one_line(text.as_ref(), LONGEST));
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    profile: Profile,
    #[serde(default)]
    identities: Object<Identities>,
    policies: Option<Vec<Object<PolicyEntry>>>,
    #[serde(default)]
    check: Object<CheckEntry>,
    docs_url: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CheckEntry {
    #[serde(default)]
    warnings_as_errors: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PolicyEntry {
    name: String,
    module: Option<String>,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    on_error: OnError,
    #[serde(default)]
    rules: BTreeMap<String, RuleLevel>,
    settings: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    limits: Object<LimitsEntry>,
    #[serde(default)]
    exclude: Object<ExcludeEntry>,
    #[serde(default)]
    cluster: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct LimitsEntry {
    memory: Option<serde_json::Value>,
    time: Option<String>,
    concurrency: Option<usize>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ExcludeEntry {
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    users: Vec<String>,
}

impl Configuration {
    /// All of these built-in policies with their defaults.
    #[must_use]
    pub fn builtin(profile: Profile, builtins: &'static [Builtin]) -> Self {
        Self {
            profile,
            identities: Identities::default(),
            policies: every(builtins),
            warnings_as_errors: false,
            builtins,
            docs_url: None,
            origin: None,
        }
    }

    /// Reads a file. It can name these built-in policies.
    ///
    /// # Errors
    /// Where it cannot be read, or anything in it is wrong: all of it, each with line and column.
    pub fn read(path: &Path, builtins: &'static [Builtin]) -> Result<Self, ConfigErrors> {
        let opened = opgate_input::read::named(path)
            .and_then(|opened| Reader::new(MAX_FILE).read(opened, true, Use::Keep));
        let bytes = opened.map_err(|e| ConfigErrors::one(format!("{}: {e}", path.display())))?;
        let text = String::from_utf8(bytes)
            .map_err(|e| ConfigErrors::one(format!("{}: not UTF-8: {e}", path.display())))?;
        Self::parse(path, &text, builtins)
    }

    /// Reads the text of a file; the path is for the errors and for relative paths in it.
    ///
    /// # Errors
    /// As for [`Configuration::read`].
    pub fn parse(
        path: &Path,
        text: &str,
        builtins: &'static [Builtin],
    ) -> Result<Self, ConfigErrors> {
        let located = Located::read(text).map_err(|e| {
            ConfigErrors::one(format!("{}:{}:{}: {}", path.display(), e.line, e.column, e.why))
        })?;
        let origin = Origin { builtins, path: path.to_path_buf(), located };
        let Object(file): Object<File> = serde_path_to_error::deserialize(&origin.located.value)
            .map_err(|error| origin.type_error(&error))?;
        let mut errors = ConfigErrors::default();
        if file.api_version != "opgate.dev/v1alpha1" {
            let text = format!("apiVersion is {:?}, not \"opgate.dev/v1alpha1\"", file.api_version);
            errors.push(origin.at("/apiVersion", &text));
        }
        if file.kind != "Configuration" {
            let text = format!("kind is {:?}, not \"Configuration\"", file.kind);
            errors.push(origin.at("/kind", &text));
        }
        let Object(identities) = file.identities;
        for (key, users) in identities.lists() {
            // A name with spaces around it is nobody's, and a list of nobody would say so only once
            // OLM is refused what it must do.
            let wrong = |user: &String| user.is_empty() || user.trim() != user;
            for (index, user) in users.iter().enumerate().filter(|(_, user)| wrong(user)) {
                let text = format!(
                    "{user:?} is not the name of a user: write it as the log of opgate does (`user=`)"
                );
                errors.push(origin.at(&format!("/identities/{key}/{index}"), &text));
            }
        }
        if let Some(url) = &file.docs_url {
            let is_url = url.starts_with("https://") || url.starts_with("http://");
            if !is_url || url.len() > 512 || url.contains(|c: char| c.is_control() || c == ' ') {
                let text = format!(
                    "docsUrl is {url:?}: write an address such as https://docs.example.com/rules"
                );
                errors.push(origin.at("/docsUrl", &text));
            }
        }
        // No list would be all policies, and nobody writes a name without a value to say so.
        if origin.located.value.get("policies").is_some_and(serde_json::Value::is_null) {
            let text = "policies has no value: name policies, write [] for none, or leave it out for all built-in ones";
            errors.push(origin.at("/policies", text));
        }
        let mut policies: Vec<PolicyConfig> = Vec::new();
        match file.policies {
            None => policies = every(builtins),
            Some(entries) => {
                for (index, Object(entry)) in entries.into_iter().enumerate() {
                    let pointer = format!("/policies/{index}");
                    if policies.iter().any(|p| p.name == entry.name) {
                        let text = format!("a policy named {:?} is already there", entry.name);
                        errors.push(origin.at(&format!("{pointer}/name"), &text));
                    }
                    if let Some(policy) = origin.policy(entry, pointer, &mut errors) {
                        policies.push(policy);
                    }
                }
            }
        }
        errors.or(Self {
            profile: file.profile,
            identities,
            policies,
            warnings_as_errors: file.check.0.warnings_as_errors,
            builtins,
            docs_url: file.docs_url,
            origin: Some(origin),
        })
    }

    /// The documentation of a policy's rules, by their ids.
    ///
    /// # Errors
    /// Where its file cannot be read.
    pub fn docs_of(&self, module: &ModuleSource) -> Result<Docs, String> {
        match module {
            ModuleSource::Builtin(name) => {
                let builtin = self.builtins.iter().find(|builtin| builtin.name == name);
                Ok(builtin.map(|builtin| docs(builtin.component)).unwrap_or_default())
            }
            ModuleSource::File(path) => {
                let bytes = super::load::read(path);
                Ok(docs(&bytes.map_err(|e| format!("{}: {e}", path.display()))?))
            }
        }
    }

    /// The page of a rule, where `docsUrl` says where they are: `{policy}` and `{rule}` in it are
    /// replaced; without `{policy}` it is the folder of the generated pages.
    #[must_use]
    pub fn page_of(&self, policy: &str, rule: &str) -> Option<String> {
        let url = self.docs_url.as_deref()?;
        let anchor = rule.to_ascii_lowercase();
        Some(if url.contains("{policy}") || url.contains("{rule}") {
            url.replace("{policy}", policy).replace("{rule}", &anchor)
        } else {
            format!("{}/{policy}.md#{anchor}", url.trim_end_matches('/'))
        })
    }

    /// Gives the policies this much time, this many calls at a time and as much memory as a package
    /// could take, unless the file says otherwise: nobody waits for a decision about files.
    pub fn for_files(&mut self, time: Duration, concurrency: usize) {
        for policy in &mut self.policies {
            if !policy.given.time {
                policy.limits.time = time;
            }
            if !policy.given.concurrency {
                policy.limits.concurrency = concurrency;
            }
            if !policy.given.memory {
                policy.limits.memory = MEMORY_FOR_FILES;
            }
            policy.is_for_files = true;
        }
    }

    /// A text with the place of a part of a policy in front, where there is a file.
    #[must_use]
    pub fn at(&self, policy: &PolicyConfig, pointer: &str, text: &str) -> String {
        match &self.origin {
            Some(origin) => origin.at(&format!("{}{pointer}", policy.pointer), text),
            None => format!("policy {}: {text}", policy.name),
        }
    }
}

impl Origin {
    fn at(&self, pointer: &str, text: &str) -> String {
        let (line, column) = self.located.place(pointer);
        format!("{}:{line}:{column}: {text}", self.path.display())
    }

    /// An error of deserialisation, with the place of what it is about and the nearest known key.
    fn type_error(&self, error: &serde_path_to_error::Error<serde_json::Error>) -> ConfigErrors {
        let mut pointer = String::new();
        for segment in error.path() {
            use serde_path_to_error::Segment;
            match segment {
                Segment::Seq { index } => pointer.extend(["/", &index.to_string()]),
                Segment::Map { key } => pointer.extend(["/", key]),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let text = error.inner().to_string();
        let mut quoted = text.split('`').skip(1).step_by(2);
        let hint = if text.starts_with("unknown ") {
            let written = quoted.next().unwrap_or_default();
            let escaped = written.replace('~', "~0").replace('/', "~1");
            let member = format!("{pointer}/{escaped}");
            if self.located.value.pointer(&member).is_some() {
                pointer = member;
            }
            opgate_text::hint(written, quoted)
        } else {
            String::new()
        };
        ConfigErrors::one(self.at(&pointer, &format!("{text}{hint}")))
    }

    fn policy(
        &self,
        entry: PolicyEntry,
        pointer: String,
        errors: &mut ConfigErrors,
    ) -> Option<PolicyConfig> {
        let mut wrong = |member: &str, text: &str| {
            errors.push(self.at(&format!("{pointer}{member}"), text));
        };
        if !super::descriptor::is_name(&entry.name) {
            let text = format!(
                "{:?} is not a name: use up to 40 lower case letters, digits and hyphens",
                entry.name
            );
            wrong("/name", &text);
        }
        let module = match self.module(&entry) {
            Ok(module) => Some(module),
            Err(text) => {
                wrong("/module", &text);
                None
            }
        };
        let mut limits = Limits::default();
        let given = Given {
            time: entry.limits.0.time.is_some(),
            concurrency: entry.limits.0.concurrency.is_some(),
            memory: entry.limits.0.memory.is_some(),
        };
        let memory = entry.limits.0.memory.map(|memory| match memory {
            serde_json::Value::String(text) => parse_bytes(&text),
            other => parse_bytes(&other.to_string()),
        });
        match memory {
            Some(Ok(memory)) if !((1 << 20)..=(1 << 30)).contains(&memory) => {
                wrong("/limits/memory", "must be between 1Mi and 1Gi");
            }
            Some(Ok(memory)) => limits.memory = memory,
            Some(Err(text)) => wrong("/limits/memory", &text),
            None => {}
        }
        let allowed = Duration::from_millis(1)..=Duration::from_secs(30);
        match entry.limits.0.time.map(|text| parse_duration(&text)) {
            Some(Ok(time)) if !allowed.contains(&time) => {
                wrong("/limits/time", "must be between 1ms and 30s");
            }
            Some(Ok(time)) => limits.time = time,
            Some(Err(text)) => wrong("/limits/time", &text),
            None => {}
        }
        match entry.limits.0.concurrency {
            Some(concurrency) if !(1..=256).contains(&concurrency) => {
                wrong("/limits/concurrency", "must be between 1 and 256");
            }
            Some(concurrency) => limits.concurrency = concurrency,
            None => {}
        }
        for (index, resource) in entry.cluster.iter().enumerate() {
            let parts: Vec<_> = resource.trim_start_matches('/').split('/').collect();
            if !matches!(parts.len(), 2 | 3) || parts.iter().any(|part| part.is_empty()) {
                let text = format!(
                    "{resource:?} is not of the form group/version/resource (version/resource in the core group)"
                );
                wrong(&format!("/cluster/{index}"), &text);
            }
        }
        Some(PolicyConfig {
            name: entry.name,
            module: module?,
            mode: entry.mode,
            on_error: entry.on_error,
            rules: entry.rules,
            settings: entry.settings.unwrap_or_default().into(),
            limits,
            excluded_namespaces: entry.exclude.0.namespaces,
            excluded_users: entry.exclude.0.users,
            // The core group may be written as an empty one.
            cluster: entry
                .cluster
                .iter()
                .map(|resource| resource.trim_start_matches('/').to_owned())
                .collect(),
            pointer,
            given,
            is_for_files: false,
        })
    }

    fn module(&self, entry: &PolicyEntry) -> Result<ModuleSource, String> {
        let written = entry.module.clone().unwrap_or_else(|| format!("builtin:{}", entry.name));
        if let Some(name) = written.strip_prefix("builtin:") {
            let names = self.builtins.iter().map(|b| b.name);
            if names.clone().any(|known| known == name) {
                return Ok(ModuleSource::Builtin(name.to_owned()));
            }
            let hint = opgate_text::hint(name, names);
            return Err(format!("there is no built-in policy {name:?}{hint}"));
        }
        if written.starts_with("oci://") {
            return Err("modules from a registry are not supported by this version: download the component and name the file".to_owned());
        }
        let path = Path::new(&written);
        let folder = self.path.parent().unwrap_or(Path::new(""));
        Ok(ModuleSource::File(folder.join(path)))
    }
}

fn every(builtins: &[Builtin]) -> Vec<PolicyConfig> {
    let policy = |builtin: &Builtin| PolicyConfig {
        name: builtin.name.to_owned(),
        module: ModuleSource::Builtin(builtin.name.to_owned()),
        mode: Mode::default(),
        on_error: OnError::default(),
        rules: BTreeMap::new(),
        settings: serde_json::Value::Object(serde_json::Map::new()),
        limits: Limits::default(),
        excluded_namespaces: Vec::new(),
        excluded_users: Vec::new(),
        cluster: Vec::new(),
        pointer: String::new(),
        given: Given::default(),
        is_for_files: false,
    };
    builtins.iter().map(policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written in a file cannot look like another error, or like another line of a log.
    #[test]
    fn an_error_is_one_line() {
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
