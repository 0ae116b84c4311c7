//! Years of certificates in seconds: replicas with clocks of their own, an API server in memory, and a client that
//! verifies each served leaf as an API server does, at every step.
//!
//! The only assumptions are:
//! * An API server uses a changed `caBundle` within [`Times::notice`]. The client uses every bundle that it may still
//!   see by then, all at once.
//! * A replica that was suspended reads the Secret before it receives a call. (It is not ready meanwhile.)
//! * A replica reaches the API server at least once in a third of a leaf's life.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use opgate_certs::verify;
use serde_json::{Value, json};

use super::*;
use crate::api::Kind;
use crate::clock::Clock;
use crate::fake::{Fake, FakeClient, Line, Moved, now};
use crate::lease::Election;
use crate::replicas::{Publisher, Report};
use crate::{INSTALLATION_LABEL, Installation, OWNER, trust};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const NAMESPACE: &str = "opgate-system";
const START: Duration = Duration::from_secs(1_700_000_000);

/// Lives of a scenario: a rotation of everything takes days.
const SHORT: Times = Times {
    authority: Duration::from_secs(4 * 86_400),
    leaf: DAY,
    notice: Duration::from_secs(30),
};

struct Node {
    name: String,
    clock: Arc<Moved>,
    election: Election,
    keeper: CertificateController,
    publisher: Publisher,
    line: FakeClient,
    asleep: bool,
}

fn installation(replica: &str) -> Installation {
    Installation {
        namespace: NAMESPACE.to_owned(),
        service: "opgate".to_owned(),
        replica: replica.to_owned(),
    }
}

fn configuration(bundle: &str) -> Value {
    let service = json!({"namespace": NAMESPACE, "name": "opgate"});
    let webhook = |name: &str| json!({"name": name, "clientConfig": {"service": service, "caBundle": trust::encode(bundle)}});
    json!({
        "metadata": {
            "name": "opgate",
            "labels": {INSTALLATION_LABEL: NAMESPACE},
            "annotations": {OWNER: "opgate-system/opgate"},
        },
        "webhooks": [webhook("va.x.io"), webhook("vb.x.io")],
    })
}

struct World {
    fake: Fake,
    times: Times,
    nodes: Vec<Node>,
    /// The true calendar.
    time: Duration,
    /// The bundles that an API server may use, each with the time at which another one replaced it.
    views: Vec<(Option<Duration>, Vec<Vec<u8>>)>,
    handshakes: usize,
    /// Leaf, CA and bundle of handshakes that were good.
    accepted: HashSet<(SystemTime, String, Vec<u8>)>,
    writes: usize,
    generation: u32,
    /// Remaining small steps, while activity continues.
    busy: usize,
}

impl World {
    fn new(names: &[&str], times: Times) -> Self {
        let fake = Fake::default();
        fake.put(Kind::ValidatingWebhookConfiguration, "", configuration(""));
        let mut world = Self {
            fake,
            times,
            nodes: Vec::new(),
            time: START,
            views: Vec::new(),
            handshakes: 0,
            accepted: HashSet::new(),
            writes: 0,
            generation: 0,
            busy: 10,
        };
        for name in names {
            let node = world.node(name, Moved::at(START));
            world.nodes.push(node);
        }
        world.pass(Duration::ZERO);
        world
    }

    fn node(&mut self, name: &str, clock: Arc<Moved>) -> Node {
        self.generation += 1;
        let shared: Arc<dyn Clock> = clock.clone();
        let of = installation(name);
        let election = Election::new(&of, &self.generation.to_string(), shared.clone());
        let keeper =
            CertificateController::new(of.clone(), self.times, shared.clone(), election.leader());
        let publisher = Publisher::new(&of, None, shared);
        let line = self.fake.client(name);
        Node { name: name.to_owned(), clock, election, keeper, publisher, line, asleep: false }
    }

