//! The cases of all policies through their components: once with the cluster in files, as
//! `opgate replay --cluster-state` has it, and once with the cluster behind an API server. The verdicts are
//! the ones that the policies' own tests expect.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Connection, ResourceCache, Snapshot, Source};
use opgate::policy::{Configuration, Effect, PolicySet};
use opgate::review::{self, Review};
use opgate::supervise::Supervisor;
use opgate_document::Document;
use opgate_sdk::{Level, Policy};
use opgate_sdk_testing::{Case, native, plural, server_version};
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};

/// The built-in policies, as their crates declare them.
pub(crate) static POLICIES: [&Policy; 15] = [
    &opgate_bundle_immutability::POLICY,
    &opgate_operator_group::POLICY,
    &opgate_constraint_limits::POLICY,
    &opgate_cluster_service_version::POLICY,
    &opgate_pod_security::POLICY,
    &opgate_operator_condition::POLICY,
    &opgate_platform_operator::POLICY,
    &opgate_crd_upgrade::POLICY,
    &opgate_catalog_source::POLICY,
    &opgate_subscription::POLICY,
    &opgate_olm_v1::POLICY,
    &opgate_platform_configuration::POLICY,
    &opgate_registry_bundle::POLICY,
    &opgate_plain_bundle::POLICY,
    &opgate_file_based_catalog::POLICY,
];

/// All cases of a policy.
pub(crate) fn cases_of(policy: &Policy) -> Vec<Case> {
    let policies = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest/policies");
    native::cases(policy, &format!("{policies}/{}", policy.name))
}

const OLM: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";
const RUKPAK: &str = "core.rukpak.io";
const PACKAGES: &str = "packages.operators.coreos.com";
const CONFIG: &str = "config.openshift.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const REGISTRATION: &str = "apiregistration.k8s.io";
const PLATFORM: &str = "platform.openshift.io";
const SCHEDULING: &str = "scheduling.k8s.io";
const PERFORMANCE: &str = "performance.openshift.io";

/// What opgate makes itself, of files and of the answer of `/version`.
const OPGATE_GROUP: &str = "opgate.dev";

/// Of these another server than the API server knows no more than to list and to get.
const AGGREGATED_RESOURCE: &str = "packagemanifests";

/// Groups of custom resources that policies may list, those of the cases.
const CUSTOM_RESOURCE_GROUPS: [&str; 3] =
    ["stable.example.com", "cache.example.com", "example.com"];

