//! The catalog source that a Subscription names.

use opgate_sdk::{Fix, Report, escape, operator_hub, rule, rules, schema};

use super::Subscription;
use crate::bounded::quote;
use crate::reads::CATALOG_SOURCES;
use crate::targets::SUBSCRIPTION;

rules![SUB_01, SUB_02, SUB_03, SUB_24];

const SOURCE: [&str; 2] = ["source", "sourceNamespace"];

impl Subscription<'_> {
    pub(super) fn check_source(&self, report: &mut Report<'_>) {
        self.check_required_fields(report);
        if !self.touches(&SOURCE) {
            return;
        }
        self.check_allowed_sources(report);
        if self.source.is_empty() || self.source_namespace.is_empty() {
            return;
        }
        self.check_source_namespace(report);
        self.check_source_exists(report);
    }
}

rule! {
    /// the catalog source of a Subscription exists
    ///
    /// The cluster has the CatalogSource `spec.source` in the namespace `spec.sourceNamespace`.
    /// SUB-03 covers a Subscription without one of these fields. The rule evaluates an UPDATE only
    /// if it changes one of the two. The rule does not evaluate requests for the subresource
    /// `status`. Without cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// OLM installs nothing for a Subscription whose catalog source does not exist, and reports
    /// this only in the status (OpenShift 4.12, Operators, *Catalog source* and *Installing from
    /// OperatorHub using the CLI*).
    ///
    /// # Remediation
    ///
    /// Correct the two names; `kubectl get catalogsources -A` lists the existing ones. If one file
    /// holds both objects, put the CatalogSource first. If the Subscription is still denied, apply
    /// the file again: opgate may see the CatalogSource a moment later.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # openshift-marketplace has the CatalogSource redhat-operators.
    /// spec: {name: etcd, source: redhat-operators, sourceNamespace: openshift-marketplace}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {name: etcd, source: nope, sourceNamespace: openshift-marketplace}
    /// ```
    ///
    /// `message: catalog source openshift-marketplace/nope does not exist: specify a catalog source
    /// that already exists`
    SUB_01: Deny {
        name: "subscription-catalog-source-exists",
        on: [SUBSCRIPTION: Create | Update],
        reads: [CATALOG_SOURCES],
        source: ["OCP 4.12 L1736-1748, L5793-5798, L8124-8129", "OCP 4.15 L1451-1582", "OCP 4.5 L438-450"],
    }
}

impl Subscription<'_> {
    fn check_source_exists(&self, report: &mut Report<'_>) {
        if !report.is_on(&SUB_01) {
            return;
        }
        let (namespace, source) = (&self.source_namespace, &self.source);
        let found = CATALOG_SOURCES.get(namespace, source);
        if let Some(None) = report.or_skip(&[&SUB_01], "CatalogSources", found) {
            let message = format!(
                "catalog source {namespace}/{source} does not exist: specify a catalog source that already exists"
            );
            report.add(&SUB_01, "spec.source", message);
        }
    }
}

rule! {
    /// a Subscription uses a catalog in its namespace or a global one
    ///
    /// `spec.sourceNamespace` is the namespace of the Subscription or one of the setting
    /// `subscription.globalNamespaces`. By default these are `openshift-marketplace`, `olm`, and
    /// the namespaces of OLM's users (`identities.olm` or the profile) outside of OpenShift. SUB-03
    /// covers a Subscription without `spec.source` or `spec.sourceNamespace`. The rule evaluates an
    /// UPDATE only if it changes one of the two.
    ///
    /// # Why
    ///
    /// The Operators of a catalog in the global catalog namespace are available in all namespaces,
    /// those of other catalogs only in the catalog's own namespace (OpenShift 4.12, Operators,
    /// *Operator catalog access control*). Documented examples also use custom global namespaces,
    /// so the rule only warns.
    ///
    /// # Remediation
    ///
    /// Use a global catalog, or create the CatalogSource in the namespace of the Subscription. If
    /// the package server of your cluster has another global namespace, add it to
    /// `subscription.globalNamespaces`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: keda, namespace: openshift-keda}
    /// spec: {name: keda, source: redhat-operators, sourceNamespace: openshift-marketplace}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: keda, namespace: openshift-keda}
    /// spec: {name: keda, source: my-operators, sourceNamespace: operator-registries}
    /// ```
    ///
    /// `message: catalog source namespace "operator-registries" is neither the namespace of the
    /// Subscription nor a global catalog namespace`
    SUB_02: Warn {
        name: "subscription-source-namespace-visible",
        on: [SUBSCRIPTION: Create | Update],
        source: ["OCP 4.12 L1864, L6649-6668, L8124-8129, L8230, L9349, L9984", "OCP 4.15 L1436-1444"],
    }
}

