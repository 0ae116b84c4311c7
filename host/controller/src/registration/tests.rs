//! Replicas, a registration, and what can come between them. Time is moved, and nothing waits.

use super::*;
use crate::api::label;
use crate::fake::{Fake, FakeClient, Line, Moved, now};
use crate::lease::{EXPIRY as TERM_EXPIRY, Election, Leader, RETRY};
use crate::replicas::{EXPIRY, Publisher, RENEW, Replicas};
use crate::{INSTALLATION_LABEL, OWNER};

const KIND: Kind = Kind::ValidatingWebhookConfiguration;

/// A registration for these policies: a webhook each.
fn wanted(policies: &[&str]) -> Wanted {
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
    Wanted::of(&json!({ "webhooks": webhooks }), policies)
}

/// Returns the configuration as `opgate manifests all` creates it.
fn empty() -> Value {
    json!({
        "apiVersion": KIND.api_version(),
        "kind": KIND.name(),
        "metadata": {
            "name": "opgate",
            "labels": {INSTALLATION_LABEL: "opgate-system", "theirs": "stays"},
            "annotations": {OWNER: "opgate-system/opgate", "theirs": "stays"},
        },
    })
}

struct Replica {
    line: FakeClient,
    name: String,
    wanted: Wanted,
    ready: bool,
    election: Election,
    leader: Leader,
    publisher: Publisher,
    replicas: Replicas,
    follower: RegistrationController,
    /// The policies by whose names it can be called.
    known: BTreeSet<String>,
    outcome: Option<Outcome>,
}

impl Replica {
    fn start(cluster: &Cluster, name: &str, policies: &[&str]) -> Self {
        let installation = Installation {
            namespace: "opgate-system".to_owned(),
            service: "opgate".to_owned(),
            replica: name.to_owned(),
        };
        let clock = cluster.clock.clone();
        let election = Election::new(&installation, "1", clock.clone());
        let mut replica = Self {
            line: cluster.fake.client(name),
            name: name.to_owned(),
            wanted: wanted(policies),
            ready: true,
            leader: election.leader(),
            election,
            publisher: Publisher::new(&installation, None, clock.clone()),
            replicas: Replicas::new(&installation, clock.clone()),
            follower: RegistrationController::new(installation, clock),
            known: BTreeSet::new(),
            outcome: None,
        };
        replica.look();
        replica
    }

    /// Serves another configuration.
    fn reload(&mut self, policies: &[&str]) {
        self.wanted = wanted(policies);
    }

    fn look(&mut self) -> Option<Observation> {
        let look = now(self.follower.look(&self.line, &self.wanted)).ok()?;
        self.known.extend(look.known.iter().cloned());
        self.known.extend(self.wanted.policies().iter().cloned());
        Some(look)
    }

    /// Runs the periodic work; errors recur in the next round.
    fn round(&mut self) {
        let report = Report { registration: self.wanted.digest().to_owned(), ..Report::default() };
        let _ = now(self.publisher.publish(&self.line, &report));
        let _ = now(self.election.round(&self.line));
        let live = now(self.replicas.live(&self.line));
        let (Some(look), Ok(live)) = (self.look(), live) else { return };
        if !self.leader.is_leader() {
            return;
        }
        let leader = self.leader.clone();
        let circumstances = LeaderContext {
            live: &live,
            ready: self.ready,
            bundle: Some(b"PEM"),
            is_leader: &|| leader.is_leader(),
        };
        let follow = self.follower.follow(&self.line, &self.wanted, look, &circumstances);
        self.outcome = now(follow).ok();
    }

    fn why(&self) -> &str {
        match &self.outcome {
            Some(Outcome::Waits(why)) => why,
            _ => "",
        }
    }
}

struct Cluster {
    fake: Fake,
    clock: Arc<Moved>,
}

impl Cluster {
    fn new() -> Self {
        let fake = Fake::default();
        fake.put(KIND, "", empty());
        Self { fake, clock: Moved::at(Duration::from_secs(1_700_000_000)) }
    }

    /// Advances the time, while every replica runs its rounds. An API server calls continuously, with the
    /// current and the previous registration: every ready replica must know every name.
    fn pass(&self, time: Duration, replicas: &mut [&mut Replica]) {
        let mut passed = Duration::ZERO;
        while passed < time {
            let before = self.registered();
            for replica in replicas.iter_mut() {
                replica.round();
                let asked: BTreeSet<_> = before.union(&self.registered()).cloned().collect();
                let unknown: Vec<_> = asked.difference(&replica.known).collect();
                // A replica reads the registration when it is called with an unknown name.
                if !unknown.is_empty() {
                    replica.look();
                }
                assert!(asked.is_subset(&replica.known), "{}: {asked:?}", replica.name);
            }
            self.clock.pass(RETRY);
            passed += RETRY;
        }
    }

