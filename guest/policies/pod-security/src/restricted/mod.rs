//! Requirements of the level `restricted` for pods, in namespaces that enforce it.
//!
//! ```text
//! namespace ─▶ enforces restricted, at a version ─┬─▶ violations of the object ─────┐
//!                                                 └─▶ violations of the old object ─┴─▶ new violations
//! ```
//!
//! The policy compares unchanged parts of an UPDATE without a host call for each container.

mod search;

use opgate_sdk::go::quote;
use opgate_sdk::pods::PodSpec;
use opgate_sdk::{Rule, rule, rules};

use self::search::{LevelViolation, Profile, Search};
use crate::level::Restricted;
use crate::reads::{CSVS, NAMESPACES};
use crate::subject::Subject;
use crate::targets::{CSV, restricted as workloads};

rules![PSA_09, PSA_10, PSA_11];

rule! {
    /// Operators in restricted namespaces do not set the user of their pods
    ///
    /// If the namespace of a CSV has the label `pod-security.kubernetes.io/enforce: restricted`,
    /// the pod templates in `spec.install.spec.deployments` have no `runAsUser`, neither in the
    /// `securityContext` of the pod nor in that of a container, init container or ephemeral
    /// container. The rule does not apply if the namespace enforces a version before v1.23, and not
    /// to pods with `hostUsers: false` from v1.35 on (or if the version is `latest`). With the setting
    /// `psa.checkWorkloads: true`, the rule also evaluates Pods, Deployments, DaemonSets,
    /// StatefulSets, Jobs and CronJobs; users of a Pod in the range that OpenShift assigns to its
    /// namespace (the annotation `openshift.io/sa.scc.uid-range`) are allowed. Without the setting
    /// it evaluates none of these, neither in requests nor in files. The rule exempts copies that
    /// OLM created. On UPDATE, it does not evaluate a value that does not change. The rule reads
    /// Namespaces, and CSVs for originals of copies.
    ///
    /// # Why
    ///
    /// OpenShift assigns a user to each pod. A pod that needs a certain user does not run under the
    /// restricted security context constraints (OpenShift 4.12, Operators, *Ensuring Operator
    /// workloads run in namespaces set to the restricted pod security level*).
    ///
    /// # Remediation
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
        name: "no-run-as-user-when-restricted",
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
        source: ["OCP 4.12 L21862-21866", "OCP 4.15 L15998-16135"],
    }
}

rule! {
    /// Operators in restricted namespaces set the container fields that level restricted requires
    ///
    /// If the namespace of a CSV has the label `pod-security.kubernetes.io/enforce: restricted`,
    /// each container, init container and ephemeral container of its pod templates has
    /// `runAsNonRoot: true`, directly or from the pod, `allowPrivilegeEscalation: false` and `ALL`
    /// among `capabilities.drop`. The drop list counts from version v1.22 of the level, privilege
    /// escalation from v1.8; from v1.25 neither applies to pods with `os.name: windows`, and from
    /// v1.35 (or if the version is `latest`) `runAsNonRoot` does not apply to pods with `hostUsers:
    /// false`. The rule exempts copies that OLM created. On UPDATE, it does not evaluate a security
    /// context that does not change. The rule reads Namespaces, and CSVs for originals of copies.
    ///
    /// # Why
    ///
    /// The API server does not admit the pods of the Operator, and the CSV waits for a deployment
    /// that never becomes available (OpenShift 4.12, Operators, *Ensuring Operator workloads run in
    /// namespaces set to the restricted pod security level*).
    ///
    /// # Remediation
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
    /// securityContext.allowPrivilegeEscalation=false and securityContext.capabilities.drop=["ALL"]
    /// to run under the restricted pod security level`
    PSA_10: Warn {
        name: "restricted-container-security-context",
        on: [CSV: Create | Update],
        reads: [NAMESPACES, CSVS],
        source: ["OCP 4.12 L21871-21934", "OCP 4.15 L15998-16135"],
    }
}

rule! {
    /// Operators in restricted namespaces set a seccomp profile
    ///
    /// If the namespace of a CSV has the label `pod-security.kubernetes.io/enforce: restricted`,
    /// `seccompProfile.type` is set to `RuntimeDefault` or `Localhost` in the security context of
    /// each pod template, or in those of all its containers. No container sets another type such as
    /// `Unconfined`. The rule applies from version v1.19 of the level, and from v1.25 not to pods
    /// with `os.name: windows`. The rule reports a template without a profile once. It exempts
    /// copies that OLM created. On UPDATE, it does not evaluate a template whose security contexts
    /// do not change. The rule reads Namespaces, and CSVs for originals of copies.
    ///
    /// # Why
    ///
    /// The level admits no pod without a profile; with `RuntimeDefault`, the constraints follow the
    /// level of the namespace (OpenShift 4.12, Operators, *Ensuring Operator workloads run in
    /// namespaces set to the restricted pod security level*). OpenShift 4.10 does not support
    /// profiles, see PSA-12.
    ///
    /// # Remediation
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
        name: "seccomp-profile-in-restricted-namespace",
        on: [CSV: Create | Update],
        reads: [NAMESPACES, CSVS],
        source: ["OCP 4.12 L21875-21904", "OCP 4.15 L15998-16135"],
    }
}

