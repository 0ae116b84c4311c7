//! The upgrade graph of a channel: FBC-19 to FBC-21, FBC-23 and FBC-24.
//!
//! ```text
//!            replaces        replaces
//!   head ──────────────▶ e ──────────────▶ e        one chain from the head; a name that is skipped
//!     └──▶ skips                                    ends it. What is in neither is stranded.
//! ```
//!
//! Every walk is a loop over names, and costs n log n: no walk visits an entry twice.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;

use crate::channel::{Channel, Entry};
use crate::findings::{Findings, joined};
use crate::version::Version;

/// Ranges along the chain from the latest release of a minor version that FBC-24 looks at. What is
/// farther away is replaced by `replaces`.
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

    /// How `replaces` hangs together.
    fn chains(&self) -> Chains {
        let mut children = vec![Vec::new(); self.entries.len()];
        let mut parents = Vec::with_capacity(self.entries.len());
        for (at, entry) in self.entries.iter().enumerate() {
            let parent = self.positions.get(entry.replaces.as_str()).copied();
            if let Some(children) = parent.and_then(|parent| children.get_mut(parent)) {
                children.push(at);
            }
            parents.push(parent);
        }
        let mut spans = vec![None; self.entries.len()];
        let mut time = 0_usize;
        for (root, _) in parents.iter().enumerate().filter(|(_, parent)| parent.is_none()) {
            let mut open = vec![(root, 0_usize)];
            set(&mut spans, root, (time, time));
            while let Some((at, next)) = open.last_mut() {
                let child = children.get(*at).and_then(|children| children.get(*next)).copied();
                *next += 1;
                if let Some(child) = child {
                    time += 1;
                    set(&mut spans, child, (time, time));
                    open.push((child, 0));
                } else {
                    if let Some(Some((_, last))) = spans.get_mut(*at) {
                        *last = time;
                    }
                    open.pop();
                }
            }
            time += 1;
        }
        Chains { parents, spans }
    }
}

fn set(spans: &mut [Option<(usize, usize)>], at: usize, span: (usize, usize)) {
    if let Some(slot) = spans.get_mut(at) {
        *slot = Some(span);
    }
}

/// The forest that `replaces` makes of the entries: what is replaced is the parent.
struct Chains {
    parents: Vec<Option<usize>>,
    /// For each entry, when a walk over its tree comes to it and when it has seen all that leads to
    /// it. None for entries that a cycle keeps from being walked to.
    spans: Vec<Option<(usize, usize)>>,
}

impl Chains {
    /// Whether the chain from one entry comes to another, or starts there.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let span = |at: usize| self.spans.get(at).copied().flatten();
        match (span(from), span(to)) {
            (Some((at, _)), Some((first, last))) => first <= at && at <= last,
            _ => false,
        }
    }

    /// The chain from an entry.
    fn from(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(at), |at| self.parents.get(*at).copied().flatten())
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
fn version_of(entry: &Entry, versions: &Versions<'_>) -> Option<Version> {
    match versions.get(entry.name.as_str()) {
        Some(version) => Some((*version).clone()),
        None => Version::parse(entry.name.split_once(".v")?.1).ok(),
    }
}

/// FBC-23. The first entry of a channel has no previous version: that is the lowest one, or, where
/// versions are not known, the one at the top.
fn ranges_without_replaces(
    channel: &Channel,
    versions: &[Option<Version>],
    findings: &mut Findings<'_>,
) {
    let lowest = versions.iter().flatten().min();
    for (index, (entry, version)) in channel.entries.iter().zip(versions).enumerate() {
        let is_first = match (version, lowest) {
            (Some(version), Some(lowest)) => version <= lowest,
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

/// FBC-24. Prereleases are no patch releases.
fn patch_releases(
    channel: &Channel,
    graph: &Graph<'_>,
    versions: &[Option<Version>],
    findings: &mut Findings<'_>,
) {
    let released = || {
        let all = channel.entries.iter().zip(versions).enumerate();
        all.filter_map(|(at, (entry, version))| {
            let version = version.as_ref().filter(|version| !version.is_prerelease())?;
            Some((at, entry, version))
        })
    };
    let mut latest: BTreeMap<(u64, u64), (usize, &Entry, &Version)> = BTreeMap::new();
    for (at, entry, version) in released() {
        let best = latest.entry(version.minor()).or_insert((at, entry, version));
        if version > best.2 {
            *best = (at, entry, version);
        }
    }
    if latest.len() == channel.entries.len() {
        return;
    }
    let chains = graph.chains();
    let mut skippers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, entry) in channel.entries.iter().enumerate() {
        for skip in &entry.skips {
            skippers.entry(skip).or_default().push(at);
        }
    }
    let mut ranges = BTreeMap::new();
    for (at, entry, version) in released() {
        let Some(&(head, best, newest)) = latest.get(&version.minor()) else { continue };
        if version >= newest {
            continue;
        }
        let ranges = ranges.entry(version.minor()).or_insert_with(|| {
            let chain = chains.from(head).take(RANGES);
            let entries = chain.filter_map(|at| channel.entries.get(at));
            entries.filter_map(|entry| entry.skip_range.as_ref()).collect::<Vec<_>>()
        });
        let skips = skippers.get(entry.name.as_str());
        let is_replaced = chains.reaches(head, at)
            || skips.is_some_and(|skips| skips.iter().any(|&by| chains.reaches(head, by)))
            || ranges.iter().any(|range| range.contains(version));
        if !is_replaced {
            let message = format!(
                "{} does not replace z-stream release {} of the same minor version",
                quote(&best.name),
                quote(&entry.name)
            );
            findings.add("FBC-24", channel.entry_field(best, "name"), message);
        }
    }
}
