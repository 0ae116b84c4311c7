//! The upgrade graph of a channel.
//!
//! ```text
//!            replaces        replaces
//!   head ──────────────▶ e ──────────────▶ e        one chain from the head; a skipped name ends
//!     └──▶ skips                                    it. Entries in neither are stranded.
//! ```
//!
//! Every walk is a loop over names and takes O(n log n): no walk visits an entry twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use opgate_constraint::version::Version;
use opgate_sdk::go::quote;
use opgate_sdk::{Report, Rule, rule, rules};

use crate::CATALOG;
use crate::channel::{Channel, Entry};
use crate::text::join;

rules![FBC_19, FBC_20, FBC_21, FBC_23, FBC_24];

/// The maximum number of ranges of a minor version that FBC-24 evaluates, those of the latest
/// release first. Without the limit, it would compare all pairs.
const MAX_RANGES: usize = 16;

/// The graph of one channel. Positions are indexes of its list of entries.
pub(crate) struct Graph<'c> {
    entries: &'c [Entry],
    positions: BTreeMap<&'c str, usize>,
    /// Names that an entry skips.
    skipped: BTreeSet<&'c str>,
    /// Names that an entry replaces.
    replaced: BTreeSet<&'c str>,
}

/// Versions of bundles by name.
pub(crate) type BundleVersions<'c> = BTreeMap<&'c str, &'c Version>;

impl<'c> Graph<'c> {
    pub(crate) fn of(channel: &'c Channel) -> Self {
        let entries = channel.entries.as_slice();
        let positions = entries.iter().enumerate().map(|(at, entry)| (entry.name.as_str(), at));
        let replaced = entries.iter().map(|entry| entry.replaces.as_str());
        let skipped = entries.iter().flat_map(|entry| &entry.skips);
        Self {
            entries,
            positions: positions.collect(),
            skipped: skipped.map(String::as_str).collect(),
            replaced: replaced.filter(|name| !name.is_empty()).collect(),
        }
    }

    fn entry(&self, name: &str) -> Option<&'c Entry> {
        self.entries.get(*self.positions.get(name)?)
    }

    /// Entries that nothing replaces or skips.
    pub(crate) fn heads(&self) -> Vec<&'c Entry> {
        let is_head = |name: &str| !self.replaced.contains(name) && !self.skipped.contains(name);
        self.entries.iter().filter(|entry| is_head(&entry.name)).collect()
    }

    /// Every name from which the entries lead to a head, and the heads. If there is no head, every
    /// name of the channel: FBC-19 reports the missing head once.
    pub(crate) fn connected_entries(&self) -> BTreeSet<&'c str> {
        let mut waiting = self.heads();
        if waiting.is_empty() {
            waiting = self.entries.iter().collect();
        }
        let mut connected: BTreeSet<_> = waiting.iter().map(|entry| entry.name.as_str()).collect();
        while let Some(entry) = waiting.pop() {
            let names = entry.skips.iter().chain(std::iter::once(&entry.replaces));
            for name in names.filter(|name| !name.is_empty()) {
                if connected.insert(name) {
                    waiting.extend(self.entry(name));
                }
            }
        }
        connected
    }
}

rule! {
    /// a channel has one head
    ///
    /// Exactly one entry of a channel is named neither by `replaces` nor by `skips` of an entry of
    /// the channel. `skipRange` does not count. opgate reports only the first of FBC-19, FBC-20 and
    /// FBC-21 that a channel violates.
    ///
    /// # Why
    ///
    /// OLM updates to the head of the channel, and every installed version needs one successor
    /// (OpenShift 4.12, Operators, *olm.channel schema* and *Operator Lifecycle Manager workflow*).
    ///
    /// # Remediation
    ///
    /// If there are several heads, let the newest replace or skip the others. If there is none,
    /// remove the edge that closes the cycle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.0}
    /// - {name: etcd.v1.0.1, replaces: etcd.v1.0.0}
    /// - {name: etcd.v1.0.2, replaces: etcd.v1.0.0, skips: [etcd.v1.0.1]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.0}
    /// - {name: etcd.v1.0.1, replaces: etcd.v1.0.0}
    /// - {name: etcd.v1.0.2, replaces: etcd.v1.0.0}
    /// ```
    ///
    /// `message: multiple channel heads found in graph: etcd.v1.0.1, etcd.v1.0.2`, or `message: no
    /// channel head found in graph`
    FBC_19: Deny {
        name: "one-channel-head",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L743, L2384, L2436-2468", "OCP 4.15 L579, L1742-1850", "OKD L206", "operator-registry alpha/model/model.go"],
    }
}

