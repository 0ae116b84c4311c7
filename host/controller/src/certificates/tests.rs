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
use crate::fake::{Connectivity, FakeApiClient, FakeApiServer, FakeClock, run_ready};
use crate::lease::Election;
use crate::replicas::{Publisher, ReplicaStatus};
use crate::{INSTALLATION_LABEL, Installation, OWNER_ANNOTATION, trust};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const NAMESPACE: &str = "opgate-system";
const START: Duration = Duration::from_secs(1_700_000_000);

/// Lives of a scenario: a rotation of everything takes days.
const SHORT_LIFETIMES: CertificateLifetimes = CertificateLifetimes {
    ca: Duration::from_secs(4 * 86_400),
    serving_certificate: DAY,
    ca_propagation_delay: Duration::from_secs(30),
};

struct Node {
    name: String,
    clock: Arc<FakeClock>,
    election: Election,
    controller: CertificateController,
    publisher: Publisher,
    client: FakeApiClient,
    is_paused: bool,
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
    let webhook = |name: &str| json!({"name": name, "clientConfig": {"service": service, "caBundle": trust::encode_base64(bundle)}});
    json!({
        "metadata": {
            "name": "opgate",
            "labels": {INSTALLATION_LABEL: NAMESPACE},
            "annotations": {OWNER_ANNOTATION: "opgate-system/opgate"},
        },
        "webhooks": [webhook("va.x.io"), webhook("vb.x.io")],
    })
}

struct Simulation {
    fake: FakeApiServer,
    lifetimes: CertificateLifetimes,
    nodes: Vec<Node>,
    /// The true calendar.
    time: Duration,
    /// The bundles that an API server may use, each with the time at which another one replaced it.
    visible_bundles: Vec<(Option<Duration>, Vec<Vec<u8>>)>,
    handshakes: usize,
    /// Leaf, CA and bundle of handshakes that were good.
    verified_handshakes: HashSet<(SystemTime, String, Vec<u8>)>,
    writes: usize,
    generation: u32,
    /// Remaining small steps, while activity continues.
    small_steps_left: usize,
}

impl Simulation {
    fn new(names: &[&str], lifetimes: CertificateLifetimes) -> Self {
        let fake = FakeApiServer::default();
        fake.put(Kind::ValidatingWebhookConfiguration, "", configuration(""));
        let mut simulation = Self {
            fake,
            lifetimes,
            nodes: Vec::new(),
            time: START,
            visible_bundles: Vec::new(),
            handshakes: 0,
            verified_handshakes: HashSet::new(),
            writes: 0,
            generation: 0,
            small_steps_left: 10,
        };
        for name in names {
            let node = simulation.node(name, FakeClock::at(START));
            simulation.nodes.push(node);
        }
        simulation.advance(Duration::ZERO);
        simulation
    }

    fn node(&mut self, name: &str, clock: Arc<FakeClock>) -> Node {
        self.generation += 1;
        let shared: Arc<dyn Clock> = clock.clone();
        let of = installation(name);
        let election = Election::new(&of, &self.generation.to_string(), shared.clone());
        let controller = CertificateController::new(
            of.clone(),
            self.lifetimes,
            shared.clone(),
            election.leader(),
        );
        let publisher = Publisher::new(&of, None, shared);
        let line = self.fake.client(name);
        Node {
            name: name.to_owned(),
            clock,
            election,
            controller,
            publisher,
            client: line,
            is_paused: false,
        }
    }

    /// A process ends, with all that it remembers, and another one begins.
    fn restart(&mut self, index: usize) {
        let (name, clock) = (self.nodes[index].name.clone(), self.nodes[index].clock.clone());
        self.nodes[index] = self.node(&name, clock);
    }

    fn advance(&mut self, time: Duration) {
        self.time += time;
        self.fake.set_date(UNIX_EPOCH + self.time);
        for node in &self.nodes {
            node.clock.advance(time);
        }
    }

