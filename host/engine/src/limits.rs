//! Limits of one call of a policy.

use std::time::Duration;

/// Elements of one table, handles of one call, and bytes of one call of an import or of a verdict.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 10_000;
pub(crate) const MAX_HANDLES: usize = 1_000;
pub(crate) const MAX_HOSTCALL_BYTES: usize = 4 << 20;

/// Bytes of a JSON pointer or a name, and columns of a table.
pub(crate) const MAX_POINTER_BYTES: usize = 4 << 10;
pub(crate) const MAX_COLUMNS: usize = 64;

/// Limits of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory of one call: that of the guest, and that of the host for the guest.
    pub memory: usize,
    /// CPU time of one call.
    pub cpu_time: Duration,
    /// Calls that run at the same time.
    pub concurrency: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 32 << 20, cpu_time: Duration::from_millis(100), concurrency: 4 }
    }
}

/// Memories, tables and instances of one call. A component of the SDK has 1, 2 and 3, JavaScript
/// 1, 2 and 3, Python 1, 2 and 38. The limit applies to the bytes of all memories together. The
/// pool has slots for memories and tables, with address space for each. It only counts instances;
/// the number in a small component is checked when it is loaded.
pub(crate) const MAX_MEMORIES: usize = 4;
pub(crate) const MAX_TABLES: usize = 8;
pub(crate) const MAX_INSTANCES: usize = 64;
