//! Tests that have the machine to themselves, one after the other: they load it until something gives
//! way, print figures of it, or start a control plane on ports that were free a moment ago.
//!
//! Cargo runs one executable at a time, so that nothing of `e2e` runs beside them.

mod attacks;
mod cgroup;
mod conflicting_pairs;
mod connections;
mod doctor;
mod envtest;
mod installed;
mod isolation;
mod lifecycle;
mod managed_webhooks;
mod memory;
mod races;
mod reliability;
mod reloads;
mod replicas;
mod reservations;
mod self_managed_certificates;
mod tenant_fairness;
mod webhook_traffic;

use tokio::sync::{Mutex, MutexGuard};

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");

/// What each test here waits for first, and keeps until it ends.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}
