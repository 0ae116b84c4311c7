//! A replica of the server: its machine, its clock, its views of the objects, and its reservations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use opgate_ledger::{Entry, EntryId, Machine};

use crate::request::{Key, Object, Request};
use crate::setup::TIMEOUT;

#[derive(Debug, Clone)]
pub(crate) struct Imported {
    pub(crate) entry: Arc<Entry>,
    pub(crate) ends: Duration,
    pub(crate) uids: BTreeSet<u64>,
}

#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) machine: Machine,
    pub(crate) run: u64,
    /// The clock: an origin, and its rate in thousandths.
    pub(crate) origin: u64,
    pub(crate) rate: u64,
    pub(crate) paused_until: u64,
    /// The views of the resources: the version, and the objects.
    pub(crate) views: [(u64, BTreeMap<Key, Object>); 2],
    /// The time of the last event of each watch, and of that of the ledger.
    pub(crate) watch_times: [u64; 3],
    pub(crate) imported: BTreeMap<EntryId, Imported>,
    /// All own reservations so far.
    pub(crate) made: Vec<usize>,
}

impl Replica {
    pub(crate) fn clock(&self, time: u64) -> Duration {
        Duration::from_micros(self.origin + time * self.rate)
    }

    /// The deadline of a request by this clock.
    pub(crate) fn deadline(&self, request: &Request) -> Duration {
        self.clock(request.arrival) + Duration::from_millis(TIMEOUT)
    }

    /// The first time at which the clock shows at least this.
    pub(crate) fn time_of(&self, clock: Duration) -> u64 {
        let micros = u64::try_from(clock.as_micros()).unwrap();
        micros.saturating_sub(self.origin).div_ceil(self.rate)
    }
}
