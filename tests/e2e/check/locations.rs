//! File, line and column of violations and of errors.

use serde_json::json;
use std::fmt::Write as _;

use super::*;

#[test]
fn violations_have_locations() {
    let directory = directory();
    let (_, bundle) = records(&directory, &["bundle-broken"]);
    for (rule, place) in [
        ("CSV-06", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:23"),
        ("CSV-30", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:42"),
        ("CSV-57", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:15"),
        ("CSV-85", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:73"),
        ("RBF-03", "bundle-broken/metadata/annotations.yaml:1"),
        ("RBF-07", "bundle-broken/manifests/etcdoperator.clusterserviceversion.yaml:67"),
        ("RBF-10", "bundle-broken/manifests/lease.yaml:2"),
        ("RBF-12", "bundle-broken/manifests/service.yaml:4"),
    ] {
        assert_eq!(location_of(&bundle[0], rule), place);
    }
    let (_, catalog) = records(&directory, &["catalog-broken"]);
    for (rule, line) in [("FBC-11", 4), ("FBC-18", 18), ("FBC-35", 46)] {
        assert_eq!(
            location_of(&catalog[0], rule),
            format!("catalog-broken/etcd/catalog.yaml:{line}")
        );
    }
    assert_eq!(location_of(&catalog[1], "FBC-43"), "catalog-broken/prometheus/catalog.json:5");
    let (_, plain) = records(&directory, &["plain-broken"]);
    assert_eq!(location_of(&plain[0], "PBF-05"), "plain-broken/manifests/objects.yaml:3");
    let manifest = records(&directory, &["classless.yaml"]).1.remove(0);
    let expected = json!({
        "source": "classless.yaml",
        "kind": "Bundle",
        "name": "classless",
        "ok": false,
        "violations": [{
            "policy": "bundle-immutability",
            "rule": "RPK-12",
            "effect": "deny",
            "field": "spec.provisionerClassName",
            "message": "spec.provisionerClassName: Required value",
            "location": {"file": "classless.yaml", "line": 5, "column": 1},
        }],
        "inputType": "manifest",
    });
    assert_eq!(manifest, expected);
}

#[test]
fn the_table_shows_line_and_column() {
    let directory = directory();
    let output = check(&directory, &["bundle-broken", "classless.yaml", "good.yaml"]);
    assert_eq!(status(&output), 1);
    let table = out(&output);
    for lines in [
        "bundle-broken/manifests/lease.yaml:2:1: deny RBF-10 Value coordination.k8s.io/v1, Kind=Lease: unsupported media type registry+v1 for bundle object\n  2 | kind: Lease\n    | ^\n",
        "  67 |       - name: etcdbackups.etcd.database.coreos.com\n     |         ^\n",
        "classless.yaml:5:1: deny RPK-12 spec.provisionerClassName: Required value\n  5 | spec:\n    | ^\n",
    ] {
        assert!(table.contains(lines), "{lines}\nis not in\n{table}");
    }
    assert!(table.contains("bundle-broken/manifests/service.yaml:4:1: deny RBF-12 "), "{table}");
    assert!(!table.contains("good.yaml"), "{table}");
    assert!(err(&output).contains("1 passed, 2 denied, 0 errors"), "{}", err(&output));
    // Columns are characters, and a mark stands below the one that is meant.
    // The table does not show a line that contains a whole object, so the head is a separate line.
    let head = "{\"apiVersion\": \"core.rukpak.io/v1alpha1\", \"kind\": \"Bundle\",";
    let text = "\"metadata\": {\"name\": \"äöü\"}, \"spec\": {\"source\": {\"type\": \"image\", \"image\": {\"ref\": \"x@sha256:12\"}}}}";
    for (name, newline) in [("line.json", ""), ("line.yaml", "\r\n")] {
        write(&directory, name, format!("{head}\n{text}{newline}"));
        let table = out(&check(&directory, &[name]));
        let mut lines = table.lines();
        let place = lines.next().unwrap();
        let column = place.split(':').nth(2).unwrap().parse::<usize>().unwrap();
        let offset = text.char_indices().nth(column - 1).unwrap().0;
        assert!(text[offset..].starts_with("\"spec\": "), "{table}");
        let (shown, mark) = (lines.next().unwrap(), lines.next().unwrap());
        let mark = mark.chars().position(|c| c == '^').unwrap();
        assert!(shown.chars().skip(mark).collect::<String>().starts_with("\"spec\""), "{table}");
        assert!(!table.contains('\r'), "{table:?}");
    }
}

/// The command reports each reason once, with its location.
#[test]
fn bundle_violations_are_reported_once_with_location() {
    // File and content, exit status, and all that is said of it on the table.
    type Case<'c> = (&'c str, &'c str, i32, &'c [&'c str]);
    let key = "operators.operatorframework.io.bundle.package.v1";
    let label = format!(
        "RBF-22 label {key} is \"foo\" in bundle.Dockerfile but \"etcd\" in annotations.yaml, which is authoritative"
    );
    let csv = "manifests/etcdoperator.clusterserviceversion.yaml";
    let untyped = "deny RBF-17 couldn't parse dependency of type unknown:";
    let cases: [Case<'_>; 6] = [
        (
            "bundle.Dockerfile",
            &format!("FROM scratch\nLABEL a=b\nLABEL {key}=foo\n"),
            0,
            &[&format!("bundle.Dockerfile:3:1: warn {label}\n  3 | LABEL {key}=foo\n    | ^")],
        ),
        (
            "bundle.Dockerfile",
            &format!("FROM scratch\nlabel a=b \\\n  # more\n  {key}='foo'\n"),
            0,
            &[&format!("bundle.Dockerfile:4:3: warn {label}\n  4 |   {key}='foo'\n    |   ^")],
        ),
        (
            csv,
            "a: [\n",
            1,
            &[&format!("{csv}:1:4: deny RBF-12 {csv}: cannot parse manifest: not YAML: ")],
        ),
        (
            "metadata/dependencies.yaml",
            "dependency: []\n",
            1,
            &[&format!(
                "metadata/dependencies.yaml:1:1: {untyped} dependencies is missing: list below it what the bundle depends on, or remove the file"
            )],
        ),
        (
            "metadata/dependencies.yaml",
            "dependencies:\n- value: {}\n  type: 5\n",
            1,
            &[&format!("metadata/dependencies.yaml:3:3: {untyped} type is not a text")],
        ),
        (
            "manifests/a.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  labels:\n    x: '0123456789012345678901234567890123456789012345678901234567890123'\n",
            1,
            &[
                "manifests/a.yaml:6:5: deny RBF-12 error validating object metadata: metadata.labels: Invalid value: \"0123456789012345678901234567890123456789012345678901234567890123\": must be no more than 63 bytes. v1 Secret \"a\"",
            ],
        ),
    ];
    for (name, content, code, expected) in cases {
        let directory = directory();
        write(&directory, &format!("bundle-valid/{name}"), content);
        let output = check(&directory, &["bundle-valid"]);
        let table = out(&output);
        assert_eq!(status(&output), code, "{name}: {table}");
        for text in expected {
            assert!(table.contains(&format!("bundle-valid/{text}")), "{text}\nis not in\n{table}");
        }
        let findings = table.lines().filter(|line| line.starts_with("bundle-valid")).count();
        assert_eq!(findings, expected.len(), "{table}");
    }
    // The rules do not evaluate what is not in the annotations.
    let directory = directory();
    let settings = json!({"bundle": {"redHatCatalog": true}});
    configuration(&directory, &json!([{"name": "registry-bundle", "settings": settings}]));
    assert_eq!(records(&directory, &["--config", "opgate.yaml", "bundle-valid"]).0, 0);
    let info = ["--log", "info", "bundle-valid"];
    write(&directory, &format!("bundle-valid/{csv}"), "a: [\n");
    assert!(err(&check(&directory, &info)).contains("RBF-06"));
}

/// Aliases that stand for more than there is memory.
fn yaml_bomb() -> String {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 8].join(", ");
        writeln!(text, "  a{level}: &a{level} [{aliases}]").unwrap();
    }
    text
}

/// Unreadable contents as a manifest, in a bundle and in a catalog: the command reports the
/// location.
#[test]
fn unreadable_files_report_location() {
    let head = "apiVersion: v1\nkind: ConfigMap\n";
    let blocks: String = (1..2_000).fold(String::new(), |mut text, level| {
        writeln!(text, "{:level$}a:", "").unwrap();
        text
    });
    let cases: [(&str, Vec<u8>, &str, &str); 23] = [
        ("tabs.yaml", format!("{head}metadata:\n\tname: x\n").into(), "4:", "not YAML"),
        ("bytes.yaml", [head.as_bytes(), b"a: \xff\xfe\n"].concat(), "3:4", "not UTF-8"),
        ("bytes.json", b"{\"kind\":\n\"\xc3\"}".to_vec(), "2:2", "not UTF-8"),
        ("wide.yaml", VALID_BUNDLE.encode_utf16().flat_map(u16::to_le_bytes).collect(), "1:", ""),
        ("binary.yaml", (0..=255).collect(), "2:118", "not UTF-8"),
        ("binary.json", b"\x7fELF\x02\x01\x01\0\0".to_vec(), "1:", ""),
        ("zero.yaml", format!("{head}data: \0\n").into(), "3:7", ""),
        ("bomb.yaml", yaml_bomb().into(), "", "aliases"),
        ("self.yaml", format!("{head}data: &a [*a]\n").into(), "3:", "not YAML"),
        ("alias.yaml", format!("{head}data: *nobody\n").into(), "3:", "anchor"),
        ("brackets.yaml", format!("{head}data: {}\n", "[".repeat(90_000)).into(), "3:", "256"),
        ("braces.yaml", format!("{head}data: {}\n", "{a: ".repeat(9_000)).into(), "3:", "256"),
        ("dashes.yaml", format!("{head}data:\n  {}\n", "- ".repeat(20_000)).into(), "4:", "256"),
        ("blocks.yaml", format!("{head}data:\n{blocks}").into(), "259:", "256"),
        (
            "deep.json",
            format!("{{\"a\":\n{}{}}}", "[".repeat(90_000), "]".repeat(90_000)).into(),
            "2:",
            "256",
        ),
        ("open.json", format!("{{\"a\":\n{}", "[".repeat(90_000)).into(), "", "JSON"),
        (
            "twice.yaml",
            format!("{head}metadata:\n  name: a\n  name: b\n").into(),
            "5:3",
            "duplicate",
        ),
        (
            "helm.yaml",
            format!("{head}metadata:\n  name: {{{{ .x }}}}\n").into(),
            "4:",
            "render it first",
        ),
        (
            "if.yaml",
            format!("{{{{- if .x }}}}\n{head}metadata:\n  name: x\n{{{{- end }}}}\n").into(),
            "",
            "render it first",
        ),
        ("yaml.json", "a: [\n".into(), "1:4", "not YAML"),
        ("list.json", "[1, ]".into(), "1:5", "not JSON"),
        ("comma.json", "{\n  \"a\": 1,\n}\n".into(), "3:1", "not JSON"),
        ("rest.json", "{\"a\": 1}\nx".into(), "2:1", "not JSON"),
    ];
    let directory = directory();
    for (name, content, place, why) in cases {
        write(&directory, name, &content);
        let mut said = None;
        for arguments in [&[name][..], &["--input-type", "manifest", name]] {
            let output = check(&directory, arguments);
            let errors = err(&output);
            assert_eq!((status(&output), &*out(&output)), (2, ""), "{arguments:?}: {errors}");
            assert!(errors.contains(&format!(" {name}:{place}")), "{arguments:?}: {errors}");
            assert!(errors.contains(why), "{arguments:?}: {errors}");
            assert!(errors.len() < 1_000 && errors.lines().count() == 1, "{errors}");
            // The detection of the input type reports the same error as the reader of manifests.
            let line = errors.split_once("error: ").unwrap().1.to_owned();
            assert_eq!(*said.get_or_insert_with(|| line.clone()), line, "{arguments:?}");
        }
        for (fixture, within, rule) in [
            ("bundle-valid", "manifests/", "RBF-12"),
            ("plain-valid", "manifests/", "PBF-04"),
            ("catalog-valid", "etcd/", "FBC-43"),
        ] {
            // opm reads YAML in a file of any name.
            if fixture == "catalog-valid" && ["list.json", "comma.json"].contains(&name) {
                continue;
            }
            let path = format!("{fixture}/{within}{name}");
            write(&directory, &path, &content);
            let (status, found) = records(&directory, &[fixture]);
            std::fs::remove_file(directory.path().join(&path)).unwrap();
            let last = found.last().unwrap();
            // Upstream's readers take the last of two equal names.
            let expected = match (fixture, name) {
                ("catalog-valid", "twice.yaml") => (1, vec!["FBC-01", rule]),
                (_, "twice.yaml") => (0, vec![rule]),
                _ => (1, vec![rule]),
            };
            assert_eq!((status, rules(last)), expected, "{path}: {found:?}");
            let of_rule = violations(last).iter().find(|v| v["rule"] == rule).unwrap();
            let message = of_rule["message"].as_str().unwrap();
            assert!(message.contains(why), "{path}: {message}");
            assert!(location_of(last, rule).starts_with(&path), "{path}: {last}");
            let line = place.split(':').next().unwrap();
            assert!(
                line.is_empty() || location_of(last, rule) == format!("{path}:{line}"),
                "{path}: {last}"
            );
        }
    }
    // The parser rejects a duplicate name in JSON, like in YAML.
    let twice = VALID_BUNDLE.trim_end().replace('\n', "\\n");
    let twice = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {{\"name\": \"x\"}},\n \"data\": {{\"a\": \"{twice}\", \"b\": 1,\n  \"a\": 2}}}}"
    );
    for name in ["twice.json", "twice.yaml"] {
        for path in [
            name.to_owned(),
            format!("bundle-valid/manifests/{name}"),
            format!("plain-valid/manifests/{name}"),
        ] {
            write(&directory, &path, &twice);
            let arguments = if path == name {
                vec!["--input-type", "manifest", name]
            } else {
                vec![path.split('/').next().unwrap()]
            };
            let output = check(&directory, &arguments);
            std::fs::remove_file(directory.path().join(&path)).unwrap();
            let code = match path.split('/').next() {
                Some("bundle-valid" | "plain-valid") => 0,
                _ => 2,
            };
            assert_eq!(status(&output), code, "{path}");
            let all = out(&output) + &err(&output);
            assert!(all.contains(&format!("{path}:3:3: ")), "{path}: {all}");
            assert!(all.contains("duplicate mapping key: a"), "{path}: {all}");
        }
    }
    // What only has braces in it is no template.
    write(
        &directory,
        "rule.yaml",
        format!("{VALID_BUNDLE}a: \"{{{{ $labels.x }}}}\"\nb: c\nd: [\n"),
    );
    let errors = err(&check(&directory, &["rule.yaml"]));
    assert!(errors.contains("not YAML") && !errors.contains("template"), "{errors}");
    // The command still evaluates the files next to it.
    write(&directory, "plain-valid/manifests/a.yaml", "a: [\n");
    write(&directory, "plain-valid/manifests/b.yaml", BUNDLE_WITHOUT_CLASS);
    let (_, found) = records(&directory, &["plain-valid"]);
    assert_eq!(rules(&found[0]), ["PBF-04", "RPK-12"]);
}
