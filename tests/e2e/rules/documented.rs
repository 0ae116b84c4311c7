//! The documented rules: each is served by one policy as documented, has a page, and cases of both
//! kinds that show its texts.
//!
//! ```text
//! rules.tsv        what documents and upstream state for a rule ─┐
//!                                                                ├─▶ equal, but for differences.tsv
//! what policies declare, their cases, docs/rules ────────────────┘
//! ```
//!
//! `rules.tsv` has a row for each rule: its policy, the kinds and operations that it applies to,
//! what it needs, its default level, its messages (` | ` between alternatives) and its sources. Its
//! words are those of the documents: `dependencies.yaml` is a kind there, and `FILE` an operation.
//! `differences.tsv` says where policies differ, and why that is right: the rule, what differs
//! (`kinds`, `operations`, `needs` or `message`), what is served (or the message that no case
//! shows), and the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use opgate_sdk::{Level, Operation, Policy, Rule, Target};
use opgate_sdk_testing::{Case, Expectation, plural};

use crate::policy::cases::{POLICIES, cases_of};

/// A documented rule.
pub(crate) struct DocumentedRule {
    /// `RPK-01`
    pub(crate) id: &'static str,
    policy: &'static str,
    kinds: &'static str,
    operations: &'static str,
    needs: &'static str,
    default: &'static str,
    message: &'static str,
    source: &'static str,
}

fn cells<const N: usize>(table: &'static str) -> Vec<[&'static str; N]> {
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = |line: &'static str| {
        let cells: Vec<_> = line.split('\t').collect();
        cells.try_into().unwrap_or_else(|_| panic!("not {N} cells: {line}"))
    };
    lines.map(row).collect()
}

/// All documented rules.
pub(crate) fn documented_rules() -> Vec<DocumentedRule> {
    let row = |[id, policy, kinds, operations, needs, default, message, source]: [_; 8]| {
        DocumentedRule { id, policy, kinds, operations, needs, default, message, source }
    };
    cells(include_str!("rules.tsv")).into_iter().map(row).collect()
}

impl DocumentedRule {
    /// Whether the rule applies to no request.
    pub(crate) fn is_only_in_files(&self) -> bool {
        self.operations == "FILE"
    }

    /// `deny`, `warn` or `off`.
    pub(crate) fn level(&self) -> &'static str {
        if self.default == "off-by-default" { "off" } else { self.default }
    }
}

/// Kinds of files, and what carries manifests.
const FILE_KINDS: [&str; 5] =
    ["RegistryBundle", "PlainBundle", "FileBasedCatalog", "OperatorProject", "any manifest"];

/// Kinds in which constraints, properties and version ranges stand.
const CONSTRAINT_KINDS: &[&str] = &[
    "ClusterServiceVersion",
    "InstallPlan/status",
    "ConfigMap",
    "RegistryBundle",
    "FileBasedCatalog",
];
const BUNDLE_KINDS: &[&str] = &["RegistryBundle"];
const CATALOG_KINDS: &[&str] = &["FileBasedCatalog"];

