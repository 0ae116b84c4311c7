//! Permits of one policy, shared fairly by the tenants whose requests it evaluates.
//!
//! A *tenant* is the namespace of a request, or its user if there is no namespace. Each tenant
//! pays for the load that it causes:
//!
//! ```text
//! tenant ─▶ Account: permits, recent CPU time, whether its calls were long
//!    │
//!    ├─ a permit is free ──────────────────────────▶ Permit ─ dropped: time is charged, next one in
//!    ├─ not now ─▶ queue of the tenant ─ round-robin ▶ Permit
//!    └─ its share of the queue is full ────────────▶ PermitError (503, a while later), others are not
//! ```
//!
//! * No tenant holds more than half of the permits, and no tenant has more than half of the queue.
//!   If the whole queue is full, a call of a tenant with fewer waiting calls replaces one of a
//!   tenant with more.
//! * If there are two permits, one is for short calls alone: it is always free again a moment
//!   later.
//! * Long calls of tenants that recently used much CPU time hold at most half of the permits,
//!   however many tenants there are, and no such tenant more than half of those.
//! * Tenants take turns. One that recently used much CPU time waits behind the others.
//!
//! No collection here is longer than the queue, or than [`MAX_IDLE_TENANTS`].

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash as _, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Maximum number of tenants that are remembered while none of their calls runs or waits.
const MAX_IDLE_TENANTS: usize = 1_024;

/// CPU time beyond the share. A tenant that recently used more waits behind those that used less,
/// and its long calls only get the permits that the others leave.
pub(super) const EXPENSIVE_CPU_TIME: Duration = Duration::from_millis(10);

/// A tenant can use this part of the time of one CPU without a charge.
const FREE_CPU_DIVISOR: u32 = 20;

/// The maximum charge of a tenant, so that no tenant stays behind forever.
const MAX_CHARGED_CPU_TIME: Duration = Duration::from_millis(500);

/// Maximum bytes of waiting reviews, of one tenant and of all. Waiting requests hold memory that
/// others need as well. Small reviews always fit.
const MAX_QUEUED_BYTES_PER_TENANT: usize = 4 << 20;
const MAX_QUEUED_BYTES: usize = 16 << 20;
const SMALL_REVIEW_BYTES: usize = 64 << 10;

/// This many short calls in a row bring a tenant back to the fast path.
const SHORT_CALLS_TO_RETURN: u32 = 64;

/// After this many short calls in a row, a waiting long call is next.
const MAX_SHORT_IN_A_ROW: u32 = 8;

/// A tenant whose requests count together: a hash with a secret key, so that no client can find
/// two tenants with the same hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tenant(u64);

/// Identifies tenants. Clones identify them in the same way.
#[derive(Debug, Default, Clone)]
pub(super) struct Tenants(RandomState);

impl Tenants {
    /// The tenant of a request in a namespace, or of a user if the namespace is empty.
    pub(super) fn of(&self, namespace: &str, user: &str) -> Tenant {
        let mut hasher = self.0.build_hasher();
        match namespace {
            "" => (false, user).hash(&mut hasher),
            namespace => (true, namespace).hash(&mut hasher),
        }
        Tenant(hasher.finish())
    }
}

/// Uses a tenant as its own hash.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // The hash of a tenant is one number.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// The expected duration of a call: short, or long enough to need a worker thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallClass {
    Short,
    Long,
}

/// The reason why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermitError {
    /// All permits that this call may use are in use, and it does not wait.
    Busy,
    /// The queue is full, with this many calls.
    Full(usize),
    /// The tenant's share of the queue is full, with this many calls.
    Share(usize),
    /// No permit became free in the remaining time.
    Late(Duration),
}

/// Maximum numbers of permits.
#[derive(Debug, Clone, Copy)]
struct PermitLimits {
    permits: usize,
    /// For one tenant.
    per_tenant: usize,
    /// For long calls.
    long: usize,
    /// For long calls of expensive tenants.
    expensive: usize,
    /// For long calls of one expensive tenant.
    expensive_per_tenant: usize,
    queue: usize,
    queue_per_tenant: usize,
}

