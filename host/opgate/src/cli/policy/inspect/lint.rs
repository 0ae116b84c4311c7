//! Findings for a policy that loads: mistakes that would otherwise go unnoticed until a request is not
//! evaluated.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::known::find_mistake;
use opgate_admission::policy::{Descriptor, Docs, MatchRule};
use opgate_admission::review::Operation;
use opgate_compat::kinds::plural;
use opgate_files::GROUP;

/// A mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Type of the mistake, for programs: `schema`, `plural`, …
    pub(super) kind: &'static str,
    /// One sentence: the error, its location, and the fix.
    pub(super) message: String,
}

impl Finding {
    pub(super) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The parts of a component besides its descriptor.
pub(super) struct ComponentParts<'c> {
    pub(super) docs: &'c Docs,
    pub(super) imports: &'c [String],
    /// Whether it mentions the field `replicas` outside of its documentation.
    pub(super) mentions_replicas: bool,
}

/// Returns the findings for a descriptor and the other parts of the component.
pub(super) fn lint(descriptor: &Descriptor, parts: &ComponentParts<'_>) -> Vec<Finding> {
    let ComponentParts { docs, imports, mentions_replicas } = parts;
    let mut found = Vec::new();
    lint_schema(descriptor, &mut found);
    lint_matches(descriptor, &mut found);
    lint_reads(descriptor, imports, &mut found);
    lint_rules(descriptor, docs, &mut found);
    if *mentions_replicas {
        lint_scale(descriptor, &mut found);
    }
    found
}

