//! `opgate serve --record`: what a recording has, and that `opgate replay` needs nothing else.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::reviews::{
    GOOSE_API, OLM, WriteMode, cluster, create, group, namespace, policies, serve_with,
};
use testkit::{
    ConfigMap, Server, builtin_policy, configuration, create_bundle, good_spec, recorded_review,
    wait_until,
};

use crate::BINARY;
use crate::check::{command, err, out};

const SECRET_VALUE: &str = "aHVudGVyMg==";

/// A directory for a recording.
struct Recording(TempDir);

impl Recording {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("rec")
    }

    /// Starts a server that records to it.
    fn serve(&self, configuration: Option<&str>, more: &[&str]) -> Server {
        let path = self.path();
        let arguments = ["--record", path.to_str().unwrap(), "--drain-delay", "0s"];
        Server::start(BINARY, configuration, &[&arguments[..], more].concat())
    }

    /// Its lines, of all files.
    fn lines(&self) -> Vec<Value> {
        let entries = fs::read_dir(self.path()).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut text = String::new();
        for file in files {
            let mut bytes = Vec::new();
            let file = fs::File::open(file).unwrap();
            // What a server has not written yet is missing at the end.
            let _ = zstd::Decoder::new(file).unwrap().read_to_end(&mut bytes);
            text.push_str(&String::from_utf8(bytes).unwrap());
        }
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn reviews(&self) -> Vec<Value> {
        let lines = self.lines().into_iter();
        lines.filter(|line| line["kind"] == "RecordedReview").collect()
    }

    /// Runs `opgate` in another directory, without any of the files that the server had.
    fn run(&self, line: &str) -> (Option<i32>, String) {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::rename(self.path(), elsewhere.path().join("rec")).unwrap();
        let arguments: Vec<_> = line.split(' ').collect();
        let output = command(elsewhere.path(), &arguments).output().unwrap();
        fs::rename(elsewhere.path().join("rec"), self.path()).unwrap();
        (output.status.code(), out(&output) + &err(&output))
    }
}

/// Ends a server as a kubelet does.
fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

