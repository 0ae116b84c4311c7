//! The memory of cached objects, by namespace.
//!
//! ```text
//! an object ─▶ Memory::object ─┬▶ Charge, held by the object until its last use
//!                             └▶ NoRoom ─▶ Memory::name ─┬▶ its name is kept
//!                                                        └▶ NoRoom: a mark that there are more is kept
//! ```
//!
//! Tenants determine the number and the size of objects. A namespace gets a third of what the
//! others leave of three quarters: the first one a quarter of all. The last quarter is for
//! namespaces with few objects, so that there is memory for them whatever the others store.
//! Objects without a namespace belong to administrators, and may use nearly all that is left
//! (docs/adr/0037-view-memory.md).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opgate_text::units;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The interval at which a namespace that exceeds its share is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// Bytes of a namespace with objects.
const NAMESPACE_OVERHEAD_BYTES: usize = 128;

/// A namespace is small if it uses at most this part of the total.
const SMALL_NAMESPACE_DIVISOR: usize = 1_024;

/// Objects are charged in multiples of this.
const CHARGE_STEP_BYTES: usize = 128;

/// There is memory for names again if this part of the total is free for a namespace.
const FREE_FOR_NAMES_DIVISOR: usize = 64;

/// The memory for the objects of cluster state.
#[derive(Debug)]
pub(in crate::cluster) struct CacheMemory {
    limit: usize,
    used: Mutex<MemoryUsage>,
}

#[derive(Debug, Default)]
struct MemoryUsage {
    bytes: usize,
    by_namespace: HashMap<Arc<str>, Share>,
}

#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    last_logged: Option<Instant>,
}

/// Bytes of a namespace, until this is dropped.
pub(in crate::cluster) struct Charge {
    memory: Arc<CacheMemory>,
    namespace: Arc<str>,
    bytes: usize,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Charge({} of {})", self.bytes, self.namespace)
    }
}

impl Charge {
    /// The bytes.
    pub(in crate::cluster) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut used = self.memory.used.lock();
        used.bytes = used.bytes.saturating_sub(self.bytes);
        let Some(share) = used.by_namespace.get_mut(&self.namespace) else { return };
        share.bytes = share.bytes.saturating_sub(self.bytes);
        if share.bytes == 0 {
            used.by_namespace.remove(&self.namespace);
            used.bytes = used.bytes.saturating_sub(NAMESPACE_OVERHEAD_BYTES);
        }
    }
}

/// There is no memory for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimitReached {
    /// Bytes that it needs.
    pub(in crate::cluster) needs: usize,
    /// Bytes that its namespace may have.
    share: usize,
    /// Bytes of the whole cluster state.
    limit: usize,
    /// Whether it has no namespace.
    is_cluster_wide: bool,
}

impl fmt::Display for MemoryLimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.is_cluster_wide {
            "objects without a namespace"
        } else {
            "the objects of this namespace"
        };
        let (share, limit) = (self.share, units::bytes(self.limit));
        write!(f, "{whose} need more than the {share} bytes that the others leave of {limit}")?;
        f.write_str(" (--max-cluster-memory): delete large ones or raise the memory limit")
    }
}