    fn object(&self) -> Value {
        self.fake.stored(KIND, "", "opgate").unwrap()
    }

    /// The policies in the paths of the webhooks.
    fn registered(&self) -> BTreeSet<String> {
        let object = self.fake.stored(KIND, "", "opgate").unwrap_or_default();
        webhooks(&object).iter().flat_map(names).collect()
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

const WHILE: Duration = Duration::from_secs(20);

#[test]
fn the_first_registration_comes_when_replicas_answer() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["x", "y"]);
    let mut b = Replica::start(&cluster, "b", &["x", "y"]);
    (a.ready, b.ready) = (false, false);
    cluster.pass(WHILE, &mut [&mut a, &mut b]);
    assert!(cluster.is_registered(&[]));
    assert_eq!(a.why(), "this replica is not ready");
    (a.ready, b.ready) = (true, true);
    cluster.pass(WHILE, &mut [&mut a, &mut b]);
    assert!(cluster.is_registered(&["x", "y"]));
    assert_eq!(cluster.writes(), 1);
    let object = cluster.object();
    assert_eq!(annotation(&object, DIGEST), a.wanted.digest());
    assert_eq!((annotation(&object, "theirs"), label(&object, "theirs")), ("stays", "stays"));
    for webhook in webhooks(&object) {
        assert_eq!(text(webhook, "/clientConfig/caBundle"), "UEVN");
        assert_eq!(webhook.pointer("/clientConfig/service/port"), Some(&json!(443)));
    }
    assert_eq!(
        now(a.follower.look(&a.line, &a.wanted)).unwrap().standing,
        RegistrationStatus::Current
    );
}

#[test]
fn without_a_bundle_nothing_is_registered() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.pass(RETRY, &mut [&mut a]);
    cluster.edit(|object| {
        object.as_object_mut().unwrap().remove("webhooks");
    });
    let look = a.look().unwrap();
    let live = now(a.replicas.live(&a.line)).unwrap();
    let circumstances =
        LeaderContext { live: &live, ready: true, bundle: None, is_leader: &|| true };
    let wanted = wanted(&["x"]);
    let outcome = now(a.follower.follow(&a.line, &wanted, look, &circumstances)).unwrap();
    assert!(matches!(outcome, Outcome::Waits(why) if why.contains("no CA bundle")));
    assert!(cluster.is_registered(&[]));
}

#[test]
fn a_reload_is_followed_when_the_slowest_has_it() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["old", "x"]);
    let mut b = Replica::start(&cluster, "b", &["old", "x"]);
    let mut c = Replica::start(&cluster, "c", &["old", "x"]);
    cluster.pass(WHILE, &mut [&mut a, &mut b, &mut c]);
    a.reload(&["new", "x"]);
    cluster.pass(WHILE, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["old", "x"]));
    assert!(a.why().starts_with("replica b has another policy set"), "{}", a.why());
    c.reload(&["new", "x"]);
    cluster.pass(WHILE, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["old", "x"]));
    b.reload(&["new", "x"]);
    cluster.pass(WHILE, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["new", "x"]));
    assert_eq!(annotation(&cluster.object(), FORMER), "old");
    assert_eq!(annotation(&cluster.object(), POLICIES), "new x");
    // And back.
    for replica in [&mut b, &mut a, &mut c] {
        replica.reload(&["old", "x"]);
    }
    cluster.pass(WHILE, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["old", "x"]));
    assert_eq!(cluster.writes(), 3, "each once");
}

#[test]
fn a_rolling_update_and_a_rollback_leave_no_name_unknown() {
    let cluster = Cluster::new();
    let mut first = Replica::start(&cluster, "a", &["old", "x"]);
    let mut second = Replica::start(&cluster, "b", &["old", "x"]);
    cluster.pass(WHILE, &mut [&mut first, &mut second]);
    // New pods of another configuration, which never had `old`.
    let mut third = Replica::start(&cluster, "c", &["new", "x"]);
    cluster.pass(WHILE, &mut [&mut first, &mut second, &mut third]);
    now(first.publisher.withdraw(&first.line)).unwrap();
    now(first.election.release(&first.line)).unwrap();
    let mut fourth = Replica::start(&cluster, "d", &["new", "x"]);
    cluster.pass(WHILE, &mut [&mut second, &mut third, &mut fourth]);
    assert!(cluster.is_registered(&["old", "x"]));
    now(second.publisher.withdraw(&second.line)).unwrap();
    let _ = now(second.election.release(&second.line));
    cluster.pass(WHILE + TERM_EXPIRY, &mut [&mut third, &mut fourth]);
    assert!(cluster.is_registered(&["new", "x"]));
    // The rollback starts old pods again: they learn the new names, and the new pods the old ones.
    let mut fifth = Replica::start(&cluster, "e", &["old", "x"]);
    cluster.pass(WHILE, &mut [&mut third, &mut fourth, &mut fifth]);
    assert!(cluster.is_registered(&["new", "x"]));
    for gone in [&mut third, &mut fourth] {
        now(gone.publisher.withdraw(&gone.line)).unwrap();
        let _ = now(gone.election.release(&gone.line));
    }
    cluster.pass(WHILE + TERM_EXPIRY, &mut [&mut fifth]);
    assert!(cluster.is_registered(&["old", "x"]));
    // One that starts right after knows what API servers may still call.
    let mut sixth = Replica::start(&cluster, "f", &["old", "x"]);
    assert!(sixth.known.contains("new"));
    cluster.pass(WHILE, &mut [&mut fifth, &mut sixth]);
}

