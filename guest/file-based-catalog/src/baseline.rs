//! What was published before: FBC-45 and FBC-46.
//!
//! Whoever installed a bundle must get away from it, and finds it as it was. New edges and new
//! channels are what catalogs grow by, and nobody's concern here.

use std::collections::{BTreeMap, BTreeSet};

use constraints::range::Range;
use constraints::version::Version;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::blob::{self, Blob, place};
use crate::catalog::Catalog;
use crate::findings::Findings;
use crate::graph::Graph;

/// Types of properties that hold whole objects. They are compared where they are.
const LARGE: [&str; 2] = ["olm.bundle.object", "olm.csv.metadata"];

/// Judges a document against the published one.
pub(crate) fn judge(
    catalog: &Catalog,
    document: &Document,
    published: &Document,
    findings: &mut Findings<'_>,
) {
    // A package may go as a whole.
    let Some(package) = catalog.package() else { return };
    let mut current = BTreeMap::new();
    for bundle in &catalog.bundles {
        current.entry(bundle.name.as_str()).or_insert(bundle);
    }
    let (mut connected, mut ranges) = (BTreeSet::new(), Vec::new());
    for channel in &catalog.channels {
        let graph = Graph::of(channel);
        connected.append(&mut graph.connected());
        ranges.extend(graph.heads().into_iter().filter_map(|head| head.skip_range.as_ref()));
    }
    let mut lost = Vec::new();
    let mut names = BTreeSet::new();
    let (table, old_table) = (blob::table(document), blob::table(published));
    let rows: Vec<_> = table.iter().collect();
    for (at, row) in (0..).zip(old_table.iter()) {
        let old = Blob::new(published, at, row);
        let name = old.text_of("name").unwrap_or_default();
        let is_bundle = old.text_of("schema").as_deref() == Some(blob::BUNDLE);
        if !is_bundle || name.is_empty() || !names.insert(name.clone()) {
            continue;
        }
        if let Some(bundle) = current.get(name.as_str())
            && let Some(row) = usize::try_from(bundle.at).ok().and_then(|at| rows.get(at))
        {
            let new = Blob::new(document, bundle.at, *row);
            if let Some(member) = change(&old, &new) {
                let message = format!(
                    "bundle {} changed: bundle images and their metadata should be treated as immutable",
                    quote(&name)
                );
                let field = match new.kind(member) {
                    Kind::Missing => new.path(),
                    _ => new.field(member),
                };
                findings.add("FBC-46", field, message);
            }
        }
        if !connected.contains(name.as_str()) {
            lost.push((name, version(&old)));
        }
    }
    for name in stranded(&lost, &ranges) {
        let message = format!(
            "bundle {} of package {} has no update path to the current or newer channel head",
            quote(&name),
            quote(&package.name)
        );
        findings.add("FBC-45", place(package.at, ""), message);
    }
}

/// The version that a published bundle says it has.
fn version(bundle: &Blob<'_>) -> Option<Version> {
    let properties = bundle.value().items(&bundle.pointer("properties"));
    let mut packages =
        properties.filter(|item| item.text("/type").as_deref() == Some(blob::PACKAGE));
    Version::parse(&packages.next()?.text("/value/version")?).ok()
}

/// Those that no head skips by its range either, in the order given. Versions are sorted once, and
/// each interval of each range is a cut through them.
fn stranded(lost: &[(String, Option<Version>)], ranges: &[&Range]) -> Vec<String> {
    if lost.is_empty() {
        return Vec::new();
    }
    let mut versions: Vec<_> = lost.iter().filter_map(|(_, version)| version.as_ref()).collect();
    versions.sort();
    versions.dedup();
    let mut changes = vec![0_i64; versions.len() + 1];
    for (low, high) in ranges.iter().flat_map(|range| range.spans()) {
        let from = low.map_or(0, |(low, included)| {
            versions.partition_point(|v| *v < low || *v == low && !included)
        });
        let to = high.map_or(versions.len(), |(high, included)| {
            versions.partition_point(|v| *v < high || *v == high && included)
        });
        if from < to {
            changes.get_mut(from).into_iter().for_each(|change| *change += 1);
            changes.get_mut(to).into_iter().for_each(|change| *change -= 1);
        }
    }
    let mut covered = BTreeSet::new();
    let mut depth = 0;
    for (version, change) in versions.iter().zip(changes) {
        depth += change;
        if depth > 0 {
            covered.insert(*version);
        }
    }
    let is_stranded =
        |version: &Option<Version>| !version.as_ref().is_some_and(|v| covered.contains(v));
    let names = lost.iter().filter(|(_, version)| is_stranded(version));
    names.map(|(name, _)| name.clone()).collect()
}

/// The first member of a bundle that is not what it was.
fn change(old: &Blob<'_>, new: &Blob<'_>) -> Option<&'static str> {
    ["image", "properties", "relatedImages"].into_iter().find(|member| {
        let (before, after) = (old.pointer(member), new.pointer(member));
        !old.value().equal(&before, new.value(), &after)
            && !same_items(old.value(), &before, new.value(), &after)
    })
}

/// Whether two lists differ in their order only: to OLM, they are sets.
fn same_items(old: &Document, before: &str, new: &Document, after: &str) -> bool {
    if old.kind(before) != Kind::List || old.length(before) != new.length(after) {
        return false;
    }
    let (left, right) = (items(old, before), items(new, after));
    left.len() == right.len()
        && left.iter().zip(&right).all(|((key, at), (other_key, other_at))| {
            let (before, after) = (format!("{before}/{at}"), format!("{after}/{other_at}"));
            key == other_key && old.equal(&before, new, &after)
        })
}

/// The items in an order that does not depend on theirs, with what they are ordered by. Large ones
/// of one type keep theirs.
fn items(document: &Document, pointer: &str) -> Vec<(Vec<u8>, u32)> {
    let mut items = Vec::new();
    for (index, item) in (0_u32..).zip(document.items(pointer)) {
        let kind = item.text_or_empty("/type");
        let key = if LARGE.contains(&kind.as_str()) {
            kind.into_bytes()
        } else {
            item.raw("").unwrap_or_default()
        };
        items.push((key, index));
    }
    items.sort();
    items
}
