//! Operators that need more than the level `restricted` allows, and may use it.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::rbac::{self, Permissions};
use opgate_sdk::{Document, Kind, rule, rules};

use crate::csv::Subject;
use crate::targets::{CATALOG, CSV};

rules![PSA_13];

const GROUP: &str = "security.openshift.io";
const RESOURCE: &str = "securitycontextconstraints";
const VERB: &str = "use";
/// The one capability that the level `restricted` lets containers add.
const ALLOWED: &str = "NET_BIND_SERVICE";

rule! {
    /// an Operator that needs escalated permissions may use a security context constraint
    ///
    /// A pod template in `spec.install.spec.deployments` needs more than the level `restricted` if it
    /// has `hostNetwork`, `hostPID` or `hostIPC`, a `hostPath` volume or `runAsUser: 0`, or if one of
    /// its containers, init containers or ephemeral containers has `privileged: true`,
    /// `allowPrivilegeEscalation: true`, `runAsUser: 0`, or `capabilities.add` with anything but
    /// `NET_BIND_SERVICE`. Then a rule of `permissions` or `clusterPermissions` for its
    /// `serviceAccountName` (`default` if it names none) grants the verb `use` on
    /// `securitycontextconstraints` of `security.openshift.io`; wildcards count. The field is the first
    /// one that needs more. That `spec.description` says why is asked for by CSV-10. Copies that OLM
    /// made are exempt. On UPDATE, a deployment that was so before is not judged.
    ///
    /// # Why
    ///
    /// Pods of a service account that may not use such a constraint are not admitted (OpenShift 4.12,
    /// Operators, *Managing pod security admission for Operator workloads that require escalated
    /// permissions*).
    ///
    /// # Repair
    ///
    /// Add the rule for the service account, or do without the escalated permissions.
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
    /// `message: deployment "my-operator" requires escalated permissions but no rule grants use of a
    /// security context constraint to service account "default"`
    PSA_13: Warn {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L21819-21825, L21957-22017; OCP 4.15 L15896-15897, L15998-16135",
    }
}

/// A deployment that needs more than it may use.
struct Escalated {
    /// Index of the deployment.
    number: usize,
    account: String,
    /// What needs more, relative to the spec of the pod.
    cause: String,
}

pub(crate) fn judge(subject: &mut Subject<'_, '_>) {
    if !subject.report.is_on(&PSA_13) || !subject.touches_json("/spec/install/spec") {
        return;
    }
    let found = escalated(subject.object, subject.specs);
    if found.is_empty() {
        return;
    }
    let before: BTreeSet<(usize, String)> = match subject.review.spares() {
        Some(old) => {
            let found = escalated(old, &subject.specs_of(old)).into_iter();
            found.map(|escalated| (escalated.number, escalated.account)).collect()
        }
        None => BTreeSet::new(),
    };
    let specs = subject.specs;
    for Escalated { number, account, cause } in found {
        let Some(spec) = specs.get(number) else { continue };
        let key = (number, account);
        if before.contains(&key) {
            continue;
        }
        subject.add(&PSA_13, || {
            let message = format!(
                "deployment {} requires escalated permissions but no rule grants use of a security context constraint to service account {}",
                quote(&spec.name),
                quote(&key.1)
            );
            (format!("{}.{cause}", spec.field()), message)
        });
    }
}

const POD: [&str; 7] = [
    "/hostNetwork",
    "/hostPID",
    "/hostIPC",
    "/volumes",
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

/// The deployments that need more than they may use.
fn escalated(csv: &Document, specs: &[PodSpec]) -> Vec<Escalated> {
    let mut found: Vec<Escalated> = Vec::new();
    let mut number = 0;
    pods::each(csv, specs, &POD, |spec, row| {
        let of_pod = NAMESPACES
            .into_iter()
            .enumerate()
            .find(|(column, _)| row.boolean(*column) == Some(true))
            .map(|(_, member)| member.to_owned());
        let cause = of_pod
            .or_else(|| {
                let pointer = format!("{}/securityContext/runAsUser", spec.pointer());
                let is_root = row.kind(4) == Kind::Number && csv.integer(&pointer) == Some(0);
                is_root.then(|| "securityContext.runAsUser".to_owned())
            })
            .or_else(|| {
                let has_volumes = row.length(3).is_some_and(|length| length > 0);
                let volumes = format!("{}/volumes", spec.pointer());
                let rows = has_volumes.then(|| csv.rows(&volumes, &["/hostPath"]))?;
                let is_on_host = |kind| !matches!(kind, Kind::Missing | Kind::Null);
                let index = rows.iter().position(|row| is_on_host(row.kind(0)))?;
                Some(format!("volumes[{index}].hostPath"))
            })
            .or_else(|| of_containers(csv, spec));
        if let Some(cause) = cause {
            let named = [5, 6].map(|column| row.text_or_empty(column));
            let account = named.into_iter().find(|name| !name.is_empty()).unwrap_or("default");
            found.push(Escalated { number, account: account.to_owned(), cause });
        }
        number += 1;
    });
    if found.is_empty() {
        return found;
    }
    let accounts: BTreeSet<&str> = found.iter().map(|found| found.account.as_str()).collect();
    let granted = granted(csv, &accounts);
    found.retain(|found| !granted.contains(&found.account));
    found
}

/// The first field of a container that needs more than `restricted` allows.
fn of_containers(csv: &Document, spec: &PodSpec) -> Option<String> {
    let mut cause = None;
    spec.each(csv, &CONTAINER, |container| {
        if cause.is_some() {
            return;
        }
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
        } else if row.text(4).is_some_and(|first| first != ALLOWED)
            || row.length(3).is_some_and(|length| length > 1)
                && adds_more(csv, &format!("{}/capabilities/add", pointer()))
        {
            "capabilities.add"
        } else {
            return;
        };
        cause = Some(format!("{}[{}].securityContext.{member}", container.list, container.index));
    });
    cause
}

fn adds_more(csv: &Document, list: &str) -> bool {
    csv.rows(list, &[""]).iter().filter_map(|row| row.text(0)).any(|name| name != ALLOWED)
}

/// The service accounts that may use a constraint.
fn granted(csv: &Document, accounts: &BTreeSet<&str>) -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    for list in [Permissions::Namespaced, Permissions::Cluster] {
        rbac::each(csv, list, |rule| {
            if rule.has_group(&[GROUP, "*"])
                && rule.has_resource(&[RESOURCE, "*"])
                && rule.has_verb(&[VERB, "*"])
            {
                granted.insert(rule.account().into_owned());
            }
            accounts.iter().any(|account| !granted.contains(*account))
        });
    }
    granted
}
