//! The checked descriptor of a policy, which comes out of the sandbox.

use std::collections::BTreeSet;

use opgate_cluster::{Declaration, Index, Resource, Selector};
use opgate_document::Document;

use super::declared_value::{MAX_TEXT_BYTES, Setting, lines, operations, setting};
use super::match_rule::MatchRule;
use crate::review::{Operation, secret};
use opgate_compat::names;
use opgate_engine::wit;
use opgate_text::one_line;

/// The first violation of the contract in a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct DescriptorError(String);

/// Maximum bytes of the name of a rule.
const MAX_RULE_NAME_BYTES: usize = 50;

/// Maximum number of sources of a rule.
const MAX_SOURCES: usize = 16;

const MAX_RULES: usize = 512;
const MAX_MATCHES: usize = 64;
const MAX_READS: usize = 32;
const MAX_FIELDS: usize = 64;
const MAX_INDEXES: usize = 8;
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// The level of a rule unless it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultLevel {
    /// The rule is off.
    Off,
    /// Warn.
    Warn,
    /// Deny.
    Deny,
}

impl DefaultLevel {
    /// The name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// A rule of a policy.
#[derive(Debug, Clone)]
pub struct Rule {
    /// `RPK-01`
    pub id: String,
    /// The name in addition to the id, `immutable-bundle-spec`; empty for a rule without a name.
    pub name: String,
    /// The requirement, in one sentence.
    pub title: String,
    /// Its default level.
    pub default: DefaultLevel,
    /// Settings that turn it on.
    pub enabled_by: Vec<String>,
    /// Kinds that it evaluates.
    pub kinds: Vec<String>,
    /// Operations that it evaluates.
    pub operations: Vec<Operation>,
    /// The documentation that defines it.
    pub sources: Vec<String>,
}

impl Rule {
    /// Whether this is its name.
    #[must_use]
    pub fn is_named(&self, text: &str) -> bool {
        !self.name.is_empty() && self.name == text
    }
}

/// Objects of the cluster that a policy reads.
#[derive(Debug, Clone)]
pub struct DeclaredRead {
    /// The resource.
    pub resource: Resource,
    /// Fields and indexes.
    pub declaration: Declaration,
    /// Only objects with these labels.
    pub labels: Selector,
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// Rules that need them; empty for all.
    pub rules: Vec<String>,
    /// Settings of which one must be present and not `false`; empty for none.
    pub enabled_by: Vec<String>,
}

/// The descriptor of a policy.
#[derive(Debug, Clone)]
pub struct Descriptor {
    /// Its own name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// One sentence.
    pub title: String,
    /// Its rules.
    pub rules: Vec<Rule>,
    /// Requests that it evaluates.
    pub matches: Vec<MatchRule>,
    /// Cluster objects that it reads.
    pub reads: Vec<DeclaredRead>,
    /// Rules that sample custom resources of any kind; empty if none may.
    pub samples: Vec<String>,
    /// JSON Schema of its settings; empty for none.
    pub settings_schema: String,
}

/// Whether a text is a valid name of a policy: it is part of URLs, metrics and annotations.
pub(super) fn is_name(name: &str) -> bool {
    name.len() <= 40 && names::is_label(name)
}

fn is_rule_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 40
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
}

/// Whether a text is a valid name of a rule: kebab case, which distinguishes it from ids.
fn is_rule_name(name: &str) -> bool {
    name.len() <= MAX_RULE_NAME_BYTES
        && names::is_label(name)
        && name.contains('-')
        && !name.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn sources(from: &[String]) -> Vec<String> {
    let lines = from.iter().take(MAX_SOURCES).map(|source| one_line(source, MAX_TEXT_BYTES));
    lines.filter(|line| !line.is_empty()).collect()
}

/// A part of a URL that names a group, version or resource.
fn is_path_segment(text: &str) -> bool {
    text.len() <= 253
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b))
}

fn check_read(
    read: &wit::ClusterRead,
    rules: Vec<String>,
) -> Result<DeclaredRead, DescriptorError> {
    let wit::GroupVersionResource { group, version, resource } = &read.resource;
    let resource =
        Resource { group: group.clone(), version: version.clone(), resource: resource.clone() };
    let segments = [&resource.group, &resource.version, &resource.resource];
    if !segments.iter().all(|segment| is_path_segment(segment))
        || resource.version.is_empty()
        || resource.resource.is_empty()
    {
        let text = one_line(&resource.to_string(), 128);
        return Err(DescriptorError(format!(
            "declares to read {text:?}, which is not group/version/resource"
        )));
    }
    let wrong = |why: String| {
        DescriptorError(format!(
            "declares to read {resource} in a way that is not valid: {}",
            one_line(&why, 256)
        ))
    };
    let (fields, keys, indexes) = (read.fields.len(), read.keys.len(), read.indexes.len());
    if fields.max(keys) > MAX_FIELDS || indexes > MAX_INDEXES {
        return Err(wrong(format!("more than {MAX_FIELDS} fields or {MAX_INDEXES} indexes")));
    }
    let index = |index: &wit::Index| Index {
        name: index.name.clone(),
        field: index.field.clone(),
        separator: index.separator.clone(),
    };
    let indexes: Vec<_> = read.indexes.iter().map(index).collect();
    let declaration = Declaration::new(&read.fields, &read.keys, &indexes)
        .map_err(|why| wrong(why.to_string()))?;
    let mut labels = Selector::default();
    if !read.label_selector.is_empty() {
        let json = Document::parse(&read.label_selector).map_err(|e| wrong(e.to_string()))?;
        labels =
            opgate_cluster::parse_selector(json.root()).map_err(|why| wrong(why.to_string()))?;
    }
    let namespace = read.namespace.as_ref().map(setting);
    let enabled_by = lines(&read.enabled_by);
    if resource.group.is_empty() && resource.resource == "secrets" {
        secret::check_read(read).map_err(|why| wrong(why.to_string()))?;
    }
    Ok(DeclaredRead { resource, declaration, labels, namespace, rules, enabled_by })
}

