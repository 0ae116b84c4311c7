//! Allowed changes, and knowledge about objects beyond the watch.
//!
//! An allowed request may be stored a moment later, or never: the name can exist already (409),
//! another webhook can deny it, its client can be gone. Until the outcome is known, both count
//! (docs/adr/0012, docs/adr/0036):
//!
//! ```text
//! allowed ─▶ Pending ─┬─ the watch or a list shows it, or a later version ─▶ gone from here
//!  (equal ones join)  ├─ read directly: it is there ─▶ Known, until the watch has reached it
//!                     ├─ read directly after its time: it is not there ─▶ gone from here
//!                     └─ no read succeeds, but the watch had contact long after its time ─▶ gone from here
//! ```

pub(super) mod claims;
mod limits;
mod log;
mod pending;
pub(super) mod possible_state;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use opgate_cluster::{Key, Object};
use tokio::time::Instant;

pub use limits::ReservationLimits;
use limits::TenantUsage;
pub(super) use limits::{Tenant, Usage};
pub use log::RecordedQuery;
use log::ReservationLog;
pub(super) use log::{Origin, ReservedChange};
use pending::Pending;
pub(super) use pending::{ChangeContent, ReservationId};

/// From this number of requests in progress about one object on, the last of them share a possible
/// state.
pub(crate) const MAX_POSSIBLE_STATES: usize = 4;

/// From this number of requests of one tenant about one object on, the last of them share an
/// entry: a controller that creates, gets 409 and updates needs no more memory the faster it is.
const MAX_ENTRIES_PER_TENANT: usize = 8;

/// Maximum delay of an event. Events that arrive later than this after the end of a reservation
/// show the state that was stored before that end.
const MAX_EVENT_DELAY: Duration = Duration::from_secs(10);

/// Part of the memory for the log.
const LOG_MEMORY_DIVISOR: usize = 4;

/// The reason why nothing can be reserved for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReservationsFull;

/// The result of a direct read.
#[derive(Debug, Clone)]
pub(super) enum DirectReadResult {
    /// An object that the watch does not show yet.
    Newer(Arc<Object>),
    /// No object, at this version, though the watch still shows one.
    Gone(u64),
}

impl DirectReadResult {
    fn size(&self) -> usize {
        match self {
            Self::Newer(object) => object.size(),
            Self::Gone(_) => 0,
        }
    }

    /// Whether a watch that has reached this version shows it, too.
    fn is_reached_by(&self, version: &str) -> bool {
        match self {
            Self::Newer(object) => !is_newer(object.resource_version(), version),
            Self::Gone(at) => version.parse::<u64>().is_ok_and(|version| version >= *at),
        }
    }
}

/// The knowledge about one object beyond the watch.
#[derive(Debug, Default)]
struct Overlay {
    /// The result of a direct read.
    direct_read: Option<DirectReadResult>,
    /// The oldest first.
    pending: Vec<Pending>,
}

/// The entry in which a request is recorded among those about the same object.
enum PendingSlot {
    /// The entry of an equal request.
    Equal(usize),
    /// An entry of the same tenant, with content that represents all its requests.
    Merged(usize, ChangeContent),
    /// A new entry.
    New,
}

/// An allowed change.
#[derive(Debug)]
pub(super) struct Change<'c> {
    pub(super) key: &'c Key,
    /// The stored part of the object; none if nothing of it is kept.
    pub(super) object: Option<Arc<Object>>,
    /// The `resourceVersion` that it changes; empty for a new object.
    pub(super) base_version: &'c str,
    /// The time until which it may be stored.
    pub(super) ends: Instant,
    /// The tenant that makes it.
    pub(super) tenant: &'c Tenant,
    /// The request in the ledger; none if this is the only replica.
    pub(super) id: Option<ReservationId>,
}

impl Change<'_> {
    fn pending(&self, limits: ReservationLimits) -> Pending {
        let uid = self.object.as_ref().map(|object| object.uid()).unwrap_or_default();
        let content = ChangeContent::of(self.object.clone(), limits.max_whole_bytes());
        let tenant = self.tenant.clone();
        Pending::new(content, self.base_version, uid, self.ends, tenant).with_id(self.id.clone())
    }
}