/// Permits and queue of one policy.
#[derive(Debug)]
pub(super) struct FairPermits {
    limits: PermitLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    accounts: HashMap<Tenant, TenantAccount, BuildHasherDefault<IdentityHasher>>,
    /// Tenants that wait for a permit, each once, by pace. The first one is next.
    short: VecDeque<Tenant>,
    long: VecDeque<Tenant>,
    running: usize,
    running_long: usize,
    running_expensive: usize,
    waiting: usize,
    /// Bytes of the waiting reviews.
    bytes: usize,
    /// Short calls in a row that were next while long calls waited.
    short_in_a_row: u32,
    next: u64,
}

#[derive(Debug)]
struct TenantAccount {
    /// CPU time beyond the share, at that time.
    excess_cpu_time: Duration,
    updated_at: Instant,
    /// Short calls until the tenant is back on the fast path; 0 if it is there.
    until_fast: u32,
    running: usize,
    running_expensive: usize,
    bytes: usize,
    short: VecDeque<Waiter>,
    long: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    bytes: usize,
    sender: oneshot::Sender<Result<Permit, PermitError>>,
}

/// Permission to run one call.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Arc<FairPermits>,
    tenant: Tenant,
    class: PermitClass,
    used: Duration,
}

/// The class of a permit, in addition to the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermitClass {
    Short,
    Long,
    /// A long call of an expensive tenant.
    Expensive,
}

/// Answers to waiting calls, sent once the lock is free. A permit that no call accepts comes back.
type Notifications =
    Vec<(oneshot::Sender<Result<Permit, PermitError>>, Result<Permit, PermitError>)>;

impl TenantAccount {
    fn new(now: Instant) -> Self {
        Self {
            excess_cpu_time: Duration::ZERO,
            updated_at: now,
            until_fast: 0,
            running: 0,
            running_expensive: 0,
            bytes: 0,
            short: VecDeque::new(),
            long: VecDeque::new(),
        }
    }

    fn current_excess(&self, now: Instant) -> Duration {
        self.excess_cpu_time
            .saturating_sub(now.saturating_duration_since(self.updated_at) / FREE_CPU_DIVISOR)
    }

    fn charge(&mut self, used: Duration, now: Instant) {
        self.excess_cpu_time =
            self.current_excess(now).saturating_add(used).min(MAX_CHARGED_CPU_TIME);
        self.updated_at = now;
    }

    fn is_expensive(&self, now: Instant) -> bool {
        self.current_excess(now) > EXPENSIVE_CPU_TIME
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting() == 0
    }

    fn waiting(&self) -> usize {
        self.short.len() + self.long.len()
    }

    fn queue(&mut self, call_class: CallClass) -> &mut VecDeque<Waiter> {
        match call_class {
            CallClass::Short => &mut self.short,
            CallClass::Long => &mut self.long,
        }
    }
}

/// A call that needs a permit.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueuedCall {
    pub(super) tenant: Tenant,
    /// Size of its review, which counts while it waits.
    pub(super) review_bytes: usize,
    /// Its expected duration.
    pub(super) class: CallClass,
}

impl FairPermits {
    /// Creates permits, and a queue for calls that wait for one. `is_only` if there are no other
    /// tenants.
    pub(super) fn new(permits: usize, queue: usize, is_only: bool) -> Self {
        let half = permits.div_ceil(2).max(1);
        let expensive = (permits / 2).max(1);
        let shared = PermitLimits {
            permits,
            per_tenant: half,
            long: permits.saturating_sub(1).max(1),
            expensive,
            expensive_per_tenant: expensive.div_ceil(2),
            queue,
            queue_per_tenant: queue.div_ceil(2),
        };
        let alone = PermitLimits { per_tenant: permits, queue_per_tenant: queue, ..shared };
        let sizes = if is_only { alone } else { shared };
        Self { limits: sizes, state: Mutex::default() }
    }

    /// The expected duration of a tenant's next call.
    pub(super) fn expected_class(&self, tenant: Tenant) -> CallClass {
        match self.state.lock().accounts.get(&tenant) {
            Some(account) if account.until_fast > 0 => CallClass::Long,
            _ => CallClass::Short,
        }
    }

