//! Single steps of the machine. `model_checker` and `simulation` explore the combinations.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use common::{Store, config, creation, groups, ms};
use opgate_ledger::{
    Append, AppendError, Change, Document, DocumentError, Entry, EntryId, Input, LedgerState,
    Limits, Machine, Observation, Outcome, Output, RequestId, Resource, Write, WriteResult,
};

/// A replica whose reads and writes are carried out at once, unless they are held.
struct Replica {
    machine: Machine,
    now: Duration,
    /// Outputs for the caller.
    seen: Vec<Output>,
    held: Option<Write>,
    is_holding: bool,
    /// Names of imported objects that affect a request.
    conflicting: BTreeSet<(RequestId, String)>,
}

impl Replica {
    fn new(name: &str) -> Self {
        Self::with(config(name))
    }

    fn with(config: opgate_ledger::Config) -> Self {
        Self {
            machine: Machine::new(config),
            now: Duration::ZERO,
            seen: Vec::new(),
            held: None,
            is_holding: false,
            conflicting: BTreeSet::new(),
        }
    }

    fn input(&mut self, store: &mut Store, input: Input) {
        let conflicting = self.conflicting.clone();
        let mut affects = |request: RequestId, entry: &Entry| {
            conflicting.contains(&(request, entry.name.to_string()))
        };
        let outputs = self.machine.handle(self.now, input, &mut affects);
        for output in outputs {
            match output {
                Output::Write(write) if self.is_holding => self.held = Some(write),
                Output::Write(write) => {
                    let result = store.write(&write);
                    self.input(store, Input::WriteFinished(result));
                }
                Output::Read => {
                    let read = store.read();
                    self.input(store, Input::ReadFinished(Ok(read)));
                }
                other => self.seen.push(other),
            }
        }
    }

    fn tick_at(&mut self, store: &mut Store, now: Duration) {
        self.now = now;
        self.input(store, Input::Tick);
    }

    fn append(&mut self, store: &mut Store, id: u64, name: &str, view: u64) {
        let mark = self.machine.import_mark();
        let append = creation(name, mark, view, self.now + ms(10_000));
        self.input(store, Input::Append(RequestId(id), append));
    }

    /// Appends, and holds the write of it.
    fn append_and_hold(&mut self, store: &mut Store, id: u64, name: &str, view: u64) -> Write {
        self.is_holding = true;
        self.append(store, id, name, view);
        self.is_holding = false;
        self.held.take().unwrap()
    }

    /// Carries out the write that is held, and reports the result.
    fn finish_held_write(&mut self, store: &mut Store) {
        let result = store.write(&self.held.take().unwrap());
        self.input(store, Input::WriteFinished(result));
    }

    fn watch(&mut self, store: &mut Store) {
        let observation = store.read();
        self.input(store, Input::Watched(observation));
    }

    fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.seen)
    }

    fn committed(&mut self) -> Vec<u64> {
        let committed = |output| match output {
            Output::Committed { request, .. } => Some(request.0),
            _ => None,
        };
        self.take().into_iter().filter_map(committed).collect()
    }

    fn version_read(&mut self, store: &mut Store, version: u64) {
        let outputs = self.take();
        let Some(Output::ReadVersion { number, resource }) = outputs.first().cloned() else {
            panic!("{outputs:?}")
        };
        self.input(store, Input::VersionRead { number, resource, version: Some(version) });
    }
}

/// A ledger in use, with a watermark of 10.
fn established<const N: usize>(names: [&str; N]) -> (Store, [Replica; N]) {
    let mut store = Store::default();
    let mut replicas = names.map(Replica::new);
    for replica in &mut replicas {
        replica.tick_at(&mut store, ms(0));
        replica.tick_at(&mut store, ms(13_000));
    }
    let first = &mut replicas[0];
    first.append(&mut store, 0, "first", 10);
    first.version_read(&mut store, 10);
    assert_eq!(first.committed(), [0]);
    first.input(&mut store, Input::Withdraw(RequestId(0)));
    first.tick_at(&mut store, ms(14_000));
    for replica in &mut replicas {
        replica.now = ms(14_000);
        replica.watch(&mut store);
        replica.take();
    }
    assert!(document(&store).entries.is_empty());
    (store, replicas)
}

fn document(store: &Store) -> &Document {
    &store.object.as_ref().unwrap().1
}