/// The kinds that policies call what documents name otherwise.
const KIND_NAMES: [(&str, &[&str]); 33] = [
    ("*.package.yaml", BUNDLE_KINDS),
    ("annotations.yaml", BUNDLE_KINDS),
    ("bundle.Dockerfile", BUNDLE_KINDS),
    ("dependencies.yaml", BUNDLE_KINDS),
    ("package manifest directory", BUNDLE_KINDS),
    ("properties.yaml", BUNDLE_KINDS),
    ("registry+v1 bundle", BUNDLE_KINDS),
    ("registry+v1 bundle directory", BUNDLE_KINDS),
    ("registry+v1 bundle manifests/", BUNDLE_KINDS),
    ("ClusterRole in manifests/", BUNDLE_KINDS),
    ("PodDisruptionBudget in manifests/", BUNDLE_KINDS),
    ("PriorityClass in manifests/", BUNDLE_KINDS),
    ("tests/scorecard/config.yaml", BUNDLE_KINDS),
    ("plain+v0 bundle directory", &["PlainBundle"]),
    ("any catalog blob", CATALOG_KINDS),
    ("catalog", CATALOG_KINDS),
    ("catalog directory", CATALOG_KINDS),
    ("olm.bundle", CATALOG_KINDS),
    ("olm.channel", CATALOG_KINDS),
    ("olm.deprecations", CATALOG_KINDS),
    ("olm.package", CATALOG_KINDS),
    ("olm.channel skipRange", CATALOG_KINDS),
    ("olm.constraint", CONSTRAINT_KINDS),
    ("olm.constraint gvk", CONSTRAINT_KINDS),
    ("olm.constraint package", CONSTRAINT_KINDS),
    ("olm.package.required", CONSTRAINT_KINDS),
    ("olm.skipRange", CONSTRAINT_KINDS),
    ("Template in namespace openshift", &["Template"]),
    ("watches.yaml", &["OperatorProject"]),
    ("Node config", &["Node"]),
    ("configs.samples.operator.openshift.io", &["Config"]),
    ("etcds.operator.openshift.io", &["Etcd"]),
    ("ClusterServiceVersion manifest", &["ClusterServiceVersion"]),
];

/// The kinds that a row names, and the groups and versions in brackets after them.
fn documented_kinds(
    row: &DocumentedRule,
) -> (BTreeSet<&'static str>, BTreeMap<&'static str, Vec<&'static str>>) {
    let (mut kinds, mut apis) = (BTreeSet::new(), BTreeMap::new());
    let mut rest = row.kinds;
    while !rest.is_empty() {
        let end = rest.find([',', '(']).unwrap_or(rest.len());
        let (kind, after) = rest.split_at(end);
        let kind = kind.trim();
        rest = after;
        let names = KIND_NAMES.iter().find(|(name, _)| *name == kind);
        let names: Vec<_> = names.map_or(vec![kind], |(_, kinds)| kinds.to_vec());
        if let Some(inner) = rest.strip_prefix('(') {
            let (inner, after) = inner.split_once(')').expect("a bracket that is closed");
            if names == [kind] {
                apis.insert(kind, inner.split(", ").collect());
            }
            // What follows is the name of an object.
            rest = after.split_once(", ").map_or("", |(_, after)| after);
        }
        // A rule for files only does not evaluate the objects that contain the same data.
        let holds = names.len() > 1 && row.operations == "FILE";
        kinds.extend(names.iter().filter(|kind| !holds || FILE_KINDS.contains(kind)));
        rest = rest.trim_start_matches([',', ' ']);
    }
    (kinds, apis)
}

/// The kind of a target; of a subresource `Kind/status`.
fn kind_of(target: &Target) -> String {
    let sub = target.resources.iter().find_map(|resource| resource.split_once('/'));
    sub.map_or(target.kind.to_owned(), |(_, sub)| format!("{}/{sub}", target.kind))
}

fn default_of(rule: &Rule) -> &'static str {
    match (rule.enabled_by, rule.level) {
        (Some(_), _) => "off",
        (None, Level::Deny) => "deny",
        (None, Level::Warn) => "warn",
    }
}

fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

type ServedKinds = BTreeMap<String, BTreeSet<&'static str>>;

fn served_kinds(rule: &Rule) -> ServedKinds {
    let mut all = ServedKinds::new();
    for (target, operations) in rule.on {
        let known = all.entry(kind_of(target)).or_default();
        known.extend(operations.iter().copied().map(operation));
    }
    all
}

/// `A: CREATE, UPDATE; B: DELETE`
fn format_kinds(served: &ServedKinds) -> String {
    let kind = |(kind, operations): (&String, &BTreeSet<&str>)| {
        format!("{kind}: {}", operations.iter().copied().collect::<Vec<_>>().join(", "))
    };
    served.iter().map(kind).collect::<Vec<_>>().join("; ")
}

