//! The next read or write of the ledger.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Current, Flight, Known, Machine, Own, is_replaceable, with_drift};
use crate::change::{Change, Content, RequestId, Resource};
use crate::document::{Document, Entry, MAX_RESOURCES};
use crate::limits::{TenantUsage, Usage};
use crate::machine::queue::{Assignment, Phase};
use crate::message::{Append, AppendError, LedgerKey, Output, Write};

/// Maximum number of requests that share an entry. Further ones get another, which counts in the
/// share of the tenant.
const MAX_JOINED: usize = 64;

/// Maximum number of uids of an entry. With more, no uid identifies its object.
const MAX_UIDS: usize = 16;

/// A document in the making.
struct Draft {
    document: Document,
    usage: TenantUsage,
    /// The resources that have a watermark or will get one.
    resources: BTreeSet<Resource>,
    /// The own entries with a further request.
    renewed: BTreeSet<u64>,
    requests: Vec<RequestId>,
    is_changed: bool,
}

impl Machine {
    /// Ends requests whose time is over, and begins the next read or write if none is under way.
    pub(super) fn advance(&mut self, now: Duration, out: &mut Vec<Output>) {
        while let Some(id) = self.queue.first_before(now) {
            let error = AppendError::Deadline { problem: self.problem.clone() };
            self.fail(now, id, error, out);
        }
        if self.flight.is_some() || self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        if self.must_read || matches!(self.known, Known::Unknown) {
            self.flight = Some(Flight::Read { known: self.known_revision() });
            out.push(Output::Read);
            return;
        }
        match &self.known {
            Known::Unknown => {}
            Known::Missing => {
                let ready_in = self.longest_hold;
                for id in self.queue.queued() {
                    self.fail(now, id, AppendError::New { ready_in }, out);
                }
                let document = Arc::new(Document { revision: 1, ..Document::default() });
                self.write(now, Write::Create(document.clone()), Some(document), Vec::new(), out);
            }
            Known::Broken { key, error } => {
                let (key, error) = (key.clone(), error.clone());
                for id in self.queue.queued() {
                    self.fail(now, id, AppendError::Broken(error.clone()), out);
                }
                if is_replaceable(&error) {
                    self.write(now, Write::Delete(key), None, Vec::new(), out);
                }
            }
            Known::Current(current) => {
                let current = current.clone();
                self.advance_current(now, &current, out);
            }
        }
    }

    fn advance_current(&mut self, now: Duration, current: &Current, out: &mut Vec<Output>) {
        if let Some(at) = self.established_at(current).filter(|at| *at > now) {
            while let Some(id) = self.queue.first_before(at) {
                let ready_in = at.saturating_sub(now);
                self.fail(now, id, AppendError::New { ready_in }, out);
            }
            return;
        }
        let is_due = self.removal_due.is_some_and(|due| due <= now);
        if now < self.yield_until {
            // Requests that arrive meanwhile go into the same write.
        } else if is_due || self.queue.has_waiting() || !current.is_established() {
            self.removal_due = self.removal_due.filter(|_| !is_due);
            self.write_next(now, &current.key, &current.document, out);
        }
        for resource in std::mem::take(&mut self.wanted_floors) {
            self.floor_reads.insert(resource.clone());
            out.push(Output::ReadVersion { number: self.floor_number, resource });
        }
    }

    fn write(
        &mut self,
        now: Duration,
        write: Write,
        document: Option<Arc<Document>>,
        requests: Vec<RequestId>,
        out: &mut Vec<Output>,
    ) {
        let base = self.known_revision();
        self.flight = Some(Flight::Write { document, base, requests, began: now });
        out.push(Output::Write(write));
    }

    /// Writes the ledger without settled entries and with all waiting requests, if that changes it.
    fn write_next(
        &mut self,
        now: Duration,
        key: &LedgerKey,
        base: &Arc<Document>,
        out: &mut Vec<Output>,
    ) {
        let mut draft = self.draft(now, key, base);
        let waiting: Vec<_> = self.queue.waiting().collect();
        for id in waiting {
            if let Err(error) = self.add(now, id, &mut draft) {
                self.fail(now, id, error, out);
            }
        }
        if !draft.is_changed {
            return;
        }
        for id in &draft.requests {
            self.queue.set_phase(*id, Phase::Writing);
        }
        draft.document.revision += 1;
        let document = Arc::new(draft.document);
        let write = Write::Update(key.clone(), document.clone());
        self.write(now, write, Some(document), draft.requests, out);
    }

