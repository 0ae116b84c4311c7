//! Events on an API server in memory, with time that passes only while a test waits.

use std::sync::Arc;
use std::time::Duration;

use opgate_admission::policy::{Decision, Denial as DenialStatus, Effect, Violation};
use opgate_admission::review::{self, Review};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::*;
use crate::api::{Kind, text};
use crate::fake::{Connectivity, FakeApiServer};

fn decision(rules: &[&str], message: &str) -> Decision {
    let mut decision = Decision::default();
    decision.denial = Some(DenialStatus {
        code: 403,
        message: message.to_owned(),
        reason: "Forbidden".to_owned(),
        causes: Vec::new(),
    });
    let violation = |rule: &&str| Violation {
        policy: "p".to_owned(),
        rule: (*rule).to_owned(),
        effect: Effect::Deny,
        would_deny: true,
        field: String::new(),
        message: message.to_owned(),
        logical_location: Vec::new(),
        fix: None,
    };
    decision.violations = rules.iter().map(violation).collect();
    decision
}

/// Calls `read` with the review of a request.
fn with_review<T>(request: &Value, read: impl FnOnce(&Review<'_>) -> T) -> T {
    let mut request = request.clone();
    request["uid"] = json!("u");
    if request["resource"].is_null() {
        request["resource"] = json!({"group": "g", "version": "v1", "resource": "things"});
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request,
    });
    let text = review::text(review.to_string().into_bytes()).unwrap();
    read(&Review::read(&text).unwrap())
}

fn request(namespace: &str, name: &str) -> Value {
    json!({
        "operation": "CREATE", "namespace": namespace, "name": name,
        "kind": {"group": "g", "version": "v1", "kind": "Thing"},
        "object": {"metadata": {"name": name}},
    })
}

/// A server, with the API server that it writes to.
struct Setup {
    api: FakeApiServer,
    events: DenialEvents,
}

impl Setup {
    fn new() -> Self {
        Self::of(FakeApiServer::default(), "a")
    }

    fn of(api: FakeApiServer, replica: &str) -> Self {
        let events = DenialEvents::new(Arc::new(api.client(replica)), replica);
        Self { api, events }
    }

    fn deny(&self, namespace: &str, name: &str) {
        self.deny_request(&request(namespace, name));
    }

    fn deny_request(&self, request: &Value) {
        with_review(request, |review| self.events.record(review, &decision(&["R-1"], "no")));
    }

    async fn run_for(&self, seconds: u64) {
        tokio::select! {
            () = self.events.run() => {}
            () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
        }
    }

    /// All Events in the order of their first write.
    fn stored(&self, namespace: &str) -> Vec<Value> {
        let mut names: Vec<_> = self.api.writes().into_iter().map(|(_, _, name)| name).collect();
        names.dedup();
        let stored = |name: &String| self.api.stored(Kind::Event, namespace, name);
        names.iter().filter_map(stored).collect()
    }

    /// Denials that were written, dropped and failed.
    fn counts(&self) -> [u64; 3] {
        let Counts { written, dropped, failed, .. } = &self.events.counts;
        [written, dropped, failed].map(Counter::get)
    }
}

fn count(event: &Value) -> u64 {
    event.pointer("/series/count").map_or(1, |count| count.as_u64().unwrap())
}

