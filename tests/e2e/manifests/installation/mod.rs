//! An installation: what `opgate manifests all` prints, and the same as a kustomize base, as a Helm chart and as a
//! bundle of OLM in `deploy/`.
//!
//! ```text
//! manifests all ──────┬─▶ types of Kubernetes, references, flags, metrics
//! deploy/ ─▶ rendered ┴─▶ equal
//! ```

mod helm;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::{Value, json};

use crate::BINARY;

/// Each kind of installation.
const INSTALLATION_VARIANTS: &[&[&str]] = &[
    &[],
    &["--certificates", "cert-manager", "--with", "monitoring"],
    &[
        "--certificates",
        "files",
        "--replicas",
        "1",
        "--priority-class",
        "",
        "--flow-control",
        "none",
    ],
    &["--certificates", "files", "--registration", "manual", "--pull-secret", "registry"],
    &["--installation", "guard/gate", "--label", "team=a", "--api-server", "10.0.0.0/24"],
    &["--api-server", "any", "--with", "monitoring"],
    &["--audit-interval", "1h"],
];

fn opgate(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).env_remove("OPGATE_CONFIG").output().unwrap()
}

fn out(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The objects that are printed.
fn generate_manifests(arguments: &[&str]) -> Vec<Value> {
    let command = ["manifests", "all", "--output", "json"];
    let list: Value = serde_json::from_str(&out(&opgate(&[&command, arguments].concat()))).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("List")));
    list["items"].as_array().unwrap().clone()
}

/// The documents of a text.
fn documents(yaml: &str) -> Vec<Value> {
    let documents = yaml.split("\n---\n").filter(|text| !text.trim().is_empty());
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}")))
        .collect()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `KIND NAMESPACE/NAME`
fn id(object: &Value) -> String {
    let [kind, namespace, name] =
        ["/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| text(object, pointer));
    format!("{kind} {namespace}/{name}")
}

fn find_object<'o>(objects: &'o [Value], wanted: &str) -> &'o Value {
    let found: Vec<_> = objects.iter().filter(|object| id(object) == wanted).collect();
    let [object] = found[..] else { panic!("{} of {wanted}", found.len()) };
    object
}

/// The only object of a kind.
fn find_only<'o>(objects: &'o [Value], kind: &str) -> &'o Value {
    let found: Vec<_> = objects.iter().filter(|object| object["kind"] == kind).collect();
    let [object] = found[..] else { panic!("{} of {kind}", found.len()) };
    object
}

fn deployment(objects: &[Value]) -> &Value {
    find_only(objects, "Deployment")
}

fn container(objects: &[Value]) -> &Value {
    &deployment(objects)["spec"]["template"]["spec"]["containers"][0]
}

/// All texts at a member of that name, wherever it is.
fn texts_at<'v>(value: &'v Value, name: &str, found: &mut Vec<&'v str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| texts_at(item, name, found)),
        Value::Object(members) => {
            for (key, member) in members {
                if key == name {
                    found.extend(member.as_str());
                }
                texts_at(member, name, found);
            }
        }
        _ => {}
    }
}

/// What Kubernetes knows of an object: members that it does not know are gone.
fn parse_as_kubernetes(object: &Value) -> Option<Value> {
    macro_rules! of_kind {
        ($($kind:ident),*) => {
            match text(object, "/kind") {
                $(stringify!($kind) => {
                    let typed: $kind = serde_json::from_value(object.clone()).unwrap();
                    Some(serde_json::to_value(typed).unwrap())
                })*
                _ => None,
            }
        };
    }
    of_kind!(
        ClusterRole,
        ClusterRoleBinding,
        ConfigMap,
        Deployment,
        FlowSchema,
        Namespace,
        NetworkPolicy,
        PodDisruptionBudget,
        PriorityLevelConfiguration,
        ResourceQuota,
        Role,
        RoleBinding,
        Secret,
        Service,
        ServiceAccount,
        ValidatingWebhookConfiguration
    )
}

#[test]
fn every_member_is_known_to_kubernetes() {
    for arguments in INSTALLATION_VARIANTS {
        for object in generate_manifests(arguments) {
            let Some(known) = parse_as_kubernetes(&object) else {
                let others = ["Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"];
                assert!(others.contains(&text(&object, "/kind")), "{object}");
                continue;
            };
            assert_eq!(known, object, "{arguments:?}");
        }
    }
}

#[test]
fn yaml_output_equals_json_output() {
    for arguments in INSTALLATION_VARIANTS {
        let yaml = out(&opgate(&[&["manifests", "all"], *arguments].concat()));
        assert_eq!(documents(&yaml), generate_manifests(arguments));
        assert_eq!(yaml, out(&opgate(&[&["manifests", "all"], *arguments].concat())), "always");
    }
}

