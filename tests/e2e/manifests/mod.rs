//! What `opgate manifests` prints: for whom, narrow, and with the right consequences.

mod documented_webhooks;
mod installation;
mod match_conditions;
mod network_policy;

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{builtin_policy, configuration, hostile_component, misbehaves, samples};

use crate::BINARY;

const RUKPAK: &str = "core.rukpak.io";
const OLM: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";

const SERVICE_ARGS: [&str; 4] = ["--service", "opgate-system/opgate", "--ca", "tls/ca.crt"];
const URL_ARGS: [&str; 4] = ["--url", "https://10.0.0.1:9443", "--ca", "tls/ca.crt"];

fn opgate(directory: &TempDir, arguments: &[&str]) -> Output {
    Command::new(BINARY)
        .args(arguments)
        .current_dir(directory.path())
        .env("OPGATE_CACHE_DIR", directory.path().join("cache"))
        .env_remove("OPGATE_CONFIG")
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory with certificates in `tls` and a configuration.
fn directory(policies: &[Value]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let issue = ["certs", "issue", "--out", "tls", "--service", "opgate-system/opgate"];
    assert_eq!(opgate(&directory, &issue).status.code(), Some(0));
    configure(&directory, policies);
    directory
}

fn configure(directory: &TempDir, policies: &[Value]) {
    std::fs::write(directory.path().join("opgate.yaml"), configuration(policies)).unwrap();
}

/// The policy for OperatorGroups, with all the time that an unoptimised build may need.
fn operator_group() -> Value {
    json!({"name": "operator-group", "limits": {"time": "20s"}})
}

/// A policy entry with more members.
fn with_members(mut policy: Value, members: &Value) -> Value {
    policy.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    policy
}

fn print(directory: &TempDir, arguments: &[&str]) -> Output {
    let command = ["manifests", "webhook", "--config", "opgate.yaml"];
    opgate(directory, &[&command[..], arguments].concat())
}

/// What is printed as JSON.
fn printed(directory: &TempDir, arguments: &[&str]) -> Value {
    let output = print(directory, &[arguments, &["--output", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    serde_json::from_str(&out(&output)).unwrap()
}

fn webhooks(directory: &TempDir, arguments: &[&str]) -> Vec<Value> {
    printed(directory, arguments)["webhooks"].as_array().unwrap().clone()
}

/// The only webhook for a group.
fn webhook_of_group<'w>(webhooks: &'w [Value], group: &str) -> &'w Value {
    let is_for = |webhook: &&Value| webhook["rules"][0]["apiGroups"] == json!([group]);
    let found: Vec<_> = webhooks.iter().filter(is_for).collect();
    let [webhook] = found[..] else { panic!("{} webhooks for {group:?}", found.len()) };
    webhook
}

/// `name path failurePolicy` of each.
fn webhook_summaries(webhooks: &[Value]) -> Vec<String> {
    let show = |webhook: &Value| {
        let path = &webhook["clientConfig"]["service"]["path"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        format!("{} {} {}", text(&webhook["name"]), text(path), text(&webhook["failurePolicy"]))
    };
    webhooks.iter().map(show).collect()
}

fn selector_of(webhook: &Value) -> Value {
    let conditions = webhook["namespaceSelector"]["matchExpressions"].as_array().unwrap();
    let shown = conditions.iter().map(|condition| {
        assert_eq!(condition["key"], "kubernetes.io/metadata.name");
        json!([condition["operator"], condition["values"]])
    });
    shown.collect()
}

fn rule(group: &str, versions: &[&str], resources: &[&str], operations: &[&str]) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": versions,
        "resources": resources,
        "operations": operations,
        "scope": "*",
    })
}

