//! Namespaces with catalogs whose pods need more than the level `restricted` allows.

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, rule, rules};

use super::{LabelledNamespace, SYNC, field};
use crate::level::{ENFORCE, RESTRICTED};
use crate::reads::CATALOG_SOURCES;
use crate::targets::{NAMESPACE, NAMESPACE_PARTS};

rules![PSA_06, PSA_07];

const REQUIRED_STATE: &str = "CatalogSources";
const CONFIG: &str = "/spec/grpcPodConfig/securityContextConfig";

rule! {
    /// a Namespace with a legacy CatalogSource does not enforce restricted
    ///
    /// An UPDATE does not set `pod-security.kubernetes.io/enforce: restricted` on a Namespace with
    /// a CatalogSource that runs as legacy: of type `grpc`, with its own pod (an `image`, or no
    /// `address`), and with `spec.grpcPodConfig.securityContextConfig` `legacy` or absent. In
    /// profile `upstream`, an absent value does not count: OLM then follows the level of the
    /// namespace. The rule does not evaluate a label that does not change. The rule reads
    /// CatalogSources.
    ///
    /// # Why
    ///
    /// The pod of such a catalog sets no security context, and the level `restricted` does not
    /// admit it (OpenShift 4.12, Operators, *Configuring catalogs to run with elevated
    /// permissions*). When the pod is next replaced, the catalog becomes unavailable.
    ///
    /// # Remediation
    ///
    /// Enforce `baseline` or `privileged`. Alternatively, set `securityContextConfig: restricted`
    /// if the image of the catalog can run with it, as file-based catalogs can.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels: {pod-security.kubernetes.io/enforce: baseline}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace my-ns has the CatalogSource my-catsrc with securityContextConfig: legacy.
    /// labels: {pod-security.kubernetes.io/enforce: restricted}
    /// ```
    ///
    /// `message: namespace "my-ns" holds catalog source "my-catsrc" with legacy security context;
    /// set enforce to baseline or privileged`
    PSA_06: Warn {
        name: "no-restricted-namespace-with-legacy-catalog",
        on: [NAMESPACE: Update, NAMESPACE_PARTS: Update],
        reads: [CATALOG_SOURCES],
        source: ["OCP 4.12 L9214-9220, L9269-9294", "OCP 4.15 L6592-6611"],
    }
}

rule! {
    /// a Namespace with a legacy CatalogSource turns the synchronisation off and enforces baseline
    ///
    /// A Namespace with a CatalogSource that runs as legacy (PSA-06; here, an absent value counts
    /// in every profile), and with `pod-security.kubernetes.io/enforce` `baseline` or `privileged`,
    /// has the label `security.openshift.io/scc.podSecurityLabelSync: "false"`. It enforces
    /// `baseline` rather than `privileged`. On UPDATE, the rule evaluates the two labels if one of
    /// them changes. It reads CatalogSources.
    ///
    /// # Why
    ///
    /// The synchronisation may replace the level that the catalog needs (OpenShift 4.12, Operators,
    /// *Configuring catalogs to run with elevated permissions*). The pod of a catalog needs only
    /// `baseline`; `privileged` would admit many other pods.
    ///
    /// # Remediation
    ///
    /// Add the label, and use `baseline` unless other workloads of the namespace need `privileged`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels:
    ///   security.openshift.io/scc.podSecurityLabelSync: "false"
    ///   pod-security.kubernetes.io/enforce: baseline
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// labels: {pod-security.kubernetes.io/enforce: privileged}
    /// ```
    ///
    /// `message: turn off pod security label synchronization by adding the
    /// security.openshift.io/scc.podSecurityLabelSync=false label`, and `use the baseline pod
    /// security profile unless other workloads in the namespace require a privileged profile`
    PSA_07: Warn {
        name: "baseline-namespace-for-legacy-catalog",
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        reads: [CATALOG_SOURCES],
        source: ["OCP 4.12 L9269-9294", "OCP 4.15 L6592-6611"],
    }
}

pub(super) fn check(namespace: &LabelledNamespace<'_>, report: &mut Report<'_>) {
    match namespace.get(ENFORCE).as_deref() {
        Some(RESTRICTED) if namespace.is_new(ENFORCE) && namespace.review.is_update() => {
            check_restricted(namespace, report);
        }
        Some(level @ ("baseline" | "privileged"))
            if namespace.is_new(ENFORCE) || namespace.is_new(SYNC) =>
        {
            check_elevated(namespace, level, report);
        }
        _ => {}
    }
}

/// PSA-06.
fn check_restricted(namespace: &LabelledNamespace<'_>, report: &mut Report<'_>) {
    if !report.is_on(&PSA_06) {
        return;
    }
    let follows = namespace.review.settings.text_or_empty("/profile") == "upstream";
    let found = legacy_catalogs(&namespace.name, |catalog| catalog.has(CONFIG) || !follows);
    for catalog in report.or_skip(&[&PSA_06], REQUIRED_STATE, found).unwrap_or_default() {
        let message = format!(
            "namespace {} holds catalog source {} with legacy security context; set enforce to baseline or privileged",
            quote(&namespace.name),
            quote(&catalog)
        );
        report.add(&PSA_06, field(ENFORCE), message);
    }
}

/// PSA-07.
fn check_elevated(namespace: &LabelledNamespace<'_>, level: &str, report: &mut Report<'_>) {
    let is_synchronised = namespace.get(SYNC).as_deref() != Some("false");
    let is_privileged = level == "privileged";
    if !report.is_on(&PSA_07) || !(is_synchronised || is_privileged) {
        return;
    }
    let found = legacy_catalogs(&namespace.name, |_| true);
    if report.or_skip(&[&PSA_07], REQUIRED_STATE, found).is_none_or(|catalogs| catalogs.is_empty())
    {
        return;
    }
    if is_synchronised {
        let message = "turn off pod security label synchronization by adding the security.openshift.io/scc.podSecurityLabelSync=false label";
        report.add(&PSA_07, field(SYNC), message);
    }
    if is_privileged {
        let message = "use the baseline pod security profile unless other workloads in the namespace require a privileged profile";
        report.add(&PSA_07, field(ENFORCE), message);
    }
}

/// The names of the catalogs of a namespace that run as legacy.
fn legacy_catalogs(
    namespace: &str,
    counts: impl Fn(&Document) -> bool,
) -> Result<Vec<String>, ReadError> {
    let mut found: Vec<String> = Vec::new();
    CATALOG_SOURCES.each(Query { namespace: Some(namespace), ..Query::default() }, |catalog| {
        let has = |pointer: &str| !catalog.text_or_empty(pointer).is_empty();
        let runs_a_pod = has("/spec/image") || !has("/spec/address");
        let config = catalog.text_or_empty(CONFIG);
        if catalog.text_or_empty("/spec/sourceType") == "grpc"
            && runs_a_pod
            && matches!(config.as_str(), "" | "legacy")
            && counts(&catalog)
        {
            let name = catalog.text_or_empty("/metadata/name");
            // During a change, an object can be in the result twice.
            if found.last() != Some(&name) {
                found.push(name);
            }
        }
        true
    })?;
    Ok(found)
}