/// Every object belongs to the installation, and has its label.
#[test]
fn every_object_is_labelled_and_in_one_namespace() {
    for arguments in INSTALLATION_VARIANTS {
        let objects = generate_manifests(arguments);
        let ids: BTreeSet<_> = objects.iter().map(id).collect();
        assert_eq!(ids.len(), objects.len());
        let namespace = text(find_only(&objects, "Namespace"), "/metadata/name");
        for object in &objects {
            assert_eq!(
                object["metadata"]["labels"]["app.kubernetes.io/name"], "opgate",
                "{object}"
            );
            let cluster_wide = [
                "Namespace",
                "ClusterRole",
                "ClusterRoleBinding",
                "FlowSchema",
                "PriorityLevelConfiguration",
                "ValidatingWebhookConfiguration",
            ];
            let is_wide = cluster_wide.contains(&text(object, "/kind"));
            let expected = if is_wide { "" } else { namespace };
            assert_eq!(text(object, "/metadata/namespace"), expected, "{object}");
        }
        // A namespace comes before what is in it.
        let at = |wanted: &Value| objects.iter().position(|object| object == wanted);
        let first_inside = objects.iter().find(|o| !text(o, "/metadata/namespace").is_empty());
        assert!(at(find_only(&objects, "Namespace")) < first_inside.and_then(at));
    }
}

/// The installation contains each object that another object names. The exceptions are objects that
/// the documentation leaves to other tools and users.
#[test]
fn every_reference_resolves_within_the_installation() {
    for arguments in INSTALLATION_VARIANTS {
        let objects = generate_manifests(arguments);
        let namespace = text(find_only(&objects, "Namespace"), "/metadata/name");
        let ids: BTreeSet<_> = objects.iter().map(id).collect();
        let pod = &deployment(&objects)["spec"]["template"];
        let spec = &pod["spec"];
        let in_namespace = |kind: &str, name: &str| format!("{kind} {namespace}/{name}");
        let is_there = |id: String| assert!(ids.contains(&id), "{arguments:?}: no {id}");
        is_there(in_namespace("ServiceAccount", text(spec, "/serviceAccountName")));

        // Volumes: mounted ones exist, and the other way round; what is in them is there.
        let mut made_by_cert_manager = Vec::new();
        for object in objects.iter().filter(|object| object["kind"] == "Certificate") {
            made_by_cert_manager.push(text(object, "/spec/secretName"));
        }
        let volumes = spec["volumes"].as_array().unwrap();
        let mut mounts = Vec::new();
        texts_at(&container(&objects)["volumeMounts"], "name", &mut mounts);
        let names: BTreeSet<_> = volumes.iter().map(|volume| text(volume, "/name")).collect();
        assert_eq!(names, mounts.into_iter().collect());
        for volume in volumes {
            if volume["configMap"].is_object() {
                is_there(in_namespace("ConfigMap", text(volume, "/configMap/name")));
            }
            if volume["secret"].is_object() {
                let name = text(volume, "/secret/secretName");
                let is_by_hand = arguments.contains(&"files") && name == "opgate-tls";
                assert!(is_by_hand || made_by_cert_manager.contains(&name), "{name}");
            }
        }

        // Roles and accounts of bindings.
        for binding in objects.iter().filter(|o| text(o, "/kind").ends_with("RoleBinding")) {
            let role = &binding["roleRef"];
            let place = text(binding, "/metadata/namespace");
            let place = if role["kind"] == "Role" { place } else { "" };
            is_there(format!("{} {place}/{}", text(role, "/kind"), text(role, "/name")));
            for subject in binding["subjects"].as_array().unwrap() {
                assert_eq!(text(subject, "/namespace"), namespace);
                is_there(in_namespace("ServiceAccount", text(subject, "/name")));
            }
        }
        // Issuers, and the annotation for the injector.
        for certificate in objects.iter().filter(|object| object["kind"] == "Certificate") {
            is_there(in_namespace("Issuer", text(certificate, "/spec/issuerRef/name")));
        }
        for issuer in objects.iter().filter(|object| object["spec"]["ca"].is_object()) {
            assert!(made_by_cert_manager.contains(&text(issuer, "/spec/ca/secretName")));
        }
        if arguments.contains(&"cert-manager") {
            let registration = find_only(&objects, "ValidatingWebhookConfiguration");
            let from = &registration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
            is_there(format!("Certificate {}", from.as_str().unwrap()));
            let serving = find_object(&objects, "Certificate opgate-system/opgate");
            let names = serving["spec"]["dnsNames"].as_array().unwrap();
            assert!(names.contains(&json!("opgate.opgate-system.svc")), "{names:?}");
        }

        // Selectors find the pods, and nothing but them.
        let labels = pod["metadata"]["labels"].as_object().unwrap();
        let selects = |selector: &Value| {
            let selector = selector.as_object().unwrap();
            assert!(!selector.is_empty());
            selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        assert!(selects(&deployment(&objects)["spec"]["selector"]["matchLabels"]));
        let ports = container(&objects)["ports"].as_array().unwrap();
        let is_port = |name: &Value| ports.iter().any(|port| port["name"] == *name);
        for object in &objects {
            match text(object, "/kind") {
                "Service" => {
                    assert!(selects(&object["spec"]["selector"]));
                    for port in object["spec"]["ports"].as_array().unwrap() {
                        assert!(is_port(&port["targetPort"]), "{port}");
                    }
                }
                "PodDisruptionBudget" => {
                    assert!(selects(&object["spec"]["selector"]["matchLabels"]));
                }
                "NetworkPolicy" => {
                    assert!(selects(&object["spec"]["podSelector"]["matchLabels"]));
                    for rule in object["spec"]["ingress"].as_array().unwrap() {
                        let port = &rule["ports"][0]["port"];
                        assert!(ports.iter().any(|p| p["containerPort"] == *port), "{rule}");
                    }
                }
                "ServiceMonitor" => {
                    let selector = object["spec"]["selector"]["matchLabels"].as_object().unwrap();
                    let metrics = find_object(&objects, "Service opgate-system/opgate-metrics");
                    let labels = metrics["metadata"]["labels"].as_object().unwrap();
                    assert!(selector.iter().all(|(key, value)| labels.get(key) == Some(value)));
                    let port = &object["spec"]["endpoints"][0]["port"];
                    assert_eq!(*port, metrics["spec"]["ports"][0]["name"]);
                }
                _ => {}
            }
        }
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            assert!(is_port(&container(&objects)[probe]["httpGet"]["port"]), "{probe}");
        }
    }
}

