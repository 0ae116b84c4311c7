//! The one place where changes are reserved, however many views of the cluster there are.
//!
//! While one configuration replaces another, two views serve: the new one, and the old one until its last call
//! has ended. Of what both read in the same way they share the [`Kind`], with its reservations. Of what they
//! read in different ways, or what only one of them reads, each has its own:
//!
//! ```text
//! decided with the old view ─┐                     ┌▶ kinds of the old view
//!                            ├─ reserve, in turn ──┤
//! decided with the new view ─┘                     └▶ kinds of the new view, from the moment it is made
//! ```
//!
//! So whichever view decides about a request sees what was allowed with the other one. What was allowed before
//! the new view was made is in no reservation of its own kinds. Therefore these are listed later than an API
//! server may take to store it (`Options::reservation`): the list has it, or it is never stored
//! (docs/adr/0028-reload.md).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use super::{Kind, Reading};

/// Kinds of all views that serve or are about to.
#[derive(Debug, Default)]
pub(super) struct Desk {
    kinds: Mutex<Vec<Weak<Kind>>>,
    views: AtomicUsize,
}

/// A view at a desk, until this is dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<Desk>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.views.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Seat {
    pub(super) fn at(desk: Arc<Desk>) -> Self {
        desk.views.fetch_add(1, Ordering::AcqRel);
        Self(desk)
    }

    /// The same desk for another view.
    pub(super) fn desk(&self) -> Arc<Desk> {
        self.0.clone()
    }

    /// Whether no other view is there.
    pub(super) fn is_alone(&self) -> bool {
        self.0.views.load(Ordering::Acquire) < 2
    }

    /// Waits for the turn of this view. Until the result is dropped, nobody else reserves, and no view is
    /// added.
    pub(super) fn turn(&self) -> Turn<'_> {
        Turn(self.0.kinds.lock())
    }
}

/// The right to compare reservations and to make one.
#[derive(Debug)]
pub(super) struct Turn<'d>(MutexGuard<'d, Vec<Weak<Kind>>>);

impl Turn<'_> {
    /// Kinds of all views.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Arc<Kind>> {
        self.0.iter().filter_map(Weak::upgrade)
    }

    /// From now on changes are reserved in these kinds, too.
    pub(super) fn add(&mut self, kinds: &[Arc<Kind>]) {
        self.0.retain(|known| known.strong_count() > 0);
        for kind in kinds {
            if !self.0.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(kind))) {
                self.0.push(Arc::downgrade(kind));
            }
        }
    }
}

/// Whether the view of a kind serves. Before, a change that does not fit into its reservations fails nobody's
/// request: the view misses it, and must not serve.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    is_awaited: AtomicBool,
    has_missed: AtomicBool,
}

impl Awaited {
    /// Of a view that does not serve yet.
    pub(super) fn new() -> Self {
        Self { is_awaited: AtomicBool::new(true), has_missed: AtomicBool::new(false) }
    }

    /// A change did not fit. Says whether that is no matter for its request.
    pub(super) fn miss(&self, _: &Turn<'_>) -> bool {
        let is_awaited = self.is_awaited.load(Ordering::Relaxed);
        if is_awaited {
            self.has_missed.store(true, Ordering::Relaxed);
        }
        is_awaited
    }

    pub(super) fn has_missed(&self, _: &Turn<'_>) -> bool {
        self.has_missed.load(Ordering::Relaxed)
    }

    pub(super) fn serves(&self, _: &Turn<'_>) {
        self.is_awaited.store(false, Ordering::Relaxed);
    }
}

/// Whether one kind serves both readings: it keeps neither more nor less, and under the same permission.
pub(super) fn is_same(left: &Reading, right: &Reading) -> bool {
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