/// Resources that policies declare to read.
const DECLARED_RESOURCES: [(&str, &str, &str, &str, Scope); 25] = [
    (OLM, "v1", "operatorgroups", "OperatorGroup", Scope::Namespaced),
    (OLM, "v1alpha1", "clusterserviceversions", "ClusterServiceVersion", Scope::Namespaced),
    (OLM, "v1alpha1", "catalogsources", "CatalogSource", Scope::Namespaced),
    (OLM, "v1alpha1", "subscriptions", "Subscription", Scope::Namespaced),
    (OLM, "v2", "operatorconditions", "OperatorCondition", Scope::Namespaced),
    ("", "v1", "namespaces", "Namespace", Scope::Cluster),
    ("", "v1", "serviceaccounts", "ServiceAccount", Scope::Namespaced),
    ("", "v1", "configmaps", "ConfigMap", Scope::Namespaced),
    ("", "v1", "secrets", "Secret", Scope::Namespaced),
    (RBAC, "v1", "clusterroles", "ClusterRole", Scope::Cluster),
    (RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", Scope::Cluster),
    (RBAC, "v1", "roles", "Role", Scope::Namespaced),
    (RBAC, "v1", "rolebindings", "RoleBinding", Scope::Namespaced),
    (RUKPAK, "v1alpha1", "bundles", "Bundle", Scope::Cluster),
    (PLATFORM, "v1alpha1", "platformoperators", "PlatformOperator", Scope::Cluster),
    (EXTENSIONS, "v1", "customresourcedefinitions", "CustomResourceDefinition", Scope::Cluster),
    (REGISTRATION, "v1", "apiservices", "APIService", Scope::Cluster),
    (PACKAGES, "v1", AGGREGATED_RESOURCE, "PackageManifest", Scope::Namespaced),
    (CONFIG, "v1", "clusterversions", "ClusterVersion", Scope::Cluster),
    (CONFIG, "v1", "featuregates", "FeatureGate", Scope::Cluster),
    (CONFIG, "v1", "operatorhubs", "OperatorHub", Scope::Cluster),
    (CONFIG, "v1", "nodes", "Node", Scope::Cluster),
    (CONFIG, "v1", "authentications", "Authentication", Scope::Cluster),
    (SCHEDULING, "v1", "priorityclasses", "PriorityClass", Scope::Cluster),
    (PERFORMANCE, "v2", "performanceprofiles", "PerformanceProfile", Scope::Cluster),
];

/// An object of a case's cluster, as an API server has it.
struct StoredObject {
    group: String,
    version: String,
    resource: String,
    scope: Scope,
    object: Value,
}

impl StoredObject {
    /// `None` for objects that no policy reads: kinds of Kubernetes that no policy declares, and
    /// the version of the API server. Objects of declared kinds can omit their `apiVersion`.
    fn of(object: &Value) -> Option<Self> {
        if server_version(object).is_some() {
            return None;
        }
        let resource = plural(object["kind"].as_str()?);
        let written = object["apiVersion"].as_str();
        let written = written.map(|api| api.split_once('/').unwrap_or(("", api)));
        let is_known = |(group, _, name, _, _): &&(&str, _, &str, _, _)| {
            *name == resource && written.is_none_or(|(of, _)| of == *group)
        };
        let mut object = object.clone();
        let Some((group, version, _, _, scope)) = DECLARED_RESOURCES.iter().find(is_known) else {
            // Of any kind, for samples.
            let (group, version) = written.filter(|(group, _)| group.contains('.'))?;
            let is_inside = object["metadata"]["namespace"].is_string();
            let scope = if is_inside { Scope::Namespaced } else { Scope::Cluster };
            let (group, version) = (group.to_owned(), version.to_owned());
            return Some(Self { group, version, resource, scope, object });
        };
        let api = if group.is_empty() { (*version).into() } else { format!("{group}/{version}") };
        object["apiVersion"] = json!(api);
        if *scope == Scope::Cluster {
            object["metadata"].as_object_mut()?.remove("namespace");
        }
        let (group, version) = ((*group).to_owned(), (*version).to_owned());
        Some(Self { group, version, resource, scope: *scope, object })
    }

    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether a policy declares to read it, so that it is watched.
    fn is_declared(&self) -> bool {
        DECLARED_RESOURCES
            .iter()
            .any(|(group, _, name, _, _)| *group == self.group && *name == self.resource)
    }

    /// Custom resources have the versions that their definition has, if that comes under review.
    fn apply(&self, cluster: &FakeCluster, case: &Case) {
        let Self { group, version, resource, scope, object } = self;
        if !self.is_declared() {
            let defined = case.old.as_ref().and_then(|old| old["spec"]["versions"].as_array());
            let defined = defined.into_iter().flatten().filter_map(|one| one["name"].as_str());
            for version in defined.chain([&**version]) {
                cluster.install(group, version, resource, self.text("/kind"), *scope);
            }
        }
        cluster.apply(group, version, resource, object.clone());
    }

    /// What names it.
    fn coordinates(&self) -> [&str; 4] {
        let (namespace, name) = (self.text("/metadata/namespace"), self.text("/metadata/name"));
        [&self.group, &self.resource, namespace, name]
    }
}

/// Takes the objects of a case away, and kinds of which another case can have objects in another scope.
fn remove(objects: &[StoredObject], cluster: &FakeCluster) {
    // Some cases have an object twice.
    let places: BTreeSet<_> = objects.iter().map(StoredObject::coordinates).collect();
    for [group, resource, namespace, name] in places {
        cluster.delete(group, resource, namespace, name);
    }
    let undeclared = objects.iter().filter(|stored| !stored.is_declared());
    let undeclared: BTreeSet<_> = undeclared.map(|s| (&s.group, &s.resource)).collect();
    for (group, resource) in undeclared {
        cluster.uninstall(group, resource);
    }
}

/// The objects of a case's cluster.
fn objects(case: &Case) -> Vec<StoredObject> {
    case.cluster.iter().flatten().filter_map(StoredObject::of).collect()
}

/// The same as the fake API server stores it: of what the other server lists, several objects can have
/// one name.
fn stored(case: &Case) -> Vec<StoredObject> {
    let mut all = objects(case);
    for (number, stored) in all.iter_mut().enumerate() {
        if stored.resource == AGGREGATED_RESOURCE {
            let name = stored.text("/metadata/name");
            stored.object["metadata"]["name"] = json!(format!("{name}@{number}"));
        }
    }
    all
}

/// Whether an API server can have the cluster of a case, which is not about a check of files.
fn can_be_served(case: &Case) -> bool {
    case.settings["files"] != json!(true)
        && objects(case).iter().all(|stored| stored.group != OPGATE_GROUP)
}

/// The version of the API server, if the case has one.
fn version(case: &Case) -> Option<Value> {
    case.cluster.iter().flatten().find_map(server_version)
}

/// The case's settings as a configuration: profile and levels are next to the policy's settings.
/// The configuration grants what files show without a grant.
fn configuration(policy: &Policy, case: &Case) -> String {
    let mut settings = case.settings.clone();
    if case.cluster.is_some() {
        grant(policy, &case.resource(), &mut settings);
    }
    let members = settings.as_object_mut().unwrap();
    let profile = members.remove("profile");
    let rules = members.remove("rules").unwrap_or_else(|| json!({}));
    let mut configuration = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "policies": [{
            "name": policy.name,
            "rules": rules,
            "settings": settings,
            "allowedSamples": CUSTOM_RESOURCE_GROUPS.map(|group| format!("*.{group}")),
            "limits": {"time": "20s"},
        }],
    });
    if let Some(profile) = profile {
        configuration["profile"] = profile;
    }
    configuration.to_string()
}

