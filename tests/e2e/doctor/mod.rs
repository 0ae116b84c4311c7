//! `opgate doctor` for files, for a cluster, and for a server. The tests in
//! `host/doctor/src/tests.rs`, next to the checks, cover what each finding needs.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{Server, wait_until};

use crate::BINARY;

const NAMESPACE: &str = "opgate-system";

/// One policy is enough: what is compared is compared for all.
const CONFIGURATION: &str =
    "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n  - name: operator-group\n";

/// Runs `opgate`, with a text on standard input.
fn opgate(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(BINARY)
        .args(["--log", "error"])
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", directory)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that ends at once reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("opgate.yaml"), CONFIGURATION).unwrap();
    directory
}

/// What `opgate manifests all` prints, as its objects.
fn manifests(directory: &TempDir) -> Vec<Value> {
    printed_manifests(directory, &["all", "--api-server", "10.0.0.1/32"])
}

fn printed_manifests(directory: &TempDir, arguments: &[&str]) -> Vec<Value> {
    let common = ["--config", "opgate.yaml", "--output", "json"];
    let arguments = [&["manifests"], arguments, &common].concat();
    let printed = opgate(directory.path(), &arguments, "");
    assert_eq!(printed.status.code(), Some(0), "{}", err(&printed));
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    printed["items"].as_array().unwrap().clone()
}

fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

fn object_mut<'o>(objects: &'o mut [Value], kind: &str, name: &str) -> &'o mut Value {
    let mut all = objects.iter_mut();
    all.find(|object| object["kind"] == kind && object["metadata"]["name"] == name).unwrap()
}

/// The exit status, the ids that are found, and the report.
fn examine(directory: &TempDir, arguments: &[&str], input: &str) -> (i32, BTreeSet<String>, Value) {
    let arguments = [&["doctor", "--output", "json"], arguments].concat();
    let output = opgate(directory.path(), &arguments, input);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", out(&output), err(&output)));
    let findings = report["findings"].as_array().unwrap();
    let ids = findings.iter().map(|finding| finding["id"].as_str().unwrap().to_owned()).collect();
    (output.status.code().unwrap(), ids, report)
}

