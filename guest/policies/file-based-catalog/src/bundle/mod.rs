//! Separate checks of each bundle: its identity and its members.
//!
//! ```text
//! olm.bundle ─┬─ properties ─▶ properties ─▶ identity: version and release
//!             └─ image, relatedImages ─▶ images
//! ```

pub(crate) mod decoded;
pub(crate) mod identity;
pub(crate) mod images;
mod package_property;
pub(crate) mod properties;

use opgate_constraint::version::Version;
use opgate_sdk::go::quote;
use opgate_sdk::{Report, corrections, rule, rules};

use self::properties::{PropertyChecker, PropertyValues};
use crate::CATALOG;
use crate::blob::{Blob, BlobIdentity, blob_path};
use crate::objects::Objects;
use crate::settings::Settings;

rules![FBC_26];

/// An `olm.bundle` blob.
pub(crate) struct Bundle {
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) package: String,
    /// The version, if there is exactly one valid version.
    pub(crate) version: Option<Version>,
    /// Version and release, as they identify the bundle in its package.
    pub(crate) version_label: Option<String>,
}

impl Bundle {
    /// Path of the name.
    pub(crate) fn name_field(&self) -> String {
        blob_path(self.at, ".name")
    }
}

rule! {
    /// a bundle has a package and a name
    ///
    /// `package` and `name` of an `olm.bundle` blob are not empty. FBC-02 reports a value that is
    /// not a string.
    ///
    /// # Why
    ///
    /// Channels refer to a bundle by its package and its name (OpenShift 4.12, Operators,
    /// *olm.bundle schema*).
    ///
    /// # Remediation
    ///
    /// Set the member that the message names. `opm render` writes both.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: quay.io/example/etcd:v1.0.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.bundle, name: etcd.v1.0.0, image: quay.io/example/etcd:v1.0.0}
    /// ```
    ///
    /// `message: package name must be set for bundle "etcd.v1.0.0"`, or for a missing name
    /// `message: name must be set`
    FBC_26: Deny {
        name: "catalog-bundle-package-and-name",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L787-790", "OCP 4.15 L621-651, L21880-21898", "OKD L232-235", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

/// Evaluates a bundle separately.
pub(crate) fn check(
    blob: &Blob<'_>,
    meta: &BlobIdentity,
    settings: &Settings,
    objects: &mut Objects,
    report: &mut Report<'_>,
) -> Bundle {
    let mut bundle = Bundle {
        at: blob.at,
        name: meta.name.as_str().to_owned(),
        package: meta.package.as_str().to_owned(),
        version: None,
        version_label: None,
    };
    if meta.package.is_missing() {
        let message = format!("package name must be set for bundle {}", quote(&bundle.name));
        report.add(&FBC_26, blob.path(), message);
        report.set_fix(&FBC_26, || {
            let rows = blob.rows(&blob.pointer("properties"), &["/type", "/value/packageName"]);
            let mut names = rows.iter().filter(|row| row.text(0) == Some("olm.package"));
            let name = names.next()?.text(1).filter(|name| !name.is_empty())?;
            let pointer = blob.absolute(&blob.pointer("package"));
            let is_certain = names.next().is_none() && blob.has_package(name);
            is_certain.then(|| corrections::write(pointer, name))
        });
    }
    if meta.name.is_missing() {
        report.add(&FBC_26, blob.path(), "name must be set");
    }
    let mut found = PropertyValues::default();
    let mut reader = PropertyChecker { blob, bundle: &bundle, objects, found: &mut found };
    let readable = crate::properties::check(blob, meta, settings, report, |property, to| {
        reader.check_property(property, to);
    });
    found.check_unlisted(blob, report);
    images::check(blob, &bundle, settings, found.objects > 0, report);
    if readable {
        identity::check(blob, &mut bundle, found, report);
    }
    bundle
}
