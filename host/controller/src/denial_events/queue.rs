//! The series of denials that wait for a write, in limited memory.
//!
//! Limits: new Events of a tenant, writes of all tenants, bytes of all series. A tenant that reaches its limit
//! loses its own denials. If memory runs out, series of the tenant with the most bytes are dropped. Writes take turns
//! between tenants.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::time::Instant;

use super::denial::{Denial, Tenant};

/// New Events of a tenant at once, and the time in which one more is possible.
const MAX_TENANT_EVENTS: u32 = 10;
const TENANT_EVENT_INTERVAL: Duration = Duration::from_secs(60);

/// Writes of all tenants at once, and the time in which one more is possible.
const MAX_WRITES: u32 = 50;
const WRITE_INTERVAL: Duration = Duration::from_millis(500);

/// The interval of the first repeated write of a series. It doubles with each write.
const MIN_SERIES_INTERVAL: Duration = Duration::from_secs(1);
const MAX_SERIES_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum number of writes of a series in a row that fail for a reason that can pass, such as a timeout. The time
/// between them doubles; together it is some four minutes.
const MAX_FAILED_WRITES: u32 = 9;

/// The time without Events for a tenant whose Event was refused.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Bytes of all series.
const MAX_BYTES: usize = 2 << 20;

/// Bytes of a series in addition to its texts.
const SERIES_BYTES: usize = 1_024;

/// Maximum number of tenants whose limits are remembered.
const MAX_TENANTS: usize = 4_096;

/// Permits that return with time. The state is the time when all are back.
#[derive(Debug, Clone, Copy, Default)]
struct Permits(Option<Instant>);

impl Permits {
    /// Takes one if there is one.
    fn try_take(&mut self, most: u32, interval: Duration, now: Instant) -> bool {
        let full = self.0.map_or(now, |full| full.max(now)) + interval;
        let is_there = full.saturating_duration_since(now) <= interval * most;
        if is_there {
            self.0 = Some(full);
        }
        is_there
    }

    /// The time when there is one.
    fn next_at(&self, most: u32, interval: Duration, now: Instant) -> Instant {
        let full = self.0.map_or(now, |full| full.max(now));
        full.checked_sub(interval * (most - 1)).map_or(now, |at| at.max(now))
    }

    fn are_complete(&self, now: Instant) -> bool {
        self.0.is_none_or(|full| full <= now)
    }
}

/// An Event as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredEvent {
    pub(super) version: String,
    /// Denials that it reports.
    pub(super) count: u64,
}

/// Denials of one object by the same rules.
#[derive(Debug)]
struct Series {
    denial: Arc<Denial>,
    /// Denials since the last write.
    count: u64,
    last: OffsetDateTime,
    due: Instant,
    interval: Duration,
    /// Writes in a row that failed.
    failed_writes: u32,
    /// Its Event after the last write.
    stored: Option<StoredEvent>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct TenantSeries {
    /// By the name of the Event.
    series: HashMap<String, Series>,
    bytes: usize,
    permits: Permits,
    paused_until: Option<Instant>,
    /// The turn of the last write.
    last_turn: u64,
}

/// The result of a denial.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Admission {
    /// Whether the task has something new to write.
    pub(super) is_news: bool,
    /// The number of denials that will have no Event.
    pub(super) dropped: u64,
}

/// A copy of a series that is due.
#[derive(Debug)]
pub(super) struct DueSeries {
    pub(super) denial: Arc<Denial>,
    /// Denials since the last write.
    pub(super) count: u64,
    pub(super) last: OffsetDateTime,
    pub(super) stored: Option<StoredEvent>,
}

/// The next step of the task.
#[derive(Debug)]
pub(super) enum NextWrite {
    /// This series is due.
    Now(DueSeries),
    /// Nothing is due before this time.
    At(Instant),
    /// Nothing waits.
    Never,
}

/// The series of all tenants.
#[derive(Debug, Default)]
pub(super) struct DenialQueue {
    tenants: HashMap<Tenant, TenantSeries>,
    bytes: usize,
    permits: Permits,
    turn: u64,
}

impl DenialQueue {
    /// Adds a denial to its series, or begins one.
    pub(super) fn record(&mut self, denial: Denial, now: Instant) -> Admission {
        if let Some(known) = self.tenants.get_mut(&denial.tenant)
            && let Some(series) = known.series.get_mut(&denial.event)
        {
            let is_news = series.count == 0;
            series.count = series.count.saturating_add(1);
            series.last = denial.at;
            return Admission { is_news, dropped: 0 };
        }
        let refused = Admission { is_news: false, dropped: 1 };
        self.forget_tenants(now);
        let known = self.tenants.entry(denial.tenant.clone()).or_default();
        if known.paused_until.is_some_and(|until| now < until)
            || !known.permits.try_take(MAX_TENANT_EVENTS, TENANT_EVENT_INTERVAL, now)
        {
            return refused;
        }
        let bytes = denial.size() + SERIES_BYTES;
        let Some(dropped) = self.make_room(&denial.tenant, bytes) else { return refused };
        self.insert(denial, bytes, now);
        Admission { is_news: true, dropped }
    }

    fn insert(&mut self, denial: Denial, bytes: usize, now: Instant) {
        let known = self.tenants.entry(denial.tenant.clone()).or_default();
        known.bytes += bytes;
        self.bytes += bytes;
        let event = denial.event.clone();
        let series = Series {
            count: 1,
            last: denial.at,
            due: now,
            interval: MIN_SERIES_INTERVAL,
            failed_writes: 0,
            stored: None,
            bytes,
            denial: Arc::new(denial),
        };
        known.series.insert(event, series);
    }

