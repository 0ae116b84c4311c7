//! One allowed change that is not known to be stored.

use std::sync::Arc;

use opgate_cluster::{Object, Outline};
use tokio::time::Instant;

use super::is_newer;
use super::limits::{Tenant, Usage};

/// Maximum number of uids of equal requests that are recorded. If there are more, no uid settles
/// the reservation.
const MAX_UIDS: usize = 16;

/// Identifies a reservation to the ledger of all replicas.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::cluster) enum ReservationId {
    /// A request that this replica has allowed.
    Own(u64),
    /// An entry of another replica.
    Foreign(Arc<str>),
}

/// The content that a change stores.
#[derive(Debug, Clone)]
pub(in crate::cluster) enum ChangeContent {
    /// Nothing that is kept, for example because the object loses a label.
    Removed,
    /// The stored part of the object.
    Whole(Arc<Object>),
    /// An outline of the stored part, if that is too large to be kept. Its content can only be
    /// read after it is stored.
    Outline(Arc<Outline>),
}

impl ChangeContent {
    /// The content of a stored part of at most `max_bytes`.
    pub(in crate::cluster) fn of(object: Option<Arc<Object>>, max_bytes: usize) -> Self {
        match object {
            None => Self::Removed,
            Some(object) if object.size() > max_bytes => {
                Self::Outline(Arc::new(Outline::of(&object)))
            }
            Some(object) => Self::Whole(object),
        }
    }

    pub(in crate::cluster) fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Whole(object) => Some(object),
            Self::Removed | Self::Outline(_) => None,
        }
    }

    pub(in crate::cluster) fn outline(&self) -> Option<&Arc<Outline>> {
        match self {
            Self::Outline(outline) => Some(outline),
            Self::Removed | Self::Whole(_) => None,
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Self::Removed => 0,
            Self::Whole(object) => object.size(),
            Self::Outline(outline) => outline.size(),
        }
    }

    /// Content that represents two changes of one object; `None` if that is impossible.
    fn merge(&self, other: &Self) -> Option<Self> {
        let outline = |content: &Self| match content {
            Self::Removed => None,
            Self::Whole(object) => Some(Arc::new(Outline::of(object))),
            Self::Outline(outline) => Some(outline.clone()),
        };
        Some(match (outline(self), outline(other)) {
            (None, None) => Self::Removed,
            // An object that an outline may match may also be absent.
            (Some(one), None) | (None, Some(one)) => Self::Outline(one),
            (Some(left), Some(right)) => Self::Outline(Arc::new(left.union(&right)?)),
        })
    }

    /// Whether policies see no difference between the two, whichever of them is stored.
    fn is_copy_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Removed, Self::Removed) => true,
            (Self::Whole(left), Self::Whole(right)) => left.is_copy_of(right),
            // Outlines may hide a difference, but policies see none.
            (Self::Outline(left), Self::Outline(right)) => left == right,
            _ => false,
        }
    }
}

/// An allowed request that is not settled, or several equal ones.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) content: ChangeContent,
    /// The `resourceVersion` that it changes; empty for a new object.
    base_version: Box<str>,
    /// The `uid`s of a new object, which the API server chooses for each request.
    uids: Uids,
    /// The time until which it may still be stored.
    pub(super) ends: Instant,
    /// The tenant whose share it uses.
    tenant: Tenant,
    /// The requests in the ledger; empty if this is the only replica.
    ids: Vec<ReservationId>,
    /// The version of a stored object with equal content: nothing changes if this change is stored
    /// in addition to it.
    equal_version: Option<Box<str>>,
}

#[derive(Debug)]
enum Uids {
    /// An object with one of these is the result of one of the requests.
    Known(Vec<Box<str>>),
    /// No request had a uid: any object may be the result.
    Unknown,
    /// Too many to be recorded.
    Many,
}

impl Pending {
    pub(super) fn new(
        content: ChangeContent,
        before: &str,
        uid: &str,
        ends: Instant,
        tenant: Tenant,
    ) -> Self {
        let is_known = before.is_empty() && !uid.is_empty();
        let uids = if is_known { Uids::Known(vec![uid.into()]) } else { Uids::Unknown };
        let base_version = before.into();
        Self { content, base_version, uids, ends, tenant, ids: Vec::new(), equal_version: None }
    }

    /// Adds the id of its request.
    pub(super) fn with_id(self, id: Option<ReservationId>) -> Self {
        Self { ids: id.into_iter().collect(), ..self }
    }

    /// Sets the uids of a new object; none if they are unknown or too many, so that none identifies it.
    pub(super) fn with_uids(self, uids: &[Box<str>]) -> Self {
        if !self.is_creation() {
            return self;
        }
        let uids = if uids.is_empty() { Uids::Many } else { Uids::Known(uids.to_vec()) };
        Self { uids, ..self }
    }

    /// Takes over time, changed version and uids of a newer copy of the same entry.
    pub(super) fn renew(&mut self, newer: &Self) {
        self.ends = newer.ends;
        if is_newer(&newer.base_version, &self.base_version) {
            self.base_version = newer.base_version.clone();
        }
        match (&mut self.uids, &newer.uids) {
            (Uids::Known(known), Uids::Known(uids)) => {
                known.extend(
                    uids.iter().filter(|uid| !known.contains(uid)).cloned().collect::<Vec<_>>(),
                );
            }
            (uids, _) if self.base_version.is_empty() => *uids = Uids::Many,
            _ => {}
        }
    }

