//! The results of reads and writes, and the import of newer ledgers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Current, FOREIGN_REMOVAL_DELAYS, Flight, Imported, Known, Machine, Own, STORED_REMOVAL_DELAYS,
    Settled, YIELDED_WRITES, is_replaceable, with_drift,
};
use crate::change::{EntryId, RequestId};
use crate::document::{Document, DocumentError, Entry};
use crate::limits::Usage;
use crate::machine::queue::Phase;
use crate::message::{
    AppendError, Evaluations, LedgerKey, LedgerUid, Observation, Output, WriteResult,
};

impl Machine {
    /// The watch is late: only a newer revision of the known object is news. Anything else is a
    /// reason to read.
    pub(super) fn watched(
        &mut self,
        now: Duration,
        observation: Observation,
        evaluations: &mut dyn Evaluations,
        out: &mut Vec<Output>,
    ) {
        let Known::Current(current) = &self.known else {
            self.must_read = true;
            return;
        };
        match observation {
            Observation::Present(key, Ok(document)) if key.uid == current.key.uid => {
                if document.revision > current.document.revision {
                    let is_own = self.is_write_under_way(&document);
                    self.adopt(now, key, &document, is_own, evaluations, out);
                }
            }
            Observation::Present(key, _) if key == current.key => {}
            Observation::Present(..) | Observation::Missing => self.must_read = true,
        }
    }

    pub(super) fn read_finished(
        &mut self,
        now: Duration,
        result: Result<Observation, String>,
        evaluations: &mut dyn Evaluations,
        out: &mut Vec<Output>,
    ) {
        let Some(Flight::Read { known: known_before }) = self.flight.take_if(is_read) else {
            return;
        };
        let observation = match result {
            Ok(observation) => observation,
            Err(problem) => return self.retry_later(now, problem),
        };
        self.must_read = false;
        match observation {
            Observation::Present(key, Ok(document)) => match &mut self.known {
                // Entries may be lost, so this object is never used again.
                Known::Broken { key: broken, error } if broken.uid == key.uid => {
                    if !is_replaceable(error) {
                        let to = document.revision;
                        *error = DocumentError::WentBack { from: to, to };
                    }
                    *broken = key;
                }
                Known::Current(current) if current.key.uid == key.uid => {
                    let (from, to) = (current.document.revision, document.revision);
                    let before = known_before.filter(|(uid, _)| *uid == key.uid);
                    if before.is_some_and(|(_, before)| to < before)
                        || (to == from && *document != *current.document)
                    {
                        self.set_broken(key, DocumentError::WentBack { from, to });
                    } else if to == from {
                        current.key = key;
                    } else if to > from {
                        self.adopt(now, key, &document, false, evaluations, out);
                    }
                }
                _ => self.adopt(now, key, &document, false, evaluations, out),
            },
            Observation::Present(key, Err(error)) => self.set_broken(key, error),
            Observation::Missing => {
                self.forget_ledger();
                self.known = Known::Missing;
            }
        }
    }

    pub(super) fn write_finished(
        &mut self,
        now: Duration,
        result: WriteResult,
        evaluations: &mut dyn Evaluations,
        out: &mut Vec<Output>,
    ) {
        let Some(Flight::Write { document, base, requests, began }) =
            self.flight.take_if(|f| !is_read(f))
        else {
            return;
        };
        self.requeue(&requests);
        let known = self.known_revision();
        match result {
            WriteResult::Done(key) => {
                self.clear_problem();
                match (key, document) {
                    (Some(key), Some(document)) => {
                        // The watch can have shown this ledger, or a newer one.
                        let is_known = known.as_ref().is_some_and(|(uid, revision)| {
                            *uid == key.uid && *revision >= document.revision
                        });
                        if now < self.contended_until {
                            let time = now.saturating_sub(began) * YIELDED_WRITES;
                            self.yield_until = now + time.min(self.config.retry_delay);
                        }
                        if !is_known {
                            self.adopt(now, key, &document, known == base, evaluations, out);
                        }
                    }
                    (None, None) => {
                        self.forget_ledger();
                        self.known = Known::Missing;
                    }
                    _ => self.must_read = true,
                }
            }
            WriteResult::Conflict => {
                self.clear_problem();
                self.must_read |= known == base;
                self.removal_due = Some(now);
            }
            WriteResult::Rejected(problem) => {
                for id in self.queue.queued() {
                    self.fail(now, id, AppendError::Rejected(problem.clone()), out);
                }
                self.must_read = true;
                self.removal_due = Some(now);
                self.retry_later(now, problem);
            }
            WriteResult::Unknown(problem) => {
                self.must_read = true;
                self.removal_due = Some(now);
                self.retry_later(now, problem);
            }
        }
    }

