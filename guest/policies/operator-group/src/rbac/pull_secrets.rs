//! Whether an account can read and write the pull secrets of the Operators that it installs.

use std::collections::BTreeSet;

use opgate_sdk::Document;
use opgate_sdk::cluster::Query;
use opgate_sdk::is_terminating;

use super::budget::{Budget, CALL_STEPS};
use super::granted::GrantedRules;
use super::policy_rule::PolicyRule;
use super::read::{for_each, length};
use super::subjects::Account;
use super::{SearchError, SearchResult};
use crate::reads::CSVS;

/// Whether an Operator of the namespace needs a pull secret that the account cannot read from OLM's
/// namespace, or cannot write in its own.
pub(crate) fn lacks_pull_secrets(namespace: &str, account: &str) -> SearchResult<bool> {
    match find_lacking(namespace, account) {
        Ok(lacks) => SearchResult::of(lacks, Ok(())),
        Err(why) => SearchResult::of(false, Err(why)),
    }
}

fn find_lacking(namespace: &str, account: &str) -> Result<bool, SearchError> {
    let mut budget = Budget::new();
    let mut secrets = BTreeSet::new();
    let query = Query { namespace: Some(namespace), ..Query::default() };
    for_each(&CSVS, query, &mut budget, |csv, budget| pull_secrets(&csv, &mut secrets, budget))?;
    if secrets.is_empty() {
        return Ok(false);
    }
    let granted = GrantedRules::load(&Account::new(namespace, account), &mut budget)?;
    let wanted = |verbs: &[&str], names: BTreeSet<String>| PolicyRule {
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        groups: [String::new()].into(),
        resources: ["secrets".to_owned()].into(),
        names,
        ..PolicyRule::default()
    };
    let (fetching, writing) = (granted.in_cluster(), granted.in_namespace());
    Ok(fetching.find_missing(&wanted(&["get"], secrets.clone()), "", &mut budget)?.is_some()
        || writing.find_missing(&wanted(&["create"], BTreeSet::new()), "", &mut budget)?.is_some()
        || writing.find_missing(&wanted(&["update", "patch"], secrets), "", &mut budget)?.is_some())
}

/// The pull secrets that an Operator's deployments name. Copies of a CSV, and those that are being
/// deleted, install nothing.
fn pull_secrets(
    csv: &Document,
    secrets: &mut BTreeSet<String>,
    budget: &mut Budget,
) -> Result<(), SearchError> {
    // The read excludes OLM's label, so the result contains no copies.
    if is_terminating(csv) {
        return Ok(());
    }
    let deployments = "/spec/install/spec/deployments";
    for deployment in 0..length(csv, deployments) {
        budget.spend(CALL_STEPS)?;
        let list = format!("{deployments}/{deployment}/spec/template/spec/imagePullSecrets");
        for index in 0..length(csv, &list) {
            budget.spend(CALL_STEPS)?;
            secrets.extend(csv.text(&format!("{list}/{index}/name")).filter(|n| !n.is_empty()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn pull_secrets_can_be_fetched_and_written() {
        let secrets = |verbs: &str| {
            format!(r#"{{"apiGroups":[""],"resources":["secrets"],"verbs":[{verbs}]}}"#)
        };
        let csv = |labels: &str, pull: &str| {
            let pod = format!(r#"{{"template":{{"spec":{{"imagePullSecrets":[{pull}]}}}}}}"#);
            let spec = format!(r#"{{"deployments":[{{"name":"d","spec":{pod}}}]}}"#);
            let metadata = format!(r#"{{"name":"c","namespace":"scoped","labels":{{{labels}}}}}"#);
            let csv =
                format!(r#"{{"metadata":{metadata},"spec":{{"install":{{"spec":{spec}}}}}}}"#);
            ("clusterserviceversions", csv)
        };
        let fetch = in_cluster(&secrets(r#""get""#));
        let write = in_namespace(&secrets(r#""create","update","patch""#));
        let pull = r#"{"name":"p"}"#;
        let lacks = |objects: &[&[(&'static str, String)]]| {
            let objects = objects.concat();
            with_objects(&objects, || lacks_pull_secrets("scoped", "scoped")).complete().unwrap()
        };
        let uses = [csv("", pull)];
        assert!(!lacks(&[&uses, &fetch, &write]), "as documented");
        assert!(lacks(&[&uses]), "without any permission");
        assert!(lacks(&[&uses, &fetch]), "cannot write");
        assert!(lacks(&[&uses, &write]), "cannot fetch");
        assert!(lacks(&[&uses, &in_namespace(ALL)]), "a Role does not reach OLM's namespace");
        assert!(!lacks(&[&uses, &in_cluster(ALL)]), "everything");
        let only = |name: &str| {
            in_cluster(&secrets(r#""get""#).replacen(
                '{',
                &format!(r#"{{"resourceNames":["{name}"],"#),
                1,
            ))
        };
        assert!(!lacks(&[&uses, &only("p"), &write]), "the one that is used");
        assert!(lacks(&[&uses, &only("q"), &write]), "another one");
        for unused in [csv("", ""), csv("", "null,1,{}"), csv(r#""olm.copiedFrom":"x""#, pull)] {
            assert!(!lacks(&[&[unused]]), "no pull secrets");
        }
    }
}