    /// A process ends, with all that it remembers, and another one begins.
    fn restart(&mut self, index: usize) {
        let (name, clock) = (self.nodes[index].name.clone(), self.nodes[index].clock.clone());
        self.nodes[index] = self.node(&name, clock);
    }

    fn pass(&mut self, time: Duration) {
        self.time += time;
        self.fake.date(UNIX_EPOCH + self.time);
        for node in &self.nodes {
            node.clock.pass(time);
        }
    }

    /// Clients may observe the current configuration from now on, and the previous one for a limited time.
    fn look(&mut self) {
        let stored = self.fake.stored(Kind::ValidatingWebhookConfiguration, "", "opgate");
        let bundles = stored.map(|stored| trust::bundles(&stored, &installation("x")));
        let bundles = bundles.unwrap_or_default();
        if self.views.last().is_none_or(|(_, last)| *last != bundles) {
            if let Some((until, _)) = self.views.last_mut() {
                *until = Some(self.time);
            }
            self.views.push((None, bundles));
        }
        let (time, notice) = (self.time, self.times.notice);
        self.views.retain(|(until, _)| until.is_none_or(|until| time < until + notice));
    }

    fn round(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.asleep {
            return;
        }
        let _ = now(node.election.round(&node.line));
        let _ = now(node.keeper.reconcile(&node.line));
        let served = node.keeper.states().borrow().served.clone();
        let issuer = served.map(|served| served.issuer.digest().to_owned()).unwrap_or_default();
        let _ = now(node.publisher.publish(&node.line, &Report { issuer, ..Report::default() }));
        self.look();
        self.verify();
    }

    /// Every API server calls every replica.
    fn verify(&mut self) {
        for node in self.nodes.iter().filter(|node| !node.asleep) {
            let states = node.keeper.states();
            let state = states.borrow();
            let Some(served) = &state.served else { continue };
            let at = UNIX_EPOCH + self.time;
            for bundle in self.views.iter().filter_map(|(_, bundles)| bundles.first()) {
                // This bundle accepted this certificate before: only the time can change the result.
                let key =
                    (served.pair.not_before(), served.issuer.digest().to_owned(), bundle.clone());
                let lives = [served.pair.not_before(), served.issuer.not_before()];
                let ends = [served.pair.not_after(), served.issuer.not_after()];
                let holds =
                    lives.iter().all(|begin| *begin <= at) && ends.iter().all(|end| at < *end);
                self.handshakes += 1;
                if holds && self.accepted.contains(&key) {
                    continue;
                }
                let seen = verify(&served.pair, bundle, Some("opgate.opgate-system.svc"), at);
                let day = self.time.abs_diff(START).as_secs() / 86_400;
                assert!(seen.is_ok(), "day {day}: {}: {seen:?}", node.name);
                self.accepted.insert(key);
            }
        }
    }

    /// Advances the time: in small steps during activity, otherwise in large ones.
    fn run(&mut self, time: Duration, large: Duration) {
        let end = self.time + time;
        while self.time < end {
            self.pass(if self.busy > 0 { SECOND * 5 } else { large });
            for index in 0..self.nodes.len() {
                self.round(index);
            }
            let writes = self.fake.writes().iter().filter(|(_, k, _)| *k != Kind::Lease).count();
            let state = |node: &Node| node.keeper.states().borrow().trouble.clone();
            let waits = self.nodes.iter().filter_map(state).any(|why| why.starts_with("waiting"));
            self.busy = if waits || writes != self.writes { 8 } else { self.busy.max(1) - 1 };
            self.writes = writes;
        }
    }

    /// Reports whether all replicas serve a trusted certificate of one CA.
    fn is_settled(&self) -> bool {
        let served = |node: &Node| {
            let state = node.keeper.states().borrow().clone();
            state.served.map(|served| served.issuer.digest().to_owned())
        };
        let mut served = self.nodes.iter().map(served);
        let first = served.next().flatten();
        first.is_some() && served.all(|other| other == first)
    }