    /// Clients may observe the current configuration from now on, and the previous one for a limited time.
    fn observe_configuration(&mut self) {
        let stored = self.fake.stored(Kind::ValidatingWebhookConfiguration, "", "opgate");
        let bundles = stored.map(|stored| trust::ca_bundles(&stored, &installation("x")));
        let bundles = bundles.unwrap_or_default();
        if self.visible_bundles.last().is_none_or(|(_, last)| *last != bundles) {
            if let Some((until, _)) = self.visible_bundles.last_mut() {
                *until = Some(self.time);
            }
            self.visible_bundles.push((None, bundles));
        }
        let (time, notice) = (self.time, self.lifetimes.ca_propagation_delay);
        self.visible_bundles.retain(|(until, _)| until.is_none_or(|until| time < until + notice));
    }

    fn reconcile(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.is_paused {
            return;
        }
        let _ = run_ready(node.election.renew_or_acquire(&node.client));
        let _ = run_ready(node.controller.reconcile(&node.client));
        let served = node.controller.states().borrow().served.clone();
        let issuer = served.map(|served| served.issuer.digest().to_owned()).unwrap_or_default();
        let _ = run_ready(
            node.publisher
                .publish(&node.client, &ReplicaStatus { issuer, ..ReplicaStatus::default() }),
        );
        self.observe_configuration();
        self.verify();
    }

    /// Every API server calls every replica.
    fn verify(&mut self) {
        for node in self.nodes.iter().filter(|node| !node.is_paused) {
            let states = node.controller.states();
            let state = states.borrow();
            let Some(served) = &state.served else { continue };
            let at = UNIX_EPOCH + self.time;
            for bundle in self.visible_bundles.iter().filter_map(|(_, bundles)| bundles.first()) {
                // This bundle accepted this certificate before: only the time can change the result.
                let key = (
                    served.certificate.not_before(),
                    served.issuer.digest().to_owned(),
                    bundle.clone(),
                );
                let lives = [served.certificate.not_before(), served.issuer.not_before()];
                let ends = [served.certificate.not_after(), served.issuer.not_after()];
                let holds =
                    lives.iter().all(|begin| *begin <= at) && ends.iter().all(|end| at < *end);
                self.handshakes += 1;
                if holds && self.verified_handshakes.contains(&key) {
                    continue;
                }
                let seen =
                    verify(&served.certificate, bundle, Some("opgate.opgate-system.svc"), at);
                let day = self.time.abs_diff(START).as_secs() / 86_400;
                assert!(seen.is_ok(), "day {day}: {}: {seen:?}", node.name);
                self.verified_handshakes.insert(key);
            }
        }
    }

    /// Advances the time: in small steps during activity, otherwise in large ones.
    fn run(&mut self, time: Duration, large: Duration) {
        let end = self.time + time;
        while self.time < end {
            self.advance(if self.small_steps_left > 0 { SECOND * 5 } else { large });
            for index in 0..self.nodes.len() {
                self.reconcile(index);
            }
            let writes = self.fake.writes().iter().filter(|(_, k, _)| *k != Kind::Lease).count();
            let state = |node: &Node| node.controller.states().borrow().error.clone();
            let waits = self.nodes.iter().filter_map(state).any(|why| why.starts_with("waiting"));
            self.small_steps_left =
                if waits || writes != self.writes { 8 } else { self.small_steps_left.max(1) - 1 };
            self.writes = writes;
        }
    }

    /// Reports whether all replicas serve a trusted certificate of one CA.
    fn is_settled(&self) -> bool {
        let served = |node: &Node| {
            let state = node.controller.states().borrow().clone();
            state.served.map(|served| served.issuer.digest().to_owned())
        };
        let mut served = self.nodes.iter().map(served);
        let first = served.next().flatten();
        first.is_some() && served.all(|other| other == first)
    }

    fn digest(&self) -> String {
        let state = self.nodes[0].controller.states().borrow().clone();
        state.served.unwrap().issuer.digest().to_owned()
    }

    fn secret(&self) -> Option<Value> {
        self.fake.stored(Kind::Secret, NAMESPACE, SECRET_NAME)
    }

    fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.election.leader().is_leader())
    }
}

struct Random(u64);

impl Random {
    fn next_below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn next_index(&mut self, below: usize) -> usize {
        usize::try_from(self.next_below(u64::try_from(below).unwrap())).unwrap()
    }
}

