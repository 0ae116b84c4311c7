//! Builds the memory images of a component: the initial memory that its instances share.
//!
//! wasmtime writes each image to a memfd and seals it. Linux refuses the seal with `EBUSY` while
//! the kernel itself holds a page of it, for example to migrate the page: `fcntl` waits for 150 ms
//! (`memfd_wait_for_pins` in `mm/memfd.c`) and gives up. The kernel releases the page soon after,
//! so a policy does not fail to load for it.

use std::io::{Error as IoError, ErrorKind};
use std::time::Duration;

use wasmtime::component::Component;

use super::LoadError;
use crate::compile::{causes, unusable_error};

/// How often the images are built before the component is refused: for 2 s, with the waits of the
/// kernel.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Builds the images now, not at the first request.
///
/// # Errors
/// If an image cannot be built, also because the kernel holds its pages for longer than 2 s.
pub(super) fn build_memory_images(component: &Component) -> Result<(), LoadError> {
    retry_while_busy(PAUSE, || component.initialize_copy_on_write_image())
        .map_err(|e| unusable_error(&e))
}

fn retry_while_busy(
    pause: Duration,
    mut build: impl FnMut() -> wasmtime::Result<()>,
) -> wasmtime::Result<()> {
    for _ in 1..ATTEMPTS {
        match build() {
            Err(error) if is_busy(&error) => {
                tracing::debug!("the kernel holds pages of a memory image; trying again");
                std::thread::sleep(pause);
            }
            done => return done,
        }
    }
    build()
}

fn is_busy(error: &wasmtime::Error) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<IoError>())
        .any(|cause| cause.kind() == ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `memfd::Error`: its own text does not name the cause.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot add seals to the memfd")]
    struct SealError(#[source] IoError);

    fn seal_error(kind: ErrorKind) -> wasmtime::Error {
        SealError(kind.into()).into()
    }

    #[test]
    fn image_is_built_again_while_the_kernel_holds_pages() {
        let cases = [
            ("free at once", 0, ErrorKind::ResourceBusy, 1, true),
            ("busy three times", 3, ErrorKind::ResourceBusy, 4, true),
            ("busy always", usize::MAX, ErrorKind::ResourceBusy, ATTEMPTS, false),
            ("another error", usize::MAX, ErrorKind::PermissionDenied, 1, false),
        ];
        for (name, failures, kind, attempts, built) in cases {
            let mut calls = 0;
            let result = retry_while_busy(Duration::ZERO, || {
                calls += 1;
                if calls > failures { Ok(()) } else { Err(seal_error(kind)) }
            });
            assert_eq!((calls, result.is_ok()), (attempts, built), "{name}");
        }
    }

    #[test]
    fn error_names_its_causes() {
        let error = unusable_error(&seal_error(ErrorKind::ResourceBusy));
        assert_eq!(
            error.to_string(),
            "cannot be used: cannot add seals to the memfd: resource busy"
        );
    }
}
