//! The source of the content of a Catalog.

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Document, Report, Review, Shape, corrections, go_format, rule, rules};

use crate::reference::{REF, is_reference};
use crate::targets::CATALOG;

rules![OL1_13, OL1_14];

const TYPE: &str = "/spec/source/type";
const IMAGE: &str = "/spec/source/image";

pub(crate) fn check(review: &Review<'_>, catalog: &Document, report: &mut Report<'_>) {
    check_source_type(review, catalog, report);
    check_image(review, catalog, report);
}

rule! {
    /// the source of a Catalog of OLM 1.0 is an image
    ///
    /// `spec.source.type` of a Catalog of the group `catalogd.operatorframework.io` is exactly
    /// `image`. The rule evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// The schema of Catalogs has no other type, and catalogd unpacks nothing else (catalogd v0.9.0
    /// `internal/source/unpacker.go`).
    ///
    /// # Remediation
    ///
    /// Build an image of the catalog.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {source: {type: image, image: {ref: 'quay.io/example-org/catalog:v1'}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {source: {type: git}}
    /// ```
    ///
    /// `message: source type "git" not supported`
    OL1_13: Deny {
        name: "valid-olm-v1-catalog-source-type",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L20168, L20202, L20307", "catalogd v0.9.0 internal/source/unpacker.go"],
    }
}

fn check_source_type(review: &Review<'_>, catalog: &Document, report: &mut Report<'_>) {
    let value = if catalog.has(TYPE) {
        go_format::format_value(catalog, TYPE, false)
    } else {
        String::new()
    };
    if catalog.text(TYPE).as_deref() != Some("image")
        && review.touches(catalog, TYPE, &Shape::Scalar)
    {
        let message = format!("source type {} not supported", quote(&value));
        report.add(&OL1_13, "spec.source.type", message);
        report.set_fix(&OL1_13, || {
            // The only type.
            let is_meant = corrections::word(&value, &["image"]).is_some()
                || value.is_empty() && catalog.has(REF);
            is_meant.then(|| corrections::write(TYPE, "image"))
        });
    }
}

rule! {
    /// a Catalog of OLM 1.0 names an image
    ///
    /// `spec.source.image.ref` is a non-empty string with the syntax of a reference to an image: a
    /// registry, a repository in lower case, a tag or a digest. The rule does not check whether the
    /// digest is complete. If `spec.source.type` is not `image` and there is no
    /// `spec.source.image`, OL1-13 reports the violation instead. The rule evaluates an UPDATE only
    /// if it changes the type or the reference.
    ///
    /// # Why
    ///
    /// catalogd has nothing to unpack: the schema of Catalogs requires the field (catalogd v0.9.0
    /// `api/core/v1alpha1/catalog_types.go`), and catalogd cannot pull an invalid reference.
    ///
    /// # Remediation
    ///
    /// Set the image of the catalog, without a scheme.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// ref: registry.redhat.io/redhat/redhat-operator-index:v4.15
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {source: {type: image, image: {pullSecret: x}}}
    /// ```
    ///
    /// `message: spec.source.image.ref: Required value`
    OL1_14: Deny {
        name: "olm-v1-catalog-image-required",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L20196-20248, L20514", "catalogd v0.9.0 api/core/v1alpha1/catalog_types.go"],
    }
}

fn check_image(review: &Review<'_>, catalog: &Document, report: &mut Report<'_>) {
    const FIELD: &str = "spec.source.image.ref";
    let is_touched = |pointer| review.touches(catalog, pointer, &Shape::Scalar);
    let is_other = catalog.has(TYPE) && catalog.text_or_empty(TYPE) != "image";
    if is_other && !catalog.has(IMAGE) || !(is_touched(TYPE) || is_touched(REF)) {
        return;
    }
    let message = match catalog.text(REF) {
        Some(text) if !text.is_empty() => {
            if is_reference(&text) {
                return;
            }
            let value = quote(&shorten(&text, 256));
            format!("{FIELD}: Invalid value: {value}: could not parse reference")
        }
        _ if catalog.has(REF) && catalog.text(REF).is_none() => {
            go_format::wrong_type(catalog, REF, FIELD, "string")
        }
        _ => format!("{FIELD}: Required value"),
    };
    report.add(&OL1_14, FIELD, message);
    report.set_fix(&OL1_14, || {
        let reference = corrections::image_reference(&catalog.text(REF)?)?;
        is_reference(&reference).then(|| corrections::write(REF, &reference))
    });
}
