//! What the level `restricted` asks of pods, in namespaces that enforce it.
//!
//! ```text
//! namespace ─▶ enforces restricted, at a version ─┬─▶ faults of the object ─────┐
//!                                                 └─▶ faults of the old object ─┴─▶ new ones ─▶ findings
//! ```
//!
//! What an UPDATE does not change is found without a call of the host for each container.
//!
//! Each check is part of the level since a version of Kubernetes, and some do not apply to pods for
//! Windows or to pods in a user namespace (`policy/check_*.go` of kubernetes/pod-security-admission).

use opgate_sdk::go::quote;
use opgate_sdk::pods::{self, Container, PodSpec};
use opgate_sdk::{Document, Kind, Row, Rule, rule, rules};

use crate::csv::{Faults, Subject};
use crate::level::Restricted;
use crate::reads::{CSVS, NAMESPACES};
use crate::targets::{CSV, restricted as workloads};

rules![PSA_09, PSA_10, PSA_11];

/// Minor versions of Kubernetes since which the level has its checks.
const PRIVILEGE_ESCALATION: u32 = 8;
const SECCOMP: u32 = 19;
const CAPABILITIES: u32 = 22;
const RUN_AS_USER: u32 = 23;
/// Since then, pods for Windows need not set what Windows does not have.
const WINDOWS: u32 = 25;
/// Since then, users of pods in a user namespace are theirs to choose.
const USER_NAMESPACES: u32 = 35;

rule! {
    /// Operators in restricted namespaces leave the user of their pods empty
    ///
    /// If the namespace of a CSV has the label `pod-security.kubernetes.io/enforce: restricted`, the
    /// pod templates in `spec.install.spec.deployments` have no `runAsUser`, neither in the
    /// `securityContext` of the pod nor in that of a container, init container or ephemeral
    /// container. The rule does not apply if the namespace enforces a version before v1.23, and not to
    /// pods with `hostUsers: false` from v1.35 on (or at the latest version). With the setting
    /// `psa.checkWorkloads: true`, Pods, Deployments, DaemonSets, StatefulSets, Jobs and CronJobs are
    /// judged as well; users of a Pod in the range that OpenShift assigns to its namespace (the
    /// annotation `openshift.io/sa.scc.uid-range`) are allowed. Copies that OLM made are exempt. On
    /// UPDATE, a value that does not change is not judged. The rule reads Namespaces, and CSVs for
    /// originals of copies.
    ///
    /// # Why
    ///
    /// OpenShift assigns a user to each pod. One that needs a certain user does not run under the
    /// restricted security context constraints (OpenShift 4.12, Operators, *Ensuring Operator
    /// workloads run in namespaces set to the restricted pod security level*).
    ///
    /// # Repair
    ///
    /// Remove `runAsUser`, and set `runAsNonRoot: true`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// securityContext: {runAsNonRoot: true}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// containers: [{name: manager, securityContext: {runAsUser: 1000}}]
    /// ```
    ///
    /// `message: you must leave the runAsUser field empty: container "manager" sets runAsUser 1000`
    PSA_09: Deny {
        on: [
            CSV: Create | Update,
            workloads::POD: Create | Update,
            workloads::DEPLOYMENT: Create | Update,
            workloads::DAEMON_SET: Create | Update,
            workloads::STATEFUL_SET: Create | Update,
            workloads::JOB: Create | Update,
            workloads::CRON_JOB: Create | Update,
        ],
        reads: [NAMESPACES, CSVS],
        source: "OCP 4.12 L21862-21866; OCP 4.15 L15998-16135",
    }
}

rule! {
    /// Operators in restricted namespaces set what the level restricted asks of containers
    ///
    /// If the namespace of a CSV has the label `pod-security.kubernetes.io/enforce: restricted`, each
    /// container, init container and ephemeral container of its pod templates has
    /// `runAsNonRoot: true`, of its own or from the pod, `allowPrivilegeEscalation: false` and `ALL`
    /// among `capabilities.drop`. The drop list counts from version v1.22 of the level, privilege
    /// escalation from v1.8; from v1.25 neither applies to pods with `os.name: windows`, and from
    /// v1.35 (or at the latest version) `runAsNonRoot` does not apply to pods with `hostUsers: false`.
    /// Copies that OLM made are exempt. On UPDATE, a security context that does not change is not
    /// judged. The rule reads Namespaces, and CSVs for originals of copies.
    ///
    /// # Why
    ///
    /// The API server does not admit the pods of the Operator, and the CSV waits for a deployment that
    /// never becomes available (OpenShift 4.12, Operators, *Ensuring Operator workloads run in
    /// namespaces set to the restricted pod security level*).
    ///
    /// # Repair
    ///
    /// Set the fields that the message names.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// securityContext: {runAsNonRoot: true}
    /// containers:
    /// - {name: manager, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// containers: [{name: manager}]
    /// ```
    ///
    /// `message: container "manager" should set securityContext.runAsNonRoot=true,
    /// securityContext.allowPrivilegeEscalation=false and securityContext.capabilities.drop=["ALL"] to
    /// run under the restricted pod security level`
    PSA_10: Warn {
        on: [CSV: Create | Update],
        reads: [NAMESPACES, CSVS],
        source: "OCP 4.12 L21871-21934; OCP 4.15 L15998-16135",
    }
}

