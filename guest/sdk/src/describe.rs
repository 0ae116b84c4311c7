//! From the declarations of a policy to its descriptor.
//!
//! ```text
//! rules, sorted by id ─┬─▶ rules
//!   on, of each ───────┼─▶ matches: for each route, the operations and the rules that match them
//!   reads, of each ────┼─▶ reads, each with the rules that need it
//!   samples, of each ──┴─▶ samples: the rules that read custom resources
//! settings, and those that all policies have in common ─▶ schema
//! ```

use crate::bindings::opgate::policy::types as wit;
use crate::reads::{ClusterRead, Index, Setting};
use crate::{DefaultLevel, Level, NamePatterns, Operation, Policy, Rule, Target};

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn condition((name, expression): &(&str, &str)) -> wit::MatchCondition {
    wit::MatchCondition { name: (*name).to_owned(), expression: (*expression).to_owned() }
}

fn ids(rules: &[&Rule]) -> Vec<String> {
    rules.iter().map(|rule| rule.id.to_owned()).collect()
}

const OPERATIONS: [Operation; 4] =
    [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];

impl Policy {
    /// Its rules, in the order of their IDs.
    #[must_use]
    pub fn all_rules(&self) -> Vec<&'static Rule> {
        let mut rules: Vec<&Rule> = self.rules.iter().copied().flatten().copied().collect();
        rules.sort_by_key(|rule| rule.sort_key());
        rules
    }

    /// Returns the declared reads.
    #[must_use]
    pub fn reads(&self) -> Vec<&'static ClusterRead> {
        let mut reads: Vec<&ClusterRead> = Vec::new();
        for read in self.all_rules().iter().flat_map(|rule| rule.reads) {
            if !reads.iter().any(|known| std::ptr::eq(*known, *read)) {
                reads.push(read);
            }
        }
        reads
    }

    /// Its description for the host.
    #[must_use]
    pub fn describe(&self) -> wit::Descriptor {
        let rules = self.all_rules();
        let read = |read: &'static ClusterRead| {
            let needs = |rule: &&Rule| rule.reads.iter().any(|r| std::ptr::eq(*r, read));
            let rules: Vec<_> = rules.iter().copied().filter(needs).collect();
            read.describe(ids(&rules))
        };
        wit::Descriptor {
            name: self.name.into(),
            version: self.version.into(),
            title: self.title.into(),
            matches: self.matches(&rules),
            reads: self.reads().into_iter().map(read).collect(),
            sampling_rules: ids(&rules
                .iter()
                .copied()
                .filter(|rule| rule.samples)
                .collect::<Vec<_>>()),
            settings_schema: self.schema(&rules),
            rules: rules.into_iter().map(Rule::describe).collect(),
        }
    }

    /// Returns the requests of each route. Operations that the same rules match are one entry.
    pub(crate) fn matches(&self, rules: &[&Rule]) -> Vec<wit::MatchRule> {
        let mut matches: Vec<wit::MatchRule> = Vec::new();
        for (number, route) in (0_u8..).zip(self.routes) {
            let of_route = matches.len();
            for operation in OPERATIONS {
                let looks = |rule: &&Rule| rule.applies_to(route.on, operation);
                let rules: Vec<_> = rules.iter().copied().filter(looks).collect();
                let rules = ids(&rules);
                if rules.is_empty() {
                    continue;
                }
                let same = matches.iter_mut().skip(of_route).find(|known| known.rules == rules);
                match same {
                    Some(known) => known.operations.push(operation),
                    None => matches.push(route.on.describe(operation, rules, number)),
                }
            }
        }
        matches
    }

    /// Returns the JSON Schema of the settings: its own, and the common ones that its rules need.
    fn schema(&self, rules: &[&Rule]) -> String {
        let text = "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"default\":[]}";
        let mut properties = Vec::new();
        if self.routes.iter().any(|route| !route.on.is_from_file()) {
            properties.push(
                r#""ratcheting":{"description":"Omit violations in fields that an UPDATE does not change.","type":"boolean","default":true}"#.to_owned(),
            );
            let never: Vec<_> =
                rules.iter().filter(|rule| rule.no_exemptions).map(|r| r.id).collect();
            let but = if never.is_empty() {
                String::new()
            } else {
                format!(" but {}", never.join(" and "))
            };
            properties.push(format!(
                r#""exempt":{{"description":"Identities to which no rule{but} applies.","type":"object","additionalProperties":false,"properties":{{"users":{text},"groups":{text}}}}}"#,
            ));
        }
        let needs = if rules.iter().any(|rule| rule.needs_cluster()) {
            Some("cluster objects that are not available")
        } else {
            rules.iter().any(|rule| rule.may_skip).then_some("files that are not available")
        };
        let skipped = needs.map(|needs| format!(
            r#","skippedRules":{{"description":"Whether to warn of a rule that is skipped because it needs {needs}.","enum":["omit","warn"],"default":"omit"}}"#,
        ));
        properties.push(format!(
            r#""messages":{{"type":"object","additionalProperties":false,"properties":{{"prefixRuleId":{{"description":"Put the rule's id before its message.","type":"boolean","default":false}}{}}}}}"#,
            skipped.unwrap_or_default(),
        ));
        properties.push(
            r#""rules":{"description":"Levels that the configuration gives to rules; written by the host.","type":"object","readOnly":true}"#.to_owned(),
        );
        let own = self.settings.trim().trim_start_matches('{').trim_end();
        let own = own.strip_suffix('}').unwrap_or(own).trim();
        if !own.is_empty() {
            properties.push(own.to_owned());
        }
        format!(
            r#"{{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"Settings of the policy {}","type":"object","additionalProperties":false,"properties":{{{}}}}}"#,
            self.name,
            properties.join(",")
        )
    }
}

