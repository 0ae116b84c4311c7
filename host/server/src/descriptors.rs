//! File descriptors: the number of connections that they allow, and the handling of a shortage.

use std::fs::File;

use opgate_platform::process;
use parking_lot::Mutex;

/// Descriptors that are not for clients: files that are read again, connections to the API server,
/// and the server's check of itself.
const RESERVED_DESCRIPTORS: usize = 32;

/// Part of the rest for the ops port, and the maximum of its connections, which are kubelets and
/// Prometheus.
const OPS_DIVISOR: usize = 8;
const MAX_OPS_CONNECTIONS: usize = 128;

/// Connections of both ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PortLimits {
    pub(super) webhook: usize,
    pub(super) ops: usize,
}

impl PortLimits {
    /// The requested number for the webhook port, or less if there are not enough descriptors.
    pub(super) fn of(wanted: usize) -> Self {
        let open = process::open_descriptors().unwrap_or(RESERVED_DESCRIPTORS);
        Self::within(wanted, process::raise_descriptor_limit(), open)
    }

    fn within(wanted: usize, limit: usize, open: usize) -> Self {
        let left = limit.saturating_sub(open).saturating_sub(RESERVED_DESCRIPTORS);
        let ops = (left / OPS_DIVISOR).clamp(2, MAX_OPS_CONNECTIONS);
        Self { webhook: wanted.min(left.saturating_sub(ops)).max(2), ops }
    }
}

/// A spare descriptor.
#[derive(Debug)]
pub(super) struct SpareDescriptor(Mutex<Option<File>>);

impl SpareDescriptor {
    pub(super) fn new() -> Self {
        Self(Mutex::new(process::open_null().ok()))
    }

    /// Returns it to the system; returns whether there was one.
    pub(super) fn release(&self) -> bool {
        self.0.lock().take().is_some()
    }

    /// Opens it again as soon as possible.
    pub(super) fn restore(&self) {
        let mut spare = self.0.lock();
        if spare.is_none() {
            *spare = process::open_null().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_connections_than_descriptors() {
        let within = |wanted, limit, open| {
            let PortLimits { webhook, ops } = PortLimits::within(wanted, limit, open);
            (webhook, ops)
        };
        assert_eq!(within(4_096, usize::MAX, 20), (4_096, 128));
        assert_eq!(within(4_096, 1_024, 20), (851, 121));
        assert_eq!(within(100, 1_024, 20), (100, 121));
        assert_eq!(within(4_096, 64, 16), (14, 2));
        assert_eq!(within(4_096, 10, 16), (2, 2));
    }

    #[test]
    fn spare_descriptor_is_released_once() {
        let spare = SpareDescriptor::new();
        assert!(spare.release() && !spare.release());
        spare.restore();
        assert!(spare.release());
    }
}