/// Names the namespaces whose Secrets a server reads only if they are named, unless the setting is for
/// what comes under review.
fn grant(policy: &Policy, [_, _, resource, _]: &[String; 4], settings: &mut Value) {
    let reads = policy.reads();
    let named = reads.iter().filter(|read| !read.enabled_by.is_empty());
    let named = named.filter(|read| read.resource != resource);
    for namespace in named.filter_map(|read| read.namespace) {
        let mut place = &mut *settings;
        for member in namespace.pointer.split('/').skip(1) {
            place = &mut place[member];
        }
        if place.is_null() {
            *place = json!(namespace.default);
        }
    }
}

/// What is wrong with what a set of policies decides.
pub(crate) async fn case_mismatch(set: &PolicySet, policy: &Policy, case: &Case) -> Option<String> {
    let mut asked = case.review();
    // One case is not in the way of the next.
    asked["request"]["dryRun"] = json!(true);
    let text = review::text(asked.to_string().into_bytes()).unwrap();
    // Some cases evaluate files.
    let review = Review::read_check(&text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let decision = set.decide(&review, None, deadline, &()).await.unwrap();
    let found = decision.violations.iter().filter(|found| case.is_rule_counted(&found.rule));
    let found = found.map(|violation| {
        let level = if violation.effect == Effect::Deny { "deny" } else { "warn" };
        let at = violation.field.clone();
        (violation.rule.clone(), level.to_owned(), violation.message.clone(), at)
    });
    let mut found: Vec<_> = found.collect();
    found.sort();
    let rules = policy.all_rules();
    let own = |id: &str| {
        let rule = rules.iter().find(|rule| rule.id == id);
        let denies = rule.is_some_and(|rule| rule.level == Level::Deny);
        if denies { "deny" } else { "warn" }.to_owned()
    };
    // opgate sends a text as one line of at most this many bytes.
    let line = |text: &str| opgate::text::one_line(text, 4_096);
    let expected = case.violations.iter().map(|finding| {
        let level = finding.level.clone().unwrap_or_else(|| own(&finding.rule));
        let at = finding.field.as_deref().map(|at| opgate::text::one_line(at, 1_024));
        (finding.rule.clone(), level, line(&finding.message), at, finding.is_prefix)
    });
    let mut expected: Vec<_> = expected.collect();
    expected.sort();
    let same = found.len() == expected.len()
        && found.iter().zip(&expected).all(|(found, (rule, level, message, at, starts))| {
            let fits = found.2 == *message || (*starts && found.2.starts_with(message));
            let there = at.as_ref().is_none_or(|at| *at == found.3);
            found.0 == *rule && found.1 == *level && fits && there
        });
    let skipped = decision.skipped.iter().map(|s| s.rule.clone());
    let skipped: BTreeSet<_> = skipped.filter(|rule| case.is_rule_counted(rule)).collect();
    let notes = case.audit_annotations.iter().flatten().all(|(key, value)| {
        let key = format!("{}.{key}", policy.name);
        decision.audit_annotations.get(&key).is_some_and(|found| *found == line(value))
    });
    let faults = &decision.policy_errors;
    let is_right = same && notes && faults.is_empty() && skipped == case.skipped;
    (!is_right).then(|| {
        let annotations = &decision.audit_annotations;
        format!(
            "{}: {}\n  expected {expected:#?} {:?}\n  found {found:#?} {skipped:?} {faults:?} {annotations:?}",
            case.rule, case.name, case.skipped
        )
    })
}

/// Cases by configuration, with a cluster or without one.
pub(crate) fn group_by_configuration(
    policy: &Policy,
    with_cluster: bool,
) -> BTreeMap<String, Vec<Case>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let cases = cases_of(policy).into_iter();
    for case in cases.filter(|case| case.cluster.is_some() == with_cluster) {
        all.entry(configuration(policy, &case)).or_default().push(case);
    }
    all
}