    /// Running long calls.
    pub(super) fn running_long(&self) -> usize {
        self.state.lock().running_long
    }

    /// Returns a permit for a call: at once, or in the turn of its tenant.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        call: QueuedCall,
        deadline: Option<Instant>,
    ) -> Result<Permit, PermitError> {
        let QueuedCall { tenant, review_bytes, class: call_class } = call;
        let (number, told) = {
            let mut state = self.state.lock();
            if let Some(permit_class) =
                self.available_class(&state, tenant, call_class, Instant::now)
            {
                state.occupy(tenant, permit_class);
                return Ok(self.new_permit(tenant, permit_class));
            }
            if deadline.is_none() {
                return Err(PermitError::Busy);
            }
            let displaced = self.make_queue_slot(&mut state, tenant, review_bytes)?;
            let (sender, told) = oneshot::channel();
            let number = state.enqueue(call, sender);
            drop(state);
            if let Some((displaced, waiting)) = displaced {
                // A cancelled call needs no notification.
                let _ = displaced.sender.send(Err(PermitError::Share(waiting)));
            }
            (number, told)
        };
        let queue_guard = QueueGuard { permits: self, tenant, call_class, number };
        let started = Instant::now();
        let late = || Err(PermitError::Late(started.elapsed()));
        let answer = tokio::time::timeout_at(deadline.unwrap_or(started).into(), told).await;
        drop(queue_guard);
        // A sender is always used before it is dropped.
        answer.map_or_else(|_| late(), |told| told.unwrap_or_else(|_| late()))
    }

    fn new_permit(self: &Arc<Self>, tenant: Tenant, permit_class: PermitClass) -> Permit {
        Permit { permits: self.clone(), tenant, class: permit_class, used: Duration::ZERO }
    }

    /// The class of a permit for a call, if one is free for it now.
    fn available_class(
        &self,
        state: &State,
        tenant: Tenant,
        call_class: CallClass,
        now: impl FnOnce() -> Instant,
    ) -> Option<PermitClass> {
        let account = state.accounts.get(&tenant);
        let running = account.map_or(0, |account| account.running);
        if state.running >= self.limits.permits || running >= self.limits.per_tenant {
            return None;
        }
        if call_class == CallClass::Short {
            return Some(PermitClass::Short);
        }
        if state.running_long >= self.limits.long {
            return None;
        }
        let Some(account) = account.filter(|account| account.is_expensive(now())) else {
            return Some(PermitClass::Long);
        };
        let is_free = state.running_expensive < self.limits.expensive
            && account.running_expensive < self.limits.expensive_per_tenant;
        is_free.then_some(PermitClass::Expensive)
    }

    /// Frees a place in the queue. Returns the call that this displaces, and the number of waiting
    /// calls.
    fn make_queue_slot(
        &self,
        state: &mut State,
        tenant: Tenant,
        bytes: usize,
    ) -> Result<Option<(Waiter, usize)>, PermitError> {
        let waiting = state.waiting;
        let account = state.accounts.get(&tenant);
        let own = account.map_or(0, TenantAccount::waiting);
        let own_bytes = account.map_or(0, |account| account.bytes);
        let is_large = bytes > SMALL_REVIEW_BYTES
            && own > 0
            && own_bytes.saturating_add(bytes) > MAX_QUEUED_BYTES_PER_TENANT;
        if own >= self.limits.queue_per_tenant || is_large {
            return Err(PermitError::Share(own));
        }
        if bytes > SMALL_REVIEW_BYTES
            && waiting > 0
            && state.bytes.saturating_add(bytes) > MAX_QUEUED_BYTES
        {
            return Err(PermitError::Full(waiting));
        }
        if waiting < self.limits.queue {
            return Ok(None);
        }
        let among = state.short.iter().chain(&state.long);
        let count = |tenant: &Tenant| state.accounts.get(tenant).map_or(0, TenantAccount::waiting);
        let longest = among.copied().max_by_key(count).filter(|most| count(most) > own + 1);
        let last = longest.and_then(|longest| state.remove_last(longest));
        last.map(|last| Some((last, waiting))).ok_or(PermitError::Full(waiting))
    }

    /// Gives permits to the calls whose turn it is.
    fn grant_permits(self: &Arc<Self>, state: &mut State, told: &mut Notifications, now: Instant) {
        while let Some((tenant, permit_class)) = self.next_call(state, now) {
            let call_class =
                if permit_class == PermitClass::Short { CallClass::Short } else { CallClass::Long };
            let Some(waiter) = state.dequeue(tenant, call_class) else { return };
            state.occupy(tenant, permit_class);
            told.push((waiter.sender, Ok(self.new_permit(tenant, permit_class))));
        }
    }

    fn next_call(&self, state: &mut State, now: Instant) -> Option<(Tenant, PermitClass)> {
        if state.waiting == 0 || state.running >= self.limits.permits {
            return None;
        }
        let of = |ring: &VecDeque<Tenant>, call_class| {
            let fits = |tenant: &Tenant| {
                Some((*tenant, self.available_class(state, *tenant, call_class, || now)?))
            };
            // The first of the cheap tenants, or else the cheapest of the others.
            let cost = |(tenant, _): &(Tenant, PermitClass)| {
                let spent = state.accounts.get(tenant).map(|account| account.current_excess(now));
                spent.filter(|spent| *spent > EXPENSIVE_CPU_TIME).unwrap_or_default()
            };
            ring.iter().filter_map(fits).min_by_key(cost)
        };
        let (short, long) = (of(&state.short, CallClass::Short), of(&state.long, CallClass::Long));
        let next = match (short, long) {
            (Some(_), Some(long)) if state.short_in_a_row >= MAX_SHORT_IN_A_ROW => Some(long),
            (short, long) => short.or(long),
        };
        match next {
            Some((_, PermitClass::Short)) if !state.long.is_empty() => state.short_in_a_row += 1,
            _ => state.short_in_a_row = 0,
        }
        next
    }

    fn update(self: &Arc<Self>, change: impl FnOnce(&mut State, Instant)) {
        let mut told = Notifications::new();
        let mut state = self.state.lock();
        let now = Instant::now();
        change(&mut state, now);
        self.grant_permits(&mut state, &mut told, now);
        drop(state);
        for (sender, what) in told {
            // If no call accepts the permit, dropping it brings it back here.
            drop(sender.send(what));
        }
    }
}