/// Ways to damage a Secret.
fn damage_secret(simulation: &Simulation, random: &mut Random) {
    let Some(mut secret) = simulation.secret() else { return };
    let entry = ["ca.crt", "ca.key", "tls.crt", "tls.key"][random.next_index(4)];
    match random.next_below(5) {
        0 => drop(simulation.fake.remove(Kind::Secret, NAMESPACE, SECRET_NAME)),
        1 => {
            secret["data"][entry] = json!("?");
            simulation.fake.put(Kind::Secret, NAMESPACE, secret);
        }
        2 => {
            secret["data"][entry] = trust::encode_base64("-----BEGIN CERTIFICATE-----\nAAAA\n");
            simulation.fake.put(Kind::Secret, NAMESPACE, secret);
        }
        3 => {
            secret["data"].as_object_mut().unwrap().remove(entry);
            simulation.fake.put(Kind::Secret, NAMESPACE, secret);
        }
        _ => {
            secret["data"] = json!(["no", "map"]);
            simulation.fake.put(Kind::Secret, NAMESPACE, secret);
        }
    }
}

#[test]
fn two_replicas_started_together_serve_a_trusted_certificate() {
    let mut simulation = Simulation::new(&["a", "b"], CertificateLifetimes::default());
    simulation.run(SECOND * 60, HOUR);
    assert!(simulation.is_settled());
    let secret = simulation.secret().unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let writers: Vec<_> =
        simulation.fake.writes().into_iter().filter(|w| w.1 != Kind::Lease).collect();
    assert!(writers.iter().all(|(who, ..)| who == "a"), "{writers:?}");
    assert_eq!(writers.len(), 3, "Secret, configuration, leaf: {writers:?}");
    // One CA, and the leaf is for the Service.
    let state = simulation.nodes[1].controller.states().borrow().clone();
    assert_eq!(state.bundle.matches("BEGIN").count(), 1);
    assert!(state.error.is_none(), "{:?}", state.error);
    assert!(simulation.handshakes > 10);
}

#[test]
fn ten_years_pass_and_no_handshake_fails() {
    let mut simulation = Simulation::new(&["a", "b"], CertificateLifetimes::default());
    simulation.run(SECOND * 60, HOUR);
    let mut authorities = vec![simulation.digest()];
    while simulation.time < START + DAY * 3_650 {
        simulation.run(DAY * 5, DAY * 3);
        let digest = simulation.digest();
        if !authorities.contains(&digest) {
            authorities.push(digest);
        }
        let bundle =
            simulation.nodes[0].controller.states().borrow().bundle.matches("BEGIN").count();
        assert!((1..=2).contains(&bundle), "{bundle} CAs");
    }
    // A CA lives for a year, and is replaced after eight months.
    assert_eq!(authorities.len(), 15);
    assert!(simulation.is_settled());
    println!("{} handshakes", simulation.handshakes);
}

#[test]
fn ten_years_with_random_failures_fail_no_handshake() {
    for seed in [3, 14] {
        let mut random = Random(seed);
        let mut simulation = Simulation::new(&["a", "b", "c"], CertificateLifetimes::default());
        simulation.run(SECOND * 60, HOUR);
        let end = START + DAY * 3_650;
        let mut wakes = [Duration::MAX; 3];
        while simulation.time < end {
            for (index, wakes) in wakes.iter_mut().enumerate() {
                if *wakes <= simulation.time {
                    *wakes = Duration::MAX;
                    simulation.nodes[index].is_paused = false;
                    simulation.reconcile(index);
                }
            }
            let who = random.next_index(3);
            match random.next_below(9) {
                0 => simulation.restart(who),
                1 => {
                    // At least one is awake.
                    let awake = simulation.nodes.iter().filter(|node| !node.is_paused).count();
                    if awake > 1 && !simulation.nodes[who].is_paused {
                        simulation.nodes[who].is_paused = true;
                        wakes[who] = simulation.time
                            + DAY * (1 + u32::try_from(random.next_below(500)).unwrap());
                    }
                }
                2 => simulation
                    .fake
                    .set_connectivity(&simulation.nodes[who].name, Connectivity::Down),
                3 => simulation
                    .fake
                    .set_connectivity(&simulation.nodes[who].name, Connectivity::ResponsesLost),
                4 => {
                    let calendar = Duration::from_secs(random.next_below(3_000_000_000));
                    simulation.nodes[who].clock.set(calendar);
                }
                5 => damage_secret(&simulation, &mut random),
                6 => {
                    let steps = 1 + random.next_index(4);
                    simulation.fake.cut_off_after(
                        steps,
                        [Connectivity::Down, Connectivity::ResponsesLost][random.next_index(2)],
                    );
                }
                7 => drop(simulation.fake.remove(Kind::Lease, NAMESPACE, crate::lease::LEASE_NAME)),
                _ => {}
            }
            let most = [SECOND * 40, HOUR, DAY * 20, DAY * 20][random.next_index(4)];
            simulation.run(most, DAY * 4);
            for node in &simulation.nodes {
                simulation.fake.set_connectivity(&node.name, Connectivity::Up);
            }
            simulation.run(SECOND * 5, SECOND * 5);
        }
        for index in 0..3 {
            simulation.nodes[index].is_paused = false;
            simulation.reconcile(index);
        }
        simulation.run(DAY, HOUR);
        assert!(simulation.is_settled(), "seed {seed}");
        println!("{} handshakes", simulation.handshakes);
    }
}

