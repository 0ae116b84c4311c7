//! All unsafe code of the host, in this one file.
//!
//! * Native code that was compiled before. The processor trusts native code, so an [`Image`] can only come
//!   from this process's compiler, from this binary, or from bytes whose seal proves that this installation
//!   wrote them.
//! * What the standard library does not offer: a scheduling class, inherited descriptors, the CPU time of a
//!   thread on Windows, and settings of the C library's allocator.
#![allow(unsafe_code, reason = "the only file of the host that may have any")]

use std::borrow::Cow;
use std::time::Duration;

use aws_lc_rs::hmac;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Lets the calling thread run only when no thread of normal priority wants its processor
/// (`SCHED_IDLE`, Linux). Says whether the system took it.
#[must_use]
pub fn set_idle_priority() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: all zeros is a `sched_param`; it is read during the call only.
    return unsafe {
        let param: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) == 0
    };
    #[cfg(not(target_os = "linux"))]
    false
}

/// Whether the calling thread has idle priority. A thread without privileges cannot take it back.
#[must_use]
pub fn has_idle_priority() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: it touches no memory.
    return unsafe { libc::sched_getscheduler(0) == libc::SCHED_IDLE };
    #[cfg(not(target_os = "linux"))]
    false
}

/// Closes all descriptors but the standard ones. To be called at the start of a child process, before
/// anything is opened in it.
pub fn close_inherited_descriptors() {
    #[cfg(target_os = "linux")]
    // SAFETY: this is called before the process opens a descriptor; the call touches no memory. A kernel
    // before 5.9 refuses it.
    let is_done = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) == 0 };
    #[cfg(not(target_os = "linux"))]
    let is_done = false;
    if !is_done {
        for descriptor in 3..MAX_INHERITED_DESCRIPTORS {
            // SAFETY: as above. It is no error if there is none of this number.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Maximum number of descriptors to close if the kernel cannot close a range.
const MAX_INHERITED_DESCRIPTORS: libc::c_int = 65_536;

/// Configures the allocator of the C library to map each large piece separately, and to unmap it when it is
/// freed. Otherwise, glibc increases that bound up to 32 MiB when a large piece is freed; later pieces are
/// then cut out of a heap that only shrinks at its end. Must be called before threads are started.
pub fn map_large_allocations_separately() {
    /// Bytes from which on a piece is large: below, a system call would cost more than what it is for.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    const LARGE_ALLOCATION_BYTES: libc::c_int = 256 << 10;
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets a number of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_ALLOCATION_BYTES);
    }
}

/// Returns the CPU time of the calling thread, in steps of 16 ms; none where safe code can ask for it
/// (`opgate_platform::process`).
#[must_use]
pub fn thread_cpu_time() -> Option<Duration> {
    #[cfg(windows)]
    {
        use windows_sys::Win32::Foundation::FILETIME;
        use windows_sys::Win32::System::Threading::{GetCurrentThread, GetThreadTimes};

        const ZERO: FILETIME = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
        let (mut kernel, mut user, mut other) = (ZERO, ZERO, [ZERO; 2]);
        let [created, ended] = &mut other;
        // SAFETY: the handle of the calling thread is always valid; the four times are written during the
        // call only.
        let is_done = unsafe {
            GetThreadTimes(GetCurrentThread(), created, ended, &raw mut kernel, &raw mut user) != 0
        };
        let nanoseconds = |time: FILETIME| {
            let steps = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
            Duration::from_nanos(steps.saturating_mul(100))
        };
        is_done.then(|| nanoseconds(kernel).saturating_add(nanoseconds(user)))
    }
    #[cfg(not(windows))]
    None
}

/// Has the allocator of the C library give back to the system what is free, also between what is in
/// use (glibc, which keeps it otherwise). Takes milliseconds for hundreds of MiB.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the locks of the allocator itself; nothing that is in use moves.
    unsafe {
        libc::malloc_trim(0);
    }
}

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
    "the seal does not match: it was written by another installation or for another purpose, or was changed"
)]
pub struct SealError;

impl Key {
    /// Creates a key of 32 secret bytes.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }
}

const TAG_BYTES: usize = 32;

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
    /// Fails if it is not a valid component for the engine.
    pub fn compile(engine: &Engine, component: &[u8]) -> wasmtime::Result<Self> {
        engine.precompile_component(component).map(|code| Self(code.into()))
    }

    /// Returns the bytes of the image, to be embedded in a binary with `embedded_image!`.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the image with a preceding seal. `purpose` identifies the content of the image.
    #[must_use]
    pub fn seal(&self, key: &Key, purpose: &[u8]) -> Vec<u8> {
        let mut sealed = tag(key, purpose, &self.0).as_ref().to_vec();
        sealed.extend_from_slice(&self.0);
        sealed
    }

    /// Opens what [`Image::seal`] gave, for the same key and purpose only.
    ///
    /// # Errors
    /// Fails if the seal does not match.
    pub fn open(key: &Key, purpose: &[u8], mut sealed: Vec<u8>) -> Result<Self, SealError> {
        if sealed.len() < TAG_BYTES {
            return Err(SealError);
        }
        let code = sealed.split_off(TAG_BYTES);
        let expected = tag(key, purpose, &code);
        aws_lc_rs::constant_time::verify_slices_are_equal(expected.as_ref(), &sealed)
            .map_err(|_| SealError)?;
        Ok(Self(code.into()))
    }

    /// Creates an image for `embedded_image!` only.
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
    /// Fails if it was compiled by another version of wasmtime, with other settings, or for a processor
    /// with features that this one lacks.
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