    /// Puts requests whose write had no effect, as far as known, into the next one.
    fn requeue(&mut self, requests: &[RequestId]) {
        for id in requests {
            if self.queue.phase(*id) == Some(Phase::Writing) {
                self.queue.set_phase(*id, Phase::Waiting);
            }
        }
    }

    fn set_broken(&mut self, key: LedgerKey, error: DocumentError) {
        self.forget_ledger();
        self.known = Known::Broken { key, error };
    }

    /// Forgets the entries and watermarks of a ledger that was lost. The reservations of others
    /// last until their time is over.
    fn forget_ledger(&mut self) {
        self.imported.clear();
        self.imported_by_mark.clear();
        self.floors.clear();
        self.wanted_floors.clear();
        self.floor_reads.clear();
        self.floor_number += 1;
        self.removal_due = None;
        self.usage = Usage::default();
    }

    /// Takes a ledger that is newer than the known one, or another object. `is_own`: it is this
    /// replica's write on top of the known one, so all queued requests have been compared with the
    /// entries that it no longer has.
    fn adopt(
        &mut self,
        now: Duration,
        key: LedgerKey,
        document: &Arc<Document>,
        is_own: bool,
        evaluations: &mut dyn Evaluations,
        out: &mut Vec<Output>,
    ) {
        let first_seen = match &self.known {
            Known::Current(current) if current.key.uid == key.uid => current.first_seen,
            _ => {
                self.forget_ledger();
                now
            }
        };
        let current = Current { key, document: document.clone(), first_seen };
        self.known = Known::Current(current);
        self.usage = document.usage();
        if let Some(Flight::Write { requests, .. }) = &self.flight {
            // If the write under way has not brought them into this ledger, it cannot any more.
            let requests = requests.clone();
            self.requeue(&requests);
        }
        let imported = self.import_entries(now, document, out);
        self.commit(now, document, out);
        if !is_own {
            // Another replica has had its turn.
            self.yield_until = Duration::ZERO;
            self.contended_until = now + self.config.retry_delay;
            for id in self.queue.queued() {
                self.check_views(now, id, out);
            }
        }
        let queued = self.queue.queued();
        if !imported.is_empty() && !queued.is_empty() {
            for id in evaluations.find_outdated(&queued, &imported) {
                self.settle(now, id, None);
                out.push(Output::Outdated { request: id, must_reach: BTreeMap::new() });
            }
        }
        self.forget_unused_entries(document);
        let due = document.entries.keys().filter_map(|id| self.removal_time(now, id)).min();
        self.removal_due = due;
    }

    pub(super) fn known_revision(&self) -> Option<(LedgerUid, u64)> {
        match &self.known {
            Known::Current(current) => Some((current.key.uid.clone(), current.document.revision)),
            _ => None,
        }
    }

    fn is_write_under_way(&self, document: &Arc<Document>) -> bool {
        match &self.flight {
            Some(Flight::Write { document: Some(written), base, .. }) => {
                written == document && *base == self.known_revision()
            }
            _ => false,
        }
    }

