//! A healthy installation, and one broken installation for each finding: exactly that finding is reported.

#![allow(clippy::needless_pass_by_value, reason = "a call reads better with `json!` in it")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use opgate_certs::{CertificateAuthority, CertificateChain, service_names};
use opgate_server::ClusterStatus;
use serde_json::{Value, json};

use crate::checks::{ExpiryDays, run_all};
use crate::facts::expected::{ExpectedObjects, find_configuration};
use crate::facts::object::{Kind, Object};
use crate::facts::tls_probe::TlsProbe;
use crate::facts::{Clock, Facts, Installation};
use crate::finding::{Finding, Findings};
use crate::finding_docs::docs;
use opgate_admission::cluster::{ApiGroup, ClusterOptions, Source};
use opgate_admission::policy::{Configuration, Platform, PolicySet, Profile, Trust};
use opgate_builtin_policies::BUILTINS;
use opgate_controller::audit_reports::ReportApi;
use opgate_manifests::installation::audit::REPORT_VERBS;
use opgate_manifests::read_roles::Permissions;

const NAMESPACE: &str = "opgate-system";
const DAYS: ExpiryDays = ExpiryDays { certificate: 7, ca: 30 };
const DAY: Duration = Duration::from_secs(86_400);

const CONFIGURATION: &str =
    "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n  - name: operator-group\n";

/// Data that is created once: certificates, and the objects that follow from the configuration.
struct Fixture {
    ca: CertificateAuthority,
    certificate: String,
    expected: ExpectedObjects,
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for group in text.as_bytes().chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4_u32 {
            let digit = (bits >> (18 - 6 * index)) & 63;
            let is_there = usize::try_from(index).unwrap() <= group.len();
            encoded.push(if is_there {
                char::from(DIGITS[usize::try_from(digit).unwrap()])
            } else {
                '='
            });
        }
    }
    encoded
}

fn load(configuration: &Configuration) -> PolicySet {
    let set = PolicySet::load(configuration, None, 1, ClusterOptions::of(Source::Absent)).unwrap();
    assert!(set.broken().is_empty());
    set
}

fn load_expected(facts: &Facts) -> ExpectedObjects {
    match find_configuration(facts, BUILTINS) {
        Ok((source, configuration)) => ExpectedObjects::of(facts, &load(&configuration), &source),
        Err(expected) => *expected,
    }
}

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let ca = CertificateAuthority::create(3_650).unwrap();
        let issued = ca.issue(&service_names(NAMESPACE, "opgate"), 90).unwrap();
        let mut facts = empty();
        for object in [deployment(), service(), config_map(CONFIGURATION)] {
            insert_object(&mut facts, object);
        }
        let expected = load_expected(&facts);
        assert_eq!(expected.unknown_reason, None);
        assert_eq!(expected.error, None);
        assert!(!expected.webhooks.is_empty() && !expected.permissions.is_empty());
        Fixture { ca, certificate: issued.certificate, expected }
    })
}

fn empty() -> Facts {
    let text = str::to_owned;
    let installation =
        Installation { namespace: text(NAMESPACE), service: text("opgate"), url: None };
    Facts::new(installation, true)
}

fn insert_object(facts: &mut Facts, object: Value) {
    let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or_default();
    let kind = Kind::of(group, object["kind"].as_str().unwrap()).unwrap();
    facts.insert(Object::of(kind, object).unwrap());
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": "opgate"})
}

fn manifest(api: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": api, "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels(), "uid": name},
    });
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

fn service() -> Value {
    let ports = json!([{"name": "webhook", "port": 443, "targetPort": 9443}]);
    manifest("v1", "Service", "opgate", json!({"spec": {"selector": labels(), "ports": ports}}))
}

fn config_map(text: &str) -> Value {
    manifest("v1", "ConfigMap", "opgate", json!({"data": {"opgate.yaml": text}}))
}

fn deployment() -> Value {
    let container = json!({
        "name": "opgate",
        "args": ["serve", "--config", "/etc/opgate/opgate.yaml", "--tls-dir=/tls", "--client-ca", "/clients/ca.crt"],
        "ports": [{"name": "webhook", "containerPort": 9443}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}},
        "resources": {"limits": {"memory": "512Mi"}},
        "securityContext": {
            "runAsNonRoot": true, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/opgate"},
            {"name": "tls", "mountPath": "/tls"},
        ],
    });
    let spec = json!({
        "serviceAccountName": "opgate",
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": "opgate"}},
            {"name": "tls", "secret": {"secretName": "opgate-tls"}},
        ],
    });
    let template = json!({"metadata": {"labels": labels()}, "spec": spec});
    manifest(
        "apps/v1",
        "Deployment",
        "opgate",
        json!({"spec": {"replicas": 2, "template": template}}),
    )
}

fn pod(name: &str, node: &str) -> Value {
    let mut spec = deployment()["spec"]["template"]["spec"].clone();
    spec["nodeName"] = json!(node);
    let image = "registry.example.com/opgate@sha256:00";
    let status = json!({
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "opgate", "imageID": image}],
    });
    manifest("v1", "Pod", name, json!({"spec": spec, "status": status}))
}

fn slice(namespace: &str, service: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-1"), "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service},
        },
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}],
    })
}

fn lease(pod: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": format!("opgate-replica-{pod}"), "namespace": NAMESPACE,
            "labels": {"opgate.dev/replica": "true"},
            "annotations": {
                "opgate.dev/version": "0.1.0", "opgate.dev/configuration": "sha256:00",
                "opgate.dev/registration": "sha256:00", "opgate.dev/ca": "sha256:00",
            },
        },
    })
}

