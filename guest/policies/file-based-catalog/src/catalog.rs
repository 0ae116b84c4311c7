//! The blobs of a document, and what they owe each other: FBC-04 to FBC-06, FBC-11, FBC-14, FBC-18
//! and FBC-30 to FBC-32.
//!
//! ```text
//! spec.blobs ─▶ read, one by one ─▶ Catalog ─┬▶ packages, channels and bundles belong together
//!              (blob, properties,            ├▶ graph         each channel leads somewhere
//!               package, channel,            ├▶ deprecations  what they refer to is there
//!               bundle, deprecations)        └▶ baseline      what was published stays
//! ```
//!
//! A document has the blobs of one package, or those that belong to none.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::blob::{self, Blob, place};
use crate::bundle::{self, Bundle};
use crate::channel::{self, Channel};
use crate::deprecations::{self, Deprecations};
use crate::findings::{Findings, joined};
use crate::go_text;
use crate::graph;
use crate::objects::Objects;
use crate::package::{self, Package};
use crate::properties;
use crate::settings::Settings;

/// What the blobs of a document say.
pub(crate) struct Catalog {
    pub(crate) packages: Vec<Package>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) bundles: Vec<Bundle>,
    deprecations: Vec<Deprecations>,
    /// Packages that the blobs name and that the catalog has.
    known: BTreeSet<String>,
}

/// Whether the list of all packages, which is sorted, has a name.
fn is_listed(document: &Document, name: &str) -> bool {
    let (mut from, mut to) = (0, document.length("/spec/packages").unwrap_or_default());
    while from < to {
        let middle = from.midpoint(to);
        let found = document.text_or_empty(&format!("/spec/packages/{middle}"));
        match found.as_str().cmp(name) {
            Ordering::Equal => return true,
            Ordering::Less => from = middle.saturating_add(1),
            Ordering::Greater => to = middle,
        }
    }
    false
}

impl Catalog {
    /// Reads a document and judges its blobs one by one.
    pub(crate) fn read(
        document: &Document,
        settings: &Settings,
        findings: &mut Findings<'_>,
    ) -> Self {
        let mut catalog = Self {
            packages: Vec::new(),
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
            known: BTreeSet::new(),
        };
        let mut objects = Objects::default();
        let table = blob::table(document);
        for (at, row) in (0..).zip(table.iter()) {
            let blob = Blob::new(document, at, row);
            match blob.kind_of_all() {
                Kind::Object => catalog.add(&blob, settings, &mut objects, findings),
                Kind::Missing => {}
                kind => {
                    let message = go_text::wrong_value(kind, "map[string]interface {}");
                    findings.add("FBC-43", place(at, ""), message);
                }
            }
        }
        catalog.known = catalog.named(document);
        catalog
    }

    /// Of the packages that the blobs name, those that are there: blobs of the document itself, or named
    /// in the list of the whole catalog. That is as long as the catalog has packages, and sorted; it
    /// is not read for each of them.
    fn named(&self, document: &Document) -> BTreeSet<String> {
        let own = self.packages.iter().map(|package| &package.name);
        let mut known: BTreeSet<_> = own.filter(|name| !name.is_empty()).cloned().collect();
        let channels = self.channels.iter().map(|channel| &channel.package);
        let bundles = self.bundles.iter().map(|bundle| &bundle.package);
        let deprecations = self.deprecations.iter().map(|deprecations| &deprecations.package);
        let asked: BTreeSet<_> = channels.chain(bundles).chain(deprecations).collect();
        for name in asked {
            if !name.is_empty() && !known.contains(name) && is_listed(document, name) {
                known.insert(name.clone());
            }
        }
        known
    }

    fn add(
        &mut self,
        blob: &Blob<'_>,
        settings: &Settings,
        objects: &mut Objects,
        findings: &mut Findings<'_>,
    ) {
        let meta = blob.judge(settings, findings);
        match meta.schema.as_str() {
            blob::BUNDLE => {
                self.bundles.push(bundle::judge(blob, &meta, settings, objects, findings));
                return;
            }
            blob::PACKAGE => self.packages.push(package::judge(blob, &meta, findings)),
            blob::CHANNEL => {
                if meta.package.is_lacking() {
                    let name = quote(meta.name.as_str());
                    let message = format!("unknown package \"\" for channel {name}");
                    findings.add("FBC-04", blob.path(), message);
                }
                self.channels.push(channel::judge(blob, &meta, findings));
            }
            blob::DEPRECATIONS => {
                let number = self.deprecations.len();
                self.deprecations.push(deprecations::judge(blob, &meta, number, findings));
            }
            _ => {}
        }
        properties::judge(blob, &meta, settings, findings, |_, _| {});
    }

    /// Judges the blobs together.
    pub(crate) fn judge(&self, settings: &Settings, findings: &mut Findings<'_>) {
        self.packages_once(findings);
        self.left_overs(findings);
        let channels = self.channel_names(findings);
        let bundles = self.bundle_names(findings);
        self.complete(&channels, findings);
        self.entries_and_bundles(&bundles, settings, findings);
        self.versions_once(findings);
        let versions = self.bundles.iter().filter_map(|bundle| {
            bundle.version.as_ref().map(|version| (bundle.name.as_str(), version))
        });
        let versions = versions.collect();
        for channel in &self.channels {
            graph::judge(channel, &versions, findings);
        }
        let is_known = |name: &str| self.known.contains(name);
        deprecations::judge_references(&self.deprecations, is_known, &channels, &bundles, findings);
    }

    /// The package of the document, if it has one.
    pub(crate) fn package(&self) -> Option<&Package> {
        self.packages.iter().find(|package| !package.name.is_empty())
    }