rule! {
    /// the chain of replaced bundles has no cycle
    ///
    /// The walk from the head of the channel along `replaces` does not reach an entry twice. It
    /// ends at a name that an entry of the channel skips. FBC-19 reports a cycle that leaves no
    /// head.
    ///
    /// # Why
    ///
    /// A bundle would be older and newer than another at the same time; `opm validate` rejects such
    /// a channel (operator-registry).
    ///
    /// # Remediation
    ///
    /// Correct `replaces` of the oldest entry in the cycle, which the message lists.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.0}
    /// - {name: etcd.v1.0.1, replaces: etcd.v1.0.0}
    /// - {name: etcd.v1.0.2, replaces: etcd.v1.0.1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.0, replaces: etcd.v1.0.1}
    /// - {name: etcd.v1.0.1, replaces: etcd.v1.0.0}
    /// - {name: etcd.v1.0.2, replaces: etcd.v1.0.1}
    /// ```
    ///
    /// `message: detected cycle in replaces chain of upgrade graph: etcd.v1.0.1 -> etcd.v1.0.0 ->
    /// etcd.v1.0.1`
    FBC_20: Deny {
        name: "no-cycle-in-replaces-chain",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L743", "operator-registry alpha/model/model.go, alpha/model/model_test.go"],
    }
}

rule! {
    /// no entry of a channel is stranded
    ///
    /// Every entry is on the chain that leads from the head along `replaces`, or is named in
    /// `skips` of an entry of the channel. The chain ends at a skipped name.
    ///
    /// # Why
    ///
    /// Users of a stranded bundle get no more updates (OpenShift 4.12, Operators, *Updating or
    /// filtering a file-based catalog image*); `opm validate` rejects the channel.
    ///
    /// # Remediation
    ///
    /// Let a newer entry replace or skip the bundles that the message lists.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.0}
    /// - {name: etcd.v1.0.1, replaces: etcd.v1.0.0}
    /// - {name: etcd.v1.0.2, replaces: etcd.v1.0.0, skips: [etcd.v1.0.1]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.0}
    /// - {name: etcd.v1.0.1, replaces: etcd.v1.0.0}
    /// - {name: etcd.v1.0.2, skips: [etcd.v1.0.1]}
    /// ```
    ///
    /// `message: channel contains one or more stranded bundles: etcd.v1.0.0`
    FBC_21: Deny {
        name: "no-stranded-channel-entries",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L743, L2462-2465, L8651", "operator-registry alpha/model/model.go, alpha/model/model_test.go"],
    }
}

/// An error of upstream for a graph.
struct Defect {
    rule: &'static Rule,
    field: String,
    message: String,
}