/// What is applied must not stop writes: there is no webhook before there are servers that are ready.
#[test]
fn applied_manifests_block_no_requests() {
    for arguments in INSTALLATION_VARIANTS {
        let objects = generate_manifests(arguments);
        let mut registrations =
            objects.iter().filter(|object| object["kind"] == "ValidatingWebhookConfiguration");
        if arguments.contains(&"manual") {
            assert_eq!(registrations.next(), None);
            continue;
        }
        let registration = registrations.next().unwrap();
        assert_eq!(registration.get("webhooks"), None);
        // `kubectl delete -f` goes from top to bottom: no webhook is left without servers.
        assert_eq!(registration, &objects[0]);
        let namespace = text(find_only(&objects, "Namespace"), "/metadata/name");
        let account = text(deployment(&objects), "/spec/template/spec/serviceAccountName");
        let metadata = &registration["metadata"];
        assert_eq!(metadata["labels"]["opgate.dev/installation"], namespace);
        assert_eq!(metadata["annotations"]["opgate.dev/owner"], format!("{namespace}/{account}"));
    }
}

/// What `opgate manifests webhook` prints is known as that of the same installation.
#[test]
fn manually_applied_webhooks_have_the_same_owner() {
    let directory = tempfile::tempdir().unwrap();
    let tls = directory.path().join("tls");
    let tls = tls.to_str().unwrap();
    out(&opgate(&["certs", "issue", "--out", tls, "--service", "opgate-system/opgate"]));
    let ca = format!("{tls}/ca.crt");
    let print = |server: [&str; 2]| -> Value {
        let command = ["manifests", "webhook", "--output", "json", "--ca", &ca];
        serde_json::from_str(&out(&opgate(&[&command[..], &server].concat()))).unwrap()
    };
    let printed = print(["--service", "opgate-system/opgate"]);
    assert_eq!(
        printed["metadata"],
        find_only(&generate_manifests(&[]), "ValidatingWebhookConfiguration")["metadata"]
    );
    // No server maintains the registration of a server outside of the cluster.
    let printed = print(["--url", "https://opgate.example.com"]);
    let labels = json!({"app.kubernetes.io/name": "opgate"});
    assert_eq!(printed["metadata"], json!({"name": "opgate", "labels": labels}));
}

