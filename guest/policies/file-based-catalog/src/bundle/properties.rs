//! Properties of bundles, by type.

use std::collections::BTreeSet;

use opgate_constraint::range::Range;
use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Kind, Report, corrections, names, rule, rules};

use crate::CATALOG;
use crate::blob::Blob;
use crate::bundle::Bundle;
use crate::bundle::decoded;
use crate::bundle::package_property::PackageProperty;
use crate::go_text::wrong_value;
use crate::objects::{self, DecodeResult, Objects};
use crate::properties::{
    GROUP, KIND, PACKAGE_NAME, Property, VALUE, VERSION, VERSION_RANGE, field, meant_type,
};
use crate::text::join;

rules![FBC_37, FBC_38, FBC_39, FBC_41, FBC_42];

/// The values of the properties of a bundle.
#[derive(Default)]
pub(crate) struct PropertyValues {
    /// Properties of type `olm.package`: the number of them, and the first one.
    pub(crate) packages: u32,
    pub(crate) package: Option<PackageProperty>,
    /// The provided APIs, from properties and from a ClusterServiceVersion.
    listed: BTreeSet<String>,
    provided: BTreeSet<String>,
    pub(crate) objects: u32,
}

rule! {
    /// there is one olm.gvk property for each provided API
    ///
    /// A bundle has no two valid `olm.gvk` properties of the same group, version and kind. Every
    /// API that its ClusterServiceVersion owns, in a property `olm.bundle.object` or
    /// `olm.csv.metadata`, has one. A ClusterServiceVersion that only the bundle image contains is
    /// not evaluated, nor is one that FBC-41 skips because of its size.
    ///
    /// # Why
    ///
    /// OLM resolves dependencies by the property; an API without one satisfies no requirement
    /// (OpenShift 4.12, Operators, *Operator Lifecycle Manager dependency resolution*).
    ///
    /// # Remediation
    ///
    /// Add the missing property, or remove the second one. `opm render` writes them all.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties:
    /// - {type: olm.gvk, value: {group: example.com, version: v1, kind: Etcd}}
    /// - {type: olm.gvk, value: {group: example.com, version: v1, kind: EtcdBackup}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties:
    /// - {type: olm.gvk, value: {group: example.com, version: v1, kind: Etcd}}
    /// - {type: olm.gvk, value: {group: example.com, version: v1, kind: Etcd}}
    /// ```
    ///
    /// `message: olm.gvk example.com/v1, Kind=Etcd is listed more than once`, or `message: provided
    /// API example.com/v1, Kind=Etcd has no olm.gvk property`
    FBC_39: Warn {
        name: "unique-gvk-properties",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L2613-2621", "OCP 4.15 L1886-1921"],
    }
}

impl PropertyValues {
    /// Reports provided APIs that no property lists.
    pub(crate) fn check_unlisted(&self, blob: &Blob<'_>, report: &mut Report<'_>) {
        let mut is_fixed = false;
        for api in self.provided.difference(&self.listed) {
            let message = format!("provided API {api} has no olm.gvk property");
            report.add(&FBC_39, blob.field("properties"), message);
            if !is_fixed {
                is_fixed = true;
                report.set_fix(&FBC_39, || self.list_apis(blob));
            }
        }
    }

    /// Properties for the APIs that have none, as `opm render` writes them. If the type of one is misspelt, FBC-40
    /// corrects it first.
    fn list_apis(&self, blob: &Blob<'_>) -> Option<Fix> {
        const MAX_ADDED: usize = 16;
        let types = blob.rows(&blob.pointer("properties"), &["/type"]);
        let is_misspelt = |name: &str| name != "olm.gvk" && meant_type(name) == Some("olm.gvk");
        if types.iter().any(|row| row.text(0).is_some_and(is_misspelt)) {
            return None;
        }
        let end = blob.absolute(&format!("{}/-", blob.pointer("properties")));
        // OLM resolves dependencies with them.
        let mut fix = Fix::needs_review("add the olm.gvk properties of the provided APIs");
        let mut is_empty = true;
        for api in self.provided.difference(&self.listed).take(MAX_ADDED) {
            let (group_version, kind) = api.split_once(", Kind=")?;
            let (group, version) = group_version.split_once('/')?;
            let [group, kind, version] = [group, kind, version].map(opgate_sdk::json_string);
            fix = fix.insert(
                end.clone(),
                format!("{{\"type\":\"olm.gvk\",\"value\":{{\"group\":{group},\"kind\":{kind},\"version\":{version}}}}}"),
            );
            is_empty = false;
        }
        (!is_empty && blob.kind("properties") == Kind::List).then_some(fix)
    }
}