fn only_entry(store: &Store) -> Arc<Entry> {
    let entries: Vec<_> = document(store).entries.values().collect();
    assert_eq!(entries.len(), 1);
    entries[0].clone()
}

#[test]
fn new_ledger_is_used_after_the_longest_hold() {
    let mut store = Store::default();
    let mut replica = Replica::new("a");
    replica.tick_at(&mut store, ms(0));
    assert_eq!(document(&store).established, None);
    replica.append(&mut store, 1, "x", 5);
    let outputs = replica.take();
    assert!(
        matches!(outputs[..], [Output::Failed { error: AppendError::New { .. }, .. }]),
        "{outputs:?}"
    );
    let hold = ms(12_000) + ms(12_000) / 64;
    assert_eq!(replica.machine.next_wake(), Some(hold));
    replica.tick_at(&mut store, ms(5_000));
    replica.append(&mut store, 2, "x", 5);
    assert_eq!(replica.take(), [], "it has the time to wait");
    replica.tick_at(&mut store, hold);
    assert!(document(&store).established.is_some());
    replica.version_read(&mut store, 7);
    let must_reach = BTreeMap::from([(groups(), 7)]);
    assert_eq!(replica.take(), [Output::Outdated { request: RequestId(2), must_reach }]);
    replica.append(&mut store, 3, "x", 7);
    assert_eq!(replica.committed(), [3]);
    assert_eq!(document(&store).versions[&groups()], 7);
    assert_eq!(only_entry(&store).hold, 12_188);
}

#[test]
fn second_replica_uses_an_established_ledger_at_once() {
    let (mut store, _) = established(["a"]);
    let mut replica = Replica::new("b");
    replica.tick_at(&mut store, ms(0));
    assert_eq!(replica.machine.ledger_state(ms(0)), LedgerState::Ready);
    replica.append(&mut store, 1, "x", 10);
    assert_eq!(replica.committed(), [1]);
}

#[test]
fn copy_in_another_object_is_not_established() {
    let (mut store, [mut a]) = established(["a"]);
    let copy = store.object.as_ref().unwrap().1.clone();
    store.create(copy);
    a.watch(&mut store);
    assert!(matches!(a.machine.ledger_state(ms(14_000)), LedgerState::New(_)));
}

#[test]
fn waiting_requests_go_together() {
    let (mut store, [mut a]) = established(["a"]);
    let before = document(&store).revision;
    a.is_holding = true;
    for id in 1..=20 {
        a.append(&mut store, id, &format!("x{id}"), 10);
    }
    a.is_holding = false;
    a.finish_held_write(&mut store);
    assert_eq!(a.committed(), (1..=20).collect::<Vec<_>>());
    assert_eq!(document(&store).revision, before + 2);
}

#[test]
fn conflict_imports_and_checks_all_waiting_requests() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    a.append(&mut store, 1, "x", 10);
    b.conflicting.insert((RequestId(1), "x".into()));
    b.is_holding = true;
    b.append(&mut store, 1, "y", 10);
    b.append(&mut store, 2, "z", 10);
    b.is_holding = false;
    let result = store.write(&b.held.take().unwrap());
    assert_eq!(result, WriteResult::Conflict);
    b.input(&mut store, Input::WriteFinished(result));
    let outputs = b.take();
    let [
        Output::Import { entry, ends },
        Output::Outdated { request: RequestId(1), must_reach },
        Output::Committed { request: RequestId(2), .. },
    ] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!((&*entry.name, must_reach.len()), ("x", 0));
    assert_eq!(*ends, ms(14_000) + entry.hold());
}

#[test]
fn import_between_evaluation_and_append_is_detected() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    let mark = b.machine.import_mark();
    a.append(&mut store, 1, "x", 10);
    b.watch(&mut store);
    b.conflicting.insert((RequestId(1), "x".into()));
    b.take();
    let append = creation("y", mark, 10, ms(20_000));
    b.input(&mut store, Input::Append(RequestId(1), append));
    assert!(matches!(b.take()[..], [Output::Outdated { request: RequestId(1), .. }]));
    b.append(&mut store, 1, "y", 10);
    assert_eq!(b.committed(), [1], "this evaluation has seen it");
}

