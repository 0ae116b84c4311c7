//! Shares of the instance pool.
//!
//! The policies of one set have one instance for each of their concurrent calls. While a set
//! replaces another, calls of both run, and both have their full share: a call never fails because
//! the pool is empty.

use std::sync::Arc;

use super::Engine;

/// Instances of the pool of an engine, until this is dropped.
#[derive(Debug)]
pub struct InstanceQuota {
    engine: Arc<Engine>,
    count: usize,
}

impl Drop for InstanceQuota {
    fn drop(&mut self) {
        let mut taken = self.engine.reserved.lock();
        *taken = taken.saturating_sub(self.count);
    }
}

impl InstanceQuota {
    /// Reserves this many; `None` if there are not enough.
    #[must_use]
    pub fn reserve(engine: &Arc<Engine>, count: usize) -> Option<Self> {
        let mut taken = engine.reserved.lock();
        let all = taken.saturating_add(count);
        if engine.pooled && all > engine.pool.instances {
            return None;
        }
        *taken = all;
        drop(taken);
        Some(Self { engine: engine.clone(), count })
    }

    /// Whether they belong to this engine.
    #[must_use]
    pub fn is_of_engine(&self, engine: &Arc<Engine>) -> bool {
        Arc::ptr_eq(&self.engine, engine)
    }
}

impl Engine {
    /// Whether this many more instances, each with this much memory, fit into the pool. Without a
    /// pool, the result is true.
    #[must_use]
    pub fn has_capacity(&self, instances: usize, memory: usize) -> bool {
        let free = self.pool.instances.saturating_sub(*self.reserved.lock());
        !self.pooled || (instances <= free && memory <= self.pool.memory)
    }
}