    /// The requests in the ledger.
    pub(super) fn ids(&self) -> &[ReservationId] {
        &self.ids
    }

    /// Whether another replica allowed it.
    fn is_foreign(&self) -> bool {
        matches!(self.ids.first(), Some(ReservationId::Foreign(_)))
    }

    /// Removes a request that was not allowed in the end. Returns whether no request is left.
    pub(super) fn withdraw(&mut self, id: &ReservationId) -> bool {
        let had_it = self.ids.contains(id);
        self.ids.retain(|known| known != id);
        had_it && self.ids.is_empty()
    }

    pub(super) fn is_creation(&self) -> bool {
        self.base_version.is_empty()
    }

    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The usage of the reservation. The recorded uids have at most the size of an entry.
    pub(super) fn usage(&self) -> Usage {
        let tenant = self.tenant.namespace.len() + self.tenant.user.len();
        let fixed = size_of::<Self>() + MAX_UIDS * 52;
        Usage { count: 1, bytes: fixed + tenant + self.content.size() }
    }

    /// Whether both make the same change, so that one reservation covers both.
    pub(super) fn is_equal(&self, other: &Self) -> bool {
        self.is_creation() == other.is_creation()
            && !self.is_foreign()
            && self.content.is_copy_of(&other.content)
    }

    /// Whether both belong to one tenant and are settled in the same way.
    pub(super) fn is_mergeable_with(&self, other: &Self) -> bool {
        self.is_creation() == other.is_creation()
            && !self.is_foreign()
            && self.tenant == other.tenant
    }

    /// One reservation for two requests about the same object that are alike; `None` if it would
    /// be too large.
    pub(super) fn merged_content(&self, other: &Self) -> Option<ChangeContent> {
        self.content.merge(&other.content)
    }

    /// Adds a request that is alike. This content then represents both.
    pub(super) fn merge(&mut self, other: Self, content: ChangeContent) {
        self.add_equal(other);
        (self.content, self.equal_version) = (content, None);
    }

    /// Adds an equal request.
    pub(super) fn add_equal(&mut self, other: Self) {
        self.ends = self.ends.max(other.ends);
        self.ids.extend(other.ids);
        if is_newer(&other.base_version, &self.base_version) {
            self.base_version = other.base_version;
        }
        let Uids::Known(more) = other.uids else {
            // Without its uid, its result cannot be distinguished from others.
            if self.is_creation() {
                self.uids = Uids::Many;
            }
            return;
        };
        match &mut self.uids {
            Uids::Known(known) => {
                for uid in more {
                    if !known.contains(&uid) {
                        known.push(uid);
                    }
                }
                if known.len() > MAX_UIDS {
                    self.uids = Uids::Many;
                }
            }
            Uids::Unknown => self.uids = Uids::Many,
            Uids::Many => {}
        }
    }

    /// Whether an existing object with this version and uid is the result of the request, or a
    /// later one.
    pub(super) fn settle_by_object(&mut self, version: &str, uid: &str) -> bool {
        if self.is_creation() {
            return match &mut self.uids {
                // Another object with that name can be deleted in time for this one.
                Uids::Known(known) => {
                    known.retain(|known| **known != *uid);
                    known.is_empty()
                }
                Uids::Unknown => true,
                Uids::Many => false,
            };
        }
        match (self.base_version.parse::<u64>(), version.parse::<u64>()) {
            (Ok(before), Ok(shown)) => shown > before,
            _ => *self.base_version != *version,
        }
    }

    /// Whether the deletion of an object at this version settles it: a change of a deleted object
    /// is denied. An earlier deletion only ended the view of the object: it lost a label, and got
    /// it again.
    pub(super) fn settle_by_deletion(&mut self, version: &str, uid: &str) -> bool {
        if self.is_creation() {
            return !uid.is_empty()
                && match &mut self.uids {
                    Uids::Known(known) => {
                        known.retain(|known| **known != *uid);
                        known.is_empty()
                    }
                    Uids::Unknown | Uids::Many => false,
                };
        }
        !is_newer(&self.base_version, version) && *self.base_version != *version
    }

    /// Whether the absence of the object settles it. With a label selector, an absent object
    /// settles nothing, because it may not have the label any more, or not yet.
    pub(super) fn is_settled_by_absence(&self, is_filtered: bool) -> bool {
        !is_filtered && !self.is_creation()
    }

    /// Whether a list of this version, which does not have the object, settles it.
    pub(super) fn is_settled_by_list(&self, version: &str, is_filtered: bool) -> bool {
        // The list does not yet have changes since its start.
        !is_newer(&self.base_version, version) && self.is_settled_by_absence(is_filtered)
    }

    /// Compares a creation with the stored object. A change is known to differ from what it changes.
    pub(super) fn compare_with(&mut self, stored: Option<&Arc<Object>>) {
        let object = self.content.object().filter(|_| self.base_version.is_empty());
        let alike = object.zip(stored).filter(|(object, stored)| object.is_copy_of(stored));
        self.equal_version = alike.map(|(_, stored)| stored.resource_version().into());
    }

    /// Whether the result differs from the stored object, if there is one.
    pub(super) fn differs_from(&self, stored: Option<&Arc<Object>>) -> bool {
        let version = stored.map(|stored| stored.resource_version());
        version.is_none() || self.equal_version.as_deref() != version
    }
}