    fn digest(&self) -> String {
        let state = self.nodes[0].keeper.states().borrow().clone();
        state.served.unwrap().issuer.digest().to_owned()
    }

    fn secret(&self) -> Option<Value> {
        self.fake.stored(Kind::Secret, NAMESPACE, SECRET)
    }

    fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.election.leader().is_leader())
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.below(u64::try_from(below).unwrap())).unwrap()
    }
}

/// Ways to damage a Secret.
fn damage(world: &World, random: &mut Random) {
    let Some(mut secret) = world.secret() else { return };
    let entry = ["ca.crt", "ca.key", "tls.crt", "tls.key"][random.index(4)];
    match random.below(5) {
        0 => drop(world.fake.remove(Kind::Secret, NAMESPACE, SECRET)),
        1 => {
            secret["data"][entry] = json!("?");
            world.fake.put(Kind::Secret, NAMESPACE, secret);
        }
        2 => {
            secret["data"][entry] = trust::encode("-----BEGIN CERTIFICATE-----\nAAAA\n");
            world.fake.put(Kind::Secret, NAMESPACE, secret);
        }
        3 => {
            secret["data"].as_object_mut().unwrap().remove(entry);
            world.fake.put(Kind::Secret, NAMESPACE, secret);
        }
        _ => {
            secret["data"] = json!(["no", "map"]);
            world.fake.put(Kind::Secret, NAMESPACE, secret);
        }
    }
}

#[test]
fn two_replicas_started_together_serve_a_trusted_certificate() {
    let mut world = World::new(&["a", "b"], Times::default());
    world.run(SECOND * 60, HOUR);
    assert!(world.is_settled());
    let secret = world.secret().unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let writers: Vec<_> = world.fake.writes().into_iter().filter(|w| w.1 != Kind::Lease).collect();
    assert!(writers.iter().all(|(who, ..)| who == "a"), "{writers:?}");
    assert_eq!(writers.len(), 3, "Secret, configuration, leaf: {writers:?}");
    // One CA, and the leaf is for the Service.
    let state = world.nodes[1].keeper.states().borrow().clone();
    assert_eq!(state.bundle.matches("BEGIN").count(), 1);
    assert!(state.trouble.is_none(), "{:?}", state.trouble);
    assert!(world.handshakes > 10);
}

#[test]
fn ten_years_pass_and_no_handshake_fails() {
    let mut world = World::new(&["a", "b"], Times::default());
    world.run(SECOND * 60, HOUR);
    let mut authorities = vec![world.digest()];
    while world.time < START + DAY * 3_650 {
        world.run(DAY * 5, DAY * 3);
        let digest = world.digest();
        if !authorities.contains(&digest) {
            authorities.push(digest);
        }
        let bundle = world.nodes[0].keeper.states().borrow().bundle.matches("BEGIN").count();
        assert!((1..=2).contains(&bundle), "{bundle} CAs");
    }
    // A CA lives for a year, and is replaced after eight months.
    assert_eq!(authorities.len(), 15);
    assert!(world.is_settled());
    println!("{} handshakes", world.handshakes);
}

