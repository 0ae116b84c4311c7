//! The package of a PlatformOperator, as its PackageManifest describes it.
//!
//! ```text
//! PackageManifests of the name ─▶ that of redhat-operators ─▶ head of the default channel
//!                                   (PLT-04)                       (PLT-05, PLT-06, PLT-07)
//! ```
//!
//! The platform Operators component searches the catalog source `redhat-operators` in the namespace
//! `openshift-marketplace` and no other one (`internal/sourcer/registry_sourcer.go`). A
//! PackageManifest has less information than the bundle: the policy reports the missing parts as
//! skipped.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Rule, package_manifests, rule, rules};

use crate::reads::MANIFESTS;
use crate::targets::OPERATOR;

rules![PLT_04, PLT_05, PLT_06, PLT_07];

/// The field with the package of a PlatformOperator.
pub(crate) const FIELD: &str = "spec.package.name";
/// The only catalog source that the component searches.
pub(crate) const SOURCE: &str = "redhat-operators";
const NAMESPACE: &str = "openshift-marketplace";

/// Checks the package of this name.
pub(crate) fn check(name: &str, report: &mut Report<'_>) {
    let rules: [&'static Rule; 4] = [&PLT_04, &PLT_05, &PLT_06, &PLT_07];
    if !rules.iter().any(|rule| report.is_on(rule)) {
        return;
    }
    let manifest = package_manifests::find(&MANIFESTS, name, SOURCE, NAMESPACE);
    let Some(manifest) = report.or_skip(&rules, "PackageManifests", manifest) else { return };
    let name = quote(name);
    let Some(manifest) = manifest else {
        let message = format!("package {name} is not in the {SOURCE} catalog source");
        report.add(&PLT_04, FIELD, message);
        skip_rules(report, "the catalog source redhat-operators does not have the package");
        return;
    };
    let Some(head) = channel_head(&manifest) else {
        skip_rules(report, "the PackageManifest does not describe the head of the default channel");
        return;
    };
    check_install_modes(&head, &name, report);
    check_api_services(&head, &name, report);
    check_dependencies(&head, &name, report);
}

fn skip_rules(report: &mut Report<'_>, why: &str) {
    for rule in [&PLT_05, &PLT_06, &PLT_07] {
        report.skip(rule, FIELD, why);
    }
}

/// The description of the head of the default channel in the PackageManifest.
fn channel_head(manifest: &Document) -> Option<Document> {
    package_manifests::channel(manifest, "")?.at("/currentCSVDesc")
}

fn is_filled(head: &Document, list: &str) -> bool {
    head.length(list).is_some_and(|length| length > 0)
}

rule! {
    /// the package of a PlatformOperator is in the catalog source redhat-operators
    ///
    /// The cluster has a PackageManifest with the name `spec.package.name` whose
    /// `status.catalogSource` is `redhat-operators`, in the namespace `openshift-marketplace`.
    /// PackageManifests of the same name from other catalog sources, or from other namespaces, do
    /// not count. The rule evaluates an UPDATE only if it changes `spec.package.name`. Without
    /// cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// The platform Operators component searches that catalog source only (OpenShift 4.12,
    /// Operators, *Technology Preview restrictions for platform Operators*; platform-operators
    /// `internal/sourcer/registry_sourcer.go`). A package of another catalog is never installed.
    ///
    /// # Remediation
    ///
    /// Correct the name, or install the Operator with a Subscription. To list the packages of the
    /// catalog, run `oc get packagemanifests -n openshift-marketplace -l catalog=redhat-operators`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {package: {name: servicemeshoperator}}
    /// ```
    ///
    /// # Rejected
    ///
    /// A package that only `community-operators` has:
    ///
    /// ```yaml
    /// spec: {package: {name: etcd}}
    /// ```
    ///
    /// `message: package "etcd" is not in the redhat-operators catalog source`
    PLT_04: Deny {
        name: "platform-operator-package-in-redhat-operators",
        on: [OPERATOR: Create | Update],
        reads: [MANIFESTS],
        source: ["OCP 4.12 L10286", "OCP 4.15 L7326-7374", "openshift/platform-operators internal/sourcer/registry_sourcer.go"],
    }
}

rule! {
    /// the package of a PlatformOperator supports AllNamespaces and no other install mode
    ///
    /// The head of the default channel supports the install mode `AllNamespaces` and no other one.
    /// Install modes with `supported: false` do not count, and install modes that are not listed
    /// are not supported. If the package names no default channel, its only channel counts. The
    /// PackageManifest is that of PLT-04; without one, or if it does not describe the head, the
    /// policy skips the rule. The rule evaluates an UPDATE only if it changes `spec.package.name`.
    ///
    /// # Why
    ///
    /// A platform Operator belongs to the cluster and is installed for all namespaces (OpenShift
    /// 4.12, Operators, *Technology Preview restrictions for platform Operators*).
    ///
    /// # Remediation
    ///
    /// Choose another package, or install this one with a Subscription and an OperatorGroup. As the
    /// author of the package, set `supported: false` for the other install modes.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// installModes:
    /// - {type: AllNamespaces, supported: true}
    /// - {type: OwnNamespace, supported: false}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// installModes:
    /// - {type: OwnNamespace, supported: true}
    /// - {type: AllNamespaces, supported: true}
    /// ```
    ///
    /// `message: platform Operators cannot specify install modes other than AllNamespaces: package
    /// "etcd" supports [OwnNamespace AllNamespaces]`
    PLT_05: Deny {
        name: "platform-operator-all-namespaces-only",
        on: [OPERATOR: Create | Update],
        reads: [MANIFESTS],
        may_skip: true,
        source: ["OCP 4.12 L10280, L20120-20128", "OCP 4.15 L7326-7374"],
    }
}

fn check_install_modes(head: &Document, name: &str, report: &mut Report<'_>) {
    let modes = head.rows("/installModes", &["/type", "/supported"]);
    let supported = modes.iter().filter(|mode| mode.boolean(1) == Some(true));
    let supported: Vec<_> = supported.map(|mode| mode.text_or_empty(0)).collect();
    if supported.is_empty() || supported.iter().any(|mode| *mode != "AllNamespaces") {
        let supported = supported.join(" ");
        let message = format!(
            "platform Operators cannot specify install modes other than AllNamespaces: package {name} supports [{supported}]"
        );
        report.add(&PLT_05, FIELD, message);
    }
}

rule! {
    /// the package of a PlatformOperator has no API services and no webhooks
    ///
    /// `apiservicedefinitions` of the head of the default channel has no entry in `owned` and none
    /// in `required`. The PackageManifest is that of PLT-04; without one, or if it does not
    /// describe the head, the policy skips the rule. The rule evaluates an UPDATE only if it
    /// changes `spec.package.name`.
    ///
    /// # Gap
    ///
    /// A PackageManifest does not contain `webhookdefinitions`, so each verdict reports that the
    /// rule was evaluated in part. RukPak decides when it unpacks the bundle.
    ///
    /// # Why
    ///
    /// RukPak unpacks the bundle of a platform Operator, and supports neither (OpenShift 4.12,
    /// Operators, *Technology Preview restrictions for platform Operators*). The installation of
    /// such a package fails.
    ///
    /// # Remediation
    ///
    /// Choose another package, or install this one with a Subscription. If the rule reports no
    /// violation, still search the bundle for webhooks.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// currentCSVDesc: {apiservicedefinitions: {}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// currentCSVDesc: {apiservicedefinitions: {owned: [{name: v1.packages.example.com}]}}
    /// ```
    ///
    /// `message: platform Operators cannot specify any Webhook or APIService definitions: package
    /// "etcd"`
    PLT_06: Deny {
        name: "platform-operator-no-webhooks-or-apiservices",
        on: [OPERATOR: Create | Update],
        reads: [MANIFESTS],
        may_skip: true,
        source: ["OCP 4.12 L10283", "OCP 4.15 L7326-7374"],
    }
}

fn check_api_services(head: &Document, name: &str, report: &mut Report<'_>) {
    let lists = ["/apiservicedefinitions/owned", "/apiservicedefinitions/required"];
    if lists.into_iter().any(|list| is_filled(head, list)) {
        let message = format!(
            "platform Operators cannot specify any Webhook or APIService definitions: package {name}"
        );
        report.add(&PLT_06, FIELD, message);
    } else {
        report.skip_part(&PLT_06, FIELD, "a PackageManifest does not show webhook definitions");
    }
}

rule! {
    /// the package of a PlatformOperator has no dependencies
    ///
    /// `customresourcedefinitions.required` of the head of the default channel has no entry. The
    /// PackageManifest is that of PLT-04; without one, or if it does not describe the head, the
    /// policy skips the rule. The rule evaluates an UPDATE only if it changes `spec.package.name`.
    ///
    /// # Gap
    ///
    /// A PackageManifest does not contain dependencies on packages, nor those on APIs that only the
    /// properties of the bundle name, so each verdict reports that the rule was evaluated in part.
    /// If you have the bundle, see `metadata/dependencies.yaml` and `metadata/properties.yaml`.
    ///
    /// # Why
    ///
    /// Nothing resolves dependencies for platform Operators (OpenShift 4.12, Operators, *Technology
    /// Preview restrictions for platform Operators*): the Operator starts without its dependencies.
    ///
    /// # Remediation
    ///
    /// Choose another package, or install this one with a Subscription, for which OLM resolves
    /// dependencies. If the rule reports no violation, still check `metadata/dependencies.yaml` of
    /// the bundle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// currentCSVDesc: {customresourcedefinitions: {owned: [{name: vaults.example.com}]}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// currentCSVDesc:
    ///   customresourcedefinitions:
    ///     required: [{name: etcdclusters.etcd.database.coreos.com}]
    /// ```
    ///
    /// `message: platform Operators cannot declare package or group/version/kind (GVK)
    /// dependencies: package "vault"`
    PLT_07: Deny {
        name: "platform-operator-no-dependencies",
        on: [OPERATOR: Create | Update],
        reads: [MANIFESTS],
        may_skip: true,
        source: ["OCP 4.12 L10277", "OCP 4.15 L7326-7374"],
    }
}

fn check_dependencies(head: &Document, name: &str, report: &mut Report<'_>) {
    if is_filled(head, "/customresourcedefinitions/required") {
        let message = format!(
            "platform Operators cannot declare package or group/version/kind (GVK) dependencies: package {name}"
        );
        report.add(&PLT_07, FIELD, message);
    } else {
        let why = "a PackageManifest does not show the dependencies in properties of the bundle";
        report.skip_part(&PLT_07, FIELD, why);
    }
}
