//! The upgrade graph of a channel: FBC-19 to FBC-21, FBC-23 and FBC-24.
//!
//! ```text
//!            replaces        replaces
//!   head ──────────────▶ e ──────────────▶ e        one chain from the head; a name that is skipped
//!     └──▶ skips                                    ends it. What is in neither is stranded.
//! ```
//!
//! Every walk is a loop over names, and costs n log n: no walk visits an entry twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use opgate_constraint::version::Version;
use opgate_sdk::go::quote;

use crate::channel::{Channel, Entry};
use crate::findings::{Findings, joined};

/// Ranges of a minor version that FBC-24 looks at, those of the latest release first. More would
/// make it look at everything for everything.
const RANGES: usize = 16;

/// The graph of one channel. Positions are those in its list of entries.
pub(crate) struct Graph<'c> {
    entries: &'c [Entry],
    positions: BTreeMap<&'c str, usize>,
    /// Names that an entry skips.
    skipped: BTreeSet<&'c str>,
    /// Names that an entry replaces.
    replaced: BTreeSet<&'c str>,
}

/// Versions of bundles by name.
pub(crate) type Versions<'c> = BTreeMap<&'c str, &'c Version>;

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

    /// Every name from which the entries lead to a head, and the heads. Where there is no head,
    /// every name of the channel: that there is none is said once, by FBC-19.
    pub(crate) fn connected(&self) -> BTreeSet<&'c str> {
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

    /// The first thing that upstream says against the graph: rule, path and message.
    fn defect(&self, channel: &Channel) -> Option<(&'static str, String, String)> {
        let heads = self.heads();
        let (head, others) = match heads.split_first() {
            None if self.entries.is_empty() => return None,
            None => {
                let message = "no channel head found in graph".to_owned();
                return Some(("FBC-19", channel.entries_field(), message));
            }
            Some((head, others)) => (*head, others),
        };
        if !others.is_empty() {
            let mut names: Vec<_> = heads.iter().map(|entry| entry.name.as_str()).collect();
            names.sort_unstable();
            let names = joined(names, ", ");
            let message = format!("multiple channel heads found in graph: {names}");
            return Some(("FBC-19", channel.entries_field(), message));
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
                let cycle = joined(cycle, " -> ");
                let message = format!("detected cycle in replaces chain of upgrade graph: {cycle}");
                return Some(("FBC-20", channel.entry_field(entry, "replaces"), message));
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
        let names = joined(names, ", ");
        let message = format!("channel contains one or more stranded bundles: {names}");
        Some(("FBC-21", channel.entry_field(first, "name"), message))
    }
}

/// Judges the graph of a channel.
pub(crate) fn judge(channel: &Channel, versions: &Versions<'_>, findings: &mut Findings<'_>) {
    let graph = Graph::of(channel);
    let own: Vec<_> = channel.entries.iter().map(|entry| version_of(entry, versions)).collect();
    ranges_without_replaces(channel, &own, findings);
    match graph.defect(channel) {
        Some((rule, field, message)) => findings.add(rule, field, message),
        // What is wrong with the graph is not told a second time, release by release.
        None => patch_releases(channel, &graph, &own, findings),
    }
}

/// Version of an entry: that of its bundle, or else what its name says after `.v`.
fn version_of<'v>(entry: &Entry, versions: &Versions<'v>) -> Option<Cow<'v, Version>> {
    match versions.get(entry.name.as_str()) {
        Some(version) => Some(Cow::Borrowed(version)),
        None => Version::parse(entry.name.split_once(".v")?.1).ok().map(Cow::Owned),
    }
}

/// FBC-23. The first entry of a channel has no previous version: that is the lowest one, or, where
/// versions are not known, the one at the top.
fn ranges_without_replaces(
    channel: &Channel,
    versions: &[Option<Cow<'_, Version>>],
    findings: &mut Findings<'_>,
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
            findings.add("FBC-23", channel.entry_field(entry, "skipRange"), message);
        }
    }
}

/// Major and minor number.
fn minor_of(version: &Version) -> (u64, u64) {
    (version.major, version.minor)
}

/// FBC-24. Prereleases are no patch releases. What a release replaces, it replaces with all that is
/// replaced by that; the walk stays within the minor version, so that no entry is walked twice.
fn patch_releases(
    channel: &Channel,
    graph: &Graph<'_>,
    versions: &[Option<Cow<'_, Version>>],
    findings: &mut Findings<'_>,
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
            if ranges.len() < RANGES {
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
                findings.add("FBC-24", channel.entry_field(latest, "name"), message);
            }
        }
    }
}
