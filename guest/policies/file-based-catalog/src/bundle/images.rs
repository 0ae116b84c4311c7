//! The images of a bundle.

use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Kind, Report, corrections, image, rule, rules};

use crate::CATALOG;
use crate::blob::Blob;
use crate::bundle::Bundle;
use crate::files::FBC_43;
use crate::go_text::wrong_field;
use crate::settings::Settings;
use crate::spelling;

rules![FBC_27, FBC_28, FBC_29];

rule! {
    /// a bundle has an image
    ///
    /// `image` of an `olm.bundle` blob is a non-empty string. With the setting
    /// `catalog.allowObjectOnlyBundles`, which is on by default in the profile `upstream`, a bundle
    /// with a property `olm.bundle.object` does not need an image.
    ///
    /// # Why
    ///
    /// OLM unpacks the bundle from its image (OpenShift 4.12, Operators, *olm.bundle schema*).
    ///
    /// # Remediation
    ///
    /// Set `image` to the reference of the bundle image.
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
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0}
    /// ```
    ///
    /// `message: bundle image must be set`
    FBC_27: Deny {
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L791-792", "OCP 4.15 L630-631", "OKD L236-237", "operator-registry alpha/model/model.go"],
    }
}

rule! {
    /// images are image references
    ///
    /// `image` of a bundle and `image` of each of its `relatedImages` have the syntax
    /// `[domain/]path[:tag][@digest]`, with a path in lower case and a digest of the algorithm
    /// `sha256`, `sha384` or `sha512`. The rule pulls nothing: it does not check whether the image
    /// exists.
    ///
    /// # Why
    ///
    /// Other references cannot be pulled or mirrored, and `opm validate` rejects it
    /// (operator-registry).
    ///
    /// # Remediation
    ///
    /// Correct the reference that the message quotes.
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
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: not an image}
    /// ```
    ///
    /// `message: package "etcd" bundle "etcd.v1.0.0" image: invalid image pull spec "not an image":
    /// invalid reference format`
    FBC_28: Deny {
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L8685, L8709-8711", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// a related image has an image or a name
    ///
    /// No item of `relatedImages` of an `olm.bundle` blob has neither an `image` nor a `name`. One
    /// of them can be missing, `null` or empty: `opm render` writes such items, and `opm validate`
    /// accepts them. Names need not be unique. FBC-28 checks the images, and FBC-43 denies a value
    /// that is not a list of objects with strings.
    ///
    /// # Why
    ///
    /// The item has no effect, most likely because its keys are misspelled (OpenShift 4.12,
    /// Operators, *olm.bundle schema*). Tools that mirror a catalog for a disconnected cluster copy
    /// the images of this list, and miss the intended image.
    ///
    /// # Remediation
    ///
    /// Give the item its `image`, or remove the item.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// relatedImages: [{image: quay.io/example/etcd-backup:v1.0.0, name: ""}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// relatedImages: [{image: "", name: ""}]
    /// ```
    ///
    /// `message: relatedImages[0].image: must be a non-empty string`
    FBC_29: Warn {
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L793, L804-811", "OCP 4.15 L632-650", "OKD L237-251", "operator-registry alpha/action/render.go getRelatedImages, alpha/model/model.go Bundle.Validate"],
    }
}

/// Evaluates the image of a bundle and its related images.
pub(crate) fn check(
    blob: &Blob<'_>,
    bundle: &Bundle,
    settings: &Settings,
    has_objects: bool,
    report: &mut Report<'_>,
) {
    let image = blob.text_of("image").filter(|image| !image.is_empty());
    if let Some(image) = image {
        if let Some(why) = image::error(&image) {
            let message = format!(
                "package {} bundle {} image: invalid image pull spec {}: {why}",
                quote(&bundle.package),
                quote(&bundle.name),
                quote(&image)
            );
            report.add(&FBC_28, blob.field("image"), message);
            report.set_fix(&FBC_28, || {
                let reference = corrections::image_reference(&image)?;
                Some(corrections::write(blob.absolute(&blob.pointer("image")), &reference))
            });
        }
    } else {
        let kind = blob.kind("image");
        let may_lack = matches!(kind, Kind::Missing | Kind::Null | Kind::Text);
        if !(may_lack && has_objects && settings.object_only_bundles) {
            let field = if kind == Kind::Missing { blob.path() } else { blob.field("image") };
            report.add(&FBC_27, field, "bundle image must be set");
        }
    }
    match blob.kind("relatedImages") {
        Kind::List => check_related_images(blob, bundle, report),
        Kind::Missing | Kind::Null => {}
        kind => {
            let why = wrong_field(kind, "Bundle.relatedImages", "[]declcfg.RelatedImage");
            report.add(&FBC_43, blob.field("relatedImages"), format!("parse bundle: {why}"));
        }
    }
}

/// Evaluates the items of `relatedImages`.
fn check_related_images(blob: &Blob<'_>, bundle: &Bundle, report: &mut Report<'_>) {
    let list = blob.field("relatedImages");
    let rows = blob.rows(&blob.pointer("relatedImages"), &["/image", "/name", ""]);
    for (index, row) in (0_u32..).zip(rows.iter()) {
        if !matches!(row.kind(2), Kind::Object | Kind::Null) {
            let why = wrong_field(row.kind(2), "Bundle.relatedImages", "declcfg.RelatedImage");
            report.add(&FBC_43, format!("{list}[{index}]"), format!("parse bundle: {why}"));
            continue;
        }
        let mut is_decoded = true;
        for (column, member) in [(0, "image"), (1, "name")] {
            let kind = row.kind(column);
            if !matches!(kind, Kind::Missing | Kind::Null | Kind::Text) {
                let field = format!("RelatedImage.relatedImages.{member}");
                let why = wrong_field(kind, &field, "string");
                let message = format!("parse bundle: {why}");
                report.add(&FBC_43, format!("{list}[{index}].{member}"), message);
                is_decoded = false;
            }
        }
        let image = row.text_or_empty(0);
        if !image.is_empty() {
            if let Some(why) = image::error(image) {
                let (package, name) = (quote(&bundle.package), quote(&bundle.name));
                let message = format!(
                    "package {package} bundle {name} relatedImages[{index}].image: invalid image pull spec {}: {why}",
                    quote(image)
                );
                report.add(&FBC_28, format!("{list}[{index}].image"), message);
                report.set_fix(&FBC_28, || {
                    let reference = corrections::image_reference(image)?;
                    let item = format!("{}/{index}/image", blob.pointer("relatedImages"));
                    Some(corrections::write(blob.absolute(&item), &reference))
                });
            }
        } else if is_decoded && row.text_or_empty(1).is_empty() {
            let item = format!("{}/{index}", blob.pointer("relatedImages"));
            let hint = spelling::spelling_hint(blob.value(), &item, "image");
            let message = format!("relatedImages[{index}].image: must be a non-empty string{hint}");
            let field = match row.kind(0) {
                Kind::Missing => format!("{list}[{index}]"),
                _ => format!("{list}[{index}].image"),
            };
            report.add(&FBC_29, field, message);
            report.set_fix(&FBC_29, || {
                let known = [0, 1].iter().filter(|column| row.kind(**column) != Kind::Missing);
                let is_empty = row.length(2).map(usize::try_from) == Some(Ok(known.count()));
                let fix = Fix::safe("remove the empty item");
                is_empty.then(|| fix.remove(blob.absolute(&item)))
            });
        }
    }
}
