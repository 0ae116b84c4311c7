//! Webhooks that keep a cluster from healing while no server answers.

use std::collections::BTreeMap;

use crate::facts::Facts;
use crate::facts::hooks::Hook;
use crate::facts::object::Kind;
use crate::finding::{Findings, join_names};
use crate::finding_docs::lockout::{
    ALL_NAMESPACES, ALL_RESOURCES, OLM_RECOVERY, OWN_NAMESPACE, RECOVERY_OBJECTS,
    UNSTORED_RESOURCES,
};
use opgate_manifests::SYSTEM_NAMESPACE;

/// Resources that pods and controllers need to start, by API group.
const STARTUP_RESOURCES: [(&str, &str); 14] = [
    ("", "pods"),
    ("", "pods/binding"),
    ("", "secrets"),
    ("", "configmaps"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("", "endpoints"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "daemonsets"),
    ("apps", "statefulsets"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("batch", "jobs"),
];

/// Cluster-scoped resources that they need.
const NODE_RESOURCES: [(&str, &str); 2] =
    [("", "nodes"), ("certificates.k8s.io", "certificatesigningrequests")];

/// Resources that are requested but never stored.
const NEVER_STORED: [(&str, &str); 8] = [
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("", "bindings"),
    ("", "serviceaccounts/token"),
];

/// Namespace in which nodes renew their Leases; it has no other objects.
const NODE_LEASES: &str = "kube-node-lease";

/// Namespaces in which OLM runs.
const OLM_NAMESPACES: [&str; 4] =
    ["olm", "olmv1-system", "openshift-operator-lifecycle-manager", "openshift-marketplace"];

/// Resources that OLM creates for itself.
const OLM_CREATED_RESOURCES: [&str; 4] =
    ["clusterserviceversions", "operatorgroups", "subscriptions", "catalogsources"];

/// Maximum number of OpenShift namespaces to check.
const MAX_OPENSHIFT_NAMESPACES: usize = 500;

const EXEMPT_REMEDIATION: &str = "exempt it (exclude.namespaces), or set onError: allow for the policy; then print and apply the registration again";

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let namespaces = recovery_namespaces(facts, found);
    let own = facts.namespace_labels(&facts.installation.namespace);
    for hook in facts.own_hooks() {
        check_unstored_resources(&hook, found);
        if !hook.fails_closed() {
            continue;
        }
        let matched = matched_startup_resources(&hook, &own);
        if !matched.is_empty() {
            let what = format!(
                "{} refuses {} in {} while no server answers",
                hook.name(),
                join_names(matched),
                facts.installation.namespace
            );
            let repair = "apply the output of opgate manifests webhook, which exempts the namespace; if nothing starts any more, delete the registration first";
            found.add(&OWN_NAMESPACE, hook.object, &hook.field("namespaceSelector"), &what, repair);
        }
        check_recovery_objects(facts, &hook, &namespaces, found);
        let is_all = hook
            .rules()
            .any(|rule| rule.covers("", "namespaces") && rule.matches_operation("CREATE"));
        if is_all && !hook.has_conditions() {
            let what = format!("{} matches all namespaces", hook.name());
            let repair = "print the registration with matchConditions, and apply it";
            found.add(&ALL_NAMESPACES, hook.object, &hook.field("rules"), &what, repair);
        }
    }
}

/// Returns the basic resources that a webhook matches in a namespace.
fn matched_startup_resources(hook: &Hook<'_>, labels: &BTreeMap<&str, &str>) -> Vec<&'static str> {
    let matched =
        STARTUP_RESOURCES.iter().filter(|(group, name)| hook.matches(group, name, Some(labels)));
    matched.map(|(_, name)| *name).collect()
}

/// Namespaces that a cluster needs to recover.
fn recovery_namespaces<'f>(facts: &'f Facts, found: &mut Findings) -> Vec<&'f str> {
    let mut all = vec![SYSTEM_NAMESPACE, NODE_LEASES];
    if found.require_kind(facts, Kind::Namespace, "lock-out of namespaces of OpenShift and OLM") {
        let known = facts.all(Kind::Namespace).map(|namespace| namespace.name.as_str());
        let is_needed =
            |name: &&str| name.starts_with("openshift-") || OLM_NAMESPACES.contains(name);
        all.extend(known.filter(is_needed).take(MAX_OPENSHIFT_NAMESPACES));
    }
    all.retain(|name| *name != facts.installation.namespace);
    all
}

fn check_recovery_objects(
    facts: &Facts,
    hook: &Hook<'_>,
    namespaces: &[&str],
    found: &mut Findings,
) {
    let (mut locked, mut resources, mut of_olm) = (Vec::new(), Vec::new(), Vec::new());
    for name in namespaces {
        let labels = facts.namespace_labels(name);
        let mut matched = matched_startup_resources(hook, &labels);
        if *name == NODE_LEASES {
            matched.retain(|resource| *resource == "leases");
        }
        if !matched.is_empty() {
            locked.push(*name);
            resources.extend(matched);
        }
        let is_by_olm = |one: &&str| hook.matches("operators.coreos.com", one, Some(&labels));
        if OLM_NAMESPACES.contains(name) && OLM_CREATED_RESOURCES.iter().any(is_by_olm) {
            of_olm.push(*name);
        }
    }
    let of_nodes = NODE_RESOURCES.iter().filter(|(group, name)| hook.matches(group, name, None));
    resources.extend(of_nodes.map(|(_, name)| *name));
    resources.sort_unstable();
    resources.dedup();
    if !resources.is_empty() {
        let place = match locked.as_slice() {
            [] => String::new(),
            locked => format!(" in {}", join_names(locked.iter().copied())),
        };
        let what = format!(
            "{} refuses {}{place} while no server answers",
            hook.name(),
            join_names(resources)
        );
        found.add(
            &RECOVERY_OBJECTS,
            hook.object,
            &hook.field("namespaceSelector"),
            &what,
            EXEMPT_REMEDIATION,
        );
    }
    if !of_olm.is_empty() {
        let what = format!("{} refuses what OLM changes in {}", hook.name(), join_names(of_olm));
        found.add(
            &OLM_RECOVERY,
            hook.object,
            &hook.field("namespaceSelector"),
            &what,
            EXEMPT_REMEDIATION,
        );
    }
}

fn check_unstored_resources(hook: &Hook<'_>, found: &mut Findings) {
    let rules: Vec<_> = hook.rules().collect();
    let is_narrow = hook.has_conditions();
    let matched = NEVER_STORED.iter().filter(|(group, name)| {
        rules.iter().any(|rule| {
            let is_named = rule.resources.contains(name);
            rule.covers(group, name) && rule.matches_operation("CREATE") && (is_named || !is_narrow)
        })
    });
    let matched: Vec<_> = matched.map(|(_, name)| *name).collect();
    if matched.is_empty() {
        return;
    }
    let repair = "name API groups and resources in the rules, without wildcards";
    let field = hook.field("rules");
    if hook.fails_closed() {
        let what =
            format!("{} refuses {} while no server answers", hook.name(), join_names(matched));
        found.add(&UNSTORED_RESOURCES, hook.object, &field, &what, repair);
    } else {
        let seconds = hook.timeout_seconds();
        let what = format!(
            "{} is asked about {}; each waits up to {seconds} s while no server answers",
            hook.name(),
            join_names(matched)
        );
        found.add(&ALL_RESOURCES, hook.object, &field, &what, repair);
    }
}