#[test]
fn a_replica_that_crashed_is_waited_for_until_its_lease_ends() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["old"]);
    let mut b = Replica::start(&cluster, "b", &["old"]);
    cluster.pass(WHILE, &mut [&mut a, &mut b]);
    a.reload(&["new"]);
    cluster.pass(EXPIRY.abs_diff(RETRY), &mut [&mut a]);
    assert!(cluster.is_registered(&["old"]));
    cluster.pass(RENEW, &mut [&mut a]);
    assert!(cluster.is_registered(&["new"]));
}

#[test]
fn disconnected_leader_writes_nothing() {
    for line in [Line::Down, Line::Deaf] {
        let cluster = Cluster::new();
        let mut a = Replica::start(&cluster, "a", &["old"]);
        let mut b = Replica::start(&cluster, "b", &["old"]);
        cluster.pass(WHILE, &mut [&mut a, &mut b]);
        assert!(a.leader.is_leader() && cluster.is_registered(&["old"]));
        // The pending write, based on the state that was read.
        let look = a.look().unwrap();
        cluster.fake.line("a", line);
        b.reload(&["new"]);
        cluster.pass(EXPIRY + TERM_EXPIRY, &mut [&mut b]);
        assert!(b.leader.is_leader() && !a.leader.is_leader());
        assert!(cluster.is_registered(&["new"]));
        let written = a.follower.written(
            &wanted(&["old"]),
            &look,
            &a.follower.ours(&look.object, &a.wanted),
            &json!("UEVN"),
        );
        cluster.fake.line("a", Line::Up);
        let late = now(a.line.replace(KIND, "", written)).unwrap_err();
        assert!(late.is_race());
        assert!(cluster.is_registered(&["new"]));
        // Back again, it is one that serves something else, and is heard.
        cluster.pass(WHILE, &mut [&mut a, &mut b]);
        assert!(cluster.is_registered(&["new"]));
        a.reload(&["new"]);
        cluster.pass(WHILE, &mut [&mut a, &mut b]);
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
        let cluster = Cluster::new();
        let mut a = Replica::start(&cluster, "a", &["x", "y"]);
        let mut b = Replica::start(&cluster, "b", &["x", "y"]);
        cluster.pass(WHILE, &mut [&mut a, &mut b]);
        let before = cluster.object();
        cluster.edit(edit);
        a.round();
        let Some(Outcome::Applied { changes, by_hand: true }) = &a.outcome else {
            panic!("{told}: {:?}", a.outcome)
        };
        assert!(changes.iter().any(|change| change == told), "{changes:?}");
        assert_eq!(cluster.object()["webhooks"], before["webhooks"], "{told}");
    }
}

#[test]
fn defaulted_and_foreign_fields_are_not_a_change() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.pass(WHILE, &mut [&mut a]);
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
    cluster.pass(WHILE, &mut [&mut a]);
    assert_eq!(cluster.writes(), writes);
    // A change keeps all of it, and gives it to what is new.
    a.reload(&["x", "y"]);
    cluster.pass(WHILE, &mut [&mut a]);
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
        |o| o["metadata"]["annotations"][OWNER] = json!("opgate-system/other"),
        |o| o["metadata"] = json!({"name": "opgate", "labels": "x", "annotations": 7}),
    ];
    for edit in theirs {
        let cluster = Cluster::new();
        cluster.edit(edit);
        let before = cluster.object();
        let mut a = Replica::start(&cluster, "a", &["x"]);
        cluster.pass(WHILE, &mut [&mut a]);
        assert_eq!(cluster.object(), before);
        let look = a.look().unwrap();
        assert_eq!(look.standing, RegistrationStatus::NotOurs);
        assert!(look.known.is_empty(), "nothing of it is believed");
    }
}