/// Every rule of every built-in policy, and nothing else.
#[test]
fn builtin_policies_are_registered_for_their_requests() {
    let directory = directory(&[builtin_policy(), operator_group()]);
    let printed = printed(&directory, &SERVICE_ARGS);
    assert_eq!(
        (&printed["apiVersion"], &printed["kind"], &printed["metadata"]),
        (
            &json!("admissionregistration.k8s.io/v1"),
            &json!("ValidatingWebhookConfiguration"),
            &json!({
                "name": "opgate",
                "labels": {
                    "app.kubernetes.io/name": "opgate",
                    "opgate.dev/installation": "opgate-system",
                },
                "annotations": {"opgate.dev/owner": "opgate-system/opgate"},
            })
        )
    );
    let webhooks = printed["webhooks"].as_array().unwrap();
    assert_eq!(webhooks.len(), 4);
    let names: BTreeSet<_> = webhooks.iter().map(|w| w["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), webhooks.len(), "unique");
    assert!(names.iter().all(|name| name.starts_with('v') && name.split('.').count() >= 3));

    let ca = Command::new("base64").arg("-w0").arg(directory.path().join("tls/ca.crt")).output();
    let ca = out(&ca.unwrap());
    for webhook in webhooks {
        let service = &webhook["clientConfig"]["service"];
        assert_eq!(webhook["clientConfig"]["caBundle"], ca);
        assert_eq!(webhook["clientConfig"]["url"], Value::Null);
        assert_eq!(
            (&service["namespace"], &service["name"], &service["port"]),
            (&json!("opgate-system"), &json!("opgate"), &json!(443))
        );
        assert_eq!(webhook["matchPolicy"], "Equivalent");
        assert_eq!(webhook["sideEffects"], "NoneOnDryRun");
        assert_eq!(webhook["admissionReviewVersions"], json!(["v1", "v1beta1"]));
        assert_eq!(webhook["timeoutSeconds"], 21, "limits.time of 20s");
    }
    let path =
        |group: &str| webhook_of_group(webhooks, group)["clientConfig"]["service"]["path"].clone();
    let name = |group: &str| webhook_of_group(webhooks, group)["name"].clone();
    let rules = |group: &str| webhook_of_group(webhooks, group)["rules"].clone();
    let everywhere = json!([["NotIn", ["kube-system", "opgate-system"]]]);
    let writes = ["CREATE", "UPDATE"];

    let failure = |group: &str| webhook_of_group(webhooks, group)["failurePolicy"].clone();
    for group in [RUKPAK, OLM, ""] {
        assert_eq!(failure(group), "Fail", "{group}");
    }
    assert_eq!(failure(RBAC), "Ignore", "what is only warned about does not wait for opgate");

    assert_eq!(name(RUKPAK), "vbundles.core.rukpak.io", "as the documentation has it");
    assert_eq!(path(RUKPAK), "/validate/bundle-immutability");
    assert_eq!(
        rules(RUKPAK),
        json!([
            rule(RUKPAK, &["v1alpha1"], &["bundles"], &writes),
            // Users can delete these without opgate: no rule evaluates the deletion.
            rule(RUKPAK, &["v1alpha1", "v1alpha2"], &["bundledeployments"], &writes),
        ])
    );
    assert_eq!(selector_of(webhook_of_group(webhooks, RUKPAK)), everywhere);

    assert_eq!(name(""), "vconfigmaps.core.opgate.dev");
    assert_eq!(path(""), "/validate/bundle-immutability");
    assert_eq!(rules(""), json!([rule("", &["v1"], &["configmaps"], &["CREATE", "DELETE"])]));
    assert_eq!(selector_of(webhook_of_group(webhooks, "")), json!([["In", ["rukpak-system"]]]));

    assert_eq!(name(OLM), "voperatorgroups.operators.coreos.com");
    assert_eq!(path(OLM), "/validate/operator-group");
    assert_eq!(
        rules(OLM),
        json!([
            rule(OLM, &["v1", "v1alpha2"], &["operatorgroups"], &writes),
            rule(OLM, &["v1alpha1"], &["clusterserviceversions"], &writes),
        ])
    );
    assert_eq!(selector_of(webhook_of_group(webhooks, OLM)), everywhere);

    assert_eq!(name(RBAC), "vclusterrolebindings.rbac.authorization.k8s.io");
    assert_eq!(path(RBAC), "/validate/operator-group");
    let both = ["clusterrolebindings", "clusterroles"];
    assert_eq!(rules(RBAC), json!([rule(RBAC, &["v1"], &both, &writes)]));
}

/// Without a configuration all built-in policies serve, and with one only those in it.
#[test]
fn webhook_rules_follow_the_configuration() {
    let directory = directory(&[]);
    let command = [&["manifests", "webhook", "--output", "json"][..], &SERVICE_ARGS].concat();
    let output = opgate(&directory, &command);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let all: Value = serde_json::from_str(&out(&output)).unwrap();
    let all = all["webhooks"].as_array().unwrap();
    assert!(all.len() >= 4 && webhook_of_group(all, RUKPAK)["timeoutSeconds"] == 5, "{all:?}");

    // Rules that are off need no webhook for ConfigMaps.
    let off = json!({"rules": {"RPK-19": "off", "RPK-20": "off"}});
    configure(&directory, &[with_members(builtin_policy(), &off)]);
    assert_eq!(
        webhook_summaries(&webhooks(&directory, &SERVICE_ARGS)),
        ["vbundles.core.rukpak.io /validate/bundle-immutability Fail"]
    );
    // The settings say where, and which rules look.
    let elsewhere = json!({"settings": {"rukpak": {"systemNamespace": "rukpak"}}});
    configure(&directory, &[with_members(builtin_policy(), &elsewhere)]);
    let found = webhooks(&directory, &SERVICE_ARGS);
    assert_eq!(selector_of(webhook_of_group(&found, "")), json!([["In", ["rukpak"]]]));
    let writes = ["CREATE", "UPDATE", "DELETE"];
    let restricted = json!({"settings": {"rukpak": {"allowedUsers": ["a"]}}});
    configure(&directory, &[with_members(builtin_policy(), &restricted)]);
    let found = webhooks(&directory, &SERVICE_ARGS);
    let expected = rule(RUKPAK, &["v1alpha1", "v1alpha2"], &["bundledeployments"], &writes);
    assert_eq!(webhook_of_group(&found, RUKPAK)["rules"][1], expected);
    configure(&directory, &[with_members(operator_group(), &json!({"rules": {"OPG-35": "deny"}}))]);
    let found = webhooks(&directory, &SERVICE_ARGS);
    let expected = rule(OLM, &["v1", "v1alpha2"], &["operatorgroups"], &writes);
    assert_eq!(webhook_of_group(&found, OLM)["rules"][0], expected);
    let pods = |settings: Value| {
        configure(&directory, &[json!({"name": "pod-security", "settings": settings})]);
        webhooks(&directory, &SERVICE_ARGS)
    };
    let default = pods(json!({}));
    assert_eq!(pods(json!({"multiarch": {"enforce": false}})), default, "false turns nothing on");
    assert_ne!(pods(json!({"multiarch": {"enforce": true}})), default);

    configure(&directory, &[]);
    let output = print(&directory, &SERVICE_ARGS);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).ends_with("\nwebhooks: []\n"), "{}", out(&output));
    assert!(err(&output).contains("no policy needs any request"), "{}", err(&output));
}