impl State {
    fn occupy(&mut self, tenant: Tenant, permit_class: PermitClass) {
        let account = self.account(tenant);
        account.running += 1;
        account.running_expensive += usize::from(permit_class == PermitClass::Expensive);
        self.running += 1;
        self.running_long += usize::from(permit_class != PermitClass::Short);
        self.running_expensive += usize::from(permit_class == PermitClass::Expensive);
    }

    fn release(&mut self, tenant: Tenant, permit_class: PermitClass, used: Duration, now: Instant) {
        let less = |of: &mut usize, is: bool| *of = of.saturating_sub(usize::from(is));
        let account = self.account(tenant);
        account.charge(used, now);
        less(&mut account.running, true);
        less(&mut account.running_expensive, permit_class == PermitClass::Expensive);
        less(&mut self.running, true);
        less(&mut self.running_long, permit_class != PermitClass::Short);
        less(&mut self.running_expensive, permit_class == PermitClass::Expensive);
    }

    fn ring(&mut self, call_class: CallClass) -> &mut VecDeque<Tenant> {
        match call_class {
            CallClass::Short => &mut self.short,
            CallClass::Long => &mut self.long,
        }
    }

    fn enqueue(
        &mut self,
        call: QueuedCall,
        sender: oneshot::Sender<Result<Permit, PermitError>>,
    ) -> u64 {
        let QueuedCall { tenant, review_bytes: bytes, class: call_class } = call;
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        let account = self.account(tenant);
        account.bytes = account.bytes.saturating_add(bytes);
        let queue = account.queue(call_class);
        let is_first = queue.is_empty();
        queue.push_back(Waiter { number, bytes, sender });
        if is_first {
            self.ring(call_class).push_back(tenant);
        }
        self.waiting += 1;
        number
    }

