//! Replicas, a registration, and what can come between them. Time is moved, and nothing waits.

use super::*;
use crate::api::label;
use crate::fake::{Connectivity, FakeApiClient, FakeApiServer, FakeClock, run_ready};
use crate::lease::{Election, LEASE_EXPIRY as TERM_EXPIRY, Leadership, RETRY_INTERVAL};
use crate::replicas::{Publisher, RENEW_INTERVAL, REPLICA_EXPIRY, Replicas};
use crate::{INSTALLATION_LABEL, OWNER_ANNOTATION};

const KIND: Kind = Kind::ValidatingWebhookConfiguration;

/// A registration for these policies: a webhook each.
fn desired(policies: &[&str]) -> DesiredRegistration {
    let webhook = |policy: &&str| {
        json!({
            "name": format!("v{policy}.opgate.dev"),
            "clientConfig": {"caBundle": "", "service": {
                "namespace": "opgate-system",
                "name": "opgate",
                "path": format!("/validate/{policy}"),
                "port": 443,
            }},
            "failurePolicy": "Fail",
            "rules": [{"apiGroups": [""], "resources": [policy]}],
            "sideEffects": "None",
            "timeoutSeconds": 5,
        })
    };
    let webhooks: Vec<_> = policies.iter().map(webhook).collect();
    let policies = policies.iter().map(|&policy| policy.to_owned());
    DesiredRegistration::of(&json!({ "webhooks": webhooks }), policies)
}

/// Returns the configuration as `opgate manifests all` creates it.
fn empty() -> Value {
    json!({
        "apiVersion": KIND.api_version(),
        "kind": KIND.name(),
        "metadata": {
            "name": "opgate",
            "labels": {INSTALLATION_LABEL: "opgate-system", "theirs": "stays"},
            "annotations": {OWNER_ANNOTATION: "opgate-system/opgate", "theirs": "stays"},
        },
    })
}

/// Returns the `EndpointSlice` of the Service.
fn endpoint_slice(endpoints: &Value) -> Value {
    let labels = json!({"kubernetes.io/service-name": "opgate"});
    json!({"metadata": {"name": "opgate-1", "labels": labels}, "endpoints": endpoints})
}

struct Replica {
    client: FakeApiClient,
    name: String,
    desired: DesiredRegistration,
    ready: bool,
    election: Election,
    leader: Leadership,
    publisher: Publisher,
    replicas: Replicas,
    controller: RegistrationController,
    /// The policies by whose names it can be called.
    known_policies: BTreeSet<String>,
    outcome: Option<RegistrationOutcome>,
}

impl Replica {
    fn start(cluster: &TestCluster, name: &str, policies: &[&str]) -> Self {
        let installation = Installation {
            namespace: "opgate-system".to_owned(),
            service: "opgate".to_owned(),
            replica: name.to_owned(),
        };
        let clock = cluster.clock.clone();
        let election = Election::new(&installation, "1", clock.clone());
        let mut replica = Self {
            client: cluster.fake.client(name),
            name: name.to_owned(),
            desired: desired(policies),
            ready: true,
            leader: election.leader(),
            election,
            publisher: Publisher::new(&installation, None, clock.clone()),
            replicas: Replicas::new(&installation, clock.clone()),
            controller: RegistrationController::new(installation, clock),
            known_policies: BTreeSet::new(),
            outcome: None,
        };
        replica.observe();
        replica
    }

    /// Serves another configuration.
    fn reload(&mut self, policies: &[&str]) {
        self.desired = desired(policies);
    }

    fn observe(&mut self) -> Option<Observation> {
        let observation = run_ready(self.controller.observe(&self.client, &self.desired)).ok()?;
        self.known_policies.extend(observation.known.iter().cloned());
        self.known_policies.extend(self.desired.policies().iter().cloned());
        Some(observation)
    }

