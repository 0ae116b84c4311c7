//! The output formats: table, JSON, SARIF, `JUnit` and those of pipelines.

use serde_json::{Value, json};

use super::*;

/// Who knows `opm validate` finds the errors of a catalog nested in the same way, each with its place.
#[test]
fn errors_of_a_catalog_are_a_tree() {
    let directory = directory();
    let tree = |path: &str, arguments: &[&str]| {
        let output = check(&directory, &[arguments, &[path]].concat());
        let table = out(&output);
        let (_, tree) = table.split_once("invalid index:\n")?;
        tree.split_once("\ndetails: ").map(|(tree, _)| tree.to_owned())
    };
    let file = "catalog-broken/etcd/catalog.yaml";
    let expected = format!(
        "\
├── catalog-broken/prometheus/catalog.json:5:1: FBC-43 not JSON: key must be a string
└── invalid package \"etcd\":
    ├── invalid channel \"fast\":
    │   └── {file}:4:1: FBC-11 channel must contain at least one bundle
    └── invalid channel \"stable\":
        ├── {file}:14:5: FBC-21 channel contains one or more stranded bundles: etcdoperator.v0.9.2, etcdoperator.v0.9.4
        ├── {file}:18:5: FBC-18 no olm.bundle blobs found in package \"etcd\" for olm.channel entries [etcdoperator.v0.9.5]
        └── invalid bundle \"etcdoperator.v0.9.4\":
            └── {file}:46:7: FBC-35 error parsing bundle \"etcdoperator.v0.9.4\" version \"nine\": No Major.Minor.Patch elements found
"
    );
    assert_eq!(tree("catalog-broken", &[]), Some(expected));
    // Violations of a package are directly below it. Those of a bundle or of the icon are nested
    // further.
    edit(&directory, "catalog-broken/etcd/catalog.yaml", "defaultChannel: fast\n", "");
    edit(&directory, "catalog-broken/etcd/catalog.yaml", "  mediatype: image/png\n", "");
    let text = tree("catalog-broken", &[]).unwrap();
    for line in [
        format!("    ├── {file}:2:1: FBC-10 default channel must be set\n    ├── invalid channel"),
        format!("    └── invalid icon:\n        └── {file}:4:1: FBC-12 "),
    ] {
        assert!(text.contains(&line), "{line}\nis not in\n{text}");
    }
    // Warnings are no errors, and other things have no index.
    configuration(&directory, &json!([{"name": "file-based-catalog", "mode": "warn"}]));
    assert_eq!(tree("catalog-broken", &["--config", "opgate.yaml"]), None);
    assert_eq!((tree("catalog-valid", &[]), tree("bundle-broken", &[])), (None, None));
}