impl Subscription<'_> {
    fn check_source_namespace(&self, report: &mut Report<'_>) {
        let namespace = &self.source_namespace;
        if namespace != self.namespace()
            && !operator_hub::global_namespaces(self.review.settings).contains(namespace)
        {
            let namespace = quote(namespace);
            let message = format!(
                "catalog source namespace {namespace} is neither the namespace of the Subscription nor a global catalog namespace"
            );
            report.add(&SUB_02, "spec.sourceNamespace", message);
        }
    }
}

rule! {
    /// a Subscription names a package and a catalog source
    ///
    /// `spec.name`, `spec.source` and `spec.sourceNamespace` are non-empty strings. The field
    /// `spec.channel` is optional. On UPDATE, the rule evaluates only the fields that the request
    /// changes. The rule does not evaluate requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// The CRD of Subscriptions requires the three fields, so an API server rejects an object
    /// without one, but accepts an empty text. Documented snippets have `spec.package` or omit
    /// `sourceNamespace` (OpenShift 4.12, Operators, *Injecting a custom CA certificate*; 4.5,
    /// *Subscription*), so the rule only warns.
    ///
    /// # Remediation
    ///
    /// Add the field. The package is `spec.name`; there is no `spec.package`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {name: etcd, source: community-operators, sourceNamespace: openshift-marketplace}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: my-operator}
    /// spec: {package: etcd, channel: alpha}
    /// ```
    ///
    /// `message: spec.name: Required value`, and the same about `spec.source` and
    /// `spec.sourceNamespace`.
    SUB_03: Warn {
        name: "subscription-package-and-source-required",
        on: [SUBSCRIPTION: Create | Update],
        source: ["OCP 4.12 L1894-1903, L6649-6668, L7468-7489, L8464", "OCP 4.5 L441-450", "api crds/operators.coreos.com_subscriptions.yaml"],
    }
}

impl Subscription<'_> {
    fn check_required_fields(&self, report: &mut Report<'_>) {
        let fields = [
            ("name", &self.package),
            ("source", &self.source),
            ("sourceNamespace", &self.source_namespace),
        ];
        for (name, _) in fields.into_iter().filter(|(_, text)| text.is_empty()) {
            if self.touches(&[name]) {
                let field = format!("spec.{name}");
                let message = schema::required_error(&field);
                report.add(&SUB_03, field, message);
                let spec = "/spec/package";
                let is_package = name == "name"
                    && !self.object.has("/spec/name")
                    && !self.object.text_or_empty(spec).is_empty();
                let fix = || Fix::safe("rename package to name").rename_key(spec, "name");
                report.set_fix(&SUB_03, || is_package.then(fix));
            }
        }
    }
}

rule! {
    /// a Subscription uses a catalog source of the namespace's curated list
    ///
    /// If the setting `subscription.allowedSources` has a list for the namespace of the
    /// Subscription, that list has `<spec.sourceNamespace>/<spec.source>`. Namespaces without a
    /// list may use any catalog source, and an empty list allows none. The rule evaluates an UPDATE
    /// only if it changes one of the two fields. The rule is off while the setting is missing.
    ///
    /// # Why
    ///
    /// Administrators can provide tenants with custom, curated catalogs instead of the global ones
    /// (OpenShift 4.12, Operators, *Operator catalog access control*). However, a global catalog is
    /// available in every namespace, and nothing else prevents a tenant from using it.
    ///
    /// # Remediation
    ///
    /// Use a catalog of the list, or ask the cluster administrator to add this one.
    ///
    /// # Accepted
    ///
    /// With `subscription: {allowedSources: {tenant-a: [tenant-a/curated-catalog]}}`, in the
    /// namespace `tenant-a`:
    ///
    /// ```yaml
    /// spec: {name: etcd, source: curated-catalog, sourceNamespace: tenant-a}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {name: etcd, source: community-operators, sourceNamespace: openshift-marketplace}
    /// ```
    ///
    /// `message: catalog source openshift-marketplace/community-operators is not on the curated
    /// list for namespace tenant-a`
    SUB_24: Deny {
        name: "subscription-source-in-allowed-list",
        on: [SUBSCRIPTION: Create | Update],
        enabled_by: ["/subscription/allowedSources"],
        source: ["OCP 4.12 L4775, L8230-8239", "OCP 4.15 L2946-2979"],
    }
}

impl Subscription<'_> {
    fn check_allowed_sources(&self, report: &mut Report<'_>) {
        let settings = self.review.settings;
        // No namespace has a longer name, and no pointer is longer than 4 KiB.
        if !report.is_on(&SUB_24) || self.namespace().len() > 253 {
            return;
        }
        let list = format!("/subscription/allowedSources/{}", escape(self.namespace()));
        if !settings.has(&list) {
            return;
        }
        let (namespace, source) = (&self.source_namespace, &self.source);
        let wanted = format!("{namespace}/{source}");
        if !settings.texts(&list).contains(&wanted) {
            let own = self.namespace();
            let message =
                format!("catalog source {wanted} is not on the curated list for namespace {own}");
            report.add(&SUB_24, "spec.source", message);
        }
    }
}