    /// Runs the periodic work; errors recur in the next round.
    fn reconcile(&mut self) {
        let report = ReplicaStatus {
            registration: self.desired.digest().to_owned(),
            ..ReplicaStatus::default()
        };
        let _ = run_ready(self.publisher.publish(&self.client, &report));
        let _ = run_ready(self.election.renew_or_acquire(&self.client));
        let live = run_ready(self.replicas.live(&self.client));
        let (Some(observation), Ok(live)) = (self.observe(), live) else { return };
        if !self.leader.is_leader() {
            return;
        }
        let leader = self.leader.clone();
        let context = LeaderContext {
            live: &live,
            ready: self.ready,
            bundle: Some(b"PEM"),
            is_leader: &|| leader.is_leader(),
        };
        let follow = self.controller.reconcile(&self.client, &self.desired, observation, &context);
        self.outcome = run_ready(follow).ok();
    }

    fn wait_reason(&self) -> &str {
        match &self.outcome {
            Some(RegistrationOutcome::Deferred(why)) => why,
            _ => "",
        }
    }
}

struct TestCluster {
    fake: FakeApiServer,
    clock: Arc<FakeClock>,
}

impl TestCluster {
    fn new() -> Self {
        let fake = FakeApiServer::default();
        fake.put(KIND, "", empty());
        fake.put(Kind::EndpointSlice, "opgate-system", endpoint_slice(&json!([{}])));
        Self { fake, clock: FakeClock::at(Duration::from_secs(1_700_000_000)) }
    }

    /// Advances the time, while every replica runs its rounds. An API server calls continuously, with the
    /// current and the previous registration: every ready replica must know every name.
    fn advance(&self, time: Duration, replicas: &mut [&mut Replica]) {
        let mut passed = Duration::ZERO;
        while passed < time {
            let before = self.registered();
            for replica in replicas.iter_mut() {
                replica.reconcile();
                let asked: BTreeSet<_> = before.union(&self.registered()).cloned().collect();
                let unknown: Vec<_> = asked.difference(&replica.known_policies).collect();
                // A replica reads the registration when it is called with an unknown name.
                if !unknown.is_empty() {
                    replica.observe();
                }
                assert!(asked.is_subset(&replica.known_policies), "{}: {asked:?}", replica.name);
            }
            self.clock.advance(RETRY_INTERVAL);
            passed += RETRY_INTERVAL;
        }
    }

    fn object(&self) -> Value {
        self.fake.stored(KIND, "", "opgate").unwrap()
    }

    /// The policies in the paths of the webhooks.
    fn registered(&self) -> BTreeSet<String> {
        let object = self.fake.stored(KIND, "", "opgate").unwrap_or_default();
        webhooks(&object).iter().flat_map(policies_in_path).collect()
    }

    fn is_registered(&self, policies: &[&str]) -> bool {
        self.registered().iter().eq(policies)
    }

    /// Edits the object, as another client would.
    fn edit(&self, edit: impl FnOnce(&mut Value)) {
        let mut object = self.object();
        edit(&mut object);
        self.fake.put(KIND, "", object);
    }

    /// Returns the number of writes to the registration.
    fn writes(&self) -> usize {
        self.fake.writes().iter().filter(|(_, kind, _)| *kind == KIND).count()
    }
}

const SETTLE_TIME: Duration = Duration::from_secs(20);

