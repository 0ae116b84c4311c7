//! The checked descriptor of a policy, which comes out of the sandbox.

use opgate_cluster::{Declaration, Index, Resource, Selector};
use opgate_document::Document;

use super::names::Names;
use crate::review::{Operation, Review, secret};
use opgate_engine::wit;
use opgate_text::one_line;
use opgate_upstream::names::{self, label_key_error};

const MAX_RULES: usize = 512;
const MAX_MATCHES: usize = 64;
const MAX_READS: usize = 32;
/// A call gets the routes as bits of one number.
const MAX_ROUTE: u8 = 63;
/// Conditions of a match rule; API servers accept 64 of a webhook.
const MAX_CONDITIONS: usize = 8;
/// Bytes of an expression or a selector.
const MAX_EXPRESSION: usize = 4_096;
const MAX_FIELDS: usize = 64;
const MAX_INDEXES: usize = 8;
const MAX_SCHEMA: usize = 256 << 10;
/// Maximum bytes of titles, sources and other texts for people.
const MAX_TEXT: usize = 1_024;

/// The level of a rule unless configured otherwise.
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
    /// What must hold, in one sentence.
    pub title: String,
    /// Its default level.
    pub default: DefaultLevel,
    /// Settings that turn it on.
    pub enabled_by: Vec<String>,
    /// Kinds that it evaluates.
    pub kinds: Vec<String>,
    /// Operations that it evaluates.
    pub operations: Vec<Operation>,
    /// Where it is documented.
    pub source: String,
}

/// Requests that a policy evaluates.
#[derive(Debug, Clone)]
pub struct MatchRule {
    /// API groups.
    pub groups: Vec<String>,
    /// API versions.
    pub versions: Vec<String>,
    /// Resources, with a sub-resource if one is meant.
    pub resources: Vec<String>,
    /// Operations.
    pub operations: Vec<Operation>,
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// Only in namespaces with these names.
    pub namespaces: Names,
    /// Only objects with these names.
    pub names: Names,
    /// Rules that evaluate them; empty for all.
    pub rules: Vec<String>,
    /// Whether the API server may admit them while the webhook is unavailable, unless the
    /// configuration sets one of the rules to deny.
    pub advisory: bool,
    /// Conditions in CEL under which they matter, for webhook configurations.
    pub conditions: Vec<MatchCondition>,
    /// Label selector of the namespaces in which they matter, JSON, for webhook configurations.
    /// Empty for all.
    pub namespace_labels: String,
    /// Settings of which one must be present and not `false`; empty for none.
    pub enabled_by: Vec<String>,
    /// The number that identifies them to the policy, below 64.
    pub route: u8,
}

/// A condition in CEL on requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchCondition {
    /// Unique in a match rule.
    pub name: String,
    /// CEL.
    pub expression: String,
}

/// A text that the settings may name.
#[derive(Debug, Clone)]
pub struct Setting {
    /// JSON pointer into the settings.
    pub pointer: String,
    /// Used if the settings have no text there.
    pub default: String,
}

impl Setting {
    /// The text in the settings, or the default.
    #[must_use]
    pub fn of(&self, settings: &Document) -> String {
        let named = settings.get(&self.pointer).and_then(|value| value.text());
        named.unwrap_or(&self.default).to_owned()
    }
}

/// Objects of the cluster that a policy reads.
#[derive(Debug, Clone)]
pub struct Read {
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

/// The description that a policy gives of itself.
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
    /// Objects of the cluster that it reads.
    pub reads: Vec<Read>,
    /// Rules that look at custom resources of any kind; empty if none may.
    pub samples: Vec<String>,
    /// JSON Schema of its settings; empty for none.
    pub settings_schema: String,
}

impl MatchRule {
    /// Whether the requests include a review.
    #[must_use]
    pub fn matches(&self, review: &Review<'_>) -> bool {
        self.operations.contains(&review.operation)
            && any(&self.groups, &review.resource.group)
            && any(&self.versions, &review.resource.version)
            && self.resources.iter().any(|wanted| {
                let (resource, sub) = wanted.split_once('/').unwrap_or((wanted, ""));
                (resource == "*" || resource == review.resource.name)
                    && (sub == "*" || sub == review.sub_resource)
            })
            && self.namespaces.fit_namespace_of(review)
            && self.names.fit_name_of(review)
    }
}

