//! The bypass table: what each rule refuses, it refuses in whatever way it comes.
//!
//! ```text
//! case files of the policies ─▶ subject  one rejecting request for each rule
//!                                  └─▶ ways  each column of the table: the requests to send
//! table.json ─ what a column gives where it is not "denied", and why ─▶ compared
//! ```
//!
//! Each rule has a copy of its policy in which it alone is on, at level deny. A rule without a row
//! fails the test, and so does an expectation that does not hold.

mod subject;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Snapshot, Source};
use opgate::policy::{Configuration, DefaultLevel, PolicySet, Profile};
use opgate::review::{self, Review};
use opgate_document::Document;
use serde_json::{Value, json};

use crate::rules::documented;
use subject::{Subject, subjects};
use ways::{BYPASS_COLUMNS, Step, bypasses};

/// The attacker, unless the rule applies to another user.
const TENANT: &str = "mallory";
/// Kinds that come from files and never from an API server.
const FILE_KINDS: [&str; 3] = ["RegistryBundle", "FileBasedCatalog", "OperatorProject"];
const TESTED_POLICIES: [&str; 3] = ["bundle-immutability", "operator-group", "constraint-limits"];
/// The table has only those rules of these policies that deny by default. A rule that only warns
/// blocks no user.
const DENYING_RULES: [&str; 9] = [
    "cluster-service-version",
    "pod-security",
    "operator-condition",
    "platform-operator",
    "crd-upgrade",
    "catalog-source",
    "subscription",
    "olm-v1",
    "platform-configuration",
];

/// `{"RPK-08": {"two requests": ["allowed", "why"]}}`: what is expected where it is not "denied", of a
/// column, of one of its ways (`copied: label added`), or of all (`*`). "create only" is a rule that
/// nothing but creation can break: that is denied, and updates are allowed.
///
/// `cases` names the cases to send, where the first one that the rule refuses is not enough.
type ExpectedOutcomes = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn expected_outcomes() -> ExpectedOutcomes {
    serde_json::from_str(include_str!("table.json")).expect("the table")
}

/// The rules of the table, with their policies: requests of an API server can break them.
fn rules() -> Vec<(String, String)> {
    // An API server itself refuses what violates these rules. A request can still violate a part of
    // CRD-08.
    let documented = documented::documented_rules();
    let only_in_files: BTreeSet<_> = documented
        .iter()
        .filter(|row| row.is_only_in_files() && row.id != "CRD-08")
        .map(|row| row.id)
        .collect();
    let set = load(&Configuration::builtin(Profile::default(), BUILTINS));
    let rules = set.policies().iter().flat_map(|policy| {
        let is_among = |names: &[&str]| names.contains(&policy.name.as_str());
        let (all, denying) = (is_among(&TESTED_POLICIES), is_among(&DENYING_RULES));
        let rules = policy.descriptor.rules.iter();
        let rules =
            rules.filter(|r| r.kinds.iter().any(|kind| !FILE_KINDS.contains(&kind.as_str())));
        let rules = rules.filter(|rule| all || denying && rule.default == DefaultLevel::Deny);
        let rules = rules.filter(|rule| !only_in_files.contains(&rule.id.as_str()));
        rules.map(|rule| (policy.name.clone(), rule.id.clone())).collect::<Vec<_>>()
    });
    rules.collect()
}

fn load(configuration: &Configuration) -> PolicySet {
    let set =
        PolicySet::load(configuration, None, 64, ClusterOptions::of(Source::Snapshot)).unwrap();
    assert!(set.broken().is_empty(), "{:?}", set.broken());
    set
}

fn copy_name(rule: &str) -> String {
    rule.to_lowercase()
}

/// A copy of the policy for each subject, with its rule alone.
fn configuration(subjects: &[Subject], rules: &[(String, String)]) -> Configuration {
    let entry = |subject: &Subject| {
        let levels = rules
            .iter()
            .filter(|(policy, _)| *policy == subject.policy)
            .map(|(_, id)| (id.clone(), json!(if *id == subject.rule { "deny" } else { "off" })));
        json!({
            "name": copy_name(&subject.rule),
            "module": format!("builtin:{}", subject.policy),
            "rules": levels.collect::<serde_json::Map<_, _>>(),
            "settings": subject.settings,
            "limits": {"time": "20s", "concurrency": 1, "memory": "256Mi"},
        })
    };
    let text = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "policies": subjects.iter().map(entry).collect::<Vec<_>>(),
    });
    Configuration::parse(Path::new("opgate.yaml"), &text.to_string(), BUILTINS).unwrap()
}