#[test]
fn ten_years_with_random_failures_fail_no_handshake() {
    for seed in [3, 14] {
        let mut random = Random(seed);
        let mut world = World::new(&["a", "b", "c"], Times::default());
        world.run(SECOND * 60, HOUR);
        let end = START + DAY * 3_650;
        let mut wakes = [Duration::MAX; 3];
        while world.time < end {
            for (index, wakes) in wakes.iter_mut().enumerate() {
                if *wakes <= world.time {
                    *wakes = Duration::MAX;
                    world.nodes[index].asleep = false;
                    world.round(index);
                }
            }
            let who = random.index(3);
            match random.below(9) {
                0 => world.restart(who),
                1 => {
                    // At least one is awake.
                    let awake = world.nodes.iter().filter(|node| !node.asleep).count();
                    if awake > 1 && !world.nodes[who].asleep {
                        world.nodes[who].asleep = true;
                        wakes[who] =
                            world.time + DAY * (1 + u32::try_from(random.below(500)).unwrap());
                    }
                }
                2 => world.fake.line(&world.nodes[who].name, Line::Down),
                3 => world.fake.line(&world.nodes[who].name, Line::Deaf),
                4 => {
                    let calendar = Duration::from_secs(random.below(3_000_000_000));
                    world.nodes[who].clock.set(calendar);
                }
                5 => damage(&world, &mut random),
                6 => {
                    let steps = 1 + random.index(4);
                    world.fake.fuse(steps, [Line::Down, Line::Deaf][random.index(2)]);
                }
                7 => drop(world.fake.remove(Kind::Lease, NAMESPACE, crate::lease::NAME)),
                _ => {}
            }
            let most = [SECOND * 40, HOUR, DAY * 20, DAY * 20][random.index(4)];
            world.run(most, DAY * 4);
            for node in &world.nodes {
                world.fake.line(&node.name, Line::Up);
            }
            world.run(SECOND * 5, SECOND * 5);
        }
        for index in 0..3 {
            world.nodes[index].asleep = false;
            world.round(index);
        }
        world.run(DAY, HOUR);
        assert!(world.is_settled(), "seed {seed}");
        println!("{} handshakes", world.handshakes);
    }
}

