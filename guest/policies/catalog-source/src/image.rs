//! The image of a catalog.

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Report, corrections, image, rule, rules};

use crate::source::{IMAGE, Source, TYPE};
use crate::targets::CATALOG_SOURCE;

rules![CAT_24];

/// Maximum bytes of a reference in a message.
const MAX_SHOWN_BYTES: usize = 256;

rule! {
    /// the image of a CatalogSource is a reference to an image
    ///
    /// `spec.image`, if it is a non-empty string, is a reference to an image:
    /// `[host/]path[:tag][@digest]`, without a scheme, spaces or upper case in the path. The rule
    /// does not evaluate sources of type `configmap` and `internal`, which have no image. It
    /// evaluates an UPDATE only if it changes the image or the type.
    ///
    /// # Why
    ///
    /// OLM copies the value into the pod of the catalog (operator-lifecycle-manager
    /// `pkg/controller/registry/reconciler`). The kubelet cannot pull it, the pod stays in
    /// `InvalidImageName`, and the catalog provides nothing.
    ///
    /// # Remediation
    ///
    /// Write the reference as `podman pull` accepts it, such as
    /// `quay.io/example-org/example-catalog:v1`. Replace placeholders, and remove `https://` and
    /// `docker://`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sourceType: grpc, image: 'quay.io/example-org/example-catalog:v1'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {sourceType: grpc, image: not an image}
    /// ```
    ///
    /// `message: spec.image: Invalid value: "not an image": not an image reference: invalid
    /// reference format`
    CAT_24: Deny {
        name: "valid-catalog-source-image",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1661-1672", "OLM pkg/controller/registry/reconciler"],
    }
}

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    // CAT-03 reports a value that is not a string.
    let image = source.text(IMAGE);
    if image.is_empty() || source.is_config_map() || !source.touches(&[IMAGE, TYPE]) {
        return;
    }
    if let Some(why) = image::plain_error(image) {
        let value = quote(&shorten(image, MAX_SHOWN_BYTES));
        let field = IMAGE.name();
        let message = format!("{field}: Invalid value: {value}: not an image reference: {why}");
        report.add(&CAT_24, field, message);
        report.set_fix(&CAT_24, || {
            let reference = corrections::image_reference(image)?;
            Some(corrections::write(IMAGE.pointer(), &reference))
        });
    }
}
