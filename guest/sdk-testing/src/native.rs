//! Runs the cases of a policy on its own code, without a host.
//!
//! [`tests!`](crate::tests!) makes the tests of a policy:
//!
//! * every case finds what it says, and nothing else, and its rule evaluates the request unless it says `matches: false`;
//! * every rule has a case that it accepts, one that it rejects and, where it reads the cluster, one in
//!   which it is skipped; and where it is off, a case that it rejects fails;
//! * every rule is listed, and documented under the usual headings;
//! * nothing of what `cargo xtask new-rule` wrote is left as `TODO`;
//! * every fix applies to its case, satisfies its rule, and adds no violation;
//! * no value in any place of a case brings the policy down.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use opgate_sdk::cluster::Cluster;
use opgate_sdk::{
    Document, GroupVersionKind, GroupVersionResource, Level, Operation, Policy, Report, Request,
    RequestParts, Review, Rule, UserInfo, Verdict,
};
use serde_json::{Value, json};

use crate::{Case, Expectation, Location, PolicyResult, Violation, plural};

/// The tests of a policy. Once, in `tests/rules.rs` of its crate.
#[macro_export]
macro_rules! tests {
    ($policy:expr) => {
        const DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

        #[test]
        fn every_case_has_its_expected_result() {
            $crate::native::cases_hold(&$policy, DIRECTORY);
        }

        #[test]
        fn every_rule_is_accepted_and_rejected_by_a_case() {
            $crate::native::rules_have_cases(&$policy, DIRECTORY);
        }

        #[test]
        fn a_rule_that_is_off_fails_one_of_its_cases() {
            $crate::native::rules_can_be_off(&$policy, DIRECTORY);
        }

        #[test]
        fn every_rule_is_listed_and_documented() {
            $crate::native::rules_are_documented(&$policy, DIRECTORY);
        }

        #[test]
        fn a_fix_satisfies_its_rule_and_violates_no_other() {
            $crate::native::fixes_hold(&$policy, DIRECTORY);
        }

        #[test]
        fn any_value_in_any_field_causes_no_panic() {
            $crate::native::nothing_brings_it_down(&$policy, DIRECTORY);
        }
    };
}

/// All cases of a policy.
#[must_use]
pub fn cases(policy: &Policy, crate_directory: &str) -> Vec<Case> {
    let kinds: Vec<_> = policy.routes.iter().map(|route| route.on.kind).collect();
    crate::read(&Path::new(crate_directory).join("cases"), &kinds)
}

fn document(value: &Value) -> Document {
    Document::parse(&value.to_string()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

fn request(case: &Case) -> Request<'static> {
    let [group, version, resource, kind] = case.resource();
    let (name, namespace) = case.key();
    RequestParts {
        uid: "1".to_owned(),
        operation: match case.operation {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            _ => Operation::Delete,
        },
        kind: GroupVersionKind { group: group.clone(), version: version.clone(), kind },
        resource: GroupVersionResource { group, version, resource },
        sub_resource: case.request.sub_resource.clone().unwrap_or_default(),
        name,
        namespace,
        user: UserInfo {
            username: case.request.user.clone().unwrap_or_default(),
            uid: String::new(),
            groups: case.request.groups.clone(),
        },
        dry_run: false,
    }
    .into()
}

/// What the policy answers.
#[must_use]
pub fn verdict(policy: &Policy, case: &Case) -> Verdict {
    let request = request(case);
    let settings = document(&case.settings);
    let (object, old) = (case.object.as_ref().map(document), case.old.as_ref().map(document));
    let routes = policy.routes_of(&request, &settings);
    let ask = || policy.validate(&request, routes, object.as_ref(), old.as_ref(), &settings);
    let Some(objects) = &case.cluster else { return ask() };
    let mut cluster = Cluster::new(&policy.reads(), &settings);
    for object in objects {
        if let Some(answer) = crate::server_version(object) {
            cluster.insert("serverversions", &document(&answer));
            continue;
        }
        let kind = object["kind"].as_str().unwrap_or_else(|| panic!("{}: a kind", case.name));
        cluster.insert(&plural(kind), &document(object));
    }
    cluster.run(ask)
}

fn rule<'p>(policy: &'p Policy, id: &str) -> &'p Rule {
    let found = policy.all_rules().into_iter().find(|rule| rule.id == id);
    found.unwrap_or_else(|| panic!("{} has no rule {id}", policy.name))
}

/// What `cargo xtask new-rule` leaves to be written.
const TODO: &str = "TODO";