/// Resources of Kubernetes whose replicas have a sub-resource, by group.
const SCALABLE_RESOURCES: [(&str, &str); 4] = [
    ("", "replicationcontrollers"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
];

/// The setting of matches for files, which only the host sets.
const FILES_SETTING: &str = "/files";

/// Reports whether a component mentions the field `replicas` more often than its documentation.
pub(super) fn mentions_replicas(component: &[u8], docs: &Docs) -> bool {
    let count = |bytes: &[u8]| {
        let name = memchr::memmem::find_iter(bytes, "replicas");
        // `replicasets` is a resource.
        name.filter(|at| !bytes.get(at + 8..).is_some_and(|rest| rest.starts_with(b"et"))).count()
    };
    let documented: usize = docs.values().map(|text| count(text.as_bytes())).sum();
    count(component) > documented
}

/// Checks for rules about replicas that miss the requests of `kubectl scale` and of autoscalers.
fn lint_scale(descriptor: &Descriptor, found: &mut Vec<Finding>) {
    // API servers send no requests for files.
    let is_for_requests = |rule: &&MatchRule| rule.enabled_by != [FILES_SETTING];
    let requests: Vec<_> = descriptor.matches.iter().filter(is_for_requests).collect();
    let matches = |group: &str, wanted: &str| {
        requests.iter().any(|rule| {
            let has = |list: &[String], name: &str| list.iter().any(|it| it == name || it == "*");
            rule.operations.contains(&Operation::Update)
                && has(&rule.groups, group)
                && rule.resources.iter().any(|resource| {
                    let (name, sub) = wanted.split_once('/').unwrap_or((wanted, ""));
                    let (known, known_sub) = resource.split_once('/').unwrap_or((resource, ""));
                    (known == "*" || known == name) && (known_sub == "*" || known_sub == sub)
                })
        })
    };
    // A rule for all resources is not one for replicas.
    let is_named =
        |name: &str| requests.iter().any(|rule| rule.resources.iter().any(|known| known == name));
    for (group, resource) in SCALABLE_RESOURCES {
        let scale = format!("{resource}/scale");
        if is_named(resource) && matches(group, resource) && !matches(group, &scale) {
            let text = format!(
                "it reads `replicas` and matches {resource}, but not {scale}: `kubectl scale` and autoscalers change `spec.replicas` of a Scale there, without the policy; match {scale} as well"
            );
            found.push(Finding::new("scale", text));
        }
    }
}

/// Checks parts of a schema that the validator of JSON Schema accepts when the policy is loaded.
fn lint_schema(descriptor: &Descriptor, found: &mut Vec<Finding>) {
    if descriptor.settings_schema.is_empty() {
        return;
    }
    let Ok(schema) = serde_json::from_str::<Value>(&descriptor.settings_schema) else { return };
    let kind = schema.get("type");
    let is_of_object = kind.is_none_or(|kind| kind == "object");
    if !(schema.is_object() && is_of_object) {
        found.push(Finding::new(
            "schema",
            "the settings schema does not describe an object, and settings are one: write `\"type\": \"object\"`",
        ));
    }
}

fn lint_matches(descriptor: &Descriptor, found: &mut Vec<Finding>) {
    if descriptor.matches.is_empty() {
        let text =
            "it matches no requests, so it is never called: describe the requests in `matches`";
        found.push(Finding::new("no-matches", text));
    }
    for (number, rule) in descriptor.matches.iter().enumerate() {
        for (what, is_empty) in [
            ("groups", rule.groups.is_empty()),
            ("versions", rule.versions.is_empty()),
            ("resources", rule.resources.is_empty()),
            ("operations", rule.operations.is_empty()),
        ] {
            if is_empty {
                let text = format!("matches[{number}] has no {what}, so it matches nothing");
                found.push(Finding::new("no-matches", text));
            }
        }
        lint_plurals(descriptor, number, rule, found);
        if rule.groups.iter().any(|group| group == GROUP) {
            continue;
        }
        for resource in &rule.resources {
            // With several groups, one of them has to have it.
            let mut all = rule.groups.iter().map(|group| find_mistake(group, resource));
            if let Some(Some(first)) = all.next()
                && all.all(|one| one.is_some())
            {
                found.push(Finding::new("unknown-resource", format!("matches[{number}]: {first}")));
            }
        }
    }
}

/// Checks for resources that are a kind in lower case.
fn lint_plurals(
    descriptor: &Descriptor,
    number: usize,
    rule: &MatchRule,
    found: &mut Vec<Finding>,
) {
    let serves = |id: &String| rule.rules.is_empty() || rule.rules.contains(id);
    let rules = descriptor.rules.iter().filter(|known| serves(&known.id));
    let kinds: BTreeSet<&String> = rules.flat_map(|rule| &rule.kinds).collect();
    for resource in &rule.resources {
        let name = resource.split('/').next().unwrap_or_default();
        let is_singular = |kind: &&String| {
            kind.to_lowercase() == name.to_lowercase()
                && !name.ends_with('s')
                && plural(kind) != name
        };
        if let Some(kind) = kinds.iter().copied().find(is_singular) {
            let text = format!(
                "matches[{number}]: resource {name:?} is the kind {kind}, and the resource is its plural: {:?}",
                plural(kind)
            );
            found.push(Finding::new("plural", text));
        }
    }
}

fn lint_reads(descriptor: &Descriptor, imports: &[String], found: &mut Vec<Finding>) {
    for read in &descriptor.reads {
        let resource = &read.resource;
        if read.rules.is_empty() {
            let text = format!(
                "reads {resource} for no rule: name the rules that need it, so that it is not watched while they are off"
            );
            found.push(Finding::new("needless-read", text));
        }
        if resource.group != GROUP
            && let Some(why) = find_mistake(&resource.group, &resource.resource)
        {
            found.push(Finding::new("unknown-resource", format!("reads {resource}: {why}")));
        }
    }
    let asks = imports.iter().any(|import| import.starts_with("opgate:policy/cluster@"));
    let reads = !(descriptor.reads.is_empty() && descriptor.samples.is_empty());
    if reads && !asks {
        let text =
            "declares to read the cluster, and does not import `cluster`: it queries nothing";
        found.push(Finding::new("needless-read", text));
    }
    if asks && !reads {
        let text = "imports `cluster`, and declares nothing to read: every query gets `denied`";
        found.push(Finding::new("no-reads", text));
    }
}

fn lint_rules(descriptor: &Descriptor, docs: &Docs, found: &mut Vec<Finding>) {
    if descriptor.rules.is_empty() {
        let text = "it has no rules, so it cannot report anything: describe them in `rules`";
        found.push(Finding::new("no-rules", text));
    }
    let is_served = |id: &String| {
        descriptor.matches.iter().any(|rule| rule.rules.is_empty() || rule.rules.contains(id))
    };
    for rule in &descriptor.rules {
        let id = &rule.id;
        if !descriptor.matches.is_empty() && !is_served(id) {
            let text = format!("{id} is in `rules` of no match, so it never sees a request");
            found.push(Finding::new("unserved-rule", text));
        }
        if docs.get(id).is_none_or(|page| page.trim().is_empty()) {
            let text = format!(
                "{id} has no documentation: `opgate rules explain {id}` has only its title (section `opgate-docs`)"
            );
            found.push(Finding::new("no-documentation", text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opgate_admission::policy::{DefaultLevel, NamePatterns, Rule};

    fn rule(id: &str, kind: &str) -> Rule {
        Rule {
            id: id.to_owned(),
            title: "it is so".to_owned(),
            default: DefaultLevel::Deny,
            enabled_by: Vec::new(),
            kinds: vec![kind.to_owned()],
            operations: vec![Operation::Create],
            name: String::new(),
            sources: vec!["tests".to_owned()],
        }
    }

    fn matching(group: &str, resources: &[&str], rules: &[&str]) -> MatchRule {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let all = || NamePatterns::new(Vec::new(), Vec::new()).unwrap();
        MatchRule {
            groups: owned(&[group]),
            versions: owned(&["v1"]),
            resources: owned(resources),
            operations: vec![Operation::Create],
            namespace: None,
            namespaces: all(),
            names: all(),
            rules: owned(rules),
            advisory: false,
            conditions: Vec::new(),
            namespace_labels: String::new(),
            enabled_by: Vec::new(),
            route: 0,
        }
    }

    fn descriptor(rules: Vec<Rule>, matches: Vec<MatchRule>, schema: &str) -> Descriptor {
        Descriptor {
            name: "tests".to_owned(),
            version: "1".to_owned(),
            title: "tests".to_owned(),
            rules,
            matches,
            reads: Vec::new(),
            samples: Vec::new(),
            settings_schema: schema.to_owned(),
        }
    }

    #[test]
    fn each_mistake_is_found_and_nothing_else() {
        let bundle = || vec![rule("A-1", "Bundle")];
        let object = r#"{"type": "object"}"#;
        let cases: [(&str, Descriptor, &[&str]); 9] = [
            (
                "right",
                descriptor(bundle(), vec![matching("g.io", &["bundles"], &["A-1"])], ""),
                &[],
            ),
            (
                "a sub-resource",
                descriptor(bundle(), vec![matching("g.io", &["bundles/status"], &[])], object),
                &[],
            ),
            ("no matches", descriptor(bundle(), Vec::new(), ""), &["no-matches"]),
            (
                "an empty list",
                descriptor(bundle(), vec![matching("g.io", &[], &[])], ""),
                &["no-matches"],
            ),
            (
                "a kind",
                descriptor(bundle(), vec![matching("g.io", &["bundle"], &["A-1"])], ""),
                &["plural"],
            ),
            (
                "a kind of Kubernetes",
                descriptor(vec![rule("A-1", "Pod")], vec![matching("", &["pod"], &[])], ""),
                &["plural", "unknown-resource"],
            ),
            (
                "unserved resource",
                descriptor(
                    vec![rule("A-1", "Bundle"), rule("A-2", "Bundle")],
                    vec![matching("g.io", &["bundles"], &["A-1"])],
                    "",
                ),
                &["unserved-rule"],
            ),
            (
                "no rules",
                descriptor(Vec::new(), vec![matching("g.io", &["bundles"], &[])], ""),
                &["no-rules"],
            ),
            (
                "a schema of a list",
                descriptor(
                    bundle(),
                    vec![matching("g.io", &["bundles"], &[])],
                    r#"{"type": "array"}"#,
                ),
                &["schema"],
            ),
        ];
        let page = |id: &str| (id.to_owned(), "Text.".to_owned());
        let docs: Docs = [page("A-1"), page("A-2")].into();
        for (what, descriptor, expected) in cases {
            let parts = ComponentParts { docs: &docs, imports: &[], mentions_replicas: true };
            let found = lint(&descriptor, &parts);
            let kinds: Vec<_> = found.iter().map(|finding| finding.kind).collect();
            assert_eq!(kinds, expected, "{what}: {found:?}");
        }
        let one = descriptor(bundle(), vec![matching("g.io", &["bundles"], &[])], "");
        let imports = ["opgate:policy/cluster@0.7.0".to_owned()];
        let parts =
            ComponentParts { docs: &Docs::new(), imports: &imports, mentions_replicas: false };
        let found = lint(&one, &parts);
        let kinds: Vec<_> = found.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, ["no-reads", "no-documentation"]);
    }

    #[test]
    fn rule_for_replicas_matches_scale() {
        let deployment = || vec![rule("A-1", "Deployment")];
        for (resources, is_found) in [
            (&["deployments"][..], true),
            (&["deployments", "deployments/scale"], false),
            (&["deployments/*"], false),
            (&["*/*"], false),
            (&["*"], false),
            (&["daemonsets"], false),
        ] {
            let mut requests = matching("apps", resources, &["A-1"]);
            requests.operations = vec![Operation::Create, Operation::Update];
            let mut found = Vec::new();
            lint_scale(&descriptor(deployment(), vec![requests], ""), &mut found);
            let scale = found.iter().any(|it| it.message.contains("matches deployments,"));
            assert_eq!(scale, is_found, "{resources:?}: {found:?}");
        }
        let page = |text: &str| Docs::from([("A-1".to_owned(), text.to_owned())]);
        for (component, docs, expected) in [
            ("/spec/replicasnext", "", true),
            ("replicasets", "", false),
            ("docs: replicas", "replicas", false),
            ("docs: replicas; spec.replicas", "replicas", true),
        ] {
            assert_eq!(mentions_replicas(component.as_bytes(), &page(docs)), expected);
        }
    }
}
