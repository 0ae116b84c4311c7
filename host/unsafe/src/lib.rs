//! All unsafe code of opgate, in this one file.
//!
//! * In a guest: the allocator. A call lives for microseconds in an instance of its own, so memory
//!   is handed out by moving a pointer and never taken back.
//! * In the host (feature `images`): loading native code that was compiled before. Native code is
//!   trusted by the processor, so an [`Image`] can only come from this process's compiler, from
//!   this binary, or from bytes whose seal proves that this installation wrote them.
//! * Also in the host: a scheduling class, and the C library's allocator giving back what is free,
//!   both of which the standard library does not know.
#![cfg_attr(not(any(feature = "images", target_arch = "wasm32")), allow(unused))]
#![expect(unsafe_code, reason = "the only file of the project that may have any")]

#[cfg(feature = "images")]
pub use images::{Image, Key, SealError};

/// Lets the calling thread run only when no thread of normal priority wants its processor
/// (`SCHED_IDLE`, Linux). Says whether the system took it.
#[cfg(feature = "images")]
#[must_use]
pub fn run_when_idle() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: all zeros is a `sched_param`; it is read during the call only.
    return unsafe {
        let param: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) == 0
    };
    #[cfg(not(target_os = "linux"))]
    false
}

/// Has the allocator of the C library ask the system for each large piece by itself, and give it back
/// as soon as it is free. glibc moves that bound upwards otherwise, up to 32 MiB, when a large piece
/// is freed; what comes next is cut out of a heap that only shrinks at its end. To be called before
/// threads are started.
#[cfg(feature = "images")]
pub fn keep_large_memory_apart() {
    /// Bytes from which on a piece is large: below, a system call would cost more than what it is for.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    const LARGE: libc::c_int = 256 << 10;
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets a number of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Has the allocator of the C library give back to the system what is free, also between what is in
/// use (glibc, which keeps it otherwise). Takes milliseconds for hundreds of MiB.
#[cfg(feature = "images")]
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the locks of the allocator itself; nothing that is in use moves.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(target_arch = "wasm32")]
mod bump {
    //! An allocator for instances that live for one call.
    //!
    //! It starts at the end of the guest's data and uses the initial memory before it asks for
    //! more: growing costs two system calls of the host for each instance.

    use std::alloc::{GlobalAlloc, Layout};
    use std::cell::Cell;

    const PAGE: usize = 65_536;
    /// Asked for at a time, so that a growing list does not ask once a page.
    const GROWTH: usize = 16 * PAGE;

    unsafe extern "C" {
        /// Set by the linker at the end of stack and data.
        static __heap_base: u8;
    }

    struct Bump {
        /// First free byte; 0 before the first allocation.
        next: Cell<usize>,
        /// End of the memory that the instance has.
        end: Cell<usize>,
    }

    // SAFETY: the target has no threads; a component instance runs on one at a time.
    unsafe impl Sync for Bump {}

    #[global_allocator]
    static ALLOCATOR: Bump = Bump { next: Cell::new(0), end: Cell::new(0) };

    impl Bump {
        /// Start of `size` free bytes at a multiple of `align` (a power of two), or `None`.
        fn take(&self, size: usize, align: usize) -> Option<usize> {
            if self.next.get() == 0 {
                self.next.set((&raw const __heap_base).addr());
                self.end.set(core::arch::wasm32::memory_size(0).checked_mul(PAGE)?);
            }
            let start = self.next.get().checked_add(align - 1)? & !(align - 1);
            let next = start.checked_add(size)?;
            self.reach(next)?;
            self.next.set(next);
            Some(start)
        }

        /// Makes the memory end at `end` or later.
        fn reach(&self, end: usize) -> Option<()> {
            let missing = end.saturating_sub(self.end.get());
            if missing > 0 {
                let pages = missing.max(GROWTH).div_ceil(PAGE);
                let exact = missing.div_ceil(PAGE);
                let grown = [pages, exact]
                    .into_iter()
                    .find(|&pages| core::arch::wasm32::memory_grow(0, pages) != usize::MAX)?;
                self.end.set(self.end.get().checked_add(grown.checked_mul(PAGE)?)?);
            }
            Some(())
        }
    }