/// A webhook as the registration has it.
fn registered_webhook(webhook: &Value) -> Value {
    let mut webhook = webhook.clone();
    let url = webhook["clientConfig"]["url"].as_str().unwrap();
    let path = url.trim_start_matches("https://opgate").to_owned();
    webhook["clientConfig"] = json!({
        "caBundle": base64(fixture().ca.certificate()),
        "service": {"namespace": NAMESPACE, "name": "opgate", "path": path, "port": 443},
    });
    webhook
}

fn registration() -> Value {
    let webhooks: Vec<_> = fixture().expected.webhooks.iter().map(registered_webhook).collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": "opgate",
            "labels": {"opgate.dev/installation": NAMESPACE},
            "annotations": {"opgate.dev/owner": "opgate-system/opgate"},
        },
        "webhooks": webhooks,
    })
}

fn secret(certificate: &str) -> Value {
    let data = json!({
        "tls.crt": base64(certificate), "tls.key": "HIDDEN", "ca.crt": base64(fixture().ca.certificate()),
    });
    manifest("v1", "Secret", "opgate-tls", json!({"type": "kubernetes.io/tls", "data": data}))
}

/// Another configuration with one webhook.
fn third_party_configuration(kind: &str, more: Value) -> Value {
    let mut webhook = json!({
        "name": "other.example.com",
        "clientConfig": {"service": {"namespace": "other", "name": "other", "path": "/x"}},
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
        "rules": [{
            "apiGroups": ["operators.coreos.com"], "apiVersions": ["*"],
            "operations": ["CREATE"], "resources": ["operatorgroups"], "scope": "*",
        }],
    });
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": "other"},
        "webhooks": [webhook],
    })
}

fn rules(groups: &[&str], resources: &[&str]) -> Value {
    json!([{"apiGroups": groups, "apiVersions": ["*"], "operations": ["*"], "resources": resources, "scope": "*"}])
}

fn load_for_any_cluster() -> PolicySet {
    let mut configuration =
        Configuration::parse(Path::new("opgate.yaml"), CONFIGURATION, BUILTINS).unwrap();
    configuration.assume_any_cluster();
    load(&configuration)
}

/// The roles of an audit.
fn audit_roles(account: &str) -> Vec<Mutation> {
    let set = load_for_any_cluster();
    let policies: Vec<_> = set.policies().iter().map(AsRef::as_ref).collect();
    let permissions = Permissions::new(NAMESPACE, account, "opgate-audit");
    let mut list = permissions.of_audit(&policies, set.platform_query());
    let rules = list["items"][0]["rules"].as_array_mut().unwrap();
    for api in ReportApi::ALL {
        let resources = [api.resource(false), api.resource(true)];
        rules.push(
            json!({"apiGroups": [api.group()], "resources": resources, "verbs": REPORT_VERBS}),
        );
    }
    list["items"].as_array().unwrap().iter().cloned().map(Add).collect()
}

/// An audit of the leader, with its permissions.
fn leader_audit(flags: &[&str], served: Mutation) -> Vec<Mutation> {
    let arguments = args(&[flags, &["--client-ca=/c"]].concat());
    let mut changes = audit_roles("opgate");
    changes.extend([Set("Deployment/opgate", CONTAINER_ARGS, arguments), served]);
    changes
}

/// An audit of a `CronJob`, with its permissions.
fn job_audit(flags: &[&str]) -> Vec<Mutation> {
    let mut changes = audit_roles("opgate-audit");
    changes.extend([Add(audit_job(flags)), Serve(&[])]);
    changes
}

/// The `CronJob` of an audit.
fn audit_job(flags: &[&str]) -> Value {
    let arguments = [&["audit", "--installation=opgate-system/opgate"], flags].concat();
    let pod = json!({
        "serviceAccountName": "opgate-audit",
        "containers": [{"name": "audit", "args": arguments}],
    });
    let spec = json!({"jobTemplate": {"spec": {"template": {"spec": pod}}}});
    manifest("batch/v1", "CronJob", "audit-of-opgate", json!({"spec": spec}))
}

/// Everything that is right.
fn healthy_installation() -> Vec<Value> {
    let mut objects = vec![
        service(),
        config_map(CONFIGURATION),
        deployment(),
        pod("a", "n1"),
        pod("b", "n2"),
        slice(NAMESPACE, "opgate"),
        lease("a"),
        lease("b"),
        registration(),
        secret(&fixture().certificate),
        manifest("v1", "ServiceAccount", "opgate", json!({})),
        manifest(
            "policy/v1",
            "PodDisruptionBudget",
            "opgate",
            json!({
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels()}},
            }),
        ),
        manifest(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "opgate",
            json!({"spec": {
                "podSelector": {"matchLabels": labels()}, "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": 9443, "protocol": "TCP"}], "from": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}],
            }}),
        ),
    ];
    for name in ["kube-system", NAMESPACE, "openshift-etcd", "other"] {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
    for name in ["n1", "n2"] {
        objects.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
    }
    let set = load_for_any_cluster();
    let policies: Vec<_> = set.policies().iter().map(AsRef::as_ref).collect();
    let roles = Permissions::with_defaults().of(&policies, set.platform_query());
    objects.extend(roles["items"].as_array().unwrap().clone());
    objects
}

