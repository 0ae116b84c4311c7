//! Policies in a real registry, with TLS by a private CA and a user: pushed, pulled, configured, signed, and served from the cache when
//! the registry is gone. What registries do that are not as honest is in `host/registry/tests`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::registry::DockerRegistry;
use testkit::{ConfigMap, Server, configuration, hostile_component, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::BINARY;

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(arguments)
        .current_dir(directory)
        .env("OPGATE_CACHE_DIR", directory.join("cache"))
        .env("HOME", directory)
        .env_remove("OPGATE_CONFIG")
        .env_remove("DOCKER_CONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null());
    for proxy in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"] {
        command.env_remove(proxy);
    }
    command
}

fn opgate(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, arguments).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What a command prints that succeeds.
fn out(directory: &Path, arguments: &[&str]) -> String {
    let output = opgate(directory, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", err(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The exit status and the errors of a command that fails.
fn run_failing(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let output = opgate(directory, arguments);
    (output.status.code().unwrap(), err(&output))
}

fn sha256(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("sha256:".to_owned()).chain(hex).collect()
}

/// A configuration with one policy from a registry.
fn write_configuration(directory: &Path, module: &str, signature: Option<Value>) {
    let mut policy = json!({"name": "from-afar", "module": module, "limits": {"time": "20s"}});
    if let Some(signature) = signature {
        policy["signature"] = signature;
    }
    std::fs::write(directory.join("opgate.yaml"), configuration(&[policy])).unwrap();
}

/// How to reach a registry, behind a command.
fn with_registry<'a>(command: &[&'a str], registry: &'a [String; 4]) -> Vec<&'a str> {
    command.iter().copied().chain(registry.iter().map(String::as_str)).collect()
}

fn registry_arguments(registry: &DockerRegistry) -> [String; 4] {
    let path = |path: PathBuf| path.to_str().unwrap().to_owned();
    [
        "--registry-ca".to_owned(),
        path(registry.ca()),
        "--registry-config".to_owned(),
        path(registry.credentials()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_is_pushed_to_and_pulled_from_a_registry() {
    let Some(mut registry) = DockerRegistry::start().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let how = registry_arguments(&registry);
    let component = hostile_component("misbehaves");
    let path = component.to_str().unwrap();
    let tag = registry.reference("team/misbehaves:v1");
    let out_of = |command: &[&str]| out(directory, &with_registry(command, &how));

    // The same component has the same digest after each push.
    let pinned = out_of(&["policy", "push", path, &tag]).trim().to_owned();
    assert!(pinned.starts_with(&format!("{tag}@sha256:")), "{pinned}");
    assert_eq!(out_of(&["policy", "push", path, &tag]).trim(), pinned);
    assert_eq!(out_of(&["policy", "pull", &tag]).trim(), pinned);
    let pulled = std::fs::read(directory.join("misbehaves.component.wasm")).unwrap();
    assert!(pulled == std::fs::read(&component).unwrap());
    assert_eq!(out_of(&["policy", "pull", &pinned, "--out", "other.wasm"]).trim(), pinned);
    // Rules without documentation are findings.
    let inspected = |command: &[&str]| {
        let output = opgate(directory, &with_registry(command, &how));
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(inspected(&["policy", "inspect", &pinned]).contains(&format!("source   {pinned}")));

    // Every command that reads a configuration knows it.
    for module in [&pinned, &tag] {
        write_configuration(directory, module, None);
        let list = out_of(&["policy", "list", "--output", "json", "--config", "opgate.yaml"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list[0]["source"], pinned.as_str(), "the digest shows");
        assert_eq!(list[0]["digest"], sha256(&pulled).as_str());
        out_of(&["rules", "--config", "opgate.yaml"]);
        inspected(&["policy", "inspect", "from-afar", "--config", "opgate.yaml"]);
        std::fs::write(
            directory.join("map.yaml"),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        )
        .unwrap();
        out_of(&["check", "map.yaml", "--config", "opgate.yaml"]);
        out_of(&["manifests", "rbac", "--config", "opgate.yaml"]);
    }

    // What is no policy is not pushed.
    std::fs::write(directory.join("module.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let (code, said) =
        run_failing(directory, &with_registry(&["policy", "push", "module.wasm", &tag], &how));
    assert!(code == 2 && said.contains("opgate policy pack"), "{said}");

    // The command reports a tag that moves. It does not request a digest again.
    let samples = hostile_component("samples");
    let moved = out_of(&["policy", "push", samples.to_str().unwrap(), &tag]).trim().to_owned();
    assert_ne!(moved, pinned);
    let (_, said) = {
        let output =
            opgate(directory, &with_registry(&["policy", "list", "--config", "opgate.yaml"], &how));
        (output.status.code(), err(&output))
    };
    assert!(said.contains("the tag has another digest than before"), "{said}");
    registry.stop();
    write_configuration(directory, &pinned, None);
    out_of(&["rules", "--config", "opgate.yaml"]);
    write_configuration(directory, &tag, None);
    let (code, said) =
        run_failing(directory, &with_registry(&["rules", "--config", "opgate.yaml"], &how));
    assert!(
        code == 3 && said.contains("policy from-afar") && said.contains("4 attempts"),
        "{code}: {said}"
    );
    // Without the cache, the digest needs the registry, too.
    std::fs::remove_dir_all(directory.join("cache")).unwrap();
    write_configuration(directory, &pinned, None);
    assert_eq!(
        run_failing(directory, &with_registry(&["rules", "--config", "opgate.yaml"], &how)).0,
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthorized_pull_reports_missing_credentials() {
    let Some(registry) = DockerRegistry::start().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let how = registry_arguments(&registry);
    let [ca_flag, ca, config_flag, config] = how.each_ref().map(String::as_str);
    let tag = registry.reference("team/misbehaves:v1");
    let component = hostile_component("misbehaves");
    out(directory, &with_registry(&["policy", "push", component.to_str().unwrap(), &tag], &how));
    let wrong = json!({"auths": {&registry.host: {"username": "alice", "password": "guess"}}});
    std::fs::write(directory.join("wrong.json"), wrong.to_string()).unwrap();
    let helper = json!({"credHelpers": {&registry.host: "ecr-login"}});
    std::fs::write(directory.join("helper.json"), helper.to_string()).unwrap();
    let gone = registry.reference("team/gone:v1");
    for (command, code, why) in [
        (vec!["policy", "pull", &tag, config_flag, config], 3, "--registry-ca"),
        (vec!["policy", "pull", &tag, ca_flag, ca], 3, "--registry-config"),
        (vec!["policy", "pull", &tag, ca_flag, ca, config_flag, "wrong.json"], 3, "do not suffice"),
        (vec!["policy", "pull", &tag, ca_flag, ca, config_flag, "helper.json"], 3, "credHelpers"),
        (vec!["policy", "pull", &tag, ca_flag, ca, config_flag, "none.json"], 2, "none.json"),
        (
            vec!["policy", "pull", &tag, ca_flag, "helper.json", config_flag, config],
            2,
            "no certificate",
        ),
        (vec!["policy", "pull", &gone, ca_flag, ca, config_flag, config], 3, "404"),
        (vec!["policy", "pull", "localhost/a:v1", ca_flag, ca], 2, "write oci://"),
        (vec!["policy", "pull", "oci://localhost/a", ca_flag, ca], 2, "add the digest"),
    ] {
        let (status, said) = run_failing(directory, &command);
        assert!(status == code && said.contains(why), "{command:?}: {status}: {said}");
        assert!(!said.contains("guess") && said.lines().count() == 1, "{said}");
    }
    // The default file is that of docker.
    std::fs::create_dir(directory.join(".docker")).unwrap();
    std::fs::copy(registry.credentials(), directory.join(".docker/config.json")).unwrap();
    out(directory, &["policy", "pull", &tag, ca_flag, ca]);
}

/// Signs a manifest as cosign does with a key.
async fn sign(registry: &DockerRegistry, repository: &str, digest: &str, key: &EcdsaKeyPair) {
    let payload = json!({
        "critical": {
            "identity": {"docker-reference": format!("{}/{repository}", registry.host)},
            "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        },
        "optional": null,
    })
    .to_string();
    let signature = key.sign(&SystemRandom::new(), payload.as_bytes()).unwrap();
    let config = json!({"architecture": "", "os": "", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}}).to_string();
    for bytes in [&payload, &config] {
        registry.blob(repository, &sha256(bytes.as_bytes()), bytes.as_bytes()).await;
    }
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": kind,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": sha256(config.as_bytes()), "size": config.len(),
        },
        "layers": [{
            "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
            "digest": sha256(payload.as_bytes()), "size": payload.len(),
            "annotations": {"dev.cosignproject.cosign/signature": BASE64_STANDARD.encode(signature)},
        }],
    });
    let tag = format!("{}.sig", digest.replace(':', "-"));
    registry.manifest(repository, &tag, kind, &manifest.to_string()).await;
}

fn pem(key: &EcdsaKeyPair) -> String {
    let der = key.public_key().as_der().unwrap();
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        BASE64_STANDARD.encode(der.as_ref())
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_is_served_only_if_signed_by_the_key() {
    let Some(mut registry) = DockerRegistry::start().await else { return };
    let files: TempDir = tempfile::tempdir().unwrap();
    let directory = files.path();
    let how = registry_arguments(&registry);
    let tag = registry.reference("team/misbehaves:v1");
    let component = hostile_component("misbehaves");
    let pinned = out(
        directory,
        &with_registry(&["policy", "push", component.to_str().unwrap(), &tag], &how),
    );
    let pinned = pinned.trim();
    let (_, manifest) = pinned.split_once('@').unwrap();
    let generate = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let (ours, theirs) = (generate(), generate());
    std::fs::write(directory.join("cosign.pub"), pem(&ours)).unwrap();
    std::fs::write(directory.join("theirs.pub"), pem(&theirs)).unwrap();
    let verify = |key: &str| {
        run_failing(directory, &with_registry(&["policy", "verify", &tag, "--key", key], &how))
    };
    let rules =
        || run_failing(directory, &with_registry(&["rules", "--config", "opgate.yaml"], &how));

    write_configuration(directory, &tag, Some(json!({"key": "cosign.pub"})));
    let (code, said) = rules();
    assert!(code == 3 && said.contains("no signature"), "{said}");
    sign(&registry, "team/misbehaves", manifest, &theirs).await;
    let (code, said) = rules();
    assert!(code == 3 && said.contains("none of its signatures is by a configured key"), "{said}");
    assert_eq!(verify("theirs.pub").0, 0);
    assert_eq!(verify("cosign.pub").0, 3);
    sign(&registry, "team/misbehaves", manifest, &ours).await;
    assert_eq!(
        out(directory, &with_registry(&["policy", "verify", &tag, "--key", "cosign.pub"], &how))
            .trim(),
        pinned
    );
    assert_eq!(rules().0, 0);
    // The key itself, in the configuration.
    write_configuration(directory, &tag, Some(json!({"key": pem(&ours)})));
    assert_eq!(rules().0, 0);

    // A server reports what it serves.
    let text = std::fs::read_to_string(directory.join("opgate.yaml")).unwrap();
    let how: Vec<_> = how.iter().map(String::as_str).collect();
    let mut server = Server::start(BINARY, Some(&text), &how);
    let (_, policies) = server.get("/policies").await;
    assert!(policies.contains(pinned), "{policies}");
    let told = server
        .log()
        .into_iter()
        .find(|line| line["message"] == "component from a registry")
        .unwrap();
    assert_eq!((&told["digest"], &told["signed"]), (&json!(manifest), &json!(true)));
    // A tag needs the registry at start: the server starts, and what asks the policy fails.
    registry.stop();
    server.restart();
    let (_, policies) = server.get("/policies").await;
    assert!(policies.contains("attempts") && !policies.contains(pinned), "{policies}");
    let text = text.replace(&tag, pinned);
    drop(server);
    // With a digest and an empty cache it is no better.
    let server = Server::start(BINARY, Some(&text), &how);
    let (_, policies) = server.get("/policies").await;
    assert!(policies.contains("attempts"), "{policies}");
}

/// A file with the component and a section that no reader uses: a different component.
fn other_component(directory: &Path) -> PathBuf {
    let mut bytes = std::fs::read(hostile_component("misbehaves")).unwrap();
    // A custom section: its id, its size, the length of its name.
    bytes.extend(b"\0\x05\x04note");
    let path = directory.join("other.component.wasm");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn server_follows_the_configured_reference() {
    let Some(mut registry) = DockerRegistry::start().await else { return };
    let files = tempfile::tempdir().unwrap();
    let directory = files.path();
    let how = registry_arguments(&registry);
    let tag = registry.reference("team/misbehaves:v1");
    let push = |component: &Path| {
        let command = ["policy", "push", component.to_str().unwrap(), &tag];
        out(directory, &with_registry(&command, &how)).trim().to_owned()
    };
    let (component, other) = (hostile_component("misbehaves"), other_component(directory));
    let first = push(&component);
    let text = |module: &str| {
        configuration(&[json!({"name": "from-afar", "module": module, "limits": {"time": "20s"}})])
    };
    let mut map = ConfigMap::new(&[("opgate.yaml", &text(&tag))]);
    let path = map.path("opgate.yaml");
    let mut flags = vec!["--config", path.to_str().unwrap(), "--reload-interval", "20ms"];
    flags.extend(how.iter().map(String::as_str));
    let server = Server::start(BINARY, None, &flags);
    let told = async || serde_json::from_str::<Value>(&server.get("/policies").await.1).unwrap();
    let source_now = async || told().await["policies"][0]["source"].as_str().unwrap().to_owned();
    assert_eq!(source_now().await, first);

    // The server does not follow a tag that moves until a signal requests it.
    let second = push(&other);
    assert_ne!(second, first);
    let before = told().await;
    assert_eq!(source_now().await, first);
    server.signal(Signal::HUP);
    wait_until("what the tag names now", async || source_now().await == second).await;
    assert_ne!(told().await["configuration"]["digest"], before["configuration"]["digest"]);
    let is_moved = |line: &Value| {
        line["message"].as_str().is_some_and(|m| m.starts_with("the tag has another digest"))
    };
    assert!(server.log().iter().any(is_moved));

    // What is not to be had keeps the last good one; what was pulled before needs no registry.
    registry.stop();
    let unknown = registry.reference(&format!("team/misbehaves@sha256:{}", "0".repeat(64)));
    map.swap(&[("opgate.yaml", &text(&unknown))]);
    let trouble = async || told().await["configuration"]["lastAttempt"]["error"].to_string();
    wait_until("the trouble", async || trouble().await.contains("4 attempts")).await;
    assert_eq!(source_now().await, second);
    map.swap(&[("opgate.yaml", &text(&first))]);
    wait_until("the first one", async || source_now().await == first).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_are_compared_by_registry_content() {
    let Some(registry) = DockerRegistry::start().await else { return };
    let files = tempfile::tempdir().unwrap();
    let directory = files.path();
    let how = registry_arguments(&registry);
    let push = |component: &Path, tag: &str| {
        let tag = registry.reference(&format!("team/misbehaves:{tag}"));
        let command = ["policy", "push", component.to_str().unwrap(), &tag];
        out(directory, &with_registry(&command, &how)).trim().to_owned()
    };
    let (first, second) =
        (push(&hostile_component("misbehaves"), "v1"), push(&other_component(directory), "v2"));
    let write = |name: &str, module: &str| {
        let policy = json!({"name": "from-afar", "module": module, "limits": {"time": "20s"}});
        std::fs::write(directory.join(name), configuration(&[policy])).unwrap();
    };
    write("old.yaml", &first);
    write("same.yaml", &registry.reference("team/misbehaves:v1"));
    write("new.yaml", &second);
    let diff = |new: &str| opgate(directory, &with_registry(&["diff", "old.yaml", new], &how));
    let same = diff("same.yaml");
    assert_eq!(same.status.code(), Some(0), "{}", err(&same));
    assert_eq!(diff("new.yaml").status.code(), Some(1));
}

/// A proxy that passes TLS through. Says which hosts it was asked for.
async fn start_proxy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let log = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let log = log.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let target = head.split(' ').nth(1).unwrap().to_owned();
                log.lock().unwrap().push(head.lines().next().unwrap().to_owned());
                let mut server = TcpStream::connect(target).await.unwrap();
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_connection_uses_the_https_proxy() {
    let Some(registry) = DockerRegistry::start().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let how = registry_arguments(&registry);
    let tag = registry.reference("team/misbehaves:v1");
    let component = hostile_component("misbehaves");
    out(directory, &with_registry(&["policy", "push", component.to_str().unwrap(), &tag], &how));
    let (address, asked) = start_proxy().await;
    let pull = |no_proxy: &str| {
        let output = command(directory, &with_registry(&["policy", "pull", &tag], &how))
            .env("HTTPS_PROXY", format!("http://{address}"))
            .env("NO_PROXY", no_proxy)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        std::mem::take(&mut *asked.lock().unwrap())
    };
    let line = format!("CONNECT {} HTTP/1.1", registry.host);
    let lines = pull("example.com");
    assert!(!lines.is_empty() && lines.iter().all(|asked| *asked == line), "{lines:?}");
    assert!(pull("example.com,localhost").is_empty());
}

#[test]
fn invalid_module_configuration_reports_location() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    std::fs::write(
        directory.join("private.key"),
        "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nhush\n",
    )
    .unwrap();
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    std::fs::write(directory.join("good.pub"), pem(&key)).unwrap();
    let digest = format!("oci://localhost:1/a@sha256:{}", "0".repeat(64));
    for (module, signature, why) in [
        ("oci://localhost:1/a", "{key: cosign.pub}", "opgate.yaml:5:5"),
        ("oci://a:v1", "{key: cosign.pub}", "opgate.yaml:5:5"),
        (&digest, "{key: cosign.pub}", "cosign.pub: No such file"),
        (&digest, "{key: private.key}", "a private key is in it"),
        (&digest, "{key: ''}", "opgate.yaml:6:"),
        (&digest, "{key: cosign.pub, repository: ''}", "name the repository that was signed"),
        (&digest, "{key: cosign.pub, repository: }", "name the repository that was signed"),
        (&digest, "{key: good.pub, repository: 'ghcr.io/a:v1'}", "without a tag or a digest"),
        (&digest, "", "signature has no value"),
        (&digest, "{keyless: {}}", "unknown field `keyless`"),
        ("policy.wasm", "{key: cosign.pub}", "only a module in a registry"),
    ] {
        let text = format!(
            "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n  - name: a\n    module: {module}\n    signature: {signature}\n"
        );
        std::fs::write(directory.join("opgate.yaml"), text).unwrap();
        let (code, said) = run_failing(directory, &["rules", "--config", "opgate.yaml"]);
        assert!(
            code == 2 && said.contains(why) && !said.contains("hush"),
            "{module} {signature}: {code}: {said}"
        );
    }
}
