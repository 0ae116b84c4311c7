//! The blobs of a document, first each blob separately, then all together.
//!
//! A document has the blobs of one package, or the blobs that belong to no package.

pub(crate) mod members;
pub(crate) mod unique;

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Kind, Report, corrections, rule, rules};

use crate::blob::{self, Blob, blob_path};
use crate::bundle::{self, Bundle};
use crate::channel::{self, Channel};
use crate::deprecations::{self, Deprecations};
use crate::files::FBC_43;
use crate::objects::Objects;
use crate::package::{self, Package};
use crate::settings::Settings;
use crate::{CATALOG, go_text, graph, package_list, properties};

rules![FBC_04];

/// The values of the blobs of a document.
pub(crate) struct Catalog {
    pub(crate) packages: Vec<Package>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) bundles: Vec<Bundle>,
    deprecations: Vec<Deprecations>,
    /// Packages that the blobs name and that the catalog has.
    pub(crate) known_packages: BTreeSet<String>,
}

impl Catalog {
    /// Reads a document and evaluates each blob separately.
    pub(crate) fn read(document: &Document, settings: &Settings, report: &mut Report<'_>) -> Self {
        let mut catalog = Self {
            packages: Vec::new(),
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
            known_packages: BTreeSet::new(),
        };
        let mut objects = Objects::default();
        let table = blob::read_blobs(document);
        let channels =
            table.iter().filter(|row| row.text(blob::SCHEMA_COLUMN) == Some(blob::CHANNEL));
        let channels: BTreeSet<&str> =
            channels.filter_map(|row| row.text(blob::NAME_COLUMN)).collect();
        let only_channel = channels.first().copied().filter(|_| channels.len() == 1);
        let (mut templates, mut blobs) = (0, 0);
        for (at, row) in (0..).zip(table.iter()) {
            let blob = Blob::new(document, at, row);
            blobs += 1;
            match blob.kind_of_all() {
                Kind::Object if blob.is_template(settings) => templates += 1,
                Kind::Object => {
                    catalog.add_blob(&blob, settings, &mut objects, only_channel, report);
                }
                Kind::Missing => {}
                kind => {
                    let message = go_text::wrong_value(kind, "map[string]interface {}");
                    report.add(&FBC_43, blob_path(at, ""), message);
                }
            }
        }
        blob::skip_templates(templates, blobs, report);
        catalog.known_packages = catalog.named_packages(document);
        catalog
    }

    /// The existing packages among those that the blobs name: packages with a blob in the document,
    /// or in the list of all packages of the catalog. That list is sorted and can be long, so it is
    /// not read for each name.
    fn named_packages(&self, document: &Document) -> BTreeSet<String> {
        let own = self.packages.iter().map(|package| &package.name);
        let mut known: BTreeSet<_> = own.filter(|name| !name.is_empty()).cloned().collect();
        let channels = self.channels.iter().map(|channel| &channel.package);
        let bundles = self.bundles.iter().map(|bundle| &bundle.package);
        let deprecations = self.deprecations.iter().map(|deprecations| &deprecations.package);
        let package_names: BTreeSet<_> = channels.chain(bundles).chain(deprecations).collect();
        for name in package_names {
            if !name.is_empty() && !known.contains(name) && package_list::is_listed(document, name)
            {
                known.insert(name.clone());
            }
        }
        known
    }

    fn add_blob(
        &mut self,
        blob: &Blob<'_>,
        settings: &Settings,
        objects: &mut Objects,
        only_channel: Option<&str>,
        report: &mut Report<'_>,
    ) {
        let meta = blob.check(settings, report);
        match meta.schema.as_str() {
            blob::BUNDLE => {
                self.bundles.push(bundle::check(blob, &meta, settings, objects, report));
                return;
            }
            blob::PACKAGE => {
                self.packages.push(package::check(blob, &meta, only_channel, report));
            }
            blob::CHANNEL => {
                if meta.package.is_missing() {
                    let name = quote(meta.name.as_str());
                    let message = format!("unknown package \"\" for channel {name}");
                    report.add(&FBC_04, blob.path(), message);
                }
                self.channels.push(channel::check(blob, &meta, report));
            }
            blob::DEPRECATIONS => {
                let number = self.deprecations.len();
                self.deprecations.push(deprecations::check(blob, &meta, number, report));
            }
            _ => {}
        }
        properties::check(blob, &meta, settings, report, |_, _| {});
    }

