//! Updates that a rule accepts, although it rejects the object that they write.
//!
//! ```text
//! accepted case, rejected case of the same object ─▶ UPDATE from one to the other ─▶ accepted? a finding
//! ```
//!
//! A rule that compares only one of the fields that it evaluates with the old object has this mistake: an update of
//! another field, such as the removal of an approval, passes.

use std::collections::BTreeMap;

use opgate_casefile::{Case, Expectation};

use super::lint::Finding;
use crate::cli::policy::test::run::Runner;
use opgate_text::one_line;

/// Maximum number of updates that are evaluated.
const MAX_UPDATES: usize = 500;

/// Maximum number of updates of one rejected case.
const MAX_UPDATES_OF_CASE: usize = 8;

/// Returns a finding for each rule that accepts such an update.
pub(super) fn find_accepted_updates(runner: &mut Runner, cases: &[Case]) -> Vec<Finding> {
    let mut findings: BTreeMap<&str, Finding> = BTreeMap::new();
    let mut updates = 0;
    for rejected in cases.iter().filter(|case| is_creation(case, Expectation::Reject)) {
        if findings.contains_key(rejected.rule.as_str()) || !rejects(runner, rejected) {
            continue;
        }
        let accepted = cases.iter().filter(|accepted| is_pair(accepted, rejected));
        for accepted in accepted.take(MAX_UPDATES_OF_CASE) {
            if updates >= MAX_UPDATES {
                return findings.into_values().collect();
            }
            updates += 1;
            let update =
                Case { operation: "UPDATE", old: accepted.object.clone(), ..rejected.clone() };
            if accepts(runner, &update) {
                let (rule, from, to) = (&rejected.rule, &accepted.name, &rejected.name);
                let text = format!(
                    "{rule} accepts the update from the object of its accepted case {from:?} to that of its rejected case {to:?}: compare every field that it evaluates with the old object, not only the reported one"
                );
                let finding = Finding::new("ratcheting", one_line(&text, 1_024));
                findings.insert(&rejected.rule, finding);
                break;
            }
        }
    }
    findings.into_values().collect()
}

fn is_creation(case: &Case, expects: Expectation) -> bool {
    case.expects == expects && case.operation == "CREATE" && case.is_evaluated
}

/// Reports whether both cases differ in the object alone.
fn is_pair(accepted: &Case, rejected: &Case) -> bool {
    is_creation(accepted, Expectation::Accept)
        && accepted.rule == rejected.rule
        && accepted.resource() == rejected.resource()
        && accepted.key() == rejected.key()
        && accepted.request == rejected.request
        && accepted.settings == rejected.settings
        && accepted.cluster == rejected.cluster
        && accepted.object != rejected.object
}

fn rejects(runner: &mut Runner, case: &Case) -> bool {
    let decision = runner.decide(case);
    decision.is_ok_and(|decision| decision.result.violations.iter().any(|v| v.rule == case.rule))
}

/// Reports whether the rule of a case evaluates its request and finds nothing.
fn accepts(runner: &mut Runner, case: &Case) -> bool {
    runner.decide(case).is_ok_and(|decision| {
        let result = &decision.result;
        decision.is_evaluated()
            && !result.skipped.contains(&case.rule)
            && result.violations.iter().all(|violation| violation.rule != case.rule)
    })
}