#[test]
fn a_server_is_called_by_its_service_or_its_url() {
    let directory = directory(&[builtin_policy()]);
    let first =
        |arguments: &[&str]| webhook_of_group(&webhooks(&directory, arguments), RUKPAK).clone();
    let webhook = first(&["--service", "a/b:9443", "--ca", "tls/ca.crt"]);
    let service = json!({
        "namespace": "a", "name": "b", "port": 9443, "path": "/validate/bundle-immutability",
    });
    assert_eq!(webhook["clientConfig"]["service"], service);
    assert_eq!(selector_of(&webhook), json!([["NotIn", ["kube-system", "a"]]]));

    let webhook = first(&URL_ARGS);
    let url = "https://10.0.0.1:9443/validate/bundle-immutability";
    assert_eq!(webhook["clientConfig"]["url"], url);
    assert_eq!(webhook["clientConfig"]["service"], Value::Null);
    assert_eq!(selector_of(&webhook), json!([["NotIn", ["kube-system"]]]), "nobody knows its own");
    let webhook = first(&[&URL_ARGS[..], &["--namespace", "opgate-system"]].concat());
    assert_eq!(selector_of(&webhook), json!([["NotIn", ["kube-system", "opgate-system"]]]));
    let webhook = first(&["--url", "https://proxy.example.com/a/b/", "--ca", "tls/ca.crt"]);
    let url = "https://proxy.example.com/a/b/validate/bundle-immutability";
    assert_eq!(webhook["clientConfig"]["url"], url);

    // Two CAs, while one takes the place of the other.
    let issue = ["certs", "issue", "--out", "new", "--name", "x"];
    assert_eq!(opgate(&directory, &issue).status.code(), Some(0));
    let bundle = |arguments: &[&str]| {
        first(arguments)["clientConfig"]["caBundle"].as_str().unwrap().to_owned()
    };
    let two = [&URL_ARGS[..], &["--ca", "new/ca.crt"]].concat();
    assert!(bundle(&two).len() > bundle(&URL_ARGS).len() * 3 / 2);
}

