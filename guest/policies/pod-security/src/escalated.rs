//! Operators that need more than the level `restricted` allows, and the permission for it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::pods::{self, Container, PodSpec};
use opgate_sdk::rbac::{self, Permissions};
use opgate_sdk::{Document, Kind, Row, rule, rules};

use crate::subject::{Subject, Violations};
use crate::targets::{CATALOG, CSV};

rules![PSA_13];

const GROUP: &str = "security.openshift.io";
const RESOURCE: &str = "securitycontextconstraints";
const USE_VERB: &str = "use";
/// The only capability that containers may add at the level `restricted`.
const ALLOWED_CAPABILITY: &str = "NET_BIND_SERVICE";

rule! {
    /// an Operator that needs escalated permissions may use a security context constraint
    ///
    /// A pod template in `spec.install.spec.deployments` needs more than the level `restricted` if
    /// it has `hostNetwork`, `hostPID` or `hostIPC`, a `hostPath` volume or `runAsUser: 0`, or if
    /// one of its containers, init containers or ephemeral containers has `privileged: true`,
    /// `allowPrivilegeEscalation: true`, `runAsUser: 0`, or `capabilities.add` with anything but
    /// `NET_BIND_SERVICE`. Then a rule of `permissions` or `clusterPermissions` for its
    /// `serviceAccountName` (`default` if it names none) grants the verb `use` on
    /// `securitycontextconstraints` of `security.openshift.io`; wildcards count. The field of the
    /// violation is the first one that needs more. CSV-10 requires that `spec.description` explains
    /// the reason. The rule exempts copies that OLM created. On UPDATE, it does not evaluate a
    /// deployment that violated the rule before.
    ///
    /// # Why
    ///
    /// OpenShift does not admit pods of a service account without permission to use such a
    /// constraint (OpenShift 4.12, Operators, *Managing pod security admission for Operator
    /// workloads that require escalated permissions*).
    ///
    /// # Remediation
    ///
    /// Add the rule for the service account, or remove the escalated permissions.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// clusterPermissions:
    /// - serviceAccountName: default
    ///   rules:
    ///   - {apiGroups: [security.openshift.io], resources: [securitycontextconstraints], resourceNames: [privileged], verbs: [use]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// containers: [{name: my-container, securityContext: {privileged: true}}]
    /// ```
    ///
    /// `message: deployment "my-operator" requires escalated permissions but no rule grants use of
    /// a security context constraint to service account "default"`
    PSA_13: Warn {
        name: "escalated-permissions-require-scc-use",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L21819-21825, L21957-22017", "OCP 4.15 L15896-15897, L15998-16135"],
    }
}

/// A deployment that needs more permissions than it has.
#[derive(Debug)]
struct EscalatedDeployment {
    /// Index of the deployment.
    index: usize,
    account: String,
    /// The field that needs more, relative to the spec of the pod.
    cause: String,
}

impl EscalatedDeployment {
    /// The identity of the violation. Another cause in the same deployment is not a new violation.
    fn key(&self) -> (usize, &str) {
        (self.index, &self.account)
    }
}

