//! The allocator of guests: all unsafe code of the SDK.
//!
//! A call lives for microseconds in a separate instance, so memory is allocated by moving a pointer and never
//! freed.
#![cfg_attr(
    not(target_arch = "wasm32"),
    allow(unused, reason = "the allocator is for WebAssembly; tests try it natively")
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic"))]
#![allow(unsafe_code, reason = "the only file of the SDK that may have any")]

#[cfg(any(target_arch = "wasm32", test))]
mod bump {
    //! An allocator for instances that live for one call.
    //!
    //! It starts at the end of the guest's data and uses the initial memory before it grows it: growing costs
    //! two system calls of the host for each instance. It returns addresses; [`Memory`] owns the memory
    //! behind them, so that tests can use a separate one and run in an interpreter.

    use std::alloc::{GlobalAlloc, Layout};
    use std::cell::Cell;

    /// A memory that grows by pages.
    ///
    /// # Safety
    /// Bytes from `start` to `size` belong to the allocator alone, never move, and are zero until they are
    /// allocated. Their provenance is exposed.
    pub(super) unsafe trait Memory {
        /// Address of the first byte that is free at the beginning.
        fn start(&self) -> usize;
        /// Address behind the last byte, at the beginning.
        fn end(&self) -> usize;
        /// Grows it by this number of pages; reports whether that succeeded.
        fn grow(&self, pages: usize) -> bool;
    }

    pub(super) const PAGE: usize = 65_536;
    /// Asked for at a time, so that a growing list does not ask once a page.
    const MIN_GROWTH_BYTES: usize = 16 * PAGE;

    pub(super) struct Bump<M> {
        memory: M,
        /// First free byte; 0 before the first allocation.
        next: Cell<usize>,
        /// End of the memory that the instance has.
        end: Cell<usize>,
    }

    impl<M> Bump<M> {
        pub(super) const fn new(memory: M) -> Self {
            Self { memory, next: Cell::new(0), end: Cell::new(0) }
        }
    }

    impl<M: Memory> Bump<M> {
        /// Returns the start of `size` free bytes at a multiple of `align` (a power of two), or `None`.
        fn allocate(&self, size: usize, align: usize) -> Option<usize> {
            if self.next.get() == 0 {
                self.next.set(self.memory.start());
                self.end.set(self.memory.end());
            }
            let start = self.next.get().checked_add(align - 1)? & !(align - 1);
            let next = start.checked_add(size)?;
            self.grow_to(next)?;
            self.next.set(next);
            Some(start)
        }

        /// Makes the memory end at `end` or later.
        fn grow_to(&self, end: usize) -> Option<()> {
            let missing = end.saturating_sub(self.end.get());
            if missing > 0 {
                let pages = missing.max(MIN_GROWTH_BYTES).div_ceil(PAGE);
                let exact = missing.div_ceil(PAGE);
                let grown = [pages, exact].into_iter().find(|&pages| self.memory.grow(pages))?;
                self.end.set(self.end.get().checked_add(grown.checked_mul(PAGE)?)?);
            }
            Some(())
        }
    }

    // SAFETY: `take` gives out ranges that lie inside the memory, behind what was there before, and
    // never overlap, because `next` only grows; `realloc` extends in place only the range that ends at
    // `next`. Memory that was never given out is zero, as `Memory` promises.
    unsafe impl<M: Memory> GlobalAlloc for Bump<M> {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let start = self.allocate(layout.size(), layout.align());
            start.map_or(core::ptr::null_mut(), core::ptr::with_exposed_provenance_mut)
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: same contract; fresh memory is zero.
            unsafe { self.alloc(layout) }
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

        unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            if size <= layout.size() {
                return old;
            }
            let end = old.addr() + layout.size();
            if end == self.next.get() {
                let grown = old.addr().checked_add(size);
                if let Some(next) = grown.filter(|&next| self.grow_to(next).is_some()) {
                    self.next.set(next);
                    return old;
                }
                return core::ptr::null_mut();
            }
            let Some(start) = self.allocate(size, layout.align()) else {
                return core::ptr::null_mut();
            };
            let new = core::ptr::with_exposed_provenance_mut(start);
            // SAFETY: the caller owns `layout.size()` bytes at `old`; the new range is longer,
            // inside the memory, and does not overlap, being fresh.
            unsafe { core::ptr::copy_nonoverlapping(old, new, layout.size()) };
            new
        }
    }

    #[cfg(target_arch = "wasm32")]
    mod guest {
        use super::{Bump, Memory, PAGE};

        unsafe extern "C" {
            /// Set by the linker at the end of stack and data.
            static __heap_base: u8;
        }

        struct Linear;

        // SAFETY: the linker puts no data behind `__heap_base`, WebAssembly never moves its memory and
        // defines it to be zero, and no other code grows it. All of it has one provenance there.
        unsafe impl Memory for Linear {
            fn start(&self) -> usize {
                (&raw const __heap_base).addr()
            }

            fn end(&self) -> usize {
                core::arch::wasm32::memory_size(0).saturating_mul(PAGE)
            }

            fn grow(&self, pages: usize) -> bool {
                core::arch::wasm32::memory_grow(0, pages) != usize::MAX
            }
        }

        // SAFETY: the target has no threads; a component instance runs on one at a time.
        unsafe impl Sync for Bump<Linear> {}

        #[global_allocator]
        static ALLOCATOR: Bump<Linear> = Bump::new(Linear);
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc as _, Layout, alloc_zeroed, dealloc};
    use std::cell::Cell;

    use super::bump::{Bump, Memory, PAGE};

    /// A piece of memory that is there from the beginning and shown page by page.
    struct Arena {
        base: *mut u8,
        pages: Cell<usize>,
        most: usize,
    }

    impl Arena {
        /// Bytes in front, as those of a guest's stack and data are.
        const DATA: usize = 1_000;

        fn new(most: usize) -> Self {
            // SAFETY: the size is not 0.
            let base = unsafe { alloc_zeroed(Self::layout(most)) };
            assert!(!base.is_null());
            let _ = base.expose_provenance();
            Self { base, pages: Cell::new(1), most }
        }

        fn layout(most: usize) -> Layout {
            Layout::from_size_align(most * PAGE, PAGE).unwrap()
        }
    }

    impl Drop for Arena {
        fn drop(&mut self) {
            // SAFETY: `new` has allocated it with the same layout.
            unsafe { dealloc(self.base, Self::layout(self.most)) };
        }
    }

    // SAFETY: the arena is exclusively owned, zero, and exposed.
    unsafe impl Memory for Arena {
        fn start(&self) -> usize {
            self.base.addr() + Self::DATA
        }

        fn end(&self) -> usize {
            self.base.addr() + PAGE
        }

        fn grow(&self, pages: usize) -> bool {
            let grown = self.pages.get() + pages;
            let fits = grown <= self.most;
            if fits {
                self.pages.set(grown);
            }
            fits
        }
    }

    /// An allocated piece: its position, its layout, and the bytes written there.
    struct Allocation {
        at: *mut u8,
        layout: Layout,
        mark: u8,
    }

    impl Allocation {
        fn is_intact(&self) -> bool {
            // SAFETY: the allocator has given out these bytes, and they were written.
            let bytes = unsafe { std::slice::from_raw_parts(self.at, self.layout.size()) };
            bytes.iter().all(|&byte| byte == self.mark)
        }

        fn fill(&self) {
            // SAFETY: the allocator has given out these bytes.
            unsafe { self.at.write_bytes(self.mark, self.layout.size()) };
        }
    }

    /// Pieces of all sizes and alignments, some of which grow, in the place where they are or elsewhere:
    /// none of them loses a byte, and what is fresh is zero.
    #[test]
    fn allocations_are_zeroed_aligned_and_disjoint() {
        let bump = Bump::new(Arena::new(40));
        let mut pieces: Vec<Allocation> = Vec::new();
        let mut state = 7_u32;
        // An interpreter is slow for each byte.
        let (rounds, large) = if cfg!(miri) { (24, 1) } else { (600, 100) };
        for round in 0..rounds {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [low, middle, high, top] = state.to_le_bytes();
            let size = usize::from(low) * if high % 16 == 0 { large } else { 1 } + 1;
            let layout = Layout::from_size_align(size, 1 << (middle % 9)).unwrap();
            let last = pieces.len().checked_sub(1 + usize::from(high) % 3);
            if let Some(index) = last.filter(|_| top % 2 == 0) {
                let piece = &mut pieces[index];
                let size = piece.layout.size() + usize::from(low);
                // SAFETY: the piece is of this allocator, with this layout.
                let at = unsafe { bump.realloc(piece.at, piece.layout, size) };
                assert!(!at.is_null());
                piece.at = at;
                assert!(piece.is_intact(), "round {round}: what was there is there");
                piece.layout = Layout::from_size_align(size, piece.layout.align()).unwrap();
                piece.fill();
            } else {
                // SAFETY: the size is not 0.
                let at = unsafe { bump.alloc_zeroed(layout) };
                assert!(!at.is_null() && at.addr() % layout.align() == 0);
                let fresh = Allocation { at, layout, mark: 0 };
                assert!(fresh.is_intact(), "round {round}: what is fresh is zero");
                let piece = Allocation { mark: low | 1, ..fresh };
                piece.fill();
                pieces.push(piece);
            }
        }
        assert!(pieces.iter().all(Allocation::is_intact));
    }

    /// At the end there is nothing, and less is still there.
    #[test]
    fn allocation_beyond_the_arena_returns_null() {
        let bump = Bump::new(Arena::new(3));
        let of = |size: usize, align: usize| Layout::from_size_align(size, align).unwrap();
        // SAFETY: no size is 0, and what grows was given out with its layout.
        unsafe {
            assert!(bump.alloc(of(4 * PAGE, 8)).is_null());
            assert!(bump.alloc(of(isize::MAX.unsigned_abs() - 7, 8)).is_null());
            let first = bump.alloc(of(PAGE, 8));
            assert!(!first.is_null());
            assert!(bump.realloc(first, of(PAGE, 8), 3 * PAGE).is_null());
            let grown = bump.realloc(first, of(PAGE, 8), 2 * PAGE);
            assert_eq!(grown, first, "in its place");
            grown.add(2 * PAGE - 1).write(1);
            assert_eq!(bump.realloc(grown, of(2 * PAGE, 8), 10), grown, "smaller stays");
            assert!(!bump.alloc(of(PAGE / 2, 1)).is_null());
            assert!(bump.alloc(of(PAGE, 1)).is_null());
        }
    }
}