fn load(configuration: &str, source: Source) -> PolicySet {
    let configuration =
        Configuration::parse(Path::new("opgate.yaml"), configuration, BUILTINS).unwrap();
    let options =
        ClusterOptions { poll_interval: Duration::from_millis(10), ..ClusterOptions::of(source) };
    PolicySet::load(&configuration, None, 64, options).unwrap()
}

#[tokio::test]
async fn files_give_the_expected_verdicts() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for policy in POLICIES {
        for (configuration, cases) in group_by_configuration(policy, true) {
            let set = load(&configuration, Source::Snapshot);
            for case in cases {
                let mut snapshot = Snapshot::default();
                let objects = objects(&case).into_iter().map(|stored| stored.object);
                for object in objects.chain(version(&case)) {
                    snapshot.add(Document::parse(&object.to_string()).unwrap()).unwrap();
                }
                snapshot.replace_state(set.cluster());
                wrong.extend(case_mismatch(&set, policy, &case).await);
                count += 1;
            }
        }
        for (configuration, cases) in group_by_configuration(policy, false) {
            let set = load(&configuration, Source::Absent);
            for case in cases {
                wrong.extend(case_mismatch(&set, policy, &case).await);
                count += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 1_500, "{count} cases");
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_gives_the_expected_verdicts() {
    let mut wrong = Vec::new();
    for policy in POLICIES {
        let mut all = group_by_configuration(policy, true);
        for cases in all.values_mut() {
            cases.retain(can_be_served);
        }
        let all = all.into_iter().flat_map(|(configuration, cases)| {
            group_by_version(cases).into_iter().map(move |cases| (configuration.clone(), cases))
        });
        for (configuration, (version, cases)) in all {
            let cluster = FakeCluster::start();
            cluster.set_version_response(version);
            for (group, version, plural, kind, scope) in DECLARED_RESOURCES {
                cluster.install(group, version, plural, kind, scope);
            }
            cluster.aggregate(PACKAGES, AGGREGATED_RESOURCE);
            let connection = Connection::kubeconfig(&[cluster.kubeconfig()], None).await.unwrap();
            let mut set = load(&configuration, Source::Live);
            let _watches = connection.watch(set.cluster(), &Supervisor::default());
            set.read_directly(connection, false);
            for kind in set.cluster().caches() {
                let plural = &kind.resource().resource;
                let is_known = |(_, _, known, _, _): &(_, _, &str, _, _)| known == plural;
                let is_known = is_host_kind(kind) || DECLARED_RESOURCES.iter().any(is_known);
                assert!(is_known, "add {plural} to the resources");
                if !is_host_kind(kind) && plural != AGGREGATED_RESOURCE {
                    cluster.wait_watching(plural, 1).await;
                }
            }
            for case in cases {
                let objects = stored(&case);
                for stored in &objects {
                    stored.apply(&cluster, &case);
                }
                wait_up_to_date(&set, &cluster).await;
                wrong.extend(case_mismatch(&set, policy, &case).await);
                remove(&objects, &cluster);
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Cases by the version of the API server, which no other request changes.
fn group_by_version(cases: Vec<Case>) -> Vec<(Value, Vec<Case>)> {
    let mut all: Vec<(Value, Vec<Case>)> = Vec::new();
    for case in cases {
        // If the version is not known, the API server reports that the path does not exist.
        let version = version(&case).unwrap_or(json!(404));
        match all.iter_mut().find(|(known, _)| *known == version) {
            Some((_, cases)) => cases.push(case),
            None => all.push((version, vec![case])),
        }
    }
    all
}

/// Whether the host itself has the only object of it.
fn is_host_kind(kind: &ResourceCache) -> bool {
    kind.resource().group == OPGATE_GROUP
}

/// Waits until the watches have heard everything, and what is polled was listed since.
pub(crate) async fn wait_up_to_date(set: &PolicySet, cluster: &FakeCluster) {
    let version = cluster.last_version();
    // For those of which nothing has changed.
    cluster.send_bookmarks();
    let kinds = set.cluster().caches();
    let before: Vec<_> = kinds.iter().map(|kind| kind.status().lists).collect();
    let has_heard = |(kind, before): (&Arc<ResourceCache>, &u64)| match kind.status() {
        status if is_host_kind(kind) => status.cache_status.is_ready(),
        status if status.polled => status.lists >= before + 2,
        status => status.version.parse::<u64>().is_ok_and(|seen| seen >= version),
    };
    while !kinds.iter().zip(&before).all(has_heard) {
        tokio::task::yield_now().await;
    }
}