#[test]
fn removed_stored_entry_raises_the_watermark() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    a.append(&mut store, 1, "x", 10);
    a.input(&mut store, Input::Settle(RequestId(1), Outcome::Stored(15)));
    assert_eq!(a.machine.next_wake(), Some(ms(16_000)));
    a.tick_at(&mut store, ms(16_000));
    assert!(document(&store).entries.is_empty());
    assert_eq!(document(&store).versions[&groups()], 15);
    // Replica b has never seen the entry.
    b.append(&mut store, 1, "y", 14);
    let must_reach = BTreeMap::from([(groups(), 15)]);
    assert_eq!(b.take(), [Output::Outdated { request: RequestId(1), must_reach }]);
    assert_eq!(b.machine.required_version(&groups()), Some(15));
    b.append(&mut store, 1, "y", 15);
    assert_eq!(b.committed(), [1]);
}

#[test]
fn entry_of_a_resource_without_watermark_stays_until_it_is_read() {
    let (mut store, [mut a]) = established(["a"]);
    let other = Resource::new("apps/deployments");
    let append = creation("x", a.machine.import_mark(), 10, ms(20_000));
    let change = Change { resource: other.clone(), ..(*append.change).clone() };
    let append = Append { change: Arc::new(change), ..append };
    a.input(&mut store, Input::Append(RequestId(1), append));
    a.input(&mut store, Input::Settle(RequestId(1), Outcome::Stored(15)));
    a.tick_at(&mut store, ms(16_000));
    assert_eq!(document(&store).entries.len(), 1);
    a.seen.retain(|output| !matches!(output, Output::Committed { .. }));
    // Changes of an earlier ledger may be stored at 17.
    a.version_read(&mut store, 17);
    assert_eq!(document(&store).versions[&other], 17);
    assert_eq!(document(&store).entries.len(), 0);
}

#[test]
fn removal_goes_with_the_next_append() {
    let (mut store, [mut a]) = established(["a"]);
    a.append(&mut store, 1, "x", 10);
    a.input(&mut store, Input::Withdraw(RequestId(1)));
    a.append(&mut store, 2, "y", 10);
    assert_eq!(&*only_entry(&store).name, "y");
}

#[test]
fn stored_entry_stays_until_other_views_have_reached_it() {
    let (mut store, [mut a]) = established(["a"]);
    a.append(&mut store, 1, "x", 10);
    a.input(&mut store, Input::Settle(RequestId(1), Outcome::Stored(15)));
    a.append(&mut store, 2, "y", 10);
    assert_eq!(a.committed(), [1, 2]);
    assert_eq!(document(&store).entries.len(), 2);
    a.tick_at(&mut store, ms(15_000));
    a.append(&mut store, 3, "z", 10);
    let names: Vec<_> = document(&store).entries.values().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["y", "z"]);
}

#[test]
fn absent_foreign_entry_is_removed_after_its_time_only() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    a.append(&mut store, 1, "x", 10);
    b.watch(&mut store);
    let entry = only_entry(&store);
    let ends = b.now + entry.hold();
    let settle = |began| Input::SettleImported {
        id: entry.id.clone(),
        renewal: 0,
        outcome: Outcome::Absent { began },
    };
    b.now = ends + ms(1);
    let too_early = ends.saturating_sub(ms(1));
    b.input(&mut store, settle(too_early));
    assert_eq!(b.machine.next_wake(), None, "the read began too early");
    b.input(&mut store, settle(ends));
    b.tick_at(&mut store, ends + ms(4_001));
    assert!(document(&store).entries.is_empty());
    a.take();
    a.watch(&mut store);
    assert_eq!(a.take(), []);
}

#[test]
fn importers_release_what_another_replica_has_settled() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    a.append(&mut store, 1, "x", 10);
    b.watch(&mut store);
    let id = only_entry(&store).id.clone();
    b.take();
    a.input(&mut store, Input::Withdraw(RequestId(1)));
    a.tick_at(&mut store, ms(15_000));
    b.watch(&mut store);
    assert_eq!(b.take(), [Output::Release(id)]);
}

