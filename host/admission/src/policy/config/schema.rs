//! The JSON Schema of `opgate.yaml`, for editors and for users.
//!
//! ```text
//! keys and formats (here; a test compares them with what is read) ─┬▶ schema
//! descriptors of the built-in policies: rules, settings ─────────┘
//! ```
//!
//! The schema rejects every error that a schema can express. It cannot express that a name occurs
//! twice, that a file is missing, or the constraints of a policy on its settings.

use serde_json::{Map, Value, json};

use super::Configuration;
use crate::policy::{DefaultLevel, Descriptor, Mode, OnError, Profile, RuleLevel};

/// The format of sizes and durations.
const SIZE_PATTERN: &str = "^[0-9]+(Ki|Mi|Gi)?$";
const DURATION_PATTERN: &str = "^([0-9]+(\\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$";
const NAME_PATTERN: &str = "^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$";
/// The characters that every name of Kubernetes consists of.
const GLOB_PATTERN: &str = "^[!-$&-.0-~]{1,253}$";
const RESOURCE_PATTERN: &str = "^/*[^/]+/[^/]+(/[^/]+)?$";
const CUSTOM_RESOURCE_PATTERN: &str =
    "^(\\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$";

impl Configuration {
    /// The schema (JSON Schema 2020-12), with the rules and the settings of these built-in policies.
    #[must_use]
    pub fn schema<'d>(builtins: impl IntoIterator<Item = &'d Descriptor>) -> Value {
        let builtins: Vec<_> = builtins.into_iter().collect();
        let names: Vec<_> = builtins.iter().map(|builtin| builtin.name.as_str()).collect();
        let modules: Vec<_> = names.iter().map(|name| format!("builtin:{name}")).collect();
        let profiles = [Profile::Ocp45, Profile::Ocp412, Profile::Ocp415, Profile::Upstream];
        let profiles = profiles.map(|profile| Value::from(profile.as_str()));
        let profiles: Vec<_> =
            [Value::from("auto")].into_iter().chain(profiles).chain([Value::Null]).collect();
        let modes = [Mode::Enforce, Mode::Warn, Mode::Audit, Mode::Off];
        let errors = [OnError::FailurePolicy, OnError::Deny, OnError::Allow];
        let levels = [RuleLevel::Deny, RuleLevel::Warn, RuleLevel::Off];
        let users = || {
            json!({
                "type": ["array", "null"],
                "items": {"type": "string", "pattern": "^[^\\s]([^\\n]*[^\\s])?$"},
                "description": "Exact names of users, such as system:serviceaccount:NAMESPACE:NAME",
            })
        };
        let texts =
            |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
        let names_by_pattern = |what: &str| {
            let patterns = json!({"type": "array", "maxItems": 64, "items": {"type": "string", "pattern": GLOB_PATTERN}});
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {"include": patterns, "exclude": patterns},
                "description": what,
            })
        };
        // A policy without `module` is the built-in one of its name.
        let mut conditions = vec![
            json!({
                "if": {"not": {"required": ["module"]}},
                "then": {"properties": {"name": {"enum": names}}},
            }),
            json!({
                "if": {"required": ["signature"]},
                "then": {"required": ["module"], "properties": {"module": {"pattern": "^oci://"}}},
            }),
        ];
        let mut definitions = Map::new();
        for builtin in &builtins {
            let name = &builtin.name;
            let is_module = json!({
                "required": ["module"],
                "properties": {"module": {"const": format!("builtin:{name}")}},
            });
            let is_name = json!({
                "required": ["name"],
                "properties": {"name": {"const": name}},
                "not": {"required": ["module"]},
            });
            let of = |part: &str| json!({"$ref": format!("#/$defs/{name}-{part}")});
            conditions.push(json!({
                "if": {"anyOf": [is_module, is_name]},
                "then": {"properties": {"rules": of("rules"), "settings": of("settings")}},
            }));
            definitions.insert(format!("{name}-rules"), rules_schema(builtin));
            definitions.insert(format!("{name}-settings"), settings_schema(builtin));
        }
        let policy = json!({
            "type": "object",
            "required": ["name"],
            "additionalProperties": false,
            "properties": {
                "name": {
                    "type": "string",
                    "pattern": NAME_PATTERN,
                    "description": "Unique; appears in URLs, logs, metrics and audit annotations",
                },
                "module": {
                    "type": ["string", "null"],
                    "anyOf": [
                        {"enum": modules},
                        {"type": "null"},
                        {"pattern": "^oci://"},
                        {"type": "string", "not": {"pattern": "^(builtin:|[A-Za-z][A-Za-z0-9+.-]*://)"}},
                    ],
                    "description": "builtin:NAME, the path of a component relative to this file, or oci://HOST/REPOSITORY@sha256:…",
                },
                "signature": {
                    "type": "object",
                    "required": ["key"],
                    "additionalProperties": false,
                    "properties": {
                        "key": {
                            "type": "string",
                            "pattern": "\\S",
                            "description": "Public keys, one of which must have signed the component: a file, or PEM",
                        },
                        "repository": {
                            "type": "string",
                            "pattern": "\\S",
                            "description": "HOST/REPOSITORY that the signature must name; any if it is left out",
                        },
                    },
                },
                "mode": {"enum": modes.map(Mode::as_str), "default": "enforce"},
                "onError": {"enum": errors.map(OnError::as_str), "default": "failurePolicy"},
                "rules": {
                    "type": "object",
                    "additionalProperties": {"$ref": "#/$defs/level"},
                    "description": "Levels by rule",
                },
                "settings": {
                    "type": ["object", "null"],
                    "description": "Settings of the policy: `opgate policy inspect NAME` prints their schema",
                },
                "limits": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "memory": {
                            "anyOf": [
                                {"type": "string", "pattern": SIZE_PATTERN},
                                {"type": "integer", "minimum": 1_048_576, "maximum": 1_073_741_824},
                                {"type": "null"},
                            ],
                            "default": "32Mi",
                            "description": "Memory of one call, 1Mi to 1Gi",
                        },
                        "time": {
                            "type": ["string", "null"],
                            "pattern": DURATION_PATTERN,
                            "default": "100ms",
                            "description": "CPU time of one call, 1ms to 30s",
                        },
                        "concurrency": {
                            "type": ["integer", "null"],
                            "minimum": 1,
                            "maximum": 256,
                            "default": 4,
                            "description": "Calls at the same time",
                        },
                    },
                },
                "exclude": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "namespaces": texts("Namespaces whose requests the policy does not see"),
                        "users": texts("Names of users whose requests the policy does not see"),
                    },
                },
                "match": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "namespaceSelector": {"anyOf": [{"type": "null"}, selector_schema()]},
                        "namespaces": names_by_pattern("The only namespaces that the policy applies to: names, in which * stands for any characters"),
                        "names": names_by_pattern("The only objects that the policy applies to: names, in which * stands for any characters"),
                    },
                    "description": "Limits the policy to some of the requests that it matches itself",
                },
                "allowedReads": {
                    "type": "array",
                    "items": {"type": "string", "pattern": RESOURCE_PATTERN},
                    "description": "Resources that a policy that is not built in may read: group/version/resource, or version/resource",
                },
                "allowedSamples": {
                    "type": "array",
                    "items": {"type": "string", "pattern": CUSTOM_RESOURCE_PATTERN},
                    "description": "Custom resources of which the policy may read samples: widgets.example.com, or *.example.com",
                },
            },
            "allOf": conditions,
        });
        definitions.insert("level".to_owned(), json!({"enum": levels.map(RuleLevel::as_str)}));
        definitions.insert("policy".to_owned(), policy);
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "opgate.yaml",
            "description": "Policies to load, and the effect of their verdicts (docs/configuration.md)",
            "type": "object",
            "required": ["apiVersion", "kind"],
            "additionalProperties": false,
            "properties": {
                "apiVersion": {"const": "opgate.dev/v1alpha1"},
                "kind": {"const": "Configuration"},
                "profile": {
                    "enum": profiles,
                    "default": "auto",
                    "description": "The edition of the documentation that applies if editions contradict each other. With auto a server reads it from its cluster, and files are checked against ocp-4.15",
                },
                "identities": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {"olm": users(), "rukpak": users()},
                    "description": "The users as which controllers run",
                },
                "policies": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/policy"},
                    "description": "If it is present, only the policies in it decide",
                },
                "reservations": {
                    "enum": ["shared", "local"],
                    "description": "The servers that see the reservations of one. By default shared for the servers of an installation (`serve --installation`), and local otherwise",
                },
                "check": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "warningsAsErrors": {
                            "type": "boolean",
                            "default": false,
                            "description": "Whether `opgate check` fails if there are only warnings",
                        },
                    },
                },
                "docsUrl": {
                    "type": ["string", "null"],
                    "pattern": "^https?://[^\\s]*$",
                    "maxLength": 512,
                    "description": "Where the pages of the rules are published",
                },
            },
            "$defs": definitions,
        })
    }
}