/// What opgate never blocks, its absence must not block either.
#[test]
fn unreachable_server_blocks_only_blocking_policies() {
    let directory = directory(&[]);
    for (entry, expected) in [
        (json!({}), Some("Fail")),
        (json!({"onError": "deny"}), Some("Fail")),
        (json!({"onError": "allow"}), Some("Ignore")),
        (json!({"mode": "warn"}), Some("Ignore")),
        (json!({"mode": "warn", "onError": "deny"}), Some("Ignore")),
        (json!({"mode": "audit"}), Some("Ignore")),
        (json!({"mode": "off"}), None),
    ] {
        configure(&directory, &[with_members(builtin_policy(), &entry)]);
        let found = webhooks(&directory, &SERVICE_ARGS);
        assert_eq!(found.is_empty(), expected.is_none(), "{entry}");
        for webhook in found {
            assert_eq!(webhook["failurePolicy"].as_str(), expected, "{entry}");
        }
    }
}

/// Each request reaches each policy once.
#[test]
fn each_request_reaches_each_policy_once() {
    let evil = |name: &str, members: Value| with_members(misbehaves(name, &json!({})), &members);
    let off = json!({"rules": {"RPK-19": "off", "RPK-20": "off"}});
    let rukpak = || with_members(builtin_policy(), &off);
    let directory = directory(&[]);
    let cases = [
        (
            vec![evil("a", json!({})), evil("b", json!({}))],
            vec!["vbundles.core.rukpak.io /validate Fail"],
        ),
        (
            vec![evil("a", json!({"mode": "warn"})), evil("b", json!({"mode": "audit"}))],
            vec!["vbundles.core.rukpak.io /validate Ignore"],
        ),
        (
            vec![evil("a", json!({"mode": "warn"})), evil("b", json!({}))],
            vec![
                "vbundles.core.rukpak.io /validate/b Fail",
                "vbundles-a.core.rukpak.io /validate/a Ignore",
            ],
        ),
        (
            vec![evil("a", json!({})), evil("b", json!({"mode": "off"}))],
            vec!["vbundles.core.rukpak.io /validate/a Fail"],
        ),
        // One policy matches every version, the other policy matches one.
        (
            vec![rukpak(), evil("b", json!({}))],
            vec![
                "vbundles.core.rukpak.io /validate/bundle-immutability Fail",
                "vbundles-b.core.rukpak.io /validate/b Fail",
            ],
        ),
    ];
    for (policies, expected) in cases {
        configure(&directory, &policies);
        let found = webhooks(&directory, &SERVICE_ARGS);
        assert_eq!(webhook_summaries(&found), expected);
        assert!(found.iter().all(|w| w["timeoutSeconds"] == 5 || w["timeoutSeconds"] == 21));
    }
    // Namespaces that every policy of a webhook excludes need not be sent.
    let excluded = |namespaces: &[&str]| json!({"exclude": {"namespaces": namespaces}});
    configure(&directory, &[evil("a", excluded(&["x", "y"])), evil("b", excluded(&["z", "y"]))]);
    let found = webhooks(&directory, &SERVICE_ARGS);
    let expected = json!([["NotIn", ["kube-system", "opgate-system", "y"]]]);
    assert_eq!((found.len(), selector_of(&found[0])), (1, expected));
    configure(&directory, &[evil("a", excluded(&["x", "y"]))]);
    let expected = json!([["NotIn", ["kube-system", "opgate-system", "x", "y"]]]);
    assert_eq!(selector_of(&webhooks(&directory, &SERVICE_ARGS)[0]), expected);
}

#[test]
fn timeouts_exceed_the_policy_limits() {
    let directory = directory(&[]);
    for (time, seconds) in [("4s", 5), ("4001ms", 6), ("20s", 21), ("29s", 30), ("30s", 30)] {
        configure(
            &directory,
            &[with_members(builtin_policy(), &json!({"limits": {"time": time}}))],
        );
        let output = print(&directory, &[&SERVICE_ARGS[..], &["--output", "json"]].concat());
        let printed: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(printed["webhooks"][0]["timeoutSeconds"], seconds, "{time}");
        let is_told = err(&output).contains("limits.time is too long for a webhook");
        assert_eq!(is_told, time == "30s", "{time}: {}", err(&output));
    }
}