/// Reads the properties of a bundle, one after the other.
pub(crate) struct PropertyChecker<'r, 'd> {
    pub(crate) blob: &'r Blob<'d>,
    pub(crate) bundle: &'r Bundle,
    pub(crate) objects: &'r mut Objects,
    pub(crate) found: &'r mut PropertyValues,
}

impl PropertyChecker<'_, '_> {
    pub(crate) fn check_property(&mut self, property: &Property<'_>, report: &mut Report<'_>) {
        match property.name {
            "olm.package" => {
                self.found.packages += 1;
                if self.found.package.is_none() {
                    self.found.package = Some(PackageProperty::of(property));
                }
            }
            "olm.gvk" | "olm.gvk.required" => self.check_api(property, report),
            "olm.package.required" => self.check_required_package(property, report),
            "olm.bundle.object" => self.check_object(property, report),
            "olm.bundle.mediatype" => self.check_media_type(property, report),
            "olm.channel" => self.check_decoded(property, report),
            "olm.csv.metadata" => {
                self.check_decoded(property, report);
                let rows = |inner: &str, columns: &[&str]| {
                    self.blob.rows(&property.pointer(inner), columns)
                };
                self.found.provided.extend(objects::owned_apis_of_metadata(rows));
            }
            _ => {}
        }
    }

    fn check_decoded(&mut self, property: &Property<'_>, report: &mut Report<'_>) {
        decoded::check(property, self.blob, self.bundle, &mut self.objects.decoded, report);
    }
}

rule! {
    /// olm.gvk and olm.gvk.required have group, version and kind
    ///
    /// The value of a bundle's property of type `olm.gvk` or `olm.gvk.required` is an object with
    /// the non-empty strings `group`, `version` and `kind`. The group is a lower-case RFC 1123
    /// subdomain; version and kind are DNS-1035 labels of at most 63 characters, the kind with
    /// upper case allowed.
    ///
    /// # Why
    ///
    /// OLM matches the APIs that bundles require and provide by all three parts (OpenShift 4.12,
    /// Operators, *olm.gvk property* and *olm.gvk.required*).
    ///
    /// # Remediation
    ///
    /// Copy group, version and kind from the CRD or the API service.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties: [{type: olm.gvk, value: {group: example.com, version: v1alpha1, kind: Etcd}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties: [{type: olm.gvk, value: {group: "", version: v1, kind: Pod}}]
    /// ```
    ///
    /// `message: property[0] of type "olm.gvk": group must be a non-empty string`
    FBC_37: Deny {
        name: "gvk-property-fields",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L849-857, L886-894", "OCP 4.15 L726-803", "OKD L270-280, L292-302"],
    }
}

