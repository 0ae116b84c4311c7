//! The types of sources, and the fields that each type requires.

use opgate_sdk::{Report, corrections, rule, rules};

use crate::source::{ADDRESS, CONFIG_MAP, IMAGE, Source, TEMPLATE, TYPE};
use crate::targets::CATALOG_SOURCE;

rules![CAT_01, CAT_02, CAT_03, CAT_04, CAT_05];

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    if !source.has(TYPE) {
        check_type_set(source, report);
        return;
    }
    match source.text(TYPE) {
        "grpc" => check_grpc(source, report),
        "configmap" | "internal" => check_config_map(source, report),
        _ => check_known_type(source, report),
    }
}

rule! {
    /// the type of a CatalogSource is grpc, configmap or internal
    ///
    /// `spec.sourceType`, if it is set, is exactly `grpc`, `configmap` or `internal`. `internal` is
    /// the old name of `configmap`. An empty string is invalid. CAT-02 covers a source without the
    /// field. The rule evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// OLM has no other types: it sets the reason `SpecInvalidError` and stops processing the
    /// source (operator-lifecycle-manager `pkg/controller/operators/catalog/operator.go`).
    ///
    /// # Remediation
    ///
    /// Use `grpc` with `spec.image`, which is correct for nearly all catalogs.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
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
        name: "valid-catalog-source-type",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1661-1672", "OCP 4.15 L1249-1331", "OCP 4.5 L418-424", "OLM pkg/controller/operators/catalog/operator.go"],
    }
}

fn check_known_type(source: &Source<'_>, report: &mut Report<'_>) {
    if source.touches(&[TYPE]) {
        let message = format!("unknown sourcetype: {}", source.display_text(TYPE));
        report.add(&CAT_01, TYPE.name(), message);
        let words = ["grpc", "configmap", "internal"];
        report.set_fix(&CAT_01, || {
            let meant = corrections::word(source.text(TYPE), &words)?;
            let is_complete = match meant {
                "grpc" => source.has_image() || !source.text(ADDRESS).is_empty(),
                _ => !source.text(CONFIG_MAP).is_empty(),
            };
            is_complete.then(|| corrections::write(TYPE.pointer(), meant))
        });
    }
}

rule! {
    /// a CatalogSource has a type
    ///
    /// `spec.sourceType` is set. The rule evaluates an UPDATE only if it removes the field.
    ///
    /// # Why
    ///
    /// The CustomResourceDefinition of CatalogSources requires the field, and OLM does nothing for
    /// a source without it. A documented example with an image template omits the field (OpenShift
    /// 4.12, Operators, *Image template for custom catalog sources*); therefore the rule only
    /// warns.
    ///
    /// # Remediation
    ///
    /// Add `sourceType: grpc` for an image or an image template.
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
    /// spec: {image: 'quay.io/example-org/example-catalog:v1'}
    /// ```
    ///
    /// `message: spec.sourceType is not set`
    CAT_02: Warn {
        name: "catalog-source-type-required",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1820-1834", "api crds/operators.coreos.com_catalogsources.yaml"],
    }
}

fn check_type_set(source: &Source<'_>, report: &mut Report<'_>) {
    if source.touches(&[TYPE]) {
        report.add(&CAT_02, TYPE.name(), "spec.sourceType is not set");
        report.set_fix(&CAT_02, || {
            let has_config_map = !source.text(CONFIG_MAP).is_empty();
            let meant = match (source.has_image(), has_config_map) {
                (true, false) => "grpc",
                (false, true) => "configmap",
                _ => return None,
            };
            Some(corrections::write(TYPE.pointer(), meant))
        });
    }
}

rule! {
    /// a CatalogSource of type grpc has an image, an image template, or an address
    ///
    /// With `spec.sourceType: grpc`, one of `spec.image`, `spec.address` and the annotation
    /// `olm.catalogImageTemplate` is a non-empty string. The rule does not evaluate sources of
    /// other types, or without a type. It evaluates an UPDATE only if it changes one of these
    /// fields.
    ///
    /// # Why
    ///
    /// OLM has no image to start and no address to connect to, and sets the reason
    /// `SpecInvalidError` (operator-lifecycle-manager
    /// `pkg/controller/operators/catalog/operator.go`). With the annotation, OLM writes
    /// `spec.image` itself.
    ///
    /// # Remediation
    ///
    /// Set the image of the catalog in `spec.image`.
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
        name: "grpc-catalog-source-image-or-address",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1653, L1663-1672, L9362-9364", "OCP 4.15 L1249-1331", "OLM pkg/controller/operators/catalog/operator.go"],
    }
}

rule! {
    /// a CatalogSource does not use an address
    ///
    /// A source of type `grpc` has no `spec.address`. The rule evaluates an UPDATE only if it
    /// changes `spec.sourceType` or `spec.address`.
    ///
    /// # Why
    ///
    /// With an address, OLM connects to a registry that it does not manage: it does not start,
    /// update or restart it (OpenShift 4.12, Operators, *Catalog source*). Together with
    /// `spec.image`, the address has no effect.
    ///
    /// # Remediation
    ///
    /// Build an image of the catalog and set it in `spec.image`.
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
        name: "no-catalog-source-address",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1669", "OCP 4.15 L1249-1331", "OCP 4.5 L421-422"],
    }
}

fn check_grpc(source: &Source<'_>, report: &mut Report<'_>) {
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
    /// a CatalogSource of type configmap or internal names a ConfigMap
    ///
    /// With `spec.sourceType: configmap` or `internal`, `spec.configMap` is a non-empty string. The
    /// rule evaluates an UPDATE only if it changes one of the two fields.
    ///
    /// # Why
    ///
    /// OLM has nothing to serve, and sets the reason `SpecInvalidError` (operator-lifecycle-manager
    /// `pkg/controller/operators/catalog/operator.go`).
    ///
    /// # Remediation
    ///
    /// Set `spec.configMap` to the name of a ConfigMap in the namespace of the source, or use the
    /// type `grpc` with an image.
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
        name: "catalog-source-config-map-required",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1672", "OCP 4.5 L423-424", "OLM pkg/controller/operators/catalog/operator.go"],
    }
}

fn check_config_map(source: &Source<'_>, report: &mut Report<'_>) {
    if source.text(CONFIG_MAP).is_empty() && source.touches(&[TYPE, CONFIG_MAP]) {
        let kind = source.text(TYPE);
        let message = format!("configmap name unset: must be set for sourcetype: {kind}");
        report.add(&CAT_04, CONFIG_MAP.name(), message);
    }
}