fn any(wanted: &[String], found: &str) -> bool {
    wanted.iter().any(|w| w == "*" || w == found)
}

/// Whether a text can be the name of a policy: it goes into URLs, metrics and annotations.
pub(super) fn is_name(name: &str) -> bool {
    name.len() <= 40 && names::is_label(name)
}

fn is_rule_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 40
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
}

fn operations(from: &[wit::Operation]) -> Vec<Operation> {
    let operation = |operation: &wit::Operation| match operation {
        wit::Operation::Create => Operation::Create,
        wit::Operation::Update => Operation::Update,
        wit::Operation::Delete => Operation::Delete,
        wit::Operation::Connect => Operation::Connect,
    };
    from.iter().map(operation).collect()
}

fn setting(from: &wit::Setting) -> Setting {
    Setting { pointer: from.pointer.clone(), default: one_line(&from.default, MAX_TEXT) }
}

/// A part of a URL that names a group, version or resource.
fn is_segment(text: &str) -> bool {
    text.len() <= 253
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b))
}

fn check_read(read: &wit::ClusterRead, rules: Vec<String>) -> Result<Read, String> {
    let wit::GroupVersionResource { group, version, resource } = &read.resource;
    let resource =
        Resource { group: group.clone(), version: version.clone(), resource: resource.clone() };
    let segments = [&resource.group, &resource.version, &resource.resource];
    if !segments.iter().all(|segment| is_segment(segment))
        || resource.version.is_empty()
        || resource.resource.is_empty()
    {
        let text = one_line(&resource.to_string(), 128);
        return Err(format!("declares to read {text:?}, which is not group/version/resource"));
    }
    let wrong = |why: String| {
        format!("declares to read {resource} in a way that is not valid: {}", one_line(&why, 256))
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
    let declaration = Declaration::new(&read.fields, &read.keys, &indexes).map_err(wrong)?;
    let mut labels = Selector::default();
    if !read.labels.is_empty() {
        let json = Document::parse(&read.labels).map_err(|e| wrong(e.to_string()))?;
        labels = opgate_cluster::selector(json.root()).map_err(wrong)?;
    }
    let namespace = read.namespace.as_ref().map(setting);
    let enabled_by = lines(&read.enabled_by);
    if resource.group.is_empty() && resource.resource == "secrets" {
        secret::check_read(read).map_err(wrong)?;
    }
    Ok(Read { resource, declaration, labels, namespace, rules, enabled_by })
}

fn patterns(what: &str, from: &wit::NamePatterns) -> Result<Names, String> {
    Names::new(from.include.clone(), from.exclude.clone()).map_err(|why| {
        format!("names {what} in a match rule by patterns that are not valid: {why}")
    })
}

/// The conditions of a match rule, which an API server must accept.
fn conditions(from: &[wit::MatchCondition]) -> Result<Vec<MatchCondition>, String> {
    if from.len() > MAX_CONDITIONS {
        return Err(format!(
            "gives a match rule {} conditions, more than {MAX_CONDITIONS}",
            from.len()
        ));
    }
    let mut checked: Vec<MatchCondition> = Vec::with_capacity(from.len());
    for wit::MatchCondition { name, expression } in from {
        let shown = one_line(name, 64);
        if label_key_error(name).is_some() || checked.iter().any(|known| known.name == *name) {
            return Err(format!(
                "gives a condition the name {shown:?}, which is not a unique qualified name"
            ));
        }
        if expression.trim().is_empty() || expression.len() > MAX_EXPRESSION {
            return Err(format!(
                "gives the condition {shown:?} an expression of {} bytes, not of 1 to {MAX_EXPRESSION}",
                expression.len()
            ));
        }
        checked.push(MatchCondition { name: name.clone(), expression: expression.clone() });
    }
    Ok(checked)
}

/// A label selector for namespaces, which an API server must accept.
fn namespace_labels(json: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("selects namespaces by labels that are not valid: {why}");
    if json.len() > MAX_EXPRESSION {
        return Err(wrong(&format!("more than {MAX_EXPRESSION} bytes")));
    }
    if !json.is_empty() {
        let document = Document::parse(json).map_err(|e| wrong(&one_line(&e.to_string(), 256)))?;
        opgate_cluster::selector(document.root()).map_err(|why| wrong(&one_line(&why, 256)))?;
    }
    Ok(json.to_owned())
}

fn lines(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| one_line(text, MAX_TEXT)).collect()
}