/// An interruption in the middle of a step.
#[derive(Debug, Clone, Copy)]
enum Disruption {
    /// The leader loses its connection to the API server.
    LeaderDisconnected,
    /// It receives no more responses, and its requests are executed.
    LeaderLosesResponses,
    /// The process ends.
    LeaderExits,
    /// All processes end.
    AllExit,
    /// The other one cannot reach the API server any more.
    OtherDisconnected,
    /// The Secret is gone.
    SecretLost,
    /// An entry of the Secret is garbage.
    SecretDamaged(&'static str),
    /// The leader's calendar jumps.
    LeaderClockJumps(Duration),
    /// The other one's calendar jumps.
    OtherClockJumps(Duration),
    /// A user applies the configuration with an old bundle, and without one.
    ConfigurationLost,
}

#[test]
fn failure_during_any_step_fails_no_handshake() {
    let far = START + DAY * 36_500;
    let interruptions = [
        Disruption::LeaderDisconnected,
        Disruption::LeaderLosesResponses,
        Disruption::LeaderExits,
        Disruption::AllExit,
        Disruption::OtherDisconnected,
        Disruption::SecretLost,
        Disruption::SecretDamaged("ca.crt"),
        Disruption::SecretDamaged("ca.key"),
        Disruption::SecretDamaged("tls.crt"),
        Disruption::SecretDamaged("tls.key"),
        Disruption::LeaderClockJumps(far),
        Disruption::LeaderClockJumps(Duration::ZERO),
        Disruption::OtherClockJumps(far),
        Disruption::OtherClockJumps(Duration::ZERO),
        Disruption::ConfigurationLost,
    ];
    for mishap in interruptions {
        // A certificate; a fresh certificate with a new CA; the configuration; a certificate of the new CA;
        // the configuration without the old one, and so on.
        for step in 1..=6 {
            let lasts = [SECOND * 20, HOUR * 2][step % 2];
            let mut simulation = Simulation::new(&["a", "b"], SHORT_LIFETIMES);
            simulation.run(SECOND * 60, HOUR);
            let first = simulation.digest();
            simulation.fake.cut_off_after(step, Connectivity::Down);
            let mut ticks = 0;
            while simulation.fake.has_pending_cut_off() {
                simulation.run(SECOND, HOUR * 2);
                ticks += 1;
                assert!(ticks < 1_000, "{mishap:?} at {step}: nothing happens");
            }
            let writes = simulation.fake.writes();
            let (who, ..) = writes.iter().rev().find(|w| w.1 != Kind::Lease).unwrap();
            let leader = simulation.nodes.iter().position(|node| node.name == *who).unwrap();
            let other = 1 - leader;
            let name = |index: usize| simulation.nodes[index].name.clone();
            if !matches!(mishap, Disruption::LeaderDisconnected) {
                simulation.fake.set_connectivity(who, Connectivity::Up);
            }
            match mishap {
                Disruption::LeaderDisconnected => {}
                Disruption::LeaderLosesResponses => {
                    simulation.fake.set_connectivity(&name(leader), Connectivity::ResponsesLost);
                }
                Disruption::LeaderExits => simulation.restart(leader),
                Disruption::AllExit => (0..2).for_each(|index| simulation.restart(index)),
                Disruption::OtherDisconnected => {
                    simulation.fake.set_connectivity(&name(other), Connectivity::Down);
                }
                Disruption::SecretLost => {
                    assert!(simulation.fake.remove(Kind::Secret, NAMESPACE, SECRET_NAME));
                }
                Disruption::SecretDamaged(entry) => {
                    let mut secret = simulation.secret().unwrap();
                    secret["data"][entry] = json!("?");
                    simulation.fake.put(Kind::Secret, NAMESPACE, secret);
                }
                Disruption::LeaderClockJumps(to) => simulation.nodes[leader].clock.set(to),
                Disruption::OtherClockJumps(to) => simulation.nodes[other].clock.set(to),
                Disruption::ConfigurationLost => {
                    let lost = configuration("");
                    simulation.fake.put(Kind::ValidatingWebhookConfiguration, "", lost);
                    // Until the next round restores it, no certificate is trusted: the model expects this.
                    simulation.visible_bundles.clear();
                    for index in [leader, other] {
                        simulation.advance(SECOND * 16);
                        let node = &mut simulation.nodes[index];
                        let _ = run_ready(node.election.renew_or_acquire(&node.client));
                        let _ = run_ready(node.controller.reconcile(&node.client));
                    }
                }
            }
            simulation.run(lasts, HOUR);
            simulation.fake.set_connectivity("a", Connectivity::Up);
            simulation.fake.set_connectivity("b", Connectivity::Up);
            simulation.run(DAY * 5, HOUR * 6);
            assert!(simulation.is_settled(), "{mishap:?} at {step} for {lasts:?}");
            assert_ne!(simulation.digest(), first, "{mishap:?} at {step}: the CA never changes");
        }
    }
}

#[test]
fn replica_paused_for_two_rotations_serves_trusted_certificate() {
    let mut simulation = Simulation::new(&["a", "b"], CertificateLifetimes::default());
    simulation.run(SECOND * 60, HOUR);
    let before = simulation.digest();
    simulation.nodes[0].is_paused = true;
    simulation.run(DAY * 500, DAY * 3);
    simulation.nodes[0].is_paused = false;
    simulation.run(SECOND * 5, SECOND);
    assert!(simulation.is_settled());
    assert_ne!(simulation.digest(), before);
    // It was the leader, but its term has ended, although it has not noticed that itself.
    assert!(simulation.leader().is_some());
}

/// All processes and the Secret at once: whom the configuration trusts is kept, and the new leaf waits for it.
#[test]
fn total_loss_serves_new_certificate_only_once_trusted() {
    let mut simulation = Simulation::new(&["a", "b"], CertificateLifetimes::default());
    simulation.run(DAY, HOUR);
    let before = simulation.digest();
    simulation.fake.remove(Kind::Secret, NAMESPACE, SECRET_NAME);
    (0..2).for_each(|index| simulation.restart(index));
    simulation.run(SECOND * 40, SECOND * 5);
    let trouble = simulation.nodes[0].controller.states().borrow().error.clone().unwrap();
    assert!(trouble.starts_with("waiting"), "{trouble}");
    simulation.run(SECOND * 60, HOUR);
    assert!(simulation.is_settled());
    assert_ne!(simulation.digest(), before);
    let bundle = simulation.nodes[0].controller.states().borrow().bundle.matches("BEGIN").count();
    assert_eq!(bundle, 2, "the CA that the configuration named is still there");
}

/// An installation brings the Secret without type and content, and no permission to create another.
#[test]
fn empty_secret_of_an_installation_is_filled() {
    let mut simulation = Simulation::new(&["a", "b"], CertificateLifetimes::default());
    simulation.fake.forbid_creation(Kind::Secret);
    let empty = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": SECRET_NAME},
    });
    simulation.fake.put(Kind::Secret, NAMESPACE, empty.clone());
    simulation.run(DAY, HOUR);
    assert!(simulation.is_settled());
    assert_eq!(simulation.secret().unwrap()["type"], "Opaque");

    simulation.fake.remove(Kind::Secret, NAMESPACE, SECRET_NAME);
    simulation.run(SECOND * 40, SECOND * 5);
    let repair = format!(
        "create it empty with `kubectl -n {NAMESPACE} create secret generic {SECRET_NAME}`"
    );
    let mut states =
        simulation.nodes.iter().map(|node| node.controller.states().borrow().error.clone());
    assert!(states.any(|trouble| trouble.is_some_and(|trouble| trouble.ends_with(&repair))));
    simulation.fake.put(Kind::Secret, NAMESPACE, empty);
    simulation.run(HOUR, HOUR);
    assert!(simulation.is_settled());
}

