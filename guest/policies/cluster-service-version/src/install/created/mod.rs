//! Objects that the API server rejects when OLM creates Deployments, Roles and service accounts.
//!
//! ```text
//! spec.install.spec ─┬─ deployments ─▶ deployments  selectors, containers
//!                    │                 mounts       ports, volume mounts
//!                    └─ permissions ─▶ accounts     service accounts, verbs
//!                                          └──────▶ Problem ─▶ Csv, unless it existed before an UPDATE
//! ```
//!
//! Values of other types than in the schema are not evaluated: they cause other errors. Go's
//! decoder accepts members in any case, so a member that is only spelled in another case is not
//! missing.

mod accounts;
mod deployments;
mod mounts;

use std::collections::HashSet;

use opgate_sdk::{Document, Kind, Level, go, rule, rules};

use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_105];

const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
const PERMISSIONS: [&str; 2] =
    ["/spec/install/spec/permissions", "/spec/install/spec/clusterPermissions"];
/// Lists whose entries name a deployment into which OLM mounts certificates.
const SERVED_LISTS: [&str; 2] = ["/spec/apiservicedefinitions/owned", "/spec/webhookdefinitions"];
/// Maximum number of problems of one object. More problems do not help its author.
const MAX_PROBLEMS: usize = 1_000;
/// Bytes of a text that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;

rule! {
    /// the API server accepts the deployments and permissions of the install strategy
    ///
    /// In each entry of `spec.install.spec.deployments` with a `spec`:
    ///
    /// * `selector` is set, not empty and valid, and selects the labels of the pod template;
    /// * the pod has a container, and each container and init container has a `name` and an
    ///   `image`;
    /// * each `containerPort` is 1 to 65535, and so is each `hostPort`, if set and not 0;
    /// * each of `volumeMounts` names a volume of the pod. The volumes `apiservice-cert` and
    ///   `webhook-cert` exist in a deployment that an entry of `spec.webhookdefinitions` or
    ///   `spec.apiservicedefinitions.owned` names, and OLM replaces a mount at their two paths. A
    ///   violation in a cluster only warns: the Subscription can add the volume
    ///   (`spec.config.volumes`).
    ///
    /// Each entry of `spec.install.spec.permissions` and `clusterPermissions` has a
    /// `serviceAccountName` and `rules`, and each rule has `verbs`. The list of rules may be empty.
    ///
    /// In a catalog the rule evaluates complete objects, and not `olm.csv.metadata`, which omits
    /// the strategy. On UPDATE, the rule reports only problems in a deployment or in the
    /// permissions of a service account that did not exist before.
    ///
    /// # Why
    ///
    /// OLM creates a Deployment, and a Role or `ClusterRole`, from each entry (OpenShift 4.12,
    /// Operators, *Defining cluster service versions*). It copies the entries unchanged, so the API
    /// server rejects a mistake only when a user installs the Operator: the CSV or the InstallPlan
    /// fails.
    ///
    /// # Remediation
    ///
    /// Correct the member that the message names. Where the selector does not match, write the labels
    /// of `selector.matchLabels` into `template.metadata.labels`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// deployments:
    /// - name: a
    ///   spec:
    ///     selector: {matchLabels: {app: a}}
    ///     template:
    ///       metadata: {labels: {app: a}}
    ///       spec: {containers: [{name: manager, image: example.com/a:v1}]}
    /// permissions:
    /// - serviceAccountName: a
    ///   rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// deployments:
    /// - name: a
    ///   spec:
    ///     selector: {matchLabels: {app: a}}
    ///     template:
    ///       metadata: {labels: {app: b}}
    ///       spec: {containers: [{name: manager, image: example.com/a:v1}]}
    /// ```
    ///
    /// ``message: spec.install.spec.deployments[0].spec: template.metadata.labels: Invalid value:
    /// {"app":"b"}: `selector` does not match template `labels` ``
    ///
    /// ```yaml
    /// permissions: [{rules: [{apiGroups: [""], resources: [pods]}]}]
    /// ```
    ///
    /// `message: spec.install.spec.permissions[0].serviceAccountName: Required value`
    CSV_105: Deny {
        name: "valid-deployments-and-permissions",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20798", "kubernetes pkg/apis/apps/validation, pkg/apis/rbac/validation, pkg/apis/core/validation"],
    }
}

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if !csv.has_member_set("install") || !csv.is_on(&CSV_105) {
        return;
    }
    let [permissions, cluster_permissions] = PERMISSIONS;
    let [services, webhooks] = SERVED_LISTS;
    // The largest list comes last.
    let inspected = [services, webhooks, permissions, cluster_permissions, DEPLOYMENTS];
    if !inspected.iter().any(|pointer| csv.touches_json(pointer)) {
        return;
    }
    let problems = find_problems(csv.object);
    if problems.is_empty() {
        return;
    }
    let before = csv.ratchet_base().map(find_problems).unwrap_or_default();
    let before: HashSet<_> = before.iter().map(Problem::identity).collect();
    let can_have_subscription = !csv.review.is_from_file();
    for problem in &problems {
        if before.contains(&problem.identity()) {
            continue;
        }
        let (field, message) = (problem.field(), problem.message());
        if problem.is_of_volume && can_have_subscription {
            csv.add_as(Level::Warn, &CSV_105, &field, message);
        } else {
            csv.add(&CSV_105, &field, message);
        }
    }
}