/// Whether one request is denied, with what there is in the cluster.
async fn denies(set: &PolicySet, subject: &Subject, step: &Step) -> bool {
    let mut snapshot = Snapshot::default();
    for object in subject.cluster.iter().chain(&step.stored) {
        snapshot.add(Document::parse(&object.to_string()).unwrap()).unwrap();
    }
    snapshot.replace_state(set.cluster());
    let text = review::text(step.review(subject).into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let only = copy_name(&subject.rule);
    let decision = set.decide(&review, Some(&only), deadline, &()).await.unwrap();
    assert!(decision.policy_errors.is_empty(), "{}: {:?}", subject.rule, decision.policy_errors);
    decision.denial.is_some()
}

/// The cases of a rule that are sent, each with its policies: those that are named, or the first one
/// that the rule refuses.
async fn cases<'s>(
    rule: &str,
    named: &[String],
    candidates: &'s [Subject],
    rules: &[(String, String)],
) -> Vec<(PolicySet, &'s Subject)> {
    let mut found = Vec::new();
    for subject in candidates.iter().filter(|subject| subject.rule == rule) {
        if named.contains(&subject.name) || named.is_empty() && found.is_empty() {
            let set = load(&configuration(std::slice::from_ref(subject), rules));
            if denies(&set, subject, &Step::base(subject)).await {
                found.push((set, subject));
            }
        }
    }
    assert_eq!(found.len(), named.len().max(1), "{rule}: so many cases are refused");
    found
}

#[tokio::test]
async fn every_rule_withstands_every_bypass() {
    let (rules, table) = (rules(), expected_outcomes());
    let known: BTreeSet<&String> = rules.iter().map(|(_, id)| id).collect();
    let rows: BTreeSet<&String> = table.keys().collect();
    assert_eq!(rows, known, "each rule has a row, and each row a rule");
    let candidates = subjects(&rules);
    let mut wrong = Vec::new();
    for (_, rule) in &rules {
        let row = &table[rule];
        let mut unused: BTreeSet<&str> = row.keys().map(String::as_str).collect();
        unused.remove("cases");
        let named = row.get("cases").map(Vec::as_slice).unwrap_or_default();
        for (set, subject) in &cases(rule, named, &candidates, &rules).await {
            for column in BYPASS_COLUMNS {
                for (name, steps) in bypasses(column, subject) {
                    let keys = [format!("{column}: {name}"), column.to_owned(), "*".to_owned()];
                    let found = keys.iter().find_map(|key| row.get_key_value(key));
                    let mut expected = "denied";
                    if let Some((key, expectation)) = found {
                        let [is, _why] = expectation.as_slice() else {
                            panic!("{rule}: {key}: what is expected, and why?");
                        };
                        unused.remove(key.as_str());
                        expected = is;
                    }
                    let outcome = outcome(set, subject, &steps, expected == "create only").await;
                    let expected = match (expected, steps.last()) {
                        ("create only", Some(last)) if last.creates() => "denied",
                        ("create only", _) => "allowed",
                        _ => expected,
                    };
                    if outcome != expected {
                        let case = &subject.name;
                        wrong.push(format!(
                            "{rule}: {column}: {name}: {outcome}, not {expected} ({case})"
                        ));
                    }
                }
            }
        }
        wrong.extend(unused.into_iter().map(|key| format!("{rule}: nothing is {key:?}")));
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// What comes of requests one after the other: the first denial ends them.
async fn outcome(
    set: &PolicySet,
    subject: &Subject,
    steps: &[Step],
    only_last: bool,
) -> &'static str {
    let from = if only_last { steps.len().saturating_sub(1) } else { 0 };
    for step in &steps[from..] {
        let denied = denies(set, subject, step).await;
        // What counts is the same whichever way it is written.
        let same = match step.equivalent.as_deref() {
            Some(plain) => denied == denies(set, subject, plain).await,
            None => denied,
        };
        match (same, &step.equivalent) {
            (true, _) => return "denied",
            (false, Some(_)) => return "otherwise",
            (false, None) => {}
        }
    }
    "allowed"
}

/// A value of a case that may not be there.
fn or_empty(value: Option<&Value>) -> Value {
    value.cloned().unwrap_or_else(|| json!({}))
}