#[test]
fn first_registration_waits_for_a_ready_endpoint() {
    let unready = json!([{"conditions": {"ready": false}}]);
    let ready = json!([{"conditions": {"ready": false}}, {"conditions": {"ready": true}}]);
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    let wait_reason = "the Service opgate has no ready endpoint yet";
    for endpoints in [json!(null), json!([]), unready.clone()] {
        cluster.fake.put(Kind::EndpointSlice, "opgate-system", endpoint_slice(&endpoints));
        cluster.advance(SETTLE_TIME, &mut [&mut a]);
        assert_eq!(a.wait_reason(), wait_reason, "{endpoints}");
    }
    let mut of_another = endpoint_slice(&ready);
    of_another["metadata"] = json!({"name": "other-1", "labels": {SERVICE_NAME_LABEL: "other"}});
    cluster.fake.put(Kind::EndpointSlice, "opgate-system", of_another);
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    assert_eq!(a.wait_reason(), wait_reason);
    assert!(cluster.is_registered(&[]));

    cluster.fake.put(Kind::EndpointSlice, "opgate-system", endpoint_slice(&ready));
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    assert!(cluster.is_registered(&["x"]));

    // Webhooks that call the Service follow the configuration without endpoints and without the permission.
    cluster.fake.put(Kind::EndpointSlice, "opgate-system", endpoint_slice(&unready));
    cluster.fake.forbid(Kind::EndpointSlice, true);
    a.reload(&["x", "y"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    assert!(cluster.is_registered(&["x", "y"]));
}

#[test]
fn first_registration_waits_for_ready_replicas() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x", "y"]);
    let mut b = Replica::start(&cluster, "b", &["x", "y"]);
    (a.ready, b.ready) = (false, false);
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b]);
    assert!(cluster.is_registered(&[]));
    assert_eq!(a.wait_reason(), "this replica is not ready");
    (a.ready, b.ready) = (true, true);
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b]);
    assert!(cluster.is_registered(&["x", "y"]));
    assert_eq!(cluster.writes(), 1);
    let object = cluster.object();
    assert_eq!(annotation(&object, DIGEST_ANNOTATION), a.desired.digest());
    assert_eq!((annotation(&object, "theirs"), label(&object, "theirs")), ("stays", "stays"));
    for webhook in webhooks(&object) {
        assert_eq!(text(webhook, "/clientConfig/caBundle"), "UEVN");
        assert_eq!(webhook.pointer("/clientConfig/service/port"), Some(&json!(443)));
    }
    assert_eq!(
        run_ready(a.controller.observe(&a.client, &a.desired)).unwrap().status,
        RegistrationStatus::Current
    );
}

#[test]
fn missing_ca_bundle_prevents_registration() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.advance(RETRY_INTERVAL, &mut [&mut a]);
    cluster.edit(|object| {
        object.as_object_mut().unwrap().remove("webhooks");
    });
    let observation = a.observe().unwrap();
    let live = run_ready(a.replicas.live(&a.client)).unwrap();
    let context = LeaderContext { live: &live, ready: true, bundle: None, is_leader: &|| true };
    let desired = desired(&["x"]);
    let outcome =
        run_ready(a.controller.reconcile(&a.client, &desired, observation, &context)).unwrap();
    assert!(matches!(outcome, RegistrationOutcome::Deferred(why) if why.contains("no CA bundle")));
    assert!(cluster.is_registered(&[]));
}