#[tokio::test(start_paused = true)]
async fn event_has_the_facts_of_the_denial() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases.json")).unwrap();
    for case in cases {
        let name = &case["name"];
        let rules: Vec<_> =
            case["rules"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap()).collect();
        let setup = Setup::new();
        let decision = decision(&rules, case["message"].as_str().unwrap());
        with_review(&case["request"], |review| setup.events.record(review, &decision));
        setup.run_for(5).await;
        let expected = &case["event"];
        let Some(namespace) = expected["namespace"].as_str() else {
            assert_eq!(setup.api.writes(), [], "{name}");
            continue;
        };
        let [event] = &setup.stored(namespace)[..] else { panic!("{name}: one Event") };
        for member in ["regarding", "related", "action", "note"] {
            assert_eq!(event[member], expected[member], "{name}: {member}");
        }
        let plain = ["type", "reason", "reportingController", "reportingInstance"];
        assert_eq!(
            plain.map(|member| event[member].as_str().unwrap()),
            ["Warning", "Denied", "opgate.dev/opgate", "a"],
            "{name}"
        );
        assert_eq!(event["series"], Value::Null, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn allowed_requests_have_no_event() {
    let setup = Setup::new();
    let mut warned = decision(&["R-1"], "no");
    warned.denial = None;
    with_review(&request("a", "b"), |review| setup.events.record(review, &warned));
    setup.run_for(5).await;
    assert_eq!(setup.api.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn repeated_denials_are_one_event_with_a_count() {
    let setup = Setup::new();
    for _ in 0..100 {
        for _ in 0..10 {
            setup.deny("team-a", "web");
        }
        setup.run_for(3).await;
    }
    // Until the interval of the series has passed.
    setup.run_for(600).await;
    let [event] = &setup.stored("team-a")[..] else { panic!("one Event") };
    assert_eq!((count(event), setup.counts()), (1_000, [1_000, 0, 0]));
    assert!(text(event, "/series/lastObservedTime") >= text(event, "/eventTime"), "{event}");
    assert!(setup.api.writes().len() <= 12, "{:?}", setup.api.writes());
}

#[tokio::test(start_paused = true)]
async fn attempts_with_generated_names_are_one_event() {
    let setup = Setup::new();
    for attempt in 0..5 {
        let mut pod = request("team-a", &format!("web-{attempt}"));
        pod["object"]["metadata"]["generateName"] = json!("web-");
        setup.deny_request(&pod);
    }
    setup.deny("team-a", "web-0");
    setup.run_for(5).await;
    let counts: Vec<_> = setup.stored("team-a").iter().map(count).collect();
    assert_eq!(counts.iter().sum::<u64>(), 6);
    assert_eq!(counts.len(), 2, "the generated names, and the other name");
}

#[tokio::test(start_paused = true)]
async fn servers_add_to_the_same_event() {
    let one = Setup::new();
    let other = Setup::of(one.api.clone(), "b");
    for _ in 0..3 {
        one.deny("team-a", "web");
        other.deny("team-a", "web");
        one.run_for(10).await;
        other.run_for(10).await;
    }
    // One that has expired begins again.
    let [event] = &one.stored("team-a")[..] else { panic!("one Event") };
    assert_eq!(count(event), 6);
    one.api.remove(Kind::Event, "team-a", text(event, "/metadata/name"));
    other.deny("team-a", "web");
    other.run_for(600).await;
    let [event] = &one.stored("team-a")[..] else { panic!("one Event") };
    assert_eq!((count(event), one.counts(), other.counts()), (1, [3, 0, 0], [4, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn foreign_event_of_the_same_name_stays_unchanged() {
    let setup = Setup::new();
    setup.deny("team-a", "web");
    setup.run_for(1).await;
    let mut event = setup.stored("team-a").remove(0);
    event["reportingController"] = json!("example.com/other");
    setup.api.put(Kind::Event, "team-a", event);
    setup.deny("team-a", "web");
    setup.run_for(5).await;
    assert_eq!(count(&setup.stored("team-a")[0]), 1);
    assert_eq!(setup.counts(), [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn flood_of_one_namespace_hides_no_event_of_another() {
    let setup = Setup::new();
    for number in 0..1_000 {
        setup.deny("loud", &format!("thing-{number}"));
    }
    setup.deny("quiet", "web");
    setup.run_for(1).await;
    assert_eq!(setup.stored("quiet").len(), 1);
    assert_eq!(setup.stored("loud").len(), 10);
    assert_eq!(setup.counts(), [11, 990, 0]);
    // Later there is room for more, but not for all.
    setup.run_for(600).await;
    for number in 0..1_000 {
        setup.deny("loud", &format!("later-{number}"));
    }
    setup.run_for(10).await;
    assert_eq!(setup.stored("loud").len(), 20);
}

#[tokio::test(start_paused = true)]
async fn writes_of_all_namespaces_are_limited() {
    let setup = Setup::new();
    for number in 0..200 {
        setup.deny(&format!("team-{number}"), "web");
    }
    setup.run_for(10).await;
    let written = setup.api.writes().len();
    assert!((50..=80).contains(&written), "{written}");
    setup.run_for(100).await;
    assert_eq!(setup.counts(), [200, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn forbidden_namespace_pauses_and_others_have_their_events() {
    let setup = Setup::new();
    setup.api.forbid(Kind::Event, true);
    for number in 0..5 {
        setup.deny("team-a", &format!("thing-{number}"));
    }
    setup.run_for(1).await;
    setup.deny("team-a", "during-the-pause");
    assert_eq!(setup.counts(), [0, 1, 5]);
    setup.api.forbid(Kind::Event, false);
    setup.deny("team-b", "web");
    setup.run_for(60).await;
    setup.deny("team-a", "after-the-pause");
    setup.run_for(1).await;
    assert_eq!((setup.stored("team-b").len(), setup.stored("team-a").len()), (1, 1));
    assert_eq!(setup.counts(), [2, 1, 5]);
}

#[tokio::test(start_paused = true)]
async fn unavailable_api_server_delays_events() {
    let setup = Setup::new();
    setup.api.set_connectivity("a", Connectivity::Down);
    setup.deny("team-a", "web");
    setup.run_for(30).await;
    setup.deny("team-a", "web");
    setup.deny("team-a", "other");
    assert_eq!(setup.counts(), [0, 0, 0]);
    setup.api.set_connectivity("a", Connectivity::Up);
    setup.run_for(60).await;
    let mut counts: Vec<_> = setup.stored("team-a").iter().map(count).collect();
    counts.sort_unstable();
    assert_eq!((counts, setup.counts()), (vec![1, 2], [3, 0, 0]));
    // Not without an end.
    setup.api.set_connectivity("a", Connectivity::Down);
    setup.deny("team-b", "web");
    setup.run_for(900).await;
    assert_eq!(setup.counts(), [3, 0, 1]);
    assert_eq!(setup.events.queue.lock().waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_small_tenants_keep_their_denials() {
    let mut queue = DenialQueue::default();
    let now = Instant::now();
    let long = "x".repeat(600);
    let record = |queue: &mut DenialQueue, namespace: &str, name: &str| {
        let mut request = request(namespace, &format!("{name}{long}"));
        request["kind"] = json!({"group": long, "version": long, "kind": long});
        request["object"]["metadata"]["ownerReferences"] = json!([
            {"apiVersion": long, "kind": long, "name": format!("{name}{long}"), "uid": name, "controller": true},
        ]);
        let denial = with_review(&request, |review| {
            let decision = decision(&[&*long], &long);
            Denial::of(review, &decision, OffsetDateTime::UNIX_EPOCH).unwrap()
        });
        assert!(denial.note.len() <= 1_024 && denial.size() < 4_096, "{}", denial.size());
        queue.record(denial, now)
    };
    assert!(record(&mut queue, "quiet", "web").is_news);
    for tenant in 0..5_000 {
        for number in 0..2 {
            record(&mut queue, &format!("team-{tenant}"), &format!("{number}"));
        }
    }
    assert!(queue.size() <= 2 << 20, "{}", queue.size());
    assert!(queue.tenants() <= 4_096, "{}", queue.tenants());
    // What it has is known: the denial of a known object is no news.
    assert_eq!(record(&mut queue, "quiet", "web"), Admission { is_news: false, dropped: 0 });
}
