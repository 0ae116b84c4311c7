//! The identity of a bundle: the property with package, version and release.

use opgate_constraint::version::{Identifier, Version};
use opgate_sdk::corrections::ScalarText;
use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Kind, Report, corrections, rule, rules};

use crate::CATALOG;
use crate::blob::Blob;
use crate::bundle::Bundle;
use crate::bundle::properties::PropertyValues;
use crate::properties::field;
use crate::spelling;

rules![FBC_33, FBC_34, FBC_35, FBC_36];

/// Bytes of a release.
const MAX_RELEASE_BYTES: usize = 20;

rule! {
    /// a bundle has one olm.package property
    ///
    /// `properties` of an `olm.bundle` blob has exactly one item of type `olm.package`. If FBC-03
    /// reports that the properties are not a list or that an item is misspelled, they are not
    /// counted.
    ///
    /// # Why
    ///
    /// The property is required: it identifies the package and the version of the bundle (OpenShift
    /// 4.12, Operators, *olm.package property*).
    ///
    /// # Remediation
    ///
    /// Add the property, or remove the duplicate. `opm render` writes it.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties: [{type: olm.package, value: {packageName: etcd, version: 1.0.0}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties: []
    /// ```
    ///
    /// `message: package "etcd" bundle "etcd.v1.0.0" must have exactly 1 "olm.package" property,
    /// found 0`
    FBC_33: Deny {
        name: "one-package-property-per-bundle",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L831, L2613-2617", "OCP 4.15 L728-745", "OKD L257-261", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// the olm.package property names the package of the bundle
    ///
    /// `packageName` of the `olm.package` property equals `package` of the bundle. The rule does
    /// not evaluate bundles without `package`, bundles with a violation of FBC-33, and bundles with
    /// a property that FBC-35 cannot read.
    ///
    /// # Why
    ///
    /// The property and the blob must name the same package (OpenShift 4.12, Operators,
    /// *olm.package property*); `opm validate` rejects the bundle otherwise.
    ///
    /// # Remediation
    ///
    /// Write the same name in both fields.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// package: etcd
    /// properties: [{type: olm.package, value: {packageName: etcd, version: 1.0.0}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// package: etcd
    /// properties: [{type: olm.package, value: {packageName: other, version: 1.0.0}}]
    /// ```
    ///
    /// `message: package "etcd" does not match "olm.package" property "other"`
    FBC_34: Deny {
        name: "package-property-matches-bundle",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L831, L837", "OCP 4.15 L730", "OKD L258-260", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// the version of a bundle is a strict semantic version
    ///
    /// The value of the `olm.package` property is an object whose `version` is a string with a
    /// semantic version: three numbers without leading zeroes and without `v`, then prerelease and
    /// build metadata if any. `release`, if set, is also a string. YAML reads `2.7` as a number,
    /// which is rejected.
    ///
    /// # Why
    ///
    /// OLM compares version ranges with it, and `opm validate` rejects other versions (OpenShift
    /// 4.12, Operators, *olm.package property*).
    ///
    /// # Remediation
    ///
    /// Write all three numbers, without a prefix.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties: [{type: olm.package, value: {packageName: etcd, version: 2.7.0}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties: [{type: olm.package, value: {packageName: etcd, version: v2.7.0}}]
    /// ```
    ///
    /// `message: error parsing bundle "etcd.v2.7.0" version "v2.7.0": Invalid character(s) found in
    /// major number "v2"`
    FBC_35: Deny {
        name: "catalog-bundle-semver-version",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L831, L838", "OCP 4.15 L730", "OKD L260-268", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

/// Evaluates the property, and reads the version of the bundle from it.
pub(crate) fn check(
    blob: &Blob<'_>,
    bundle: &mut Bundle,
    found: PropertyValues,
    report: &mut Report<'_>,
) {
    let package = || quote(&bundle.package);
    let name = || quote(&bundle.name);
    let (1, Some(property)) = (found.packages, found.package) else {
        let message = format!(
            "package {} bundle {} must have exactly 1 \"olm.package\" property, found {}",
            package(),
            name(),
            found.packages
        );
        let field = match blob.kind("properties") {
            Kind::Missing => blob.path(),
            _ => blob.field("properties"),
        };
        report.add(&FBC_33, field, message);
        report.set_fix(&FBC_33, || remove_equal_packages(blob));
        return;
    };
    let place = |inner: &str| field(blob, property.index, inner);
    if let Some((inner, why)) = property.error {
        let message = format!(
            "parse properties for bundle {}: parse property[{}] of type \"olm.package\": {why}",
            name(),
            property.index
        );
        report.add(&FBC_35, place(inner), message);
        report.set_fix(&FBC_35, || write_version(blob, property.index));
        return;
    }
    if !bundle.package.is_empty() && bundle.package != property.name {
        let message = format!(
            "package {} does not match \"olm.package\" property {}",
            package(),
            quote(&property.name)
        );
        report.add(&FBC_34, place(".value.packageName"), message);
        report.set_fix(&FBC_34, || {
            // FBC-04 corrects the package of the blob instead.
            if blob.is_package_listed(&property.name) && !blob.is_package_listed(&bundle.package) {
                return None;
            }
            let is_same = property.name.is_empty()
                || corrections::word(&property.name, &[&bundle.package]).is_some();
            let write = if is_same { corrections::write } else { corrections::propose };
            Some(write(value_pointer(blob, property.index, "packageName"), &bundle.package))
        });
    }
    let version = match Version::parse(&property.version) {
        Ok(version) => version,
        Err(why) => {
            let version = quote(&property.version);
            let message = format!("error parsing bundle {} version {version}: {why}", name());
            report.add(&FBC_35, place(".value.version"), message);
            report.set_fix(&FBC_35, || write_version(blob, property.index));
            return;
        }
    };
    let mut label = property.version;
    if !property.release.is_empty() {
        if let Err(why) = validate_release(&property.release) {
            let release = quote(&property.release);
            let message =
                format!("error parsing bundle {} release version {release}: {why}", name());
            report.add(&FBC_36, place(".value.release"), message);
            return;
        }
        label = format!("{label}-{}", property.release);
        let normalized = format!("{}-v{label}", bundle.package);
        if bundle.name != normalized {
            let normalized = quote(&normalized);
            let message = format!("name {} does not match normalized name {normalized}", name());
            report.add(&FBC_36, bundle.name_field(), message);
        }
        if version.has_build {
            let message = "cannot use build metadata in version with a release version";
            report.add(&FBC_36, place(".value.version"), message);
        }
    }
    bundle.version = Some(version);
    bundle.version_label = Some(label);
}

rule! {
    /// a release matches the name and the version of its bundle
    ///
    /// If the `olm.package` property has a non-empty `release`, the release has at most 20 bytes of
    /// semver prerelease identifiers, separated by periods. The name of the bundle is then
    /// `<package>-v<version>-<release>`, and the version has no build metadata.
    ///
    /// # Why
    ///
    /// Name, version and release must identify the same bundle; `opm validate` rejects other names
    /// (operator-registry).
    ///
    /// # Remediation
    ///
    /// Rename the bundle and its entries as the message describes, or remove `release`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// name: etcd-v1.0.0-1
    /// properties: [{type: olm.package, value: {packageName: etcd, version: 1.0.0, release: "1"}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// name: etcd.v1.0.0
    /// properties: [{type: olm.package, value: {packageName: etcd, version: 1.0.0, release: "1"}}]
    /// ```
    ///
    /// `message: name "etcd.v1.0.0" does not match normalized name "etcd-v1.0.0-1"`
    FBC_36: Deny {
        name: "catalog-bundle-release",
        on: [CATALOG: Create | Update],
        source: ["operator-registry alpha/model/versionrelease.go, alpha/model/model.go"],
    }
}

/// Upstream's error for a release.
fn validate_release(text: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("invalid release {}: {why}", quote(text)));
    if text.len() > MAX_RELEASE_BYTES {
        return wrong(&format!("exceeds maximum length of {MAX_RELEASE_BYTES} characters"));
    }
    let errors = text.split('.').enumerate().filter_map(|(index, segment)| {
        Identifier::parse(segment).err().map(|why| format!("segment {index}: {why}"))
    });
    let errors: Vec<_> = errors.collect();
    if errors.is_empty() { Ok(()) } else { wrong(&errors.join("\n")) }
}

/// The pointer of a member of a property's value in the document.
fn value_pointer(blob: &Blob<'_>, property: u32, member: &str) -> String {
    blob.absolute(&format!("{}/{property}/value/{member}", blob.pointer("properties")))
}

/// The strict version that the version of a property means, or the right name of a member with the version.
fn write_version(blob: &Blob<'_>, property: u32) -> Option<Fix> {
    let value = format!("{}/{property}/value", blob.pointer("properties"));
    let own = format!("{value}/version");
    if !blob.value().has(&own) {
        return spelling::rename_fix(blob, &value, "version");
    }
    let pointer = value_pointer(blob, property, "version");
    if let Some(scalar) = ScalarText::read(blob.value(), &own) {
        let text = corrections::version(&scalar.text)?;
        return Some(ScalarText { text, ..scalar }.fix(&pointer));
    }
    let text = blob.value().text(&own)?;
    let strict = corrections::version(&text).filter(|strict| *strict != text)?;
    Some(corrections::write(pointer, &strict))
}

/// The removal of package properties that are equal to the first one.
fn remove_equal_packages(blob: &Blob<'_>) -> Option<Fix> {
    const MAX_REMOVED: usize = 16;
    let list = blob.pointer("properties");
    let rows = blob.rows(&list, &["/type"]);
    let packages = rows.iter().enumerate().filter(|(_, row)| row.text(0) == Some("olm.package"));
    let packages: Vec<usize> = packages.map(|(index, _)| index).take(MAX_REMOVED + 1).collect();
    let [first, others @ ..] = &packages[..] else { return None };
    let at = |index: &usize| format!("{list}/{index}");
    let is_equal = |index: &usize| blob.value().equal(&at(first), blob.value(), &at(index));
    // The last one first: a removal moves the elements behind it.
    let fix = Fix::safe("remove the duplicates");
    let fix = others.iter().rev().fold(fix, |fix, index| fix.remove(blob.absolute(&at(index))));
    (!others.is_empty() && others.iter().all(is_equal)).then_some(fix)
}