    /// The first waiting call. Its tenant moves to the end of the line.
    fn dequeue(&mut self, tenant: Tenant, call_class: CallClass) -> Option<Waiter> {
        let account = self.accounts.get_mut(&tenant)?;
        let queue = account.queue(call_class);
        let first = queue.pop_front()?;
        let is_empty = queue.is_empty();
        account.bytes = account.bytes.saturating_sub(first.bytes);
        self.bytes = self.bytes.saturating_sub(first.bytes);
        self.waiting = self.waiting.saturating_sub(1);
        let ring = self.ring(call_class);
        ring.retain(|other| *other != tenant);
        if !is_empty {
            ring.push_back(tenant);
        }
        Some(first)
    }

    /// The last call of a tenant, long calls before short ones.
    fn remove_last(&mut self, tenant: Tenant) -> Option<Waiter> {
        let account = self.accounts.get_mut(&tenant)?;
        let call_class = if account.long.is_empty() { CallClass::Short } else { CallClass::Long };
        let number = account.queue(call_class).back()?.number;
        self.remove_waiter(tenant, call_class, number)
    }

    /// Removes a waiting call from the queue.
    fn remove_waiter(
        &mut self,
        tenant: Tenant,
        call_class: CallClass,
        number: u64,
    ) -> Option<Waiter> {
        let account = self.accounts.get_mut(&tenant)?;
        let queue = account.queue(call_class);
        let position = queue.iter().position(|waiter| waiter.number == number)?;
        let found = queue.remove(position)?;
        let is_empty = queue.is_empty();
        account.bytes = account.bytes.saturating_sub(found.bytes);
        self.bytes = self.bytes.saturating_sub(found.bytes);
        self.waiting = self.waiting.saturating_sub(1);
        if is_empty {
            self.ring(call_class).retain(|other| *other != tenant);
        }
        Some(found)
    }

    fn account(&mut self, tenant: Tenant) -> &mut TenantAccount {
        if self.accounts.len() >= MAX_IDLE_TENANTS && !self.accounts.contains_key(&tenant) {
            self.forget(Instant::now());
        }
        self.accounts.entry(tenant).or_insert_with(|| TenantAccount::new(Instant::now()))
    }

    /// Forgets the cheaper half of the tenants without running or waiting calls. The work of one
    /// sweep is that of some hundred new tenants.
    fn forget(&mut self, now: Instant) {
        let idle = self.accounts.iter().filter(|(_, account)| account.is_idle());
        let mut idle: Vec<_> =
            idle.map(|(tenant, account)| (Reverse(account.current_excess(now)), *tenant)).collect();
        let half = idle.len() / 2;
        if half < idle.len() {
            idle.select_nth_unstable_by_key(half, |(spent, _)| *spent);
        }
        for (_, tenant) in idle.drain(half..) {
            self.accounts.remove(&tenant);
        }
    }
}

/// A waiting call. It leaves the queue when this is dropped, also when the client disconnects.
struct QueueGuard<'f> {
    permits: &'f Arc<FairPermits>,
    tenant: Tenant,
    call_class: CallClass,
    number: u64,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        // A call with a permit is no longer in the queue.
        let _ = self.permits.state.lock().remove_waiter(self.tenant, self.call_class, self.number);
    }
}

impl Permit {
    /// Charges the CPU time of the call.
    pub(super) fn charge(&mut self, used: Duration) {
        self.used = self.used.saturating_add(used);
    }

    /// Whether the tenant recently used much CPU time.
    pub(super) fn is_expensive(&self) -> bool {
        let state = self.permits.state.lock();
        let account = state.accounts.get(&self.tenant);
        account.is_some_and(|account| account.is_expensive(Instant::now()))
    }

    /// Records whether a call of the tenant was long or short, which determines where its next
    /// call starts.
    pub(super) fn record_class(&self, call_class: CallClass) {
        if let Some(account) = self.permits.state.lock().accounts.get_mut(&self.tenant) {
            account.until_fast = match call_class {
                CallClass::Long => SHORT_CALLS_TO_RETURN,
                CallClass::Short => account.until_fast.saturating_sub(1),
            };
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (tenant, permit_class, used) = (self.tenant, self.class, self.used);
        self.permits.update(|state, now| state.release(tenant, permit_class, used, now));
    }
}

#[cfg(test)]
mod tests;
