//! A list that is charged before it grows.

use crate::account::Charge;

/// Scratch bytes of sorting for each item: twice the size of its stored key.
pub(crate) const SORT_SCRATCH_BYTES: usize = 32;

/// Bytes that a list may have before they are charged: most lists are that small, and are charged once,
/// when they are complete.
const UNCHARGED_BYTES: usize = 2 << 10;

/// A list in the making. What it has charged stays charged when it is [complete](ChargedVec::finish), and
/// is given back when it never is.
pub(crate) struct ChargedVec<'c, T> {
    pub(crate) items: Vec<T>,
    charge: &'c Charge,
    charged: usize,
    /// Additional bytes that belong to the items.
    extra_bytes: usize,
}

impl<'c, T> ChargedVec<'c, T> {
    pub(crate) fn new(charge: &'c Charge) -> Self {
        Self { items: Vec::new(), charge, charged: 0, extra_bytes: 0 }
    }

    /// Reserves capacity for this number of items, as far as memory is available.
    pub(crate) fn with_capacity(charge: &'c Charge, items: usize) -> Self {
        let items = items.min(UNCHARGED_BYTES / size_of::<T>().max(1));
        Self { items: Vec::with_capacity(items), ..Self::new(charge) }
    }

    /// Adds an item; `None` where there is no room for more.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Option<()> {
        self.push_with(|| item)
    }

    /// Adds an item that is made where it will be.
    #[inline]
    pub(crate) fn push_with(&mut self, item: impl FnOnce() -> T) -> Option<()> {
        if self.items.len() == self.items.capacity() {
            self.grow()?;
        }
        self.items.push(item());
        Some(())
    }

    /// Counts bytes that the last item has elsewhere.
    pub(crate) fn add_extra_bytes(&mut self, bytes: usize) -> Option<()> {
        self.extra_bytes = self.extra_bytes.saturating_add(bytes);
        let due = self.size().saturating_sub(self.charged);
        if due > UNCHARGED_BYTES { self.charge_bytes(due) } else { Some(()) }
    }

    fn size(&self) -> usize {
        self.items.capacity().saturating_mul(size_of::<T>()).saturating_add(self.extra_bytes)
    }

    fn charge_bytes(&mut self, bytes: usize) -> Option<()> {
        self.charge.grow(bytes).then_some(())?;
        self.charged = self.charged.saturating_add(bytes);
        Some(())
    }

    #[cold]
    fn grow(&mut self) -> Option<()> {
        let capacity = self.items.capacity().saturating_mul(2).max(4);
        let bytes = capacity.saturating_mul(size_of::<T>());
        let before = self.size();
        if bytes.saturating_add(self.extra_bytes) > UNCHARGED_BYTES {
            // The old and the new one exist while one is copied to the other.
            let due = before.saturating_sub(self.charged);
            self.charge_bytes(due.saturating_add(bytes))?;
        }
        self.items.reserve_exact(capacity.saturating_sub(self.items.len()));
        let surplus = self.charged.saturating_sub(self.size());
        self.release(surplus);
        Some(())
    }

    fn release(&mut self, bytes: usize) {
        if bytes > 0 {
            self.charge.shrink(bytes);
            self.charged = self.charged.saturating_sub(bytes);
        }
    }

    /// Runs something that needs as much again as the list has: a stable sort.
    pub(crate) fn sort(&mut self, sort: impl FnOnce(&mut Vec<T>)) -> Option<()> {
        self.replace(|items| {
            sort(items);
            Some(std::mem::take(items))
        })
    }

    /// Builds another list from this one, and replaces it.
    pub(crate) fn replace(
        &mut self,
        other: impl FnOnce(&mut Vec<T>) -> Option<Vec<T>>,
    ) -> Option<()> {
        // Capacity for this number of items, and for sorting each of them.
        let each = size_of::<T>().saturating_add(SORT_SCRATCH_BYTES).saturating_add(1);
        let scratch = self.items.len().saturating_mul(each);
        let scratch = if scratch > UNCHARGED_BYTES { scratch } else { 0 };
        if scratch > 0 {
            self.charge_bytes(scratch)?;
        }
        let replacement = other(&mut self.items);
        self.release(scratch);
        self.items = replacement?;
        Some(())
    }

    /// Returns the list, with nothing to spare, and what it is charged: that exactly, and `more` bytes.
    pub(crate) fn finish(mut self, more: usize) -> Option<(Vec<T>, usize)> {
        self.items.shrink_to_fit();
        let size = self.size().saturating_add(more);
        if size > self.charged {
            let due = size - self.charged;
            self.charge_bytes(due)?;
        } else {
            let surplus = self.charged - size;
            self.release(surplus);
        }
        self.charged = 0;
        Some((std::mem::take(&mut self.items), size))
    }
}

impl<T> Drop for ChargedVec<'_, T> {
    fn drop(&mut self) {
        let charged = self.charged;
        self.release(charged);
    }
}
