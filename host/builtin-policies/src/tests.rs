//! Tests of the embedded policies, and of the request memory that a decision uses over time.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate_admission::cluster::{ClusterOptions, Source};
use opgate_admission::evaluation::{DecideError, Observer};
use opgate_admission::policy::{Configuration, Decision, Policy, PolicySet, response};
use opgate_admission::review::{self, Review};
use opgate_document::{Account, Charge, Text};
use parking_lot::Mutex;

use super::BUILTINS;

/// Notes what the request holds whenever a policy has answered.
struct MemoryRecorder<'a> {
    account: &'a Account,
    used: Mutex<Vec<usize>>,
    /// Others take what there is from then on.
    exhausts_budget: bool,
}

impl Observer for MemoryRecorder<'_> {
    fn on_call(&self, _: &Policy, _: Duration) {
        self.used.lock().push(self.account.used());
        while self.exhausts_budget && self.account.try_charge(64) {}
    }
}

/// Violations warn, and the objects that policies query are stored.
fn set() -> PolicySet {
    let text = r#"{
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "policies": [
            {"name": "constraint-limits", "mode": "warn", "limits": {"time": "20s"}},
            {"name": "operator-group", "mode": "audit"},
        ],
    }"#;
    let configuration = Configuration::parse(Path::new("opgate.yaml"), text, BUILTINS).unwrap();
    PolicySet::load(&configuration, None, 1, ClusterOptions::of(Source::Live)).unwrap()
}

/// A CSV with this number of violations, each of which repeats 4,000 bytes of it.
fn verbose_csv(violations: usize, account: &Arc<Account>) -> Arc<Text> {
    let unknown = |n: usize| {
        let name = format!("{n}{}", "x".repeat(4_000));
        serde_json::json!({"type": "olm.constraint", "value": {name: {}}})
    };
    let properties: Vec<_> = (0..violations).map(unknown).collect();
    let properties = serde_json::json!({"properties": properties}).to_string();
    let kind = serde_json::json!({
        "group": "operators.coreos.com", "version": "v1alpha1", "kind": "ClusterServiceVersion",
    });
    let resource = serde_json::json!({
        "group": "operators.coreos.com", "version": "v1alpha1",
        "resource": "clusterserviceversions",
    });
    let review = serde_json::json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1", "kind": kind, "resource": resource, "name": "a", "namespace": "ns",
            "operation": "CREATE", "userInfo": {"username": "admin"},
            "object": {
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "ClusterServiceVersion",
                "metadata": {
                    "name": "a", "namespace": "ns", "uid": "1",
                    "annotations": {"operatorframework.io/properties": properties},
                },
                "spec": {},
            },
        },
    });
    review::charged_text(review.to_string().into_bytes(), Charge::on(account)).unwrap()
}

async fn decide(
    set: &PolicySet,
    text: &Arc<Text>,
    notes: &MemoryRecorder<'_>,
) -> Result<Decision, DecideError> {
    let review = Review::read(text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    set.decide(&review, Some("constraint-limits"), deadline, notes).await
}

/// Embedded components match their digests and the output of the build.
#[test]
fn embedded_components_match_their_digests() {
    for builtin in BUILTINS {
        let component = builtin.component();
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &component);
        let hex: Vec<_> = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(builtin.digest, format!("sha256:{}", hex.concat()), "{}", builtin.name);
        assert!(builtin.deflated.len() * 2 < component.len(), "{}", builtin.name);
    }
}

#[tokio::test]
async fn completed_decision_releases_its_memory() {
    let set = set();
    for _ in 0..20 {
        let account = Account::new(64 << 20);
        // Large enough to be evaluated on a worker thread.
        let text = verbose_csv(500, &account);
        let notes =
            MemoryRecorder { account: &account, used: Mutex::default(), exhausts_budget: false };
        let before = account.used();
        drop(decide(&set, &text, &notes).await.unwrap());
        assert_eq!(account.used(), before);
    }
}

#[tokio::test]
async fn decision_without_memory_for_response_is_not_reserved() {
    let set = set();
    for takes_all in [true, false] {
        let whole = Account::new(64 << 20);
        let account = Account::child(&whole, usize::MAX);
        let text = verbose_csv(3, &account);
        let notes = MemoryRecorder {
            account: &account,
            used: Mutex::default(),
            exhausts_budget: takes_all,
        };
        let decided = decide(&set, &text, &notes).await;
        let review = Review::read(&text).unwrap();
        // So do others, of what the request has given back.
        while takes_all && account.try_charge(64) {}
        let is_answered = decided.as_ref().is_ok_and(|decision| {
            assert_eq!(decision.violations.len(), 3);
            let answer = response::body(&review, decision).len();
            assert_eq!(response::body_size(&review, decision), answer);
            decision.clone().take_response_charge().is_some_and(|room| room.bytes() >= answer)
        });
        assert_eq!(is_answered, !takes_all);
        let reserved = set.cluster().caches().iter().map(|kind| kind.status().reservations);
        assert_eq!(reserved.sum::<usize>(), usize::from(is_answered));
    }
}

#[tokio::test]
async fn violations_are_charged_to_the_request() {
    let set = set();
    for (violations, most) in [(0, 0), (20, 4)] {
        let whole = Account::new(64 << 20);
        let account = Account::child(&whole, usize::MAX);
        let text = verbose_csv(violations, &account);
        let notes =
            MemoryRecorder { account: &account, used: Mutex::default(), exhausts_budget: false };
        let before = account.used();
        let decision = decide(&set, &text, &notes).await.unwrap();
        assert_eq!(decision.violations.len(), violations);
        let texts = decision.violations.iter().map(|v| v.message.len() + v.field.len());
        let bytes: usize = texts.sum();
        let held = notes.used.lock()[0] - before;
        println!("{violations} violations of {bytes} bytes: {held} bytes are held");
        // As they were found, as they are decided, as text and as causes.
        assert!(held >= bytes * most, "{held} of {bytes}");
        drop(decision);
    }
}