/// An interruption in the middle of a step.
#[derive(Debug, Clone, Copy)]
enum Mishap {
    /// The leader loses its connection to the API server.
    LeaderCutOff,
    /// It receives no more responses, and its requests are executed.
    LeaderDeaf,
    /// The process ends.
    LeaderEnds,
    /// All processes end.
    AllEnd,
    /// The other one cannot reach the API server any more.
    OtherCutOff,
    /// The Secret is gone.
    SecretLost,
    /// An entry of the Secret is garbage.
    Damaged(&'static str),
    /// The leader's calendar jumps.
    LeaderJumps(Duration),
    /// The other one's calendar jumps.
    OtherJumps(Duration),
    /// A user applies the configuration with an old bundle, and without one.
    ConfigurationLost,
}

#[test]
fn failure_during_any_step_fails_no_handshake() {
    let far = START + DAY * 36_500;
    let mishaps = [
        Mishap::LeaderCutOff,
        Mishap::LeaderDeaf,
        Mishap::LeaderEnds,
        Mishap::AllEnd,
        Mishap::OtherCutOff,
        Mishap::SecretLost,
        Mishap::Damaged("ca.crt"),
        Mishap::Damaged("ca.key"),
        Mishap::Damaged("tls.crt"),
        Mishap::Damaged("tls.key"),
        Mishap::LeaderJumps(far),
        Mishap::LeaderJumps(Duration::ZERO),
        Mishap::OtherJumps(far),
        Mishap::OtherJumps(Duration::ZERO),
        Mishap::ConfigurationLost,
    ];
    for mishap in mishaps {
        // A certificate; a fresh certificate with a new CA; the configuration; a certificate of the new CA;
        // the configuration without the old one, and so on.
        for step in 1..=6 {
            let lasts = [SECOND * 20, HOUR * 2][step % 2];
            let mut world = World::new(&["a", "b"], SHORT);
            world.run(SECOND * 60, HOUR);
            let first = world.digest();
            world.fake.fuse(step, Line::Down);
            let mut ticks = 0;
            while world.fake.has_fuse() {
                world.run(SECOND, HOUR * 2);
                ticks += 1;
                assert!(ticks < 1_000, "{mishap:?} at {step}: nothing happens");
            }
            let writes = world.fake.writes();
            let (who, ..) = writes.iter().rev().find(|w| w.1 != Kind::Lease).unwrap();
            let leader = world.nodes.iter().position(|node| node.name == *who).unwrap();
            let other = 1 - leader;
            let name = |index: usize| world.nodes[index].name.clone();
            if !matches!(mishap, Mishap::LeaderCutOff) {
                world.fake.line(who, Line::Up);
            }
            match mishap {
                Mishap::LeaderCutOff => {}
                Mishap::LeaderDeaf => world.fake.line(&name(leader), Line::Deaf),
                Mishap::LeaderEnds => world.restart(leader),
                Mishap::AllEnd => (0..2).for_each(|index| world.restart(index)),
                Mishap::OtherCutOff => world.fake.line(&name(other), Line::Down),
                Mishap::SecretLost => {
                    assert!(world.fake.remove(Kind::Secret, NAMESPACE, SECRET));
                }
                Mishap::Damaged(entry) => {
                    let mut secret = world.secret().unwrap();
                    secret["data"][entry] = json!("?");
                    world.fake.put(Kind::Secret, NAMESPACE, secret);
                }
                Mishap::LeaderJumps(to) => world.nodes[leader].clock.set(to),
                Mishap::OtherJumps(to) => world.nodes[other].clock.set(to),
                Mishap::ConfigurationLost => {
                    let lost = configuration("");
                    world.fake.put(Kind::ValidatingWebhookConfiguration, "", lost);
                    // Until the next round restores it, no certificate is trusted: the model expects this.
                    world.views.clear();
                    for index in [leader, other] {
                        world.pass(SECOND * 16);
                        let node = &mut world.nodes[index];
                        let _ = now(node.election.round(&node.line));
                        let _ = now(node.keeper.reconcile(&node.line));
                    }
                }
            }
            world.run(lasts, HOUR);
            world.fake.line("a", Line::Up);
            world.fake.line("b", Line::Up);
            world.run(DAY * 5, HOUR * 6);
            assert!(world.is_settled(), "{mishap:?} at {step} for {lasts:?}");
            assert_ne!(world.digest(), first, "{mishap:?} at {step}: the CA never changes");
        }
    }
}

#[test]
fn replica_paused_for_two_rotations_serves_trusted_certificate() {
    let mut world = World::new(&["a", "b"], Times::default());
    world.run(SECOND * 60, HOUR);
    let before = world.digest();
    world.nodes[0].asleep = true;
    world.run(DAY * 500, DAY * 3);
    world.nodes[0].asleep = false;
    world.run(SECOND * 5, SECOND);
    assert!(world.is_settled());
    assert_ne!(world.digest(), before);
    // It was the leader, but its term has ended, although it has not noticed that itself.
    assert!(world.leader().is_some());
}

/// All processes and the Secret at once: whom the configuration trusts is kept, and the new leaf waits for it.
#[test]
fn when_everything_is_lost_a_leaf_is_served_when_it_is_trusted() {
    let mut world = World::new(&["a", "b"], Times::default());
    world.run(DAY, HOUR);
    let before = world.digest();
    world.fake.remove(Kind::Secret, NAMESPACE, SECRET);
    (0..2).for_each(|index| world.restart(index));
    world.run(SECOND * 40, SECOND * 5);
    let trouble = world.nodes[0].keeper.states().borrow().trouble.clone().unwrap();
    assert!(trouble.starts_with("waiting"), "{trouble}");
    world.run(SECOND * 60, HOUR);
    assert!(world.is_settled());
    assert_ne!(world.digest(), before);
    let bundle = world.nodes[0].keeper.states().borrow().bundle.matches("BEGIN").count();
    assert_eq!(bundle, 2, "the CA that the configuration named is still there");
}

/// An installation brings the Secret without type and content, and no permission to create another.
#[test]
fn empty_secret_of_an_installation_is_filled() {
    let mut world = World::new(&["a", "b"], Times::default());
    world.fake.forbid_creation(Kind::Secret);
    let empty = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": SECRET},
    });
    world.fake.put(Kind::Secret, NAMESPACE, empty.clone());
    world.run(DAY, HOUR);
    assert!(world.is_settled());
    assert_eq!(world.secret().unwrap()["type"], "Opaque");

    world.fake.remove(Kind::Secret, NAMESPACE, SECRET);
    world.run(SECOND * 40, SECOND * 5);
    let repair =
        format!("create it empty with `kubectl -n {NAMESPACE} create secret generic {SECRET}`");
    let mut states = world.nodes.iter().map(|node| node.keeper.states().borrow().trouble.clone());
    assert!(states.any(|trouble| trouble.is_some_and(|trouble| trouble.ends_with(&repair))));
    world.fake.put(Kind::Secret, NAMESPACE, empty);
    world.run(HOUR, HOUR);
    assert!(world.is_settled());
}