impl PropertyChecker<'_, '_> {
    /// Evaluates an API. FBC-39 reports duplicates.
    fn check_api(&mut self, property: &Property<'_>, report: &mut Report<'_>) {
        let mut complain = |inner: &str, why: &str| {
            let (index, kind) = (property.index, quote(property.name));
            let message = format!("property[{index}] of type {kind}: {why}");
            report.add(&FBC_37, field(self.blob, index, inner), message);
        };
        if property.kind(VALUE) != Kind::Object {
            complain(".value", &wrong_value(property.kind(VALUE), "property.GVK"));
            return;
        }
        let mut texts = Vec::with_capacity(3);
        for (name, inner, column) in [
            ("group", ".value.group", GROUP),
            ("version", ".value.version", VERSION),
            ("kind", ".value.kind", KIND),
        ] {
            let text = property.text(column);
            let error = match name {
                _ if text.is_empty() => {
                    let hint = property.hint(name);
                    complain(inner, &format!("{name} must be a non-empty string{hint}"));
                    continue;
                }
                "group" => names::group_error(text),
                "version" => names::version_error(text),
                _ => names::kind_error(text),
            };
            match error {
                Some(why) => complain(inner, why),
                None => texts.push(text),
            }
        }
        if property.name == "olm.gvk"
            && let [group, version, kind] = texts.as_slice()
        {
            let api = names::group_version_kind(group, version, kind);
            if self.found.listed.contains(&api) {
                let message = format!("olm.gvk {api} is listed more than once");
                report.add(&FBC_39, field(self.blob, property.index, ".value"), message);
                report.set_fix(&FBC_39, || {
                    let pointer = self.blob.absolute(&property.pointer(""));
                    let is_plain = property.members() == Some(3);
                    is_plain.then(|| Fix::safe("remove the duplicate").remove(pointer))
                });
            } else {
                self.found.listed.insert(api);
            }
        }
    }
}

rule! {
    /// olm.package.required has a package and a range of versions
    ///
    /// The value of a bundle's property of type `olm.package.required` is an object with
    /// `packageName`, a non-empty string, and `versionRange`, a range with the syntax that FBC-22
    /// describes.
    ///
    /// # Why
    ///
    /// OLM searches for an Operator of that package in that range before it installs the bundle
    /// (OpenShift 4.12, Operators, *olm.package.required*).
    ///
    /// # Remediation
    ///
    /// Name the package, and write the range with operators such as `>=1.2.0 <2.0.0`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties:
    /// - {type: olm.package.required, value: {packageName: etcd, versionRange: ">3.1.0"}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties:
    /// - {type: olm.package.required, value: {packageName: etcd, versionRange: ~1.2}}
    /// ```
    ///
    /// `message: property[0] of type "olm.package.required": Could not parse Range "~1.2": Could
    /// not parse comparator "~" in "~1.2"`
    FBC_38: Deny {
        name: "required-package-property-fields",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L868-875", "OCP 4.15 L726-803", "OKD L281-291"],
    }
}

impl PropertyChecker<'_, '_> {
    /// Evaluates a package that the bundle requires.
    fn check_required_package(&self, property: &Property<'_>, report: &mut Report<'_>) {
        let index = property.index;
        let complain = |report: &mut Report<'_>, inner: &str, why: &str| {
            let message = format!("property[{index}] of type \"olm.package.required\": {why}");
            report.add(&FBC_38, field(self.blob, index, inner), message);
        };
        if property.kind(VALUE) != Kind::Object {
            let why = wrong_value(property.kind(VALUE), "property.PackageRequired");
            complain(report, ".value", &why);
            return;
        }
        let wanting = |name| format!("{name} must be a non-empty string{}", property.hint(name));
        if property.text(PACKAGE_NAME).is_empty() {
            complain(report, ".value.packageName", &wanting("packageName"));
        }
        let range = property.text(VERSION_RANGE);
        if range.is_empty() {
            complain(report, ".value.versionRange", &wanting("versionRange"));
        } else if let Err(why) = Range::parse(range) {
            complain(report, ".value.versionRange", &why.to_string());
            report.set_fix(&FBC_38, || {
                let range = corrections::version_range(range)?;
                let pointer = self.blob.absolute(&property.pointer("/value/versionRange"));
                Some(corrections::write(pointer, &range))
            });
        }
    }
}