fn secret() -> Value {
    let (kind, resource) = ("Secret", "secrets");
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "secret",
            "kind": {"group": "", "version": "v1", "kind": kind},
            "resource": {"group": "", "version": "v1", "resource": resource},
            "name": "s", "namespace": "a", "operation": "UPDATE", "userInfo": {"username": "jo"},
            "object": {"apiVersion": "v1", "kind": kind, "metadata": {"name": "s", "namespace": "a"},
                "data": {"password": SECRET_VALUE}},
            "oldObject": {"apiVersion": "v1", "kind": kind, "metadata": {"name": "s", "namespace": "a"},
                "stringData": {"password": SECRET_VALUE}},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_that_depend_on_the_cluster_are_repeated_from_the_recording() {
    let (cluster, recording) = (cluster(), Recording::new());
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    let directory = recording.path();
    let arguments = ["--record", directory.to_str().unwrap(), "--drain-delay", "0s"];
    let server = serve_with(BINARY, &cluster, &policies(), &arguments);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let mut client = server.connect().await;
    let mut selecting = group("d", "new", &[], GOOSE_API);
    selecting["spec"] = json!({"selector": {"matchLabels": {"team": "d"}}});
    let selecting: Value = serde_json::from_str(&create(&selecting, WriteMode::Persist)).unwrap();
    let mut allowed = Vec::new();
    for review in [
        // Denied because of a stored group, allowed, and denied because of the one that was just allowed.
        create(&group("b", "new", &["shared"], GOOSE_API), WriteMode::Persist),
        create(&group("c", "new", &["c"], GOOSE_API), WriteMode::Persist),
        create(&group("b", "other", &["c"], GOOSE_API), WriteMode::Persist),
        create_bundle("1", "b", &good_spec()).to_string(),
        create_bundle("2", "b", &json!({"source": {"type": "image"}})).to_string(),
        secret().to_string(),
        // The policy reads the namespaces that it selects. A recording has no line breaks in a review.
        serde_json::to_string_pretty(&selecting).unwrap(),
    ] {
        let answer = client.post("/validate?timeout=1s", "application/json", review).await.unwrap();
        allowed.push(answer.response()["allowed"] == true);
    }
    assert_eq!(allowed, [false, true, false, true, false, true, true]);
    let written = "opgate_recorded_reviews_total{result=\"written\"}";
    wait_until("all reviews", async || server.metric(written).await == Some(7.0)).await;
    stop(server);
    drop(cluster);

    let reviews = recording.reviews();
    assert_eq!(reviews.len(), 7);
    let reads = reviews[0]["reads"]["operator-group"].to_string();
    assert!(reads.contains("operatorgroups") && reads.contains(GOOSE_API), "{reads}");
    let pending = reviews[2]["pendingObjects"].to_string();
    assert!(pending.contains("c/new"), "{pending}");
    let text = recording.lines().iter().map(Value::to_string).collect::<String>();
    assert!(!text.contains(SECRET_VALUE), "{text}");

    let (code, said) = recording.run("replay --verify-recorded rec");
    assert_eq!(
        (code, said.contains("7 decided as recorded, 0 differently")),
        (Some(0), true),
        "{said}"
    );
    let (code, said) = recording.run("replay rec");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(", 3 denied"), "{said}");

    // With a configuration that decides otherwise, also without the cluster.
    let lenient = json!({"name": "operator-group", "mode": "warn", "limits": {"time": "20s"}});
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("lenient.yaml");
    fs::write(&config, configuration(&[builtin_policy(), lenient])).unwrap();
    let config = config.to_str().unwrap();
    let (code, said) = recording.run(&format!("replay --config {config} --verify-recorded rec"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("b/new: deny → allow"), "{said}");
    assert!(said.contains("# recorded with another configuration"), "{said}");
    assert!(said.contains("differently"), "{said}");
    let old = Path::new(config).with_file_name("old.yaml");
    fs::write(&old, policies()).unwrap();
    let (code, said) = recording.run(&format!("diff --reviews rec {} {config}", old.display()));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("reviews: 7 compared, 2 decided otherwise"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_are_repeated_with_the_configuration_that_decided_them() {
    let recording = Recording::new();
    let with_mode = |mode: &str| {
        let mut policy = builtin_policy();
        policy["mode"] = mode.into();
        configuration(&[policy])
    };
    let mut files = ConfigMap::new(&[("opgate.yaml", &with_mode("enforce"))]);
    let config = files.path("opgate.yaml");
    let flags = ["--config", config.to_str().unwrap(), "--reload-interval", "20ms"];
    let server = recording.serve(None, &flags);
    let bundle = || create_bundle("1", "b", &json!({"source": {"type": "image"}})).to_string();
    let is_allowed = async || {
        let mut client = server.connect().await;
        client.review(bundle()).await.unwrap().response()["allowed"] == true
    };
    assert!(!is_allowed().await);
    files.swap(&[("opgate.yaml", &with_mode("warn"))]);
    wait_until("the new configuration", async || is_allowed().await).await;
    stop(server);

    let headers = recording.lines().iter().filter(|line| line["kind"] == "Recording").count();
    assert_eq!(headers, 2);
    let (code, said) = recording.run("replay --verify-recorded rec");
    assert_eq!((code, said.contains(" 0 differently")), (Some(0), true), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_has_the_sampled_reviews_without_redacted_values() {
    let recording = Recording::new();
    let redact = ["--record-redact", "/metadata/annotations/*"];
    let server = recording.serve(None, &[&["--record-sample", "allowed=0"], &redact[..]].concat());
    let mut client = server.connect().await;
    for (number, spec) in [good_spec(), json!({"source": {"type": "image"}})].iter().enumerate() {
        let mut review = create_bundle(&number.to_string(), "b", spec);
        review["request"]["object"]["metadata"]["annotations"] = json!({"token": "of-jo"});
        // A text with line breaks is one line of the recording.
        let review = serde_json::to_string_pretty(&review).unwrap();
        client.review(review).await.unwrap();
    }
    stop(server);
    let reviews = recording.reviews();
    assert_eq!(reviews.len(), 1, "{reviews:?}");
    let object = &reviews[0]["review"]["request"]["object"];
    assert_eq!(object["metadata"]["annotations"], json!({"token": "redacted"}));
    assert_eq!(reviews[0]["answer"]["response"]["response"]["allowed"], false);
    let (code, said) = recording.run("replay --verify-recorded rec");
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_on_redacted_values_is_not_repeatable() {
    let recording = Recording::new();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let server = recording.serve(None, &["--record-redact", "/spec/source"]);
    let mut client = server.connect().await;
    let review = create_bundle("1", "b", &json!({"source": {"type": "of-jo"}})).to_string();
    // An object that the redaction cannot read is redacted as a whole.
    let deep = review.replacen("\"spec\"", &format!("\"status\":{deep},\"spec\""), 1);
    for review in [review, deep] {
        assert_eq!(client.review(review).await.unwrap().response()["allowed"], false);
    }
    stop(server);
    let objects: Vec<_> =
        recording.reviews().iter().map(|r| r["review"]["request"]["object"].clone()).collect();
    assert_eq!(objects[0]["spec"]["source"], "redacted");
    assert_eq!(objects[1], "redacted");
    let (code, said) = recording.run("replay --verify-recorded rec");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("# not repeatable: values are redacted"), "{said}");
    assert!(said.contains("0 decided as recorded, 0 differently, 2 not repeatable"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_in_the_url_decide_again() {
    let recording = Recording::new();
    let state = recording.0.path().join("state.json");
    let objects = [group("a", "first", &["a"], GOOSE_API)];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(&state, list.to_string()).unwrap();
    let state = ["--cluster-state", state.to_str().unwrap()];
    let server = recording.serve(Some(&policies()), &state);
    let mut client = server.connect().await;
    let review = create(&group("a", "second", &["a"], GOOSE_API), WriteMode::Persist);
    let mut decisions = Vec::new();
    for path in ["/validate", "/validate/bundle-immutability", "/validate/operator-group"] {
        let answer = client.post(path, "application/json", review.clone()).await.unwrap();
        decisions.push(answer.response()["allowed"].clone());
    }
    assert_eq!(decisions, [false, true, false]);
    stop(server);
    let (code, said) = recording.run("replay --verify-recorded rec");
    assert_eq!((code, said.contains("3 decided as recorded")), (Some(0), true), "{said}");
    let (_, said) = recording.run("replay --explain rec");
    assert!(said.contains("a recorded review, CREATE of"), "{said}");
    // A policy that the URL does not name has evaluated nothing.
    let reason = "not evaluated: no policy in the URL of the review matches CREATE of operators.";
    assert_eq!(said.matches(reason).count(), 1, "{said}");
    assert!(said.contains("2 denied, 0 errors, 1 not evaluated"), "{said}");
}

/// A server with files evaluates selectors of namespaces itself, and the recording has the labels that it used.
#[tokio::test(flavor = "multi_thread")]
async fn namespace_labels_of_a_decision_are_recorded() {
    let recording = Recording::new();
    let state = recording.0.path().join("state.json");
    let group_of = |name: &str| group(name, "first", &[name], GOOSE_API);
    let objects = [namespace("a"), namespace("b"), group_of("a"), group_of("b")];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(&state, list.to_string()).unwrap();
    let selecting = |team: &str| {
        let selector = json!({"matchLabels": {"team": team}});
        let limits = json!({"time": "20s"});
        configuration(&[json!({
            "name": "operator-group", "limits": limits, "match": {"namespaceSelector": selector},
        })])
    };
    let state = ["--cluster-state", state.to_str().unwrap()];
    let server = recording.serve(Some(&selecting("a")), &state);
    let mut client = server.connect().await;
    let mut allowed = Vec::new();
    for namespace in ["a", "b"] {
        let second = group(namespace, "second", &[namespace], GOOSE_API);
        let answer = client.review(create(&second, WriteMode::Persist)).await.unwrap();
        allowed.push(answer.response()["allowed"].clone());
    }
    assert_eq!(allowed, [false, true]);
    stop(server);
    let labels: Vec<_> = recording
        .reviews()
        .iter()
        .map(|review| review["namespaceLabels"]["team"].clone())
        .collect();
    assert_eq!(labels, ["a", "b"]);
    let (code, said) = recording.run("replay --verify-recorded rec");
    assert_eq!((code, said.contains("2 decided as recorded")), (Some(0), true), "{said}");
    // Another selector has an effect on the recorded labels.
    let other = recording.0.path().join("other.yaml");
    fs::write(&other, selecting("c")).unwrap();
    let line = format!("replay --config {} --verify-recorded rec", other.display());
    let (code, said) = recording.run(&line);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a/second: deny → allow") && !said.contains("b/second"), "{said}");
}

#[test]
fn configuration_of_a_recording_reads_no_files() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret.wasm"), "of an administrator").unwrap();
    let configuration = "{apiVersion: opgate.dev/v1alpha1, kind: Configuration, policies: [{name: p, module: secret.wasm}]}";
    let header = json!({
        "apiVersion": "opgate.dev/v1alpha1", "kind": "Recording", "version": "0.1.0", "digest": "",
        "configuration": configuration, "policies": [],
    });
    fs::write(directory.path().join("rec.jsonl"), format!("{header}\n")).unwrap();
    let output = command(directory.path(), &["replay", "rec.jsonl"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = err(&output);
    assert!(
        said.contains("policies that are not built in: p") && said.contains("--config"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_on_standard_output_is_not_compressed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rec.jsonl");
    let shell = format!("exec > {}", file.display());
    let arguments = ["--record", "-", "--drain-delay", "0s"];
    let server = Server::start_after(&shell, BINARY, None, &arguments);
    let mut client = server.connect().await;
    client.review(create_bundle("1", "b", &good_spec()).to_string()).await.unwrap();
    stop(server);
    let output =
        command(directory.path(), &["replay", "--verify-recorded", "rec.jsonl"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("1 decided as recorded, 0 differently"), "{}", err(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_standard_output_does_not_keep_the_server_from_ending() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe").display().to_string();
    // Nothing reads the pipe.
    let shell = format!("mkfifo {pipe}; exec 1<>{pipe}");
    let server =
        Server::start_after(&shell, BINARY, None, &["--record", "-", "--drain-delay", "0s"]);
    let mut client = server.connect().await;
    let mut review = create_bundle("1", "b", &good_spec());
    review["request"]["object"]["metadata"]["annotations"] = json!({"text": "x".repeat(1 << 20)});
    for _ in 0..3 {
        let answer = client.review(review.to_string()).await.unwrap();
        assert_eq!(answer.response()["allowed"], true);
    }
    stop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_of_a_killed_server_has_its_complete_lines() {
    let recording = Recording::new();
    let directory = recording.path();
    let mut server = Server::start(BINARY, None, &["--record", directory.to_str().unwrap()]);
    let mut client = server.connect().await;
    client.review(create_bundle("1", "b", &good_spec()).to_string()).await.unwrap();
    wait_until("the review in the file", async || !recording.reviews().is_empty()).await;
    server.signal(Signal::KILL);
    let _ = server.wait();
    let (code, said) = recording.run("replay --verify-recorded rec");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("it ends early") && said.contains("1 decided as recorded"), "{said}");
}

/// A recording of two reviews by a server with one policy, which reads nothing.
async fn record_two_reviews(recording: &Recording) {
    let server = recording.serve(Some(&configuration(&[builtin_policy()])), &[]);
    let mut client = server.connect().await;
    client.review(create_bundle("1", "b", &good_spec()).to_string()).await.unwrap();
    client.review(create(&group("a", "g", &["a"], ""), WriteMode::Persist)).await.unwrap();
    stop(server);
    assert_eq!(recording.reviews().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_files_with_the_lines_of_a_recording_are_read() {
    let recording = Recording::new();
    record_two_reviews(&recording).await;
    let file = fs::read_dir(recording.path()).unwrap().next().unwrap().unwrap().path();
    let compressed = fs::read(file).unwrap();
    let text = String::from_utf8(zstd::decode_all(&compressed[..]).unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    // As jq writes it.
    write("spaces.jsonl", text.replace("{\"", "{ \"").replace(",\"", ", \"").as_bytes());
    write("spaces.json", text.replace("{\"", "{\n \"").replace(",\"", ",\r\n \"").as_bytes());
    // A server still writes it.
    write("cut.jsonl", text.split_at(text.len() - 30).0.as_bytes());
    // The first file has nothing yet.
    write("two/recording-1.jsonl.zst", b"");
    write("two/recording-2.jsonl.zst", &compressed);
    write("damaged.jsonl.zst", &[&compressed[..], b"of another program"].concat());
    write("tail.jsonl", text.split_once('\n').unwrap().1.as_bytes());
    let whole = "2 decided as recorded, 0 differently";
    for (path, code, expected) in [
        ("spaces.jsonl", 0, [whole, ""]),
        ("spaces.json", 0, [whole, ""]),
        ("cut.jsonl", 0, ["1 decided as recorded, 0 differently", "cut.jsonl: it ends early"]),
        ("two", 0, [whole, "two/recording-1.jsonl.zst: it ends early"]),
        ("damaged.jsonl.zst", 2, [whole, "damaged.jsonl.zst: damaged: "]),
        ("tail.jsonl", 1, ["differently", "tail.jsonl:1: no line `Recording` before it"]),
    ] {
        let line = ["replay", "--verify-recorded", path];
        let output = command(directory.path(), &line).output().unwrap();
        let said = err(&output);
        assert_eq!(output.status.code(), Some(code), "{path}: {}{said}", out(&output));
        assert!(expected.iter().all(|text| said.contains(text)), "{path}: {said}");
        assert!(!said.contains("--max-input-size"), "{path}: {said}");
    }
    let output = command(directory.path(), &["check", "spaces.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("a line of a recording, not a manifest"), "{}", err(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_whose_reads_were_not_recorded_are_named() {
    let recording = Recording::new();
    record_two_reviews(&recording).await;
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, policies: &[Value]| {
        let path = directory.path().join(name);
        fs::write(&path, configuration(policies)).unwrap();
        path.display().to_string()
    };
    let groups = json!({"name": "operator-group", "limits": {"time": "20s"}});
    let old = write("old.yaml", &[builtin_policy()]);
    let new = write("new.yaml", &[builtin_policy(), groups]);
    for (line, expected) in [
        ("replay rec".to_owned(), false),
        (format!("replay --config {new} rec"), true),
        (format!("diff --fail-on never --reviews rec {old} {new}"), true),
        (format!("diff --fail-on never --reviews rec {old} {old}"), false),
    ] {
        let (code, said) = recording.run(&line);
        assert_eq!(code, Some(0), "{line}: {said}");
        let warning =
            "not evaluated: they read objects that the recording does not have rules=\"OPG-01";
        assert_eq!(said.contains(warning), expected, "{line}: {said}");
        assert_eq!(said.contains("reviews=1"), expected, "{line}: {said}");
    }
}

#[test]
fn recording_flags_without_effect_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::write(path("file"), "").unwrap();
    fs::create_dir(path("tls")).unwrap();
    let certs =
        command(directory.path(), &["certs", "issue", "--out", "tls", "--name", "localhost"]);
    assert!({ certs }.output().unwrap().status.success());
    for (flags, expected) in [
        ("--record file", "--record file: "),
        ("--record rec --record-sample OPG-99=1", "--record-sample opg-99: neither an outcome"),
        ("--record rec --record-sample allowed=2", "2 is not between 0 and 1"),
        ("--record rec --record-redact spec", "is not a JSON pointer"),
        ("--record rec --record-max-size 1Mi", "--record-max-size is less than 16Mi"),
        ("--record-sample allowed=1", "--record"),
    ] {
        let line = format!(
            "serve --tls-dir tls --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0 --cluster-source none {flags}"
        );
        let arguments: Vec<_> = line.split(' ').collect();
        let output = command(directory.path(), &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags}");
        assert!(err(&output).contains(expected), "{flags}: {}", err(&output));
    }
}

#[test]
fn broken_line_of_a_recording_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let head = r#""apiVersion":"opgate.dev/v1alpha1""#;
    let lines = format!(
        "{{{head},\"kind\":\"RecordedReview\",\"time\":\"\"}}\n{{{head},\"kind\":\"Recording\",\"version\":1}}\n"
    );
    fs::write(directory.path().join("rec.jsonl"), &lines).unwrap();
    let compressed = zstd::encode_all(lines.as_bytes(), 1).unwrap();
    fs::write(directory.path().join("rec.jsonl.zst"), &compressed).unwrap();
    fs::write(directory.path().join("no.zst"), "no zstd").unwrap();
    for (file, expected) in [
        ("rec.jsonl", "rec.jsonl:1: not a line of a recording: missing field `review`"),
        ("rec.jsonl.zst", "rec.jsonl.zst:2: not a line of a recording: invalid type: integer `1`"),
        ("no.zst", "no.zst: "),
    ] {
        let output = command(directory.path(), &["replay", file]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(err(&output).contains(expected), "{file}: {}", err(&output));
    }
    let run = |line: &str| {
        let arguments: Vec<_> = line.split(' ').collect();
        let output = command(directory.path(), &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        err(&output)
    };
    let said = run("replay --max-input-size 100 rec.jsonl.zst");
    assert!(said.contains("more than 100 bytes: allow more with --max-input-size"), "{said}");
    // A check that compares nothing must not pass.
    fs::write(directory.path().join("review.json"), recorded_review("006")).unwrap();
    let said = run("replay --verify-recorded review.json");
    assert!(said.contains("not of a recording"), "{said}");
}
