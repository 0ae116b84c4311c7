//! Finds fields of an object that the level `restricted` does not allow.
//!
//! Each check is part of the level since a version of Kubernetes, and some do not apply to pods for
//! Windows or to pods in a user namespace (`policy/check_*.go` of kubernetes/pod-security-admission).

use opgate_sdk::pods::{self, Container, PodSpec};
use opgate_sdk::{Document, Kind, Row};

use crate::level::Restricted;
use crate::subject::Violations;

/// Minor versions of Kubernetes in which the level got its checks.
const PRIVILEGE_ESCALATION_SINCE: u32 = 8;
const SECCOMP_SINCE: u32 = 19;
const CAPABILITIES_SINCE: u32 = 22;
const RUN_AS_USER_SINCE: u32 = 23;
/// From this version, pods for Windows need not set fields that Windows does not support.
const WINDOWS_SINCE: u32 = 25;
/// From this version, pods in a user namespace may choose their users.
const USER_NAMESPACES_SINCE: u32 = 35;

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
/// Columns of both pods and containers.
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

/// A violation of the level, with its cause: the user, for PSA-09; the index in [`super::REQUIRED_FIELDS`],
/// for PSA-10; whether the profile is invalid or missing, for PSA-11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LevelViolation<W> {
    /// Index of the spec.
    pub(super) spec: usize,
    /// The list, and the index in it; none for the pod.
    pub(super) container: Option<(&'static str, u32)>,
    pub(super) cause: W,
}

/// Reasons why a profile violates the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Profile {
    /// The level does not allow the profile.
    Other,
    /// A container has no profile, and its pod has none. Reported once for a pod.
    None,
}

/// Properties of a pod that the rules need.
struct Pod {
    non_root: Option<bool>,
    /// Whether the level allows its seccomp profile, if it has one.
    profile: Option<bool>,
    /// Whether a container has no profile.
    needs_profile: bool,
    is_windows: bool,
    /// Whether its users differ from those of the node.
    has_user_namespace: bool,
}

impl Pod {
    fn of(row: Row<'_>, level: &Restricted) -> Self {
        Self {
            non_root: row.boolean(NON_ROOT),
            profile: (row.kind(PROFILE) == Kind::Text).then(|| is_confined(row)),
            needs_profile: false,
            is_windows: row.text(OS) == Some("windows") && level.has_since(WINDOWS_SINCE),
            has_user_namespace: row.boolean(HOST_USERS) == Some(false)
                && level.has_since(USER_NAMESPACES_SINCE),
        }
    }
}

fn is_confined(row: Row<'_>) -> bool {
    matches!(row.text(PROFILE), Some("RuntimeDefault" | "Localhost"))
}

/// Whether the object sets a profile that the level does not allow.
fn is_unconfined(row: Row<'_>) -> bool {
    row.kind(PROFILE) == Kind::Text && !is_confined(row)
}

/// The search of the rules in an object.
pub(super) struct Search<'s> {
    object: &'s Document,
    level: &'s Restricted,
    pods: Vec<Pod>,
    pub(super) users: Violations<LevelViolation<i64>>,
    pub(super) missing_fields: Violations<LevelViolation<[bool; 3]>>,
    pub(super) profiles: Violations<LevelViolation<Profile>>,
}

impl<'s> Search<'s> {
    /// Checks the users, and with `is_operator` all other fields.
    pub(super) fn run(
        object: &'s Document,
        specs: &[PodSpec],
        level: &'s Restricted,
        is_operator: bool,
    ) -> Self {
        let mut search = Self {
            object,
            level,
            pods: Vec::new(),
            users: Violations::new(),
            missing_fields: Violations::new(),
            profiles: Violations::new(),
        };
        pods::each(object, specs, &POD, |spec, row| search.check_pod(spec, row));
        let columns = CONTAINER.get(..1).filter(|_| !is_operator).unwrap_or(&CONTAINER);
        pods::each_container(object, specs, columns, |spec, container| {
            search.check_user(spec, &container);
            if is_operator {
                search.check_container(spec, &container);
            }
        });
        if is_operator {
            search.check_pod_profiles();
        }
        search
    }

