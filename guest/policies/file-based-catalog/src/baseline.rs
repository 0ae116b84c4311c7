//! Comparison with the published catalog.
//!
//! Users who installed a bundle must find an update and the unchanged bundle. Catalogs grow with
//! new edges and new channels, so these are not compared.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use opgate_constraint::range::Range;
use opgate_constraint::version::Version;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Level, Report, Row, Rows, rule, rules};

use crate::CATALOG;
use crate::blob::{self, Blob, blob_path};
use crate::catalog::Catalog;
use crate::graph::Graph;

rules![FBC_45, FBC_46];

/// The members that distinguish properties and related images.
const IDENTIFYING_MEMBERS: [&str; 9] = [
    "/type",
    "/value",
    "/value/group",
    "/value/version",
    "/value/kind",
    "/value/packageName",
    "/value/versionRange",
    "/image",
    "/name",
];

/// The maximum number of comparisons of different items, in all bundles together: about 50 ms. A
/// bundle of 100 constraints in reverse order takes 5,000.
const MAX_COMPARISONS: u32 = 100_000;

rule! {
    /// every published bundle has an update path to a channel head
    ///
    /// An UPDATE compares the catalog with the published one (`opgate check --baseline`). In a
    /// package that still exists, every published bundle is a head, or heads lead to it by
    /// `replaces` and `skips`, or its version is in `skipRange` of a head. In a channel without a
    /// head, every entry counts as a head. You can remove a whole package.
    ///
    /// # Why
    ///
    /// Users can have installed each published bundle, and get no update without a path (OpenShift
    /// 4.12, Operators, *Updating or filtering a file-based catalog image*).
    ///
    /// # Remediation
    ///
    /// Let a newer entry replace or skip the bundle that the message names. You can remove the
    /// bundle itself.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # Published: etcd.v1.0.0, and etcd.v1.0.1, which replaces it. Now etcd.v1.0.1 is withdrawn:
    /// entries:
    /// - {name: etcd.v1.0.0}
    /// - {name: etcd.v1.0.2, replaces: etcd.v1.0.0, skips: [etcd.v1.0.1]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Published: etcd.v1.0.0, and etcd.v1.0.1, which replaces it. Now etcd.v1.0.0 is dropped:
    /// entries: [{name: etcd.v1.0.1}]
    /// ```
    ///
    /// `message: bundle "etcd.v1.0.0" of package "etcd" has no update path to the current or newer
    /// channel head`
    FBC_45: Deny {
        name: "published-bundle-update-path",
        on: [CATALOG: Update],
        source: ["OCP 4.12 L971, L2459-2468, L8651", "OCP 4.15 L863-872, L6117-6119", "OKD L328-329"],
    }
}

rule! {
    /// a published bundle does not change
    ///
    /// An UPDATE compares the catalog with the published one (`opgate check --baseline`). `image`,
    /// `properties` and `relatedImages` of a bundle of the same name stay the same. The order of
    /// both lists does not count, up to 100,000 comparisons of different items. New channels and
    /// new edges are accepted, and so is the removal of a bundle (see FBC-45). The rule is declared
    /// as a warning, but it denies unless the configuration sets a level: if you name the published
    /// catalog, its bundles must not change. Set `warn` for warnings.
    ///
    /// # Why
    ///
    /// OLM does not reinstall a bundle if its content changes in the catalog, so users have
    /// different contents under one name (OpenShift 4.12, Operators, *Immutable bundles*).
    ///
    /// # Remediation
    ///
    /// Restore the bundle, and release the change as a new bundle that replaces it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # Published: etcd.v1.0.0 in the channel stable. Now it is in another one too:
    /// {schema: olm.channel, package: etcd, name: fast, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Published with the image quay.io/example/etcd:v1.0.0:
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: quay.io/example/etcd:fixed}
    /// ```
    ///
    /// `message: bundle "etcd.v1.0.0" changed: bundle images and their metadata should be treated
    /// as immutable`
    FBC_46: Warn {
        name: "immutable-published-bundle",
        on: [CATALOG: Update],
        source: ["OCP 4.12 L557-563, L968-980", "OCP 4.15 L863-872", "OKD L116-119, L328-337"],
    }
}

/// Evaluates a document against the published one.
pub(crate) fn check(
    catalog: &Catalog,
    document: &Document,
    published: &Document,
    report: &mut Report<'_>,
) {
    // You can remove a whole package.
    let Some(package) = catalog.package() else { return };
    let mut current = BTreeMap::new();
    for bundle in &catalog.bundles {
        current.entry(bundle.name.as_str()).or_insert(bundle);
    }
    let (mut connected, mut ranges) = (BTreeSet::new(), Vec::new());
    for channel in &catalog.channels {
        let graph = Graph::of(channel);
        connected.append(&mut graph.connected_entries());
        ranges.extend(graph.heads().into_iter().filter_map(|head| head.skip_range.as_ref()));
    }
    let mut lost = Vec::new();
    let mut names = BTreeSet::new();
    let mut tries = MAX_COMPARISONS;
    let (table, old_table) = (blob::read_blobs(document), blob::read_blobs(published));
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
            if let Some(member) = find_change(&old, &new, &mut tries) {
                let message = format!(
                    "bundle {} changed: bundle images and their metadata should be treated as immutable",
                    quote(&name)
                );
                let field = match new.kind(member) {
                    Kind::Missing => new.path(),
                    _ => new.field(member),
                };
                // Declared as a warning; but users who name the published catalog require that it
                // does not change.
                report.add_as(Level::Deny, &FBC_46, field, message);
            }
        }
        if !connected.contains(name.as_str()) {
            lost.push((name, bundle_version(&old)));
        }
    }
    for name in find_stranded(&lost, &ranges) {
        let message = format!(
            "bundle {} of package {} has no update path to the current or newer channel head",
            quote(&name),
            quote(&package.name)
        );
        report.add(&FBC_45, blob_path(package.at, ""), message);
    }
}

