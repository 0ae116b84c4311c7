//! Bundles for OLM 1.0: manifests in files, and the bundles of a catalog.
//!
//! ```text
//! ClusterServiceVersion ─┐
//! olm.bundle.object ─────┼─▶ install modes, webhooks
//! olm.csv.metadata ──────┘  (if the bundle has no object; without webhooks)
//! ```

use opgate_sdk::bundle_objects::BundleObjectDecoder;
use opgate_sdk::{Document, Report, Review, rule, rules};

use crate::targets::{BUNDLES, CSV};

rules![OL1_12];

rule! {
    /// a bundle for OLM 1.0 supports AllNamespaces and has no webhooks
    ///
    /// A ClusterServiceVersion supports the install mode `AllNamespaces`, and
    /// `spec.webhookdefinitions` is empty. The rule is off until the setting `olmv1.target` is
    /// `true`. It evaluates files only: manifests, and the bundles of a catalog. In a catalog it
    /// reads the property `olm.bundle.object` with the manifest. If that is missing, it reads
    /// `olm.csv.metadata`, which has no webhooks: the policy then evaluates the rule in part.
    ///
    /// # Gap
    ///
    /// `olm.csv.metadata` in a catalog has no `webhookdefinitions`. If you have the bundle as
    /// files, its ClusterServiceVersion lists them.
    ///
    /// # Why
    ///
    /// OLM 1.0 installs no other extensions (OpenShift 4.15, Operators, *OLM 1.0 components* and
    /// *Installing an Operator from a catalog*).
    ///
    /// # Remediation
    ///
    /// Change the Operator to watch all namespaces, and set `supported: true` for the install mode
    /// `AllNamespaces`. Remove the webhook definitions: OLM 1.0 has no replacement for a conversion
    /// or defaulting webhook.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {installModes: [{type: AllNamespaces, supported: true}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   installModes: [{type: AllNamespaces, supported: true}]
    ///   webhookdefinitions: [{type: ValidatingAdmissionWebhook}]
    /// ```
    ///
    /// `message: OLM 1.0 supports only extensions that use the AllNamespaces install mode and no
    /// webhooks: spec.webhookdefinitions is not empty`
    OL1_12: Deny {
        name: "olm-v1-bundle-supported",
        on: [CSV: Create, BUNDLES: Create | Update],
        enabled_by: ["/olmv1/target"],
        may_skip: true,
        source: ["OCP 4.15 L20642-20644, L20686-20691, L20769, L20797-20802"],
    }
}

/// A manifest. Objects created in a cluster are for the first version of OLM.
pub(crate) fn check_manifest(review: &Review<'_>, report: &mut Report<'_>) {
    if let Some(csv) = review.subject().filter(|_| review.is_from_file()) {
        check_object(csv, "", report);
    }
}

/// The bundles of a package.
pub(crate) fn check_catalog(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(catalog) = review.subject() else { return };
    if !report.is_on(&OL1_12) {
        return;
    }
    report.locate_with(opgate_sdk::catalog::set_logical_locations);
    let mut objects = BundleObjectDecoder::default();
    for (index, row) in catalog.rows("/spec/blobs", &["/value/schema"]).iter().enumerate() {
        if row.text(0) == Some("olm.bundle") {
            check_bundle(catalog, index, &mut objects, report);
        }
    }
}

fn check_bundle(
    catalog: &Document,
    index: usize,
    objects: &mut BundleObjectDecoder,
    report: &mut Report<'_>,
) {
    let properties = format!("/spec/blobs/{index}/value/properties");
    let field = format!("spec.blobs[{index}].value.properties");
    let types = catalog.rows(&properties, &["/type"]);
    let of = |kind: &'static str| {
        let types = types.iter().enumerate();
        types.filter(move |(_, row)| row.text(0) == Some(kind)).map(|(index, _)| index)
    };
    for property in of("olm.bundle.object") {
        let data = format!("{properties}/{property}/value/data");
        if let Some(csv) = objects.decode_csv(catalog, &data, from_yaml) {
            check_object(&csv, &format!("{field}[{property}].value.data."), report);
            return;
        }
    }
    if let Some(property) = of("olm.csv.metadata").next() {
        let modes = format!("{properties}/{property}/value/installModes");
        let field = format!("{field}[{property}].value.installModes");
        check_install_modes(catalog, &modes, &field, report);
        report.skip_part(&OL1_12, &field, "a property olm.csv.metadata does not show webhooks");
    }
}

fn check_object(csv: &Document, place: &str, report: &mut Report<'_>) {
    check_install_modes(csv, "/spec/installModes", &format!("{place}spec.installModes"), report);
    let webhooks = csv.length("/spec/webhookdefinitions");
    if webhooks.is_some_and(|webhooks| webhooks > 0) {
        let field = format!("{place}spec.webhookdefinitions");
        report_unsupported(field, "spec.webhookdefinitions is not empty", report);
    }
}

fn check_install_modes(document: &Document, pointer: &str, field: &str, report: &mut Report<'_>) {
    let modes = document.rows(pointer, &["/type", "/supported"]);
    let is_supported = modes
        .iter()
        .any(|mode| mode.text(0) == Some("AllNamespaces") && mode.boolean(1) == Some(true));
    if !is_supported {
        report_unsupported(field.to_owned(), "install mode AllNamespaces is not supported", report);
    }
}

fn report_unsupported(field: String, why: &str, report: &mut Report<'_>) {
    let message = format!(
        "OLM 1.0 supports only extensions that use the AllNamespaces install mode and no webhooks: {why}"
    );
    report.add(&OL1_12, field, message);
}

/// Maximum bytes of YAML to parse at once.
const MAX_YAML_BYTES: usize = 4_000_000;

fn from_yaml(text: &str) -> Option<Document> {
    let json = opgate_yaml::read_strict(text, MAX_YAML_BYTES).ok()?;
    Document::parse(std::str::from_utf8(&json).ok()?).ok()
}