/// Required fields that a container lacks.
const REQUIRED_FIELDS: [&str; 3] = [
    "securityContext.runAsNonRoot=true",
    "securityContext.allowPrivilegeEscalation=false",
    "securityContext.capabilities.drop=[\"ALL\"]",
];

/// The pod templates of an Operator.
pub(crate) fn check_operator(subject: &mut Subject<'_, '_>) {
    if subject.touches_json("/spec/install/spec/deployments") {
        check(subject, &[&PSA_09, &PSA_10, &PSA_11], false);
    }
}

/// Pods and workloads, for PSA-09.
pub(crate) fn check_workload(subject: &mut Subject<'_, '_>, is_pod: bool) {
    check(subject, &[&PSA_09], is_pod);
}

fn check(subject: &mut Subject<'_, '_>, rules: &[&'static Rule], is_pod: bool) {
    let namespace = subject.review.namespace();
    let is_on = rules.iter().any(|rule| subject.report.is_on(rule));
    if !is_on || namespace.is_empty() || !subject.specs.iter().any(PodSpec::has_containers) {
        return;
    }
    let found = subject.report.or_skip(rules, "Namespaces", Restricted::of(namespace));
    let Some(level) = found.flatten() else { return };
    // OpenShift assigns users to pods, not to templates.
    let level = if is_pod { level } else { level.for_templates() };
    let is_operator = rules.len() > 1;
    let found = Search::run(subject.object, subject.specs, &level, is_operator);
    let is_open = found.users.may_be_old()
        || found.missing_fields.may_be_old()
        || found.profiles.may_be_old();
    let old = subject.review.ratchet_base().filter(|_| is_open);
    let before = match old {
        Some(old) => Search::run(old, &subject.specs_of(old), &level, is_operator),
        None => Search::run(subject.object, &[], &level, is_operator),
    };
    report_violations(
        subject,
        &PSA_09,
        found.users.new_since(before.users),
        "runAsUser",
        |who, user| {
            format!("you must leave the runAsUser field empty: {who} sets runAsUser {user}")
        },
    );
    report_violations(
        subject,
        &PSA_10,
        found.missing_fields.new_since(before.missing_fields),
        "",
        |who, lacks| {
            let fields = list_missing(*lacks);
            format!("{who} should set {fields} to run under the restricted pod security level")
        },
    );
    let (profiles, more) = found.profiles.new_since(before.profiles);
    let (others, none): (Vec<_>, Vec<_>) =
        profiles.into_iter().partition(|violation| violation.cause == Profile::Other);
    let message = |_: &str, _: &Profile| {
        "it is recommended that you set the seccomp profile type to RuntimeDefault".to_owned()
    };
    report_violations(subject, &PSA_11, (others, more), "seccompProfile.type", message);
    report_violations(subject, &PSA_11, (none, 0), "", message);
}

/// Adds a violation for each problem, and counts `more`. `member` is the invalid member of the
/// security context, or empty for the whole context.
fn report_violations<W>(
    subject: &mut Subject<'_, '_>,
    rule: &'static Rule,
    (violations, more): (Vec<LevelViolation<W>>, usize),
    member: &str,
    message: impl Fn(&str, &W) -> String,
) {
    let (object, specs) = (subject.object, subject.specs);
    for LevelViolation { spec, container, cause: what } in violations {
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
            // A field that exists.
            let has_context = object.has(&format!("{pointer}/securityContext"));
            let mut field = if has_context { format!("{field}.securityContext") } else { field };
            if !member.is_empty() {
                field = format!("{field}.{member}");
            }
            (field, message(&who, &what))
        });
    }
    subject.report.add_count(rule, more);
}

/// `a, b and c`.
fn list_missing(lacks: [bool; 3]) -> String {
    let fields: Vec<&str> = REQUIRED_FIELDS
        .into_iter()
        .zip(lacks)
        .filter_map(|(field, lacks)| lacks.then_some(field))
        .collect();
    match fields.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        all => all.join(", "),
    }
}