#[test]
fn deleted_configuration_is_not_recreated() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    let mut b = Replica::start(&cluster, "b", &["x"]);
    cluster.pass(WHILE, &mut [&mut a, &mut b]);
    cluster.fake.remove(KIND, "", "opgate");
    a.reload(&["y"]);
    b.reload(&["y"]);
    cluster.pass(WHILE * 3, &mut [&mut a, &mut b]);
    let mut c = Replica::start(&cluster, "c", &["y"]);
    cluster.pass(WHILE * 3, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.fake.stored(KIND, "", "opgate").is_none());
    assert_eq!(a.look().unwrap().standing, RegistrationStatus::Absent);
    // One that is going is left alone; one that comes back is filled in.
    let mut going = empty();
    going["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:00:00Z");
    cluster.fake.put(KIND, "", going.clone());
    cluster.pass(WHILE, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&[]));
    cluster.fake.put(KIND, "", empty());
    cluster.pass(WHILE, &mut [&mut a, &mut b, &mut c]);
    assert!(cluster.is_registered(&["y"]));
}

#[test]
fn configuration_without_webhooks_keeps_registered_ones() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.pass(WHILE, &mut [&mut a]);
    a.reload(&[]);
    cluster.pass(WHILE, &mut [&mut a]);
    assert!(cluster.is_registered(&["x"]));
    assert!(a.why().contains("needs no webhook"));
}

#[test]
fn repeated_external_changes_are_not_reverted_forever() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.pass(WHILE, &mut [&mut a]);
    let before = cluster.writes();
    for _ in 0..300 {
        cluster.edit(|object| object["webhooks"][0]["failurePolicy"] = json!("Ignore"));
        cluster.pass(RETRY, &mut [&mut a]);
    }
    let healed = cluster.writes() - before;
    assert!((MAX_RESTORES..=MAX_RESTORES + 12).contains(&healed), "{healed} in ten minutes");
    assert!(a.why().contains("repeatedly"));
    // A replica applies its new configuration immediately.
    a.reload(&["y"]);
    cluster.pass(RETRY * 2, &mut [&mut a]);
    assert!(cluster.is_registered(&["y"]));
}

#[test]
fn concurrent_write_conflict_is_retried() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.pass(RETRY, &mut [&mut a]);
    a.reload(&["y"]);
    let report = Report { registration: a.wanted.digest().to_owned(), ..Report::default() };
    now(a.publisher.publish(&a.line, &report)).unwrap();
    let live = now(a.replicas.live(&a.line)).unwrap();
    let look = a.look().unwrap();
    // The controller of the certificates wrote first.
    cluster.edit(|object| object["webhooks"][0]["clientConfig"]["caBundle"] = json!("TkVX"));
    let circumstances =
        LeaderContext { live: &live, ready: true, bundle: None, is_leader: &|| true };
    let raced = now(a.follower.follow(&a.line, &a.wanted, look, &circumstances)).unwrap_err();
    assert!(raced.is_race());
    cluster.pass(RETRY, &mut [&mut a]);
    assert_eq!(text(&cluster.object(), "/webhooks/0/clientConfig/caBundle"), "TkVX");
    assert!(cluster.is_registered(&["y"]));
}

#[test]
fn replica_writes_nothing_after_its_term() {
    let cluster = Cluster::new();
    let mut a = Replica::start(&cluster, "a", &["x"]);
    cluster.pass(RETRY, &mut [&mut a]);
    a.reload(&["y"]);
    let report = Report { registration: a.wanted.digest().to_owned(), ..Report::default() };
    now(a.publisher.publish(&a.line, &report)).unwrap();
    let live = now(a.replicas.live(&a.line)).unwrap();
    let look = a.look().unwrap();
    let circumstances =
        LeaderContext { live: &live, ready: true, bundle: None, is_leader: &|| false };
    let outcome = now(a.follower.follow(&a.line, &a.wanted, look, &circumstances)).unwrap();
    assert!(matches!(outcome, Outcome::Waits(why) if why.contains("not the leader any more")));
    assert!(cluster.is_registered(&["x"]));
}

#[test]
fn policy_names_from_the_registration_are_limited() {
    let cluster = Cluster::new();
    let many: Vec<_> = (0..1_000).map(|number| format!("n{number}")).collect();
    let long = "x".repeat(41);
    cluster.edit(|object| {
        object["metadata"]["annotations"][FORMER] = json!(many.join(" "));
        object["metadata"]["annotations"][POLICIES] = json!(format!("ok {long} UP a/b ../c \n"));
    });
    let a = Replica::start(&cluster, "a", &[]);
    let look = now(a.follower.look(&a.line, &a.wanted)).unwrap();
    assert_eq!(look.policies, BTreeSet::from(["ok".to_owned()]));
    assert_eq!(look.known.len(), 257);
}
