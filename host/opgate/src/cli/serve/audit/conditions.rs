//! What must hold during an audit by the leader: this server leads, and memory is left for reviews.

use std::path::PathBuf;

use opgate_admission::policy::PolicySet;
use opgate_controller::lease::Leadership;
use opgate_server::DefaultLimits;
use opgate_text::units::bytes;

/// Minimum free memory for the start of an audit: a page of objects, and the code of policies if the active set
/// cannot share it.
const MIN_FREE_BYTES: usize = 32 << 20;

/// An audit ends below this.
const MIN_LEFT_BYTES: usize = 8 << 20;

/// Why an audit ends early.
pub(super) enum StopReason {
    /// Another server is the leader.
    NotLeader,
    /// It cannot continue.
    Failed(String),
}

/// Memory for an audit, in bytes.
pub(super) struct AuditMemory {
    /// Of the objects that policies read.
    pub(super) cluster_state: usize,
    /// Of all subprocesses that compile policies.
    pub(super) subprocesses: usize,
}

/// The conditions of an audit.
pub(in crate::cli::serve) struct AuditConditions {
    pub(in crate::cli::serve) leadership: Leadership,
    pub(in crate::cli::serve) default_limits: DefaultLimits,
    pub(in crate::cli::serve) system_root: PathBuf,
    /// Bytes that requests may still take.
    pub(in crate::cli::serve) free_for_requests: Box<dyn Fn() -> usize + Send + Sync>,
}

impl AuditConditions {
    /// Returns the memory for an audit.
    ///
    /// # Errors
    /// If there is not enough.
    pub(super) fn memory(&self) -> anyhow::Result<AuditMemory> {
        let left = self.free_memory(MIN_FREE_BYTES)?;
        let DefaultLimits { cluster_cache_bytes, subprocess_bytes, .. } = self.default_limits;
        Ok(AuditMemory {
            cluster_state: cluster_cache_bytes.min(left / 2),
            subprocesses: subprocess_bytes.min(left.saturating_sub(MIN_LEFT_BYTES)),
        })
    }

    /// Returns why an audit with this set cannot continue, if so.
    pub(super) fn stop_reason(&self, set: &PolicySet) -> Option<StopReason> {
        if !self.leadership.is_leader() {
            return Some(StopReason::NotLeader);
        }
        if let Err(error) = self.free_memory(MIN_LEFT_BYTES) {
            return Some(StopReason::Failed(error.to_string()));
        }
        // A rule would miss the content of these objects.
        let has_all = set.cluster().caches().iter().all(|cache| cache.status().name_only == 0);
        let limit = bytes(set.cluster().options().memory);
        (!has_all).then(|| {
            StopReason::Failed(format!(
                "the objects that policies read need more than {limit}: raise the memory limit, or use the CronJob of `opgate manifests audit`"
            ))
        })
    }

    /// Returns bytes of memory that are left for an audit.
    fn free_memory(&self, least: usize) -> anyhow::Result<usize> {
        let requests = (self.free_for_requests)();
        let Some(left) = self.default_limits.remaining_bytes(&self.system_root, requests) else {
            return Ok(usize::MAX);
        };
        // The text is constant, so that it is logged once.
        anyhow::ensure!(
            left >= least,
            "not enough memory for an audit in addition to reviews: less than {} of {} are left; raise the memory limit, lower --max-request-memory, or use the CronJob of `opgate manifests audit`",
            bytes(least),
            bytes(self.default_limits.limit.unwrap_or_default())
        );
        Ok(left)
    }
}