/// As long as a configuration of ours cannot be changed, the CA does not change, and others are.
#[test]
fn ca_is_not_rotated_without_permission_for_configurations() {
    let mut simulation = Simulation::new(&["a", "b"], SHORT_LIFETIMES);
    simulation.run(SECOND * 60, HOUR);
    let before = simulation.digest();
    simulation.fake.forbid(Kind::ValidatingWebhookConfiguration, true);
    simulation.run(HOUR * 12, HOUR);
    assert_eq!(simulation.digest(), before);
    let trouble = simulation.nodes[0].controller.states().borrow().error.clone().unwrap();
    assert!(trouble.contains("forbidden"), "{trouble}");
    simulation.fake.forbid(Kind::ValidatingWebhookConfiguration, false);
    simulation.run(DAY * 4, HOUR);
    assert_ne!(simulation.digest(), before);
    assert!(simulation.is_settled());
}

/// A pair that an administrator had made before is served until the new one is trusted.
#[test]
fn pair_from_files_is_served_until_the_new_one_is_trusted() {
    let mut simulation = Simulation::new(&["a", "b"], CertificateLifetimes::default());
    let at = UNIX_EPOCH + simulation.time;
    let authority = opgate_certs::CertificateAuthority::create_at(at, DAY * 3_650).unwrap();
    let names = opgate_certs::service_names(NAMESPACE, "opgate");
    let issued = authority.issue_at(&names, at, DAY * 90).unwrap();
    let data = json!({
        "tls.crt": trust::encode_base64(&issued.certificate),
        "tls.key": trust::encode_base64(&issued.key),
    });
    let secret =
        json!({"metadata": {"name": SECRET_NAME}, "type": "kubernetes.io/tls", "data": data});
    simulation.fake.put(Kind::Secret, NAMESPACE, secret);
    let configuration = configuration(authority.certificate());
    simulation.fake.put(Kind::ValidatingWebhookConfiguration, "", configuration);
    simulation.visible_bundles.clear();
    simulation.run(SECOND * 5, SECOND);
    let old = simulation.digest();
    assert_eq!(old, opgate_certs::Root::from_pem(authority.certificate().as_bytes())[0].digest());
    simulation.run(SECOND * 120, SECOND);
    assert_ne!(simulation.digest(), old);
    assert!(simulation.is_settled());
}