rule! {
    /// Operators in restricted namespaces set a seccomp profile
    ///
    /// If the namespace of a CSV has the label `pod-security.kubernetes.io/enforce: restricted`,
    /// `seccompProfile.type` is set to `RuntimeDefault` or `Localhost` in the security context of each
    /// pod template, or in those of all its containers. No container sets another type such as
    /// `Unconfined`. The rule applies from version v1.19 of the level, and from v1.25 not to pods with
    /// `os.name: windows`. A template without a profile is reported once. Copies that OLM made are
    /// exempt. On UPDATE, a template whose security contexts do not change is not judged. The rule
    /// reads Namespaces, and CSVs for originals of copies.
    ///
    /// # Why
    ///
    /// The level admits no pod without a profile; with `RuntimeDefault`, the constraints follow the
    /// level of the namespace (OpenShift 4.12, Operators, *Ensuring Operator workloads run in
    /// namespaces set to the restricted pod security level*). OpenShift 4.10 does not support
    /// profiles, see PSA-12.
    ///
    /// # Repair
    ///
    /// Set `seccompProfile: {type: RuntimeDefault}` in the security context of the pod.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// securityContext: {seccompProfile: {type: RuntimeDefault}, runAsNonRoot: true}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// securityContext: {runAsNonRoot: true}
    /// ```
    ///
    /// `message: it is recommended that you set the seccomp profile type to RuntimeDefault`
    PSA_11: Warn {
        on: [CSV: Create | Update],
        reads: [NAMESPACES, CSVS],
        source: "OCP 4.12 L21875-21904; OCP 4.15 L15998-16135",
    }
}

const POD: [&str; 5] = [
    "/securityContext/runAsUser",
    "/securityContext/runAsNonRoot",
    "/securityContext/seccompProfile/type",
    "/os/name",
    "/hostUsers",
];
const CONTAINER: [&str; 6] = [
    "/securityContext/runAsUser",
    "/securityContext/runAsNonRoot",
    "/securityContext/seccompProfile/type",
    "/securityContext/allowPrivilegeEscalation",
    "/securityContext/capabilities/drop",
    "/securityContext/capabilities/drop/0",
];
/// Columns that both have.
const USER: usize = 0;
const NON_ROOT: usize = 1;
const PROFILE: usize = 2;
/// Columns of a pod.
const OS: usize = 3;
const HOST_USERS: usize = 4;
/// Columns of a container.
const ESCALATION: usize = 3;
const DROP: usize = 4;
const FIRST_DROP: usize = 5;

/// What a container lacks.
const LACKS: [&str; 3] = [
    "securityContext.runAsNonRoot=true",
    "securityContext.allowPrivilegeEscalation=false",
    "securityContext.capabilities.drop=[\"ALL\"]",
];

/// Something that the level does not allow, with what of the object is wrong: the user, for PSA-09;
/// which of [`LACKS`], for PSA-10; whether another profile is set or none, for PSA-11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fault<W> {
    /// Index of the spec.
    spec: usize,
    /// The list, and the index in it; none for the pod.
    container: Option<(&'static str, u32)>,
    what: W,
}

/// What is wrong with a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Profile {
    /// It is one that the level does not allow.
    Other,
    /// There is none for a container, and none for its pod. Once for a pod.
    None,
}

/// What the rules need to know of a pod.
struct Pod {
    non_root: Option<bool>,
    /// Whether the level allows its seccomp profile, if it has one.
    profile: Option<bool>,
    /// Whether a container has no profile of its own.
    needs_profile: bool,
    is_windows: bool,
    /// Whether its users are not those of the node.
    is_apart: bool,
}