/// Kinds that are served and not documented, or the other way round. Bundles and catalogs carry
/// manifests, and rules about these are served for them, too.
fn kinds_differ(row: &DocumentedRule, served: &ServedKinds) -> bool {
    let (documented, _) = documented_kinds(row);
    let in_files = row.operations.contains("FILE");
    let is_carried = |kind: &str| in_files && FILE_KINDS.contains(&kind);
    let is_known = |kind: &str| documented.contains(kind) || is_carried(kind);
    let only_files = row.operations == "FILE" && served.keys().any(|kind| is_carried(kind));
    !served.keys().all(|kind| is_known(kind))
        || !documented.iter().all(|kind| served.contains_key(*kind) || only_files)
}

/// opgate evaluates a file as an object that is created, or that replaces a published one.
fn operations_differ(row: &DocumentedRule, served: &ServedKinds) -> bool {
    let documented: BTreeSet<_> = row.operations.split(',').collect();
    let fits = |(kind, operations): (&String, &BTreeSet<&str>)| {
        let is_file = FILE_KINDS.contains(&kind.as_str());
        let from_files: &[_] = &["CREATE", "UPDATE"];
        let in_files = is_file || documented.contains("FILE");
        let all = operations.iter().all(|operation| {
            documented.contains(operation) || in_files && from_files.contains(operation)
        });
        let needed = documented.iter().filter(|operation| **operation != "FILE" && !is_file);
        all && needed.clone().all(|operation| operations.contains(operation))
    };
    !served.iter().all(fits)
}

/// `cluster:A,B` requires that the rule reads both. Its other reads concern copies and originals.
/// Objects of any kind come as samples.
fn needs_differ(row: &DocumentedRule, rule: &Rule) -> bool {
    let reads: BTreeSet<_> = rule.reads.iter().map(|read| read.resource).collect();
    let needed = row.needs.strip_prefix("cluster:").map(|kinds| kinds.split(','));
    !needed.into_iter().flatten().all(|kind| match kind {
        "custom resources of the CRD" => rule.samples,
        kind => reads.contains(plural(kind).as_str()),
    })
}

/// Group and versions that the row names must be among those of the target.
fn apis_differ(row: &DocumentedRule, rule: &Rule) -> bool {
    let (_, apis) = documented_kinds(row);
    let fits = |target: &Target, api: &str| {
        let (group, version) = api.rsplit_once('/').unwrap_or(("", api));
        let is_version = version.starts_with('v') && !version.contains('.');
        match (is_version, group) {
            (true, "") => target.versions.contains(&version) || target.versions == ["*"],
            (true, group) => {
                target.groups.contains(&group)
                    && (target.versions.contains(&version) || target.versions == ["*"])
            }
            (false, _) => target.groups.contains(&api),
        }
    };
    !apis.iter().all(|(kind, apis)| {
        let targets = || rule.on.iter().filter(|(target, _)| kind_of(target) == *kind);
        targets().count() == 0
            || apis.iter().all(|api| targets().any(|(target, _)| fits(target, api)))
    })
}

/// The parts of a message that are the same wherever it is given.
fn fixed_parts(message: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = message;
    while let Some(at) = rest.find(['%', '<', '…', '{']) {
        let (before, placeholder) = rest.split_at(at);
        let end = match placeholder.as_bytes() {
            [b'%', ..] => placeholder[1..].find(|c: char| c.is_ascii_alphabetic()).map(|n| n + 2),
            [b'<', ..] => placeholder.find('>').map(|n| n + 1),
            [b'{', ..] => placeholder.find('}').map(|n| n + 1),
            _ => Some('…'.len_utf8()),
        };
        parts.push(before);
        rest = &placeholder[end.unwrap_or(placeholder.len())..];
    }
    parts.push(rest);
    parts
}

fn matches_message(found: &str, message: &str) -> bool {
    let message = message.replace("\\n", "\n");
    let mut rest = found;
    fixed_parts(&message).into_iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// The messages of a row that no case of the rule shows.
fn untested_messages(row: &DocumentedRule, cases: &[Case]) -> Vec<&'static str> {
    let of_rule = cases.iter().flat_map(|case| &case.violations).filter(|f| f.rule == row.id);
    let found: Vec<_> = of_rule.map(|finding| finding.message.as_str()).collect();
    let messages = row.message.split(" | ");
    messages.filter(|message| !found.iter().any(|found| matches_message(found, message))).collect()
}