fn expected_ids(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn generated_manifests_are_healthy() {
    let directory = directory();
    let text = list(&manifests(&directory));
    let (status, found, report) = examine(&directory, &["-"], &text);
    assert_eq!((status, found), (0, expected_ids(&["DOC-51"])), "{report:#}");
    assert_eq!(report["installation"], "opgate-system/opgate");
    assert_eq!(report["summary"], json!({"critical": 0, "warning": 0, "note": 1}));
    // What files do not have is said.
    assert!(!report["unchecked"].as_array().unwrap().is_empty());
    let finding = &report["findings"][0];
    assert_eq!(finding["page"], "docs/doctor/servers.md#doc-51");
    for (arguments, expected) in [
        (&["-", "--fail-on", "note"][..], 1),
        (&["-", "--fail-on", "note", "--skip", "doc-51"], 0),
        (&["-", "--fail-on", "critical"], 0),
    ] {
        assert_eq!(examine(&directory, arguments, &text).0, expected, "{arguments:?}");
    }
}

#[test]
fn broken_manifests_yield_findings_by_severity() {
    let directory = directory();
    let mut objects = manifests(&directory);
    object_mut(&mut objects, "Deployment", "opgate")["spec"]["replicas"] = json!(0);
    object_mut(&mut objects, "Deployment", "opgate")["spec"]["template"]["spec"]["containers"][0]
        ["resources"]["limits"] = json!({"cpu": "1"});
    object_mut(&mut objects, "Service", "opgate")["spec"]["ports"][0]["targetPort"] = json!(8081);
    object_mut(&mut objects, "ConfigMap", "opgate")["data"]["opgate.yaml"] = json!("policies: 1");
    std::fs::write(directory.path().join("all.json"), list(&objects)).unwrap();
    let output = opgate(directory.path(), &["doctor", "all.json"], "");
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let text = out(&output);
    let lines: Vec<_> = text.lines().filter(|line| line.contains(" DOC-")).collect();
    let told: Vec<_> = lines.iter().map(|line| line.get(..15).unwrap()).collect();
    let expected = [
        "critical DOC-09",
        "critical DOC-13",
        "warning  DOC-47",
        "warning  DOC-48",
        "note     DOC-51",
    ];
    assert_eq!(told, expected, "{text}");
    assert!(text.contains("         fix: set targetPort to 9443"), "{text}");
    assert!(text.contains("unchecked: "), "{text}");
    assert!(text.contains("opgate-system/opgate: 2 critical, 2 warnings, 1 note"), "{text}");
}

#[test]
fn unusable_input_is_an_error() {
    let directory = directory();
    std::fs::write(directory.path().join("broken.yaml"), "a: [").unwrap();
    std::fs::write(
        directory.path().join("empty.yaml"),
        "apiVersion: v1\nkind: Event\nmetadata: {name: a}\n",
    )
    .unwrap();
    let webhook = |name: &str| {
        let service = json!({"namespace": name, "name": "opgate", "path": "/validate"});
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": [{"name": "a.b.c", "clientConfig": {"service": service}}],
        })
    };
    let two = list(&[webhook("one"), webhook("two")]);
    std::fs::write(directory.path().join("two.json"), two).unwrap();
    for (arguments, why) in [
        (&["doctor", "missing.yaml"][..], "missing.yaml"),
        (&["doctor", "broken.yaml"], "broken.yaml"),
        (&["doctor", "empty.yaml"], "no object in it"),
        (
            &["doctor", "two.json"],
            "several installations: name one of them with --installation: one/opgate, two/opgate",
        ),
        (&["doctor", "two.json", "--installation", "three"], "NAMESPACE/SERVICE"),
        (&["doctor", "two.json", "--skip", "DOC-1"], "there is no finding"),
        (&["doctor", "explain", "DOC-1"], "there is no finding"),
        (&["doctor"], "there is no kubeconfig"),
        (&["doctor", "--kubeconfig", "missing"], "kubeconfig missing"),
        (
            &["doctor", "two.json", "--installation", "one/opgate", "--config", "missing.yaml"],
            "missing.yaml",
        ),
    ] {
        let output = opgate(directory.path(), arguments, "");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}{}",
            out(&output),
            err(&output)
        );
        assert!(err(&output).contains(why), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn published_pages_equal_the_output_of_doctor() {
    let directory = directory();
    let made = opgate(directory.path(), &["doctor", "docs", "pages"], "");
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/doctor");
    let names = |directory: &Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let made = directory.path().join("pages");
    assert_eq!(names(&made), names(&published), "run `opgate doctor docs docs/doctor`");
    for name in names(&made) {
        let [made, published] = [&made, &published]
            .map(|directory| std::fs::read_to_string(directory.join(&name)).unwrap());
        assert_eq!(made, published, "run `opgate doctor docs docs/doctor`");
    }
    let explained = opgate(directory.path(), &["doctor", "explain", "doc-13", "DOC-20"], "");
    let text = out(&explained);
    assert!(text.starts_with("## DOC-13") && text.contains("\n## DOC-20"), "{text}");
}

/// Group, resource, kind and scope of everything that the doctor reads.
const READ_RESOURCES: [(&str, &str, &str, Scope); 19] = [
    ("", "namespaces", "Namespace", Scope::Cluster),
    ("", "nodes", "Node", Scope::Cluster),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        Scope::Cluster,
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        Scope::Cluster,
    ),
    ("", "services", "Service", Scope::Namespaced),
    ("discovery.k8s.io", "endpointslices", "EndpointSlice", Scope::Namespaced),
    ("", "pods", "Pod", Scope::Namespaced),
    ("apps", "deployments", "Deployment", Scope::Namespaced),
    ("policy", "poddisruptionbudgets", "PodDisruptionBudget", Scope::Namespaced),
    ("networking.k8s.io", "networkpolicies", "NetworkPolicy", Scope::Namespaced),
    ("", "configmaps", "ConfigMap", Scope::Namespaced),
    ("", "secrets", "Secret", Scope::Namespaced),
    ("batch", "cronjobs", "CronJob", Scope::Namespaced),
    ("", "serviceaccounts", "ServiceAccount", Scope::Namespaced),
    ("coordination.k8s.io", "leases", "Lease", Scope::Namespaced),
    ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", Scope::Cluster),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", Scope::Cluster),
    ("rbac.authorization.k8s.io", "roles", "Role", Scope::Namespaced),
    ("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", Scope::Namespaced),
];

