//! Permissions of the servers' ServiceAccount, compared with the required ones.

use std::collections::BTreeSet;

use opgate_controller::audit_reports::ReportApi;
use serde_json::Value;

use crate::facts::Facts;
use crate::facts::audit::{ConfiguredAudit, report_permissions};
use crate::facts::expected::RequiredPermission;
use crate::facts::object::{Kind, Object, list, text};
use crate::facts::workload::Workload;
use crate::finding::{Findings, ObjectReference, join_names, shell_word};
use crate::finding_docs::permissions::{
    EXCESSIVE_READS, EXCESSIVE_WRITES, MISSING_PERMISSION, SECRET_READS,
};

const READ_VERBS: [&str; 3] = ["get", "list", "watch"];

/// Maximum number of pairs of group and resource of a rule to check.
const MAX_RULE_PAIRS: usize = 1_000;

/// Resources that servers write in their namespace.
const OWNED_RESOURCES: [(&str, &str); 6] = [
    ("coordination.k8s.io", "leases"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("", "pods"),
];

/// Cluster-scoped resources that servers write: the webhook registration.
const OWNED_CLUSTER_RESOURCES: [(&str, &str); 1] =
    [("admissionregistration.k8s.io", "validatingwebhookconfigurations")];

/// Verbs of what servers write.
const OWNER_VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// A rule of a role that is bound to the account.
pub(super) struct Grant<'f> {
    role: &'f Object,
    /// The only namespace in which it holds.
    namespace: Option<&'f str>,
    /// Whether the account itself is named, not a group that it belongs to.
    is_direct: bool,
    groups: BTreeSet<&'f str>,
    resources: BTreeSet<&'f str>,
    verbs: BTreeSet<&'f str>,
    names: BTreeSet<&'f str>,
}

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let Some(workload) = Workload::of(facts) else {
        found.add_unchecked(
            "permissions",
            "no Deployment of the servers is known, and so no ServiceAccount",
        );
        return;
    };
    if !require_roles(facts, "permissions", found) {
        return;
    }
    let (namespace, account) = (&workload.object.namespace, workload.service_account());
    let grants = account_grants(facts, namespace, account);
    let expected = &facts.expected;
    match expected.unknown_reason.as_ref().or(expected.error.as_ref()) {
        Some(why) => found.add_unchecked("missing permissions", why),
        // A server without reads needs no permissions.
        None if workload.flag("--cluster-source", None) == Some("none") => {}
        None => {
            check_missing(
                facts,
                &grants,
                &ObjectReference::named(Kind::ServiceAccount, namespace, account),
                found,
            );
        }
    }
    check_excessive(facts, &grants, found);
}

/// Reports whether roles and bindings are known; otherwise records the skipped check.
pub(super) fn require_roles(facts: &Facts, what: &str, found: &mut Findings) -> bool {
    let kinds = [Kind::ClusterRoleBinding, Kind::RoleBinding, Kind::ClusterRole, Kind::Role];
    kinds.into_iter().all(|kind| found.require_kind(facts, kind, what))
}

/// Reports whether a subject is an account, or a group to which all accounts belong.
fn is_subject(subject: &Value, namespace: &str, account: &str) -> Option<bool> {
    let name = text(subject, "/name");
    let is_direct = match text(subject, "/kind") {
        "ServiceAccount" => text(subject, "/namespace") == namespace && name == account,
        "User" => name == format!("system:serviceaccount:{namespace}:{account}"),
        "Group" if name == format!("system:serviceaccounts:{namespace}") => true,
        "Group" if matches!(name, "system:serviceaccounts" | "system:authenticated") => {
            return Some(false);
        }
        _ => false,
    };
    is_direct.then_some(true)
}

/// Returns the rules of all roles that are bound to an account.
pub(super) fn account_grants<'f>(
    facts: &'f Facts,
    namespace: &str,
    account: &str,
) -> Vec<Grant<'f>> {
    let mut grants = Vec::new();
    for binding in facts.all(Kind::ClusterRoleBinding).chain(facts.all(Kind::RoleBinding)) {
        let subjects = binding.list("/subjects").iter();
        let is_direct = subjects.filter_map(|one| is_subject(one, namespace, account)).max();
        let Some(is_direct) = is_direct else { continue };
        let of = Some(binding.namespace.as_str()).filter(|_| binding.kind == Kind::RoleBinding);
        let name = binding.text("/roleRef/name");
        let role = match binding.text("/roleRef/kind") {
            "Role" => facts.get(Kind::Role, &binding.namespace, name),
            _ => facts.get(Kind::ClusterRole, "", name),
        };
        for (role, rule) in role
            .into_iter()
            .flat_map(|role| role.list("/rules").iter().map(move |rule| (role, rule)))
        {
            let all =
                |pointer: &str| list(rule, pointer).iter().filter_map(Value::as_str).collect();
            grants.push(Grant {
                role,
                namespace: of,
                is_direct,
                groups: all("/apiGroups"),
                resources: all("/resources"),
                verbs: all("/verbs"),
                names: all("/resourceNames"),
            });
        }
    }
    grants
}

fn has_or_wildcard(all: &BTreeSet<&str>, one: &str) -> bool {
    all.contains("*") || all.contains(one)
}

impl Grant<'_> {
    fn permits(&self, permission: &RequiredPermission, verb: &str) -> bool {
        let is_named = |name: &String| self.names.contains(name.as_str());
        self.namespace.is_none_or(|namespace| permission.namespace.as_deref() == Some(namespace))
            && has_or_wildcard(&self.groups, &permission.group)
            && has_or_wildcard(&self.resources, &permission.resource)
            && has_or_wildcard(&self.verbs, verb)
            && (self.names.is_empty()
                || !permission.names.is_empty() && permission.names.iter().all(is_named))
    }
}

