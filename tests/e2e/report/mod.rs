//! The HTML page of a check, of a replay and of an audit, and `opgate report`, which makes it from a stored result.

mod page;

use std::collections::BTreeSet;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::page::Page;
use crate::check::{BUNDLE_WITHOUT_CLASS, check, directory, err, out, rules, violations, write};
use crate::cli::{self, opgate, opgate_with_input};

/// A Bundle whose name and tag are markup.
const HOSTILE_BUNDLE: &str = "apiVersion: core.rukpak.io/v1alpha1
kind: Bundle
metadata:
  name: \"<script>alert(1)</script>\"
spec:
  provisionerClassName: core-rukpak-io-plain
  source:
    type: git
    git:
      repository: https://example.com/x
      ref: {tag: \"\\\"><img src=x onerror=alert(2)>&amp;\"}
";

/// Two objects of which rules need a decision of both, and one that passes, as `kubectl get` prints them.
const DUMP: &str = "apiVersion: v1
kind: List
items:
- apiVersion: operators.coreos.com/v1
  kind: OperatorGroup
  metadata: {name: g1, namespace: one, uid: b1, resourceVersion: \"1\"}
- apiVersion: operators.coreos.com/v1
  kind: OperatorGroup
  metadata: {name: g2, namespace: one, uid: b2, resourceVersion: \"1\"}
- apiVersion: operators.coreos.com/v1
  kind: OperatorGroup
  metadata: {name: g1, namespace: two, uid: b3, resourceVersion: \"1\"}
";

/// The page of a check, with its source.
fn page_of_check(directory: &TempDir, arguments: &[&str]) -> (String, Page) {
    let html = out(&check(directory, &[&["-o", "html"], arguments].concat()));
    let page = Page::parse(&html);
    (html, page)
}

/// Every violation of JSON records is on the page, in one piece: effect, rule, message, field, location.
fn assert_shows_violations(page: &Page, records: &[Value]) {
    let all: Vec<_> = records.iter().flat_map(violations).collect();
    assert!(!all.is_empty());
    for violation in all {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut expected =
            ["effect", "rule", "message"].map(|name| text(&violation[name])).to_vec();
        let mut add = |label: &str, value: String| {
            if !value.is_empty() {
                expected.extend([label.to_owned(), value]);
            }
        };
        add("Field", text(&violation["field"]));
        if let Some(at) = violation.get("location") {
            add("Location", format!("{}:{}:{}", text(&at["file"]), at["line"], at["column"]));
        }
        let is_shown = page.lines.windows(expected.len()).any(|lines| lines == expected);
        assert!(is_shown, "{violation}\nis not in\n{:#?}", page.lines);
    }
}

#[test]
fn page_shows_violations_with_locations_and_remediation() {
    let directory = directory();
    let paths = ["bundle-broken", "catalog-broken", "good.yaml"];
    let (html, page) = page_of_check(&directory, &paths);
    let records = out(&check(&directory, &[&["-o", "json"], &paths[..]].concat()));
    let records: Vec<Value> = serde_json::from_str(&records).unwrap();
    assert_shows_violations(&page, &records);
    assert_eq!(page.line_behind("Denied"), "3");
    assert_eq!(page.line_behind("Passed"), "1");
    assert!(page.has_line("Evaluated: bundle-broken, catalog-broken, good.yaml"));
    // The line of the file with a mark at the column, and the remediation.
    let line = "<pre><span class=\"muted\">2 | </span><mark>k</mark>ind: Lease</pre>";
    assert!(html.contains(line), "{html}");
    assert_eq!(page.line_behind("Remediation"), "CSV-06");
    let broken: BTreeSet<_> = records.iter().flat_map(rules).collect();
    assert_eq!(page.lines.iter().filter(|line| *line == "Fix").count(), broken.len());
    // Passed objects are in a list that is closed at first.
    assert!(page.all("details").all(|details| details.attribute("open").is_none()));
    assert_eq!(page.line_behind("1 passed"), "Bundle good");
    let again = out(&check(&directory, &[&["-o", "html"], &paths[..]].concat()));
    assert_eq!(again, html);
}

#[test]
fn page_links_rules_to_their_documentation() {
    let directory = directory();
    let header = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    let url = "https://docs.example.com/rules";
    write(&directory, "opgate.yaml", format!("{header}docsUrl: {url}\n"));
    for (arguments, prefix) in [
        (&["bundle-broken"][..], "#rule-"),
        (&["--config", "opgate.yaml", "bundle-broken"], "https://docs.example.com/rules/"),
    ] {
        let (html, page) = page_of_check(&directory, arguments);
        let ids: BTreeSet<_> = page.elements.iter().filter_map(|e| e.attribute("id")).collect();
        let links: Vec<_> = page.all("a").map(|a| a.attribute("href").unwrap()).collect();
        assert!(!links.is_empty() && links.iter().all(|link| link.starts_with(prefix)), "{html}");
        let local = links.iter().filter_map(|link| link.strip_prefix('#'));
        local.for_each(|id| assert!(ids.contains(id), "{id}"));
    }
    let (html, _) = page_of_check(&directory, &["--config", "opgate.yaml", "bundle-broken"]);
    let link = format!("<a href=\"{url}/registry-bundle.md#rbf-10\">RBF-10</a>");
    assert!(html.contains(&link), "{html}");
}

#[test]
fn text_of_objects_is_never_markup() {
    let directory = directory();
    write(&directory, "x/a & <b>\u{200e}.yaml", HOSTILE_BUNDLE);
    let (html, page) = page_of_check(&directory, &["x"]);
    for name in ["script", "img", "b"] {
        assert_eq!(page.all(name).count(), 0, "{html}");
    }
    let hidden = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{200e}".contains(c);
    assert!(!html.contains(hidden), "{html:?}");
    assert!(page.has_line("Bundle <script>alert(1)</script>"), "{:#?}", page.lines);
    assert!(page.lines.iter().any(|line| line.starts_with("x/a & <b>\\u{200e}.yaml")), "{html}");
    let message = page.lines.iter().find(|line| line.contains("<img src=x"));
    let message = message.unwrap_or_else(|| panic!("{:#?}", page.lines));
    assert!(message.contains("><img src=x onerror=alert(2)>&amp;"), "{message}");
}

/// A browser runs and loads nothing, whatever is on the page.
#[test]
fn page_needs_no_script_and_no_other_file() {
    let directory = directory();
    let (html, page) = page_of_check(&directory, &["bundle-broken"]);
    let hash = STANDARD.encode(digest(&SHA256, page.style.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    );
    let policies = page.all("meta").filter(|meta| meta.attribute("http-equiv").is_some());
    let policies: Vec<_> = policies.map(|meta| meta.attribute("content").unwrap()).collect();
    assert_eq!(policies, [policy.as_str()]);
    for element in &page.elements {
        let is_active = ["script", "link", "img", "iframe", "object", "form"];
        assert!(!is_active.contains(&element.name.as_str()), "{html}");
        assert!(element.attribute("src").or(element.attribute("style")).is_none(), "{html}");
    }
    assert!(!page.style.contains("url(") && !page.style.contains("@import"), "{}", page.style);
    assert_eq!(page.all("html").next().unwrap().attribute("lang"), Some("en"));
    assert_eq!((page.all("main").count(), page.all("h1").count()), (1, 1));
    // No level of the headings is left out.
    let levels = page.elements.iter().filter_map(|element| element.name.strip_prefix('h'));
    let levels: Vec<u32> = levels.filter_map(|level| level.parse().ok()).collect();
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    assert!(page.all("table").count() > 0);
    assert_eq!(page.all("table").count(), page.all("caption").count());
    assert!(page.all("th").all(|th| th.attribute("scope").is_some()), "{html}");
}

#[test]
fn page_lists_waived_unreadable_and_not_evaluated() {
    let directory = directory();
    let waivers = json!({"waivers": [{"rule": "RPK-12", "reason": "it has <one>"}]});
    write(&directory, "x/.opgate.yaml", waivers.to_string());
    write(&directory, "x/a.yaml", BUNDLE_WITHOUT_CLASS);
    write(&directory, "x/b.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n");
    let policies = "policies:\n- name: bundle-immutability\n";
    let header = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    write(&directory, "opgate.yaml", format!("{header}{policies}"));
    let (_, page) = page_of_check(&directory, &["--config", "opgate.yaml", "x", "nowhere"]);
    assert_eq!(page.line_behind("waived deny"), "RPK-12", "{:#?}", page.lines);
    assert!(page.has_line("it has <one>"), "{:#?}", page.lines);
    assert_eq!(page.line_behind("Unreadable inputs"), "1");
    assert!(page.lines.iter().any(|line| line.starts_with("nowhere: No such file")));
    assert_eq!(page.line_behind("Not evaluated"), "1");
    assert_eq!(page.line_behind("Objects that were not evaluated"), "Thing t");
}

#[test]
fn page_of_an_audit_names_denied_objects() {
    let directory = directory();
    write(&directory, "cluster.yaml", DUMP);
    let (html, page) = page_of_check(&directory, &["cluster.yaml"]);
    for object in ["OperatorGroup one/g1", "OperatorGroup one/g2"] {
        assert_eq!(page.line_behind(object), "denied", "{html}");
    }
    assert_eq!(page.line_behind("Denied"), "2");
    assert!(page.has_line("OPG-01"), "{html}");
}

#[test]
fn page_of_a_replay_shows_each_decision() {
    let directory = cli::directory();
    let run = |format: &str| opgate(directory.path(), &["replay", "-o", format, "reviews"]);
    let html = out(&run("html"));
    let page = Page::parse(&html);
    let records: Vec<Value> = serde_json::from_str(&out(&run("json"))).unwrap();
    assert_shows_violations(&page, &records);
    assert_eq!(page.line_behind("UPDATE core.rukpak.io/v1alpha1/bundles combo-tag-ref"), "denied");
    let count =
        |allowed: bool| records.iter().filter(|record| record["allowed"] == allowed).count();
    let number = |label: &str| page.line_behind(label).parse::<usize>().unwrap();
    assert_eq!(number("Denied"), count(false));
    assert_eq!(number("Allowed") + number("Warned") + number("Not evaluated"), count(true));
}

/// What a stored result does not contain: the lines of the files. The paths are named in the result only.
fn without_excerpts(html: &str) -> String {
    let mut rest = html;
    let mut kept = String::new();
    for (start, end) in std::iter::once(("<p class=\"subject\">", "</p>"))
        .chain(std::iter::repeat(("<pre>", "</pre>")))
    {
        let Some((before, part)) = rest.split_once(start) else { break };
        kept.push_str(before);
        rest = part.split_once(end).unwrap().1;
    }
    kept + rest
}

#[test]
fn stored_result_gives_the_same_page() {
    let directory = directory();
    write(&directory, "x/hostile.yaml", HOSTILE_BUNDLE);
    write(&directory, "cluster.yaml", DUMP);
    for review in std::fs::read_dir(cli::directory().path().join("reviews")).unwrap() {
        let path = review.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        write(&directory, &format!("reviews/{name}"), std::fs::read(&path).unwrap());
    }
    for command in [
        &["check", "bundle-broken", "catalog-broken", "good.yaml", "nowhere"][..],
        &["check", "x", "plain-broken"],
        &["check", "cluster.yaml"],
        &["replay", "reviews"],
    ] {
        let run =
            |format: &str| out(&opgate(directory.path(), &[command, &["-o", format]].concat()));
        let expected = without_excerpts(&run("html"));
        for format in ["json", "jsonl"] {
            let stored = run(format);
            write(&directory, "result", &stored);
            let page = directory.path().join("page.html");
            for arguments in [
                &["report", "--html", "page.html", "result"][..],
                &["report", "--html", "page.html"],
            ] {
                let output = opgate_with_input(directory.path(), arguments, &stored);
                assert_eq!(output.status.code(), Some(0), "{command:?}: {}", err(&output));
                let html = std::fs::read_to_string(&page).unwrap();
                Page::parse(&html);
                assert_eq!(without_excerpts(&html), expected, "{command:?} {format}");
            }
        }
    }
}

#[test]
fn unreadable_result_is_an_error_with_its_position() {
    let directory = directory();
    let record = r#"{"source":"a","kind":"Pod","name":"a","ok":true,"violations":[]}"#;
    for (text, arguments, expected) in [
        (format!("[{record},\n {{\"source\" 1"), &[][..], "result:2:12: not JSON: "),
        (
            format!("{record}\n{{\"ok\": true}}\n"),
            &[],
            "result:2:12: not a result of `opgate check`",
        ),
        ("kind: Pod\n".to_owned(), &[], "result:1:1: not JSON: "),
        (String::new(), &[], "result:1:1: empty"),
        (record.repeat(100), &["--max-input-size", "1Ki"], "more to read than 1Ki"),
    ] {
        write(&directory, "result", &text);
        let all = [&["report", "--html", "page.html", "result"], arguments].concat();
        let output = opgate(directory.path(), &all);
        assert_eq!(output.status.code(), Some(2), "{text}: {}", err(&output));
        assert!(err(&output).contains(expected), "{text}: {}", err(&output));
        assert!(!directory.path().join("page.html").exists(), "{text}");
    }
    let output = opgate(directory.path(), &["report", "--html", "page.html", "nowhere.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("nowhere.json: No such file"), "{}", err(&output));
    let output = opgate_with_input(directory.path(), &["report", "--html", "page.html"], "[{}]");
    assert!(err(&output).contains("-:1:3: not a result of "), "{}", err(&output));
}