/// A value that the API server rejects.
#[derive(Debug, Default)]
struct Problem {
    /// The field of the deployment's spec, or of the permissions.
    place: String,
    /// Whether it is a deployment's spec.
    is_in_deployment: bool,
    /// Name of the deployment or service account.
    owner: String,
    /// Name of the container.
    container: String,
    /// The member, relative to the place.
    member: String,
    /// The error of the API server, without the field.
    error: String,
    /// Whether a volume is missing.
    is_of_volume: bool,
}

impl Problem {
    fn field(&self) -> String {
        format!("{}.{}", self.place, self.member)
    }

    fn message(&self) -> String {
        let Self { place, member, error, .. } = self;
        let separator = if self.is_in_deployment { ": " } else { "." };
        format!("{place}{separator}{member}: {error}")
    }

    /// The identity of the problem across an UPDATE. It does not contain the index in a list.
    fn identity(&self) -> (bool, &str, &str, &str, &str) {
        let member = self.member.rsplit(['.', ']']).next().unwrap_or_default();
        (self.is_in_deployment, &self.owner, &self.container, member, &self.error)
    }
}

/// The problems of an object; only the first ones if there are very many.
fn find_problems(object: &Document) -> Vec<Problem> {
    let mut problems = Vec::new();
    deployments::check(object, &mut problems);
    accounts::check(object, &mut problems);
    problems.truncate(MAX_PROBLEMS);
    problems
}

/// Whether a list of problems has reached its maximum.
fn is_full(problems: &[Problem]) -> bool {
    problems.len() >= MAX_PROBLEMS
}

/// Whether a member on the path below the pointer is missing or `null`. A member in another case
/// counts as present.
fn lacks(object: &Document, pointer: &str, members: &[&str]) -> bool {
    let mut pointer = pointer.to_owned();
    for member in members {
        let parent = pointer.clone();
        pointer.push('/');
        pointer.push_str(member);
        if matches!(object.kind(&pointer), Kind::Missing | Kind::Null) {
            return !has_in_other_case(object, &parent, member);
        }
    }
    false
}

/// Whether an object has a member only in another case than the schema.
fn has_in_other_case(object: &Document, pointer: &str, member: &str) -> bool {
    let is_other = |name: &String| name != member && go::folds_to(name, member);
    object.kind(pointer) == Kind::Object && object.keys(pointer).iter().any(is_other)
}

fn quoted(text: &str) -> String {
    go::quote(&go::shorten(text, MAX_SHOWN_BYTES))
}

/// The error for a missing value.
fn required() -> String {
    "Required value".to_owned()
}