/// The version that a published bundle declares.
fn bundle_version(bundle: &Blob<'_>) -> Option<Version> {
    let properties = bundle.value().items(&bundle.pointer("properties"));
    let mut packages =
        properties.filter(|item| item.text("/type").as_deref() == Some(blob::PACKAGE));
    Version::parse(&packages.next()?.text("/value/version")?).ok()
}

/// The bundles that no head skips by its range either, in the order of the input. Versions are
/// sorted once, and each interval of each range is a slice of them.
fn find_stranded(lost: &[(String, Option<Version>)], ranges: &[&Range]) -> Vec<String> {
    if lost.is_empty() {
        return Vec::new();
    }
    let mut versions: Vec<_> = lost.iter().filter_map(|(_, version)| version.as_ref()).collect();
    versions.sort();
    versions.dedup();
    let mut changes = vec![0_i64; versions.len() + 1];
    for (low, high) in ranges.iter().flat_map(|range| range.intervals()) {
        let from = low.map_or(0, |end| {
            versions.partition_point(|v| *v < end.version || *v == end.version && !end.is_included)
        });
        let to = high.map_or(versions.len(), |end| {
            versions.partition_point(|v| *v < end.version || *v == end.version && end.is_included)
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

/// The first member of a bundle that changed.
fn find_change(old: &Blob<'_>, new: &Blob<'_>, tries: &mut u32) -> Option<&'static str> {
    ["image", "properties", "relatedImages"].into_iter().find(|member| {
        let before = BlobList { document: old.value(), pointer: old.pointer(member) };
        let after = BlobList { document: new.value(), pointer: new.pointer(member) };
        !old.value().equal(&before.pointer, new.value(), &after.pointer)
            && !same_items(&before, &after, tries)
    })
}

/// A member with the expected type list.
struct BlobList<'d> {
    document: &'d Document,
    pointer: String,
}

impl BlobList<'_> {
    fn length(&self) -> Option<u32> {
        let is_list = self.document.kind(&self.pointer) == Kind::List;
        self.document.length(&self.pointer).filter(|_| is_list)
    }

    fn rows(&self) -> Rows {
        self.document.rows(&self.pointer, &IDENTIFYING_MEMBERS)
    }

    /// Whether an item equals an item of another list.
    fn equal(&self, at: u32, other: &Self, other_at: u32) -> bool {
        let [pointer, other_pointer] =
            [(self, at), (other, other_at)].map(|(list, at)| format!("{}/{at}", list.pointer));
        self.document.equal(&pointer, other.document, &other_pointer)
    }
}

/// Whether two lists differ only in their order: OLM treats them as sets.
///
/// Both lists are sorted by the texts that distinguish most items, regardless of their spelling.
/// Items with equal texts are compared with each other; `tries` limits the number of comparisons of
/// different items.
fn same_items(before: &BlobList<'_>, after: &BlobList<'_>, tries: &mut u32) -> bool {
    if before.length().is_none() || before.length() != after.length() {
        return false;
    }
    let (old_rows, new_rows) = (before.rows(), after.rows());
    let (old, new) = (sort_rows(&old_rows), sort_rows(&new_rows));
    if old.len() != new.len() || old.iter().zip(&new).any(|(o, n)| compare(o, n).is_ne()) {
        return false;
    }
    let mut new = new.as_slice();
    for alike in old.chunk_by(|one, other| compare(one, other).is_eq()) {
        let Some((candidates, rest)) = new.split_at_checked(alike.len()) else { return false };
        new = rest;
        let mut open: VecDeque<u32> = candidates.iter().map(|(_, at)| *at).collect();
        for (_, at) in alike {
            let mut remaining = open.len();
            while let Some(candidate) = open.pop_front() {
                if before.equal(*at, after, candidate) {
                    break;
                }
                open.push_back(candidate);
                remaining -= 1;
                if remaining == 0 || *tries == 0 {
                    return false;
                }
                *tries -= 1;
            }
        }
    }
    true
}

/// The items of a list, in an order that does not depend on the order of the list.
fn sort_rows(rows: &Rows) -> Vec<(Row<'_>, u32)> {
    let mut items: Vec<_> = rows.iter().zip(0..).collect();
    items.sort_by(compare);
    items
}

fn compare((one, _): &(Row<'_>, u32), (other, _): &(Row<'_>, u32)) -> Ordering {
    let columns = 0..IDENTIFYING_MEMBERS.len();
    let texts = columns.map(|column| one.text_or_empty(column).cmp(other.text_or_empty(column)));
    texts.fold(Ordering::Equal, Ordering::then)
}