impl Pod {
    fn of(row: Row<'_>, level: &Restricted) -> Self {
        Self {
            non_root: row.boolean(NON_ROOT),
            profile: (row.kind(PROFILE) == Kind::Text).then(|| is_confined(row)),
            needs_profile: false,
            is_windows: row.text(OS) == Some("windows") && level.has_since(WINDOWS),
            is_apart: row.boolean(HOST_USERS) == Some(false) && level.has_since(USER_NAMESPACES),
        }
    }
}

fn is_confined(row: Row<'_>) -> bool {
    matches!(row.text(PROFILE), Some("RuntimeDefault" | "Localhost"))
}

/// Whether a profile is set that the level does not allow.
fn is_unconfined(row: Row<'_>) -> bool {
    row.kind(PROFILE) == Kind::Text && !is_confined(row)
}

/// What the rules look for in an object.
struct Search<'s> {
    object: &'s Document,
    level: &'s Restricted,
    pods: Vec<Pod>,
    users: Faults<Fault<i64>>,
    lacks: Faults<Fault<[bool; 3]>>,
    profiles: Faults<Fault<Profile>>,
}

impl<'s> Search<'s> {
    /// Looks at the users, and with `is_operator` at all else.
    fn run(
        object: &'s Document,
        specs: &[PodSpec],
        level: &'s Restricted,
        is_operator: bool,
    ) -> Self {
        let mut search = Self {
            object,
            level,
            pods: Vec::new(),
            users: Faults::new(),
            lacks: Faults::new(),
            profiles: Faults::new(),
        };
        pods::each(object, specs, &POD, |spec, row| search.pod(spec, row));
        let columns = CONTAINER.get(..1).filter(|_| !is_operator).unwrap_or(&CONTAINER);
        pods::each_container(object, specs, columns, |spec, container| {
            search.user_of(spec, &container);
            if is_operator {
                search.container(spec, &container);
            }
        });
        if is_operator {
            search.without_profile();
        }
        search
    }

    fn pod(&mut self, spec: &PodSpec, row: Row<'_>) {
        let pod = Pod::of(row, self.level);
        let fault = |what| Fault { spec: self.pods.len(), container: None, what };
        if let Some(user) = self.user(row, &pod, || spec.pointer()) {
            self.users.push(fault(user));
        }
        self.pods.push(pod);
    }

    fn user_of(&mut self, spec: usize, container: &Container<'_>) {
        let Some(pod) = self.pods.get(spec) else { return };
        if let Some(user) = self.user(container.row, pod, || container.pointer()) {
            let container = Some((container.list, container.index));
            self.users.push(Fault { spec, container, what: user });
        }
    }

    /// The user that a security context sets, if it must not.
    fn user(&self, row: Row<'_>, pod: &Pod, pointer: impl FnOnce() -> String) -> Option<i64> {
        if row.kind(USER) != Kind::Number || pod.is_apart || !self.level.has_since(RUN_AS_USER) {
            return None;
        }
        let user = self.object.integer(&format!("{}/securityContext/runAsUser", pointer()))?;
        (!self.level.assigns(user)).then_some(user)
    }

    fn container(&mut self, spec: usize, container: &Container<'_>) {
        let has_profiles = self.level.has_since(SECCOMP);
        let Some(pod) = self.pods.get(spec) else { return };
        let lacks = self.missing(container, pod);
        let place = Some((container.list, container.index));
        if lacks.contains(&true) {
            self.lacks.push(Fault { spec, container: place, what: lacks });
        }
        if !has_profiles || pod.is_windows || is_confined(container.row) {
            return;
        }
        if is_unconfined(container.row) {
            self.profiles.push(Fault { spec, container: place, what: Profile::Other });
        } else if let Some(pod) = self.pods.get_mut(spec) {
            pod.needs_profile = true;
        }
    }

    /// What of [`LACKS`] a container lacks.
    fn missing(&self, container: &Container<'_>, pod: &Pod) -> [bool; 3] {
        let row = container.row;
        let is_non_root = row.boolean(NON_ROOT).or(pod.non_root) == Some(true);
        let has_since = |minor| self.level.has_since(minor) && !pod.is_windows;
        [
            !is_non_root && !pod.is_apart,
            row.boolean(ESCALATION) != Some(false) && has_since(PRIVILEGE_ESCALATION),
            has_since(CAPABILITIES) && !self.drops_all(container),
        ]
    }

    fn drops_all(&self, container: &Container<'_>) -> bool {
        let row = container.row;
        if row.text(FIRST_DROP) == Some("ALL") {
            return true;
        }
        // A call of the host only where there are more.
        if row.kind(DROP) != Kind::List || row.length(DROP).is_none_or(|length| length < 2) {
            return false;
        }
        let list = format!("{}/securityContext/capabilities/drop", container.pointer());
        self.object.rows(&list, &[""]).iter().any(|row| row.text(0) == Some("ALL"))
    }