/// A pipeline reads the output also where nothing could be read.
#[test]
fn every_output_format_reports_unreadable_input() {
    let directory = directory();
    write(&directory, "bad.yaml", "a: [\n");
    configuration(&directory, &json!([]));
    copy(&directory.path().join("bundle-broken"), &directory.path().join("unreported"));
    let unread = "unreported/manifests/service.yaml:4:1: not YAML";
    write(&directory, "empty.yaml", "");
    write(&directory, "zero.yaml", "a: \0\n");
    let neither = "empty.yaml: empty: it should hold manifests";
    // Arguments, the number of evaluated inputs, and the messages about the others.
    let cases: [(&[&str], usize, &[&str]); 10] = [
        (&["empty.yaml"], 0, &[neither]),
        (&["zero.yaml"], 0, &["zero.yaml:1:4: not a text"]),
        (&["empty.yaml", "zero.yaml"], 0, &[neither, "zero.yaml:1:4: not a text"]),
        (&["empty.yaml", "catalog-valid", "zero.yaml"], 1, &[neither, "zero.yaml:1:4: not a"]),
        (&["nowhere"], 0, &["nowhere: No such file"]),
        (&["nowhere", "bad.yaml"], 0, &["nowhere: No such file", "bad.yaml:1:4: not YAML"]),
        (&["--input-type", "bundle", "good.yaml"], 0, &["good.yaml: not a directory"]),
        (&["--baseline", "nowhere", "good.yaml"], 0, &["nowhere: No such file"]),
        (&["good.yaml", "nowhere"], 1, &["nowhere: No such file"]),
        (&["--config", "opgate.yaml", "unreported"], 1, &[unread]),
    ];
    for (arguments, evaluated, lines) in cases {
        let run = |form: &str| {
            let output = check(&directory, &[&["--output", form], arguments].concat());
            assert_eq!(status(&output), 2, "{arguments:?}: {}", err(&output));
            for line in lines {
                assert!(err(&output).contains(line), "{arguments:?}: {}", err(&output));
            }
            out(&output)
        };
        let mut listed: Vec<Value> = serde_json::from_str(&run("json")).unwrap();
        let each = run("jsonl");
        let each = each.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert!(each.eq(listed.iter().cloned()), "{arguments:?}: {listed:?}");
        assert_eq!(listed.len(), evaluated + lines.len(), "{arguments:?}");
        for (line, record) in lines.iter().zip(listed.split_off(evaluated)) {
            assert_eq!((&record["ok"], &record["violations"]), (&json!(false), &json!([])));
            assert_eq!((&record["kind"], &record["name"]), (&json!(""), &json!("")));
            assert_eq!(record["error"]["policy"], "");
            let (source, cause) = (record["source"].as_str(), record["error"]["cause"].as_str());
            assert!(cause.unwrap().starts_with(line), "{arguments:?}: {record}");
            assert!(line.starts_with(source.unwrap()), "{arguments:?}: {record}");
        }
        listed.iter().for_each(assert_record_members);

        let junit = run("junit");
        let names = elements(&junit);
        let count = |name: &str| names.iter().filter(|n| *n == name).count();
        assert_eq!((count("testcase"), count("error")), (evaluated + lines.len(), lines.len()));
        let counts = format!("tests=\"{}\"", evaluated + lines.len());
        let errors = format!("errors=\"{}\"", lines.len());
        assert!(junit.contains(&counts) && junit.contains(&errors), "{junit}");

        let sarif: Value = serde_json::from_str(&run("sarif")).unwrap();
        let invocation = &sarif["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], false);
        let notifications = invocation["toolExecutionNotifications"].as_array().unwrap();
        assert_eq!(notifications.len(), lines.len(), "{arguments:?}");
        for (line, notification) in lines.iter().zip(notifications) {
            assert!(junit.contains(line), "{arguments:?}: {junit}");
            assert_eq!(notification["level"], "error");
            assert!(notification["message"]["text"].as_str().unwrap().starts_with(line));
        }
    }
    let sarif = out(&check(&directory, &["--output", "sarif", "good.yaml"]));
    assert!(!sarif.contains("invocations"), "{sarif}");
}

/// For a very large number of violations, the report contains some, and the number of the omitted
/// ones.
#[test]
fn omitted_violations_are_counted() {
    let directory = directory();
    let object = "apiVersion: v1\nkind: ConfigMap\n---\n";
    write(&directory, "plain-valid/manifests/many.yaml", object.repeat(500));
    for number in 0..200 {
        let text =
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: x\n  labels: {-a: b}\n---\na: 1\n";
        write(&directory, &format!("bundle-valid/manifests/{number}.yaml"), text);
        write(&directory, &format!("bundle-valid/manifests/{number}.json"), "{");
    }
    for (path, code, lines) in [
        (
            "plain-valid",
            1,
            vec!["244 more violations of this rule are omitted; manifests/many.yaml"],
        ),
        (
            "bundle-valid",
            // The log tells which files cannot be read besides.
            2,
            vec!["more violations of this rule are omitted; "],
        ),
    ] {
        let (status, found) = records(&directory, &[path]);
        let of_policy = violations(&found[0])
            .iter()
            .filter(|v| v["policy"].as_str().unwrap().ends_with("bundle"));
        let count = of_policy.count();
        assert!(status == code && count <= 256, "{path}: {status}, {count}");
        for line in lines {
            assert!(found[0].to_string().contains(line), "{path}: {line}: {}", found[0]);
        }
    }
}

/// Who has many packages has to know which one is too large.
#[test]
fn policy_errors_name_the_object() {
    let directory = directory();
    let small = json!([{"name": "file-based-catalog", "limits": {"memory": "4Mi"}}]);
    configuration(&directory, &small);
    let entries: Vec<_> = (0..50_000).map(|n| json!({"name": format!("huge.v0.0.{n}")})).collect();
    let channel =
        json!({"schema": "olm.channel", "package": "huge", "name": "c", "entries": entries});
    let package = json!({"schema": "olm.package", "name": "huge", "defaultChannel": "c"});
    write(&directory, "catalog-valid/huge/catalog.json", format!("{package}\n{channel}\n"));
    let output = check(&directory, &["-v", "--config", "opgate.yaml", "catalog-valid"]);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let log = err(&output);
    assert!(
        log.contains("FileBasedCatalog huge") && !log.contains("FileBasedCatalog etcd"),
        "{log}"
    );
    assert!(out(&output).contains("error FileBasedCatalog huge: "), "{}", out(&output));
}

/// The command prints escape codes neither into a pipe nor where the user disables them. It never
/// prints the content of files to a terminal unchanged.
#[test]
fn escape_codes_are_printed_only_if_enabled() {
    let directory = directory();
    write(&directory, "codes/\u{1b}[31m\nname.yaml", BUNDLE_WITHOUT_CLASS);
    let spec = "provisionerClassName: \"\\e[31mx\", source: {type: \"\\e[1m\"}";
    let text = format!(
        "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata: {{name: \"\\e[31m\\n\"}}\nspec: {{{spec}}}\n"
    );
    write(&directory, "codes/plain.yaml", text);
    let arguments = ["check", "codes", "bundle-broken", "nowhere"];
    for form in ["table", "json", "jsonl", "junit", "sarif", "html"] {
        let mut command =
            command(directory.path(), &[&arguments[..], &["--output", form]].concat());
        for (name, value) in [("TERM", "xterm"), ("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")] {
            let output = command.env(name, value).output().unwrap();
            let all = out(&output) + &err(&output);
            let wanted = (name, form) == ("CLICOLOR_FORCE", "table");
            assert!(wanted || !all.contains('\u{1b}'), "{form} {name}: {all:?}");
        }
    }
    let coloured = command(directory.path(), &["check", "classless.yaml"])
        .env("CLICOLOR_FORCE", "1")
        .output()
        .unwrap();
    assert!(out(&coloured).contains("\u{1b}["), "{}", out(&coloured));
    let table = out(&check(&directory, &["codes"]));
    assert!(
        table.lines().all(|line| line.is_empty() || line.starts_with([' ', 'c', 'd'])),
        "{table}"
    );
}

#[test]
fn every_output_format_is_valid_and_names_file_and_line() {
    let directory = directory();
    write(
        &directory,
        "odd/a & <b> \"ä\".yaml",
        BUNDLE_WITHOUT_CLASS.replace("classless", "\"<&>\\\"\""),
    );
    let paths = ["bundle-broken", "catalog-broken", "odd", "good.yaml"];
    let run = |form: &str| {
        let output = check(&directory, &[&["--output", form], &paths[..]].concat());
        assert_eq!(status(&output), 1, "{form}: {}", err(&output));
        out(&output)
    };
    let listed: Vec<Value> = serde_json::from_str(&run("json")).unwrap();
    let lines: Vec<Value> =
        run("jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(listed, lines);
    listed.iter().for_each(assert_record_members);

    let junit = run("junit");
    let names = elements(&junit);
    let count = |name: &str| names.iter().filter(|n| *n == name).count();
    assert_eq!((count("testsuites"), count("testsuite")), (1, 1), "{junit}");
    assert_eq!((count("testcase"), count("failure")), (5, 4), "{junit}");
    assert!(junit.contains("<testsuites tests=\"5\" failures=\"4\" errors=\"0\" time="), "{junit}");
    assert!(junit.contains("bundle-broken/manifests/lease.yaml:2:1: deny RBF-10 "), "{junit}");

    let sarif: Value = serde_json::from_str(&run("sarif")).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let known = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), listed.iter().flat_map(violations).count());
    for result in results {
        assert!(known.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()), "{result}");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty(), "{result}");
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].is_string(), "{result}");
    }
    let found = |rule: &str| {
        let result = results.iter().find(|r| r["ruleId"] == rule).unwrap();
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        format!("{uri}:{}", place["region"]["startLine"])
    };
    assert_eq!(found("RBF-10"), "bundle-broken/manifests/lease.yaml:2");
    assert_eq!(found("FBC-43"), "catalog-broken/prometheus/catalog.json:5");
    assert_eq!(found("RPK-12"), "odd/a%20%26%20%3Cb%3E%20%22%C3%A4%22.yaml:5");
}