/// A label selector as in Kubernetes.
fn selector_schema() -> Value {
    let operators = ["In", "NotIn", "Exists", "DoesNotExist"];
    let texts = json!({"type": ["array", "null"], "items": {"type": "string"}});
    let expression = json!({
        "type": "object",
        "required": ["key", "operator"],
        "properties": {"key": {"type": "string"}, "operator": {"enum": operators}, "values": texts},
    });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "matchLabels": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
            "matchExpressions": {"type": ["array", "null"], "items": expression},
        },
        "description": "Labels of the namespaces that the policy matches",
    })
}

/// The rules of a policy, each with its title.
fn rules_schema(policy: &Descriptor) -> Value {
    let rule = |rule: &crate::policy::Rule| {
        let default = match rule.default {
            DefaultLevel::Deny => "deny",
            DefaultLevel::Warn => "warn",
            DefaultLevel::Off => "off",
        };
        let schema = json!({
            "$ref": "#/$defs/level",
            "description": rule.title,
            "default": default,
        });
        (rule.id.clone(), schema)
    };
    let properties: Map<_, _> = policy.rules.iter().map(rule).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

/// The settings of a policy in the format of the file, where levels are set outside the settings.
fn settings_schema(policy: &Descriptor) -> Value {
    if policy.settings_schema.is_empty() {
        return json!({"type": ["object", "null"], "maxProperties": 0});
    }
    let mut schema: Value = serde_json::from_str(&policy.settings_schema).unwrap_or_default();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("rules");
    }
    if let Some(members) = schema.as_object_mut() {
        members.remove("$schema");
    }
    json!({"anyOf": [{"type": "null"}, schema]})
}
