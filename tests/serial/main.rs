//! Tests that need the machine to themselves, one after the other: they load it until something gives
//! way, print figures of it, or start a control plane on ports that were free a moment ago.
//!
//! `cargo test --workspace` does not run them: their results depend on speed. Run
//! `cargo test --workspace --test serial`. Each test waits until the processors are idle, and fails with a
//! message that names the load if they do not become idle: on a busy machine it could not tell.

mod attacks;
mod cgroup;
mod connections;
mod denial_events;
mod doctor;
mod envtest;
mod flow_control;
mod hostile;
mod installed;
mod isolation;
mod lifecycle;
mod managed_webhooks;
mod memory;
mod races;
mod reliability;
mod reloads;
mod reservation_cost;
mod reservations;
mod rolling_restart;
mod self_managed_certificates;
mod shared_reservations;
mod tenant_fairness;
mod webhook_traffic;

use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");

/// Share of the processors that other processes may use while a test runs.
const MAX_LOAD: f64 = 0.4;

/// How long a test waits for an idle machine: what a linker or the previous test leaves behind is over by then.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What each test here waits for first, and keeps until it ends: its turn, on an idle machine.
async fn wait_for_idle_machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::const_new(());
    let turn = MACHINE.lock().await;
    let start = Instant::now();
    loop {
        let load = load_over(Duration::from_millis(300)).await;
        if load <= MAX_LOAD {
            return turn;
        }
        assert!(
            start.elapsed() < MAX_WAIT,
            "the machine is too busy to tell: other processes use {:.0} % of its processors (at most {:.0} %). \
             Run this test again when they are idle",
            load * 100.0,
            MAX_LOAD * 100.0
        );
    }
}

/// [`wait_for_idle_machine`] for tests without a runtime.
fn block_until_idle_machine() -> MutexGuard<'static, ()> {
    tokio::runtime::Runtime::new().unwrap().block_on(wait_for_idle_machine())
}

/// The share of all processors that was used over a period: 0 to 1; 0 where the kernel does not tell.
async fn load_over(period: Duration) -> f64 {
    let before = processor_ticks();
    sleep(period).await;
    let (Some((idle_before, all_before)), Some((idle, all))) = (before, processor_ticks()) else {
        return 0.0;
    };
    let (idle, all) = (idle - idle_before, all - all_before);
    if all > 0.0 { 1.0 - idle / all } else { 0.0 }
}

/// Idle and total ticks of all processors since boot: the first line of `/proc/stat`, user, nice, system,
/// idle, iowait, irq, softirq and steal (`proc_stat(5)`).
fn processor_ticks() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<f64> = stat
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|ticks| ticks.parse().ok())
        .collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((idle, ticks.iter().sum()))
}
