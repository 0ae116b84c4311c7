//! `opgate serve --ui`: the page for administrators on the ops port.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::{
    Client, Server, builtin_policy, configuration, create_bundle, good_spec, misbehaves,
    recorded_review,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::BINARY;

const MAX_PAGE_BYTES: usize = 512 << 10;

/// A response of the ops port.
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

async fn send(server: &Server, method: &str, path: &str) -> Response {
    send_to(server, "Host: localhost:8081\r\n", method, path).await
}

/// Sends a request with these header lines.
async fn send_to(server: &Server, lines: &str, method: &str, path: &str) -> Response {
    let mut stream = TcpStream::connect(server.ops).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// The body of a page.
async fn page(server: &Server, path: &str) -> String {
    let response = send(server, "GET", path).await;
    assert_eq!(response.status, 200, "{path}: {}", response.body);
    assert!(response.body.len() <= MAX_PAGE_BYTES, "{path}: {} bytes", response.body.len());
    response.body
}

/// A review of a Bundle without an image, which RPK-03 or another rule denies.
fn denied_review(namespace: &str, name: &str) -> Value {
    let mut review = create_bundle("u", name, &json!({"source": {"type": "image"}}));
    review["request"]["namespace"] = namespace.into();
    review
}

async fn deny(client: &mut Client, namespace: &str, name: &str) {
    let answer = client.review(denied_review(namespace, name).to_string()).await.unwrap();
    assert_eq!(answer.response()["allowed"], false, "{}", answer.body);
}

#[tokio::test]
async fn page_is_absent_without_the_flag() {
    let server = Server::start(BINARY, None, &[]);
    for path in ["/ui", "/ui/", "/ui/rules", "/ui/rules/RPK-01", "/ui/?fragment"] {
        let response = send(&server, "GET", path).await;
        assert_eq!(response.status, 404, "{path}");
        assert!(!response.body.contains("/ui/"), "{}", response.body);
    }
}

#[tokio::test]
async fn denial_is_on_the_page_with_its_rule() {
    let server = Server::start(BINARY, None, &["--ui"]);
    let empty = page(&server, "/ui/").await;
    assert!(empty.contains("No policy has reported a violation"), "{empty}");
    assert!(empty.contains("bundle-immutability") && empty.contains("builtin"), "{empty}");
    let mut client = server.connect().await;
    let allowed = create_bundle("u", "harmless", &good_spec());
    let answer = client.review(allowed.to_string()).await.unwrap();
    assert_eq!(answer.response()["allowed"], true, "{}", answer.body);
    deny(&mut client, "team-a", "my-bundle").await;
    let answer = client.review(denied_review("team-a", "my-bundle").to_string()).await.unwrap();
    let rule = answer.response()["status"]["details"]["causes"][0].clone();
    let (id, message) = (rule["reason"].as_str().unwrap(), rule["message"].as_str().unwrap());

    let whole = page(&server, "/ui/").await;
    let fragment = page(&server, "/ui/?fragment").await;
    assert!(whole.contains("<main") && whole.contains("<script>"), "{whole}");
    assert!(fragment.starts_with("<h1>") && !fragment.contains("<main"), "{fragment}");
    for text in [&whole, &fragment] {
        let message = message.replace('"', "&quot;");
        for expected in [
            "team-a/my-bundle",
            "CREATE core.rukpak.io/v1alpha1/bundles",
            "<td class=\"text\">admin</td>",
            "<span class=\"deny\">denied</span>",
            "3 with status 200",
            &*format!("<a href=\"rules/{id}\">{id}</a>"),
            &*message,
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("harmless"), "{text}");
    }
    // The link of the denial.
    let rule = page(&server, &format!("/ui/rules/{id}")).await;
    assert!(rule.contains(&format!("opgate rules explain {id}")), "{rule}");
}

#[tokio::test]
async fn page_is_served_only_by_its_names() {
    let server = Server::start(BINARY, None, &["--ui", "--ui-host", "opgate.example.com"]);
    let port = server.ops.port();
    for (lines, expected) in [
        (format!("Host: 127.0.0.1:{port}\r\n"), 200),
        ("Host: localhost\r\n".to_owned(), 200),
        ("Host: [::1]:8081\r\n".to_owned(), 200),
        ("Host: Opgate.Example.com:8081\r\n".to_owned(), 200),
        // A website whose name resolves to the address of a port-forward.
        (format!("Host: rebinding.example:{port}\r\n"), 421),
        ("Host: localhost.rebinding.example\r\n".to_owned(), 421),
        ("Host: <b>\r\n".to_owned(), 421),
        ("Host: localhost\r\nHost: rebinding.example\r\n".to_owned(), 421),
    ] {
        for path in ["/ui/", "/ui/?fragment", "/ui/rules", "/ui/rules/RPK-01"] {
            let response = send_to(&server, &lines, "GET", path).await;
            assert_eq!(response.status, expected, "{lines:?} {path}: {}", response.body);
            assert!(!response.body.contains("<b>"), "{}", response.body);
            let has_rules = response.body.contains("RPK-01") || path == "/ui/?fragment";
            assert!(expected == 421 || has_rules || path == "/ui/", "{path}: {}", response.body);
            assert_eq!(
                expected == 421,
                response.body.contains("Host header") || response.body.contains("--ui-host")
            );
        }
        // Only the page can be read by a browser: metrics are scraped by any name.
        let response =
            send_to(&server, &lines.replace("Host: localhost\r\nHost", "Host"), "GET", "/livez")
                .await;
        assert_eq!(response.status, 200, "{lines:?}");
    }
}

#[tokio::test]
async fn denials_have_remediations_and_the_objects_that_were_read() {
    let group = recorded_review("016-create-operatorgroups-cluster-monitoring");
    let state = concat!(env!("CARGO_MANIFEST_DIR"), "/context/demo.json");
    let limits = json!({"time": "20s"});
    let groups = json!({"name": "operator-group", "limits": limits});
    let text = configuration(&[builtin_policy(), groups]);
    let server = Server::start(BINARY, Some(&text), &["--ui", "--cluster-state", state]);
    let mut client = server.connect().await;
    let answer = client.review(group).await.unwrap();
    assert_eq!(answer.response()["allowed"], false, "{}", answer.body);
    deny(&mut client, "team-a", "my-bundle").await;
    let text = page(&server, "/ui/").await;
    let rows: Vec<_> = text.split("<tr>").filter(|row| row.contains("denied</span>")).collect();
    let [bundle, group] = rows[..] else { panic!("{rows:?}") };
    assert!(group.contains("of operators.coreos.com/v1/operatorgroups"), "{group}");
    assert!(bundle.contains("<p class=\"fix\">Fix: ") && bundle.contains("<td>–</td>"), "{bundle}");
}

#[tokio::test]
async fn names_of_objects_are_escaped() {
    let server = Server::start(BINARY, None, &["--ui"]);
    let mut client = server.connect().await;
    let name = "<script>alert(1)</script>\"'&\u{202e}\u{1b}[31m\u{0}";
    deny(&mut client, "<b>", name).await;
    // A megabyte of text is shortened.
    deny(&mut client, "team-a", &"\u{200b}<".repeat(200_000)).await;
    for path in ["/ui/", "/ui/?fragment", "/ui/rules?q=%3Cb%3E%22%E2%80%AE"] {
        let text = page(&server, path).await;
        assert!(!text.contains("<script>alert") && !text.contains("<b>"), "{text}");
        let is_hidden = |c: char| c.is_control() && c != '\n' || "\u{200b}\u{202e}".contains(c);
        assert!(!text.contains(is_hidden), "{path}: {text:?}");
    }
    let text = page(&server, "/ui/").await;
    let shown =
        "&lt;b&gt;/&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;\\u{202e}\\u{1b}[31m\\u{0}";
    assert!(text.contains(shown), "{text}");
}

#[tokio::test]
async fn headers_restrict_the_page() {
    let server = Server::start(BINARY, None, &["--ui"]);
    for (path, status) in [
        ("/ui/", 200),
        ("/ui/?fragment", 200),
        ("/ui/rules", 200),
        ("/ui/rules/RPK-01", 200),
        ("/ui/rules/RPK-999", 404),
        ("/ui/rules/%3Cb%3E", 404),
    ] {
        let response = send(&server, "GET", path).await;
        assert_eq!(response.status, status, "{path}");
        for (header, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(response.header(header), value, "{path}");
        }
        let policy = response.header("content-security-policy");
        let (start, rest) = policy.split_once("; style-src 'sha256-").unwrap();
        assert_eq!(start, "default-src 'none'");
        assert!(rest.contains("'; script-src 'sha256-"), "{policy}");
        let end = "; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
        assert!(rest.ends_with(end), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(!response.body.contains(" style=") && !response.body.contains(" onclick="));
    }
    let response = send(&server, "HEAD", "/ui/").await;
    assert_eq!((response.status, response.body.as_str()), (200, ""));
    for method in ["POST", "PUT", "DELETE"] {
        for path in ["/ui/", "/ui/rules", "/ui/rules/RPK-01"] {
            let response = send(&server, method, path).await;
            assert_eq!(
                (response.status, response.header("allow")),
                (405, "get,head"),
                "{method} {path}"
            );
        }
    }
}

#[tokio::test]
async fn security_policy_allows_the_style_and_the_script_of_the_page() {
    let server = Server::start(BINARY, None, &["--ui"]);
    let response = send(&server, "GET", "/ui/").await;
    for element in ["style", "script"] {
        let (_, rest) = response.body.split_once(&format!("<{element}>")).unwrap();
        let (text, rest) = rest.split_once(&format!("</{element}>")).unwrap();
        assert!(!rest.contains(&format!("<{element}")), "one {element}");
        let hash = STANDARD.encode(digest(&SHA256, text.as_bytes()));
        // The test has the head in lower case.
        let source = format!("{element}-src 'sha256-{}';", hash.to_lowercase());
        let policy = response.header("content-security-policy");
        assert!(policy.contains(&source), "{source}: {policy}");
    }
}

#[tokio::test]
async fn flood_of_one_namespace_hides_no_denial_of_another() {
    let server = Server::start(BINARY, None, &["--ui"]);
    let mut client = server.connect().await;
    deny(&mut client, "quiet", "early").await;
    for number in 0..400 {
        deny(&mut client, "loud", &format!("bundle-{number}")).await;
    }
    let text = page(&server, "/ui/").await;
    assert!(text.contains("quiet/early"), "{text}");
    assert!(text.contains("loud/bundle-399") && !text.contains("loud/bundle-0<"), "{text}");
    let shown = text.matches("loud/bundle-").count();
    assert!((20..=110).contains(&shown), "{shown}");
    // Counts have all of them.
    let row =
        "<th scope=\"row\"><span class=\"text\">loud</span></th><td class=\"number\">400</td>";
    assert!(text.contains(row), "{text}");
}

#[tokio::test]
async fn page_with_many_hostile_names_is_bounded() {
    let server = Server::start(BINARY, None, &["--ui"]);
    let mut client = server.connect().await;
    for number in 0..300 {
        let namespace = format!("{number}{}", "\"".repeat(2_000));
        deny(&mut client, &namespace, &"&".repeat(2_000)).await;
    }
    deny(&mut client, "quiet", "late").await;
    // `page` tests the size.
    for path in ["/ui/", "/ui/?fragment"] {
        let text = page(&server, path).await;
        assert!(text.contains("quiet/late") && text.contains("reviews are shown"), "{text}");
    }
}

#[tokio::test]
async fn rules_are_listed_searched_and_documented() {
    let mut text: Value = serde_json::from_str(&configuration(&[builtin_policy()])).unwrap();
    text["docsUrl"] = "https://docs.example.com/rules".into();
    let server = Server::start(BINARY, Some(&text.to_string()), &["--ui"]);
    let list = page(&server, "/ui/rules").await;
    let rows = |text: &str| text.matches("<tr><th scope=\"row\">").count();
    assert!(rows(&list) > 20 && list.contains("href=\"rules/RPK-01\""), "{list}");
    let found = page(&server, "/ui/rules?q=rpk-01").await;
    assert_eq!(rows(&found), 1, "{found}");
    assert!(found.contains("value=\"rpk-01\""), "{found}");
    let bundles = page(&server, "/ui/rules?kind=BundleDeployment").await;
    assert!((2..rows(&list)).contains(&rows(&bundles)), "{bundles}");
    assert!(bundles.contains("<option value=\"BundleDeployment\" selected>"), "{bundles}");
    let chapter = "OCP+4.12%3A+Chapter+2.+Understanding+Operators";
    let of_chapter = page(&server, &format!("/ui/rules?chapter={chapter}&q=RPK-01")).await;
    assert_eq!(rows(&of_chapter), 1, "{of_chapter}");
    assert_eq!(rows(&page(&server, "/ui/rules?kind=x&chapter=x").await), 0);
    let none = page(&server, "/ui/rules?q=no+such%20rule").await;
    assert!(none.contains("No rule matches the search.") && none.contains("no such rule"));

    let rule = page(&server, "/ui/rules/RPK-01").await;
    for expected in [
        "<h1>RPK-01</h1>",
        "<dd>bundle-immutability (enforce)</dd>",
        "(default: deny)",
        "href=\"https://docs.example.com/rules/bundle-immutability.md#rpk-01\"",
        "<h3>Remediation</h3>",
        "OCP 4.12: Chapter 2. Understanding Operators</a> › Operator Framework packaging format",
        "<a href=\"../\"",
    ] {
        assert!(rule.contains(expected), "{expected}: {rule}");
    }
    let unknown = send(&server, "GET", "/ui/rules/RPK-999").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("No active policy has a rule"), "{}", unknown.body);
}

#[tokio::test]
async fn broken_policies_and_policy_errors_are_shown() {
    let broken = json!({"name": "absent", "module": "absent.wasm"});
    let failing = misbehaves("evil", &json!({"do": "panic"}));
    let text = configuration(&[builtin_policy(), failing, broken]);
    let server = Server::start(BINARY, Some(&text), &["--ui"]);
    let mut client = server.connect().await;
    let review = create_bundle("u", "victim", &good_spec());
    let answer = client.review(review.to_string()).await.unwrap();
    assert_eq!(answer.status, 500, "{}", answer.body);
    let text = page(&server, "/ui/").await;
    for expected in ["1 broken", "1 with status 500", "victim", "policy error</span> absent"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let position = |name: &str| text.find(&format!("<th scope=\"row\">{name}</th>")).unwrap();
    assert!(position("absent") < position("evil"), "{text}");
    assert!(position("evil") < position("bundle-immutability"), "{text}");
}