/// The citations of documents, without those of upstream's code.
fn document_citations(source: &str) -> Vec<&str> {
    let editions =
        source.split("; ").filter(|part| part.starts_with("OCP ") || part.starts_with("OKD"));
    editions.collect()
}

#[test]
fn every_documented_rule_is_served_as_documented() {
    let differences: Vec<[&str; 4]> = cells(include_str!("differences.tsv"));
    let mut unused: BTreeSet<_> =
        differences.iter().map(|[id, what, served, _]| (*id, *what, *served)).collect();
    let cases: BTreeMap<_, _> = POLICIES.iter().map(|p| (p.name, cases_of(p))).collect();
    let mut wrong = Vec::new();
    let mut ids = BTreeSet::new();
    for row in documented_rules() {
        let id = row.id;
        assert!(ids.insert(id), "{id} is there twice");
        let has = |policy: &&Policy| policy.all_rules().into_iter().find(|rule| rule.id == id);
        let found: Vec<_> =
            POLICIES.iter().filter_map(|policy| Some((policy, has(policy)?))).collect();
        let [(policy, rule)] = found[..] else {
            wrong.push(format!("{id}: served by {} policies", found.len()));
            continue;
        };
        let mut differs = |what: &'static str, served: &str| {
            // What is listed is known to differ.
            let known = unused.iter().find(|(i, w, s)| *i == id && *w == what && *s == served);
            match known.copied() {
                Some(known) => drop(unused.remove(&known)),
                None => wrong.push(format!("{id}\t{what}\t{served}\t")),
            }
        };
        if policy.name != row.policy {
            differs("policy", policy.name);
        }
        let level = default_of(rule);
        if level != row.level() {
            differs("default", level);
        }
        let served = served_kinds(rule);
        if kinds_differ(&row, &served) {
            differs("kinds", &served.keys().cloned().collect::<Vec<_>>().join(", "));
        }
        if operations_differ(&row, &served) {
            differs("operations", &format_kinds(&served));
        }
        if apis_differ(&row, rule) {
            differs("versions", row.kinds);
        }
        if needs_differ(&row, rule) {
            let reads: BTreeSet<_> = rule.reads.iter().map(|read| read.resource).collect();
            differs("needs", &reads.into_iter().collect::<Vec<_>>().join(", "));
        }
        let cases = &cases[policy.name];
        for message in untested_messages(&row, cases) {
            differs("message", message);
        }
        if document_citations(row.source) != document_citations(&rule.sources.join("; ")) {
            differs("source", &rule.sources.join("; "));
        }
        for expects in [Expectation::Accept, Expectation::Reject] {
            if !cases.iter().any(|case| case.rule == id && case.expects == expects) {
                wrong.push(format!("{id}: no case of {expects:?}"));
            }
        }
        // What the page says under "Repair" is applied to a rejected case, and accepted.
        if !cases.iter().any(|case| case.rule == id && case.fixes.is_some()) {
            wrong.push(format!("{id}: no case is repaired"));
        }
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rules");
        let page = fs::read_to_string(pages.join(format!("{}.md", policy.name))).unwrap();
        if !page.contains(&format!("\n## {id}\n")) {
            wrong.push(format!("{id}: no page"));
        }
    }
    for policy in POLICIES {
        let unknown = policy.all_rules().into_iter().filter(|rule| !ids.contains(rule.id));
        wrong.extend(unknown.map(|rule| format!("{}: not in rules.tsv", rule.id)));
    }
    wrong.extend(unused.iter().map(|difference| format!("no longer so: {difference:?}")));
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(ids.len(), 462);
}

/// A reason says something.
#[test]
fn every_difference_has_its_reason() {
    for [id, what, _, reason] in cells(include_str!("differences.tsv")) {
        assert!(reason.len() > 20, "{id} {what}: {reason:?}");
    }
}
