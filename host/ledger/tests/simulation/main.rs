//! Random schedules of a cluster in virtual time: latencies, failures, many objects and tenants.
//!
//! ```text
//! Arrive ─▶ evaluate ─▶ Append ─▶ (Machine) ─▶ Committed ─▶ response ─▶ the API server stores it, or not
//!   ▲          │                     │                                        │
//!   └── wait ──┴───── Outdated ──────┘        watches, direct reads ◀─────────┘
//! ```
//!
//! The rule: at most one object of each resource has a color. Requests create objects and change
//! colors, and objects are deleted. A seed determines everything.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod ledger_access;
mod machine_driver;
mod object_reads;
mod replica;
mod request;
mod request_steps;
mod schedule;
mod setup;

use std::collections::BTreeMap;

use cluster::Simulation;
use request::Phase;
use setup::{Random, Setup};

/// Asserts what holds at the end: everything is decided, and the ledger is empty.
fn assert_drained(simulation: &Simulation) {
    assert_eq!(simulation.entries(), 0);
    for replica in &simulation.replicas {
        assert_eq!(replica.machine.waiting(), 0);
        assert_eq!(replica.machine.next_wake(), None);
        assert!(replica.imported.is_empty());
    }
    let is_undecided =
        |phase: &Phase| matches!(phase, Phase::Evaluating | Phase::Waiting | Phase::Appended);
    assert_eq!(simulation.count(is_undecided), 0);
}

fn simulate(seed: u64, setup: impl Fn(&mut Random) -> Setup) -> Simulation {
    struct Report(u64, bool);
    impl Drop for Report {
        fn drop(&mut self) {
            if !self.1 {
                println!("seed {}", self.0);
            }
        }
    }
    let mut report = Report(seed, false);
    let mut random = Random(seed);
    let setup = setup(&mut random);
    let mut simulation = Simulation::new(setup, random);
    simulation.run();
    assert_drained(&simulation);
    report.1 = true;
    simulation
}

#[test]
fn failures_store_at_most_one_object_of_each_color() {
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..3_000 {
        let simulation = simulate(seed, Setup::rough);
        for request in &simulation.requests {
            let phase = format!("{:?}", request.phase);
            let name = phase.split([' ', '(']).take(2).collect::<Vec<_>>().join(" ");
            *outcomes.entry(name).or_default() += 1;
        }
    }
    println!("{outcomes:#?}");
    for expected in ["Stored", "Lost", "Denied", "Crashed", "Failed Full", "Failed Broken"] {
        assert!(outcomes[expected] > 100, "{expected}");
    }
}

#[test]
fn requests_without_conflict_are_allowed() {
    for seed in 0..300 {
        let simulation = simulate(seed, |_| Setup::calm());
        let is_refused = |phase: &Phase| matches!(phase, Phase::Denied | Phase::Failed(_));
        assert_eq!(simulation.count(is_refused), 0, "seed {seed}");
    }
}

#[test]
fn burst_takes_few_writes() {
    for replicas in 1..=5 {
        for requests in [100, 200, 400] {
            let simulation = simulate(1, |_| Setup {
                replicas,
                requests,
                load_time: 1,
                tenants: 400,
                ..Setup::calm()
            });
            println!("{replicas} replicas, {requests} requests: {} writes", simulation.writes);
            assert!(simulation.writes <= 20 * replicas, "{}", simulation.writes);
        }
    }
}

#[test]
fn sustained_load_commits_within_some_round_trips() {
    for replicas in [1, 2, 3, 5] {
        let simulation = simulate(1, |_| Setup {
            replicas,
            requests: 2_000,
            load_time: 10_000,
            tenants: 400,
            max_watch_lag: 6,
            ..Setup::calm()
        });
        let times = simulation.requests.iter().filter_map(|request| request.commit_time);
        let mut times: Vec<_> = times.collect();
        times.sort_unstable();
        let part = |percent: usize| times[(times.len() - 1) * percent / 100];
        let attempts: u64 = simulation.requests.iter().map(|request| request.attempt).sum();
        let (p50, p99, max) = (part(50), part(99), part(100));
        println!(
            "{replicas} replicas: {attempts} evaluations, {} commits in {} writes, \
             p50 {p50} ms, p99 {p99} ms, max {max} ms",
            times.len(),
            simulation.writes
        );
        let round_trip = 2 * simulation.setup.max_latency;
        assert!(p99 <= 40 * round_trip, "{p99}");
    }
}
