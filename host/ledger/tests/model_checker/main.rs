//! The machine in all orders of events of a small cluster, explored by a model checker.
//!
//! All requests create objects of one resource that exclude each other. A replica evaluates, and
//! asks its machine; the API server stores allowed objects, or does not, within the time that it
//! has. Time, both watches, reads, writes and failures advance independently.
//!
//! A [`Mutation`] leaves out one step of the protocol, and the checker must then find two stored
//! objects. The steps are left out around the machine: in what a replica reports to it, and in the
//! API server.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod ledger_access;
mod machine_driver;
mod model;
mod request_steps;
mod state;

use cluster::{Cluster, Failures, Mutation};
use model::INVARIANTS;
use stateright::{Checker, HasDiscoveries, Model as _, UniformChooser};

/// Explores all states.
fn explore_all(cluster: Cluster) {
    let text = format!("{cluster:?}");
    let checker = cluster.checker().spawn_bfs().join();
    report(&text, &checker);
    checker.assert_properties();
}

/// Explores this number of states nearest to the first, and as many on random paths to the end.
fn explore(cluster: &Cluster, states: usize) {
    let builder = || cluster.clone().checker().target_state_count(states);
    let checker = builder().spawn_bfs().join();
    report(&format!("nearest: {cluster:?}"), &checker);
    assert_safe(&checker);
    let checker = builder().spawn_simulation(1, UniformChooser).join();
    report(&format!("random: {cluster:?}"), &checker);
    assert_safe(&checker);
}

fn assert_safe(checker: &impl Checker<Cluster>) {
    for property in INVARIANTS {
        checker.assert_no_discovery(property);
    }
}

/// Asserts that the checker finds two stored objects. Depth first, which finds a long path sooner
/// than a short one.
fn find_violation(cluster: Cluster) {
    let text = format!("{cluster:?}");
    let finish = HasDiscoveries::AnyOf([INVARIANTS[0]].into_iter().collect());
    let builder = cluster.checker().finish_when(finish).target_state_count(10_000_000);
    let checker = builder.spawn_dfs().join();
    report(&text, &checker);
    let path = checker.discovery(INVARIANTS[0]);
    let path = path.unwrap_or_else(|| panic!("no violation: {text}"));
    println!("{:?}", path.into_actions());
}

fn report(text: &str, checker: &impl Checker<Cluster>) {
    let (states, unique) = (checker.state_count(), checker.unique_state_count());
    println!("{states} states, {unique} different, depth {}: {text}", checker.max_depth());
}

const NONE: Failures = Failures { timeouts: 0, crashes: 0, deletions: 0 };
const TIMEOUTS: Failures = Failures { timeouts: 2, ..NONE };
const CRASH: Failures = Failures { crashes: 1, ..NONE };
const DELETION: Failures = Failures { deletions: 1, ..NONE };

const SMALL: Cluster = Cluster {
    replicas: 2,
    requests: 2,
    horizon: 4,
    failures: NONE,
    is_slow: false,
    is_new: false,
    mutation: Mutation::None,
};

/// One cluster for each kind of failure, and larger ones.
const CLUSTERS: [Cluster; 9] = [
    Cluster { is_slow: true, ..SMALL },
    Cluster { failures: TIMEOUTS, ..SMALL },
    Cluster { failures: CRASH, ..SMALL },
    Cluster { failures: DELETION, horizon: 7, ..SMALL },
    Cluster { is_new: true, horizon: 7, ..SMALL },
    Cluster { failures: Failures { timeouts: 1, crashes: 1, deletions: 1 }, horizon: 7, ..SMALL },
    Cluster { requests: 3, ..SMALL },
    Cluster { replicas: 3, requests: 3, ..SMALL },
    Cluster { replicas: 3, requests: 3, failures: TIMEOUTS, is_slow: true, horizon: 7, ..SMALL },
];

#[test]
fn two_replicas_store_at_most_one_in_all_orders() {
    explore_all(Cluster { horizon: 3, ..SMALL });
}

#[test]
fn failures_store_at_most_one() {
    for cluster in &CLUSTERS {
        explore(cluster, 100_000);
    }
}

#[test]
#[ignore = "takes ten minutes"]
fn failures_store_at_most_one_in_many_orders() {
    explore_all(SMALL);
    for cluster in &CLUSTERS {
        explore(cluster, 2_000_000);
    }
}

#[test]
fn write_without_comparison_is_found() {
    find_violation(Cluster { mutation: Mutation::NoCompare, ..SMALL });
}

#[test]
fn missing_check_of_imports_is_found() {
    find_violation(Cluster { mutation: Mutation::NoRecheck, ..SMALL });
}

#[test]
fn early_removal_is_found() {
    find_violation(Cluster { mutation: Mutation::NoWatermark, ..SMALL });
}

#[test]
fn missing_wait_for_the_view_is_found() {
    find_violation(Cluster { mutation: Mutation::NoWaitForView, ..SMALL });
}

#[test]
fn missing_hold_is_found() {
    find_violation(Cluster { mutation: Mutation::NoHold, ..SMALL });
}

#[test]
fn late_response_is_found() {
    find_violation(Cluster { mutation: Mutation::LateResponse, ..SMALL });
}

#[test]
fn missing_wait_after_loss_is_found() {
    let mutation = Mutation::NoWaitAfterLoss;
    find_violation(Cluster { mutation, failures: DELETION, horizon: 0, ..SMALL });
}

#[test]
fn missing_read_after_loss_is_found() {
    find_violation(Cluster { mutation: Mutation::NoFloor, failures: DELETION, ..SMALL });
}