#[test]
fn equal_requests_share_an_entry() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    a.append(&mut store, 1, "x", 10);
    b.watch(&mut store);
    b.take();
    let id = only_entry(&store).id.clone();
    let outcome = Outcome::Absent { began: ms(60_000) };
    // Replica b settles the first one while replica a extends the entry.
    b.now = ms(30_000);
    b.input(&mut store, Input::SettleImported { id: id.clone(), renewal: 0, outcome });
    a.append(&mut store, 2, "x", 10);
    assert_eq!(only_entry(&store).renewal, 1);
    b.watch(&mut store);
    let outputs = b.take();
    assert!(matches!(&outputs[..], [Output::Import { entry, .. }] if entry.renewal == 1));
    b.tick_at(&mut store, ms(60_000));
    assert_eq!(only_entry(&store).id, id);
    // The entry stays until both are settled, and then has the highest version.
    a.input(&mut store, Input::Settle(RequestId(1), Outcome::Stored(20)));
    a.tick_at(&mut store, ms(60_000));
    assert_eq!(document(&store).entries.len(), 1);
    a.input(&mut store, Input::Withdraw(RequestId(2)));
    a.tick_at(&mut store, ms(62_000));
    assert_eq!(document(&store).versions[&groups()], 20);
    assert_eq!(document(&store).entries.len(), 0);
}

#[test]
fn write_of_unknown_outcome_is_found_by_its_entry() {
    for is_applied in [false, true] {
        let (mut store, [mut a]) = established(["a"]);
        let write = a.append_and_hold(&mut store, 1, "x", 10);
        if is_applied {
            store.write(&write);
        }
        a.input(&mut store, Input::WriteFinished(WriteResult::Unknown("timed out".into())));
        assert_eq!(a.take(), []);
        a.tick_at(&mut store, ms(14_050));
        assert_eq!(a.committed(), [1]);
        assert_eq!(store.write(&write), WriteResult::Conflict, "the late write has no effect");
        only_entry(&store);
    }
}

#[test]
fn late_write_of_a_withdrawn_request_is_removed() {
    let (mut store, [mut a]) = established(["a"]);
    let write = a.append_and_hold(&mut store, 1, "x", 10);
    a.input(&mut store, Input::WriteFinished(WriteResult::Unknown("timed out".into())));
    a.tick_at(&mut store, ms(14_040));
    a.input(&mut store, Input::Withdraw(RequestId(1)));
    store.write(&write);
    a.tick_at(&mut store, ms(14_050));
    a.tick_at(&mut store, ms(15_050));
    assert!(document(&store).entries.is_empty());
    assert_eq!(a.committed(), Vec::<u64>::new());
}

#[test]
fn watch_can_show_a_write_before_its_response() {
    let (mut store, [mut a]) = established(["a"]);
    a.is_holding = true;
    a.append(&mut store, 1, "x", 10);
    let result = store.write(&a.held.take().unwrap());
    a.watch(&mut store);
    assert_eq!(a.committed(), [1]);
    a.input(&mut store, Input::WriteFinished(result));
    assert_eq!(a.take(), []);
}

#[test]
fn request_fails_at_its_deadline() {
    let (mut store, [mut a]) = established(["a"]);
    let write = a.append_and_hold(&mut store, 1, "x", 10);
    let result = store.write(&write);
    assert_eq!(a.machine.next_wake(), Some(ms(24_000)));
    a.now = ms(24_000);
    a.input(&mut store, Input::WriteFinished(result));
    let outputs = a.take();
    let failed =
        |o: &Output| matches!(o, Output::Failed { error: AppendError::Deadline { .. }, .. });
    assert!(outputs.iter().all(failed) && outputs.len() == 1, "{outputs:?}");
    a.tick_at(&mut store, ms(25_000));
    assert!(document(&store).entries.is_empty());
}

#[test]
fn broken_ledger_is_replaced_by_a_new_one() {
    let (mut store, [mut a]) = established(["a"]);
    let (key, _) = store.object.clone().unwrap();
    let error = DocumentError::Syntax("edited".into());
    let broken = Observation::Present(key.clone(), Err(error.clone()));
    a.input(&mut store, Input::Watched(Observation::Missing));
    // The object is read again: nothing has changed.
    assert_eq!(a.machine.ledger_state(a.now), LedgerState::Ready);

    let mut machine = a.machine.clone();
    let mut never = |_: RequestId, _: &Entry| false;
    let mut handle = |input| machine.handle(ms(14_000), input, &mut never);
    assert_eq!(handle(Input::Watched(Observation::Missing)), [Output::Read]);
    let append = creation("x", opgate_ledger::ImportMark::default(), 10, ms(20_000));
    assert_eq!(handle(Input::Append(RequestId(1), append)), []);
    let request = RequestId(1);
    assert_eq!(
        handle(Input::ReadFinished(Ok(broken))),
        [
            Output::Failed { request, error: AppendError::Broken(error) },
            Output::Write(Write::Delete(key))
        ]
    );
    let outputs = handle(Input::WriteFinished(WriteResult::Done(None)));
    assert!(matches!(outputs[..], [Output::Write(Write::Create(_))]), "{outputs:?}");
}

