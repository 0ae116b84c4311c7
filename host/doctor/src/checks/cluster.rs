//! The clocks, and what could not be read.

use std::time::Duration;

use crate::facts::Facts;
use crate::finding::{Findings, ObjectReference};
use crate::finding_docs::cluster::{CLOCK_SKEW, UNREADABLE_OBJECTS};

/// Clocks of machines that are synchronised differ by far less.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(30);

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    for (what, why) in &facts.failed_reads {
        let repair = "run the doctor as a user who may read it, or accept it with --skip DOC-91";
        found.add(&UNREADABLE_OBJECTS, ObjectReference::other(what), "", why, repair);
    }
    if let Some(clock) = facts.clock
        && clock.skew > MAX_CLOCK_SKEW.saturating_add(clock.uncertainty)
    {
        let direction = if clock.is_ahead { "ahead of" } else { "behind" };
        let seconds = clock.skew.as_secs();
        let what = format!("it is {seconds} s {direction} the clock of this machine");
        let repair = "synchronise the clocks: chronyc tracking, timedatectl";
        found.add(
            &CLOCK_SKEW,
            ObjectReference::other("the clock of the API server"),
            "",
            &what,
            repair,
        );
    }
}