    /// Pods whose profile does not make up for that of their containers.
    fn without_profile(&mut self) {
        if !self.level.has_since(SECCOMP) {
            return;
        }
        for (spec, pod) in self.pods.iter().enumerate().filter(|(_, pod)| !pod.is_windows) {
            let what = match pod.profile {
                Some(false) => Profile::Other,
                None if pod.needs_profile => Profile::None,
                Some(true) | None => continue,
            };
            self.profiles.push(Fault { spec, container: None, what });
        }
    }
}

/// The pod templates of an Operator.
pub(crate) fn operator(subject: &mut Subject<'_, '_>) {
    if subject.touches_json("/spec/install/spec/deployments") {
        judge(subject, &[&PSA_09, &PSA_10, &PSA_11], false);
    }
}

/// Pods and workloads, for PSA-09.
pub(crate) fn workload(subject: &mut Subject<'_, '_>, is_pod: bool) {
    judge(subject, &[&PSA_09], is_pod);
}

fn judge(subject: &mut Subject<'_, '_>, rules: &[&'static Rule], is_pod: bool) {
    let namespace = subject.review.namespace();
    let is_on = rules.iter().any(|rule| subject.report.is_on(rule));
    if !is_on || namespace.is_empty() || !subject.specs.iter().any(PodSpec::has_containers) {
        return;
    }
    let found = subject.report.answer(rules, "Namespaces", Restricted::of(namespace));
    let Some(level) = found.flatten() else { return };
    // OpenShift assigns users to pods, not to templates.
    let level = if is_pod { level } else { level.of_templates() };
    let is_operator = rules.len() > 1;
    let found = Search::run(subject.object, subject.specs, &level, is_operator);
    let is_open =
        found.users.may_be_old() || found.lacks.may_be_old() || found.profiles.may_be_old();
    let old = subject.review.spares().filter(|_| is_open);
    let before = match old {
        Some(old) => Search::run(old, &subject.specs_of(old), &level, is_operator),
        None => Search::run(subject.object, &[], &level, is_operator),
    };
    report(subject, &PSA_09, found.users.since(before.users), "runAsUser", |who, user| {
        format!("you must leave the runAsUser field empty: {who} sets runAsUser {user}")
    });
    report(subject, &PSA_10, found.lacks.since(before.lacks), "", |who, lacks| {
        let fields = listed(*lacks);
        format!("{who} should set {fields} to run under the restricted pod security level")
    });
    let (profiles, more) = found.profiles.since(before.profiles);
    let (others, none): (Vec<_>, Vec<_>) =
        profiles.into_iter().partition(|fault| fault.what == Profile::Other);
    let message = |_: &str, _: &Profile| {
        "it is recommended that you set the seccomp profile type to RuntimeDefault".to_owned()
    };
    report(subject, &PSA_11, (others, more), "seccompProfile.type", message);
    report(subject, &PSA_11, (none, 0), "", message);
}

/// Adds a finding for each fault, and counts `more`. `member` is that of the security context which is
/// wrong, empty for all of it.
fn report<W>(
    subject: &mut Subject<'_, '_>,
    rule: &'static Rule,
    (faults, more): (Vec<Fault<W>>, usize),
    member: &str,
    message: impl Fn(&str, &W) -> String,
) {
    let (object, specs) = (subject.object, subject.specs);
    for Fault { spec, container, what } in faults {
        let Some(spec) = specs.get(spec) else { continue };
        subject.add(rule, || {
            let (pointer, field) = match container {
                Some((list, index)) => (
                    format!("{}/{list}/{index}", spec.pointer()),
                    format!("{}.{list}[{index}]", spec.field()),
                ),
                None => (spec.pointer(), spec.field()),
            };
            let who = if container.is_some() {
                format!("container {}", quote(&object.text_or_empty(&format!("{pointer}/name"))))
            } else {
                format!("the pod of {}", quote(&spec.name))
            };
            // A place that is there.
            let has_context = object.has(&format!("{pointer}/securityContext"));
            let mut field = if has_context { format!("{field}.securityContext") } else { field };
            if !member.is_empty() {
                field = format!("{field}.{member}");
            }
            (field, message(&who, &what))
        });
    }
    subject.report.add_more(rule, more);
}

/// `a, b and c`.
fn listed(lacks: [bool; 3]) -> String {
    let fields: Vec<&str> =
        LACKS.into_iter().zip(lacks).filter_map(|(field, lacks)| lacks.then_some(field)).collect();
    match fields.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        all => all.join(", "),
    }
}