/// As `kubectl` takes it and people read it; the same text every time.
#[test]
fn yaml_output_equals_json_output() {
    let directory = directory(&[builtin_policy(), operator_group()]);
    for server in [SERVICE_ARGS, URL_ARGS] {
        let output = print(&directory, &server);
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
        let read: Value = serde_saphyr::from_str(&out(&output)).unwrap();
        assert_eq!(read, printed(&directory, &server));
        assert_eq!(out(&print(&directory, &server)), out(&output));
    }
    let off = json!({"mode": "warn", "rules": {"RPK-19": "off", "RPK-20": "off"}});
    configure(&directory, &[with_members(builtin_policy(), &off)]);
    let text = out(&print(&directory, &[&SERVICE_ARGS[..], &["--name", "house.opgate"]].concat()));
    let (head, rest) = text.split_once("      caBundle: ").unwrap();
    let (ca, tail) = rest.split_once('\n').unwrap();
    assert!(ca.starts_with("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"), "{ca}");
    let expected_head = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: house.opgate
  annotations:
    opgate.dev/owner: opgate-system/opgate
  labels:
    app.kubernetes.io/name: opgate
    opgate.dev/installation: opgate-system
webhooks:
  - name: vbundles.core.rukpak.io
    admissionReviewVersions: [v1, v1beta1]
    clientConfig:
";
    let expected_tail = "      service:
        name: opgate
        namespace: opgate-system
        path: /validate/bundle-immutability
        port: 443
    failurePolicy: Ignore
    matchPolicy: Equivalent
    namespaceSelector:
      matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: NotIn
          values: [kube-system, opgate-system]
    rules:
      - apiGroups: [core.rukpak.io]
        apiVersions: [v1alpha1]
        operations: [CREATE, UPDATE]
        resources: [bundles]
        scope: \"*\"
      - apiGroups: [core.rukpak.io]
        apiVersions: [v1alpha1, v1alpha2]
        operations: [CREATE, UPDATE]
        resources: [bundledeployments]
        scope: \"*\"
    sideEffects: NoneOnDryRun
    timeoutSeconds: 21
";
    assert_eq!((head, tail), (expected_head, expected_tail));
}

#[test]
fn wrong_usage_is_rejected_with_a_hint() {
    let directory = directory(&[builtin_policy()]);
    let write =
        |name: &str, text: &[u8]| std::fs::write(directory.path().join(name), text).unwrap();
    let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    write("empty.crt", b"");
    write("cut.crt", &read("tls/ca.crt")[..100]);
    write("both.pem", &[read("tls/tls.crt"), read("tls/tls.key")].concat());
    let ca = ["--ca", "tls/ca.crt"];
    let url = |url: &'static str| vec!["--url", url, "--ca", "tls/ca.crt"];
    let service = |service: &'static str| vec!["--service", service, "--ca", "tls/ca.crt"];
    let bundle = |ca: &'static str| vec!["--service", "a/b", "--ca", ca];
    let more = |more: &[&'static str]| [&SERVICE_ARGS[..], more].concat();
    let cases = [
        (ca.to_vec(), "--service <NAMESPACE/NAME[:PORT]>|--url <URL>"),
        (more(&["--url", "https://a"]), "cannot be used with"),
        (SERVICE_ARGS[..2].to_vec(), "--ca <FILE>"),
        (service("opgate"), "\"opgate\" is not in the format NAMESPACE/NAME"),
        (service("a/b:0"), "\"a/b:0\" is not in the format NAMESPACE/NAME"),
        (service("a/B"), "\"a/B\" is not in the format NAMESPACE/NAME"),
        (url("http://a"), "\"http://a\" is not an https URL"),
        (url("10.0.0.1:9443"), "\"10.0.0.1:9443\" is not an https URL"),
        (url("https://a/?b"), "has a user, a query or a fragment"),
        (url("https://a#b"), "has a user, a query or a fragment"),
        (url("https://u@a"), "has a user, a query or a fragment"),
        (url("https://a b"), "is not a URL"),
        (bundle("nowhere"), "nowhere: No such file or directory"),
        (bundle("empty.crt"), "empty.crt: no certificate: put a block `BEGIN CERTIFICATE` in it"),
        (bundle("cut.crt"), "cut.crt: not PEM"),
        (bundle("tls/ca.key"), "tls/ca.key: holds a private key"),
        (bundle("both.pem"), "both.pem: holds a private key"),
        (more(&["--namespace", "x"]), "cannot be used with"),
        ([&URL_ARGS[..], &["--namespace", "X"]].concat(), "\"X\" is not the name of a namespace"),
        (more(&["--name", "Opgate"]), "\"Opgate\" is not a name"),
        (more(&["--output", "xml"]), "xml"),
    ];
    for (arguments, expected) in cases {
        let output = print(&directory, &arguments);
        let errors = err(&output);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{arguments:?}");
        assert!(errors.contains(expected), "{expected} is not in\n{errors}\nof {arguments:?}");
    }
    assert_eq!(opgate(&directory, &["manifests"]).status.code(), Some(2));
}

/// The command cannot determine which requests the policy needs: the printed webhooks would be
/// incomplete.
#[test]
fn unloadable_policy_fails_the_command() {
    let broken = json!({"name": "x", "module": hostile_component("imports-wasi")});
    let directory = directory(&[builtin_policy(), broken]);
    let output = print(&directory, &SERVICE_ARGS);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(3), ""));
    assert!(err(&output).contains("policy x: "), "{}", err(&output));
}

