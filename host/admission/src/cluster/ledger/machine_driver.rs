//! Carries out what the machine asks of the API server, one after the other, and reports the writes of
//! other replicas.
//!
//! ```text
//! Machine ─ Read, ReadVersion, Write ─▶ carry_out ─▶ LedgerStore ─┬▶ carry_out ─▶ Machine
//!                                                                 └▶ watch ─────▶ Machine
//! ```
//!
//! A write that follows one of another replica is a conflict, and costs three round trips instead of one,
//! unless the watch has shown the other one before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use opgate_ledger::{
    Document, Input, LedgerKey, LedgerUid, LedgerVersion, Observation, Output, Write, WriteResult,
};
use tokio::time::Instant;

use super::ledger_store::{LedgerStore, StoreError, StoredLedger};
use super::shared_reservations::{LedgerRequests, SharedReservations};

/// The interval at which settled reservations are reported.
const SWEEP_INTERVAL: Duration = Duration::from_millis(200);

/// The interval at which the ledger is read while there is no watch and other replicas have
/// reservations: it shows which of them are settled.
const ACTIVE_READ_INTERVAL: Duration = Duration::from_secs(1);

/// The interval at which the ledger is read otherwise: a missing or broken one is found before it
/// is needed.
const IDLE_READ_INTERVAL: Duration = Duration::from_secs(10);

/// The time from the start of a watch to that of the next one, at least.
const MIN_WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// Exchanges the ledger with the API server. It never ends.
pub async fn exchange_ledger(
    shared: &SharedReservations,
    store: &dyn LedgerStore,
    requests: &mut LedgerRequests,
) {
    let is_watching = AtomicBool::new(false);
    tokio::join!(
        carry_out_requests(shared, store, requests, &is_watching),
        watch(shared, store, &is_watching)
    );
}

async fn watch(shared: &SharedReservations, store: &dyn LedgerStore, is_watching: &AtomicBool) {
    loop {
        let next = Instant::now() + MIN_WATCH_INTERVAL;
        let mut observations = store.watch();
        while let Some(observed) = observations.next().await {
            match observed {
                Ok(found) => {
                    is_watching.store(true, Ordering::Relaxed);
                    shared.handle(Input::Watched(observation(found)));
                }
                // Requests do not need it; the doctor reports a missing permission.
                Err(error) => tracing::debug!(%error, "the watch of the ledger has ended"),
            }
        }
        is_watching.store(false, Ordering::Relaxed);
        tokio::time::sleep_until(next).await;
    }
}

async fn carry_out_requests(
    shared: &SharedReservations,
    store: &dyn LedgerStore,
    LedgerRequests(requests): &mut LedgerRequests,
    is_watching: &AtomicBool,
) {
    // The first read finds or creates the ledger.
    let mut last_read: Option<Instant> = None;
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        let wake = shared.next_wake();
        let is_active = shared.has_imported() && !is_watching.load(Ordering::Relaxed);
        let read_interval = if is_active { ACTIVE_READ_INTERVAL } else { IDLE_READ_INTERVAL };
        let read_at = last_read.map_or_else(Instant::now, |last| last + read_interval);
        tokio::select! {
            biased;
            request = requests.recv() => match request {
                Some(request) => carry_out(shared, store, request).await,
                None => std::future::pending().await,
            },
            () = tokio::time::sleep_until(wake.unwrap_or(read_at).min(read_at)) => {
                if Instant::now() >= read_at {
                    last_read = Some(Instant::now());
                    if let Ok(found) = store.read().await {
                        shared.handle(Input::Watched(observation(found)));
                    }
                }
                shared.handle(Input::Tick);
            }
            _ = sweep.tick() => shared.sweep(),
            () = shared.changed().notified() => {}
        }
    }
}

async fn carry_out(shared: &SharedReservations, store: &dyn LedgerStore, request: Output) {
    let input = match request {
        Output::Read => Input::ReadFinished(
            store.read().await.map(observation).map_err(|error| error.to_string()),
        ),
        Output::ReadVersion { number, resource } => {
            let version = match shared.cache_of(&resource) {
                Some(cache) => store.version_of(&cache).await,
                // No policy reads it any more.
                None => Some(0),
            };
            Input::VersionRead { number, resource, version }
        }
        Output::Write(write) => {
            let written = carry_out_write(store, write).await;
            shared.count_write(written == WriteResult::Conflict);
            Input::WriteFinished(written)
        }
        _ => return,
    };
    shared.handle(input);
}

async fn carry_out_write(store: &dyn LedgerStore, write: Write) -> WriteResult {
    let encode = |document: &Document| {
        document.encode().map_err(|error| StoreError::Rejected(error.to_string()))
    };
    let written = match &write {
        Write::Create(document) => match encode(document) {
            Ok(text) => store.create(text).await.map(Some),
            Err(error) => Err(error),
        },
        Write::Update(key, document) => match encode(document) {
            Ok(text) => store.replace(&key.uid.0, &key.version.0, text).await.map(Some),
            Err(error) => Err(error),
        },
        Write::Delete(key) => store.delete(&key.uid.0, &key.version.0).await.map(|()| None),
    };
    match written {
        Ok(stored) => WriteResult::Done(stored.map(|stored| key_of(&stored))),
        Err(StoreError::Conflict(_)) => WriteResult::Conflict,
        Err(StoreError::Rejected(reason)) => WriteResult::Rejected(reason),
        Err(StoreError::Unknown(reason)) => WriteResult::Unknown(reason),
    }
}

fn observation(found: Option<StoredLedger>) -> Observation {
    match found {
        None => Observation::Missing,
        Some(stored) => {
            let document = Document::decode(&stored.text).map(Arc::new);
            Observation::Present(key_of(&stored), document)
        }
    }
}

fn key_of(stored: &StoredLedger) -> LedgerKey {
    LedgerKey {
        uid: LedgerUid(stored.uid.as_str().into()),
        version: LedgerVersion(stored.version.as_str().into()),
    }
}
