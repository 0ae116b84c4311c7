//! A state of the model, and the actions that lead to the next ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use opgate_ledger::{EntryId, ImportMark, Machine, Observation, Write};

use crate::cluster::{Cluster, Failures};
use crate::common::Store;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    New,
    /// Is evaluated when the view has reached the version.
    Idle {
        deadline: u8,
        must_reach: u64,
    },
    Evaluated {
        deadline: u8,
        mark: ImportMark,
        view: u64,
        /// The number of reservations for requests of this replica before.
        made: u8,
    },
    Appended {
        deadline: u8,
    },
    Committed {
        respond_before: Duration,
    },
    /// The API server stores it at this time or earlier.
    Allowed {
        end: u8,
        /// The run of the replica that has allowed it.
        run: u8,
    },
    Stored {
        version: u64,
        is_settled: bool,
    },
    /// Not stored, or not allowed.
    Over,
    /// Refused without another object as a reason.
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Refusal {
    Deadline,
    New,
    Crash,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Read,
    Write(Write),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Replica {
    pub(crate) machine: Machine,
    pub(crate) run: u8,
    pub(crate) made: u8,
    pub(crate) access: Option<Access>,
    pub(crate) version_read: Option<u64>,
    /// The version up to which the watch has shown objects.
    pub(crate) view: u64,
    /// Stored objects that direct reads have found.
    pub(crate) known: BTreeSet<usize>,
    /// Reservations for other replicas: request, renewal, end.
    pub(crate) imported: BTreeMap<EntryId, (usize, u32, Duration)>,
    /// Events of the ledger that the watch has not shown yet.
    pub(crate) watch: VecDeque<Observation>,
}

impl Replica {
    pub(crate) fn new(replica: usize, run: u8) -> Self {
        Self {
            machine: Cluster::machine(replica, run),
            run,
            made: 0,
            access: None,
            version_read: None,
            view: 0,
            known: BTreeSet::new(),
            imported: BTreeMap::new(),
            watch: VecDeque::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) time: u8,
    pub(crate) store: Store,
    /// Version of the last stored object.
    pub(crate) version: u64,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) requests: Vec<Phase>,
    /// Writes that may still arrive.
    pub(crate) late: Vec<Write>,
    pub(crate) failures: Failures,
    /// An output of a machine without a reason.
    pub(crate) unjustified: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Time,
    Wake(usize),
    Evaluate(usize),
    Append(usize),
    Respond(usize),
    Store(usize),
    /// A direct read of an own request.
    Settle(usize),
    /// A direct read of an imported entry.
    SettleImported(usize, EntryId),
    ShowObject(usize),
    ShowLedger(usize),
    Serve(usize),
    ReadVersion(usize),
    /// No response, before or after the API server did it.
    Timeout(usize, bool),
    Arrive(usize),
    Crash(usize),
    DeleteLedger,
}
