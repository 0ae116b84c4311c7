//! `spec.grpcPodConfig`: the configuration of a catalog's pod.

use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Report, corrections, rule, rules};

use crate::source::{
    IMAGE, NODE_SELECTOR, PRIORITY_CLASS, SECURITY, Source, TEMPLATE, TOLERATIONS, TYPE,
};
use crate::targets::CATALOG_SOURCE;

rules![CAT_06, CAT_07, CAT_08, CAT_18];

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    if source.has(SECURITY) {
        check_security_context(source, report);
    } else {
        check_security_context_set(source, report);
    }
    check_pod_config_effect(source, report);
}

rule! {
    /// the security context of a catalog's pod is legacy or restricted
    ///
    /// `spec.grpcPodConfig.securityContextConfig`, if it is set, is exactly `legacy` or
    /// `restricted`. The rule evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// OpenShift documents these two values (OpenShift 4.12, Operators, *Catalog source*), and the
    /// schema of CatalogSources accepts no other value.
    ///
    /// # Remediation
    ///
    /// Use `restricted` for a file-based catalog, `legacy` for a catalog in the SQLite format that
    /// an old opm built.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sourceType: grpc, image: 'my-image:latest', grpcPodConfig: {securityContextConfig: legacy}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {grpcPodConfig: {securityContextConfig: baseline}}
    /// ```
    ///
    /// `message: spec.grpcPodConfig.securityContextConfig: Unsupported value: "baseline": supported
    /// values: "legacy", "restricted"`
    CAT_06: Deny {
        name: "valid-catalog-source-security-context",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1604, L1679, L2972, L9093, L9359, L9633, L9989, L21421", "OCP 4.15 L1249-1331", "api crds/operators.coreos.com_catalogsources.yaml"],
    }
}

rule! {
    /// a restricted catalog is not in the namespace default
    ///
    /// A CatalogSource with `spec.grpcPodConfig.securityContextConfig: restricted` is not in the
    /// namespace `default`. The rule warns; the setting `catalog.restrictedInDefault: deny` makes
    /// it deny. The rule evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// OpenShift does not apply its security context constraints in the namespace `default`, so the
    /// restricted context does not work there (OpenShift 4.12, Operators, *operator-sdk run
    /// bundle*, option `--security-context-config`).
    ///
    /// # Remediation
    ///
    /// Create the catalog in another namespace. For a catalog of the whole cluster, use
    /// `openshift-marketplace`.
    ///
    /// # Accepted
    ///
    /// The CatalogSource in the namespace `openshift-marketplace`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: example-catalog, namespace: default}
    /// spec: {grpcPodConfig: {securityContextConfig: restricted}}
    /// ```
    ///
    /// `message: the restricted security context is not compatible with the default namespace`
    CAT_18: Warn {
        name: "no-restricted-catalog-in-default-namespace",
        on: [CATALOG_SOURCE: Create | Update],
        denies_with: ["/catalog/restrictedInDefault"],
        source: ["OCP 4.12 L24369, L24444, L24571", "OCP 4.15 L18690"],
    }
}

fn check_security_context(source: &Source<'_>, report: &mut Report<'_>) {
    if !source.touches(&[SECURITY]) {
        return;
    }
    match source.text(SECURITY) {
        "restricted" if source.review.namespace() == "default" => {
            let message =
                "the restricted security context is not compatible with the default namespace";
            report.add(&CAT_18, SECURITY.name(), message);
        }
        "legacy" | "restricted" => {}
        _ => {
            let value = quote(&source.display_text(SECURITY));
            let message = format!(
                "spec.grpcPodConfig.securityContextConfig: Unsupported value: {value}: supported values: \"legacy\", \"restricted\""
            );
            report.add(&CAT_06, SECURITY.name(), message);
            report.set_fix(&CAT_06, || {
                let words = ["legacy", "restricted"];
                corrections::spelling(SECURITY.pointer(), source.text(SECURITY), &words)
            });
        }
    }
}

rule! {
    /// a catalog sets the security context of its pod
    ///
    /// A CatalogSource of type `grpc` with an image, or an image template, sets
    /// `spec.grpcPodConfig.securityContextConfig`. The rule is off by default: the image, not the
    /// object, determines whether a catalog can run with restricted permissions. The rule evaluates
    /// an UPDATE only if it changes `spec.sourceType`, the image, the template or the field.
    ///
    /// # Why
    ///
    /// Without the field the default applies, and OpenShift announces a future default of
    /// `restricted` (OpenShift 4.12, Operators, *Catalog sources and pod security admission*).
    ///
    /// # Remediation
    ///
    /// Set `legacy` for a catalog in the SQLite format that an old opm built, otherwise
    /// `restricted`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sourceType: grpc, image: 'my-image:latest', grpcPodConfig: {securityContextConfig: legacy}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {sourceType: grpc, image: 'my-image:latest'}
    /// ```
    ///
    /// `message: securityContextConfig is not set; if your catalog cannot run with restricted
    /// permissions, set it to legacy`
    CAT_07: Warn {
        name: "catalog-source-security-context-required",
        on: [CATALOG_SOURCE: Create | Update],
        enabled_by: [],
        source: ["OCP 4.12 L1679, L9103, L9217, L9264", "OCP 4.15 L1249-1331"],
    }
}

fn check_security_context_set(source: &Source<'_>, report: &mut Report<'_>) {
    if source.is_grpc() && source.has_image() && source.touches(&[TYPE, IMAGE, TEMPLATE, SECURITY])
    {
        let message = "securityContextConfig is not set; if your catalog cannot run with restricted permissions, set it to legacy";
        report.add(&CAT_07, SECURITY.name(), message);
    }
}

rule! {
    /// only a catalog with an image has settings for its pod
    ///
    /// `nodeSelector`, `priorityClassName` and `tolerations` of `spec.grpcPodConfig` are set only
    /// if `spec.sourceType` is `grpc` and the source has `spec.image` or the annotation
    /// `olm.catalogImageTemplate`. The rule evaluates an UPDATE only if it changes the type, the
    /// image, the template or the setting.
    ///
    /// # Why
    ///
    /// OLM creates the pod that these fields configure only for such a source (OpenShift 4.12,
    /// Operators, *Catalog source pod scheduling*).
    ///
    /// # Remediation
    ///
    /// Remove the fields, or set the image of the catalog.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sourceType: grpc, image: 'my-image:latest', grpcPodConfig: {nodeSelector: {a: b}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {sourceType: configmap, configMap: c, grpcPodConfig: {nodeSelector: {a: b}}}
    /// ```
    ///
    /// `message: spec.grpcPodConfig.nodeSelector has no effect: it requires sourceType grpc with
    /// spec.image defined`
    CAT_08: Warn {
        name: "catalog-source-pod-config-requires-image",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1684-1694, L10091, L10119, L10149, L10204", "OCP 4.15 L7168, L7219, L7241, L7282"],
    }
}

fn check_pod_config_effect(source: &Source<'_>, report: &mut Report<'_>) {
    if source.is_grpc() && source.has_image() {
        return;
    }
    for field in [NODE_SELECTOR, PRIORITY_CLASS, TOLERATIONS] {
        if source.has(field) && source.touches(&[TYPE, IMAGE, TEMPLATE, field]) {
            let name = field.name();
            let message = format!(
                "{name} has no effect: it requires sourceType grpc with spec.image defined"
            );
            report.add(&CAT_08, name, message);
            report.set_fix(&CAT_08, || {
                // With another source type, or an image, it has one.
                let fix = Fix::needs_review("remove the field, which has no effect");
                Some(fix.remove(field.pointer()))
            });
        }
    }
}