/// What is wrong with the answer.
#[must_use]
pub fn case_mismatch(policy: &Policy, case: &Case) -> Option<String> {
    if case.name.starts_with(TODO) {
        return Some(format!("{}: write the case \"{}\"", case.rule, case.name));
    }
    let answer = answer(verdict(policy, case));
    let own = |id: &str| level(rule(policy, id).level);
    let diff = case.compare(&answer, |id| Some(own(id)));
    if diff.is_empty() {
        return None;
    }
    let finding = |mark: &str, finding: &Violation| {
        let Violation { rule, level, field: at, message, .. } = finding;
        let level = level.as_deref().unwrap_or_else(|| own(rule));
        let at = at.as_deref().map(|at| format!(" {at}:")).unwrap_or_default();
        format!("{mark} {level} {rule}{at} {message}")
    };
    let missing = diff.missing.iter().map(|one| finding("- expected", one));
    let found = diff.unexpected.iter().map(|one| finding("+ found", one));
    let lines: Vec<_> = missing.chain(found).chain(diff.other_differences).collect();
    let Location { file, line, .. } = &case.location;
    Some(format!("{file}:{line}: {}: {}\n  {}", case.rule, case.name, lines.join("\n  ")))
}

fn level(level: Level) -> &'static str {
    if level == Level::Deny { "deny" } else { "warn" }
}

/// What a verdict says, as cases expect it.
fn answer(verdict: Verdict) -> PolicyResult {
    let fixes = verdict
        .violations
        .iter()
        .filter_map(|found| Some((found.rule.clone(), crate::fix::convert(found.fix.as_ref()?))));
    let fixes = fixes.collect();
    let finding = |found: opgate_sdk::Violation| Violation {
        rule: found.rule,
        level: Some(level(found.level).to_owned()),
        field: Some(found.field),
        message: found.message,
        is_prefix: false,
    };
    let notes = verdict.audit_annotations.into_iter().map(|note| (note.key, note.value));
    PolicyResult {
        violations: verdict.violations.into_iter().map(finding).collect(),
        skipped: verdict.skipped.into_iter().map(|skipped| skipped.rule).collect(),
        audit_annotations: notes.collect(),
        reason: verdict.reason,
        fixes,
    }
}

/// Whether the rule of a case evaluates its request: one of the routes is for the rule, and the rule is on.
fn evaluates(policy: &Policy, case: &Case) -> bool {
    let (request, settings) = (request(case), document(&case.settings));
    let rule = rule(policy, &case.rule);
    let routes = policy.routes_of(&request, &settings);
    let is_matched = (0_u32..).zip(policy.routes).any(|(number, route)| {
        (routes >> number) & 1 == 1 && rule.applies_to(route.on, request.operation())
    });
    let review = Review { request: &request, object: None, old: None, settings: &settings };
    is_matched && Report::new(review).is_on(rule)
}

/// Why an accepted case does not show what it says: a case that its rule does not evaluate would hold whatever the
/// rule did.
fn evaluation_mismatch(policy: &Policy, case: &Case) -> Option<String> {
    let why = match (case.expects, evaluates(policy, case), case.is_evaluated) {
        (Expectation::Accept, false, true) => {
            "vacuous: the rule does not evaluate the request; change the case, or write `matches: false`"
        }
        (Expectation::Accept, true, false) => "it has `matches: false`, and the rule evaluates it",
        _ => return None,
    };
    let Location { file, line, .. } = &case.location;
    Some(format!("{file}:{line}: {}: {}: {why}", case.rule, case.name))
}

