//! Good practices that the optional suite of the bundle validator checks.

use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::rbac::{self, Permissions};
use opgate_sdk::{Document, Kind, rule, rules};

use super::add_violation;
use crate::csv::Csv;
use crate::description::is_selected;
use crate::targets::{CATALOG, CSV};

rules![CSV_103];

const NO_REQUESTS: &str = "It is recommended to ensure the resource request for CPU and Memory. Be aware that for some clusters configurations it is required to specify requests or limits for those values. Otherwise, the system or quota may reject Pod creation. More info: https://master.sdk.operatorframework.io/docs/best-practices/managing-resources/";
const CREATES_CRDS: &str = "CSV contains permissions to create CRD. An Operator shouldn't deploy or manage other operators (such patterns are known as meta or super operators or include CRDs in its Operands). It's the Operator Lifecycle Manager's job to manage the deployment and lifecycle of operators.  Please, review the design of your solution and if you should not be using Dependency Resolution from OLM instead. More info: https://sdk.operatorframework.io/docs/best-practices/common-recommendation/";

rule! {
    /// a ClusterServiceVersion follows the good practices for resources and CRDs
    ///
    /// Each of the `containers` in the pod templates of `spec.install.spec.deployments` has
    /// `resources.requests`; init containers are not evaluated, and an empty mapping is enough. No
    /// rule in `permissions` or `clusterPermissions` of `spec.install.spec` has the API group
    /// `apiextensions.k8s.io`, one of the resources `customresourcedefinitions`, `*` and `[*]`, and
    /// one of the verbs `create`, `patch`, `*` and `[*]`; the first such rule is reported. The rule
    /// is off unless `rules` gives it a level, or `bundle.optional` has `good-practices` (or
    /// `suite=operatorframework`). On UPDATE, the rule evaluates only `resources.requests` that
    /// change, and permissions that change.
    ///
    /// # Why
    ///
    /// A quota can reject pods without requests. If an Operator creates its CRDs itself, OLM does
    /// not manage them, and cannot migrate them or check updates. The suite `good-practices` of the
    /// bundle validator warns with the same texts (OpenShift 4.12, Operators, *Validating Operator
    /// bundles*).
    ///
    /// # Remediation
    ///
    /// Add requests to each container. Ship CRDs in the bundle, and remove the permission.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// containers: [{name: manager, resources: {requests: {cpu: 10m, memory: 64Mi}}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// containers: [{name: manager}]
    /// ```
    ///
    /// `message: unable to find the resource requests for the container: (manager). It is
    /// recommended to ensure the resource request for CPU and Memory. …`
    ///
    /// For a rule that allows creating CRDs: `message: CSV contains permissions to create CRD. …`
    CSV_103: Warn {
        name: "resource-requests-and-no-crd-permissions",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: ["/bundle/optional"],
        source: ["OCP 4.12 L22740", "api pkg/validation/internal/good_practices.go"],
    }
}

pub(super) fn check(csv: &mut Csv<'_, '_>, specs: &[PodSpec]) {
    if !is_selected(csv, &CSV_103, &["good-practices"]) {
        return;
    }
    pods::each_container(csv.object, specs, &["/resources/requests"], |_, container| {
        let is_absent = matches!(container.row.kind(0), Kind::Missing | Kind::Null);
        if !is_absent || !container.is_regular() {
            return;
        }
        let pointer = container.pointer();
        let had_none = |old: &Document| {
            old.has(&pointer) && !old.has(&format!("{pointer}/resources/requests"))
        };
        if csv.ratchet_base().is_some_and(had_none) {
            return;
        }
        let object = csv.object;
        add_violation(csv, &CSV_103, || {
            let name = object.text_or_empty(&format!("{pointer}/name"));
            let message = format!(
                "unable to find the resource requests for the container: ({name}). {NO_REQUESTS}"
            );
            (format!("{}.resources", container.field()), message)
        });
    });
    let lists = [Permissions::Namespaced, Permissions::Cluster];
    let is_new =
        |list: &Permissions| csv.touches_json(&format!("/spec/install/spec/{}", list.member()));
    if let Some(field) =
        lists.into_iter().filter(is_new).find_map(|list| crd_creation_field(csv.object, list))
    {
        csv.add(&CSV_103, &field, CREATES_CRDS);
    }
}

/// The first rule of a list that allows creating CRDs.
fn crd_creation_field(csv: &Document, list: Permissions) -> Option<String> {
    let mut found = None;
    rbac::each(csv, list, |rule| {
        if rule.has_group(&["apiextensions.k8s.io"])
            && rule.has_resource(&["customresourcedefinitions", "*", "[*]"])
            && rule.has_verb(&["create", "*", "[*]", "patch"])
        {
            found = Some(rule.field());
        }
        found.is_none()
    });
    found
}