fn cluster(objects: &[Value]) -> FakeCluster {
    let cluster = FakeCluster::start();
    for (group, resource, kind, scope) in READ_RESOURCES {
        cluster.install(group, "v1", resource, kind, scope);
    }
    for object in objects {
        let known = READ_RESOURCES.iter().find(|(_, _, kind, _)| object["kind"] == *kind);
        if let Some((group, resource, ..)) = known {
            cluster.apply(group, "v1", resource, object.clone());
        }
    }
    cluster
}

/// The installation has the Secret, empty, and the servers fill it.
#[test]
fn empty_secret_is_reported() {
    let directory = directory();
    let cluster = cluster(&manifests(&directory));
    let kubeconfig = cluster.kubeconfig();
    let (_, found, report) =
        examine(&directory, &["--kubeconfig", kubeconfig.to_str().unwrap()], "");
    assert!(found.contains("DOC-25"), "{report:#}");
    assert!(report.to_string().contains("the servers have not put a certificate in"), "{report:#}");
}

#[test]
fn doctor_only_reads_the_cluster() {
    let directory = directory();
    let mut objects = manifests(&directory);
    let secret = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {"tls.crt": "SElEREVO", "tls.key": "SElEREVO"},
        })
    };
    // The installation has the Secret, empty; the servers put a certificate in.
    *object_mut(&mut objects, "Secret", "opgate-tls") = secret("opgate-tls");
    objects.push(secret("another"));
    objects.push(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "mesh"},
        "webhooks": [{
            "name": "mesh.example.com", "failurePolicy": "Fail",
            "clientConfig": {"service": {"namespace": "mesh", "name": "mesh"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["pods"]}],
        }],
    }));
    let cluster = cluster(&objects);
    let kubeconfig = cluster.kubeconfig();
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let (status, found, report) = examine(&directory, &arguments, "");
    assert_eq!(status, 1);
    // Nothing runs yet: no webhooks, no endpoints, no certificate that can be used; the mesh is in the way.
    assert_eq!(
        found,
        expected_ids(&["DOC-01", "DOC-12", "DOC-25", "DOC-51", "DOC-82"]),
        "{report:#}"
    );
    assert!(!report.to_string().contains("HIDDEN") && !report.to_string().contains("SElEREVO"));
    let requests = cluster.requests();
    assert!(requests.iter().all(|request| request.starts_with("GET ")), "{requests:?}");
    // Of the Secrets only the one that the servers read.
    let secrets: Vec<_> = requests.iter().filter(|request| request.contains("secrets")).collect();
    assert_eq!(secrets, ["GET /api/v1/namespaces/opgate-system/secrets/opgate-tls"]);

    // What may not be read is a finding, and nothing that needs it is said to be right or wrong.
    cluster.forbid("", "secrets");
    cluster.forbid("rbac.authorization.k8s.io", "clusterroles");
    cluster.forbid("discovery.k8s.io", "endpointslices");
    let (status, found, report) = examine(&directory, &arguments, "");
    assert_eq!(
        (status, found),
        (1, expected_ids(&["DOC-01", "DOC-12", "DOC-51", "DOC-82", "DOC-91"])),
        "{report:#}"
    );
    let unread: BTreeSet<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["id"] == "DOC-91")
        .map(|finding| finding["object"]["name"].as_str().unwrap())
        .collect();
    let expected = [
        "secrets",
        "clusterroles.rbac.authorization.k8s.io",
        "endpointslices.discovery.k8s.io",
        "the Service mesh/mesh of another webhook",
    ];
    assert_eq!(unread, BTreeSet::from(expected));
    let unchecked = report["unchecked"].to_string();
    for what in ["the certificate in the Secret", "permissions", "endpoints of the Service"] {
        assert!(unchecked.contains(what), "{unchecked}");
    }
    assert!(unchecked.contains("forbidden"), "{unchecked}");
}