rule! {
    /// objects in a bundle are base64 of JSON or YAML
    ///
    /// `value` of a bundle's property of type `olm.bundle.object` is an object, and its `data` is
    /// base64 of JSON or YAML. A value without `data` is accepted, and so is data that `opm` does
    /// not parse or use: a scalar, a list, and any text that starts with `{`. Objects of more than
    /// 4,000,000 bytes, and objects after the first 12 MiB of base64 of a package, are not
    /// evaluated; the audit annotation `skipped-rules` then names the rule.
    ///
    /// # Why
    ///
    /// `opm` decodes the objects while it loads the bundle, and loading fails otherwise
    /// (operator-registry; OpenShift 4.12, Operators, *Updating or filtering a file-based catalog
    /// image*).
    ///
    /// # Remediation
    ///
    /// Encode the manifest with `base64 -w0` and write the result as `data`, or render the bundle
    /// again with `opm render`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties: [{type: olm.bundle.object, value: {data: eyJraW5kIjoiQ29uZmlnTWFwIn0=}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties: [{type: olm.bundle.object, value: {data: "%%%"}}]
    /// ```
    ///
    /// `message: read bundle objects: package "etcd", bundle "etcd.v1.0.0": parse property at index
    /// 0 as bundle object: illegal base64 data at input byte 0`
    FBC_41: Deny {
        name: "catalog-bundle-objects-base64",
        on: [CATALOG: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L8703-8708", "operator-registry alpha/declcfg/load.go"],
    }
}

impl PropertyChecker<'_, '_> {
    /// Evaluates an object of the bundle, and records the APIs that it provides.
    fn check_object(&mut self, property: &Property<'_>, report: &mut Report<'_>) {
        self.found.objects += 1;
        let index = property.index;
        if !report.is_on(&FBC_41) && !report.is_on(&FBC_39) {
            return;
        }
        let item = property.document();
        let (inner, what, why) = match self.objects.decode(item) {
            DecodeResult::Object(None) => return,
            DecodeResult::Object(Some(object)) => {
                self.found.provided.extend(objects::owned_apis(&object));
                return;
            }
            DecodeResult::LimitReached => {
                report.skip_part(&FBC_41, "", "the objects of the bundles are too large");
                return;
            }
            DecodeResult::InvalidProperty(why) => {
                let what = format!("parse property at index {index} as bundle object");
                (".value", what, why)
            }
            DecodeResult::InvalidObject(why) => {
                let what = format!("convert bundle object property at index {index} to JSON");
                (".value", what, why)
            }
        };
        let inner = if item.has("/value/data") { ".value.data" } else { inner };
        let (package, name) = (quote(&self.bundle.package), quote(&self.bundle.name));
        let whose = join([package.as_str(), ", bundle ", name.as_str()], "");
        let message = format!("read bundle objects: package {whose}: {what}: {why}");
        report.add(&FBC_41, field(self.blob, index, inner), message);
    }
}

rule! {
    /// the media type of a bundle is known
    ///
    /// The value of a bundle's property of type `olm.bundle.mediatype` is `plain+v0` or
    /// `registry+v1`. A bundle without the property is accepted.
    ///
    /// # Why
    ///
    /// OLM 1.0 uses it to distinguish plain bundles from registry bundles (OpenShift 4.15,
    /// Operators, *Managing plain bundles in OLM 1.0*).
    ///
    /// # Remediation
    ///
    /// Write one of the two, or remove the property from a registry bundle.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties: [{type: olm.bundle.mediatype, value: plain+v0}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties: [{type: olm.bundle.mediatype, value: helm+v0}]
    /// ```
    ///
    /// `message: olm.bundle.mediatype "helm+v0" is neither plain+v0 nor registry+v1`
    FBC_42: Warn {
        name: "known-catalog-bundle-media-type",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L21717, L21893-21895, L21944-21946"],
    }
}

impl PropertyChecker<'_, '_> {
    /// Evaluates the media type of the bundle.
    fn check_media_type(&self, property: &Property<'_>, report: &mut Report<'_>) {
        let value = property.text(VALUE);
        if !matches!(value, "plain+v0" | "registry+v1") {
            let message = format!(
                "olm.bundle.mediatype {} is neither plain+v0 nor registry+v1",
                quote(value)
            );
            report.add(&FBC_42, field(self.blob, property.index, ".value"), message);
            report.set_fix(&FBC_42, || {
                let pointer = self.blob.absolute(&property.pointer("/value"));
                let letters: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
                let meant = match letters.to_ascii_lowercase().as_str() {
                    "registry" | "registryv1" => "registry+v1",
                    "plain" | "plainv0" => "plain+v0",
                    _ => return None,
                };
                Some(corrections::write(pointer, meant))
            });
        }
    }
}