    /// Evaluates the blobs together.
    pub(crate) fn check(&self, document: &Document, settings: &Settings, report: &mut Report<'_>) {
        self.check_unique_packages(report);
        self.check_missing_packages(document, report);
        let channels = unique::check_channel_names(self, report);
        let bundles = unique::check_bundle_names(self, report);
        members::check_complete(self, report);
        members::check_default_channels(self, &channels, report);
        members::check_entries_and_bundles(self, &bundles, settings, report);
        unique::check_versions(self, report);
        let versions = self.bundles.iter().filter_map(|bundle| {
            bundle.version.as_ref().map(|version| (bundle.name.as_str(), version))
        });
        let versions = versions.collect();
        for channel in &self.channels {
            graph::check(channel, &versions, report);
        }
        let is_known = |name: &str| self.known_packages.contains(name);
        deprecations::check_references(&self.deprecations, is_known, &channels, &bundles, report);
    }

    /// The package of the document, if it has one.
    pub(crate) fn package(&self) -> Option<&Package> {
        self.packages.iter().find(|package| !package.name.is_empty())
    }
}

rule! {
    /// each package has exactly one olm.package blob, and channels and bundles name a package of the catalog
    ///
    /// No two `olm.package` blobs of the catalog have the same name. `package` of each
    /// `olm.channel` and `olm.bundle` blob names a package of the catalog. This rule reports a
    /// channel without `package`, and FBC-26 reports a bundle without `package`.
    ///
    /// # Why
    ///
    /// `opm validate` rejects duplicate packages, and blobs that a removed package leaves behind
    /// (OpenShift 4.12, Operators, *File-based catalogs* and *Updating or filtering a file-based
    /// catalog image*).
    ///
    /// # Remediation
    ///
    /// Remove the second `olm.package` blob. Remove a package together with its channels and
    /// bundles. Correct a misspelt name.
    ///
    /// `opgate check --fix` corrects a name that differs in case or hyphens. With
    /// `--unsafe-fixes`, it proposes the most similar package if only channels or only bundles have
    /// the unknown name.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.package, name: etcd, defaultChannel: stable}
    /// ---
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The catalog has no package gone.
    /// {schema: olm.channel, package: gone, name: stable, entries: [{name: gone.v1.0.0}]}
    /// ```
    ///
    /// `message: unknown package "gone" for channel "stable"`, or for a second blob
    /// `message: duplicate package "etcd"`
    FBC_04: Deny {
        name: "one-package-blob-per-package",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L577, L696, L8655", "OCP 4.15 L437-439, L531-533", "OKD L127, L180-183", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

impl Catalog {
    /// Reports packages with the same name.
    fn check_unique_packages(&self, report: &mut Report<'_>) {
        let mut names = BTreeSet::new();
        for package in self.packages.iter().filter(|package| !package.name.is_empty()) {
            if !names.insert(package.name.as_str()) {
                let message = format!("duplicate package {}", quote(&package.name));
                report.add(&FBC_04, blob_path(package.at, ".name"), message);
            }
        }
    }

    /// Reports channels and bundles of a missing package.
    fn check_missing_packages(&self, document: &Document, report: &mut Report<'_>) {
        let channels = self.channels.iter().map(|c| (c.at, &c.package, "channel", &c.name));
        let bundles = self.bundles.iter().map(|b| (b.at, &b.package, "bundle", &b.name));
        for (at, package, kind, name) in channels.chain(bundles) {
            if !package.is_empty() && !self.known_packages.contains(package) {
                let message =
                    format!("unknown package {} for {kind} {}", quote(package), quote(name));
                report.add(&FBC_04, blob_path(at, ".package"), message);
                report.set_fix(&FBC_04, || {
                    let pointer = format!("/spec/blobs/{at}/value/package");
                    self.correct_package(pointer, package, document)
                });
            }
        }
    }

    /// Returns the fix that writes the package that is meant. Channels together with bundles of one name are a
    /// package whose own blob is missing or misspelt, so their names stay.
    fn correct_package(&self, pointer: String, name: &str, document: &Document) -> Option<Fix> {
        if !self.channels.is_empty() && !self.bundles.is_empty() {
            return None;
        }
        let packages = package_list::read_similar(document, name);
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        if let Some(same) = corrections::word(name, &packages) {
            return Some(corrections::write(pointer, same));
        }
        let near = corrections::nearest(name, &packages)?;
        Some(corrections::propose(pointer, near))
    }
}