/// A change that another replica has allowed.
#[derive(Debug)]
pub(super) struct ForeignChange<'c> {
    pub(super) id: &'c Arc<str>,
    pub(super) key: &'c Key,
    pub(super) content: ChangeContent,
    /// The `resourceVersion` that it changes; empty for a new object.
    pub(super) base_version: &'c str,
    /// The uids of a new object; none if they are unknown.
    pub(super) uids: &'c [Box<str>],
    /// The time until which it may be stored.
    pub(super) ends: Instant,
    pub(super) tenant: &'c Tenant,
}

/// A reservation whose outcome is known, for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettledReservation {
    pub(super) id: ReservationId,
    /// A version at which every view shows the outcome; none if the change was not stored.
    pub(super) stored_version: Option<Box<str>>,
}

/// All allowed and unsettled changes of one resource.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    by_key: BTreeMap<Key, Overlay>,
    tenant_usage: TenantUsage,
    /// Bytes of direct reads.
    direct_read_bytes: usize,
    log: ReservationLog,
    /// The number of settled ones.
    settled: u64,
    /// Settled reservations of the ledger that it does not know yet.
    settled_reservations: Vec<SettledReservation>,
    /// A time before which no reservation ends. It is computed again when it has passed.
    first_end: Option<Instant>,
}

/// The overlay of one key.
pub(super) struct OverlayEntry<'r> {
    pub(super) key: &'r Key,
    /// The result of a direct read, if there is one.
    pub(super) direct_read: Option<&'r DirectReadResult>,
    pending: &'r [Pending],
}

impl<'r> OverlayEntry<'r> {
    /// Removes the unsettled requests.
    pub(super) fn into_stored(self) -> Self {
        Self { pending: &[], ..self }
    }

    /// The results of unsettled requests that differ from the stored object, the oldest first.
    pub(super) fn pending(
        &self,
        stored: Option<&'r Arc<Object>>,
    ) -> impl Iterator<Item = &'r ChangeContent> + Clone {
        let pending = self.pending;
        pending
            .iter()
            .filter(move |pending| pending.differs_from(stored))
            .map(|pending| &pending.content)
    }
}

impl Reservations {
    /// Whether the watch shows everything.
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The number of reservations so far.
    pub(super) fn made_count(&self) -> u64 {
        self.log.count()
    }

    /// Whether a reservation since `made` can change the result of one of the queries.
    pub(super) fn affects_since<'q>(
        &self,
        made: u64,
        asked: &(impl Iterator<Item = &'q RecordedQuery> + Clone),
        origin: Option<Origin>,
    ) -> bool {
        self.log.affects_since(made, asked, origin)
    }

    /// The versions of an object that any possible state can show in addition to the `stored`
    /// ones.
    pub(super) fn possible_versions(
        &self,
        key: &Key,
        stored: [Option<&Arc<Object>>; 2],
        new: &ChangeContent,
        origin: Origin,
    ) -> ReservedChange {
        let overlay = self.by_key.get(key);
        let known = overlay.and_then(|overlay| match &overlay.direct_read {
            Some(DirectReadResult::Newer(object)) => Some(object),
            Some(DirectReadResult::Gone(_)) | None => None,
        });
        let pending = overlay.map(|overlay| overlay.pending.as_slice()).unwrap_or_default();
        let all = || pending.iter().map(|pending| &pending.content).chain([new]);
        let forms = stored.into_iter().flatten().chain(known);
        let forms = forms.chain(all().filter_map(ChangeContent::object)).cloned().collect();
        let outlines = all().filter_map(ChangeContent::outline).cloned().collect();
        ReservedChange { key: key.clone(), versions: forms, outlines, origin }
    }

    /// The number of settled reservations.
    pub(super) fn settled_count(&self) -> u64 {
        self.settled
    }

    /// The usage of all reservations.
    pub(super) fn usage(&self) -> Usage {
        let all = self.tenant_usage.all();
        Usage { bytes: all.bytes.saturating_add(self.direct_read_bytes), ..all }
    }

    /// The usage of a namespace, and of a user.
    pub(super) fn usage_of(&self, tenant: &Tenant) -> [Usage; 2] {
        self.tenant_usage.of(tenant)
    }