/// The servers can be started as the pods start them.
#[test]
fn pod_flags_are_accepted_by_the_server() {
    for arguments in INSTALLATION_VARIANTS {
        let objects = generate_manifests(arguments);
        let mut flags = Vec::new();
        for argument in container(&objects)["args"].as_array().unwrap() {
            flags.push(argument.as_str().unwrap());
        }
        let output = opgate(&[&flags[..], &["--help"]].concat());
        assert!(out(&output).contains("Serve as an admission webhook"), "{flags:?}");
        let file = flags.iter().skip_while(|flag| **flag != "--config").nth(1).unwrap();
        let (directory, name) = file.rsplit_once('/').unwrap();
        let mounts = container(&objects)["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|mount| mount["mountPath"] == directory), "{directory}");
        assert!(find_only(&objects, "ConfigMap")["data"][name].is_string(), "{name}");
    }
}

/// SIGKILL comes after the server has ended by itself, and a pod is not evicted for memory that it was
/// promised.
#[test]
fn pods_have_required_grace_period_and_memory() {
    let help = out(&opgate(&["serve", "--help"]));
    let default = |flag: &str| {
        let of_flag = help.split(&format!("--{flag} ")).nth(1).unwrap();
        let default = of_flag.split("[default: ").nth(1).unwrap().split(']').next().unwrap();
        default.strip_suffix('s').unwrap().parse::<u64>().unwrap()
    };
    for arguments in INSTALLATION_VARIANTS {
        let objects = generate_manifests(arguments);
        let spec = &deployment(&objects)["spec"]["template"]["spec"];
        let end = spec["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(end > default("drain-delay") + default("grace-period"), "{end}");
        let resources = &container(&objects)["resources"];
        assert_eq!(resources["requests"]["memory"], resources["limits"]["memory"]);
        assert_eq!(resources["limits"].get("cpu"), None);
    }
    let budgets = |arguments: &[&str]| {
        generate_manifests(arguments)
            .iter()
            .filter(|object| object["kind"] == "PodDisruptionBudget")
            .count()
    };
    assert_eq!(budgets(&[]), 1);
    // It would keep the only pod on its node for ever.
    assert_eq!(budgets(&["--replicas", "1"]), 0);
}

/// opgate evaluates its own objects: no rule for objects in a namespace denies them or warns.
/// Applying a Secret with data, or with a type, would take away the certificate that the servers have
/// written, or would be refused.
#[test]
fn servers_fill_an_empty_secret_and_create_none() {
    for arguments in INSTALLATION_VARIANTS {
        let objects = generate_manifests(arguments);
        let is_self_managed = !arguments.contains(&"--certificates");
        let secrets: Vec<_> = objects.iter().filter(|object| object["kind"] == "Secret").collect();
        assert_eq!(secrets.len(), usize::from(is_self_managed), "{arguments:?}");
        for secret in secrets {
            assert_eq!(text(secret, "/metadata/name"), "opgate-tls");
            let members: Vec<_> = secret.as_object().unwrap().keys().collect();
            assert_eq!(members, ["apiVersion", "kind", "metadata"]);
        }
        for role in objects.iter().filter(|o| matches!(text(o, "/kind"), "Role" | "ClusterRole")) {
            for rule in role["rules"].as_array().unwrap() {
                let is_for_secrets =
                    rule["resources"].as_array().unwrap().contains(&json!("secrets"));
                let creates = rule["verbs"].as_array().unwrap().contains(&json!("create"));
                assert!(!(is_for_secrets && creates), "{arguments:?}: {rule}");
            }
        }
    }
}

#[test]
fn installation_is_accepted_by_opgate() {
    for arguments in INSTALLATION_VARIANTS {
        let yaml = out(&opgate(&[&["manifests", "all"], *arguments].concat()));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("all.yaml");
        std::fs::write(&file, yaml).unwrap();
        let output = opgate(&["check", "--fail-on", "warn", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Policies read in a namespace that a cluster may not have.
#[test]
fn roles_in_other_namespaces_are_last_or_omitted() {
    let foreign = |arguments: &[&str]| -> Vec<String> {
        let objects = generate_manifests(arguments);
        let foreign =
            |object: &&Value| !["", "opgate-system"].contains(&text(object, "/metadata/namespace"));
        let found: Vec<_> = objects.iter().filter(foreign).map(id).collect();
        let last: Vec<_> = objects.iter().rev().take(found.len()).rev().map(id).collect();
        assert_eq!(found, last);
        found
    };
    // Few clusters have RukPak.
    assert_eq!(foreign(&[]), Vec::<String>::new());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opgate.yaml");
    std::fs::write(&file, testkit::configuration(&[testkit::builtin_policy()])).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let roles = ["Role rukpak-system/opgate", "RoleBinding rukpak-system/opgate"];
    let with = [&config[..], &["--with", "rukpak"]].concat();
    assert_eq!(foreign(&config), [""; 0]);
    assert_eq!(foreign(&with), roles);
    assert_eq!(foreign(&[&with[..], &["--skip-roles-in", "rukpak-system"]].concat()), [""; 0]);
    let output = opgate(&[&["manifests", "all"], &with[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--skip-roles-in rukpak-system"), "{said}");
}

/// The configuration that is given is the one that is mounted, byte by byte, and its roles are printed.
#[test]
fn config_map_has_the_given_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opgate.yaml");
    let config = "# é: \"\t\"  \napiVersion: opgate.dev/v1alpha1\nkind: Configuration\nprofile: upstream\npolicies: []\n\n";
    std::fs::write(&file, config).unwrap();
    let arguments = ["--config", file.to_str().unwrap()];
    let objects = generate_manifests(&arguments);
    assert_eq!(find_only(&objects, "ConfigMap")["data"], json!({"opgate.yaml": config}));
    let yaml = out(&opgate(&[&["manifests", "all"], &arguments[..]].concat()));
    assert_eq!(documents(&yaml), objects);
    // Nothing is read, not even what the cluster is.
    assert!(!objects.iter().any(|object| id(object) == "ClusterRole /opgate"));
}

/// Everybody who alerts on something alerts on a metric that there is.
#[test]
fn alerts_use_documented_metrics() {
    let objects = generate_manifests(&["--with", "monitoring"]);
    let pages = [
        include_str!("../../../../docs/operate/alerts.md"),
        include_str!("../../../../docs/operate/metrics.md"),
        include_str!("../../../../docs/certificates.md"),
    ];
    let mut expressions = Vec::new();
    texts_at(find_only(&objects, "PrometheusRule"), "expr", &mut expressions);
    assert!(expressions.len() > 10);
    for expression in &expressions {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut words = expression.split(|c| !is_word(c));
        let metric = words
            .find(|word| word.starts_with("opgate_") || word.starts_with("apiserver_"))
            .unwrap();
        assert!(pages.iter().any(|page| page.contains(&format!("`{metric}"))), "{metric}");
    }
    // What monitoring needs to get through is let through.
    let ops = |arguments: &[&str]| {
        let objects = generate_manifests(arguments);
        let rules = find_only(&objects, "NetworkPolicy")["spec"]["ingress"].clone();
        rules.as_array().unwrap().iter().any(|rule| rule["ports"][0]["port"] == 8081)
    };
    let api_server = ["--api-server", "10.0.0.1/32"];
    assert!(!ops(&api_server));
    assert!(ops(&[&api_server[..], &["--with", "monitoring"]].concat()));
    assert!(ops(&[&api_server[..], &["--metrics-from", "monitoring"]].concat()));
}

/// A network policy without the API servers would stop writes. One that admits every client protects
/// nothing. The command prints only the network policy that the administrator requests.
#[test]
fn network_policy_admits_only_the_named_clients() {
    let policy = |arguments: &[&str]| {
        let objects = generate_manifests(arguments);
        let policies = objects.iter().filter(|object| object["kind"] == "NetworkPolicy");
        policies.map(|policy| policy["spec"]["ingress"][0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(policy(&[]), [json!(null); 0]);
    assert_eq!(policy(&["--with", "monitoring"]), [json!(null); 0]);
    let ports = json!([{"port": 9443, "protocol": "TCP"}]);
    assert_eq!(policy(&["--api-server", "any"]), [json!({"ports": ports})]);
    let from = json!([{"ipBlock": {"cidr": "10.0.0.1/32"}}]);
    let named = policy(&["--api-server", "10.0.0.1/32"]);
    assert_eq!(named, [json!({"from": from, "ports": ports})]);
    let output = opgate(&["manifests", "all"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no --api-server: no NetworkPolicy is printed"), "{said}");
}

/// The servers require client certificates of the given CA, and of no other CA.
#[test]
fn client_ca_is_mounted_and_used() {
    let directory = tempfile::tempdir().unwrap();
    let clients = directory.path().join("clients");
    let clients = clients.to_str().unwrap();
    out(&opgate(&["certs", "issue", "--out", clients, "--client", "api-server"]));
    let ca = format!("{clients}/ca.crt");
    let arguments = ["--client-ca", &ca, "--client-name", "api-server"];
    let objects = generate_manifests(&arguments);
    let bundle = find_object(&objects, "ConfigMap opgate-system/opgate-clients");
    assert_eq!(bundle["data"]["ca.crt"], std::fs::read_to_string(&ca).unwrap());
    let mut flags = Vec::new();
    for argument in container(&objects)["args"].as_array().unwrap() {
        flags.push(argument.as_str().unwrap());
    }
    let expected = ["--client-ca", "/clients/ca.crt", "--client-name", "api-server"];
    assert!(flags.ends_with(&expected), "{flags:?}");
    out(&opgate(&[&flags[..], &["--help"]].concat()));
    let mounts = container(&objects)["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["mountPath"] == "/clients").unwrap();
    let volumes = &deployment(&objects)["spec"]["template"]["spec"]["volumes"];
    let volume = volumes.as_array().unwrap().iter().find(|v| v["name"] == mount["name"]).unwrap();
    assert_eq!(volume["configMap"]["name"], "opgate-clients");
    assert!(!generate_manifests(&[]).iter().any(|object| id(object).ends_with("opgate-clients")));
}

#[test]
fn wrong_usage_is_rejected_with_a_hint() {
    for (arguments, says) in [
        (&["--image", "a b"][..], "is not an image"),
        (&["--installation", "opgate"], "NAMESPACE/SERVICE"),
        (&["--replicas", "0"], "--replicas"),
        (&["--label", "a=b", "--label", "a=c"], "a key twice"),
        (&["--label", "app.kubernetes.io/name=x"], "by which pods are selected"),
        (&["--api-server", "10.0.0.1"], "for one address 10.0.0.1/32"),
        (&["--api-server", "any", "--api-server", "10.0.0.1/32"], "not both"),
        (&["--metrics-from", "monitoring"], "--api-server"),
        (&["--client-name", "a"], "--client-ca"),
        (&["--client-ca", "Cargo.toml"], "Cargo.toml"),
        (&["--config", "none.yaml"], "none.yaml"),
        (&["--audit-interval", "1 hour"], "is not an interval"),
        (&["--audit-interval", "0s"], "is not an interval"),
    ] {
        let output = opgate(&[&["manifests", "all"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says) && output.stdout.is_empty(), "{said}");
    }
}

/// `deploy/` in the sources.
fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy")
}

/// The files below a directory, and their texts.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            files.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    files
}

/// What `deploy` has besides the installation: for editors, and for pipelines.
const WRITTEN_BY_HAND: [&str; 3] = ["editors/", "github-action/", "gitlab/"];

#[test]
fn checked_in_manifests_equal_the_generated_ones() {
    let directory = tempfile::tempdir().unwrap();
    let written = out(&opgate(&["manifests", "package", directory.path().to_str().unwrap()]));
    let (expected, mut found) = (files(directory.path()), files(&deploy()));
    found.retain(|name, _| !WRITTEN_BY_HAND.iter().any(|directory| name.starts_with(directory)));
    assert_eq!(written.lines().count(), expected.len());
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    let hint = "write it again: cargo run -- manifests package deploy";
    assert_eq!(names(&expected), names(&found), "{hint}");
    for (name, text) in expected {
        assert_eq!(found[&name], text, "{name}: {hint}");
    }
}

/// Objects by their ids, without what is empty: for API servers that is the same.
fn by_id_without_empty(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    fn without_empty(value: Value) -> Value {
        let is_empty = |value: &Value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        match value {
            Value::Array(items) => items.into_iter().map(without_empty).collect(),
            Value::Object(members) => {
                let kept = members.into_iter().map(|(name, value)| (name, without_empty(value)));
                // An empty selector selects everything.
                let kept = kept.filter(|(name, value)| {
                    name == "namespaceSelector" || name == "selfSigned" || !is_empty(value)
                });
                Value::Object(kept.collect())
            }
            // In lists: the core group is "".
            other => other,
        }
    }
    objects.into_iter().map(|object| (id(&object), without_empty(object))).collect()
}

#[test]
fn chart_renders_the_same_objects() {
    let chart = helm::Chart::read(&deploy().join("helm/opgate"));
    for (values, arguments) in [
        (json!({}), &[][..]),
        (json!({"certificates": "cert-manager"}), &["--certificates", "cert-manager"]),
        (json!({"certificates": "files"}), &["--certificates", "files"]),
        (json!({"monitoring": {"enabled": true}}), &["--with", "monitoring"]),
        (json!({"monitoring": {"dashboard": true}}), &["--with", "dashboard"]),
        (
            json!({"monitoring": {"enabled": true, "docsUrl": "https://docs.example.com/opgate"}}),
            &["--with", "monitoring", "--docs-url", "https://docs.example.com/opgate"],
        ),
        (json!({"events": {"enabled": true}}), &["--events"]),
        (
            json!({"events": {"enabled": true}, "certificates": "files"}),
            &["--events", "--certificates", "files"],
        ),
        (
            json!({"replicas": 1, "image": "r.example.com/o@sha256:12"}),
            &["--replicas", "1", "--image", "r.example.com/o@sha256:12"],
        ),
        (
            json!({"replicas": 3, "priorityClassName": ""}),
            &["--replicas", "3", "--priority-class", ""],
        ),
        (
            json!({"labels": {"team": "a", "on": "true"}}),
            &["--label", "team=a", "--label", "on=true"],
        ),
        (json!({"imagePullSecrets": [{"name": "s"}]}), &["--pull-secret", "s"]),
        (json!({"networkPolicy": {"enabled": true, "from": []}}), &["--api-server", "any"]),
        (
            json!({
                "networkPolicy": {"enabled": true, "from": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]},
                "monitoring": {"enabled": true},
            }),
            &["--api-server", "10.0.0.1/32", "--with", "monitoring"],
        ),
        (json!({"replicas": 2, "namespace": "guard"}), &["--installation", "guard/opgate"]),
        (json!({"flowControl": {"enabled": false}}), &["--flow-control", "none"]),
        (
            json!({"flowControl": {
                "enabled": true, "apiVersion": "flowcontrol.apiserver.k8s.io/v1beta3",
            }}),
            &["--flow-control", "v1beta3"],
        ),
    ] {
        let mut values = values;
        let namespace = values.as_object_mut().unwrap().remove("namespace");
        let namespace = namespace.as_ref().and_then(Value::as_str).unwrap_or("opgate-system");
        let rendered = chart.render(namespace, &values);
        // Helm makes the namespace of a release, or takes one that is there.
        let expected = generate_manifests(arguments)
            .into_iter()
            .filter(|object| object["kind"] != "Namespace");
        assert_eq!(by_id_without_empty(rendered), by_id_without_empty(expected), "{values}");
    }
}

#[test]
fn chart_uses_the_version_of_flow_control_that_the_cluster_serves() {
    let chart = helm::Chart::read(&deploy().join("helm/opgate"));
    let versions = ["v1", "v1beta3"].map(|name| format!("flowcontrol.apiserver.k8s.io/{name}"));
    for (served, expected) in [(&versions[..], &versions[0]), (&versions[1..], &versions[1])] {
        let served: Vec<_> = served.iter().map(String::as_str).collect();
        let objects = chart.render_for(&served, "opgate-system", &json!({}));
        for kind in ["FlowSchema", "PriorityLevelConfiguration"] {
            assert_eq!(find_only(&objects, kind)["apiVersion"], **expected, "{served:?}");
        }
    }
}

#[test]
fn values_of_the_chart_take_effect_and_cannot_break_out() {
    let chart = helm::Chart::read(&deploy().join("helm/opgate"));
    let evil = "x\n---\nkind: \"ClusterRole\" # {{ .Values }} '";
    let values = json!({
        "config": evil,
        "nodeSelector": {"disk": evil},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "labels": {"app.kubernetes.io/name": "other", "x": evil},
        "resources": {"limits": {"memory": "1Gi"}},
        "rbac": {"create": false},
        "extraEnv": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": evil}],
    });
    let objects = chart.render("opgate-system", &values);
    let usual = chart.render("opgate-system", &json!({}));
    assert_eq!(find_only(&objects, "ConfigMap")["data"]["opgate.yaml"], evil);
    let pod = &deployment(&objects)["spec"]["template"];
    assert_eq!(pod["spec"]["nodeSelector"], values["nodeSelector"]);
    assert_eq!(pod["spec"]["tolerations"], values["tolerations"]);
    assert_eq!(pod["metadata"]["labels"], json!({"app.kubernetes.io/name": "opgate", "x": evil}));
    assert_eq!(container(&objects)["resources"], values["resources"]);
    let variables = container(&objects)["env"].as_array().unwrap();
    let usual_variables = container(&usual)["env"].as_array().unwrap();
    assert_eq!(variables[..usual_variables.len()], usual_variables[..]);
    assert_eq!(json!(variables[usual_variables.len()..]), values["extraEnv"]);
    let ids = |objects: &[Value]| objects.iter().map(id).collect::<BTreeSet<_>>();
    let gone: Vec<_> = ids(&usual).difference(&ids(&objects)).cloned().collect();
    assert_eq!(gone, ["ClusterRole /opgate", "ClusterRoleBinding /opgate"]);
    assert!(ids(&objects).is_subset(&ids(&usual)));
    // A namespace that YAML would take for a number.
    for object in chart.render("123", &json!({})) {
        let namespace = &object["metadata"]["namespace"];
        assert!(namespace.is_null() || *namespace == json!("123"), "{object}");
    }
}

/// Each value is described, has the default that it has, and nothing else is a value.
#[test]
fn values_of_the_chart_have_a_schema() {
    let chart = helm::Chart::read(&deploy().join("helm/opgate"));
    let schema = std::fs::read_to_string(deploy().join("helm/opgate/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let mut properties = schema["properties"].as_object().unwrap().clone();
    properties.remove("global");
    let described: BTreeSet<_> = properties.keys().collect();
    assert_eq!(described, chart.values.as_object().unwrap().keys().collect());
    for (name, property) in &properties {
        assert_eq!(property["default"], chart.values[name], "{name}");
        assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{name}");
    }
    let mut used = BTreeSet::new();
    for template in chart.templates.values() {
        for rest in template.split(".Values.").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            used.insert(rest[..end].to_owned());
        }
    }
    assert_eq!(used.iter().collect::<BTreeSet<_>>(), described);
}

#[test]
fn kustomize_base_has_the_same_objects() {
    let base = deploy().join("kustomize");
    let read = |path: &str| documents(&std::fs::read_to_string(base.join(path)).unwrap());
    assert_eq!(read("base/installation.yaml"), generate_manifests(&[]));
    let named = |path: &str| read(path)[0]["resources"].clone();
    assert_eq!(named("base/kustomization.yaml"), json!(["installation.yaml"]));
    assert_eq!(named("monitoring/kustomization.yaml"), json!(["../base", "monitoring.yaml"]));
    // The program itself, where there is one.
    for (directory, arguments) in
        [("base", &[][..]), ("monitoring", &["--with", "monitoring", "--with", "dashboard"])]
    {
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("kustomize").arg(base.join(directory)).stderr(Stdio::inherit());
        let Ok(output) = kubectl.output() else {
            eprintln!("skipped: no kubectl");
            return;
        };
        let built = documents(&out(&output));
        assert_eq!(
            by_id_without_empty(built),
            by_id_without_empty(generate_manifests(arguments)),
            "{directory}"
        );
    }
}

/// The bundle and the catalog pass their own checks, and deploy the same pods with the same permissions.
#[test]
fn bundle_deploys_the_same_objects() {
    for directory in ["olm/bundle", "olm/catalog"] {
        let path = deploy().join(directory);
        let output = opgate(&["check", "--fail-on", "warn", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let bundle = deploy().join("olm/bundle/manifests");
    let read = |name: &str| documents(&std::fs::read_to_string(bundle.join(name)).unwrap());
    let csv = read("opgate.clusterserviceversion.yaml").remove(0);
    let objects = generate_manifests(&[]);
    let install = &csv["spec"]["install"]["spec"];
    let rules = |id: &str| find_object(&objects, id)["rules"].as_array().unwrap().clone();
    let everywhere = [rules("ClusterRole /opgate"), rules("ClusterRole /opgate-controller")];
    assert_eq!(install["clusterPermissions"][0]["rules"], json!(everywhere.concat()));
    // OLM would replace a Secret of the bundle with each update: the servers create theirs.
    let create = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]});
    let inside = [rules("Role opgate-system/opgate-controller"), vec![create]].concat();
    assert_eq!(install["permissions"][0]["rules"], json!(inside));
    // Without a ConfigMap, and the image by digest.
    let mut expected = deployment(&objects)["spec"].clone();
    let pod = &mut expected["template"]["spec"];
    pod["volumes"].as_array_mut().unwrap().retain(|volume| volume["name"] != "config");
    let container = &mut pod["containers"][0];
    container["volumeMounts"].as_array_mut().unwrap().retain(|mount| mount["name"] != "config");
    container["args"].as_array_mut().unwrap().drain(1..3);
    let mut deployed = install["deployments"][0]["spec"].clone();
    let image = deployed["template"]["spec"]["containers"][0]["image"].take();
    expected["template"]["spec"]["containers"][0]["image"] = Value::Null;
    assert_eq!(deployed, expected);
    assert!(image.as_str().unwrap().contains("@sha256:"), "{image}");
    assert_eq!(csv["spec"]["relatedImages"][0]["image"], image);
    for name in ["opgate.service", "opgate-metrics.service", "opgate.poddisruptionbudget"] {
        let object = read(&format!("{name}.yaml")).remove(0);
        let mut expected = objects.clone();
        expected.retain(|o| o["kind"] == object["kind"]);
        expected.retain(|o| o["metadata"]["name"] == object["metadata"]["name"]);
        assert_eq!(object["spec"], expected[0]["spec"], "{name}");
    }
}
