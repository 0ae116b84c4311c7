//! Which requests a policy is asked about: `match` of the configuration, by names and by labels of
//! namespaces.

use std::path::Path;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Snapshot, Source};
use opgate::policy::{Configuration, PolicySet};
use opgate::review::{self, Review};
use opgate_document::Document;
use serde_json::{Value, json};

fn configuration(scope: &str) -> Configuration {
    let text = format!(
        "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies: [{{name: operator-group, match: {scope}}}]\n"
    );
    Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS).unwrap()
}

fn group(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": name, "namespace": namespace,
            "annotations": {"olm.providedAPIs": "Goose.v1.birds.com"}},
        "spec": {"targetNamespaces": ["shared"]},
    })
}

/// What a policy that is asked denies: two groups that provide the same API.
fn create(namespace: &str, name: &str) -> String {
    let group_version = |member: &str, name: &str| json!({"group": "operators.coreos.com", "version": "v1", member: name});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "CREATE", "name": name, "namespace": namespace, "dryRun": true,
            "kind": group_version("kind", "OperatorGroup"),
            "resource": group_version("resource", "operatorgroups"),
            "userInfo": {"username": "someone"}, "object": group(namespace, name),
        },
    });
    review.to_string()
}

async fn is_denied(set: &PolicySet, body: String) -> bool {
    let text = review::text(body.into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    set.decide(&review, None, deadline, &()).await.unwrap().denial.is_some()
}

/// Files: the labels of two namespaces are known.
fn fill_snapshot(set: &PolicySet) {
    let mut snapshot = Snapshot::default();
    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    for object in [
        group("rival", "rival"),
        namespace("team-a", json!({"team": "a"})),
        namespace("team-b", json!({"team": "b"})),
    ] {
        snapshot.add(Document::parse(&object.to_string()).unwrap()).unwrap();
    }
    snapshot.replace_state(set.cluster());
}

#[tokio::test]
async fn policy_is_evaluated_only_within_its_scope() {
    const TEAM_SELECTOR: &str = "{namespaceSelector: {matchLabels: {team: a}}}";
    for (scope, namespace, name, expected) in [
        ("{}", "team-a", "g", true),
        ("{namespaces: {include: [team-*]}}", "team-a", "g", true),
        ("{namespaces: {include: [team-*]}}", "other", "g", false),
        ("{namespaces: {exclude: [team-*]}}", "team-a", "g", false),
        ("{namespaces: {include: [team-*], exclude: [\"*-a\"]}}", "team-a", "g", false),
        ("{namespaces: {include: [team-*], exclude: [\"*-a\"]}}", "team-b", "g", true),
        ("{names: {include: [g, h]}}", "team-a", "g", true),
        ("{names: {exclude: [\"*g*\"]}}", "team-a", "g", false),
        (TEAM_SELECTOR, "team-a", "g", true),
        (TEAM_SELECTOR, "team-b", "g", false),
        // The labels of the namespace are not known, so the policy evaluates the request.
        (TEAM_SELECTOR, "unknown", "g", true),
        // API servers set this label themselves.
        (
            "{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team-b]}]}}",
            "team-b",
            "g",
            false,
        ),
    ] {
        let set =
            PolicySet::load(&configuration(scope), None, 64, ClusterOptions::of(Source::Snapshot))
                .unwrap();
        fill_snapshot(&set);
        let asked = is_denied(&set, create(namespace, name)).await;
        assert_eq!(asked, expected, "{scope}: {namespace}/{name}");
    }
}

/// The API server has selected the requests that it sends. A watch that lags behind must not
/// exclude them.
#[tokio::test]
async fn namespace_selector_is_not_evaluated_for_live_requests() {
    let configuration = configuration("{namespaceSelector: {matchLabels: {team: a}}}");
    let set = PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Live)).unwrap();
    let kinds: Vec<_> = set.cluster().caches().iter().map(|kind| kind.name()).collect();
    let reviewed = set.policies().iter().map(|policy| {
        let body = create("team-b", "g");
        let text = review::text(body.into_bytes()).unwrap();
        let review = Review::read(&text).unwrap();
        set.resolve_namespace_labels(&review);
        policy.matches(&review)
    });
    assert!(reviewed.into_iter().all(|asked| asked), "{kinds:?}");
}

#[test]
fn invalid_scope_reports_location_and_hint() {
    for (scope, expected) in [
        ("{namespaces: [a]}", "invalid type: sequence, expected an object"),
        (
            "{namespaceSelector: {matchLabel: {a: b}}}",
            "unknown member \"matchLabel\" of a label selector; did you mean \"matchLabels\"?",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: a, operator: is}]}}",
            "\"is\" is not a valid label selector operator",
        ),
        ("{names: {include: [\"a b\"]}}", "\"a b\" fits no name"),
        ("{namespace: {}}", "unknown field `namespace`"),
    ] {
        let text = format!(
            "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies: [{{name: operator-group, match: {scope}}}]\n"
        );
        let parsed = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS);
        let error = parsed.unwrap_err().to_string();
        assert!(error.starts_with("opgate.yaml:3:") && error.contains(expected), "{error}");
    }
}
