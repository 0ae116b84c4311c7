//! Time: what has passed here, and what the calendar says.
//!
//! They are two: the calendar of a machine can jump in both directions, what has passed cannot. Terms of a
//! leader are measured by what has passed, certificates by the calendar.

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;

/// A source of time.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time since a fixed moment; it is monotonic.
    fn elapsed(&self) -> Duration;

    /// Returns the time of this machine's calendar.
    fn system_time(&self) -> SystemTime;
}

/// The clocks of the system.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Parses a time as Kubernetes writes it.
pub(crate) fn parse_time(text: &str) -> Option<SystemTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok().map(SystemTime::from)
}

/// Formats the time of a lease as Kubernetes does: RFC 3339 with microseconds.
pub(crate) fn micro_time(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.microsecond()
    )
}