    // SAFETY: `take` gives out ranges that lie inside the memory, behind stack and data, and never
    // overlap, because `next` only grows; `realloc` extends in place only the range that ends at
    // `next`. Memory that was never given out is zero, as WebAssembly defines it.
    unsafe impl GlobalAlloc for Bump {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let start = self.take(layout.size(), layout.align());
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
                if let Some(next) = grown.filter(|&next| self.reach(next).is_some()) {
                    self.next.set(next);
                    return old;
                }
                return core::ptr::null_mut();
            }
            let Some(start) = self.take(size, layout.align()) else {
                return core::ptr::null_mut();
            };
            let new = core::ptr::with_exposed_provenance_mut(start);
            // SAFETY: the caller owns `layout.size()` bytes at `old`; the new range is longer,
            // inside the memory, and does not overlap, being fresh.
            unsafe { core::ptr::copy_nonoverlapping(old, new, layout.size()) };
            new
        }
    }
}

#[cfg(feature = "images")]
mod images {
    use std::borrow::Cow;

    use aws_lc_rs::hmac;
    use wasmtime::Engine;
    use wasmtime::component::Component;

    /// Native code of a component, from wasmtime's compiler.
    ///
    /// There is no way to make one of bytes from elsewhere; that is what makes [`Image::load`] safe
    /// to call. An image of another wasmtime version or configuration is refused by wasmtime.
    pub struct Image(Cow<'static, [u8]>);

    /// With what an installation seals the images that it writes.
    pub struct Key(hmac::Key);

    /// A sealed image was not written with this key for this purpose, or was changed since.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "the seal does not fit: it was written by somebody else, for something else, or changed since"
    )]
    pub struct SealError;

    impl Key {
        /// A key of 32 secret bytes.
        #[must_use]
        pub fn new(secret: &[u8; 32]) -> Self {
            Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
        }
    }

    const TAG: usize = 32;

    fn tag(key: &Key, purpose: &[u8], code: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&key.0);
        context.update(&u64::try_from(purpose.len()).unwrap_or(u64::MAX).to_le_bytes());
        context.update(purpose);
        context.update(code);
        context.sign()
    }

    impl Image {
        /// Compiles a component.
        ///
        /// # Errors
        /// Where it is not a valid component for the engine.
        pub fn compile(engine: &Engine, component: &[u8]) -> wasmtime::Result<Self> {
            engine.precompile_component(component).map(|code| Self(code.into()))
        }

        /// The bytes of the image, to be embedded in a binary with `embedded_image!`.
        #[must_use]
        pub fn bytes(&self) -> &[u8] {
            &self.0
        }

        /// The image with a seal in front. `purpose` says what it is the image of.
        #[must_use]
        pub fn seal(&self, key: &Key, purpose: &[u8]) -> Vec<u8> {
            let mut sealed = tag(key, purpose, &self.0).as_ref().to_vec();
            sealed.extend_from_slice(&self.0);
            sealed
        }

        /// Opens what [`Image::seal`] gave, for the same key and purpose only.
        ///
        /// # Errors
        /// Where the seal does not fit.
        pub fn open(key: &Key, purpose: &[u8], mut sealed: Vec<u8>) -> Result<Self, SealError> {
            if sealed.len() < TAG {
                return Err(SealError);
            }
            let code = sealed.split_off(TAG);
            let expected = tag(key, purpose, &code);
            aws_lc_rs::constant_time::verify_slices_are_equal(expected.as_ref(), &sealed)
                .map_err(|_| SealError)?;
            Ok(Self(code.into()))
        }

        /// For `embedded_image!` only.
        ///
        /// # Safety
        /// The bytes must be those of [`Image::bytes`].
        #[doc(hidden)]
        #[must_use]
        pub const unsafe fn from_this_binary(code: &'static [u8]) -> Self {
            Self(Cow::Borrowed(code))
        }

        /// Makes the code callable.
        ///
        /// # Errors
        /// Where it was compiled by another version of wasmtime, with other settings, or for a
        /// processor with features that this one has not.
        pub fn load(&self, engine: &Engine) -> wasmtime::Result<Component> {
            // SAFETY: `deserialize` asks for bytes that wasmtime's compiler wrote. `compile` is
            // that compiler; `open` accepts only what `seal` wrote of such an image under a secret
            // key; the macro takes bytes that the build script got from `compile` and that are as
            // trusted as the code around them. The bytes are ours and do not change while loaded.
            unsafe { Component::deserialize(engine, &self.0) }
        }
    }

    /// The image in a file that this build wrote, as part of the binary.
    #[macro_export]
    macro_rules! embedded_image {
        ($path:expr) => {
            // SAFETY: the build script wrote the file from `Image::bytes`.
            unsafe { $crate::Image::from_this_binary(include_bytes!($path)) }
        };
    }
}
