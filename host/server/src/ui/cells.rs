//! Texts of cells: times, durations and links to rules.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

use crate::active_set::timestamp;

/// Links to the documentation of a rule. An id has only letters, digits, hyphens and dots.
pub(super) fn rule_link(rule: &str) -> Markup {
    html! { a href={ "rules/" (rule) } { (rule) } }
}

/// `2026-11-20T15:19:09Z`
pub(super) fn time(at: SystemTime) -> Markup {
    let text = timestamp(at).unwrap_or_default();
    html! { time.nowrap datetime=(text) { (text) } }
}

pub(super) fn duration(time: Duration) -> String {
    match time.as_micros() {
        0..1_000 => format!("{} µs", time.as_micros()),
        1_000..1_000_000 => format!("{} ms", time.as_millis()),
        _ => format!("{} s", time.as_secs()),
    }
}
