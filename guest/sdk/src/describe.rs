//! Descriptors: what a policy says about itself, as constants.

use crate::bindings::opgate::policy::types as wit;
use crate::{DefaultLevel, Document, Operation};

/// What a policy is. Start from [`Descriptor::EMPTY`].
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    /// Lower case letters, digits and `-`.
    pub name: &'static str,
    /// For people.
    pub version: &'static str,
    /// One sentence about the policy.
    pub title: &'static str,
    /// Every rule that `validate` may report.
    pub rules: &'static [Rule],
    /// The requests that the policy wants to see.
    pub matches: &'static [MatchRule],
    /// Objects of the cluster that the policy reads.
    pub reads: &'static [ClusterRead],
    /// JSON Schema of the settings; empty for none.
    pub settings_schema: &'static str,
}

impl Descriptor {
    /// Nothing but empty lists and texts.
    pub const EMPTY: Self = Self {
        name: "",
        version: "",
        title: "",
        rules: &[],
        matches: &[],
        reads: &[],
        settings_schema: "",
    };
}

/// A rule that the policy carries. Start from [`Rule::DENY`], [`Rule::WARN`] or [`Rule::OFF`].
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Unique in the policy: `RPK-01`.
    pub id: &'static str,
    /// One sentence: what must hold.
    pub title: &'static str,
    /// What the rule does unless the configuration says otherwise.
    pub default_level: DefaultLevel,
    /// Settings (JSON pointers) whose presence turns on a rule that is off by default.
    pub enabled_by: &'static [&'static str],
    /// Kinds that the rule looks at.
    pub kinds: &'static [&'static str],
    /// Operations that the rule looks at.
    pub operations: &'static [Operation],
    /// Where the rule is documented.
    pub source: &'static str,
}

impl Rule {
    /// A rule that denies by default.
    pub const DENY: Self = Self {
        id: "",
        title: "",
        default_level: DefaultLevel::Deny,
        enabled_by: &[],
        kinds: &[],
        operations: &[],
        source: "",
    };
    /// A rule that warns by default.
    pub const WARN: Self = Self { default_level: DefaultLevel::Warn, ..Self::DENY };
    /// A rule that is off by default.
    pub const OFF: Self = Self { default_level: DefaultLevel::Off, ..Self::DENY };
}

/// Requests that a policy wants to see; every list must match, `*` matches all.
#[derive(Debug, Clone, Copy)]
pub struct MatchRule {
    /// API groups, the core group is empty.
    pub groups: &'static [&'static str],
    /// API versions.
    pub versions: &'static [&'static str],
    /// Plural, lower case; `bundles/status` for a sub-resource.
    pub resources: &'static [&'static str],
    /// Operations.
    pub operations: &'static [Operation],
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// Rules that look at these requests; where all of them are off, the policy does not see the
    /// requests. Empty: it always sees them.
    pub rules: &'static [&'static str],
    /// These requests need not wait for a server that is away, unless the configuration sets one of
    /// `rules` to deny: the policy only warns about them, or what they bring is judged again before
    /// it does anything.
    pub advisory: bool,
}

impl MatchRule {
    /// Nothing but empty lists.
    pub const EMPTY: Self = Self {
        groups: &[],
        versions: &[],
        resources: &[],
        operations: &[],
        namespace: None,
        rules: &[],
        advisory: false,
    };
}

/// A text that the settings may name, for example the name of a namespace.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// JSON pointer into the settings.
    pub pointer: &'static str,
    /// What counts where the settings have no text there.
    pub default: &'static str,
}

impl Setting {
    /// What the settings say.
    #[must_use]
    pub fn of(&self, settings: &Document) -> String {
        settings.text(self.pointer).unwrap_or_else(|| self.default.to_owned())
    }
}

/// A value by which objects of the cluster are found.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    /// Its name in queries.
    pub name: &'static str,
    /// JSON pointer of a text, with `*` for every element of a list or member of an object.
    pub field: &'static str,
    /// Where it is not empty, each text is a list separated by this.
    pub separator: &'static str,
}

/// Objects of the cluster that a policy reads.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRead {
    /// API group, the core group is empty.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural, lower case.
    pub resource: &'static str,
    /// JSON pointers of the fields that the policy needs, with `*` for every element of a list or
    /// member of an object. Name, namespace, uid, labels, resourceVersion and deletionTimestamp are
    /// always there.
    pub fields: &'static [&'static str],
    /// JSON pointers of objects of which only the names of the members are kept.
    pub keys: &'static [&'static str],
    /// Label selector as JSON: other objects are not read. Empty: all.
    pub labels: &'static str,
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// Values by which objects are found.
    pub indexes: &'static [Index],
    /// Rules that need these objects. Empty: always needed.
    pub rules: &'static [&'static str],
}

impl ClusterRead {
    /// Nothing but empty lists.
    pub const EMPTY: Self = Self {
        group: "",
        version: "",
        resource: "",
        fields: &[],
        keys: &[],
        labels: "",
        namespace: None,
        indexes: &[],
        rules: &[],
    };

    pub(crate) fn resource(&self) -> wit::GroupVersionResource {
        wit::GroupVersionResource {
            group: self.group.into(),
            version: self.version.into(),
            resource: self.resource.into(),
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

impl From<Descriptor> for wit::Descriptor {
    fn from(from: Descriptor) -> Self {
        Self {
            name: from.name.into(),
            version: from.version.into(),
            title: from.title.into(),
            rules: from.rules.iter().map(wit::Rule::from).collect(),
            matches: from.matches.iter().map(wit::MatchRule::from).collect(),
            reads: from.reads.iter().map(wit::ClusterRead::from).collect(),
            settings_schema: from.settings_schema.into(),
        }
    }
}

impl From<&Rule> for wit::Rule {
    fn from(from: &Rule) -> Self {
        Self {
            id: from.id.into(),
            title: from.title.into(),
            default_level: from.default_level,
            enabled_by: owned(from.enabled_by),
            kinds: owned(from.kinds),
            operations: from.operations.to_vec(),
            source: from.source.into(),
        }
    }
}

impl From<&MatchRule> for wit::MatchRule {
    fn from(from: &MatchRule) -> Self {
        Self {
            groups: owned(from.groups),
            versions: owned(from.versions),
            resources: owned(from.resources),
            operations: from.operations.to_vec(),
            namespace: from.namespace.map(wit::Setting::from),
            rules: owned(from.rules),
            advisory: from.advisory,
        }
    }
}

impl From<Setting> for wit::Setting {
    fn from(from: Setting) -> Self {
        Self { pointer: from.pointer.into(), default: from.default.into() }
    }
}

impl From<&ClusterRead> for wit::ClusterRead {
    fn from(from: &ClusterRead) -> Self {
        Self {
            resource: from.resource(),
            fields: owned(from.fields),
            keys: owned(from.keys),
            labels: from.labels.into(),
            namespace: from.namespace.map(wit::Setting::from),
            indexes: from.indexes.iter().map(wit::Index::from).collect(),
            rules: owned(from.rules),
        }
    }
}

impl From<&Index> for wit::Index {
    fn from(from: &Index) -> Self {
        Self { name: from.name.into(), field: from.field.into(), separator: from.separator.into() }
    }
}