#[test]
fn cert_manager_secret_is_not_changed() {
    let mut simulation = Simulation::new(&["a"], CertificateLifetimes::default());
    let secret = json!({"metadata": {
        "name": SECRET_NAME,
        "annotations": {"cert-manager.io/certificate-name": "opgate"},
    }});
    simulation.fake.put(Kind::Secret, NAMESPACE, secret);
    simulation.run(SECOND * 60, SECOND * 5);
    assert!(simulation.fake.writes().iter().all(|(_, kind, _)| *kind == Kind::Lease));
    let trouble = simulation.nodes[0].controller.states().borrow().error.clone().unwrap();
    assert!(trouble.contains("cert-manager"), "{trouble}");
}

/// Checks that the bundle stays bounded when users delete the Secret repeatedly.
#[test]
fn ca_bundle_size_is_limited() {
    let mut simulation = Simulation::new(&["a", "b"], CertificateLifetimes::default());
    simulation.run(SECOND * 60, HOUR);
    for _ in 0..20 {
        simulation.fake.remove(Kind::Secret, NAMESPACE, SECRET_NAME);
        simulation.run(SECOND * 90, SECOND * 5);
    }
    let bundle = simulation.nodes[0].controller.states().borrow().bundle.matches("BEGIN").count();
    assert!(bundle <= stored::MAX_CAS, "{bundle}");
    assert!(simulation.is_settled());
}