/// Returns the verbs of a permission that no rule grants.
pub(super) fn missing_verbs<'p>(
    grants: &[Grant<'_>],
    permission: &'p RequiredPermission,
) -> Vec<&'p str> {
    let is_missing = |verb: &&String| !grants.iter().any(|grant| grant.permits(permission, verb));
    permission.verbs.iter().filter(is_missing).map(String::as_str).collect()
}

fn check_missing(facts: &Facts, grants: &[Grant<'_>], at: &ObjectReference, found: &mut Findings) {
    for permission in &facts.expected.permissions {
        let verbs = missing_verbs(grants, permission);
        if verbs.is_empty() {
            continue;
        }
        let resource = permission.display_resource();
        let place = match &permission.namespace {
            Some(namespace) => format!("the namespace {namespace}"),
            None => "all namespaces".to_owned(),
        };
        let what = format!("it may not {} {resource} in {place}", verbs.join(" and "));
        let account = format!("{}/{}", at.namespace, at.name);
        let repair = format!(
            "opgate manifests rbac --config opgate.yaml --service-account {} | kubectl apply -f -",
            shell_word(&account)
        );
        found.add(&MISSING_PERMISSION, at.clone(), &resource, &what, &repair);
    }
}

fn check_excessive(facts: &Facts, grants: &[Grant<'_>], found: &mut Findings) {
    let needed = needed_permissions(facts);
    for grant in grants.iter().filter(|grant| grant.is_direct && !grant.resources.is_empty()) {
        let (mut writes, mut secrets, mut more) = (Vec::new(), Vec::new(), Vec::new());
        let pairs = grant
            .groups
            .iter()
            .flat_map(|group| grant.resources.iter().map(move |one| (*group, *one)));
        for (group, resource) in pairs.take(MAX_RULE_PAIRS) {
            if is_owned(facts, grant, group, resource) || is_needed(&needed, grant, group, resource)
            {
                continue;
            }
            let verbs: Vec<_> =
                grant.verbs.iter().copied().filter(|verb| !READ_VERBS.contains(verb)).collect();
            let is_all = group == "*" || resource == "*";
            let shown = match group {
                "" => resource.to_owned(),
                group => format!("{resource}.{group}"),
            };
            if is_all || !verbs.is_empty() {
                let verbs = match verbs.as_slice() {
                    [] => join_names(grant.verbs.iter().copied()),
                    verbs => join_names(verbs.iter().copied()),
                };
                writes.push(format!("{verbs} {shown}"));
            } else if group.is_empty() && resource == "secrets" && grant.namespace.is_none() {
                secrets.push(shown);
            } else if facts.expected.unknown_reason.is_none() && facts.expected.error.is_none() {
                more.push(shown);
            }
        }
        let place = match grant.namespace {
            Some(namespace) => format!("the namespace {namespace}"),
            None => "all namespaces".to_owned(),
        };
        let repair = "grant what opgate manifests rbac prints, and no more";
        for (doc, all) in
            [(&EXCESSIVE_WRITES, writes), (&SECRET_READS, secrets), (&EXCESSIVE_READS, more)]
        {
            if !all.is_empty() {
                let what =
                    format!("in {place} it grants {}", join_names(all.iter().map(String::as_str)));
                found.add(doc, grant.role, "rules", &what, repair);
            }
        }
    }
}

/// Reports whether it is what servers keep themselves.
fn is_owned(facts: &Facts, grant: &Grant<'_>, group: &str, resource: &str) -> bool {
    let is_own = grant.namespace == Some(facts.installation.namespace.as_str());
    let is_kept = grant.verbs.iter().all(|verb| OWNER_VERBS.contains(verb));
    let is_asked = matches!(group, "authorization.k8s.io" | "authentication.k8s.io")
        && grant.verbs.iter().all(|verb| *verb == "create");
    // A permission of OpenShift for pods.
    let is_used =
        resource == "securitycontextconstraints" && grant.verbs.iter().all(|v| *v == "use");
    is_asked
        || is_used
        || is_kept
            && (is_own && OWNED_RESOURCES.contains(&(group, resource))
                || OWNED_CLUSTER_RESOURCES.contains(&(group, resource)))
}

/// Returns the permissions that the configuration needs, and those of the audit by the leader and of Events for denials.
fn needed_permissions(facts: &Facts) -> Vec<RequiredPermission> {
    let mut needed = facts.expected.permissions.clone();
    if Workload::of(facts).is_some_and(|workload| workload.writes_denial_events()) {
        needed.push(RequiredPermission {
            namespace: None,
            group: "events.k8s.io".to_owned(),
            resource: "events".to_owned(),
            verbs: vec!["create".to_owned(), "patch".to_owned()],
            names: Vec::new(),
        });
    }
    if ConfiguredAudit::of_leader(facts).is_some() {
        needed.extend(facts.expected.audit_permissions.iter().cloned());
        needed.extend(ReportApi::ALL.into_iter().flat_map(report_permissions));
    }
    needed
}

/// Reports whether one of the permissions needs it, in that place.
fn is_needed(
    needed: &[RequiredPermission],
    grant: &Grant<'_>,
    group: &str,
    resource: &str,
) -> bool {
    needed.iter().any(|permission| {
        let is_place =
            permission.namespace.is_none() || permission.namespace.as_deref() == grant.namespace;
        let is_it = |needed: &str, granted: &str| needed == granted || needed == "*";
        // The permission to list includes the data of get.
        let is_verb =
            |verb: &&str| *verb == "get" || permission.verbs.iter().any(|one| one == verb);
        is_place
            && is_it(&permission.group, group)
            && is_it(&permission.resource, resource)
            && grant.verbs.iter().all(is_verb)
    })
}
