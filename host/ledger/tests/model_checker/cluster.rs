//! The clusters that the checker explores: their size, the failures that can occur, and the step of
//! the protocol that is left out.

use std::time::Duration;

use opgate_ledger::{Config, Limits, Machine, ReplicaId};

/// Time in units: all times of the model are multiples.
const UNIT: Duration = Duration::from_secs(1);

/// The time of a request until its deadline, and the reservation TTL.
pub(crate) const TIMEOUT: u8 = 2;
pub(crate) const TTL: u8 = 1;

/// A step of the protocol that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    None,
    /// The API server writes without comparing versions.
    NoCompare,
    /// Stored entries are removed without raising the watermark.
    NoWatermark,
    /// A replica claims that its view has reached every version.
    NoWaitForView,
    /// A replica settles imported entries before their time is over.
    NoHold,
    /// A replica responds after the deadline.
    LateResponse,
    /// A new ledger is used at once.
    NoWaitAfterLoss,
    /// The watermark of a new ledger is not read.
    NoFloor,
    /// A replica does not compare imported entries with waiting requests.
    NoRecheck,
}

/// Numbers of failures that can occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Failures {
    /// Reads and writes without a response.
    pub(crate) timeouts: u8,
    pub(crate) crashes: u8,
    pub(crate) deletions: u8,
}

#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) replicas: usize,
    pub(crate) requests: usize,
    pub(crate) horizon: u8,
    pub(crate) failures: Failures,
    /// Whether time passes between the evaluation of a request and its append.
    pub(crate) is_slow: bool,
    /// Whether there is no ledger in the beginning.
    pub(crate) is_new: bool,
    pub(crate) mutation: Mutation,
}

impl Cluster {
    pub(crate) fn machine(replica: usize, run: u8) -> Machine {
        Machine::new(Config {
            replica: ReplicaId::new(&format!("{replica}-{run}")),
            reservation_ttl: UNIT * u32::from(TTL),
            max_hold: UNIT * u32::from(TIMEOUT + TTL),
            removal_delay: UNIT,
            retry_delay: UNIT,
            limits: Limits::default(),
        })
    }

    /// The replica that a request reaches.
    pub(crate) fn replica_of(&self, request: usize) -> usize {
        request % self.replicas
    }

    /// The clock of a replica; no two agree.
    pub(crate) fn clock(replica: usize, time: u8) -> Duration {
        UNIT * u32::from(time) + UNIT * 100 * u32::try_from(replica + 1).unwrap()
    }
}
