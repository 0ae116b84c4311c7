//! The configuration of policies: that of one policy as JSON, and an `opgate.yaml` of a user.

use std::collections::{BTreeMap, BTreeSet};

use opgate_input::yaml::LocatedValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Keys of a file that have no effect here: they are for servers, or for reports.
const IGNORED_KEYS: [&str; 3] = ["reservations", "docsUrl", "check"];
/// The same of a policy.
const IGNORED_POLICY_KEYS: [&str; 2] = ["onError", "limits"];

/// The effect of a policy's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Denials deny.
    #[default]
    Enforce,
    /// Denials become warnings.
    Warn,
    /// Violations are only recorded.
    Audit,
    /// The policy is not called.
    Off,
}

/// The level that a configuration sets for a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RuleLevel {
    /// Violations deny.
    Deny,
    /// Violations warn.
    Warn,
    /// Violations are dropped.
    Off,
}

impl RuleLevel {
    /// The name in the configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

/// The edition of the documentation that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Profile {
    #[serde(rename = "ocp-4.5")]
    Ocp45,
    #[serde(rename = "ocp-4.12")]
    Ocp412,
    #[serde(rename = "ocp-4.15")]
    Ocp415,
    #[serde(rename = "upstream")]
    Upstream,
}

/// Requests that a policy does not see.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Exclusions {
    pub(crate) namespaces: Vec<String>,
    pub(crate) users: Vec<String>,
}

/// The configuration of one policy.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PolicyConfig {
    pub(crate) profile: Option<Profile>,
    /// User names of controllers, by controller.
    pub(crate) identities: BTreeMap<String, Vec<String>>,
    /// Whether the policy evaluates files and not requests.
    pub(crate) files: bool,
    pub(crate) mode: Mode,
    pub(crate) rules: BTreeMap<String, RuleLevel>,
    pub(crate) settings: Map<String, Value>,
    pub(crate) exclude: Exclusions,
}

/// An entry of a file, as `load` needs it.
#[derive(Serialize)]
struct Entry {
    name: String,
    /// The built-in policy.
    policy: String,
    configuration: PolicyConfig,
}

/// Reads a file.
///
/// # Errors
/// A line for each error, with its place.
pub(crate) fn read(text: &str) -> Result<Value, Vec<String>> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let file = LocatedValue::read(text)
        .map_err(|error| vec![format!("{}:{}: {error}", error.line, error.column)])?;
    if file.value.is_null() {
        return Ok(Value::Null);
    }
    let mut reader = Reader { file: &file, errors: Vec::new() };
    let common = reader.read_common();
    let entries = match file.value.get("policies") {
        None => Value::Null,
        Some(Value::Array(list)) => {
            let mut names = BTreeSet::new();
            let entry = |(index, value)| reader.read_policy(index, value, &common, &mut names);
            json!(list.iter().enumerate().filter_map(entry).collect::<Vec<_>>())
        }
        Some(_) => {
            reader.error("/policies", "policies is a list");
            Value::Null
        }
    };
    if reader.errors.is_empty() {
        Ok(json!({"common": common, "policies": entries}))
    } else {
        Err(reader.errors)
    }
}

struct Reader<'f> {
    file: &'f LocatedValue,
    errors: Vec<String>,
}