/// Every case finds what it says.
pub fn cases_hold(policy: &Policy, directory: &str) {
    let cases = cases(policy, directory);
    let mismatch = |case| case_mismatch(policy, case).or_else(|| evaluation_mismatch(policy, case));
    let wrong: Vec<_> = cases.iter().filter_map(mismatch).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Every fix of a rejected case applies to its object and satisfies the rule, and no rule has a new violation.
pub fn fixes_hold(policy: &Policy, directory: &str) {
    let mut wrong = Vec::new();
    for case in cases(policy, directory).iter().filter(|case| case.expects == Expectation::Reject) {
        if let Err(why) = crate::fix::check(case, &|case| verdict(policy, case)) {
            let Location { file, line, .. } = &case.location;
            wrong.push(format!("{file}:{line}: {}: {why}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every rule has its cases, and every case a rule.
pub fn rules_have_cases(policy: &Policy, directory: &str) {
    let cases = cases(policy, directory);
    for case in &cases {
        let _ = rule(policy, &case.rule);
    }
    for rule in policy.all_rules() {
        let has = |expects| cases.iter().any(|c| c.rule == rule.id && c.expects == expects);
        assert!(has(Expectation::Accept), "{} has no case that it accepts", rule.id);
        assert!(has(Expectation::Reject), "{} has no case that it rejects", rule.id);
        if rule.needs_cluster() {
            assert!(has(Expectation::Skip), "{} has no case in which it is skipped", rule.id);
        }
    }
}

/// The case with a level for its rule.
fn with_level(case: &Case, level: &str) -> Case {
    let mut case = case.clone();
    case.settings["rules"][&case.rule] = json!(level);
    case
}

/// Where a rule is off, it finds nothing, and a case that it rejects fails.
pub fn rules_can_be_off(policy: &Policy, directory: &str) {
    for case in cases(policy, directory).iter().filter(|case| case.expects == Expectation::Reject) {
        let case = with_level(case, "off");
        assert!(case_mismatch(policy, &case).is_some(), "{}: {}", case.rule, case.name);
        let found = verdict(policy, &case);
        let own = found.violations.iter().filter(|violation| violation.rule == case.rule);
        assert_eq!(own.count(), 0, "{}: {}: it is off", case.rule, case.name);
    }
}

/// Whether there is a text, and no part of it is left to be written.
fn is_written(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(TODO)
}

/// Where a rule is evaluated in part only, before the other headings.
const GAP_HEADING: &str = "# Gap";
const HEADINGS: [&str; 4] = ["# Why", "# Remediation", "# Accepted", "# Rejected"];

/// Every `rule!` in the sources is among the rules, and has what the page of a rule shows.
pub fn rules_are_documented(policy: &Policy, directory: &str) {
    let rules = policy.all_rules();
    let mut sources = vec![Path::new(directory).join("src")];
    while let Some(directory) = sources.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources.push(path);
            } else {
                check_declared(&path, &rules);
            }
        }
    }
    let mut ids = BTreeSet::new();
    for rule in rules {
        assert!(ids.insert(rule.id), "{} is there twice", rule.id);
        let title = rule.title;
        assert!(is_written(title) && !title.ends_with('.'), "{}: the title is {title:?}", rule.id);
        assert!(!rule.sources.is_empty(), "{} has no source", rule.id);
        assert!(rule.sources.iter().all(|source| is_written(source)), "{}", rule.id);
        let mut rest = rule.docs;
        let mut what = "what must hold";
        for heading in HEADINGS {
            let Some((text, after)) = rest.split_once(&format!(" {heading}\n")) else {
                panic!("{}: the documentation has no {heading}", rule.id);
            };
            assert!(is_written(text), "{}: nothing under {what}", rule.id);
            (rest, what) = (after, heading);
        }
        assert!(is_written(rest), "{}: nothing under {what}", rule.id);
        if let Some((_, gap)) = rule.docs.split_once(&format!(" {GAP_HEADING}\n")) {
            let text = gap.split_once(" # Why\n").map(|(text, _)| text);
            assert!(
                text.is_some_and(is_written),
                "{}: {GAP_HEADING} says nothing before # Why",
                rule.id
            );
        }
    }
}

/// The rules that a file declares.
fn check_declared(path: &PathBuf, rules: &[&Rule]) {
    let text = fs::read_to_string(path).expect("a source");
    let mut inside = false;
    for line in text.lines() {
        inside |= line == "rule! {" || line == "opgate_sdk::rule! {";
        let name = line.trim_start().trim_start_matches("pub(crate) ").split_once(": ");
        if let Some((name, rest)) = name.filter(|_| inside && !line.trim_start().starts_with("//"))
            && (rest.starts_with("Deny {") || rest.starts_with("Warn {"))
        {
            inside = false;
            let id = name.replace('_', "-");
            let listed = rules.iter().any(|rule| rule.id == id);
            assert!(listed, "{}: {id} is not among the rules of its module", path.display());
        }
    }
}

/// Every value inside `value`, as JSON pointers.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    found.push(pointer.to_owned());
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                pointers(inner, &format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                pointers(inner, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Number of mutated requests that are evaluated for a policy: more take longer and find no more.
const MAX_EVALUATIONS: usize = 8_000;

/// Whatever stands in a place, the policy answers, with rules that it has.
pub fn nothing_brings_it_down(policy: &Policy, directory: &str) {
    let replacements =
        [json!(null), json!(true), json!(-1), json!("x/\u{0}"), json!([[null]]), json!({"": {}})];
    let rules: BTreeSet<_> = policy.all_rules().iter().map(|rule| rule.id).collect();
    let cases = cases(policy, directory);
    let mut mutations = Vec::new();
    for case in &cases {
        for (is_old, value) in [(false, &case.object), (true, &case.old)] {
            let mut found = Vec::new();
            if let Some(value) = value {
                pointers(value, "", &mut found);
            }
            mutations.extend(found.into_iter().map(|pointer| (case, is_old, pointer)));
        }
    }
    // Evenly over all cases, and with every replacement in its turn.
    let step = (mutations.len() * replacements.len()).div_ceil(MAX_EVALUATIONS).max(1);
    for number in (0..mutations.len() * replacements.len()).step_by(step) {
        let (case, is_old, pointer) = &mutations[number / replacements.len()];
        let replacement = &replacements[number / step % replacements.len()];
        let mut mutated = (*case).clone();
        // The request keeps its identity.
        let [_, version, resource, _] = case.resource();
        mutated.request.resource = Some(resource);
        mutated.request.version = Some(version);
        let value = if *is_old { &mut mutated.old } else { &mut mutated.object };
        let place = value.as_mut().and_then(|value| value.pointer_mut(pointer));
        *place.expect("a place") = replacement.clone();
        for violation in verdict(policy, &mutated).violations {
            assert!(rules.contains(violation.rule.as_str()), "{}", violation.rule);
        }
    }
}