/// A change of the healthy installation.
enum Mutation {
    /// At a pointer of the object of that kind and name.
    Set(&'static str, &'static str, Value),
    Remove(&'static str, &'static str),
    Delete(&'static str),
    Add(Value),
    UpdateFacts(fn(&mut Facts)),
    /// API groups that the cluster serves, each with a version.
    Serve(&'static [(&'static str, &'static str)]),
}

use Mutation::{Add, Delete, Remove, Serve, Set, UpdateFacts};

fn facts_of(healthy: &[Value], breaks: Vec<Mutation>) -> Facts {
    let mut objects = healthy.to_vec();
    let find = |objects: &[Value], name: &str| {
        let is_it = |object: &Value| {
            format!(
                "{}/{}",
                object["kind"].as_str().unwrap(),
                object["metadata"]["name"].as_str().unwrap()
            ) == name
        };
        objects.iter().position(is_it).unwrap_or_else(|| panic!("no {name}"))
    };
    let (mut known, mut groups) = (Vec::new(), None);
    for one in breaks {
        match one {
            Set(name, pointer, value) => {
                let index = find(&objects, name);
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                let parent =
                    objects[index].pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
                match parent.as_array_mut() {
                    Some(list) => list[key.parse::<usize>().unwrap()] = value,
                    None => parent[key.replace("~1", "/")] = value,
                }
            }
            Remove(name, pointer) => {
                let index = find(&objects, name);
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                let parent = objects[index].pointer_mut(parent).unwrap();
                match parent.as_array_mut() {
                    Some(list) => drop(list.remove(key.parse().unwrap())),
                    None => drop(parent.as_object_mut().unwrap().remove(key).unwrap()),
                }
            }
            Delete(name) => drop(objects.remove(find(&objects, name))),
            Add(value) => objects.push(value),
            UpdateFacts(change) => known.push(change),
            Serve(served) => groups = Some(served),
        }
    }
    let mut facts = empty();
    facts.version = Some("v1.33.1".to_owned());
    facts.clock = Some(Clock {
        skew: Duration::from_millis(300),
        is_ahead: true,
        uncertainty: Duration::from_secs(1),
    });
    for object in objects {
        insert_object(&mut facts, object);
    }
    facts.expected = fixture().expected.clone();
    facts.api_groups = groups.map(|groups| {
        let group = |(name, version): &(&str, &str)| ApiGroup {
            name: (*name).to_owned(),
            versions: vec![(*version).to_owned()],
        };
        Ok(groups.iter().map(group).collect())
    });
    for change in known {
        change(&mut facts);
    }
    facts
}

fn format_findings(found: &Findings) -> String {
    let line = |finding: &Finding| {
        let Finding { doc, object, field, message, remediation, .. } = finding;
        format!("{doc} {object} {field}: {message}\nfix: {remediation}\n")
    };
    let omitted = found.omitted().iter().map(|(id, count)| format!("{id}: {count} more\n"));
    let unchecked = found.not_checked().iter().map(|(what, why)| format!("{what}: {why}\n"));
    found.all().iter().map(line).chain(omitted).chain(unchecked).collect()
}

/// The flag of an audit of the leader, and the older API of reports.
const AUDIT_INTERVAL: &str = "--audit-interval=1h";
const POLICY_REPORTS: &[(&str, &str)] = &[("wgpolicyk8s.io", "v1alpha2")];

const CONTAINER_ARGS: &str = "/spec/template/spec/containers/0/args";

fn args(more: &[&str]) -> Value {
    let all = ["serve", "--config", "/etc/opgate/opgate.yaml", "--tls-dir", "/tls"];
    json!([&all[..], more].concat())
}

/// A role of the servers with such a rule, in the cluster or in a namespace.
fn bound_role(namespace: Option<&str>, rule: Value) -> Vec<Mutation> {
    let of = if namespace.is_some() { "" } else { "Cluster" };
    let kind = format!("{of}Role");
    let api = "rbac.authorization.k8s.io/v1";
    let mut metadata = json!({"name": "more"});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    vec![
        Add(json!({"apiVersion": api, "kind": kind, "metadata": metadata, "rules": [rule]})),
        Add(json!({
            "apiVersion": api, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"kind": kind, "name": "more"},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "opgate"}],
        })),
    ]
}

fn event_rule() -> Value {
    json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]})
}

/// A time long ago.
const LONG_AGO: &str = "2020-01-01T00:00:00.000000Z";

/// Sets the renewal time of a Lease to this number of seconds ago.
fn set_renewal(facts: &mut Facts, name: &str, seconds: u64) {
    let at = facts.cluster_time() - Duration::from_secs(seconds);
    let at = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(at.try_into().unwrap());
    let mut lease = facts.remove(Kind::Lease, NAMESPACE, name).unwrap();
    lease.value["spec"]["renewTime"] = json!(at);
    facts.insert(lease);
}

/// Sets the state of the cluster cache that a server reports.
/// The annotation with the state of a server.
const STATE: &str = "/metadata/annotations/opgate.dev~1state";

fn reported_cache_state(state: &str) -> Vec<Mutation> {
    vec![Set("Lease/opgate-replica-b", STATE, json!(state))]
}