impl Rule {
    /// Returns the sort key of the rule: `CSV-99` comes before `CSV-100`.
    pub(crate) fn sort_key(&self) -> (&str, usize, &str) {
        let (prefix, number) = self.id.rsplit_once('-').unwrap_or((self.id, ""));
        (prefix, number.len(), number)
    }

    /// Reports whether the rule needs objects of the cluster.
    #[must_use]
    pub fn needs_cluster(&self) -> bool {
        self.samples || !self.reads.is_empty()
    }

    /// Reports whether the rule matches these requests.
    #[must_use]
    pub fn applies_to(&self, target: &Target, operation: Operation) -> bool {
        self.on
            .iter()
            .any(|(on, operations)| std::ptr::eq(*on, target) && operations.contains(&operation))
    }

    fn describe(&self) -> wit::Rule {
        let mut kinds: Vec<String> = Vec::new();
        for (target, _) in self.on {
            if !kinds.iter().any(|kind| kind == target.kind) {
                kinds.push(target.kind.to_owned());
            }
        }
        let looks = |o: &Operation| self.on.iter().any(|(_, operations)| operations.contains(o));
        wit::Rule {
            id: self.id.into(),
            name: self.name.into(),
            title: self.title.into(),
            default_level: match (self.enabled_by, self.level) {
                (Some(_), _) => DefaultLevel::Off,
                (None, Level::Deny) => DefaultLevel::Deny,
                (None, Level::Warn) => DefaultLevel::Warn,
            },
            enabled_by: owned(self.enabled_by.unwrap_or(self.denies_with)),
            kinds,
            operations: OPERATIONS.into_iter().filter(looks).collect(),
            sources: owned(self.sources),
        }
    }
}

impl Target {
    fn describe(&self, operation: Operation, rules: Vec<String>, route: u8) -> wit::MatchRule {
        wit::MatchRule {
            groups: owned(self.groups),
            versions: owned(self.versions),
            resources: owned(self.resources),
            operations: vec![operation],
            namespace: self.namespace.map(wit::Setting::from),
            namespaces: self.namespaces.describe(),
            names: self.names.describe(),
            rules,
            advisory: self.advisory,
            match_conditions: self.conditions.iter().map(condition).collect(),
            namespace_selector: self.namespace_selector.to_owned(),
            enabled_by: owned(self.enabled_by),
            route,
        }
    }
}

impl NamePatterns {
    fn describe(&self) -> wit::NamePatterns {
        wit::NamePatterns { include: owned(self.include), exclude: owned(self.exclude) }
    }
}

impl ClusterRead {
    fn describe(&self, rules: Vec<String>) -> wit::ClusterRead {
        wit::ClusterRead {
            resource: self.resource(),
            fields: owned(self.fields),
            keys: owned(self.keys),
            label_selector: self.label_selector.into(),
            namespace: self.namespace.map(wit::Setting::from),
            indexes: self.indexes.iter().map(wit::Index::from).collect(),
            rules,
            enabled_by: owned(self.enabled_by),
        }
    }
}

impl From<Setting> for wit::Setting {
    fn from(from: Setting) -> Self {
        Self { pointer: from.pointer.into(), default: from.default.into() }
    }
}

impl From<&Index> for wit::Index {
    fn from(from: &Index) -> Self {
        Self { name: from.name.into(), field: from.field.into(), separator: from.separator.into() }
    }
}