#[test]
fn ledger_of_a_later_version_is_not_replaced() {
    let (mut store, [mut a]) = established(["a"]);
    let (key, document) = store.object.clone().unwrap();
    let later = Observation::Present(key.clone(), Err(DocumentError::Format(2)));
    let mut never = |_: RequestId, _: &Entry| false;
    a.machine.handle(a.now, Input::Watched(Observation::Missing), &mut never);
    assert_eq!(a.machine.handle(a.now, Input::ReadFinished(Ok(later)), &mut never), []);
    assert_eq!(a.machine.next_wake(), None);
    a.append(&mut store, 1, "x", 10);
    assert!(matches!(a.take()[..], [Output::Failed { error: AppendError::Broken(_), .. }]));
    // Entries may have been lost meanwhile, so it is not used again.
    let back = Observation::Present(key, Ok(document));
    assert_eq!(a.machine.handle(a.now, Input::Watched(back.clone()), &mut never), [Output::Read]);
    let outputs = a.machine.handle(a.now, Input::ReadFinished(Ok(back)), &mut never);
    assert!(matches!(outputs[..], [Output::Write(Write::Delete(_))]), "{outputs:?}");
}

#[test]
fn restored_older_state_is_broken() {
    let (mut store, [mut a]) = established(["a"]);
    let older = store.object.clone().unwrap().1;
    a.append(&mut store, 1, "x", 10);
    let uid = store.object.as_ref().unwrap().0.uid.clone();
    store.put(uid.clone(), older);
    a.append(&mut store, 2, "y", 10);
    assert_ne!(store.object.as_ref().unwrap().0.uid, uid, "it was replaced");
    let failed = |o: &Output| matches!(o, Output::Failed { error: AppendError::Broken(_), .. });
    assert!(a.take().iter().any(failed));
}

#[test]
fn tenant_gets_at_most_half_of_the_rest() {
    let limits = Limits { entries: 8, ..Limits::default() };
    let (mut store, _) = established(["a"]);
    let mut a = Replica::with(opgate_ledger::Config { limits, ..config("c") });
    a.tick_at(&mut store, ms(0));
    for id in 0..6 {
        a.append(&mut store, id, &format!("x{id}"), 10);
    }
    let outputs = a.take();
    let full = outputs.iter().find_map(|output| match output {
        Output::Failed { error: AppendError::Full { largest, .. }, .. } => Some(largest),
        _ => None,
    });
    let names: Vec<_> = full.unwrap().iter().map(|(name, used)| (&**name, used.entries)).collect();
    assert_eq!(names, [("namespace team", 4), ("user eve", 4)]);
    assert_eq!(document(&store).entries.len(), 4);
    // From half of the ledger on, settled entries are removed at once.
    a.input(&mut store, Input::Settle(RequestId(0), Outcome::Stored(20)));
    assert_eq!(document(&store).entries.len(), 3);
}

#[test]
fn large_projection_goes_by_reference() {
    let limits = Limits { projection_bytes: 4, ..Limits::default() };
    let (mut store, _) = established(["a"]);
    let mut a = Replica::with(opgate_ledger::Config { limits, ..config("c") });
    a.tick_at(&mut store, ms(0));
    a.append(&mut store, 0, "x", 10);
    assert!(matches!(only_entry(&store).content, opgate_ledger::Content::Reference(_)));
}

#[test]
fn rejected_write_fails_all_requests() {
    let (mut store, [mut a]) = established(["a"]);
    a.is_holding = true;
    a.append(&mut store, 1, "x", 10);
    a.append(&mut store, 2, "y", 10);
    a.input(&mut store, Input::WriteFinished(WriteResult::Rejected("forbidden".into())));
    let outputs = a.take();
    let rejected = |o: &Output| matches!(o, Output::Failed { error: AppendError::Rejected(_), .. });
    assert_eq!(outputs.iter().filter(|output| rejected(output)).count(), 2);
    assert_eq!(a.machine.next_wake(), Some(ms(14_050)));
}

