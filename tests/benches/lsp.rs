//! Measures the language server on many bundles with large ClusterServiceVersions:
//! `cargo bench -p opgate-tests --bench lsp`
//!
//! The benchmark writes bundles of one ClusterServiceVersion of 3,000 lines, without CRDs, to a temporary directory; every
//! tenth lacks an annotation. The baseline is `opgate check` of the same directory. The server gets the directory as its workspace, then
//! 200 keys in one of the texts, each after the findings of the one before, and in the end all at once.
//!
//! `OPGATE_LSP_BUNDLES` is the number of bundles (1,000).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::catalog::to_yaml;
use testkit::csv::{Shape, csv};
use testkit::editor::Editor;

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
const KEYS: usize = 200;
const FIX_ALLS: usize = 20;

/// 3,000 lines of YAML.
const SHAPE: Shape = Shape {
    apis: 22,
    descriptors: 13,
    deployments: 3,
    images: 40,
    rules: 40,
    webhooks: 6,
    icon: 12_000,
    description: 8_000,
};

const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: widget
  operators.operatorframework.io.bundle.channels.v1: stable
  operators.operatorframework.io.bundle.channel.default.v1: stable
";
/// What every tenth bundle lacks.
const MEDIA_TYPE: &str = "  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n";

/// Writes the bundles. Returns the ClusterServiceVersion of the first one.
fn write_bundles(root: &Path, count: usize) -> PathBuf {
    let mut object = csv(SHAPE, "");
    object["metadata"].as_object_mut().unwrap().remove("namespace");
    object["metadata"]["labels"] = json!({"operatorframework.io/arch.amd64": "supported"});
    for number in 0..count {
        let bundle = root.join(format!("bundle-{number:04}"));
        std::fs::create_dir_all(bundle.join("manifests")).unwrap();
        std::fs::create_dir_all(bundle.join("metadata")).unwrap();
        object["metadata"]["name"] = format!("widget-{number}.v1.4.2").into();
        std::fs::write(bundle.join("manifests/widget.csv.yaml"), to_yaml(&object)).unwrap();
        let annotations = match number % 10 {
            0 => ANNOTATIONS.replace(MEDIA_TYPE, ""),
            _ => ANNOTATIONS.to_owned(),
        };
        std::fs::write(bundle.join("metadata/annotations.yaml"), annotations).unwrap();
    }
    root.join("bundle-0000/manifests/widget.csv.yaml")
}

/// CPU seconds of a process so far.
fn cpu_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields = stat.rsplit(')').next()?.split_whitespace().skip(11).take(2);
    let ticks: Option<Vec<f64>> = fields.map(|field| field.parse().ok()).collect();
    Some(ticks?.iter().sum::<f64>() / 100.0)
}

/// Maximum resident memory of a process so far, in MiB.
fn peak_mib(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim_end_matches("kB").trim().parse::<f64>().ok()? / 1_024.0)
}

fn check(root: &Path) {
    let started = Instant::now();
    let mut child = Command::new(BINARY)
        .args(["check", "--output", "jsonl"])
        .arg(root)
        .env_remove("OPGATE_CONFIG")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut cpu, mut peak) = (0.0, 0.0);
    while child.try_wait().unwrap().is_none() {
        cpu = cpu_seconds(child.id()).unwrap_or(cpu);
        peak = peak_mib(child.id()).unwrap_or(peak);
        std::thread::sleep(Duration::from_millis(5));
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("opgate check: {seconds:.2} s, CPU {cpu:.2} s, {peak:.0} MiB");
}

/// Waits until the workspace is evaluated. Returns the number of files with the planted violation.
fn wait_checked(editor: &mut Editor, started: Instant) -> usize {
    let mut violating = 0;
    loop {
        let message = editor.receive(|message| {
            message["method"] == "textDocument/publishDiagnostics"
                || message["method"] == "window/logMessage"
        });
        let text = message["params"]["message"].as_str().unwrap_or_default();
        if !text.is_empty() {
            let seconds = started.elapsed().as_secs_f64();
            let cpu = cpu_seconds(editor.process()).unwrap();
            let peak = peak_mib(editor.process()).unwrap();
            println!("opgate lsp: {text}: {seconds:.2} s, CPU {cpu:.2} s, {peak:.0} MiB");
        }
        if text.starts_with("checked") {
            return violating;
        }
        let found = message["params"]["diagnostics"].as_array().map_or(&[][..], Vec::as_slice);
        violating += usize::from(found.iter().any(|finding| finding["code"] == "RBF-03"));
    }
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |permille: usize| times[(times.len() - 1) * permille / 1_000].as_secs_f64() * 1_000.0;
    format!("p50 {:.1} ms, p99 {:.1} ms, maximum {:.1} ms", at(500), at(990), at(1_000))
}

/// A key at the end of the line with the description of the capability.
fn key(text: &str, typed: usize) -> Value {
    let line = text.lines().position(|line| line.contains("description: Creates")).unwrap();
    let end = text.lines().nth(line).unwrap().len() + typed;
    let position = json!({"line": line, "character": end});
    json!([{"range": {"start": position, "end": position}, "text": "x"}])
}

fn keys(editor: &mut Editor, path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let uri = format!("file://{}", path.display());
    editor.open_text(&uri, &text);
    editor.findings(&uri, 1);
    let mut times = Vec::new();
    for typed in 0..KEYS {
        let started = Instant::now();
        editor.change(&uri, typed + 2, &key(&text, typed));
        editor.findings(&uri, i64::try_from(typed + 2).unwrap());
        times.push(started.elapsed());
    }
    let lines = text.lines().count();
    println!("findings after a key in {lines} lines: {}", percentiles(times));
    let started = Instant::now();
    for typed in KEYS..2 * KEYS {
        editor.change(&uri, typed + 2, &key(&text, typed));
    }
    editor.findings(&uri, i64::try_from(2 * KEYS + 1).unwrap());
    let all = started.elapsed().as_secs_f64() * 1_000.0;
    println!("findings after {KEYS} keys at once: {all:.0} ms");
}

fn fixes(editor: &mut Editor, path: &Path) {
    let uri = format!("file://{}", path.display());
    editor.open_text(&uri, &std::fs::read_to_string(path).unwrap());
    editor.findings(&uri, 1);
    let mut times = Vec::new();
    for _ in 0..FIX_ALLS {
        let started = Instant::now();
        let actions = editor.fix_all(&uri);
        times.push(started.elapsed());
        assert!(actions[0]["edit"].to_string().contains("mediatype"), "{actions}");
    }
    println!("all safe fixes of annotations.yaml of this bundle: {}", percentiles(times));
}

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let count = std::env::var("OPGATE_LSP_BUNDLES").ok().and_then(|text| text.parse().ok());
    let count = count.unwrap_or(1_000);
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let path = write_bundles(&root, count);
    let bytes = std::fs::metadata(&path).unwrap().len() / 1_000;
    println!("{count} bundles, each with a ClusterServiceVersion of {bytes} KB");
    // The first run also compiles the policies and reads the files from disk.
    check(&root);
    for _ in 0..2 {
        check(&root);
        let started = Instant::now();
        let mut editor = Editor::open(BINARY, &root);
        let violating = wait_checked(&mut editor, started);
        assert_eq!(violating, count.div_ceil(10));
        keys(&mut editor, &path);
        fixes(&mut editor, &path.parent().unwrap().with_file_name("metadata/annotations.yaml"));
        let peak = peak_mib(editor.process()).unwrap();
        println!("opgate lsp: {peak:.0} MiB in the end");
        assert_eq!(editor.end(), Some(0));
    }
}