/// An audit that is configured needs an API for its reports, which a cluster can lack, and permissions.
#[test]
fn audit_without_report_api_or_permissions_is_reported() {
    let directory = directory();
    let of_leader = printed_manifests(&directory, &["all", "--audit-interval", "1h", "--events"]);
    let of_both = [of_leader.clone(), printed_manifests(&directory, &["audit"])].concat();
    for objects in [&of_leader, &of_both] {
        let (_, found, report) = examine(&directory, &["-"], &list(objects));
        for id in ["DOC-61", "DOC-63", "DOC-68", "DOC-69"] {
            assert!(!found.contains(id), "{report:#}");
        }
        let unchecked = report["unchecked"].to_string();
        assert!(unchecked.contains("the API of the audit's reports"), "{report:#}");
    }

    let examined = |cluster: &FakeCluster| {
        let kubeconfig = cluster.kubeconfig();
        let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let report = examine(&directory, &arguments, "").2;
        assert!(!report["unchecked"].to_string().contains("audit"), "{report:#}");
        let findings = report["findings"].as_array().unwrap().iter();
        let of_audit = findings.filter(|one| one["id"] == "DOC-68" || one["id"] == "DOC-69");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let names = of_audit.map(|one| text(&one["id"]) + " " + &text(&one["object"]["kind"]));
        names.collect::<Vec<_>>()
    };
    let cluster = cluster(&of_both);
    assert_eq!(examined(&cluster), ["DOC-68 CronJob", "DOC-68 Deployment"]);
    let (group, version) = ("wgpolicyk8s.io", "v1alpha2");
    cluster.install(group, version, "policyreports", "PolicyReport", Scope::Namespaced);
    assert!(examined(&cluster).is_empty());
    cluster.delete("rbac.authorization.k8s.io", "clusterrolebindings", "", "opgate-audit");
    assert_eq!(examined(&cluster), ["DOC-69 ServiceAccount"]);
    // Without an audit, nothing is said about one.
    let plain = super::doctor::cluster(&manifests(&directory));
    assert!(examined(&plain).is_empty());
}

/// A pod of the servers that runs, and its Lease.
fn running_replica(manifests: &[Value], renewed: &str) -> [Value; 2] {
    let deployment = manifests.iter().find(|one| one["kind"] == "Deployment").unwrap();
    let template = &deployment["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!("opgate-1");
    metadata["namespace"] = json!(NAMESPACE);
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": template["spec"], "status": status,
    });
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "opgate-replica-opgate-1", "namespace": NAMESPACE},
        "spec": {"leaseDurationSeconds": 30, "renewTime": renewed},
    });
    [pod, lease]
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_server_token_is_reported() {
    const EXPECTED_IDS: &str = "DOC-73 DOC-74 DOC-75 DOC-76 DOC-77 DOC-91";
    let readable = testkit::reviews::cluster();
    let server = testkit::reviews::serve(BINARY, &readable, &[]);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    readable.refuse_token("not-checked");
    readable.cut_watches();
    wait_until("the refusal", async || {
        server.get("/policies").await.1.contains("\"unauthorized\":true")
    })
    .await;

    let directory = directory();
    let manifests = manifests(&directory);
    let cluster = cluster(&manifests);
    let kubeconfig = cluster.kubeconfig();
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let renewed = |at: &str| {
        let [pod, lease] = running_replica(&manifests, at);
        cluster.apply("", "v1", "pods", pod);
        cluster.apply("coordination.k8s.io", "v1", "leases", lease);
    };
    let asked = || cluster.requests().iter().filter(|one| one.contains("/proxy/")).count();
    let new = |report: &Value, wanted: &str| -> Vec<String> {
        let findings = report["findings"].as_array().unwrap().iter();
        let mine = findings.filter(|one| wanted.split(' ').any(|id| one["id"] == id));
        mine.map(|one| one["message"].as_str().unwrap().to_owned()).collect()
    };

    // A renewed Lease contains the state of the server, so the doctor does not ask the server.
    renewed("2999-01-01T00:00:00.000000Z");
    let (_, _, report) = examine(&directory, &arguments, "");
    assert_eq!((new(&report, EXPECTED_IDS).len(), asked()), (0, 0), "{report:#}");

    // The Lease is old: the doctor asks the server for the reason.
    renewed("2020-01-01T00:00:00.000000Z");
    cluster.set_pod_proxy("opgate-1:8081", Some(server.ops));
    let (status, _, report) = examine(&directory, &arguments, "");
    assert_eq!((status, asked()), (1, 1), "{report:#}");
    assert_eq!(new(&report, "DOC-73").len(), 1, "{report:#}");
    let refused = new(&report, "DOC-74");
    assert!(refused[0].starts_with("the API server refuses its token (401) for "), "{refused:?}");
    assert!(refused[0].contains("operator-group need"), "{refused:?}");
    assert_eq!(new(&report, "DOC-75 DOC-76 DOC-77 DOC-91").len(), 0, "{report:#}");

    // What cannot be asked is said, and the Lease is still old.
    cluster.set_pod_proxy("opgate-1:8081", None);
    let (_, _, report) = examine(&directory, &arguments, "");
    assert_eq!(
        (new(&report, EXPECTED_IDS).len(), new(&report, "DOC-73").len()),
        (1, 1),
        "{report:#}"
    );
    assert!(report["unchecked"].to_string().contains("error trying to reach"), "{report:#}");
    cluster.forbid("", "pods/proxy");
    let (_, _, report) = examine(&directory, &arguments, "");
    assert_eq!(
        (new(&report, EXPECTED_IDS).len(), new(&report, "DOC-91").len()),
        (2, 1),
        "{report:#}"
    );
}

