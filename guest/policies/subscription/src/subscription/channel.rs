//! The names of channels.
//!
//! ```text
//! stable-4.10 ─▶ prefix `stable-`, numbers 4 and 10 ─▶ older, newer, or not comparable
//!                         not comparable: the installed version ─▶ older, or unknown
//! ```

use std::cmp::Ordering;

use opgate_sdk::{Report, rule, rules};

use super::Subscription;
use crate::bounded::quote;
use crate::targets::SUBSCRIPTION;

rules![SUB_11];

pub(super) const FIELD: &str = "spec.channel";
pub(super) const NO_CHANNEL: &str = "the PackageManifest does not show the channel";
/// The result of a change that cannot be compared.
const INCOMPARABLE: &str = "/subscription/incomparableChannels";

rule! {
    /// an installed Operator is not moved to an older channel
    ///
    /// An UPDATE of a Subscription with `status.installedCSV` does not change `spec.channel` to an
    /// older channel. Channels are compared if both names have the same start and end in version
    /// numbers, with dots between them; the numbers are compared as numbers, one after the other.
    /// If the names cannot be compared, as `fast` and `stable-4.9`, the numbers of the new channel
    /// are compared with the version in `status.installedCSV`, `quay.v4.10.3`: the channel is older
    /// if it has the same first number and is lower in another one. If neither comparison is
    /// possible, the rule accepts the change, or denies it with the setting
    /// `subscription.incomparableChannels: deny`. The rule does not evaluate an UPDATE that changes
    /// the package.
    ///
    /// # Gap
    ///
    /// The rule cannot compare a channel whose numbers are not versions of the Operator, or
    /// versions with another first number, with the installed version.
    /// `subscription.incomparableChannels: deny` denies such changes. OLM itself never installs an
    /// older version as an update.
    ///
    /// # Why
    ///
    /// OLM only updates: an installed Operator cannot go back to an older channel (OpenShift 4.12,
    /// Operators, *Preparing for an Operator update*). It keeps its version, and gets no more
    /// updates.
    ///
    /// # Remediation
    ///
    /// Stay in the current channel or choose a newer one. To go back, delete the Subscription and
    /// the ClusterServiceVersion, and subscribe to the older channel.
    ///
    /// # Accepted
    ///
    /// `stable-4.9` to `stable-4.10`, and `stable` to `fast`. `fast` to `stable-4.9` is rejected if
    /// `quay.v4.10.3` is installed.
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
        name: "no-older-subscription-channel",
        on: [SUBSCRIPTION: Update],
        source: ["OCP 4.12 L6881-6885", "OCP 4.15 L4857", "OCP 4.5 L2423"],
    }
}

impl Subscription<'_> {
    pub(super) fn check_older_channel(&self, report: &mut Report<'_>) {
        const OLDER_CHANNEL_MESSAGE: &str = "You cannot change installed Operators to a channel that is older than the current channel";
        let Some(old) = self.changed_channel() else { return };
        let installed = self.installed_csv();
        let change = format!("{} -> {}", quote(&old), quote(&self.channel));
        let message = match compare(&self.channel, &old) {
            Some(Ordering::Less) => format!("{OLDER_CHANNEL_MESSAGE}: {change}"),
            Some(_) => return,
            // Intermediate channels may have names without versions.
            None => match compare_installed(&self.channel, &installed) {
                Some(Ordering::Less) => {
                    format!(
                        "{OLDER_CHANNEL_MESSAGE}: {change}, and {} is installed",
                        quote(&installed)
                    )
                }
                None if self.review.settings.text_or_empty(INCOMPARABLE) == "deny" => {
                    format!("{OLDER_CHANNEL_MESSAGE}: {change} cannot be compared")
                }
                _ => return,
            },
        };
        report.add(&SUB_11, FIELD, message);
    }

    /// The channel before, if an UPDATE of an installed Operator changes it.
    pub(super) fn changed_channel(&self) -> Option<String> {
        let old = self.review.old_of_update()?;
        let before = old.text_or_empty("/spec/channel");
        let is_same_package = old.text_or_empty("/spec/name") == self.package;
        (is_same_package && before != self.channel && self.is_installed()).then_some(before)
    }
}

/// The comparison of a channel with another one, by their names.
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

/// The comparison of the numbers of a channel with the version in the name of a
/// ClusterServiceVersion. If the first numbers differ, they may have different meanings.
fn compare_installed(channel: &str, csv: &str) -> Option<Ordering> {
    let (_, numbers) = split(channel);
    let mut pairs = numbers.split('.').zip(installed_numbers(csv)?);
    let (first, installed) = pairs.next()?;
    if first.is_empty() || compare_numbers(first, installed).is_ne() {
        return None;
    }
    let mut orders = pairs.map(|(channel, installed)| compare_numbers(channel, installed));
    Some(orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
}

/// The numbers of the version in a name, `etcdoperator.v0.9.4` or `elasticsearch-operator.5.8.1`.
fn installed_numbers(csv: &str) -> Option<impl Iterator<Item = &str>> {
    let starts = csv.match_indices('.').filter_map(|(at, dot)| csv.get(at + dot.len()..));
    let versions = starts.map(|rest| rest.strip_prefix('v').unwrap_or(rest));
    let version = versions.into_iter().find(|v| v.starts_with(|c: char| c.is_ascii_digit()))?;
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let numbers = version.get(..end)?.split('.');
    Some(numbers.take_while(|number| !number.is_empty()))
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

    #[test]
    fn channel_is_compared_with_the_installed_version() {
        use Ordering::{Equal, Greater, Less};
        for (channel, csv, order) in [
            ("stable-4.9", "a.v4.10.3", Some(Less)),
            ("stable-4.10", "a.v4.10.3", Some(Equal)),
            ("stable-4.11", "a.v4.10.3", Some(Greater)),
            ("5.7", "elasticsearch-operator.5.8.1", Some(Less)),
            ("v2.9.1", "a.b.v2.9.4-rc1", Some(Less)),
            ("v2.9.4", "a.v2.9-rc1", Some(Equal)),
            ("stable-4", "a.v4.10.3", Some(Equal)),
            // Numbers with another meaning.
            ("stable-4.9", "a.v5.8.1", None),
            ("threescale-2.13", "3scale-operator.v0.11.8", None),
            ("stable", "a.v4.10.3", None),
            ("", "a.v4.10.3", None),
            ("4.9", "a", None),
            ("4.9", "a.vx.4.10", Some(Less)),
            ("4.9", "", None),
            ("4.9", "a.v", None),
            ("4.9", ".4", Some(Equal)),
        ] {
            assert_eq!(compare_installed(channel, csv), order, "{channel} {csv}");
        }
    }
}