/// Roles of a configuration: kind, namespace, and rules as `groups resources verbs`, except those for single
/// objects, which no policy needs.
fn roles(directory: &TempDir) -> Vec<(String, String, Vec<String>)> {
    let output =
        opgate(directory, &["manifests", "rbac", "--config", "opgate.yaml", "--output", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let list: Value = serde_json::from_str(&out(&output)).unwrap();
    let words = |list: &Value| {
        let words = list.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        words.collect::<Vec<_>>().join(",")
    };
    let items = list["items"].as_array().unwrap();
    for binding in items.iter().filter(|item| item["roleRef"].is_object()) {
        assert_eq!(binding["roleRef"]["name"], "opgate");
        let subject =
            json!({"kind": "ServiceAccount", "namespace": "opgate-system", "name": "opgate"});
        assert_eq!(binding["subjects"], json!([subject]));
    }
    let found = items.iter().filter(|item| item["rules"].is_array());
    found
        .map(|role| {
            let rule = |rule: &Value| {
                let parts = ["apiGroups", "resources", "verbs"].map(|member| words(&rule[member]));
                parts.join(" ")
            };
            let rules = role["rules"].as_array().unwrap().iter();
            let granted: Vec<_> =
                rules.filter(|rule| rule["resourceNames"].is_null()).map(rule).collect();
            let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default();
            (role["kind"].as_str().unwrap().to_owned(), namespace.to_owned(), granted)
        })
        .filter(|(.., granted)| !granted.is_empty())
        .collect()
}

#[test]
fn permissions_match_the_configuration() {
    let directory = directory(&[samples(&[], &json!({}))]);
    assert_eq!(roles(&directory), []);
    configure(
        &directory,
        &[samples(&["*.example.com", "a.example.org", "b.example.com"], &json!({}))],
    );
    let listed = ["example.com * list", "example.org a list"].map(str::to_owned).to_vec();
    assert_eq!(roles(&directory), [("ClusterRole".to_owned(), String::new(), listed)]);
    // Secrets are never among what is granted in all namespaces.
    let settings = json!({"secrets": {"read": true, "namespace": "olm"}});
    configure(&directory, &[samples(&[], &settings), builtin_policy()]);
    let secrets = " secrets list,watch".to_owned();
    let found = roles(&directory);
    assert!(found.contains(&("Role".to_owned(), "olm".to_owned(), vec![secrets])), "{found:?}");
    let maps = " configmaps list,watch".to_owned();
    let role = ("Role".to_owned(), "rukpak-system".to_owned(), vec![maps]);
    assert!(found.contains(&role), "{found:?}");
    let all = found.iter().filter(|(kind, ..)| kind == "ClusterRole");
    let all: Vec<_> = all.flat_map(|(.., rules)| rules.clone()).collect();
    assert_eq!(all, [format!("{RUKPAK} bundles list,watch")]);
    // What the ClusterRole permits is in no Role: it could fail to apply, and adds nothing.
    let settings = json!({"subscription": {"readConfigMaps": true}});
    configure(
        &directory,
        &[builtin_policy(), json!({"name": "subscription", "settings": settings})],
    );
    let found = roles(&directory);
    let [(kind, _, rules)] = &found[..] else { panic!("{found:?}") };
    assert!(kind == "ClusterRole" && rules[0].contains("configmaps"), "{found:?}");
}

#[test]
fn wildcard_grant_of_samples_is_rejected() {
    let directory = directory(&[samples(&["*"], &json!({}))]);
    let output = opgate(&directory, &["manifests", "rbac", "--config", "opgate.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = err(&output);
    assert!(said.contains("a permission for everything would include Secrets"), "{said}");
}