    /// Passes on the differences of the entries of others. Returns those that are new or extended.
    fn import_entries(
        &mut self,
        now: Duration,
        document: &Document,
        out: &mut Vec<Output>,
    ) -> Vec<Arc<Entry>> {
        let imported = std::mem::take(&mut self.imported);
        for (id, known) in imported {
            if document.entries.contains_key(&id) {
                self.imported.insert(id, known);
            } else {
                self.forget_mark(known.mark, &id);
                if known.settled.is_none() {
                    out.push(Output::Release(id));
                }
            }
        }
        let mut new = Vec::new();
        for (id, entry) in &document.entries {
            let known = self.imported.get(id);
            if id.replica == self.config.replica
                || known.is_some_and(|known| known.renewal >= entry.renewal)
            {
                continue;
            }
            if let Some(mark) = known.map(|known| known.mark) {
                self.forget_mark(mark, id);
            }
            if new.is_empty() {
                self.mark += 1;
            }
            let (renewal, mark, ends) = (entry.renewal, self.mark, now + entry.hold());
            let known = Imported { renewal, ends, mark, settled: None };
            self.imported.insert(id.clone(), known);
            self.imported_by_mark.entry(mark).or_default().insert(id.clone());
            self.longest_hold = self.longest_hold.max(with_drift(entry.hold()));
            out.push(Output::Import { entry: entry.clone(), ends });
            new.push(entry.clone());
        }
        new
    }

    fn forget_mark(&mut self, mark: u64, id: &EntryId) {
        if let Some(ids) = self.imported_by_mark.get_mut(&mark) {
            ids.remove(id);
            if ids.is_empty() {
                self.imported_by_mark.remove(&mark);
            }
        }
    }

    /// Commits the requests whose entries are in the ledger, whichever write brought them there.
    fn commit(&mut self, now: Duration, document: &Document, out: &mut Vec<Output>) {
        for id in self.queue.queued() {
            let Some(request) = self.queue.get(id) else { continue };
            let Some(assignment) = request.assignment else { continue };
            let entry_id = self.entry_id(assignment.number);
            let Some(entry) = document.entries.get(&entry_id) else { continue };
            if entry.renewal < assignment.renewal {
                continue;
            }
            let respond_before = request.respond_before;
            if respond_before <= now {
                let error = AppendError::Deadline { problem: self.problem.clone() };
                self.fail(now, id, error, out);
            } else {
                self.queue.set_phase(id, Phase::Committed);
                out.push(Output::Committed { request: id, respond_before });
            }
        }
    }

    pub(super) fn entry_id(&self, number: u64) -> EntryId {
        EntryId { replica: self.config.replica.clone(), number }
    }

    /// The outcome of an entry of the ledger, if it is known. An own entry without a request comes
    /// from a write that arrived late.
    pub(super) fn settled(&self, id: &EntryId) -> Option<Settled> {
        if id.replica == self.config.replica {
            let late = Settled { at: Duration::ZERO, stored: None };
            return self.own.get(&id.number).map_or(Some(late), Own::settled);
        }
        self.imported.get(id)?.settled
    }

    /// The time at which a settled entry of the ledger is removed by a separate write.
    fn removal_time(&self, now: Duration, id: &EntryId) -> Option<Duration> {
        let settled = self.settled(id)?;
        if self.usage.is_crowded(self.config.limits) {
            return Some(now);
        }
        let delays = match settled.stored {
            _ if id.replica != self.config.replica => FOREIGN_REMOVAL_DELAYS,
            Some(_) => STORED_REMOVAL_DELAYS,
            None => 1,
        };
        Some(settled.at + self.config.removal_delay * delays)
    }

    /// Plans the removal of an entry that was settled.
    pub(super) fn plan_removal(&mut self, now: Duration, id: &EntryId) {
        let Known::Current(current) = &self.known else { return };
        if !current.document.entries.contains_key(id) {
            return;
        }
        let due = self.removal_time(now, id);
        self.removal_due = [self.removal_due, due].into_iter().flatten().min();
    }

    /// Forgets settled own entries that the ledger does not have.
    fn forget_unused_entries(&mut self, document: &Document) {
        let replica = &self.config.replica;
        let by_change = &mut self.own_by_change;
        self.own.retain(|number, own| {
            let id = EntryId { replica: replica.clone(), number: *number };
            let is_used = !own.open.is_empty() || document.entries.contains_key(&id);
            if !is_used && by_change.get(&own.change) == Some(number) {
                by_change.remove(&own.change);
            }
            is_used
        });
    }
}

fn is_read(flight: &mut Flight) -> bool {
    matches!(flight, Flight::Read { .. })
}