impl Descriptor {
    /// Checks and takes over the answer of `describe`.
    ///
    /// # Errors
    /// The first violation of the contract of `wit/policy.wit`.
    pub(super) fn check(from: &wit::Descriptor) -> Result<Self, String> {
        if !is_name(&from.name) {
            return Err(format!(
                "describes itself as {:?}, which is not a name",
                one_line(&from.name, 64)
            ));
        }
        for (what, count, most) in [
            ("rules", from.rules.len(), MAX_RULES),
            ("matches", from.matches.len(), MAX_MATCHES),
            ("reads", from.reads.len(), MAX_READS),
            ("bytes of settings schema", from.settings_schema.len(), MAX_SCHEMA),
        ] {
            if count > most {
                return Err(format!("describes {count} {what}, more than {most}"));
            }
        }
        let mut rules: Vec<Rule> = Vec::with_capacity(from.rules.len());
        for rule in &from.rules {
            if !is_rule_id(&rule.id) {
                return Err(format!(
                    "describes a rule {:?}, which is not an id",
                    one_line(&rule.id, 64)
                ));
            }
            if rules.iter().any(|known| known.id == rule.id) {
                return Err(format!("describes the rule {:?} twice", rule.id));
            }
            rules.push(Rule {
                id: rule.id.clone(),
                title: one_line(&rule.title, MAX_TEXT),
                default: match rule.default_level {
                    wit::DefaultLevel::Off => DefaultLevel::Off,
                    wit::DefaultLevel::Warn => DefaultLevel::Warn,
                    wit::DefaultLevel::Deny => DefaultLevel::Deny,
                },
                enabled_by: lines(&rule.enabled_by),
                kinds: lines(&rule.kinds),
                operations: operations(&rule.operations),
                source: one_line(&rule.source, MAX_TEXT),
            });
        }
        let known = |ids: &[String]| match ids.iter().find(|id| !rules.iter().any(|r| r.id == **id))
        {
            None => Ok(ids.to_vec()),
            Some(id) => Err(format!("names a rule {:?}, which it does not have", one_line(id, 64))),
        };
        let mut matches = Vec::with_capacity(from.matches.len());
        for rule in &from.matches {
            if rule.route > MAX_ROUTE {
                return Err(format!(
                    "gives a match rule the route {}, more than {MAX_ROUTE}",
                    rule.route
                ));
            }
            matches.push(MatchRule {
                groups: lines(&rule.groups),
                versions: lines(&rule.versions),
                resources: lines(&rule.resources),
                operations: operations(&rule.operations),
                namespace: rule.namespace.as_ref().map(setting),
                namespaces: patterns("namespaces", &rule.namespaces)?,
                names: patterns("objects", &rule.names)?,
                rules: known(&rule.rules)?,
                advisory: rule.advisory,
                conditions: conditions(&rule.conditions)?,
                namespace_labels: namespace_labels(&rule.namespace_labels)?,
                enabled_by: lines(&rule.enabled_by),
                route: rule.route,
            });
        }
        let mut reads: Vec<Read> = Vec::with_capacity(from.reads.len());
        for read in &from.reads {
            let checked = check_read(read, known(&read.rules)?)?;
            if reads.iter().any(|other| other.resource == checked.resource) {
                return Err(format!("declares to read {} twice", checked.resource));
            }
            reads.push(checked);
        }
        let samples = known(&from.samples)?;
        Ok(Self {
            name: from.name.clone(),
            version: one_line(&from.version, 64),
            title: one_line(&from.title, MAX_TEXT),
            rules,
            matches,
            reads,
            samples,
            settings_schema: from.settings_schema.clone(),
        })
    }

    /// A rule by its ID.
    #[must_use]
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }
}
