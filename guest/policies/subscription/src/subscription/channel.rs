//! Channels by their names.
//!
//! ```text
//! stable-4.10 ─▶ prefix `stable-`, numbers 4 and 10 ─▶ older, newer, or not comparable
//! ```

use std::cmp::Ordering;

use opgate_sdk::{Report, rule, rules};

use super::Subscription;
use crate::bounded::quote;
use crate::targets::SUBSCRIPTION;

rules![SUB_11];

pub(super) const FIELD: &str = "spec.channel";

rule! {
    /// an installed Operator is not moved to an older channel
    ///
    /// An UPDATE of a Subscription with `status.installedCSV` does not change `spec.channel` to an
    /// older channel. Channels are compared if both names have the same start and end in version
    /// numbers, with dots between them; the numbers are compared as numbers, one after the other.
    /// Names that differ otherwise are accepted here, and so are those of which one only has more
    /// numbers, as `stable-4` and `stable-4.9`. An UPDATE of another package is not judged.
    ///
    /// # Why
    ///
    /// OLM only updates: an installed Operator cannot go back to an older channel (OpenShift 4.12,
    /// Operators, *Preparing for an Operator update*). It stays as it is, and gets no
    /// updates any more.
    ///
    /// # Repair
    ///
    /// Stay in the current channel or choose a newer one. To go back, delete the Subscription and
    /// the ClusterServiceVersion, and subscribe to the older channel.
    ///
    /// # Accepted
    ///
    /// `stable-4.9` to `stable-4.10`, and `stable` to `fast`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Before: quay-v3.4.
    /// spec: {channel: quay-v3.3}
    /// status: {installedCSV: quay-operator.v3.4.0}
    /// ```
    ///
    /// `message: You cannot change installed Operators to a channel that is older than the current
    /// channel: "quay-v3.4" -> "quay-v3.3"`
    SUB_11: Deny {
        on: [SUBSCRIPTION: Update],
        source: "OCP 4.12 L6881-6885; OCP 4.15 L4857; OCP 4.5 L2423",
    }
}

impl Subscription<'_> {
    pub(super) fn older_channel(&self, report: &mut Report<'_>) {
        let Some(old) = self.changed_channel() else { return };
        if compare(&self.channel, &old) == Some(Ordering::Less) {
            let (old, new) = (quote(&old), quote(&self.channel));
            let message = format!(
                "You cannot change installed Operators to a channel that is older than the current channel: {old} -> {new}"
            );
            report.add(&SUB_11, FIELD, message);
        }
    }

    /// The channel before, if an UPDATE of an installed Operator changes it.
    pub(super) fn changed_channel(&self) -> Option<String> {
        let old = self.review.updates_from()?;
        let before = old.text_or_empty("/spec/channel");
        let is_same_package = old.text_or_empty("/spec/name") == self.package;
        (is_same_package && before != self.channel && self.is_installed()).then_some(before)
    }
}

/// How a channel compares with another one, by their names.
fn compare(left: &str, right: &str) -> Option<Ordering> {
    let ((prefix, left), (other, right)) = (split(left), split(right));
    if prefix != other || left.is_empty() || right.is_empty() {
        return None;
    }
    let (left, right) = (left.split('.'), right.split('.'));
    let mut differences = left.clone().zip(right.clone()).map(|(l, r)| compare_numbers(l, r));
    match differences.find(|order| order.is_ne()) {
        Some(order) => Some(order),
        None if left.count() == right.count() => Some(Ordering::Equal),
        None => None,
    }
}

/// A name without its version numbers, and these. They start after the last character that is
/// neither a digit nor a dot between digits.
fn split(name: &str) -> (&str, &str) {
    let mut start = name.len();
    let mut is_after_digit = false;
    for (at, byte) in name.bytes().enumerate().rev() {
        match byte {
            b'0'..=b'9' => (start, is_after_digit) = (at, true),
            b'.' if is_after_digit => is_after_digit = false,
            _ => break,
        }
    }
    name.split_at_checked(start).unwrap_or((name, ""))
}

/// Numbers of any length.
fn compare_numbers(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_numbers() {
        for (name, prefix, numbers) in [
            ("quay-v3.4", "quay-v", "3.4"),
            ("1.2", "", "1.2"),
            ("stable", "stable", ""),
            ("", "", ""),
            ("4.x", "4.x", ""),
            ("stable-4.", "stable-4.", ""),
            ("a..4", "a..", "4"),
            (".4", ".", "4"),
            ("release-2.6-beta3", "release-2.6-beta", "3"),
            ("é4.10", "é", "4.10"),
        ] {
            assert_eq!(split(name), (prefix, numbers), "{name}");
        }
    }

    #[test]
    fn channels_are_compared_by_their_numbers() {
        use Ordering::{Equal, Greater, Less};
        let long = "9".repeat(400);
        for (left, right, order) in [
            ("stable-4.9", "stable-4.10", Some(Less)),
            ("quay-v3.3", "quay-v3.4", Some(Less)),
            ("1.3", "1.2", Some(Greater)),
            ("v1", "v2", Some(Less)),
            ("stable-04.9", "stable-4.09", Some(Equal)),
            ("stable-4", "stable-4.9", None),
            ("stable-3", "stable-4.9", Some(Less)),
            ("stable-4.8.2", "stable-4.9", Some(Less)),
            ("stable-4.8", "fast-4.9", None),
            ("4.8", "v4.9", None),
            ("alpha", "beta", None),
            ("alpha", "alpha", None),
            ("4.9-rc", "4.10-rc", None),
            ("", "1.0", None),
            (&format!("v{long}"), &format!("v1{long}"), Some(Less)),
            (&format!("v1{long}"), &format!("v2{long}"), Some(Less)),
            ("v18446744073709551616", "v18446744073709551615", Some(Greater)),
        ] {
            assert_eq!(compare(left, right), order, "{left} {right}");
            assert_eq!(compare(right, left), order.map(Ordering::reverse), "{right} {left}");
        }
    }
}