impl Graph<'_> {
    /// The first error of upstream for the graph.
    fn find_defect(&self, channel: &Channel) -> Option<Defect> {
        let heads = self.heads();
        let (head, others) = match heads.split_first() {
            None if self.entries.is_empty() => return None,
            None => {
                let message = "no channel head found in graph".to_owned();
                return Some(Defect { rule: &FBC_19, field: channel.entries_field(), message });
            }
            Some((head, others)) => (*head, others),
        };
        if !others.is_empty() {
            let mut names: Vec<_> = heads.iter().map(|entry| entry.name.as_str()).collect();
            names.sort_unstable();
            let names = join(names, ", ");
            let message = format!("multiple channel heads found in graph: {names}");
            return Some(Defect { rule: &FBC_19, field: channel.entries_field(), message });
        }
        let mut chain = vec![head.name.as_str()];
        let mut seen = BTreeMap::from([(head.name.as_str(), 0)]);
        let mut current = Some(head);
        while let Some(entry) = current {
            let next = entry.replaces.as_str();
            if next.is_empty() || self.skipped.contains(next) {
                break;
            }
            if let Some(&since) = seen.get(next) {
                let cycle = chain.iter().skip(since).copied().chain([next]);
                let cycle = join(cycle, " -> ");
                let message = format!("detected cycle in replaces chain of upgrade graph: {cycle}");
                return Some(Defect {
                    rule: &FBC_20,
                    field: channel.entry_field(entry, "replaces"),
                    message,
                });
            }
            seen.insert(next, chain.len());
            chain.push(next);
            current = self.entry(next);
        }
        let is_stranded = |entry: &&Entry| {
            let name = entry.name.as_str();
            !seen.contains_key(name) && !self.skipped.contains(name)
        };
        let stranded: Vec<_> = self.entries.iter().filter(is_stranded).collect();
        let first = stranded.first()?;
        let mut names: Vec<_> = stranded.iter().map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        let names = join(names, ", ");
        let message = format!("channel contains one or more stranded bundles: {names}");
        Some(Defect { rule: &FBC_21, field: channel.entry_field(first, "name"), message })
    }
}

/// Evaluates the graph of a channel.
pub(crate) fn check(channel: &Channel, versions: &BundleVersions<'_>, report: &mut Report<'_>) {
    let graph = Graph::of(channel);
    let own: Vec<_> = channel.entries.iter().map(|entry| version_of(entry, versions)).collect();
    check_ranges_without_replaces(channel, &own, report);
    match graph.find_defect(channel) {
        Some(Defect { rule, field, message }) => report.add(rule, field, message),
        // Errors of the graph are not reported again for each release.
        None => check_patch_releases(channel, &graph, &own, report),
    }
}

/// Version of an entry: the version of its bundle, or else the part of its name after `.v`.
fn version_of<'v>(entry: &Entry, versions: &BundleVersions<'v>) -> Option<Cow<'v, Version>> {
    match versions.get(entry.name.as_str()) {
        Some(version) => Some(Cow::Borrowed(version)),
        None => Version::parse(entry.name.split_once(".v")?.1).ok().map(Cow::Owned),
    }
}

rule! {
    /// an entry with a skipRange also replaces the version before
    ///
    /// An entry with `skipRange` also has `replaces`. The first entry of the channel is exempt: the
    /// entry with the lowest version, by its bundle or else by its name after `.v`; if that is not
    /// known, the entry at the top of the list. The rule does not check which bundle the entry
    /// replaces.
    ///
    /// # Why
    ///
    /// Skipped versions are removed from the update graph, and `startingCSV` of a Subscription can
    /// no longer install them; with `replaces` they stay (OpenShift 4.12, Operators, *olm.channel
    /// schema*).
    ///
    /// # Remediation
    ///
    /// Add `replaces` with the name of the previous version.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v2.7.0, skipRange: ">=2.6.0 <2.7.0"}
    /// - {name: etcd.v2.7.1, replaces: etcd.v2.7.0, skipRange: ">=2.6.0 <2.7.1"}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.0}
    /// - {name: etcd.v2.0.0, skips: [etcd.v1.0.0], skipRange: <2.0.0}
    /// ```
    ///
    /// `message: entry "etcd.v2.0.0" uses skipRange without replaces: skipped versions are no
    /// longer installable with startingCSV`
    FBC_23: Warn {
        name: "skip-range-entry-has-replaces",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L773-778, L8666-8680", "OCP 4.15 L615-619"],
    }
}