    fn packages_once(&self, findings: &mut Findings<'_>) {
        let mut names = BTreeSet::new();
        for package in self.packages.iter().filter(|package| !package.name.is_empty()) {
            if !names.insert(package.name.as_str()) {
                let message = format!("duplicate package {}", quote(&package.name));
                findings.add("FBC-04", place(package.at, ".name"), message);
            }
        }
    }

    /// FBC-04: channels and bundles of a package that is not there.
    fn left_overs(&self, findings: &mut Findings<'_>) {
        let channels = self.channels.iter().map(|c| (c.at, &c.package, "channel", &c.name));
        let bundles = self.bundles.iter().map(|b| (b.at, &b.package, "bundle", &b.name));
        for (at, package, kind, name) in channels.chain(bundles) {
            if !package.is_empty() && !self.known.contains(package) {
                let message =
                    format!("unknown package {} for {kind} {}", quote(package), quote(name));
                findings.add("FBC-04", place(at, ".package"), message);
            }
        }
    }

    /// FBC-14. Gives the names.
    fn channel_names(&self, findings: &mut Findings<'_>) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for channel in self.channels.iter().filter(|channel| !channel.name.is_empty()) {
            if !names.insert(channel.name.as_str()) {
                let (package, name) = (quote(&channel.package), quote(&channel.name));
                let message = format!("package {package} has duplicate channel {name}");
                findings.add("FBC-14", place(channel.at, ".name"), message);
            }
        }
        names
    }

    /// FBC-30. Gives the names. Without a package nobody knows whether a name is taken.
    fn bundle_names(&self, findings: &mut Findings<'_>) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for bundle in self.bundles.iter().filter(|bundle| !bundle.name.is_empty()) {
            if !names.insert(bundle.name.as_str()) && !bundle.package.is_empty() {
                let (package, name) = (quote(&bundle.package), quote(&bundle.name));
                let message = format!("package {package} has duplicate bundle {name}");
                findings.add("FBC-30", bundle.name_field(), message);
            }
        }
        names
    }

    /// FBC-05, FBC-06 and FBC-11.
    fn complete(&self, channels: &BTreeSet<&str>, findings: &mut Findings<'_>) {
        let Some(first) = self.package() else { return };
        if self.channels.is_empty() {
            let message = "package must contain at least one channel";
            findings.add("FBC-05", place(first.at, ""), message);
        }
        if self.bundles.is_empty() {
            let message =
                format!("package {} must contain at least one olm.bundle blob", quote(&first.name));
            findings.add("FBC-06", place(first.at, ""), message);
        }
        // Where there is no channel at all, that is what is wrong.
        for package in self.packages.iter().filter(|_| !self.channels.is_empty()) {
            if let Some((name, field)) = &package.default_channel
                && !channels.contains(name.as_str())
            {
                let message = "channel must contain at least one bundle";
                findings.add("FBC-11", field.clone(), message);
            }
        }
    }

    /// FBC-18 and FBC-31. A package that is not there has no entries to belong to.
    fn entries_and_bundles(
        &self,
        bundles: &BTreeSet<&str>,
        settings: &Settings,
        findings: &mut Findings<'_>,
    ) {
        let in_package = |package: &String| !package.is_empty() && self.known.contains(package);
        let mut entries = BTreeSet::new();
        let last = self.channels.len().saturating_sub(1);
        for (index, channel) in self.channels.iter().enumerate() {
            entries.extend(channel.entries.iter().map(|entry| entry.name.as_str()));
            if !in_package(&channel.package) || settings.last_channel_only && index != last {
                continue;
            }
            let is_missing = |name: &str| !bundles.contains(name);
            let missing: Vec<_> =
                channel.entries.iter().filter(|entry| is_missing(&entry.name)).collect();
            if let Some(first) = missing.first() {
                let mut names: Vec<_> = missing.iter().map(|entry| entry.name.as_str()).collect();
                names.sort_unstable();
                let message = format!(
                    "no olm.bundle blobs found in package {} for olm.channel entries [{}]",
                    quote(&channel.package),
                    joined(names, " ")
                );
                findings.add("FBC-18", channel.entry_field(first, "name"), message);
            }
        }
        for bundle in self.bundles.iter().filter(|bundle| in_package(&bundle.package)) {
            if !bundle.name.is_empty() && !entries.contains(bundle.name.as_str()) {
                let message = format!(
                    "package {}, bundle {} not found in any channel entries",
                    quote(&bundle.package),
                    quote(&bundle.name)
                );
                findings.add("FBC-31", bundle.name_field(), message);
            }
        }
    }

    /// FBC-32.
    fn versions_once(&self, findings: &mut Findings<'_>) {
        let mut by_label: BTreeMap<&str, BTreeMap<&str, &Bundle>> = BTreeMap::new();
        for bundle in self.bundles.iter().filter(|bundle| !bundle.package.is_empty()) {
            if let Some(label) = &bundle.label {
                by_label.entry(label).or_default().entry(&bundle.name).or_insert(bundle);
            }
        }
        by_label.retain(|_, bundles| bundles.len() > 1);
        // The later one of the first two is where to look.
        let Some(latest) = by_label.values().flat_map(BTreeMap::values).max_by_key(|b| b.at) else {
            return;
        };
        let groups = by_label.iter().map(|(label, bundles)| {
            format!("{{{label}: [{}]}}", joined(bundles.keys().copied(), ", "))
        });
        let groups: Vec<_> = groups.collect();
        let groups = joined(groups.iter().map(String::as_str), " ");
        let message = format!("duplicate versions found in bundles: [{groups}]");
        findings.add("FBC-32", latest.name_field(), message);
    }
}