impl Reader<'_> {
    fn error(&mut self, pointer: &str, text: &str) {
        let (line, column) = self.file.location(pointer);
        self.errors.push(opgate_text::one_line(&format!("{line}:{column}: {text}"), 1_024));
    }

    fn read<T: for<'de> Deserialize<'de>>(&mut self, pointer: &str, value: Value) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(pointer, &error.to_string());
                None
            }
        }
    }

    /// Reads what is common to all policies.
    fn read_common(&mut self) -> PolicyConfig {
        let mut config = PolicyConfig::default();
        let Some(members) = self.file.value.as_object() else {
            self.error("", "not a configuration: write `apiVersion`, `kind` and `policies`");
            return config;
        };
        for (key, expected) in [("apiVersion", "opgate.dev/v1alpha1"), ("kind", "Configuration")] {
            if members.get(key).and_then(Value::as_str) != Some(expected) {
                self.error(&format!("/{key}"), &format!("{key} must be {expected}"));
            }
        }
        for (key, value) in members {
            let pointer = format!("/{key}");
            match key.as_str() {
                "apiVersion" | "kind" | "policies" => {}
                "profile" if value.as_str() == Some("auto") || value.is_null() => {}
                "profile" => config.profile = self.read(&pointer, value.clone()),
                "identities" => {
                    let read: Option<BTreeMap<String, Option<Vec<String>>>> =
                        self.read(&pointer, value.clone());
                    let lists = read.into_iter().flatten();
                    let lists = lists.filter_map(|(key, users)| Some((key, users?)));
                    config.identities = lists.collect();
                }
                known if IGNORED_KEYS.contains(&known) => {}
                _ => self.error(&pointer, &format!("unknown key {key:?}")),
            }
        }
        config
    }

    fn read_policy(
        &mut self,
        index: usize,
        value: &Value,
        common: &PolicyConfig,
        names: &mut BTreeSet<String>,
    ) -> Option<Entry> {
        let pointer = format!("/policies/{index}");
        let Some(members) = value.as_object() else {
            self.error(&pointer, "a policy is an object with `name`");
            return None;
        };
        let name = members.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            self.error(&pointer, "a policy needs a `name`");
        } else if !names.insert(name.clone()) {
            self.error(&format!("{pointer}/name"), &format!("two policies are named {name:?}"));
        }
        let module = members.get("module").and_then(Value::as_str);
        let policy = match module.map(|module| module.strip_prefix("builtin:")) {
            None => name.clone(),
            Some(Some(builtin)) => builtin.to_owned(),
            Some(None) => {
                let text = "only built-in policies are available here: `builtin:NAME`";
                self.error(&format!("{pointer}/module"), text);
                return None;
            }
        };
        let mut own = Map::new();
        for (key, value) in members {
            match key.as_str() {
                "name" | "module" => {}
                "mode" | "rules" | "settings" | "exclude" if value.is_null() => {}
                "mode" | "rules" | "settings" | "exclude" => {
                    own.insert(key.clone(), value.clone());
                }
                known if IGNORED_POLICY_KEYS.contains(&known) => {}
                _ => {
                    let text = format!("{key:?} is not available here, or unknown");
                    self.error(&format!("{pointer}/{key}"), &text);
                }
            }
        }
        let read: PolicyConfig = self.read(&pointer, Value::Object(own))?;
        let PolicyConfig { profile, identities, .. } = common.clone();
        Some(Entry { name, policy, configuration: PolicyConfig { profile, identities, ..read } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";

    #[test]
    fn policies_get_their_part_of_a_file() {
        assert_eq!(read(" \n# nothing\n").unwrap(), Value::Null);
        let text = "profile: upstream\nidentities: {olm: [u], rukpak: null}\ndocsUrl: https://x\npolicies:\n- {name: a, module: 'builtin:b', mode: warn, rules: {A-1: off}, limits: {time: 1s}}\n";
        let found = read(&format!("{HEAD}{text}")).unwrap();
        let entry = &found["policies"][0];
        assert_eq!((&entry["name"], &entry["policy"]), (&json!("a"), &json!("b")));
        let config: PolicyConfig = serde_json::from_value(entry["configuration"].clone()).unwrap();
        assert_eq!((config.mode, config.profile), (Mode::Warn, Some(Profile::Upstream)));
        assert_eq!(config.rules["A-1"], RuleLevel::Off);
        assert_eq!(config.identities["olm"], ["u"]);
        assert!(!config.identities.contains_key("rukpak"));
        let all = read(&format!("{HEAD}profile: auto\n")).unwrap();
        assert_eq!((&all["policies"], &all["common"]["profile"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, expected) in [
            ("a: [", "3:4: "),
            ("key: 1", "3:1: unknown key \"key\""),
            ("policies: 1", "3:1: policies is a list"),
            ("policies:\n- {mode: warn}", "4:3: a policy needs a `name`"),
            ("policies:\n- {name: a}\n- {name: a}", "5:4: two policies are named \"a\""),
            ("policies:\n- {name: a, module: x.wasm}", "4:13: only built-in policies"),
            ("policies:\n- {name: a, match: {}}", "4:13: \"match\" is not available here"),
            ("policies:\n- {name: a, mode: of}", "4:3: unknown variant `of`"),
        ] {
            let errors = read(&format!("{HEAD}{text}\n")).unwrap_err();
            assert!(errors[0].starts_with(expected), "{errors:?}");
        }
        assert_eq!(read("a: 1\n").unwrap_err().len(), 3);
    }
}
