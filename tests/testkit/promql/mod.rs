//! As much of `PromQL` as alerts and dashboards of opgate use, and the state of alerts over time.
//!
//! ```text
//! expression ─▶ parse ─▶ Expression ─┬▶ metrics and labels that it names
//! scrapes of /metrics ─▶ Timeline ───┴▶ evaluate at a time ─▶ vector ─▶ Alert: inactive, pending, firing
//! ```
//!
//! What is not known here fails the test.

mod alert;
mod evaluate;
mod parse;
mod timeline;

pub use alert::{Alert, INTERVAL_SECONDS};
pub use evaluate::{Sample, evaluate};
pub use parse::{Expression, Matcher, parse};
pub use timeline::{Labels, Timeline, parse_metrics};