/// As long as a configuration of ours cannot be changed, the CA does not change, and others are.
#[test]
fn ca_is_not_rotated_without_permission_for_configurations() {
    let mut world = World::new(&["a", "b"], SHORT);
    world.run(SECOND * 60, HOUR);
    let before = world.digest();
    world.fake.forbid(Kind::ValidatingWebhookConfiguration, true);
    world.run(HOUR * 12, HOUR);
    assert_eq!(world.digest(), before);
    let trouble = world.nodes[0].keeper.states().borrow().trouble.clone().unwrap();
    assert!(trouble.contains("forbidden"), "{trouble}");
    world.fake.forbid(Kind::ValidatingWebhookConfiguration, false);
    world.run(DAY * 4, HOUR);
    assert_ne!(world.digest(), before);
    assert!(world.is_settled());
}

/// A pair that an administrator had made before is served until the new one is trusted.
#[test]
fn pair_from_files_is_served_until_the_new_one_is_trusted() {
    let mut world = World::new(&["a", "b"], Times::default());
    let at = UNIX_EPOCH + world.time;
    let authority = opgate_certs::Authority::create_at(at, DAY * 3_650).unwrap();
    let names = opgate_certs::service_names(NAMESPACE, "opgate");
    let issued = authority.issue_at(&names, at, DAY * 90).unwrap();
    let data = json!({
        "tls.crt": trust::encode(&issued.certificate),
        "tls.key": trust::encode(&issued.key),
    });
    let secret = json!({"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": data});
    world.fake.put(Kind::Secret, NAMESPACE, secret);
    let configuration = configuration(authority.certificate());
    world.fake.put(Kind::ValidatingWebhookConfiguration, "", configuration);
    world.views.clear();
    world.run(SECOND * 5, SECOND);
    let old = world.digest();
    assert_eq!(old, opgate_certs::Root::all(authority.certificate().as_bytes())[0].digest());
    world.run(SECOND * 120, SECOND);
    assert_ne!(world.digest(), old);
    assert!(world.is_settled());
}

#[test]
fn a_secret_of_cert_manager_is_left_alone() {
    let mut world = World::new(&["a"], Times::default());
    let secret = json!({"metadata": {
        "name": SECRET,
        "annotations": {"cert-manager.io/certificate-name": "opgate"},
    }});
    world.fake.put(Kind::Secret, NAMESPACE, secret);
    world.run(SECOND * 60, SECOND * 5);
    assert!(world.fake.writes().iter().all(|(_, kind, _)| *kind == Kind::Lease));
    let trouble = world.nodes[0].keeper.states().borrow().trouble.clone().unwrap();
    assert!(trouble.contains("cert-manager"), "{trouble}");
}

/// Checks that the bundle stays bounded when users delete the Secret repeatedly.
#[test]
fn the_bundle_has_a_bound() {
    let mut world = World::new(&["a", "b"], Times::default());
    world.run(SECOND * 60, HOUR);
    for _ in 0..20 {
        world.fake.remove(Kind::Secret, NAMESPACE, SECRET);
        world.run(SECOND * 90, SECOND * 5);
    }
    let bundle = world.nodes[0].keeper.states().borrow().bundle.matches("BEGIN").count();
    assert!(bundle <= plan::MOST, "{bundle}");
    assert!(world.is_settled());
}