#[test]
fn unresponsive_api_server_is_an_error() {
    let directory = directory();
    let cluster = cluster(&[]);
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = std::fs::read_to_string(kubeconfig).unwrap();
    drop(cluster);
    std::fs::write(directory.path().join("kubeconfig"), kubeconfig).unwrap();
    let output = opgate(directory.path(), &["doctor", "--kubeconfig", "kubeconfig"], "");
    assert_eq!(output.status.code(), Some(2), "{}", out(&output));
    assert!(err(&output).contains("the cluster: "), "{}", err(&output));
}

/// Runs the doctor on a webhook with a CA, and connects to a server.
fn examine_webhook(
    directory: &TempDir,
    ca: &str,
    namespace: &str,
    connect: &str,
) -> (i32, BTreeSet<String>, Value) {
    let service =
        json!({"namespace": namespace, "name": "opgate", "path": "/validate/operator-group"});
    let webhooks = json!([{
        "name": "a.b.c",
        "clientConfig": {"service": service, "caBundle": base64(ca)},
    }]);
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "opgate"}, "webhooks": webhooks,
    });
    examine(directory, &["-", "--connect", connect], &object.to_string())
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| char::from(DIGITS[usize::try_from(bits & 63).unwrap()]);
    let mut encoded = String::new();
    for group in text.as_bytes().chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digits = [18, 12, 6, 0].map(|shift| digit(bits >> shift));
        encoded.extend(digits.iter().take(group.len() + 1));
        encoded.extend(std::iter::repeat_n('=', 3 - group.len()));
    }
    encoded
}

#[test]
fn handshake_reports_errors_of_api_server_clients() {
    let directory = directory();
    let server = Server::start(BINARY, Some(CONFIGURATION), &[]);
    let ca = server.certificates.authority.certificate().to_owned();
    let (webhook, ops) = (server.address.to_string(), server.ops.to_string());
    // The certificate is for another name; the CA is right.
    let (status, found, report) = examine_webhook(&directory, &ca, "elsewhere", &webhook);
    assert!(status == 1 && found.contains("DOC-20") && !found.contains("DOC-21"), "{report:#}");
    let other = opgate_certs::CertificateAuthority::create(1).unwrap();
    let (_, found, report) = examine_webhook(&directory, other.certificate(), NAMESPACE, &webhook);
    assert!(found.contains("DOC-21"), "{report:#}");
    // The ops port does not use TLS. No process listens on the free port.
    let (_, found, report) = examine_webhook(&directory, &ca, NAMESPACE, &ops);
    assert!(found.contains("DOC-27"), "{report:#}");
    drop(server);
    let (_, found, report) = examine_webhook(&directory, &ca, NAMESPACE, &webhook);
    assert!(!found.contains("DOC-27"), "{report:#}");
    assert!(report["unchecked"].to_string().contains("cannot be reached"), "{report:#}");
}