    /// The namespaces and users with the highest usage, at most `count`.
    pub(super) fn largest(&self, count: usize) -> Vec<(String, Usage)> {
        self.tenant_usage.largest(count)
    }

    /// Objects with knowledge beyond the watch.
    pub(super) fn key_count(&self) -> usize {
        self.by_key.len()
    }

    /// The knowledge about one object.
    pub(super) fn of(&self, key: &Key) -> Option<OverlayEntry<'_>> {
        self.by_key.get_key_value(key).map(|(key, overlay)| overlay.to_entry(key))
    }

    /// The knowledge about the objects of a namespace, or about all.
    pub(super) fn within(&self, namespace: Option<&str>) -> impl Iterator<Item = OverlayEntry<'_>> {
        let start = namespace.map(|namespace| Key::new(namespace, ""));
        let from = start.map_or(Bound::Unbounded, Bound::Included);
        let inside =
            move |key: &Key| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        let found = self.by_key.range((from, Bound::Unbounded));
        found.take_while(move |(key, _)| inside(key)).map(|(key, overlay)| overlay.to_entry(key))
    }

    /// The latest time at which a request about an object can be stored, if one is unsettled.
    pub(super) fn latest_end(&self, key: &Key) -> Option<Instant> {
        self.by_key.get(key)?.pending.iter().map(|pending| pending.ends).max()
    }

    /// Number of unsettled requests about an object.
    pub(super) fn pending_count(&self, key: &Key) -> usize {
        self.by_key.get(key).map_or(0, |overlay| overlay.pending.len())
    }

    /// The earliest time at which a direct read can settle a reservation, or a time before it.
    pub(super) fn first_end(&self) -> Option<Instant> {
        self.first_end
    }

    /// Objects with a reservation whose time is over, at most `count`, the longest waiting first.
    pub(super) fn ended_keys(&mut self, at: Instant, count: usize) -> Vec<Key> {
        if self.first_end.is_none_or(|first| first > at) {
            return Vec::new();
        }
        let first = |overlay: &Overlay| overlay.pending.iter().map(|pending| pending.ends).min();
        self.first_end = self.by_key.values().filter_map(first).min();
        let ended = self.by_key.iter().filter_map(|(key, overlay)| Some((first(overlay)?, key)));
        let mut ended: Vec<_> = ended.filter(|(ends, _)| *ends <= at).collect();
        ended.sort();
        ended.into_iter().take(count).map(|(_, key)| key.clone()).collect()
    }

    /// Checks whether a change fits into the limits.
    ///
    /// # Errors
    /// If it does not, or if the tenant has used its share.
    pub(super) fn check_limits(
        &self,
        change: &Change<'_>,
        limits: ReservationLimits,
    ) -> Result<(), ReservationsFull> {
        let pending = change.pending(limits);
        self.find_slot(change.key, &pending, limits).map(|_| ())
    }

    /// Determines the entry of a request.
    fn find_slot(
        &self,
        key: &Key,
        pending: &Pending,
        limits: ReservationLimits,
    ) -> Result<PendingSlot, ReservationsFull> {
        let others = self.by_key.get(key).map_or(&[][..], |overlay| &overlay.pending);
        if let Some(equal) = others.iter().position(|other| other.is_equal(pending)) {
            return Ok(PendingSlot::Equal(equal));
        }
        let is_alike = |(_, other): &(usize, &Pending)| other.is_mergeable_with(pending);
        let mut alike = (0..).zip(others).filter(is_alike).skip(MAX_ENTRIES_PER_TENANT - 1);
        let last =
            alike.next().and_then(|(at, last)| Some((at, last, last.merged_content(pending)?)));
        let (place, more) = match last {
            Some((at, last, content)) => {
                let more =
                    Usage { count: 0, bytes: content.size().saturating_sub(last.content.size()) };
                (PendingSlot::Merged(at, content), more)
            }
            None => (PendingSlot::New, pending.usage()),
        };
        // Direct reads of objects without pending requests use memory as well.
        let is_full = self.by_key.len() >= limits.count.saturating_mul(2)
            || self.usage().bytes.saturating_add(more.bytes) > limits.bytes;
        let is_admitted = more == Usage::default()
            || (!is_full && self.tenant_usage.admits(pending.tenant(), more, limits));
        if is_admitted { Ok(place) } else { Err(ReservationsFull) }
    }

    /// Adds a request. `stored` is the object that the watch shows.
    ///
    /// # Errors
    /// If the limits are reached.
    pub(super) fn reserve(
        &mut self,
        change: &Change<'_>,
        stored: Option<&Arc<Object>>,
        made: ReservedChange,
        limits: ReservationLimits,
    ) -> Result<(), ReservationsFull> {
        let mut pending = change.pending(limits);
        let place = self.find_slot(change.key, &pending, limits)?;
        let overlay = self.by_key.entry(change.key.clone()).or_default();
        match place {
            PendingSlot::Equal(at) => {
                // It changes no result.
                if let Some(equal) = overlay.pending.get_mut(at) {
                    equal.add_equal(pending);
                }
                return Ok(());
            }
            PendingSlot::Merged(at, content) => {
                if let Some(last) = overlay.pending.get_mut(at) {
                    self.tenant_usage.remove(last.tenant(), last.usage());
                    last.merge(pending, content);
                    self.tenant_usage.add(last.tenant(), last.usage());
                }
            }
            PendingSlot::New => {
                pending.compare_with(overlay.stored(stored));
                let first = self.first_end.map_or(pending.ends, |first| first.min(pending.ends));
                self.first_end = Some(first);
                self.tenant_usage.add(pending.tenant(), pending.usage());
                overlay.pending.push(pending);
            }
        }
        self.log.push(made, limits.bytes / LOG_MEMORY_DIVISOR);
        Ok(())
    }

    /// Adds a change that another replica has allowed. The ledger has its own limits.
    pub(super) fn import(
        &mut self,
        change: ForeignChange<'_>,
        stored: Option<&Arc<Object>>,
        made: ReservedChange,
        limits: ReservationLimits,
    ) {
        let ForeignChange { id, key, content, base_version, uids, ends, tenant } = change;
        let mut pending = Pending::new(content, base_version, "", ends, tenant.clone())
            .with_uids(uids)
            .with_id(Some(ReservationId::Foreign(id.clone())));
        let overlay = self.by_key.entry(key.clone()).or_default();
        if let Some(known) = overlay.pending.iter_mut().find(|known| known.ids() == pending.ids()) {
            known.renew(&pending);
            self.first_end = Some(self.first_end.map_or(ends, |first| first.min(ends)));
            return;
        }
        pending.compare_with(overlay.stored(stored));
        // An earlier copy of the entry was settled; the ledger does not know that and need not: this one
        // is open.
        self.settled_reservations.retain(|settled| !pending.ids().contains(&settled.id));
        self.first_end = Some(self.first_end.map_or(ends, |first| first.min(ends)));
        self.tenant_usage.add(pending.tenant(), pending.usage());
        overlay.pending.push(pending);
        self.log.push(made, limits.bytes / LOG_MEMORY_DIVISOR);
    }

    /// Records that objects may have changed in an unknown way.
    pub(super) fn record_unknown_change(&mut self) {
        self.log.push_unknown();
    }

    /// Removes a request that was not allowed in the end.
    pub(super) fn withdraw(&mut self, key: &Key, id: &ReservationId) {
        self.update(key, None, |overlay| {
            overlay.pending.retain_mut(|pending| !pending.withdraw(id));
        });
    }

    /// Sets the time until which a request may be stored.
    pub(super) fn set_end(&mut self, key: &Key, id: &ReservationId, ends: Instant) {
        let Some(overlay) = self.by_key.get_mut(key) else { return };
        let is_it = |pending: &&mut Pending| pending.ids().contains(id);
        if let Some(pending) = overlay.pending.iter_mut().find(is_it) {
            // Equal requests may end later.
            pending.ends = if pending.ids().len() == 1 { ends } else { pending.ends.max(ends) };
            self.first_end = Some(self.first_end.map_or(ends, |first| first.min(ends)));
        }
    }

    /// Takes the settled reservations of the ledger.
    pub(super) fn take_settled(&mut self) -> Vec<SettledReservation> {
        std::mem::take(&mut self.settled_reservations)
    }

    /// Records that the watch or a list shows an object. `object` is its stored part, if it can be
    /// read.
    pub(super) fn record_object(
        &mut self,
        key: &Key,
        version: &str,
        uid: &str,
        object: Option<&Arc<Object>>,
    ) {
        self.update(key, Some(version), |overlay| {
            overlay.forget_reached_read(version);
            overlay.pending.retain_mut(|pending| !pending.settle_by_object(version, uid));
            overlay.compare_pending(object);
        });
    }

    /// Records that the watch shows the deletion of the object with this uid at this version.
    pub(super) fn record_deletion(&mut self, key: &Key, version: &str, uid: &str) {
        self.update(key, Some(version), |overlay| {
            overlay.forget_reached_read(version);
            if let Some(DirectReadResult::Gone(_)) = overlay.direct_read {
                overlay.direct_read = None;
            }
            overlay.pending.retain_mut(|pending| !pending.settle_by_deletion(version, uid));
            overlay.compare_pending(None);
        });
    }

    /// Records that a list of this version does not have the object.
    pub(super) fn record_unlisted(&mut self, key: &Key, version: &str, is_filtered: bool) {
        self.update(key, None, |overlay| {
            overlay.forget_reached_read(version);
            overlay.pending.retain(|pending| !pending.is_settled_by_list(version, is_filtered));
            overlay.compare_pending(None);
        });
    }

    /// Resets everything because versions have gone backwards: the knowledge belongs to another
    /// history, and the objects to be changed do not exist any more.
    pub(super) fn reset(&mut self) {
        for key in self.all_keys() {
            self.update(&key, None, |overlay| {
                overlay.direct_read = None;
                overlay.pending.retain(Pending::is_creation);
            });
        }
    }

    /// Records that a direct read that started at this time found the object, or none. `known` is
    /// a result that the watch does not show yet. `excluded` is the version of an object that the cache does
    /// not keep, because it has other labels.
    pub(super) fn record_direct_read(
        &mut self,
        key: &Key,
        found: Option<&Arc<Object>>,
        known: Option<DirectReadResult>,
        asked: Instant,
        excluded: Option<&str>,
    ) {
        if known.is_some() {
            self.by_key.entry(key.clone()).or_default();
        }
        let is_excluded = excluded.is_some();
        let version = found.map(|object| object.resource_version()).or(excluded);
        self.update(key, version, |overlay| {
            match found {
                Some(object) => {
                    let (version, uid) = (object.resource_version(), object.uid());
                    overlay.pending.retain_mut(|pending| !pending.settle_by_object(version, uid));
                }
                None => {
                    overlay.pending.retain(|pending| !pending.is_settled_by_absence(is_excluded));
                }
            }
            overlay.pending.retain(|pending| pending.ends > asked);
            // A result that took longer than another one is older.
            let is_old = match (&overlay.direct_read, &known) {
                (Some(DirectReadResult::Newer(object)), Some(DirectReadResult::Newer(newer))) => {
                    is_newer(object.resource_version(), newer.resource_version())
                }
                (Some(DirectReadResult::Newer(object)), Some(DirectReadResult::Gone(at))) => {
                    is_newer(object.resource_version(), &at.to_string())
                }
                (Some(DirectReadResult::Gone(at)), Some(DirectReadResult::Newer(newer))) => {
                    is_newer(&at.to_string(), newer.resource_version())
                }
                (Some(DirectReadResult::Gone(at)), Some(DirectReadResult::Gone(later))) => {
                    at > later
                }
                // The read has found the version that the watch shows, and so no news.
                (Some(DirectReadResult::Newer(object)), None) => found.is_some_and(|found| {
                    is_newer(object.resource_version(), found.resource_version())
                }),
                (Some(DirectReadResult::Gone(at)), None) => {
                    found.is_some_and(|found| !is_newer(found.resource_version(), &at.to_string()))
                }
                (None, _) => false,
            };
            if !is_old {
                overlay.direct_read = known;
            }
        });
    }

    /// Records that all events up to this version have arrived, the last one at this time.
    pub(super) fn advance_to(&mut self, version: Option<u64>, at: Instant) {
        if self.by_key.is_empty() {
            return;
        }
        let known = self.by_key.values().any(|overlay| overlay.direct_read.is_some());
        if !known && self.first_end.is_none_or(|first| first + MAX_EVENT_DELAY >= at) {
            return;
        }
        let version = version.map(|version| version.to_string());
        for key in self.all_keys() {
            self.update(&key, None, |overlay| {
                if let Some(version) = &version {
                    overlay.forget_reached_read(version);
                }
                overlay.pending.retain(|pending| pending.ends + MAX_EVENT_DELAY >= at);
            });
        }
    }

    /// All keys.
    pub(super) fn all_keys(&self) -> Vec<Key> {
        self.by_key.keys().cloned().collect()
    }

    /// Changes an overlay, and counts the reservations that this settles. `version` is the version at which the
    /// API server shows the outcome.
    fn update(&mut self, key: &Key, version: Option<&str>, change: impl FnOnce(&mut Overlay)) {
        let Some(overlay) = self.by_key.get_mut(key) else { return };
        let ids = |overlay: &Overlay| -> Vec<ReservationId> {
            overlay.pending.iter().flat_map(Pending::ids).cloned().collect()
        };
        let ids_before = ids(overlay);
        let usage = |overlay: &Overlay| -> Vec<(Tenant, Usage)> {
            let all = overlay.pending.iter();
            all.map(|pending| (pending.tenant().clone(), pending.usage())).collect()
        };
        let known =
            |overlay: &Overlay| overlay.direct_read.as_ref().map_or(0, DirectReadResult::size);
        let (before, known_before) = (usage(overlay), known(overlay));
        change(overlay);
        let (after, known_after) = (usage(overlay), known(overlay));
        if !ids_before.is_empty() {
            let left = ids(overlay);
            let settled = ids_before.into_iter().filter(|id| !left.contains(id));
            self.settled_reservations.extend(
                settled
                    .map(|id| SettledReservation { id, stored_version: version.map(Into::into) }),
            );
        }
        if overlay.pending.is_empty() && overlay.direct_read.is_none() {
            self.by_key.remove(key);
        }
        if before.len() != after.len() {
            for (tenant, usage) in &before {
                self.tenant_usage.remove(tenant, *usage);
            }
            for (tenant, usage) in &after {
                self.tenant_usage.add(tenant, *usage);
            }
        }
        let settled = before.len().saturating_sub(after.len());
        self.settled += u64::try_from(settled).unwrap_or_default();
        self.direct_read_bytes =
            self.direct_read_bytes.saturating_sub(known_before).saturating_add(known_after);
    }
}

