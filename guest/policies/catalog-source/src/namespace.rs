//! The pod security level in the namespace of a catalog.

use opgate_sdk::go::quote;
use opgate_sdk::{Report, rule, rules};

use crate::reads::NAMESPACES;
use crate::source::{ADDRESS, IMAGE, SECURITY, Source, TEMPLATE, TYPE};
use crate::targets::CATALOG_SOURCE;

rules![CAT_19];

const ENFORCE: &str = "/metadata/labels/pod-security.kubernetes.io~1enforce";

rule! {
    /// a catalog that runs as legacy is not in a namespace that enforces restricted
    ///
    /// The namespace of a CatalogSource that runs as legacy does not have the label
    /// `pod-security.kubernetes.io/enforce: restricted`. A source runs as legacy if it has a pod
    /// (of type `configmap` or `internal`, or of type `grpc` with an image, an image template, or
    /// no address) and `spec.grpcPodConfig.securityContextConfig` is `legacy` or absent. In profile
    /// `upstream` an absent value does not count: OLM then follows the level of the namespace. The
    /// rule accepts a namespace without the label, or with another level. It evaluates an UPDATE
    /// only if it changes one of these fields. The rule reads Namespaces.
    ///
    /// # Why
    ///
    /// The pod of such a catalog has no security context, and the level `restricted` does not admit
    /// it (OpenShift 4.12, Operators, *Configuring catalogs to run with elevated permissions*).
    ///
    /// # Remediation
    ///
    /// Label the namespace with `baseline` or `privileged`, or set `securityContextConfig:
    /// restricted` if the image can run with it.
    ///
    /// # Accepted
    ///
    /// `securityContextConfig: legacy` in a namespace with
    /// `pod-security.kubernetes.io/enforce: baseline`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace my-ns enforces restricted.
    /// metadata: {name: my-catsrc, namespace: my-ns}
    /// spec: {sourceType: grpc, image: 'my-image:latest', grpcPodConfig: {securityContextConfig: legacy}}
    /// ```
    ///
    /// `message: catalog source runs with legacy security context but namespace "my-ns" enforces
    /// restricted; label the namespace for baseline or privileged enforcement`
    CAT_19: Warn {
        name: "no-legacy-catalog-in-restricted-namespace",
        on: [CATALOG_SOURCE: Create | Update],
        reads: [NAMESPACES],
        source: ["OCP 4.12 L9096, L9214-9243, L9292-9294", "OCP 4.15 L6592-6611"],
    }
}

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    if !runs_as_legacy(source)
        || !source.touches(&[TYPE, IMAGE, ADDRESS, TEMPLATE, SECURITY])
        || !report.is_on(&CAT_19)
    {
        return;
    }
    let name = source.review.namespace();
    let namespace = NAMESPACES.get("", name);
    let Some(Some(namespace)) = report.or_skip(&[&CAT_19], "Namespaces", namespace) else { return };
    if namespace.text_or_empty(ENFORCE) == "restricted" {
        let message = format!(
            "catalog source runs with legacy security context but namespace {} enforces restricted; label the namespace for baseline or privileged enforcement",
            quote(name)
        );
        report.add(&CAT_19, SECURITY.name(), message);
    }
}

fn runs_as_legacy(source: &Source<'_>) -> bool {
    let serves_image = source.has_image() || source.text(ADDRESS).is_empty();
    let has_pod = source.is_config_map() || source.is_grpc() && serves_image;
    let is_legacy = match source.text(SECURITY) {
        "legacy" => true,
        "" if !source.has(SECURITY) => {
            source.review.settings.text_or_empty("/profile") != "upstream"
        }
        _ => false,
    };
    has_pod && is_legacy
}
