//! The file itself: its keys, and their errors, each with its location.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::{
    ConfigErrors, ExplicitLimits, Identities, ModuleSource, PolicyConfig, Profile,
    RegistryReference, SignatureKey,
};
use crate::cluster::SampleGrants;
use crate::object::Object;
use crate::policy::descriptor::is_name;
use crate::policy::{Builtin, Mode, NamePatterns, OnError, RuleLevel, Scope};
use opgate_document::Document;
use opgate_engine::Limits;
use opgate_input::yaml::LocatedValue;
use opgate_text::units::{parse_bytes, parse_duration};

/// The reason why an entry of the configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct EntryError(String);

/// The file, to find locations in it.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) builtins: &'static [Builtin],
    pub(super) path: PathBuf,
    pub(super) located: LocatedValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct File {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) profile: Option<ProfileEntry>,
    #[serde(default)]
    pub(super) identities: Object<Identities>,
    pub(super) policies: Option<Vec<Object<PolicyEntry>>>,
    pub(super) reservations: Option<ReservationScope>,
    #[serde(default)]
    pub(super) check: Object<CheckEntry>,
    pub(super) docs_url: Option<String>,
}

/// The servers that see the reservations of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationScope {
    /// All servers of the installation.
    Shared,
    /// Only this one.
    Local,
}

/// An edition, or the one of the cluster.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) enum ProfileEntry {
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "ocp-4.5")]
    Ocp45,
    #[serde(rename = "ocp-4.12")]
    Ocp412,
    #[serde(rename = "ocp-4.15")]
    Ocp415,
    #[serde(rename = "upstream")]
    Upstream,
}