impl Overlay {
    fn to_entry<'r>(&'r self, key: &'r Key) -> OverlayEntry<'r> {
        OverlayEntry { key, direct_read: self.direct_read.as_ref(), pending: &self.pending }
    }

    /// The stored object, if it is known.
    fn stored<'o>(&'o self, base: Option<&'o Arc<Object>>) -> Option<&'o Arc<Object>> {
        stored(base, self.direct_read.as_ref())
    }

    fn compare_pending(&mut self, base: Option<&Arc<Object>>) {
        let stored = stored(base, self.direct_read.as_ref());
        for pending in &mut self.pending {
            pending.compare_with(stored);
        }
    }

    /// A direct read is obsolete when the watch has reached its version.
    fn forget_reached_read(&mut self, version: &str) {
        if self.direct_read.as_ref().is_some_and(|known| known.is_reached_by(version)) {
            self.direct_read = None;
        }
    }
}

/// The stored state of one object. `base` is the object that the watch or a list shows.
pub(super) fn stored<'o>(
    base: Option<&'o Arc<Object>>,
    known: Option<&'o DirectReadResult>,
) -> Option<&'o Arc<Object>> {
    match (base, known) {
        (Some(base), Some(DirectReadResult::Newer(known)))
            if !is_newer(known.resource_version(), base.resource_version()) =>
        {
            Some(base)
        }
        (_, Some(DirectReadResult::Newer(known))) => Some(known),
        (Some(base), Some(DirectReadResult::Gone(at)))
            if !is_newer(base.resource_version(), &at.to_string()) =>
        {
            None
        }
        (base, _) => base,
    }
}

/// Whether one version is later than another. Versions that are not numbers have no order: then
/// the watch counts.
pub(super) fn is_newer(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version > than,
        _ => false,
    }
}