impl CacheMemory {
    /// Creates a budget of `limit` bytes.
    pub(in crate::cluster) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default() })
    }

    /// Bytes in use.
    pub(in crate::cluster) fn used(&self) -> usize {
        self.used.lock().bytes
    }

    /// All bytes.
    pub(in crate::cluster) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that the objects of a namespace may have while the others have theirs.
    fn share(&self, used: &MemoryUsage, namespace: &str) -> usize {
        let own = used.by_namespace.get(namespace).map_or(0, |share| share.bytes);
        let others = used.bytes.saturating_sub(own);
        let free = self.limit.saturating_sub(others);
        if namespace.is_empty() {
            // The rest is for the names of those that are not kept.
            return free / 8 * 7;
        }
        let large = (self.limit / 4 * 3).saturating_sub(others) / 3;
        large.max(free.min(self.limit / SMALL_NAMESPACE_DIVISOR))
    }

    /// Charges memory for an object that replaces one of `instead` bytes. An object that needs no
    /// more than that is kept even if the share has become smaller.
    pub(in crate::cluster) fn charge_object(
        self: &Arc<Self>,
        namespace: &str,
        bytes: usize,
        instead: usize,
    ) -> Result<Charge, MemoryLimitReached> {
        // A version becomes longer from time to time.
        let stepped =
            |bytes: usize| bytes.checked_next_multiple_of(CHARGE_STEP_BYTES).unwrap_or(bytes);
        self.charge_within_share(namespace, stepped(bytes), stepped(instead), |share| share)
    }

    /// Charges memory for the name of an object.
    pub(in crate::cluster) fn charge_name(
        self: &Arc<Self>,
        namespace: &str,
        bytes: usize,
    ) -> Result<Charge, MemoryLimitReached> {
        self.charge_within_share(namespace, bytes, 0, |share| share.saturating_add(share / 7))
    }

    fn charge_within_share(
        self: &Arc<Self>,
        namespace: &str,
        bytes: usize,
        instead: usize,
        most: impl FnOnce(usize) -> usize,
    ) -> Result<Charge, MemoryLimitReached> {
        let mut used = self.used.lock();
        let share = self.share(&used, namespace);
        let own = used.by_namespace.get(namespace).map_or(0, |share| share.bytes);
        let then = own.saturating_sub(instead).saturating_add(bytes);
        if bytes > instead && then > most(share) {
            let (limit, is_cluster_wide) = (self.limit, namespace.is_empty());
            return Err(MemoryLimitReached { needs: bytes, share, limit, is_cluster_wide });
        }
        Ok(self.charge(&mut used, namespace, bytes))
    }

    /// Charges memory for a mark that must be kept: a namespace has more objects than names are
    /// kept of.
    pub(in crate::cluster) fn charge_over_share(
        self: &Arc<Self>,
        namespace: &str,
        bytes: usize,
    ) -> (Charge, MemoryLimitReached) {
        let mut used = self.used.lock();
        let (share, limit) = (self.share(&used, namespace), self.limit);
        let is_cluster_wide = namespace.is_empty();
        let why = MemoryLimitReached {
            needs: limit / FREE_FOR_NAMES_DIVISOR,
            share,
            limit,
            is_cluster_wide,
        };
        (self.charge(&mut used, namespace, bytes), why)
    }

    fn charge(self: &Arc<Self>, used: &mut MemoryUsage, namespace: &str, bytes: usize) -> Charge {
        let known = used.by_namespace.get_key_value(namespace).map(|(name, _)| name.clone());
        let namespace = known.unwrap_or_else(|| {
            used.bytes = used.bytes.saturating_add(NAMESPACE_OVERHEAD_BYTES);
            namespace.into()
        });
        used.bytes = used.bytes.saturating_add(bytes);
        let share = used.by_namespace.entry(namespace.clone()).or_default();
        share.bytes = share.bytes.saturating_add(bytes);
        Charge { memory: self.clone(), namespace, bytes }
    }

    /// Bytes that a namespace could use in addition to its current usage.
    pub(in crate::cluster) fn remaining_bytes(&self, namespace: &str) -> usize {
        let used = self.used.lock();
        let own = used.by_namespace.get(namespace).map_or(0, |share| share.bytes);
        self.share(&used, namespace).saturating_sub(own)
    }

    /// Whether to log that a namespace exceeds its share: at most once in an interval.
    pub(in crate::cluster) fn take_log_turn(&self, namespace: &str) -> bool {
        let mut used = self.used.lock();
        let Some(share) = used.by_namespace.get_mut(namespace) else { return true };
        let is_due = share.last_logged.is_none_or(|told| told.elapsed() >= LOG_INTERVAL);
        if is_due {
            share.last_logged = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds objects of this size until the limit is reached.
    fn fill(memory: &Arc<CacheMemory>, namespace: &str, bytes: usize) -> Vec<Charge> {
        let object = || memory.charge_object(namespace, bytes, 0).ok();
        std::iter::from_fn(object).take(100_000).collect()
    }

    fn charged_bytes(charges: &[Charge]) -> usize {
        charges.iter().map(|charge| charge.bytes).sum::<usize>() >> 10
    }

    #[test]
    fn namespace_gets_a_fraction_of_the_remaining_memory() {
        let memory = CacheMemory::new(64 << 20);
        let first = fill(&memory, "first", 1 << 10);
        assert!(charged_bytes(&first).abs_diff(16 << 10) < 8);
        let second = fill(&memory, "second", 1 << 10);
        assert_eq!(charged_bytes(&second) >> 10, 10);
        let others: Vec<_> = (0..100).map(|n| fill(&memory, &format!("n{n}"), 1 << 10)).collect();
        assert!(
            others.iter().all(|charges| charged_bytes(charges) >= 64),
            "little, but never nothing"
        );
        assert!(memory.charge_object("first", 1 << 10, 0).is_err());
        assert!(memory.charge_object("first", 1 << 10, 1 << 10).is_ok(), "instead of another one");
        let cluster_wide = fill(&memory, "", 1 << 10);
        assert!(charged_bytes(&cluster_wide) >> 10 > 6);
        assert!(memory.used() <= memory.limit());
        drop((first, second, others, cluster_wide));
        assert_eq!((memory.used(), memory.used.lock().by_namespace.len()), (0, 0));
        assert_eq!(charged_bytes(&fill(&memory, "", 1 << 10)) >> 10, 55);
    }

    #[test]
    fn names_fit_in_addition_to_objects() {
        let memory = CacheMemory::new(1 << 20);
        let objects = fill(&memory, "a", 1 << 10);
        let names: Vec<_> = std::iter::from_fn(|| memory.charge_name("a", 100).ok()).collect();
        assert!(names.len() > 300, "{}", names.len());
        assert!(memory.charge_object("b", 1 << 10, 0).is_ok(), "not of others");
        let needs = memory.charge_name("a", 100).unwrap_err();
        let text = "the objects of this namespace need more than the ";
        assert!(needs.to_string().starts_with(text), "{needs}");
        let (_more, why) = memory.charge_over_share("a", 100);
        assert!(memory.remaining_bytes("a") < why.needs);
        drop(objects);
        assert!(memory.remaining_bytes("a") >= why.needs);
    }

    #[tokio::test(start_paused = true)]
    async fn log_lines_for_a_namespace_are_rate_limited() {
        let memory = CacheMemory::new(1 << 20);
        let _charge = memory.charge_name("a", 1).unwrap();
        assert!(memory.take_log_turn("a") && !memory.take_log_turn("a"));
        tokio::time::advance(LOG_INTERVAL).await;
        assert!(memory.take_log_turn("a"));
    }

    #[test]
    fn memory_without_a_limit_accepts_everything() {
        let memory = CacheMemory::new(usize::MAX);
        assert!(memory.charge_object("a", usize::MAX / 8, 0).is_ok());
        assert!(memory.charge_object("", usize::MAX / 8, 0).is_ok());
    }
}