impl PartialEq for EscalatedDeployment {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for EscalatedDeployment {}

impl PartialOrd for EscalatedDeployment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EscalatedDeployment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

pub(crate) fn check(subject: &mut Subject<'_, '_>) {
    if !subject.report.is_on(&PSA_13) || !subject.touches_json("/spec/install/spec") {
        return;
    }
    subject.add_new(
        &PSA_13,
        find_escalated,
        |_, spec, EscalatedDeployment { account, cause, .. }| {
            let message = format!(
                "deployment {} requires escalated permissions but no rule grants use of a security context constraint to service account {}",
                quote(&spec.name),
                quote(account)
            );
            (format!("{}.{cause}", spec.field()), message)
        },
        |violation| violation.index,
    );
}

const POD: [&str; 8] = [
    "/hostNetwork",
    "/hostPID",
    "/hostIPC",
    "/volumes",
    "/volumes/0/hostPath",
    "/securityContext/runAsUser",
    "/serviceAccountName",
    "/serviceAccount",
];
const NAMESPACES: [&str; 3] = ["hostNetwork", "hostPID", "hostIPC"];
const CONTAINER: [&str; 5] = [
    "/securityContext/privileged",
    "/securityContext/allowPrivilegeEscalation",
    "/securityContext/runAsUser",
    "/securityContext/capabilities/add",
    "/securityContext/capabilities/add/0",
];

/// The deployments that need more permissions than they have.
fn find_escalated(csv: &Document, specs: &[PodSpec]) -> Violations<EscalatedDeployment> {
    let mut pods: Vec<(String, Option<String>)> = Vec::new();
    pods::each(csv, specs, &POD, |spec, row| {
        let named = [6, 7].map(|column| row.text_or_empty(column));
        let account = named.into_iter().find(|name| !name.is_empty()).unwrap_or("default");
        pods.push((account.to_owned(), pod_cause(csv, spec, row)));
    });
    pods::each_container(csv, specs, &CONTAINER, |number, container| {
        if let Some((_, cause @ None)) = pods.get_mut(number) {
            *cause = container_cause(csv, &container);
        }
    });
    let mut accounts: BTreeSet<String> = BTreeSet::new();
    for (account, _) in pods.iter().filter(|(_, cause)| cause.is_some()) {
        if !accounts.contains(account) {
            accounts.insert(account.clone());
        }
    }
    let mut violations = Violations::new();
    if accounts.is_empty() {
        return violations;
    }
    remove_granted(csv, &mut accounts);
    for (number, (account, cause)) in pods.into_iter().enumerate() {
        if let Some(cause) = cause.filter(|_| accounts.contains(&account)) {
            violations.push(EscalatedDeployment { index: number, account, cause });
        }
    }
    violations
}

/// The first field of a pod that needs more than `restricted` allows.
fn pod_cause(csv: &Document, spec: &PodSpec, row: Row<'_>) -> Option<String> {
    let shares = |(column, _): &(usize, &str)| row.boolean(*column) == Some(true);
    if let Some((_, member)) = NAMESPACES.into_iter().enumerate().find(shares) {
        return Some(member.to_owned());
    }
    if row.kind(5) == Kind::Number
        && csv.integer(&format!("{}/securityContext/runAsUser", spec.pointer())) == Some(0)
    {
        return Some("securityContext.runAsUser".to_owned());
    }
    let is_on_host = |kind| !matches!(kind, Kind::Missing | Kind::Null);
    let index = match row.length(3).filter(|_| row.kind(3) == Kind::List)? {
        0 => None,
        1 => is_on_host(row.kind(4)).then_some(0),
        _ => {
            let volumes = csv.rows(&format!("{}/volumes", spec.pointer()), &["/hostPath"]);
            volumes.iter().position(|row| is_on_host(row.kind(0)))
        }
    };
    index.map(|index| format!("volumes[{index}].hostPath"))
}

/// The first such field of a container.
fn container_cause(csv: &Document, container: &Container<'_>) -> Option<String> {
    let row = container.row;
    let pointer = || format!("{}/securityContext", container.pointer());
    let member = if row.boolean(0) == Some(true) {
        "privileged"
    } else if row.boolean(1) == Some(true) {
        "allowPrivilegeEscalation"
    } else if row.kind(2) == Kind::Number
        && csv.integer(&format!("{}/runAsUser", pointer())) == Some(0)
    {
        "runAsUser"
    } else if row.text(4).is_some_and(|first| first != ALLOWED_CAPABILITY)
        || row.length(3).is_some_and(|length| length > 1)
            && adds_more(csv, &format!("{}/capabilities/add", pointer()))
    {
        "capabilities.add"
    } else {
        return None;
    };
    Some(format!("{}[{}].securityContext.{member}", container.list, container.index))
}

fn adds_more(csv: &Document, list: &str) -> bool {
    csv.rows(list, &[""])
        .iter()
        .filter_map(|row| row.text(0))
        .any(|name| name != ALLOWED_CAPABILITY)
}

/// Removes the service accounts that may use a constraint.
fn remove_granted(csv: &Document, accounts: &mut BTreeSet<String>) {
    for list in [Permissions::Namespaced, Permissions::Cluster] {
        rbac::each(csv, list, |rule| {
            if rule.has_group(&[GROUP, "*"])
                && rule.has_resource(&[RESOURCE, "*"])
                && rule.has_verb(&[USE_VERB, "*"])
            {
                accounts.remove(&*rule.account());
            }
            !accounts.is_empty()
        });
    }
}
