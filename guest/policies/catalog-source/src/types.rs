//! The types of sources, and what each of them needs.

use opgate_sdk::{Report, rule, rules};

use crate::source::{ADDRESS, CONFIG_MAP, IMAGE, Source, TEMPLATE, TYPE};
use crate::targets::CATALOG_SOURCE;

rules![CAT_01, CAT_02, CAT_03, CAT_04, CAT_05];

pub(crate) fn judge(source: &Source<'_>, report: &mut Report<'_>) {
    if !source.has(TYPE) {
        missing(source, report);
        return;
    }
    match source.text(TYPE) {
        "grpc" => grpc(source, report),
        "configmap" | "internal" => config_map(source, report),
        _ => unknown(source, report),
    }
}

rule! {
    /// the type of a CatalogSource is grpc, configmap or internal
    ///
    /// `spec.sourceType`, if it is set, is `grpc`, `configmap` or `internal`, letter by letter.
    /// `internal` is the old name of `configmap`. An empty text is none of them. A source without
    /// the field is left to CAT-02. An UPDATE is judged where it changes the field.
    ///
    /// # Why
    ///
    /// OLM has no other types: it sets the reason `SpecInvalidError` and does nothing more for the
    /// source (operator-lifecycle-manager `pkg/controller/operators/catalog/operator.go`).
    ///
    /// # Repair
    ///
    /// Use `grpc` with `spec.image`, which is right for nearly all catalogs.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sourceType: grpc, image: 'my-image:latest'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {sourceType: git}
    /// ```
    ///
    /// `message: unknown sourcetype: git`
    CAT_01: Deny {
        on: [CATALOG_SOURCE: Create | Update],
        source: "OCP 4.12 L1661-1672; OCP 4.15 L1249-1331; OCP 4.5 L418-424; OLM pkg/controller/operators/catalog/operator.go",
    }
}

fn unknown(source: &Source<'_>, report: &mut Report<'_>) {
    if source.touches(&[TYPE]) {
        let message = format!("unknown sourcetype: {}", source.printed(TYPE));
        report.add(&CAT_01, TYPE.name(), message);
    }
}

rule! {
    /// a CatalogSource has a type
    ///
    /// `spec.sourceType` is set. An UPDATE is judged where it removes the field.
    ///
    /// # Why
    ///
    /// The CustomResourceDefinition of CatalogSources requires the field, and OLM does nothing for
    /// a source without it. A documented example with a template of the image leaves it out
    /// (OpenShift 4.12, Operators, *Image template for custom catalog sources*); therefore the rule
    /// only warns.
    ///
    /// # Repair
    ///
    /// Add `sourceType: grpc` for an image or a template of one.
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
    /// spec: {image: 'quay.io/example-org/example-catalog:v1'}
    /// ```
    ///
    /// `message: spec.sourceType is not set`
    CAT_02: Warn {
        on: [CATALOG_SOURCE: Create | Update],
        source: "OCP 4.12 L1820-1834; api crds/operators.coreos.com_catalogsources.yaml",
    }
}

fn missing(source: &Source<'_>, report: &mut Report<'_>) {
    if source.touches(&[TYPE]) {
        report.add(&CAT_02, TYPE.name(), "spec.sourceType is not set");
    }
}

rule! {
    /// a CatalogSource of type grpc has an image, a template of one, or an address
    ///
    /// With `spec.sourceType: grpc`, one of `spec.image`, `spec.address` and the annotation
    /// `olm.catalogImageTemplate` is a text that is not empty. Sources of other types, and those
    /// without a type, are not judged. An UPDATE is judged where it changes one of these fields.
    ///
    /// # Why
    ///
    /// OLM has nothing to start and nothing to connect to, and sets the reason `SpecInvalidError`
    /// (operator-lifecycle-manager `pkg/controller/operators/catalog/operator.go`). With the
    /// annotation it writes `spec.image` itself.
    ///
    /// # Repair
    ///
    /// Name the image of the catalog in `spec.image`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   annotations:
    ///     olm.catalogImageTemplate: quay.io/example-org/example-catalog:v{kube_major_version}
    /// spec: {sourceType: grpc}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {sourceType: grpc}
    /// ```
    ///
    /// `message: image and address unset: at least one must be set for sourcetype: grpc`
    CAT_03: Deny {
        on: [CATALOG_SOURCE: Create | Update],
        source: "OCP 4.12 L1653, L1663-1672, L9362-9364; OCP 4.15 L1249-1331; OLM pkg/controller/operators/catalog/operator.go",
    }
}

rule! {
    /// a CatalogSource does not use an address
    ///
    /// A source of type `grpc` has no `spec.address`. An UPDATE is judged where it changes
    /// `spec.sourceType` or `spec.address`.
    ///
    /// # Why
    ///
    /// With an address, OLM connects to a registry that somebody else runs: it does not start,
    /// update or restart it (OpenShift 4.12, Operators, *Catalog source*). Beside `spec.image`, the
    /// address has no effect.
    ///
    /// # Repair
    ///
    /// Build an image of the catalog and name it in `spec.image`.
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
    /// spec: {sourceType: grpc, address: 'registry.svc:50051'}
    /// ```
    ///
    /// `message: grpc with an address field should not be used in most cases`
    CAT_05: Warn {
        on: [CATALOG_SOURCE: Create | Update],
        source: "OCP 4.12 L1669; OCP 4.15 L1249-1331; OCP 4.5 L421-422",
    }
}

fn grpc(source: &Source<'_>, report: &mut Report<'_>) {
    let has_address = !source.text(ADDRESS).is_empty();
    if !has_address && !source.has_image() && source.touches(&[TYPE, IMAGE, ADDRESS, TEMPLATE]) {
        let message = "image and address unset: at least one must be set for sourcetype: grpc";
        report.add(&CAT_03, IMAGE.name(), message);
    }
    if has_address && source.touches(&[TYPE, ADDRESS]) {
        let message = "grpc with an address field should not be used in most cases";
        report.add(&CAT_05, ADDRESS.name(), message);
    }
}

rule! {
    /// a CatalogSource of type configmap or internal names a config map
    ///
    /// With `spec.sourceType: configmap` or `internal`, `spec.configMap` is a text that is not
    /// empty. An UPDATE is judged where it changes one of the two fields.
    ///
    /// # Why
    ///
    /// OLM has nothing to serve, and sets the reason `SpecInvalidError` (operator-lifecycle-manager
    /// `pkg/controller/operators/catalog/operator.go`).
    ///
    /// # Repair
    ///
    /// Name a config map of the source's namespace in `spec.configMap`, or use the type `grpc` with
    /// an image.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sourceType: configmap, configMap: my-catalog}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {sourceType: internal}
    /// ```
    ///
    /// `message: configmap name unset: must be set for sourcetype: internal`
    CAT_04: Deny {
        on: [CATALOG_SOURCE: Create | Update],
        source: "OCP 4.12 L1672; OCP 4.5 L423-424; OLM pkg/controller/operators/catalog/operator.go",
    }
}

fn config_map(source: &Source<'_>, report: &mut Report<'_>) {
    if source.text(CONFIG_MAP).is_empty() && source.touches(&[TYPE, CONFIG_MAP]) {
        let kind = source.text(TYPE);
        let message = format!("configmap name unset: must be set for sourcetype: {kind}");
        report.add(&CAT_04, CONFIG_MAP.name(), message);
    }
}
