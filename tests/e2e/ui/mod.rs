//! `opgate ui`: the page on the loopback interface for Operator and policy authors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::BINARY;

const BUNDLE: &str = "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata:\n  name: x\nspec:\n  provisionerClassName: core-rukpak-io-plain\n  source:\n    type: image\n";

/// A running command.
struct Page {
    child: Child,
    /// `127.0.0.1:PORT`
    address: String,
    token: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A response with its status and body.
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with_temporary(arguments, &std::env::temp_dir())
    }

    /// Starts the command with this directory for temporary files.
    fn start_with_temporary(arguments: &[&str], temporary: &Path) -> Self {
        let mut child = Command::new(BINARY)
            .args(["ui", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .env_remove("OPGATE_CONFIG")
            .env("TMPDIR", temporary)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        let mut page = Self { child, address, token: String::new() };
        let form = page.get("/").body;
        let (_, rest) = form.split_once("name=\"token\" value=\"").unwrap();
        rest.split('"').next().unwrap().clone_into(&mut page.token);
        page
    }

    fn send(&self, head: &str, body: &str) -> Response {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        // The server can respond before it has read everything.
        let _ = stream.write_all(body.as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Response {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", self.address), "")
    }

    /// Sends an input with the token of the page, as a browser without JavaScript does.
    fn evaluate(&self, fields: &[(&str, &str)]) -> Response {
        let token = [("token", self.token.as_str())];
        self.post(&form(&[&token, fields].concat()), "")
    }

    /// Sends a body with these additional header lines.
    fn post(&self, body: &str, lines: &str) -> Response {
        let kind = "Content-Type: multipart/form-data; boundary=XX\r\n";
        self.send(&format!("POST / HTTP/1.1\r\nHost: {}\r\n{kind}{lines}", self.address), body)
    }
}

/// A body; the name of a field is `NAME` or `NAME/PATH` for a file.
fn form(fields: &[(&str, &str)]) -> String {
    let part = |(name, content): &(&str, &str)| {
        let name = match name.split_once('/') {
            Some((name, path)) => format!("\"{name}\"; filename=\"{path}\""),
            None => format!("\"{name}\""),
        };
        format!("--XX\r\nContent-Disposition: form-data; name={name}\r\n\r\n{content}\r\n")
    };
    fields.iter().map(part).chain(["--XX--\r\n".to_owned()]).collect()
}

#[test]
fn manifest_is_evaluated_with_marked_locations() {
    let page = Page::start(&[]);
    let response = page.evaluate(&[("text", BUNDLE)]);
    assert_eq!(response.status, 200, "{}", response.body);
    for expected in [
        "Result: 0 passed, 1 denied",
        "<a href=\"rules/RPK-02\">RPK-02</a>",
        "<span class=\"count\">7</span>    <mark>source:</mark>",
        "bundle.spec.source.image must be set for source type &quot;image&quot;",
        "pasted.yaml:7:3",
        "<h4>Fix</h4>",
        // The page has the text for the next attempt.
        "kind: Bundle",
    ] {
        assert!(response.body.contains(expected), "{expected}: {}", response.body);
    }
    assert!(!response.body.contains("/tmp/"), "{}", response.body);
    let rule = page.get("/rules/RPK-02");
    assert!(rule.status == 200 && rule.body.contains("<h1>RPK-02</h1>"), "{}", rule.body);
    let good = BUNDLE.replace("type: image", "type: image\n    image:\n      ref: quay.io/a/b@sha256:e4b3e8c5a5b0e9c4d6f0a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abc");
    let response = page.evaluate(&[("text", &good)]);
    assert!(response.body.contains("0 denied"), "{}", response.body);
}

#[test]
fn files_are_evaluated_by_their_paths() {
    let page = Page::start(&[]);
    let files = [
        ("files/my-bundle/manifests/bundle.yaml", BUNDLE),
        ("files/my-bundle/manifests/broken.yaml", "a: [\n"),
    ];
    let response = page.evaluate(&files);
    assert_eq!(response.status, 200, "{}", response.body);
    for expected in
        ["PlainBundle", "my-bundle/manifests/bundle.yaml:7:3", "my-bundle/manifests/broken.yaml"]
    {
        assert!(response.body.contains(expected), "{expected}: {}", response.body);
    }
    assert!(!response.body.contains("opgate-ui-"), "{}", response.body);
}

#[test]
fn recorded_review_is_evaluated() {
    let page = Page::start(&[]);
    let review = testkit::recorded_review("007-update-bundles-combo-tag-ref");
    let response = page.evaluate(&[("text", &review)]);
    assert_eq!(response.status, 200, "{}", response.body);
    assert!(
        response.body.contains("RPK-01") && response.body.contains("1 denied"),
        "{}",
        response.body
    );
}

#[test]
fn profile_and_cluster_state_change_the_result() {
    let page = Page::start(&[]);
    let group = "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata:\n  name: second\n  namespace: metrics\nspec:\n  targetNamespaces: [monitoring]\n";
    let state = include_str!("../../context/demo.json");
    let alone = page.evaluate(&[("text", group)]);
    assert!(alone.body.contains("they need other objects of a cluster"), "{}", alone.body);
    let together = page.evaluate(&[("text", group), ("state", state)]);
    assert!(together.body.contains("1 denied"), "{}", together.body);
    // Nothing of one evaluation is left for the next.
    assert_eq!(page.evaluate(&[("text", group)]).body, alone.body);
    let upstream = page.evaluate(&[("text", group), ("profile", "upstream")]);
    assert!(upstream.body.contains("value=\"upstream\" selected"), "{}", upstream.body);
    let broken = page.evaluate(&[("text", group), ("state", "a: [")]);
    assert_eq!(broken.status, 422, "{}", broken.body);
    assert!(
        broken.body.contains("Not evaluated") && broken.body.contains("cluster-state.yaml:"),
        "{}",
        broken.body
    );
    assert!(!broken.body.contains("opgate-ui-"), "{}", broken.body);
}

#[test]
fn other_websites_cannot_use_the_page() {
    let page = Page::start(&[]);
    let own = form(&[("token", &page.token), ("text", BUNDLE)]);
    let foreign = form(&[("token", "0"), ("text", BUNDLE)]);
    let origin = format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", page.address);
    assert_eq!(page.post(&own, &origin).status, 200);
    for (body, lines, status) in [
        (&foreign, origin.as_str(), 400),
        (&own, "Origin: http://evil.example\r\n", 403),
        (&own, "Origin: null\r\n", 403),
        (&own, "Sec-Fetch-Site: cross-site\r\n", 403),
    ] {
        let response = page.post(body, lines);
        assert_eq!(response.status, status, "{lines}: {}", response.body);
        assert!(!response.body.contains("Result:"), "{}", response.body);
    }
    let head = format!("POST /?fragment HTTP/1.1\r\nHost: {}\r\nOrigin: null\r\n", page.address);
    let fragment = page.send(&head, "");
    assert_eq!(fragment.status, 403);
    assert!(fragment.body.contains("id=\"outcome\"") && !fragment.body.contains(&page.token));
    for path in ["/", "/rules", "/rules/RPK-01", "/x"] {
        let response = page.send(&format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n"), "");
        assert_eq!(response.status, 421, "{path}");
        assert!(!response.body.contains(&page.token), "{}", response.body);
    }
    let response = page.get("/");
    assert!(response.head.contains("frame-ancestors 'none'"), "{}", response.head);
    assert!(!response.head.contains("access-control"), "{}", response.head);
}

#[test]
fn invalid_input_is_an_error_that_names_it() {
    let page = Page::start(&[]);
    let deep = format!("files/{}a", "d/".repeat(20));
    for (fields, expected) in [
        (&[][..], "there is nothing to evaluate"),
        (&[("text", BUNDLE), ("files/a.yaml", BUNDLE)], "there is a text and there are files"),
        (&[("files/../../etc/cron.d/x", BUNDLE)], "../../etc/cron.d/x is no path"),
        (&[("files//etc/x", BUNDLE)], "/etc/x is no path"),
        (&[(&*deep, BUNDLE)], "is no path"),
        (&[("text", BUNDLE), ("profile", "<b>")], "&lt;b&gt; is not a profile"),
    ] {
        let response = page.evaluate(fields);
        assert_eq!(response.status, 400, "{}", response.body);
        assert!(response.body.contains(expected), "{expected}: {}", response.body);
    }
    let large = page.evaluate(&[("text", &"a".repeat(33 << 20))]);
    assert!(large.status == 413 && large.body.contains("opgate check"), "{}", large.body);
    // Its characters have six bytes each on the page.
    let quotes = page.evaluate(&[("text", &"\"".repeat(2 << 20))]);
    assert_eq!(quotes.status, 200);
    assert!(quotes.body.contains("is too large to be repeated"), "{}", quotes.body);
    let text = page.evaluate(&[("text", "<script>alert(1)</script>: [\u{202e}")]);
    assert!(!text.body.contains("<script>alert") && text.status == 200, "{}", text.body);
}

#[test]
fn two_files_with_one_name_are_an_error() {
    let page = Page::start(&[]);
    let response =
        page.evaluate(&[("files/a.yaml", BUNDLE), ("files/a.yaml", "kind: ConfigMap\n")]);
    assert_eq!(response.status, 422, "{}", response.body);
    assert!(response.body.contains("two files are named a.yaml"), "{}", response.body);
}

/// Waits until a directory for temporary files has inputs, and returns their number.
fn wait_for_inputs(directory: &Path) -> usize {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        match count_inputs(directory) {
            0 => std::thread::yield_now(),
            count => return count,
        }
    }
    0
}

fn count_inputs(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("opgate-ui-")).count()
}

#[test]
fn signal_during_an_evaluation_removes_its_input() {
    // The evaluation takes longer than the end of the command.
    let long = format!("{BUNDLE}---\n").repeat(20_000);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let temporary = tempfile::tempdir().unwrap();
        let mut page = Page::start_with_temporary(&[], temporary.path());
        let body = form(&[("token", &page.token), ("text", &long)]);
        let mut stream = TcpStream::connect(&page.address).unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nContent-Type: multipart/form-data; boundary=XX\r\n",
            page.address
        );
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        assert_eq!(wait_for_inputs(temporary.path()), 1);
        let id = Pid::from_raw(page.child.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
        let status = page.child.wait().unwrap();
        assert_eq!((status.code(), count_inputs(temporary.path())), (Some(0), 0), "{signal:?}");
    }
}

#[test]
fn page_is_served_on_the_loopback_interface_only() {
    for address in ["0.0.0.0:0", "[::]:0", "10.0.0.1:80"] {
        let output = Command::new(BINARY).args(["ui", "--listen", address]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{address}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("is not a loopback address"), "{error}");
    }
}