/// Evaluates entries with a range. The first entry of a channel has no previous version: the entry
/// with the lowest version, or, if versions are not known, the entry at the top.
fn check_ranges_without_replaces(
    channel: &Channel,
    versions: &[Option<Cow<'_, Version>>],
    report: &mut Report<'_>,
) {
    let lowest = versions.iter().flatten().map(Cow::as_ref).min();
    for (index, (entry, version)) in channel.entries.iter().zip(versions).enumerate() {
        let is_first = match (version, lowest) {
            (Some(version), Some(lowest)) => version.as_ref() <= lowest,
            _ => index == 0,
        };
        if entry.has_range && entry.replaces.is_empty() && !is_first {
            let message = format!(
                "entry {} uses skipRange without replaces: skipped versions are no longer installable with startingCSV",
                quote(&entry.name)
            );
            report.add(&FBC_23, channel.entry_field(entry, "skipRange"), message);
        }
    }
}

/// Major and minor number.
fn minor_of(version: &Version) -> (u64, u64) {
    (version.major, version.minor)
}

rule! {
    /// the latest patch release of a minor version replaces the earlier ones
    ///
    /// In each channel, the highest version of a minor version covers all lower versions of it by
    /// `replaces`, `skips` or `skipRange`, directly or through entries of the same minor version.
    /// Prereleases do not count. The rule does not evaluate channels with a violation of FBC-19,
    /// FBC-20 or FBC-21, and evaluates at most 16 ranges of a minor version.
    ///
    /// # Why
    ///
    /// Users of an earlier patch release get to the latest one only if it replaces theirs
    /// (OpenShift 4.12, Operators, *Operator Lifecycle Manager workflow, Z-stream support*).
    ///
    /// # Remediation
    ///
    /// Let the latest patch release replace or skip the release that the message names.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.1}
    /// - {name: etcd.v1.0.2, replaces: etcd.v1.0.1}
    /// - {name: etcd.v1.1.0, replaces: etcd.v1.0.2}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.1}
    /// - {name: etcd.v1.0.2}
    /// - {name: etcd.v1.1.0, replaces: etcd.v1.0.1, skips: [etcd.v1.0.2]}
    /// ```
    ///
    /// `message: "etcd.v1.0.2" does not replace z-stream release "etcd.v1.0.1" of the same minor
    /// version`
    FBC_24: Warn {
        name: "latest-patch-replaces-earlier-patches",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L2359, L2524, L2543", "OCP 4.15 L1742-1850"],
    }
}

/// Evaluates the latest releases. Prereleases are not patch releases. A release also replaces the
/// entries that its replaced entries replace. The walk stays within the minor version, so that no
/// entry is visited twice.
fn check_patch_releases(
    channel: &Channel,
    graph: &Graph<'_>,
    versions: &[Option<Cow<'_, Version>>],
    report: &mut Report<'_>,
) {
    let mut minors: BTreeMap<(u64, u64), Vec<(&Entry, &Version)>> = BTreeMap::new();
    for (entry, version) in channel.entries.iter().zip(versions) {
        if let Some(version) = version.as_deref().filter(|version| version.pre.is_empty()) {
            minors.entry(minor_of(version)).or_default().push((entry, version));
        }
    }
    minors.retain(|_, releases| releases.len() > 1);
    for (minor, releases) in minors {
        let Some(&(latest, newest)) = releases.iter().max_by_key(|(_, version)| *version) else {
            continue;
        };
        let is_of_minor = |at: usize| {
            versions.get(at).is_some_and(|v| v.as_ref().is_some_and(|v| minor_of(v) == minor))
        };
        let (mut replaced, mut ranges) = (BTreeSet::new(), Vec::new());
        let mut waiting = vec![latest];
        while let Some(entry) = waiting.pop() {
            if ranges.len() < MAX_RANGES {
                ranges.extend(&entry.skip_range);
            }
            for name in entry.skips.iter().chain([&entry.replaces]) {
                let position = graph.positions.get(name.as_str()).copied();
                if replaced.insert(name.as_str())
                    && let Some(next) = position.filter(|at| is_of_minor(*at))
                {
                    waiting.extend(channel.entries.get(next));
                }
            }
        }
        for (entry, version) in releases {
            let is_replaced = version >= newest
                || replaced.contains(entry.name.as_str())
                || ranges.iter().any(|range| range.contains(version));
            if !is_replaced {
                let message = format!(
                    "{} does not replace z-stream release {} of the same minor version",
                    quote(&latest.name),
                    quote(&entry.name)
                );
                report.add(&FBC_24, channel.entry_field(latest, "name"), message);
            }
        }
    }
}