    /// The ledger without settled entries. Entries that were stored raise the watermark. They stay
    /// until the other views have reached their version as well, if there is place: otherwise each
    /// write would outdate the evaluations of all replicas whose watch is a bit later. If their
    /// resource has no watermark yet, they stay until it is known.
    fn draft(&mut self, now: Duration, key: &LedgerKey, base: &Arc<Document>) -> Draft {
        let mut document = (**base).clone();
        let is_crowded = self.usage.is_crowded(self.config.limits);
        let mut is_changed = document.established.as_ref() != Some(&key.uid.0);
        document.established = Some(key.uid.0.clone());
        let mut resources: BTreeSet<Resource> = document.versions.keys().cloned().collect();
        resources.extend(base.entries.values().map(|entry| entry.resource.clone()));
        for (id, entry) in &base.entries {
            let Some(settled) = self.settled(id) else { continue };
            if let Some(stored) = settled.stored {
                if settled.at + self.config.removal_delay > now && !is_crowded {
                    self.plan_removal(now, id);
                    continue;
                }
                let Some(floor) = self.required_version(&entry.resource) else {
                    self.request_floors([entry.resource.clone()]);
                    continue;
                };
                document.raise_version(&entry.resource, stored.max(floor));
            }
            document.entries.remove(id);
            is_changed = true;
        }
        for (resource, floor) in &self.floors {
            let is_known = document.versions.contains_key(resource);
            if !is_known && (resources.contains(resource) || resources.len() < MAX_RESOURCES) {
                resources.insert(resource.clone());
                document.raise_version(resource, *floor);
                is_changed = true;
            }
        }
        let mut usage = TenantUsage::default();
        for entry in document.entries.values() {
            usage.add(&entry.tenant, entry.usage());
        }
        let (renewed, requests) = (BTreeSet::new(), Vec::new());
        Draft { document, usage, resources, renewed, requests, is_changed }
    }

    /// Adds the entry of a request, or extends that of an equal one.
    fn add(&mut self, now: Duration, id: RequestId, draft: &mut Draft) -> Result<(), AppendError> {
        let Some(request) = self.queue.get(id) else { return Ok(()) };
        let (append, assignment) = (request.append.clone(), request.assignment);
        let change = &append.change;
        let is_known = draft.resources.contains(&change.resource);
        if !is_known && draft.resources.len() >= MAX_RESOURCES {
            return Err(AppendError::TooManyResources(change.resource.clone()));
        }
        let number = match assignment {
            Some(assignment) => assignment.number,
            None => self.number_for(&append),
        };
        let Some(own) = self.own.get_mut(&number) else { return Ok(()) };
        own.open.insert(id);
        if draft.renewed.insert(number) {
            own.renewal = Some(own.renewal.map_or(0, |renewal| renewal.saturating_add(1)));
        }
        let renewal = own.renewal.unwrap_or_default();
        let Some(entry) = self.entry(now, number) else { return Ok(()) };
        let before = draft.document.entries.get(&entry.id).map(|entry| entry.usage());
        let (before, after) = (before.unwrap_or_default(), entry.usage());
        let more = Usage {
            entries: after.entries - before.entries,
            bytes: after.bytes.saturating_sub(before.bytes),
        };
        let limits = self.config.limits;
        if !draft.usage.admits(&change.tenant, more, limits) {
            if assignment.is_none()
                && let Some(own) = self.own.get_mut(&number)
            {
                own.open.remove(&id);
            }
            return Err(super::full(&draft.usage, limits));
        }
        draft.usage.remove(&change.tenant, before);
        draft.usage.add(&change.tenant, after);
        draft.resources.insert(change.resource.clone());
        draft.document.entries.insert(entry.id.clone(), Arc::new(entry));
        draft.requests.push(id);
        draft.is_changed = true;
        self.queue.assign(id, Assignment { number, renewal });
        Ok(())
    }

    /// The own entry of an equal change that has place for a further request, or a new one.
    fn number_for(&mut self, append: &Append) -> u64 {
        let equal = self.own_by_change.get(&append.change).copied();
        let has_place =
            |number: &u64| self.own.get(number).is_some_and(|own| own.open.len() < MAX_JOINED);
        if let Some(number) = equal.filter(has_place) {
            return number;
        }
        let number = self.next_number;
        self.next_number += 1;
        let change = append.change.clone();
        self.own_by_change.insert(change.clone(), number);
        let (open, last_settled) = (BTreeSet::new(), Duration::ZERO);
        self.own.insert(number, Own { change, renewal: None, open, stored: None, last_settled });
        number
    }

    /// The current content of an own entry.
    fn entry(&self, now: Duration, number: u64) -> Option<Entry> {
        let own = self.own.get(&number)?;
        let requests: Vec<_> = own.open.iter().filter_map(|id| self.queue.get(*id)).collect();
        let last = requests.iter().map(|request| request.respond_before).max()?;
        let hold = with_drift(last.saturating_sub(now) + self.config.reservation_ttl);
        let versions = requests.iter().map(|request| &request.append.base_version);
        let newest = versions.max_by_key(|version| (version.len(), (*version).clone()))?;
        let uids: Option<Vec<_>> =
            requests.iter().map(|request| request.append.uid.clone()).collect();
        let uids = uids.filter(|uids| own.change.is_creation && uids.len() <= MAX_UIDS);
        let Change { tenant, resource, namespace, name, projection, .. } = (*own.change).clone();
        Some(Entry {
            id: self.entry_id(number),
            renewal: own.renewal?,
            tenant,
            resource,
            namespace,
            name,
            uids: uids.unwrap_or_default(),
            base_version: newest.clone(),
            hold: u64::try_from(hold.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX),
            content: Content::of(&projection, self.config.limits.projection_bytes),
        })
    }
}