#[test]
fn reload_is_registered_once_all_replicas_have_it() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["old", "x"]);
    let mut b = Replica::start(&cluster, "b", &["old", "x"]);
    let mut c = Replica::start(&cluster, "c", &["old", "x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b, &mut c]);
    a.reload(&["new", "x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["old", "x"]));
    assert!(a.wait_reason().starts_with("replica b has another policy set"), "{}", a.wait_reason());
    c.reload(&["new", "x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["old", "x"]));
    b.reload(&["new", "x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["new", "x"]));
    assert_eq!(annotation(&cluster.object(), FORMER_POLICIES_ANNOTATION), "old");
    assert_eq!(annotation(&cluster.object(), POLICIES_ANNOTATION), "new x");
    // And back.
    for replica in [&mut b, &mut a, &mut c] {
        replica.reload(&["old", "x"]);
    }
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["old", "x"]));
    assert_eq!(cluster.writes(), 3, "each once");
}

#[test]
fn rolling_update_and_rollback_keep_all_names_known() {
    let cluster = TestCluster::new();
    let mut first = Replica::start(&cluster, "a", &["old", "x"]);
    let mut second = Replica::start(&cluster, "b", &["old", "x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut first, &mut second]);
    // New pods of another configuration, which never had `old`.
    let mut third = Replica::start(&cluster, "c", &["new", "x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut first, &mut second, &mut third]);
    run_ready(first.publisher.withdraw(&first.client)).unwrap();
    run_ready(first.election.release(&first.client)).unwrap();
    let mut fourth = Replica::start(&cluster, "d", &["new", "x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut second, &mut third, &mut fourth]);
    assert!(cluster.is_registered(&["old", "x"]));
    run_ready(second.publisher.withdraw(&second.client)).unwrap();
    let _ = run_ready(second.election.release(&second.client));
    cluster.advance(SETTLE_TIME + TERM_EXPIRY, &mut [&mut third, &mut fourth]);
    assert!(cluster.is_registered(&["new", "x"]));
    // The rollback starts old pods again: they learn the new names, and the new pods the old ones.
    let mut fifth = Replica::start(&cluster, "e", &["old", "x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut third, &mut fourth, &mut fifth]);
    assert!(cluster.is_registered(&["new", "x"]));
    for gone in [&mut third, &mut fourth] {
        run_ready(gone.publisher.withdraw(&gone.client)).unwrap();
        let _ = run_ready(gone.election.release(&gone.client));
    }
    cluster.advance(SETTLE_TIME + TERM_EXPIRY, &mut [&mut fifth]);
    assert!(cluster.is_registered(&["old", "x"]));
    // One that starts right after knows what API servers may still call.
    let mut sixth = Replica::start(&cluster, "f", &["old", "x"]);
    assert!(sixth.known_policies.contains("new"));
    cluster.advance(SETTLE_TIME, &mut [&mut fifth, &mut sixth]);
}

#[test]
fn crashed_replica_is_awaited_until_its_lease_ends() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["old"]);
    let mut b = Replica::start(&cluster, "b", &["old"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b]);
    a.reload(&["new"]);
    cluster.advance(REPLICA_EXPIRY.abs_diff(RETRY_INTERVAL), &mut [&mut a]);
    assert!(cluster.is_registered(&["old"]));
    cluster.advance(RENEW_INTERVAL, &mut [&mut a]);
    assert!(cluster.is_registered(&["new"]));
}

#[test]
fn disconnected_leader_writes_nothing() {
    for line in [Connectivity::Down, Connectivity::ResponsesLost] {
        let cluster = TestCluster::new();
        let mut a = Replica::start(&cluster, "a", &["old"]);
        let mut b = Replica::start(&cluster, "b", &["old"]);
        cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b]);
        assert!(a.leader.is_leader() && cluster.is_registered(&["old"]));
        // The pending write, based on the state that was read.
        let observation = a.observe().unwrap();
        cluster.fake.set_connectivity("a", line);
        b.reload(&["new"]);
        cluster.advance(REPLICA_EXPIRY + TERM_EXPIRY, &mut [&mut b]);
        assert!(b.leader.is_leader() && !a.leader.is_leader());
        assert!(cluster.is_registered(&["new"]));
        let written = a.controller.with_desired_webhooks(
            &desired(&["old"]),
            &observation,
            &a.controller.own_webhooks(&observation.object, &a.desired),
            &json!("UEVN"),
        );
        cluster.fake.set_connectivity("a", Connectivity::Up);
        let late = run_ready(a.client.replace(KIND, "", written)).unwrap_err();
        assert!(late.is_race());
        assert!(cluster.is_registered(&["new"]));
        // Back again, it is one that serves something else, and is heard.
        cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b]);
        assert!(cluster.is_registered(&["new"]));
        a.reload(&["new"]);
        cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b]);
        assert!(cluster.is_registered(&["new"]));
    }
}

#[test]
fn external_change_is_reverted_and_reported() {
    type Edit = fn(&mut Value);
    let edits: [(Edit, &str); 8] = [
        (
            |o| o["webhooks"][0]["failurePolicy"] = json!("Ignore"),
            "vx.opgate.dev changes in failurePolicy",
        ),
        (
            |o| o["webhooks"][0]["timeoutSeconds"] = json!(30),
            "vx.opgate.dev changes in timeoutSeconds",
        ),
        (
            |o| o["webhooks"][0]["objectSelector"] = json!({"matchLabels": {"skip": "no"}}),
            "vx.opgate.dev changes in objectSelector",
        ),
        (
            |o| o["webhooks"][0]["clientConfig"] = json!({"url": "https://elsewhere.example.com"}),
            "vx.opgate.dev changes in clientConfig",
        ),
        (|o| o["webhooks"][1]["name"] = json!("other.opgate.dev"), "vy.opgate.dev is added"),
        (
            |o| {
                o["webhooks"].as_array_mut().unwrap().remove(0);
            },
            "vx.opgate.dev is added",
        ),
        (|o| o["webhooks"] = json!([]), "vx.opgate.dev is added"),
        (|o| o["webhooks"] = json!(null), "vx.opgate.dev is added"),
    ];
    for (edit, told) in edits {
        let cluster = TestCluster::new();
        let mut a = Replica::start(&cluster, "a", &["x", "y"]);
        let mut b = Replica::start(&cluster, "b", &["x", "y"]);
        cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b]);
        let before = cluster.object();
        cluster.edit(edit);
        a.reconcile();
        let Some(RegistrationOutcome::Applied { changes, external_change: true }) = &a.outcome
        else {
            panic!("{told}: {:?}", a.outcome)
        };
        assert!(changes.iter().any(|change| change == told), "{changes:?}");
        assert_eq!(cluster.object()["webhooks"], before["webhooks"], "{told}");
    }
}

#[test]
fn defaulted_and_foreign_fields_are_not_a_change() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    let writes = cluster.writes();
    cluster.edit(|object| {
        let webhook = &mut object["webhooks"][0];
        webhook["objectSelector"] = json!({});
        webhook["matchConditions"] = json!([]);
        webhook["clientConfig"]["caBundle"] = json!("T1RIRVI=");
        webhook["clientConfig"]["service"]["port"] = json!(8443);
        object["metadata"]["annotations"]["more"] = json!("yes");
        let theirs = json!({"name": "their.example.com", "clientConfig": {"service": {
            "namespace": "elsewhere", "name": "opgate", "path": "/z"}}});
        object["webhooks"].as_array_mut().unwrap().push(theirs);
    });
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    assert_eq!(cluster.writes(), writes);
    // A change keeps all of it, and gives it to what is new.
    a.reload(&["x", "y"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    let object = cluster.object();
    let bundles: Vec<_> = webhooks(&object)
        .iter()
        .map(|webhook| (text(webhook, "/name"), text(webhook, "/clientConfig/caBundle")))
        .collect();
    let expected =
        [("their.example.com", ""), ("vx.opgate.dev", "T1RIRVI="), ("vy.opgate.dev", "T1RIRVI=")];
    assert_eq!(bundles, expected);
    assert_eq!(object["webhooks"][2]["clientConfig"]["service"]["port"], 8443);
    assert_eq!(annotation(&object, "more"), "yes");
}

#[test]
fn foreign_configuration_is_never_changed() {
    let theirs: [fn(&mut Value); 5] = [
        |o| o["metadata"]["labels"] = json!({}),
        |o| o["metadata"]["annotations"] = json!({}),
        |o| o["metadata"]["labels"][INSTALLATION_LABEL] = json!("elsewhere"),
        |o| o["metadata"]["annotations"][OWNER_ANNOTATION] = json!("opgate-system/other"),
        |o| o["metadata"] = json!({"name": "opgate", "labels": "x", "annotations": 7}),
    ];
    for edit in theirs {
        let cluster = TestCluster::new();
        cluster.edit(edit);
        let before = cluster.object();
        let mut a = Replica::start(&cluster, "a", &["x"]);
        cluster.advance(SETTLE_TIME, &mut [&mut a]);
        assert_eq!(cluster.object(), before);
        let observation = a.observe().unwrap();
        assert_eq!(observation.status, RegistrationStatus::NotOurs);
        assert!(observation.known.is_empty(), "nothing of it is believed");
    }
}

#[test]
fn deleted_configuration_is_not_recreated() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    let mut b = Replica::start(&cluster, "b", &["x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b]);
    cluster.fake.remove(KIND, "", "opgate");
    a.reload(&["y"]);
    b.reload(&["y"]);
    cluster.advance(SETTLE_TIME * 3, &mut [&mut a, &mut b]);
    let mut c = Replica::start(&cluster, "c", &["y"]);
    cluster.advance(SETTLE_TIME * 3, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.fake.stored(KIND, "", "opgate").is_none());
    assert_eq!(a.observe().unwrap().status, RegistrationStatus::Absent);
    // One that is going is left alone; one that comes back is filled in.
    let mut going = empty();
    going["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:00:00Z");
    cluster.fake.put(KIND, "", going.clone());
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&[]));
    cluster.fake.put(KIND, "", empty());
    cluster.advance(SETTLE_TIME, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["y"]));
}

#[test]
fn configuration_without_webhooks_keeps_registered_ones() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    a.reload(&[]);
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    assert!(cluster.is_registered(&["x"]));
    assert!(a.wait_reason().contains("needs no webhook"));
}

#[test]
fn repeated_external_changes_are_not_reverted_forever() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.advance(SETTLE_TIME, &mut [&mut a]);
    let before = cluster.writes();
    for _ in 0..300 {
        cluster.edit(|object| object["webhooks"][0]["failurePolicy"] = json!("Ignore"));
        cluster.advance(RETRY_INTERVAL, &mut [&mut a]);
    }
    let healed = cluster.writes() - before;
    assert!((MAX_RESTORES..=MAX_RESTORES + 12).contains(&healed), "{healed} in ten minutes");
    assert!(a.wait_reason().contains("repeatedly"));
    // A replica applies its new configuration immediately.
    a.reload(&["y"]);
    cluster.advance(RETRY_INTERVAL * 2, &mut [&mut a]);
    assert!(cluster.is_registered(&["y"]));
}