impl Descriptor {
    /// Checks and accepts the result of `describe`.
    ///
    /// # Errors
    /// The first violation of the contract of `wit/policy.wit`.
    pub(super) fn check(from: &wit::Descriptor) -> Result<Self, DescriptorError> {
        if !is_name(&from.name) {
            return Err(DescriptorError(format!(
                "describes itself as {:?}, which is not a name",
                one_line(&from.name, 64)
            )));
        }
        for (what, count, most) in [
            ("rules", from.rules.len(), MAX_RULES),
            ("matches", from.matches.len(), MAX_MATCHES),
            ("reads", from.reads.len(), MAX_READS),
            ("bytes of settings schema", from.settings_schema.len(), MAX_SCHEMA_BYTES),
        ] {
            if count > most {
                return Err(DescriptorError(format!("describes {count} {what}, more than {most}")));
            }
        }
        let mut rules: Vec<Rule> = Vec::with_capacity(from.rules.len());
        for rule in &from.rules {
            if !is_rule_id(&rule.id) {
                return Err(DescriptorError(format!(
                    "describes a rule {:?}, which is not an id",
                    one_line(&rule.id, 64)
                )));
            }
            if rules.iter().any(|known| known.id == rule.id) {
                return Err(DescriptorError(format!("describes the rule {:?} twice", rule.id)));
            }
            if !rule.name.is_empty() && !is_rule_name(&rule.name) {
                return Err(DescriptorError(format!(
                    "names the rule {} {:?}, which is not a name in kebab case",
                    rule.id,
                    one_line(&rule.name, 64)
                )));
            }
            if !rule.name.is_empty() && rules.iter().any(|known| known.name == rule.name) {
                return Err(DescriptorError(format!("has two rules named {:?}", rule.name)));
            }
            rules.push(Rule {
                id: rule.id.clone(),
                name: rule.name.clone(),
                title: one_line(&rule.title, MAX_TEXT_BYTES),
                default: match rule.default_level {
                    wit::DefaultLevel::Off => DefaultLevel::Off,
                    wit::DefaultLevel::Warn => DefaultLevel::Warn,
                    wit::DefaultLevel::Deny => DefaultLevel::Deny,
                },
                enabled_by: lines(&rule.enabled_by),
                kinds: lines(&rule.kinds),
                operations: operations(&rule.operations),
                sources: sources(&rule.sources),
            });
        }
        let ids: BTreeSet<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
        let is_id_of_another = |rule: &&Rule| rule.name != rule.id && ids.contains(&*rule.name);
        if let Some(rule) = rules.iter().find(is_id_of_another) {
            return Err(DescriptorError(format!(
                "names the rule {} {:?}, the id of another rule",
                rule.id, rule.name
            )));
        }
        let known = |ids: &[String]| match ids.iter().find(|id| !rules.iter().any(|r| r.id == **id))
        {
            None => Ok(ids.to_vec()),
            Some(id) => Err(DescriptorError(format!(
                "names a rule {:?}, which it does not have",
                one_line(id, 64)
            ))),
        };
        let mut matches = Vec::with_capacity(from.matches.len());
        for rule in &from.matches {
            let checked = MatchRule::check(rule, known(&rule.rules)?);
            matches.push(checked.map_err(|why| DescriptorError(why.to_string()))?);
        }
        let mut reads: Vec<DeclaredRead> = Vec::with_capacity(from.reads.len());
        for read in &from.reads {
            let checked = check_read(read, known(&read.rules)?)?;
            if reads.iter().any(|other| other.resource == checked.resource) {
                return Err(DescriptorError(format!(
                    "declares to read {} twice",
                    checked.resource
                )));
            }
            reads.push(checked);
        }
        let samples = known(&from.sampling_rules)?;
        Ok(Self {
            name: from.name.clone(),
            version: one_line(&from.version, 64),
            title: one_line(&from.title, MAX_TEXT_BYTES),
            rules,
            matches,
            reads,
            samples,
            settings_schema: from.settings_schema.clone(),
        })
    }

    /// A rule by its id.
    #[must_use]
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// A rule by its id or its name, as users write it.
    #[must_use]
    pub fn find_rule(&self, text: &str) -> Option<&Rule> {
        self.rule(text).or_else(|| self.rules.iter().find(|rule| rule.is_named(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_names_are_kebab_case_and_no_ids() {
        for (name, is_valid) in [
            ("one-operator-group-per-namespace", true),
            ("a-1", true),
            ("immutable", false),
            ("RPK-01", false),
            ("rpk-01-", false),
            ("-immutable-spec", false),
            ("immutable_spec-x", false),
            ("immutable spec-x", false),
            ("immutable-spec\n", false),
            ("", false),
        ] {
            assert_eq!(is_rule_name(name), is_valid, "{name:?}");
        }
        let name = |length: usize| format!("a-{}", "b".repeat(length - 2));
        assert!(is_rule_name(&name(MAX_RULE_NAME_BYTES)));
        assert!(!is_rule_name(&name(MAX_RULE_NAME_BYTES + 1)));
    }
}