fn cases() -> Vec<(&'static str, Vec<Mutation>)> {
    const VWC: &str = "ValidatingWebhookConfiguration/opgate";
    const MUTATING: &str = "MutatingWebhookConfiguration";
    let deployment = "Deployment/opgate";
    let first_rules = "/webhooks/0/rules";
    let unknown_expectation =
        || UpdateFacts(|facts| facts.expected.unknown_reason = Some("not asked here".to_owned()));
    let exempting = |rules: Value| vec![Set(VWC, first_rules, rules), unknown_expectation()];
    let verbs = ["list", "watch"];
    let certificate = |names: &[String], days| fixture().ca.issue(names, days).unwrap().certificate;
    let pods_of_all = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "openshift-etcd", "olm"]}]});
    let container = |rest: &str| -> &'static str {
        Box::leak(format!("/spec/template/spec/containers/0/{rest}").into_boxed_str())
    };
    vec![
        ("DOC-01", vec![Delete(VWC)]),
        ("DOC-01", vec![Set(VWC, "/webhooks", json!([]))]),
        (
            "DOC-02",
            vec![
                Remove(VWC, "/metadata/labels"),
                Set(deployment, CONTAINER_ARGS, args(&["--manage-webhooks", "--client-ca=/c"])),
            ],
        ),
        (
            "DOC-02",
            vec![
                Set(VWC, "/metadata/annotations/opgate.dev~1owner", json!("other/opgate")),
                Set(
                    deployment,
                    CONTAINER_ARGS,
                    args(&["--certificates=self-managed", "--client-ca=/c"]),
                ),
            ],
        ),
        ("DOC-03", vec![Set(VWC, "/webhooks/0/failurePolicy", json!("Ignore"))]),
        ("DOC-03", vec![Set(VWC, "/webhooks/0/rules/0/operations", json!(["CREATE"]))]),
        ("DOC-03", vec![Set(VWC, "/webhooks/0/name", json!("x.example.com"))]),
        (
            "DOC-04",
            vec![
                Set(VWC, "/webhooks/0/clientConfig/service/path", json!("/validate/gone")),
                UpdateFacts(|facts| {
                    facts.expected.webhooks[0]["clientConfig"]["url"] =
                        json!("https://opgate/validate/gone");
                }),
            ],
        ),
        (
            "DOC-05",
            vec![Add({
                let mut again = registration();
                again["metadata"] = json!({"name": "again"});
                again["webhooks"] = json!([]);
                again["metadata"]["annotations"] =
                    json!({"opgate.dev/owner": "opgate-system/opgate"});
                again
            })],
        ),
        (
            "DOC-06",
            vec![
                Set(VWC, "/webhooks/0/timeoutSeconds", json!(11)),
                UpdateFacts(|facts| facts.expected.webhooks[0]["timeoutSeconds"] = json!(11)),
            ],
        ),
        (
            "DOC-07",
            vec![
                Set(
                    VWC,
                    "/webhooks/0/matchConditions",
                    json!([{"name": "a", "expression": "true"}]),
                ),
                UpdateFacts(|facts| {
                    facts.expected.webhooks[0]["matchConditions"] =
                        json!([{"name": "a", "expression": "true"}]);
                    facts.version = Some("v1.27.3".to_owned());
                }),
            ],
        ),
        ("DOC-08", vec![Delete("ConfigMap/opgate")]),
        ("DOC-08", vec![Set("ConfigMap/opgate", "/data", json!({"other.yaml": "x"}))]),
        (
            "DOC-09",
            vec![UpdateFacts(|facts| facts.expected.error = Some("opgate.yaml:1:1: x".to_owned()))],
        ),
        ("DOC-10", vec![Delete("Service/opgate")]),
        (
            "DOC-11 DOC-12",
            vec![
                Set("Service/opgate", "/spec/selector", json!({"app": "none"})),
                Set("EndpointSlice/opgate-1", "/endpoints", json!([])),
            ],
        ),
        (
            "DOC-12",
            vec![Set("EndpointSlice/opgate-1", "/endpoints/0/conditions/ready", json!(false))],
        ),
        ("DOC-12", vec![Delete("EndpointSlice/opgate-1")]),
        ("DOC-12", vec![Set("EndpointSlice/opgate-1", "/endpoints", json!(null))]),
        ("DOC-13", vec![Set("Service/opgate", "/spec/ports/0/targetPort", json!(8081))]),
        ("DOC-13", vec![Set("Service/opgate", "/spec/ports/0/targetPort", json!("https"))]),
        ("DOC-13", vec![Set("Service/opgate", "/spec/ports/0/port", json!(8443))]),
        (
            "DOC-13",
            vec![
                Set(deployment, CONTAINER_ARGS, args(&["--listen=0.0.0.0:9444", "--client-ca=/c"])),
                Set("NetworkPolicy/opgate", "/spec/ingress/0/ports", json!([])),
            ],
        ),
        ("DOC-14", vec![Set("NetworkPolicy/opgate", "/spec/ingress/0/ports/0/port", json!(8081))]),
        ("DOC-14", vec![Remove("NetworkPolicy/opgate", "/spec/ingress")]),
        ("DOC-15", vec![Set("Pod/b", "/status/conditions/0/status", json!("False"))]),
        ("DOC-15", vec![Delete("Pod/b")]),
        ("DOC-20", vec![Add(secret(&certificate(&service_names("other", "opgate"), 90)))]),
        (
            "DOC-21",
            vec![Set(
                VWC,
                "/webhooks/0/clientConfig/caBundle",
                json!(base64(CertificateAuthority::create(3_650).unwrap().certificate())),
            )],
        ),
        ("DOC-21", vec![Set(VWC, "/webhooks/0/clientConfig/caBundle", json!(""))]),
        ("DOC-21", vec![Set(VWC, "/webhooks/0/clientConfig/caBundle", json!("AAAA"))]),
        ("DOC-22", vec![UpdateFacts(|facts| facts.now += 91 * DAY)]),
        (
            "DOC-22",
            vec![
                // Only for the CA: the certificate of the server is a different one.
                UpdateFacts(|facts| facts.now += 3_651 * DAY),
            ],
        ),
        ("DOC-23", vec![UpdateFacts(|facts| facts.now += 85 * DAY)]),
        ("DOC-24", vec![UpdateFacts(|facts| facts.now -= 2 * DAY)]),
        ("DOC-25", vec![Delete("Secret/opgate-tls")]),
        ("DOC-25", vec![Set("Secret/opgate-tls", "/data", json!({}))]),
        ("DOC-25", vec![Set("Secret/opgate-tls", "/data/tls.crt", json!("AAAA"))]),
        ("DOC-25", vec![Remove("Secret/opgate-tls", "/data/tls.key")]),
        (
            "DOC-25",
            vec![Set(deployment, container("volumeMounts/1/mountPath"), json!("/elsewhere"))],
        ),
        ("DOC-26", vec![Set("Secret/opgate-tls", "/type", json!("Opaque"))]),
        (
            "DOC-27",
            vec![UpdateFacts(|facts| {
                facts.tls_probe =
                    TlsProbe::Failed("10.0.0.1:443".to_owned(), "what comes is not TLS".to_owned());
            })],
        ),
        (
            "DOC-28",
            vec![UpdateFacts(|facts| {
                let issued = fixture().ca.issue(&service_names(NAMESPACE, "opgate"), 90).unwrap();
                let shown = CertificateChain::from_pem(issued.certificate.as_bytes()).unwrap();
                facts.tls_probe = TlsProbe::Chain("10.0.0.1:443".to_owned(), shown);
            })],
        ),
        (
            "DOC-30",
            vec![
                Set(VWC, first_rules, rules(&[""], &["pods"])),
                Set(VWC, "/webhooks/0/namespaceSelector", pods_of_all),
                unknown_expectation(),
            ],
        ),
        (
            "DOC-30 DOC-31",
            vec![
                Set(VWC, first_rules, rules(&["apps"], &["deployments"])),
                Remove(VWC, "/webhooks/0/namespaceSelector"),
                unknown_expectation(),
            ],
        ),
        ("DOC-31", exempting(rules(&["coordination.k8s.io"], &["leases"]))),
        ("DOC-31", exempting(rules(&[""], &["nodes"]))),
        ("DOC-32", exempting(rules(&["authentication.k8s.io"], &["tokenreviews"]))),
        ("DOC-31 DOC-32 DOC-34", exempting(rules(&["*"], &["*/*"]))),
        (
            "DOC-33",
            vec![
                Set(VWC, first_rules, rules(&["*"], &["*/*"])),
                Set(VWC, "/webhooks/0/failurePolicy", json!("Ignore")),
                unknown_expectation(),
            ],
        ),
        (
            "DOC-35",
            vec![Add(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olm"}}),
            )],
        ),
        ("DOC-34", exempting(rules(&[""], &["namespaces"]))),
        ("DOC-40", vec![Set(deployment, "/spec/replicas", json!(1)), Delete("Pod/b")]),
        ("DOC-41", vec![Delete("PodDisruptionBudget/opgate")]),
        (
            "DOC-41",
            vec![Set(
                "PodDisruptionBudget/opgate",
                "/spec/selector/matchLabels",
                json!({"app": "x"}),
            )],
        ),
        ("DOC-41", vec![Set("PodDisruptionBudget/opgate", "/spec/maxUnavailable", json!("100%"))]),
        ("DOC-42", vec![Set("PodDisruptionBudget/opgate", "/spec/maxUnavailable", json!(0))]),
        ("DOC-42", vec![Set("PodDisruptionBudget/opgate", "/spec/minAvailable", json!("51%"))]),
        ("DOC-43", vec![Set("Pod/b", "/spec/nodeName", json!("n1"))]),
        (
            "DOC-44",
            vec![Set(deployment, "/spec/template/spec/terminationGracePeriodSeconds", json!(25))],
        ),
        (
            "DOC-44",
            vec![Set(
                deployment,
                CONTAINER_ARGS,
                args(&["--grace-period", "60s", "--client-ca=/c"]),
            )],
        ),
        (
            "DOC-44",
            vec![Set(deployment, CONTAINER_ARGS, args(&["--record", "/r", "--client-ca=/c"]))],
        ),
        (
            "DOC-44",
            vec![Set(
                deployment,
                container("env"),
                json!([{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}]),
            )],
        ),
        ("DOC-45", vec![Remove(deployment, container("readinessProbe"))]),
        (
            "DOC-45",
            vec![Set(deployment, container("readinessProbe/httpGet/path"), json!("/livez"))],
        ),
        ("DOC-46", vec![Set(deployment, "/spec/strategy", json!({"type": "Recreate"}))]),
        (
            "DOC-46",
            vec![Set(
                deployment,
                "/spec/strategy",
                json!({"rollingUpdate": {"maxUnavailable": "100%"}}),
            )],
        ),
        ("DOC-47", vec![Remove(deployment, container("resources/limits"))]),
        ("DOC-48", vec![Set(deployment, container("resources/limits/cpu"), json!("1"))]),
        ("DOC-49", vec![Remove(deployment, container("securityContext"))]),
        (
            "DOC-50",
            vec![Set(deployment, CONTAINER_ARGS, args(&[])), Delete("NetworkPolicy/opgate")],
        ),
        ("DOC-51", vec![Set(deployment, CONTAINER_ARGS, args(&[]))]),
        ("DOC-52", vec![Delete("NetworkPolicy/opgate")]),
        ("DOC-53", vec![Delete("ServiceAccount/opgate")]),
        (
            "DOC-54",
            vec![Set(deployment, "/spec/template/spec/automountServiceAccountToken", json!(false))],
        ),
        (
            "DOC-54",
            vec![Set("ServiceAccount/opgate", "/automountServiceAccountToken", json!(false))],
        ),
        ("DOC-60", vec![Remove("ClusterRole/opgate", "/rules/0")]),
        ("DOC-60", vec![Delete("ClusterRoleBinding/opgate")]),
        ("DOC-60", vec![Set("ClusterRole/opgate", "/rules/0/verbs", json!(["list"]))]),
        (
            "DOC-61",
            bound_role(
                None,
                json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}),
            ),
        ),
        (
            "DOC-61",
            bound_role(None, json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})),
        ),
        (
            "DOC-61",
            bound_role(
                Some("other"),
                json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["update"]}),
            ),
        ),
        (
            "DOC-62",
            bound_role(None, json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs})),
        ),
        (
            "DOC-63",
            bound_role(
                None,
                json!({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": verbs}),
            ),
        ),
        (
            "DOC-66",
            vec![UpdateFacts(|facts| set_platform(facts, Profile::Upstream, None, "my-olm"))],
        ),
        (
            "DOC-66 DOC-67",
            vec![UpdateFacts(|facts| set_platform(facts, Profile::Ocp412, None, "olm"))],
        ),
        (
            "DOC-67",
            vec![UpdateFacts(|facts| {
                set_platform(
                    facts,
                    Profile::Upstream,
                    Some("4.16.3"),
                    "operator-lifecycle-manager",
                );
            })],
        ),
        ("", vec![UpdateFacts(|facts| set_platform(facts, Profile::Upstream, None, "olm"))]),
        // Events for denials: with and without the flag.
        ("DOC-61", bound_role(None, event_rule())),
        (
            "",
            [
                bound_role(None, event_rule()),
                vec![Set(deployment, CONTAINER_ARGS, args(&["--events", "--client-ca=/c"]))],
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        // Audits: of the leader, and of a CronJob. Roles that remain from one are too wide.
        ("DOC-61", audit_roles("opgate")),
        ("DOC-68", leader_audit(&[AUDIT_INTERVAL], Serve(&[]))),
        ("DOC-68", leader_audit(&[AUDIT_INTERVAL], Serve(&[("openreports.io", "v1")]))),
        (
            "DOC-68",
            leader_audit(
                &[AUDIT_INTERVAL, "--audit-reports", "openreports"],
                Serve(POLICY_REPORTS),
            ),
        ),
        ("DOC-68", job_audit(&[])),
        (
            "DOC-69",
            vec![
                Set(deployment, CONTAINER_ARGS, args(&[AUDIT_INTERVAL, "--client-ca=/c"])),
                Serve(POLICY_REPORTS),
            ],
        ),
        ("DOC-69", vec![Add(audit_job(&["--no-reports"]))]),
        ("", leader_audit(&[AUDIT_INTERVAL], Serve(POLICY_REPORTS))),
        ("", leader_audit(&[AUDIT_INTERVAL, "--audit-reports=none"], Serve(&[]))),
        ("", job_audit(&["--no-reports"])),
        (
            "",
            vec![Add({
                let mut suspended = audit_job(&[]);
                suspended["spec"]["suspend"] = json!(true);
                suspended
            })],
        ),
        ("", vec![Serve(&[])]),
        (
            "DOC-70",
            vec![Set(
                "Lease/opgate-replica-b",
                "/metadata/annotations/opgate.dev~1version",
                json!("0.2.0"),
            )],
        ),
        ("DOC-70", vec![Set("Pod/b", "/status/containerStatuses/0/imageID", json!("x@sha256:11"))]),
        (
            "DOC-71",
            vec![Set(
                "Lease/opgate-replica-b",
                "/metadata/annotations/opgate.dev~1configuration",
                json!("sha256:11"),
            )],
        ),
        (
            "DOC-72",
            vec![Set(
                "Lease/opgate-replica-b",
                "/metadata/annotations/opgate.dev~1ca",
                json!("sha256:11"),
            )],
        ),
        ("DOC-73", vec![Set("Lease/opgate-replica-b", "/spec", json!({"renewTime": LONG_AGO}))]),
        (
            "DOC-73",
            vec![
                Set("Lease/opgate-replica-b", "/spec", json!({"leaseDurationSeconds": 30})),
                UpdateFacts(|facts| set_renewal(facts, "opgate-replica-b", 75)),
            ],
        ),
        (
            "DOC-73",
            vec![
                Delete("Lease/opgate-replica-b"),
                Set(deployment, CONTAINER_ARGS, args(&["--client-ca=/c", "--installation", "a/b"])),
                Set("Pod/b", "/status/conditions/0/lastTransitionTime", json!(LONG_AGO)),
                UpdateFacts(|facts| {
                    drop(facts.cache_states.insert("b".to_owned(), Ok(ClusterStatus::default())));
                }),
            ],
        ),
        (
            "DOC-73",
            vec![Add(manifest(
                "coordination.k8s.io/v1",
                "Lease",
                "opgate-leader",
                json!({"spec": {"renewTime": LONG_AGO}}),
            ))],
        ),
        (
            "DOC-73 DOC-74",
            vec![
                Set("Lease/opgate-replica-b", "/spec", json!({"renewTime": LONG_AGO})),
                UpdateFacts(|facts| {
                    let said = r#"{"resources": [{"resource": "v1/namespaces", "state": "stale", "unauthorized": true}]}"#;
                    facts
                        .cache_states
                        .insert("b".to_owned(), Ok(serde_json::from_str(said).unwrap()));
                }),
            ],
        ),
        (
            "DOC-74",
            reported_cache_state(
                r#"{"resources": [{"resource": "v1/pods", "state": "interrupted", "unauthorized": true, "error": "401"}]}"#,
            ),
        ),
        (
            "DOC-75",
            reported_cache_state(
                r#"{"resources": [{"resource": "v1/pods", "state": "unseen", "error": "forbidden: x"}]}"#,
            ),
        ),
        (
            "DOC-75",
            reported_cache_state(
                r#"{"resources": [{"resource": "v1/pods", "state": "stale"}, {"resource": "v1/nodes", "state": "current"}]}"#,
            ),
        ),
        (
            "DOC-75",
            reported_cache_state(r#"{"resources": [{"resource": "v1/pods", "state": "listing"}]}"#),
        ),
        (
            "DOC-76",
            reported_cache_state(
                r#"{"resources": [{"resource": "v1/pods", "state": "interrupted"}]}"#,
            ),
        ),
        (
            "DOC-77",
            reported_cache_state(
                r#"{"reservations": [{"resource": "v1/pods", "tenant": "team-a, x", "percent": 80}]}"#,
            ),
        ),
        ("DOC-78", reported_cache_state(r#"{"ledgerProblem": "it does not exist"}"#)),
        (
            "DOC-79",
            vec![
                Set("Lease/opgate-replica-a", STATE, json!(r#"{"localReservations": true}"#)),
                Set("Lease/opgate-replica-b", STATE, json!(r#"{"localReservations": true}"#)),
            ],
        ),
        // One of two servers, during an update.
        ("", reported_cache_state(r#"{"localReservations": true}"#)),
        // The Lease of a server that was just renewed, of one that starts, and of resources that need not be there.
        ("", vec![UpdateFacts(|facts| set_renewal(facts, "opgate-replica-b", 20))]),
        (
            "",
            vec![
                UpdateFacts(|facts| facts.dump_time = Some(facts.now)),
                UpdateFacts(|facts| set_renewal(facts, "opgate-replica-b", 50)),
            ],
        ),
        (
            "",
            vec![
                Set("Lease/opgate-replica-b", "/spec", json!({"renewTime": LONG_AGO})),
                // A dump of that time.
                UpdateFacts(|facts| {
                    facts.clock = None;
                    facts.dump_time = super::facts::lease::parse_time(&json!(LONG_AGO));
                }),
            ],
        ),
        (
            "",
            vec![
                Set("Lease/opgate-replica-b", "/spec", json!({"renewTime": LONG_AGO})),
                Set(
                    "Pod/b",
                    "/status/containerStatuses/0/state",
                    json!({"waiting": {"reason": "CrashLoopBackOff"}}),
                ),
            ],
        ),
        (
            "",
            reported_cache_state(
                r#"{"resources": [{"resource": "v1/pods", "state": "leftOut"}, {"resource": "v1/nodes", "state": "notInstalled"}], "reservations": [{"percent": 79}]}"#,
            ),
        ),
        (
            "DOC-80",
            vec![Add(third_party_configuration(MUTATING, json!({"failurePolicy": "Fail"})))],
        ),
        (
            "DOC-80",
            vec![
                Add(third_party_configuration(
                    "ValidatingWebhookConfiguration",
                    json!({"failurePolicy": "Fail"}),
                )),
                Add(
                    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other", "namespace": "other"}}),
                ),
            ],
        ),
        ("DOC-81", vec![Add(third_party_configuration(MUTATING, json!({"timeoutSeconds": 30})))]),
        (
            "DOC-82",
            vec![Add(third_party_configuration(
                MUTATING,
                json!({"failurePolicy": "Fail", "rules": rules(&[""], &["pods"])}),
            ))],
        ),
        (
            "DOC-83",
            vec![Add(third_party_configuration(
                MUTATING,
                json!({"rules": rules(&[""], &["pods"])}),
            ))],
        ),
        (
            "DOC-90",
            vec![UpdateFacts(|facts| {
                facts.clock = Some(Clock {
                    skew: Duration::from_secs(90),
                    is_ahead: false,
                    uncertainty: Duration::from_secs(2),
                });
            })],
        ),
        (
            "DOC-91",
            vec![UpdateFacts(|facts| {
                facts.failed_reads.push(("secrets".to_owned(), "forbidden: x".to_owned()));
                facts.set_unread(Kind::Secret, "forbidden: x".to_owned());
            })],
        ),
        // Other valid installations.
        ("", vec![]),
        (
            "",
            bound_role(
                Some(NAMESPACE),
                json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]}),
            ),
        ),
        (
            "",
            bound_role(
                None,
                json!({"apiGroups": ["admissionregistration.k8s.io"], "resources": ["validatingwebhookconfigurations"], "verbs": ["get", "list", "watch", "patch"]}),
            ),
        ),
        ("", vec![Set("Service/opgate", "/spec/ports/0/targetPort", json!("webhook"))]),
        (
            "",
            vec![
                Add(third_party_configuration(MUTATING, json!({"failurePolicy": "Fail"}))),
                Add(
                    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other", "namespace": "other"}}),
                ),
                Add(slice("other", "other")),
            ],
        ),
        (
            "",
            vec![Add(third_party_configuration(
                MUTATING,
                json!({
                    "failurePolicy": "Fail", "rules": rules(&[""], &["pods"]),
                    "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["other"]}]},
                }),
            ))],
        ),
        // Pods that are on their way out, or were evicted.
        (
            "",
            vec![
                Add({
                    let mut leaving = pod("c", "n1");
                    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    leaving["status"]["containerStatuses"][0]["imageID"] = json!("x@sha256:11");
                    leaving
                }),
                Add({
                    let mut evicted = pod("d", "n1");
                    evicted["status"] = json!({"phase": "Failed"});
                    evicted
                }),
            ],
        ),
        // A server that is gone, whose Lease is left.
        (
            "",
            vec![Add({
                let mut gone = lease("gone");
                gone["metadata"]["annotations"]["opgate.dev/version"] = json!("0.0.1");
                gone
            })],
        ),
    ]
}

/// Servers with a profile, a version of OpenShift or none, and the namespace of OLM.
fn set_platform(facts: &mut Facts, profile: Profile, version: Option<&str>, olm: &str) {
    let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    let text = format!("{head}profile: {}\n", profile.as_str());
    let configuration = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS);
    facts.expected.trust = Some(Trust::of(&configuration.unwrap()));
    facts.platform = Some(Ok(Platform {
        profile: if version.is_some() { Profile::Ocp415 } else { Profile::Upstream },
        version: version.map(str::to_owned),
        olm: Vec::new(),
        rukpak: Vec::new(),
    }));
    facts.olm_accounts.insert(format!("system:serviceaccount:{olm}:olm-operator-serviceaccount"));
}

#[test]
fn each_breakage_yields_exactly_its_findings() {
    let healthy = healthy_installation();
    let (mut tried, mut wrong) = (BTreeSet::new(), Vec::new());
    for (index, (ids, breaks)) in cases().into_iter().enumerate() {
        let wanted: BTreeSet<_> = ids.split_whitespace().collect();
        let found = run_all(&facts_of(&healthy, breaks), DAYS);
        let is: BTreeSet<_> = found.all().iter().map(|finding| finding.doc).collect();
        let text = format_findings(&found);
        if is != wanted {
            wrong.push(format!("case {index}, {ids:?}: {text}"));
        }
        tried.extend(wanted);
        for finding in found.all() {
            assert!(!finding.message.is_empty() && !finding.remediation.is_empty(), "{finding:?}");
        }
        assert!(!text.contains("HIDDEN"), "{text}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all: BTreeSet<_> = docs().map(|(_, doc)| doc.id).collect();
    assert_eq!(tried, all);
}

#[test]
fn findings_are_ordered_most_severe_first() {
    let breaks = vec![
        Set("Deployment/opgate", CONTAINER_ARGS, args(&[])),
        Delete("PodDisruptionBudget/opgate"),
        Delete("Secret/opgate-tls"),
    ];
    let found = run_all(&facts_of(&healthy_installation(), breaks), DAYS);
    let ids: Vec<_> = found.all().iter().map(|finding| finding.doc).collect();
    assert_eq!(ids, ["DOC-25", "DOC-41", "DOC-51"]);
}

#[test]
fn unknown_facts_are_reported_as_not_checked() {
    let healthy = healthy_installation();
    let whole = run_all(&facts_of(&healthy, vec![]), DAYS);
    let told: Vec<_> = whole.not_checked().iter().collect();
    assert!(told.is_empty(), "{told:?}");
    for kind in Kind::ALL {
        let mut facts = facts_of(&healthy, vec![]);
        let objects: Vec<_> =
            facts.all(kind).map(|one| (one.namespace.clone(), one.name.clone())).collect();
        for (namespace, name) in objects {
            facts.remove(kind, &namespace, &name);
        }
        facts.set_unread(kind, "forbidden".to_owned());
        facts.failed_reads.push((kind.resource(), "forbidden".to_owned()));
        let found = run_all(&facts, DAYS);
        assert!(!found.not_checked().is_empty(), "{kind}");
        // Unreadable objects are not reported as missing.
        let is: BTreeSet<_> = found.all().iter().map(|finding| finding.doc).collect();
        assert_eq!(is, BTreeSet::from(["DOC-91"]), "{kind}: {}", format_findings(&found));
    }
}

#[test]
fn output_for_a_hostile_cluster_is_bounded() {
    let long = "é\n\u{202e}".repeat(100_000);
    let mut many = Vec::new();
    for index in 0..2_000 {
        let mut one = third_party_configuration(
            "MutatingWebhookConfiguration",
            json!({
                "name": long.get(..20_000).unwrap(), "failurePolicy": "Fail", "timeoutSeconds": 30,
            }),
        );
        one["metadata"]["name"] = json!(format!("other-{index}; rm -rf"));
        many.push(Add(one));
    }
    many.push(Set("Service/opgate", "/spec/ports/0/targetPort", json!(long)));
    let facts = facts_of(&healthy_installation(), many);
    let found = run_all(&facts, DAYS);
    let text = format_findings(&found);
    assert!(text.len() < 200_000, "{}", text.len());
    assert!(!text.contains('\u{202e}'));
    assert!(text.lines().all(|line| line.len() < 4_096));
    assert!(text.contains("DOC-80: 1968 more"), "{text}");
}

#[test]
fn a_configuration_of_a_cluster_opens_no_files() {
    // Reading the first would never end, and the second has no listener.
    for module in ["/dev/zero", "oci://127.0.0.1:1/x:y"] {
        let mut facts = empty();
        let text = format!("{CONFIGURATION}  - name: foreign\n    module: {module}\n");
        for object in [deployment(), service(), config_map(&text)] {
            insert_object(&mut facts, object);
        }
        let expected = load_expected(&facts);
        let why = expected.unknown_reason.unwrap();
        assert!(why.starts_with("foreign of it are from files or registries"), "{why}");
        assert!(expected.webhooks.is_empty());
    }
}