impl ProfileEntry {
    /// The edition, if one is named.
    pub(super) fn profile(self) -> Option<Profile> {
        match self {
            Self::Auto => None,
            Self::Ocp45 => Some(Profile::Ocp45),
            Self::Ocp412 => Some(Profile::Ocp412),
            Self::Ocp415 => Some(Profile::Ocp415),
            Self::Upstream => Some(Profile::Upstream),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CheckEntry {
    #[serde(default)]
    pub(super) warnings_as_errors: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PolicyEntry {
    pub(super) name: String,
    pub(super) module: Option<String>,
    pub(super) signature: Option<Object<SignatureEntry>>,
    #[serde(default)]
    pub(super) mode: Mode,
    #[serde(default)]
    pub(super) on_error: OnError,
    #[serde(default)]
    pub(super) rules: BTreeMap<String, RuleLevel>,
    pub(super) settings: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    pub(super) limits: Object<LimitsEntry>,
    #[serde(default)]
    pub(super) exclude: Object<ExcludeEntry>,
    #[serde(default)]
    pub(super) r#match: Object<MatchEntry>,
    #[serde(default)]
    pub(super) allowed_reads: Vec<String>,
    #[serde(default)]
    pub(super) allowed_samples: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignatureEntry {
    pub(super) key: String,
    pub(super) repository: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsEntry {
    pub(super) memory: Option<serde_json::Value>,
    pub(super) time: Option<String>,
    pub(super) concurrency: Option<usize>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ExcludeEntry {
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    #[serde(default)]
    pub(super) users: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct MatchEntry {
    pub(super) namespace_selector: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) namespaces: Object<NamesEntry>,
    #[serde(default)]
    pub(super) names: Object<NamesEntry>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct NamesEntry {
    #[serde(default)]
    pub(super) include: Vec<String>,
    #[serde(default)]
    pub(super) exclude: Vec<String>,
}

/// Reads a label selector as in Kubernetes. A member that an API server would ignore is an error
/// here: a misspelled member would select everything.
fn selector(value: &serde_json::Value) -> Result<String, EntryError> {
    let members =
        value.as_object().ok_or_else(|| EntryError("a label selector is an object".to_owned()))?;
    if let Some(name) = members.keys().find(|name| !SELECTOR_KEYS.contains(&name.as_str())) {
        let hint = opgate_text::hint(name, SELECTOR_KEYS);
        return Err(EntryError(format!("unknown member {name:?} of a label selector{hint}")));
    }
    let text = value.to_string();
    let document = Document::parse(&text).map_err(|error| EntryError(error.to_string()))?;
    let selector = opgate_cluster::parse_selector(document.root())
        .map_err(|error| EntryError(error.to_string()))?;
    Ok(if selector.is_empty() { String::new() } else { text })
}

const SELECTOR_KEYS: [&str; 2] = ["matchLabels", "matchExpressions"];

/// A key in a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

impl SourceFile {
    pub(super) fn locate(&self, pointer: &str, text: &str) -> String {
        let (line, column) = self.located.location(pointer);
        format!("{}:{line}:{column}: {text}", self.path.display())
    }

    /// An error of deserialization: its location, and the text with the nearest known key.
    pub(super) fn type_error(
        &self,
        error: &serde_path_to_error::Error<serde_json::Error>,
    ) -> (String, String) {
        let mut pointer = String::new();
        for segment in error.path() {
            use serde_path_to_error::Segment;
            match segment {
                Segment::Seq { index } => pointer.extend(["/", &index.to_string()]),
                Segment::Map { key } => pointer.extend(["/", &escaped(key)]),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let text = error.inner().to_string();
        let mut quoted = text.split('`').skip(1).step_by(2);
        let hint = if text.starts_with("unknown ") {
            let written = quoted.next().unwrap_or_default();
            let member = format!("{pointer}/{}", escaped(written));
            if self.located.value.pointer(&member).is_some() {
                pointer = member;
            }
            opgate_text::hint(written, quoted)
        } else {
            String::new()
        };
        (pointer, format!("{text}{hint}"))
    }

    pub(super) fn read_policy(
        &self,
        entry: PolicyEntry,
        pointer: String,
        errors: &mut ConfigErrors,
    ) -> Option<PolicyConfig> {
        let mut wrong = |member: &str, text: &str| {
            errors.push(self.locate(&format!("{pointer}{member}"), text));
        };
        if !is_name(&entry.name) {
            let text = format!(
                "{:?} is not a name: use up to 40 lower case letters, digits and hyphens",
                entry.name
            );
            wrong("/name", &text);
        }
        let module = match self.read_module(&entry) {
            Ok(module) => Some(module),
            Err(text) => {
                wrong("/module", &text.to_string());
                None
            }
        };
        // A key without a value would mean no signature.
        let written = self.located.value.pointer(&format!("{pointer}/signature"));
        let mut signed_repository = None;
        let signature = match (entry.signature, &module) {
            (None, _) if written.is_some_and(serde_json::Value::is_null) => {
                wrong("/signature", "signature has no value: name a key (`key: cosign.pub`)");
                None
            }
            (Some(_), Some(ModuleSource::Builtin(_) | ModuleSource::File(_))) => {
                let text = "only a module in a registry (oci://…) has a signature";
                wrong("/signature", text);
                None
            }
            (Some(Object(SignatureEntry { key, .. })), _) if key.trim().is_empty() => {
                wrong("/signature/key", "name a file with a public key, or write it as PEM");
                None
            }
            (Some(Object(SignatureEntry { key, repository })), _) => {
                let names_nothing = repository.as_ref().is_some_and(|name| name.trim().is_empty());
                // Without a value it would mean any repository.
                let is_null = written
                    .and_then(|signature| signature.get("repository"))
                    .is_some_and(serde_json::Value::is_null);
                if names_nothing || is_null {
                    wrong(
                        "/signature/repository",
                        "name the repository that was signed: HOST/REPOSITORY",
                    );
                }
                signed_repository = repository;
                Some(self.read_key(key))
            }
            (None, _) => None,
        };
        let mut limits = Limits::default();
        let given = ExplicitLimits {
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
            Some(Err(text)) => wrong("/limits/memory", &text.to_string()),
            None => {}
        }
        let allowed = Duration::from_millis(1)..=Duration::from_secs(30);
        match entry.limits.0.time.map(|text| parse_duration(&text)) {
            Some(Ok(time)) if !allowed.contains(&time) => {
                wrong("/limits/time", "must be between 1ms and 30s");
            }
            Some(Ok(time)) => limits.cpu_time = time,
            Some(Err(text)) => wrong("/limits/time", &text.to_string()),
            None => {}
        }
        match entry.limits.0.concurrency {
            Some(concurrency) if !(1..=256).contains(&concurrency) => {
                wrong("/limits/concurrency", "must be between 1 and 256");
            }
            Some(concurrency) => limits.concurrency = concurrency,
            None => {}
        }
        for (index, resource) in entry.allowed_reads.iter().enumerate() {
            let parts: Vec<_> = resource.trim_start_matches('/').split('/').collect();
            if !matches!(parts.len(), 2 | 3) || parts.iter().any(|part| part.is_empty()) {
                let text = format!(
                    "{resource:?} is not a resource: write group/version/resource (version/resource in the core group)"
                );
                wrong(&format!("/allowedReads/{index}"), &text);
            }
        }
        let mut allowed_samples = SampleGrants::default();
        for (index, text) in entry.allowed_samples.iter().enumerate() {
            if let Err(why) = allowed_samples.add(text) {
                wrong(&format!("/allowedSamples/{index}"), &why.to_string());
            }
        }
        let MatchEntry { namespace_selector, namespaces, names } = entry.r#match.0;
        let namespace_selector =
            match namespace_selector.as_ref().map_or(Ok(String::new()), selector) {
                Ok(selector) => selector,
                Err(text) => {
                    wrong("/match/namespaceSelector", &text.to_string());
                    String::new()
                }
            };
        let mut patterns = |member: &str, Object(NamesEntry { include, exclude })| {
            NamePatterns::new(include, exclude).unwrap_or_else(|text| {
                wrong(&format!("/match/{member}"), &text.to_string());
                NamePatterns::default()
            })
        };
        let (namespaces, names) = (patterns("namespaces", namespaces), patterns("names", names));
        let scope = Scope { namespace_selector, namespaces, names };
        Some(PolicyConfig {
            name: entry.name,
            module: module?,
            signature,
            signed_repository,
            mode: entry.mode,
            on_error: entry.on_error,
            rules: entry.rules,
            settings: entry.settings.unwrap_or_default().into(),
            limits,
            excluded_namespaces: entry.exclude.0.namespaces,
            excluded_users: entry.exclude.0.users,
            scope,
            // The core group can be written as an empty one.
            allowed_reads: entry
                .allowed_reads
                .iter()
                .map(|resource| resource.trim_start_matches('/').to_owned())
                .collect(),
            allowed_samples,
            pointer,
            explicit_limits: given,
            is_for_files: false,
        })
    }

    fn read_module(&self, entry: &PolicyEntry) -> Result<ModuleSource, EntryError> {
        let written = entry.module.clone().unwrap_or_else(|| format!("builtin:{}", entry.name));
        if let Some(name) = written.strip_prefix("builtin:") {
            let names = self.builtins.iter().map(|b| b.name);
            if names.clone().any(|known| known == name) {
                return Ok(ModuleSource::Builtin(name.to_owned()));
            }
            let hint = opgate_text::hint(name, names);
            return Err(EntryError(format!("there is no built-in policy {name:?}{hint}")));
        }
        if written.starts_with("oci://") {
            return Ok(ModuleSource::Oci(RegistryReference { reference: written, digest: None }));
        }
        if let Some((scheme, _)) = written.split_once("://") {
            return Err(EntryError(format!(
                "a module cannot be at {scheme}://: push the component to a registry (`opgate policy push`) and write oci://HOST/REPOSITORY@sha256:…, or download it and write its path"
            )));
        }
        Ok(ModuleSource::File(self.resolve_path(&written)))
    }

    fn read_key(&self, written: String) -> SignatureKey {
        if written.contains("-----BEGIN") {
            SignatureKey::Pem(written)
        } else {
            SignatureKey::File(self.resolve_path(&written))
        }
    }

    /// Relative paths are relative to the file.
    fn resolve_path(&self, written: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(written)
    }
}