#[test]
fn entry_of_an_unknown_own_number_is_removed() {
    let (mut store, [mut a]) = established(["a"]);
    a.append(&mut store, 1, "x", 10);
    let uid = store.object.as_ref().unwrap().0.uid.clone();
    let mut edited = document(&store).clone();
    let id = EntryId { number: 99, ..only_entry(&store).id.clone() };
    let entry = Entry { id: id.clone(), ..(*only_entry(&store)).clone() };
    edited.entries.insert(id, Arc::new(entry));
    edited.revision += 1;
    store.put(uid, Arc::new(edited));
    a.watch(&mut store);
    assert_eq!(only_entry(&store).id.number, 1);
}

#[test]
fn extension_that_did_not_get_in_is_not_committed() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    a.append(&mut store, 1, "x", 10);
    a.take();
    a.is_holding = true;
    a.append(&mut store, 2, "x", 10);
    b.append(&mut store, 1, "y", 10);
    // The ledger has the entry, but not its extension for the second request.
    a.watch(&mut store);
    assert_eq!(a.committed(), Vec::<u64>::new());
    a.is_holding = false;
    a.finish_held_write(&mut store);
    assert_eq!(a.committed(), [2]);
}

#[test]
fn version_that_was_read_for_a_lost_ledger_does_not_count() {
    let (mut store, [mut a]) = established(["a"]);
    let other = Resource::new("apps/deployments");
    let append = creation("x", a.machine.import_mark(), 10, ms(20_000));
    let append = Append { views: BTreeMap::from([(other.clone(), 5)]), ..append };
    a.input(&mut store, Input::Append(RequestId(1), append.clone()));
    let Output::ReadVersion { number, .. } = a.take().remove(0) else { panic!() };
    store.object = None;
    a.watch(&mut store);
    a.tick_at(&mut store, ms(27_000));
    a.input(&mut store, Input::VersionRead { number, resource: other.clone(), version: Some(5) });
    assert_eq!(a.machine.required_version(&other), None);
    a.take();
    let append = Append { deadline: ms(30_000), ..append };
    a.input(&mut store, Input::Append(RequestId(2), append));
    a.version_read(&mut store, 7);
    let must_reach = BTreeMap::from([(other, 7)]);
    assert_eq!(a.take(), [Output::Outdated { request: RequestId(2), must_reach }]);
}

#[test]
fn outcome_of_an_earlier_renewal_does_not_settle_an_entry() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    a.append(&mut store, 1, "x", 10);
    a.append(&mut store, 2, "x", 10);
    b.watch(&mut store);
    let id = only_entry(&store).id.clone();
    b.now = ms(60_000);
    let outcome = Outcome::Absent { began: ms(60_000) };
    b.input(&mut store, Input::SettleImported { id: id.clone(), renewal: 0, outcome });
    assert_eq!(b.machine.next_wake(), None);
    b.input(&mut store, Input::SettleImported { id, renewal: 1, outcome });
    assert_eq!(b.machine.next_wake(), Some(ms(64_000)));
}

#[test]
fn entry_holds_until_the_last_of_its_requests() {
    let (mut store, [mut a]) = established(["a"]);
    // An entry with an earlier deadline joins that of a later one.
    for (id, deadline) in [(1, ms(20_000)), (2, ms(16_000))] {
        let append = creation("x", a.machine.import_mark(), 10, deadline);
        a.input(&mut store, Input::Append(RequestId(id), append));
    }
    let hold = ms(8_000) + ms(8_000) / 64;
    assert_eq!((only_entry(&store).renewal, only_entry(&store).hold()), (1, hold));
}

#[test]
fn request_is_not_held_longer_than_the_longest_hold() {
    let (mut store, [mut a]) = established(["a"]);
    let append = creation("x", a.machine.import_mark(), 10, ms(60_000));
    a.input(&mut store, Input::Append(RequestId(1), append));
    let respond_before = ms(24_000);
    assert_eq!(a.take(), [Output::Committed { request: RequestId(1), respond_before }]);
}

#[test]
fn winner_waits_while_others_write() {
    let (mut store, [mut a, mut b]) = established(["a", "b"]);
    b.append(&mut store, 1, "y", 10);
    a.watch(&mut store);
    a.is_holding = true;
    a.append(&mut store, 1, "x1", 10);
    a.now += ms(5);
    a.finish_held_write(&mut store);
    a.append(&mut store, 2, "x2", 10);
    assert_eq!((&a.held, a.machine.next_wake()), (&None, Some(ms(14_015))));
    // The write of another replica ends the wait.
    b.watch(&mut store);
    b.append(&mut store, 2, "z", 10);
    a.watch(&mut store);
    assert!(a.held.is_some());
}