    /// Forgets the limits of tenants, if there are too many: first of those that have used nothing for a while.
    fn forget_tenants(&mut self, now: Instant) {
        if self.tenants.len() < MAX_TENANTS {
            return;
        }
        let is_limited = |tenant: &TenantSeries| {
            !tenant.permits.are_complete(now)
                || tenant.paused_until.is_some_and(|until| now < until)
        };
        self.tenants.retain(|_, tenant| !tenant.series.is_empty() || is_limited(tenant));
        if self.tenants.len() >= MAX_TENANTS {
            self.tenants.retain(|_, tenant| !tenant.series.is_empty());
        }
    }

    /// Makes room for a series of a tenant; returns the number of denials that are dropped for it. `None` if no
    /// tenant has more than this one.
    fn make_room(&mut self, tenant: &Tenant, bytes: usize) -> Option<u64> {
        if self.bytes + bytes <= MAX_BYTES {
            return Some(0);
        }
        self.remove(|series| series.count == 0);
        let mut dropped = 0_u64;
        while self.bytes + bytes > MAX_BYTES {
            let (largest, known) = self.tenants.iter_mut().max_by_key(|(_, known)| known.bytes)?;
            if largest == tenant {
                return None;
            }
            let event = known.series.keys().next()?.clone();
            let series = known.series.remove(&event)?;
            known.bytes -= series.bytes;
            self.bytes -= series.bytes;
            dropped = dropped.saturating_add(series.count);
        }
        Some(dropped)
    }

    /// Removes series.
    fn remove(&mut self, is_over: impl Fn(&Series) -> bool) {
        for known in self.tenants.values_mut() {
            let freed = &mut self.bytes;
            let bytes = &mut known.bytes;
            known.series.retain(|_, series| {
                let stays = !is_over(series);
                if !stays {
                    *bytes -= series.bytes;
                    *freed -= series.bytes;
                }
                stays
            });
        }
    }

    /// The next step: the series that is due of the tenant whose last turn was longest ago.
    pub(super) fn next(&mut self, now: Instant, hour: i64) -> NextWrite {
        // A new hour has new Events.
        self.remove(|series| series.count == 0 && series.denial.hour < hour);
        let waiting = self.tenants.values().flat_map(|known| {
            let waits = known.series.values().filter(|series| series.count > 0);
            waits.map(move |series| (known.last_turn, series))
        });
        let order = |(turn, series): &(u64, &Series)| {
            let is_due = series.due <= now;
            (!is_due, if is_due { *turn } else { 0 }, series.due)
        };
        let Some((_, first)) = waiting.min_by_key(order) else { return NextWrite::Never };
        let due = first.due.max(self.permits.next_at(MAX_WRITES, WRITE_INTERVAL, now));
        if due > now {
            return NextWrite::At(due);
        }
        let (denial, last, stored) = (first.denial.clone(), first.last, first.stored.clone());
        self.permits.try_take(MAX_WRITES, WRITE_INTERVAL, now);
        self.turn += 1;
        let Some(known) = self.tenants.get_mut(&denial.tenant) else { return NextWrite::Never };
        known.last_turn = self.turn;
        let Some(series) = known.series.get_mut(&denial.event) else { return NextWrite::Never };
        let count = std::mem::take(&mut series.count);
        NextWrite::Now(DueSeries { denial, count, last, stored })
    }

    /// Bytes of all series.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    /// Denials that wait for a write.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> u64 {
        self.tenants.values().flat_map(|known| known.series.values()).map(|s| s.count).sum()
    }

    /// The number of tenants.
    #[cfg(test)]
    pub(super) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// Notes that an Event has the denials of a series.
    pub(super) fn set_written(&mut self, due: &DueSeries, stored: StoredEvent, now: Instant) {
        let known = self.tenants.get_mut(&due.denial.tenant);
        let series = known.and_then(|known| known.series.get_mut(&due.denial.event));
        if let Some(series) = series {
            series.stored = Some(stored);
            series.failed_writes = 0;
            series.due = now + series.interval;
            series.interval = (series.interval * 2).min(MAX_SERIES_INTERVAL);
        }
    }

    /// Notes that a write failed for a reason that can pass: the series is due again later. Returns the number of
    /// denials without an Event, if it has failed too often.
    pub(super) fn set_delayed(&mut self, due: &DueSeries, now: Instant) -> u64 {
        let Some(known) = self.tenants.get_mut(&due.denial.tenant) else { return due.count };
        let Some(series) = known.series.get_mut(&due.denial.event) else { return due.count };
        let delay = MIN_SERIES_INTERVAL.saturating_mul(1 << series.failed_writes);
        series.failed_writes += 1;
        series.count = series.count.saturating_add(due.count);
        series.due = now + delay.min(MAX_SERIES_INTERVAL);
        if series.failed_writes < MAX_FAILED_WRITES {
            return 0;
        }
        let lost = series.count;
        known.bytes -= series.bytes;
        self.bytes -= series.bytes;
        known.series.remove(&due.denial.event);
        lost
    }

    /// Notes that the Event of a series was refused, and pauses its tenant. Returns the number of denials
    /// without an Event.
    pub(super) fn set_failed(&mut self, due: &DueSeries, now: Instant) -> u64 {
        let Some(known) = self.tenants.get_mut(&due.denial.tenant) else { return due.count };
        known.paused_until = Some(now + FAILURE_PAUSE);
        let waiting = known.series.values().map(|series| series.count);
        let lost = waiting.fold(due.count, u64::saturating_add);
        known.series.clear();
        self.bytes -= std::mem::take(&mut known.bytes);
        lost
    }
}
