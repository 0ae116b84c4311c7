//! The images of a bundle.

use opgate_sdk::go::quote;
use opgate_sdk::{Kind, Report, image, rule, rules};

use crate::CATALOG;
use crate::blob::Blob;
use crate::bundle::Bundle;
use crate::settings::Settings;
use crate::spelling;

rules![FBC_27, FBC_28, FBC_29];

rule! {
    /// a bundle has an image
    ///
    /// `image` of an `olm.bundle` blob is a non-empty string. With the setting
    /// `catalog.allowObjectOnlyBundles`, which is on by default in the profile `upstream`, a bundle
    /// with a property `olm.bundle.object` may do without.
    ///
    /// # Why
    ///
    /// OLM unpacks the bundle from its image (OpenShift 4.12, Operators, *olm.bundle schema*).
    ///
    /// # Repair
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
        source: "OCP 4.12 L791-792; OCP 4.15 L630-631; OKD L236-237; operator-registry alpha/model/model.go",
    }
}

rule! {
    /// images are image references
    ///
    /// `image` of a bundle and `image` of each of its `relatedImages` have the form
    /// `[domain/]path[:tag][@digest]`, with a path in lower case and a digest of the algorithm
    /// `sha256`, `sha384` or `sha512`. Nothing is pulled: whether the image exists is not checked.
    ///
    /// # Why
    ///
    /// Nobody can pull or mirror another reference, and `opm validate` refuses it
    /// (operator-registry).
    ///
    /// # Repair
    ///
    /// Correct the reference that the message quotes.
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
        source: "OCP 4.12 L8685, L8709-8711; operator-registry alpha/declcfg/declcfg_to_model.go",
    }
}

rule! {
    /// related images have an image, and no empty name
    ///
    /// `relatedImages` of an `olm.bundle` blob, where given and not `null`, is a list. Each item
    /// has `image`, a non-empty string. `name` may be left out or `null`, and otherwise is a
    /// non-empty string; it need not be unique.
    ///
    /// # Why
    ///
    /// The schema requires the image of each item (OpenShift 4.12, Operators, *olm.bundle schema*).
    /// Tools that mirror a catalog for a disconnected cluster copy the images of this list.
    ///
    /// # Repair
    ///
    /// Give the item an image, and remove an empty name.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// relatedImages: [{image: quay.io/example/etcd-backup:v1.0.0}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// relatedImages: [{name: backup}]
    /// ```
    ///
    /// `message: relatedImages[0].image: must be a non-empty string`
    FBC_29: Deny {
        on: [CATALOG: Create | Update],
        source: "OCP 4.12 L793, L804-811; OCP 4.15 L632-650; OKD L237-251",
    }
}

/// Judges the image of a bundle and its related images.
pub(crate) fn judge(
    blob: &Blob<'_>,
    bundle: &Bundle,
    settings: &Settings,
    has_objects: bool,
    report: &mut Report<'_>,
) {
    let whose = || format!("package {} bundle {}", quote(&bundle.package), quote(&bundle.name));
    let image = blob.text_of("image").filter(|image| !image.is_empty());
    if let Some(image) = image {
        if let Some(why) = image::error(&image) {
            let message =
                format!("{} image: invalid image pull spec {}: {why}", whose(), quote(&image));
            report.add(&FBC_28, blob.field("image"), message);
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
        Kind::List => {}
        Kind::Missing | Kind::Null => return,
        _ => {
            report.add(&FBC_29, blob.field("relatedImages"), "relatedImages: must be a list");
            return;
        }
    }
    let list = || blob.field("relatedImages");
    let rows = blob.rows(&blob.pointer("relatedImages"), &["/image", "/name"]);
    for (index, row) in (0_u32..).zip(rows.iter()) {
        let wanting =
            |member: &str| format!("relatedImages[{index}].{member}: must be a non-empty string");
        let place = |member: &str, kind: Kind| match kind {
            Kind::Missing => format!("{}[{index}]", list()),
            _ => format!("{}[{index}].{member}", list()),
        };
        if let Some(image) = row.text(0).filter(|image| !image.is_empty()) {
            if let Some(why) = image::error(image) {
                let message = format!(
                    "{} relatedImages[{index}].image: invalid image pull spec {}: {why}",
                    whose(),
                    quote(image)
                );
                report.add(&FBC_28, place("image", Kind::Text), message);
            }
        } else {
            let item = format!("{}/{index}", blob.pointer("relatedImages"));
            let message = wanting("image") + &spelling::hint(blob.value(), &item, "image");
            report.add(&FBC_29, place("image", row.kind(0)), message);
        }
        match (row.text(1), row.kind(1)) {
            (Some(name), _) if !name.is_empty() => {}
            (None, Kind::Missing | Kind::Null) => {}
            _ => report.add(&FBC_29, place("name", Kind::Text), wanting("name")),
        }
    }
}