#[test]
fn concurrent_write_conflict_is_retried() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.advance(RETRY_INTERVAL, &mut [&mut a]);
    a.reload(&["y"]);
    let report =
        ReplicaStatus { registration: a.desired.digest().to_owned(), ..ReplicaStatus::default() };
    run_ready(a.publisher.publish(&a.client, &report)).unwrap();
    let live = run_ready(a.replicas.live(&a.client)).unwrap();
    let observation = a.observe().unwrap();
    // The controller of the certificates wrote first.
    cluster.edit(|object| object["webhooks"][0]["clientConfig"]["caBundle"] = json!("TkVX"));
    let context = LeaderContext { live: &live, ready: true, bundle: None, is_leader: &|| true };
    let raced = run_ready(a.controller.reconcile(&a.client, &a.desired, observation, &context))
        .unwrap_err();
    assert!(raced.is_race());
    cluster.advance(RETRY_INTERVAL, &mut [&mut a]);
    assert_eq!(text(&cluster.object(), "/webhooks/0/clientConfig/caBundle"), "TkVX");
    assert!(cluster.is_registered(&["y"]));
}

#[test]
fn replica_writes_nothing_after_its_term() {
    let cluster = TestCluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.advance(RETRY_INTERVAL, &mut [&mut a]);
    a.reload(&["y"]);
    let report =
        ReplicaStatus { registration: a.desired.digest().to_owned(), ..ReplicaStatus::default() };
    run_ready(a.publisher.publish(&a.client, &report)).unwrap();
    let live = run_ready(a.replicas.live(&a.client)).unwrap();
    let observation = a.observe().unwrap();
    let context = LeaderContext { live: &live, ready: true, bundle: None, is_leader: &|| false };
    let outcome =
        run_ready(a.controller.reconcile(&a.client, &a.desired, observation, &context)).unwrap();
    assert!(
        matches!(outcome, RegistrationOutcome::Deferred(why) if why.contains("not the leader any more"))
    );
    assert!(cluster.is_registered(&["x"]));
}

#[test]
fn policy_names_from_the_registration_are_limited() {
    let cluster = TestCluster::new();
    let many: Vec<_> = (0..1_000).map(|number| format!("n{number}")).collect();
    let long = "x".repeat(41);
    cluster.edit(|object| {
        object["metadata"]["annotations"][FORMER_POLICIES_ANNOTATION] = json!(many.join(" "));
        object["metadata"]["annotations"][POLICIES_ANNOTATION] =
            json!(format!("ok {long} UP a/b ../c \n"));
    });
    let a = Replica::start(&cluster, "a", &[]);
    let observation = run_ready(a.controller.observe(&a.client, &a.desired)).unwrap();
    assert_eq!(observation.policies, BTreeSet::from(["ok".to_owned()]));
    assert_eq!(observation.known.len(), 257);
}