    fn check_pod(&mut self, spec: &PodSpec, row: Row<'_>) {
        let pod = Pod::of(row, self.level);
        let violation =
            |what| LevelViolation { spec: self.pods.len(), container: None, cause: what };
        if let Some(user) = self.user(row, &pod, || spec.pointer()) {
            self.users.push(violation(user));
        }
        self.pods.push(pod);
    }

    fn check_user(&mut self, spec: usize, container: &Container<'_>) {
        let Some(pod) = self.pods.get(spec) else { return };
        if let Some(user) = self.user(container.row, pod, || container.pointer()) {
            let container = Some((container.list, container.index));
            self.users.push(LevelViolation { spec, container, cause: user });
        }
    }

    /// The user that a security context sets, if the level does not allow it.
    fn user(&self, row: Row<'_>, pod: &Pod, pointer: impl FnOnce() -> String) -> Option<i64> {
        if row.kind(USER) != Kind::Number
            || pod.has_user_namespace
            || !self.level.has_since(RUN_AS_USER_SINCE)
        {
            return None;
        }
        let user = self.object.integer(&format!("{}/securityContext/runAsUser", pointer()))?;
        (!self.level.assigns(user)).then_some(user)
    }

    fn check_container(&mut self, spec: usize, container: &Container<'_>) {
        let has_profiles = self.level.has_since(SECCOMP_SINCE);
        let Some(pod) = self.pods.get(spec) else { return };
        let lacks = self.missing_in(container, pod);
        let place = Some((container.list, container.index));
        if lacks.contains(&true) {
            self.missing_fields.push(LevelViolation { spec, container: place, cause: lacks });
        }
        if !has_profiles || pod.is_windows || is_confined(container.row) {
            return;
        }
        if is_unconfined(container.row) {
            self.profiles.push(LevelViolation { spec, container: place, cause: Profile::Other });
        } else if let Some(pod) = self.pods.get_mut(spec) {
            pod.needs_profile = true;
        }
    }

    /// The members of [`super::REQUIRED_FIELDS`] that a container lacks.
    fn missing_in(&self, container: &Container<'_>, pod: &Pod) -> [bool; 3] {
        let row = container.row;
        let is_non_root = row.boolean(NON_ROOT).or(pod.non_root) == Some(true);
        let has_since = |minor| self.level.has_since(minor) && !pod.is_windows;
        [
            !is_non_root && !pod.has_user_namespace,
            row.boolean(ESCALATION) != Some(false) && has_since(PRIVILEGE_ESCALATION_SINCE),
            has_since(CAPABILITIES_SINCE) && !self.drops_all(container),
        ]
    }

    fn drops_all(&self, container: &Container<'_>) -> bool {
        let row = container.row;
        if row.text(FIRST_DROP) == Some("ALL") {
            return true;
        }
        // A host call only if there are more.
        if row.kind(DROP) != Kind::List || row.length(DROP).is_none_or(|length| length < 2) {
            return false;
        }
        let list = format!("{}/securityContext/capabilities/drop", container.pointer());
        self.object.rows(&list, &[""]).iter().any(|row| row.text(0) == Some("ALL"))
    }

    /// Pods whose profile does not replace the missing one of their containers.
    fn check_pod_profiles(&mut self) {
        if !self.level.has_since(SECCOMP_SINCE) {
            return;
        }
        for (spec, pod) in self.pods.iter().enumerate().filter(|(_, pod)| !pod.is_windows) {
            let what = match pod.profile {
                Some(false) => Profile::Other,
                None if pod.needs_profile => Profile::None,
                Some(true) | None => continue,
            };
            self.profiles.push(LevelViolation { spec, container: None, cause: what });
        }
    }
}
