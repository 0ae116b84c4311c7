//! The registry in which changes are reserved for all cluster states of the server.
//!
//! While one configuration replaces another, two cluster states serve: the new one, and the old
//! one until its last call has ended. If both read a resource in the same way, they share the
//! [`ResourceCache`] with its reservations. If they read it in different ways, or only one of them reads
//! it, each has a separate one:
//!
//! ```text
//! decided with the old one ──┐                     ┌▶ kinds of the old one
//!                            ├─ reserve, in turn ──┤
//! decided with the new one ──┘                     └▶ kinds of the new one, from the moment it is made
//! ```
//!
//! So a decision with either of them sees the changes that were allowed with the other one.
//! Changes that were allowed before the new one was created are not in the reservations of its
//! separate kinds. Therefore these are listed only after the time in which an API server may store
//! such a change (`Options::reservation`): the list contains it, or it is never stored
//! (docs/adr/0028-reload.md).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::cluster::{ResolvedRead, ResourceCache};

/// Kinds of all cluster states that serve or will serve soon.
#[derive(Debug, Default)]
pub(in crate::cluster) struct ReservationRegistry {
    caches: Mutex<Vec<Weak<ResourceCache>>>,
    handle_count: AtomicUsize,
}

impl ReservationRegistry {
    /// Kinds of all cluster states.
    pub(in crate::cluster) fn caches(&self) -> Vec<Arc<ResourceCache>> {
        self.caches.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

/// The registration of one cluster state in a registry, until it is dropped.
#[derive(Debug)]
pub(in crate::cluster) struct RegistryHandle(Arc<ReservationRegistry>);

impl Drop for RegistryHandle {
    fn drop(&mut self) {
        self.0.handle_count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl RegistryHandle {
    pub(in crate::cluster) fn register(registry: Arc<ReservationRegistry>) -> Self {
        registry.handle_count.fetch_add(1, Ordering::AcqRel);
        Self(registry)
    }

    /// The registry, for another cluster state.
    pub(in crate::cluster) fn registry(&self) -> Arc<ReservationRegistry> {
        self.0.clone()
    }

    /// Whether no other cluster state is registered.
    pub(in crate::cluster) fn is_only_handle(&self) -> bool {
        self.0.handle_count.load(Ordering::Acquire) < 2
    }

    /// Acquires the lock of the registry. Until the result is dropped, no other caller reserves,
    /// and no cluster state is added.
    pub(in crate::cluster) fn acquire(&self) -> ReservationLock<'_> {
        ReservationLock(self.0.caches.lock())
    }
}

/// The right to compare reservations and to make one.
#[derive(Debug)]
pub(in crate::cluster) struct ReservationLock<'d>(MutexGuard<'d, Vec<Weak<ResourceCache>>>);

impl ReservationLock<'_> {
    /// Kinds of all cluster states.
    pub(in crate::cluster) fn caches(&self) -> impl Iterator<Item = Arc<ResourceCache>> {
        self.0.iter().filter_map(Weak::upgrade)
    }

    /// Adds kinds in which changes are reserved from now on.
    pub(in crate::cluster) fn add(&mut self, caches: &[Arc<ResourceCache>]) {
        self.0.retain(|known| known.strong_count() > 0);
        for cache in caches {
            if !self.0.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(cache))) {
                self.0.push(Arc::downgrade(cache));
            }
        }
    }
}

/// Whether the cluster state of a kind serves. Before that, a change that exceeds its reservation
/// limits does not fail a request. It is recorded as missed, and the cluster state must not serve.
#[derive(Debug, Default)]
pub(in crate::cluster) struct StandbyState {
    is_standby: AtomicBool,
    has_missed: AtomicBool,
}

impl StandbyState {
    /// The state of a kind whose cluster state does not serve yet.
    pub(in crate::cluster) fn new() -> Self {
        Self { is_standby: AtomicBool::new(true), has_missed: AtomicBool::new(false) }
    }

    /// Records that a change exceeded the limits. Returns whether its request is unaffected.
    pub(in crate::cluster) fn record_missed_change(&self, _: &ReservationLock<'_>) -> bool {
        let is_awaited = self.is_standby.load(Ordering::Relaxed);
        if is_awaited {
            self.has_missed.store(true, Ordering::Relaxed);
        }
        is_awaited
    }

    pub(in crate::cluster) fn has_missed(&self, _: &ReservationLock<'_>) -> bool {
        self.has_missed.load(Ordering::Relaxed)
    }

    pub(in crate::cluster) fn activate(&self, _: &ReservationLock<'_>) {
        self.is_standby.store(false, Ordering::Relaxed);
    }
}

/// Whether one kind serves both reads: it stores the same data under the same permission.
pub(in crate::cluster) fn can_share_cache(left: &ResolvedRead, right: &ResolvedRead) -> bool {
    let (a, b) = (&left.declaration, &right.declaration);
    let indexes = a.union(b).index_count();
    left.resource == right.resource
        && left.namespace == right.namespace
        && left.labels == right.labels
        && left.optional == right.optional
        && a.is_within(b)
        && b.is_within(a)
        && indexes == a.index_count()
        && indexes == b.index_count()
}
