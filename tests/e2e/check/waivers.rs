//! What `opgate check` shows and what it counts: levels, equal findings, and the waivers of a
//! `.opgate.yaml`, which comes from strangers.

use std::os::unix::fs::symlink;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::check::{
    BROKEN_BUNDLE_RULES, BUNDLE_WITHOUT_CLASS, VALID_BUNDLE, check, check_stdin, command,
    configuration, directory, elements, err, out, records, rules, status, violations, write,
};

/// RPK-17 warns about this Bundle, in line 11.
fn bundle_with_tag(name: &str) -> String {
    format!(
        "apiVersion: core.rukpak.io/v1alpha1
kind: Bundle
metadata:
  name: {name}
spec:
  provisionerClassName: core-rukpak-io-plain
  source:
    type: git
    git:
      repository: https://example.com/x
      ref: {{tag: v1}}
"
    )
}

const TAG_MESSAGE: &str = "use a digest-based image or a Git commit reference when creating the bundle: Git tag \"v1\" can move to other content";

fn write_waivers(directory: &TempDir, at: &str, rules: &[&str]) {
    let entry = |rule: &&str| json!({"rule": rule, "reason": format!("reason of {rule}")});
    let list: Vec<_> = rules.iter().map(entry).collect();
    write(directory, &format!("{at}/.opgate.yaml"), json!({"waivers": list}).to_string());
}

/// Everything that is printed.
fn all_output(output: &Output) -> String {
    out(output) + &err(output)
}

/// The last lines on stderr are not of the log.
fn last_stderr_lines(output: &Output) -> Vec<String> {
    let lines = err(output);
    let is_of_log = |line: &&str| line.starts_with("warning: ") || line.starts_with("error: ");
    lines.lines().filter(|line| !is_of_log(line)).map(str::to_owned).collect()
}

#[test]
fn min_effect_hides_and_counts_lower_effects() {
    let directory = directory();
    write(&directory, "x/a.yaml", bundle_with_tag("a"));
    write(&directory, "x/b.yaml", bundle_with_tag("b"));
    write(&directory, "x/c.yaml", BUNDLE_WITHOUT_CLASS);
    let hidden = "2 warnings hidden; --min-effect warn shows them";
    for (level, expected, last) in [
        ("deny", &["RPK-12"][..], &[hidden, "0 passed, 2 warned, 1 denied, 0 errors"][..]),
        ("warn", &["RPK-17", "RPK-17", "RPK-12"], &["0 passed, 2 warned, 1 denied, 0 errors"]),
        ("audit", &["RPK-17", "RPK-17", "RPK-12"], &["0 passed, 2 warned, 1 denied, 0 errors"]),
    ] {
        let output = check(&directory, &["--min-effect", level, "x"]);
        assert_eq!(
            (status(&output), last_stderr_lines(&output)),
            (1, last.iter().map(|l| (*l).to_owned()).collect()),
            "{level}"
        );
        assert_eq!(out(&output).contains("RPK-17"), expected.len() > 1, "{level}");
        let (code, found) = records(&directory, &["--min-effect", level, "x"]);
        assert_eq!(
            (code, found.iter().flat_map(rules).collect::<Vec<_>>()),
            (1, expected.to_vec())
        );
        // The log of SARIF has the pages of all rules.
        for (form, text) in [("sarif", "\"ruleId\": \"RPK-17\""), ("junit", "RPK-17")] {
            let output = check(&directory, &["--min-effect", level, "--output", form, "x"]);
            assert_eq!(out(&output).contains(text), expected.len() > 1, "{level} {form}");
            assert_eq!(last_stderr_lines(&output), last[..last.len() - 1], "{level} {form}");
        }
    }
    configuration(&directory, &json!([{"name": "bundle-immutability", "mode": "audit"}]));
    let output =
        check(&directory, &["--config", "opgate.yaml", "--min-effect", "warn", "x/c.yaml"]);
    let last =
        ["1 audit violation hidden; --min-effect audit shows them", "1 passed, 0 denied, 0 errors"];
    assert_eq!(
        (out(&output), last_stderr_lines(&output)),
        (String::new(), last.map(str::to_owned).to_vec())
    );
    assert_eq!(status(&check(&directory, &["--min-effect", "error", "x"])), 2);
    let review =
        concat!(env!("CARGO_MANIFEST_DIR"), "/reviews/006-create-bundles-combo-tag-ref.json");
    for (level, shown, last) in
        [("warn", true, ""), ("deny", false, "1 warning hidden; --min-effect warn shows them\n")]
    {
        let replay = ["replay", "--min-effect", level, review];
        let output = command(directory.path(), &replay).output().unwrap();
        assert_eq!((status(&output), out(&output).contains("RPK-17")), (0, shown), "{level}");
        assert_eq!(err(&output), format!("{last}0 allowed, 1 warned, 0 denied, 0 errors\n"));
    }
}

#[test]
fn fail_on_determines_the_exit_status() {
    let directory = directory();
    write(&directory, "tagged.yaml", bundle_with_tag("a"));
    let config = testkit::configuration(&[json!({"name": "bundle-immutability"})]);
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["check"] = json!({"warningsAsErrors": true});
    write(&directory, "strict.yaml", config.to_string());
    for (arguments, code) in [
        (&["tagged.yaml"][..], 0),
        (&["--fail-on", "deny", "tagged.yaml"], 0),
        (&["--fail-on", "warn", "tagged.yaml"], 1),
        (&["--fail-on", "warn", "--min-effect", "deny", "tagged.yaml"], 1),
        (&["--fail-on", "warn", "good.yaml"], 0),
        (&["--fail-on", "deny", "classless.yaml"], 1),
        (&["--config", "strict.yaml", "tagged.yaml"], 1),
        (&["--config", "strict.yaml", "--fail-on", "deny", "tagged.yaml"], 0),
        (&["--fail-on", "audit", "tagged.yaml"], 2),
    ] {
        let output = check(&directory, arguments);
        assert_eq!(status(&output), code, "{arguments:?}: {}", all_output(&output));
        let (other, found) = records(&directory, arguments);
        assert_eq!(other, code);
        assert!(found.iter().all(|record| record["ok"] == (code == 0)), "{found:?}");
    }
    // A failure reports its cause, even if the output hides the violation.
    let arguments =
        ["--fail-on", "warn", "--min-effect", "deny", "--output", "junit", "tagged.yaml"];
    let junit = out(&check(&directory, &arguments));
    elements(&junit);
    assert!(junit.contains("<failure message=\"1 warning hidden; "), "{junit}");
}

#[test]
fn equal_warnings_are_one_line_and_denials_are_not() {
    let directory = directory();
    let count = |bundle: &dyn Fn(&str) -> String, count: usize| {
        let objects: Vec<_> = (0..count).map(|n| bundle(&format!("b{n}"))).collect();
        objects.join("---\n")
    };
    let lines = |arguments: &[&str]| {
        let table = out(&check(&directory, arguments));
        let lines = table.lines().filter(|line| line.starts_with("x.yaml:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for (number, expected) in [
        (1, ""),
        (2, " (2 times, also at x.yaml:23:13)"),
        (4, " (4 times, also at x.yaml:23:13, x.yaml:35:13, x.yaml:47:13)"),
        (5, " (5 times, first here; --verbose shows all)"),
    ] {
        write(&directory, "x.yaml", count(&bundle_with_tag, number));
        assert_eq!(
            lines(&["x.yaml"]),
            [format!("x.yaml:11:13: warn RPK-17 {TAG_MESSAGE}{expected}")]
        );
        assert_eq!(lines(&["--verbose", "x.yaml"]).len(), number);
        let found = records(&directory, &["x.yaml"]).1;
        assert_eq!(found.iter().flat_map(rules).count(), number);
    }
    write(&directory, "x.yaml", count(&|name| BUNDLE_WITHOUT_CLASS.replace("classless", name), 5));
    assert_eq!(lines(&["x.yaml"]).len(), 5);
}

/// For each type of input: its directory, its path on the command line, and the rules that it
/// violates.
#[test]
fn waived_violations_are_shown_and_do_not_deny() {
    let directory = directory();
    write(&directory, "objects/a.yaml", BUNDLE_WITHOUT_CLASS);
    write(&directory, "objects/inner/b.yaml", BUNDLE_WITHOUT_CLASS.replace("classless", "b"));
    let bundle = &BROKEN_BUNDLE_RULES[..];
    let catalog = &["FBC-11", "FBC-18", "FBC-21", "FBC-35", "FBC-43"][..];
    let plain = &["PBF-03", "PBF-04", "PBF-05"][..];
    for (at, path, denied) in [
        ("bundle-broken", "bundle-broken", bundle),
        ("plain-broken", "plain-broken", plain),
        ("catalog-broken", "catalog-broken", catalog),
        ("catalog-broken/etcd", "catalog-broken/etcd/catalog.yaml", &catalog[..4]),
        ("objects", "objects", &["RPK-12"]),
        ("objects", "objects/a.yaml", &["RPK-12"]),
        ("objects", "./objects/../objects/a.yaml", &["RPK-12"]),
    ] {
        let before = records(&directory, &[path]);
        write_waivers(&directory, at, denied);
        let output = check(&directory, &[path]);
        let (table, said) = (out(&output), err(&output));
        assert_eq!(status(&output), 0, "{path}: {table}{said}");
        assert!(!table.contains(": deny ") && !table.contains("invalid"), "{path}: {table}");
        let shown = table.lines().filter(|line| line.contains(": waived "));
        assert_eq!(shown.count(), denied.len(), "{table}");
        for rule in denied {
            let count = before.1.iter().flat_map(rules).filter(|r| r == rule).count();
            let s = if count == 1 { "" } else { "s" };
            let line = format!("waived {rule} ({count} violation{s}): reason of {rule}\n");
            assert!(table.contains(&line), "{line} is not in {table}");
        }
        // The same findings, each with the reason.
        let (code, mut after) = records(&directory, &[path]);
        assert_eq!(code, 0);
        for violation in after.iter_mut().flat_map(|r| r["violations"].as_array_mut().unwrap()) {
            let waived = violation.as_object_mut().unwrap().remove("waived");
            if denied.contains(&violation["rule"].as_str().unwrap()) {
                let reason = format!("reason of {}", violation["rule"].as_str().unwrap());
                assert_eq!(waived, Some(json!({"reason": reason})), "{path}");
            } else {
                assert_eq!(waived, None, "{path}");
            }
        }
        assert_eq!(
            after.iter().map(|r| &r["violations"]).collect::<Vec<_>>(),
            before.1.iter().map(|r| &r["violations"]).collect::<Vec<_>>(),
            "{path}"
        );
        assert!(after.iter().all(|record| record["ok"] == true), "{path}");
        let (code, forbidden) = records(&directory, &["--no-waivers", path]);
        assert_eq!((code, &forbidden), (before.0, &before.1), "{path}");
        let said = err(&check(&directory, &["--no-waivers", path]));
        let waivers = if denied.len() == 1 { "1 waiver is" } else { "waivers are" };
        assert!(said.contains(waivers) && said.contains("ignored: --no-waivers"), "{said}");
        std::fs::remove_file(directory.path().join(at).join(".opgate.yaml")).unwrap();
    }
}

#[test]
fn every_output_format_shows_waived_violations() {
    let directory = directory();
    let list = json!([
        {"rule": "RBF-07", "reason": "another bundle\nhas <it>", "until": "9999-12-31"},
        {"rule": "CON-20", "reason": "later"},
    ]);
    write(&directory, "bundle-broken/.opgate.yaml", json!({"waivers": list}).to_string());
    let run = |form: &str, more: &[&str]| {
        out(&check(&directory, &[&["--output", form], more, &["bundle-broken"]].concat()))
    };
    let table = run("table", &[]);
    let line = "bundle-broken/.opgate.yaml:1:13: waived RBF-07 (1 violation): another bundle has <it>, until 9999-12-31\n";
    assert!(table.contains(line), "{table}");
    let explained = table.lines().last().unwrap();
    let others = "opgate rules explain CSV-06 CSV-30 CSV-57 CSV-85 RBF-03 RBF-10 RBF-12";
    assert!(explained.ends_with(others), "{explained}");
    assert!(!table.contains("not found in bundle"), "{table}");
    assert!(run("table", &["--verbose"]).contains("not found in bundle"));
    let records: Vec<Value> = serde_json::from_str(&run("json", &[])).unwrap();
    let found = violations(&records[0]).iter().find(|v| v["rule"] == "RBF-07").unwrap();
    let expected = json!({"reason": "another bundle has <it>", "until": "9999-12-31"});
    assert_eq!((&found["waived"], &found["effect"]), (&expected, &json!("deny")));
    let sarif: Value = serde_json::from_str(&run("sarif", &[])).unwrap();
    for result in sarif["runs"][0]["results"].as_array().unwrap() {
        let expected = match result["ruleId"].as_str().unwrap() {
            "RBF-07" => {
                json!([{"kind": "external", "justification": "another bundle has <it>", "properties": {"until": "9999-12-31"}}])
            }
            "CON-20" => json!([{"kind": "external", "justification": "later"}]),
            _ => json!([]),
        };
        assert_eq!(result["suppressions"], expected, "{result}");
    }
    let junit = run("junit", &[]);
    let names = elements(&junit);
    assert!(names.iter().any(|n| n == "failure") && names.iter().any(|n| n == "system-out"));
    let (failure, output) = junit.split_once("</failure>").unwrap();
    assert!(!failure.contains("RBF-07") && failure.contains("RBF-10"), "{junit}");
    assert!(output.contains("waived deny RBF-07 owned CRD"), "{junit}");
    assert!(output.contains("(another bundle has &lt;it&gt;, until 9999-12-31)"), "{junit}");
    // Without waivers nothing is said about them.
    std::fs::remove_file(directory.path().join("bundle-broken/.opgate.yaml")).unwrap();
    assert!(!run("sarif", &[]).contains("suppressions"));
    assert!(!run("json", &[]).contains("waived"));
}

/// Warnings count only where they are not waived, and a level shows waived findings of that level.
#[test]
fn waived_warnings_do_not_count() {
    let directory = directory();
    write(&directory, "x/a.yaml", bundle_with_tag("a"));
    write_waivers(&directory, "x", &["RPK-17"]);
    for (arguments, shown) in [
        (&["--fail-on", "warn", "x"][..], true),
        (&["--fail-on", "warn", "--min-effect", "warn", "x"], true),
        (&["--fail-on", "warn", "--min-effect", "deny", "x"], false),
    ] {
        let output = check(&directory, arguments);
        assert_eq!(status(&output), 0, "{}", all_output(&output));
        assert_eq!(out(&output).contains("waived RPK-17 (1 violation)"), shown, "{arguments:?}");
        assert_eq!(err(&output).contains("1 warning hidden"), !shown, "{arguments:?}");
    }
    write(&directory, "x/b.yaml", BUNDLE_WITHOUT_CLASS);
    assert_eq!(status(&check(&directory, &["x"])), 1);
    write_waivers(&directory, "x", &["RPK-12"]);
    assert_eq!(status(&check(&directory, &["x"])), 0);
    assert_eq!(status(&check(&directory, &["--fail-on", "warn", "x"])), 1);
    let output = check(&directory, &["--min-effect", "deny", "x"]);
    assert!(out(&output).contains("waived RPK-12 (1 violation)"), "{}", out(&output));
}

#[test]
fn expired_and_unused_waivers_are_reported() {
    let directory = directory();
    write(&directory, "x/a.yaml", BUNDLE_WITHOUT_CLASS);
    let list = json!([
        {"rule": "RPK-12", "reason": "until then", "until": "2020-02-29"},
        {"rule": "RPK-17", "reason": "nothing to waive"},
    ]);
    write(&directory, "x/.opgate.yaml", json!({"waivers": list}).to_string());
    let output = check(&directory, &["x"]);
    assert_eq!(status(&output), 1);
    assert!(out(&output).contains("deny RPK-12"), "{}", out(&output));
    let said = err(&output);
    for text in [
        "x/.opgate.yaml:1:13: the waiver of RPK-12 expired on 2020-02-29 and has no effect",
        "RPK-17 is waived, but has no violation",
    ] {
        assert!(said.contains(text), "{text} is not in {said}");
    }
    // Other files of the directory may need the waiver.
    let said = err(&check(&directory, &["x/a.yaml"]));
    assert!(!said.contains("RPK-17"), "{said}");
    // Rules of built-in policies exist whatever is configured.
    configuration(&directory, &json!([{"name": "operator-group"}]));
    let output = check(&directory, &["--config", "opgate.yaml", "x"]);
    assert_eq!(status(&output), 0, "{}", all_output(&output));
}

/// A file waives violations in its directory, and in no other.
#[test]
fn waivers_apply_only_to_their_directory() {
    let directory = directory();
    let rules = BROKEN_BUNDLE_RULES;
    let denied = |arguments: &[&str]| {
        let (code, found) = records(&directory, arguments);
        let blocks = |v: &Value| v["effect"] == "deny" && v.get("waived").is_none();
        let source = |record: &Value| record["source"].as_str().unwrap().to_owned();
        let denied = found.iter().filter(|r| violations(r).iter().any(blocks));
        (code, denied.map(source).collect::<Vec<_>>())
    };
    std::fs::create_dir(directory.path().join("repo")).unwrap();
    for name in ["one", "two"] {
        let to = directory.path().join("repo").join(name);
        let from = directory.path().join("bundle-broken");
        let copied = std::process::Command::new("cp").arg("-r").args([&from, &to]).status();
        assert!(copied.unwrap().success());
    }
    // In a repository, the waivers next to each bundle apply.
    write_waivers(&directory, "repo/one", &rules);
    assert_eq!(denied(&["repo"]), (1, vec!["repo/two".to_owned()]));
    assert_eq!(denied(&["repo/one"]), (0, vec![]));
    assert_eq!(denied(&["repo/one", "repo/two"]), (1, vec!["repo/two".to_owned()]));
    // Not those at its top, above a bundle or inside of one.
    std::fs::remove_file(directory.path().join("repo/one/.opgate.yaml")).unwrap();
    write_waivers(&directory, "repo", &rules);
    write_waivers(&directory, "repo/two/tests", &rules);
    write_waivers(&directory, "repo/two/metadata", &rules);
    let both = vec!["repo/one".to_owned(), "repo/two".to_owned()];
    assert_eq!(denied(&["repo"]), (1, both.clone()));
    assert_eq!(denied(&["repo/one", "repo/two"]), (1, both));
    let said = err(&check(&directory, &["repo"]));
    assert!(said.contains("repo/.opgate.yaml: it has no effect here"), "{said}");
    // A catalog that is a file next to a bundle has no separate directory.
    let blobs = "schema: olm.package\nname: a\ndefaultChannel: x\n";
    write(&directory, "repo/catalog.yaml", blobs);
    write_waivers(&directory, "repo", &[&rules[..], &["FBC-05", "FBC-06"]].concat());
    assert!(denied(&["repo"]).1.contains(&"repo/catalog.yaml".to_owned()));
    assert_eq!(denied(&["repo/catalog.yaml"]), (0, vec![]));
    // The copy of standard input is in the directory for temporary files, like the files of any
    // user.
    write_waivers(&directory, ".", &["RPK-12"]);
    let output = check_stdin(&directory, &["-"], BUNDLE_WITHOUT_CLASS.as_bytes());
    assert_eq!(status(&output), 1, "{}", all_output(&output));
    assert_eq!(status(&check(&directory, &["classless.yaml"])), 0);
    // What was published has a say in itself only.
    write(&directory, "old/a.yaml", VALID_BUNDLE);
    write(&directory, "new/a.yaml", BUNDLE_WITHOUT_CLASS.replace("classless", "good"));
    write_waivers(&directory, "old", &["RPK-01", "RPK-12"]);
    assert_eq!(denied(&["--baseline", "old", "new"]).0, 1);
}

/// The waiver file applies to the directory. It is not an input in the directory.
#[test]
fn waiver_file_has_no_other_effect() {
    let directory = directory();
    write(&directory, "objects/a.yaml", VALID_BUNDLE);
    let paths = ["bundle-valid", "plain-valid", "catalog-valid", "objects"];
    let before = records(&directory, &paths);
    assert_eq!(before.0, 0);
    for path in paths {
        write_waivers(&directory, path, &["RBF-03"]);
    }
    let mut after = records(&directory, &paths);
    assert_eq!(after, before);
    for (path, kind) in paths.iter().zip(["bundle", "plain", "catalog", "manifest"]) {
        after = records(&directory, &["--input-type", kind, path]);
        assert_eq!(after.0, 0, "{path}: {after:?}");
    }
    let opm = "catalog-valid/.opgate.yaml: opm treats it as a blob: list it in .indexignore";
    assert!(err(&check(&directory, &["catalog-valid"])).contains(opm));
    write(&directory, "catalog-valid/.indexignore", ".opgate.yaml\n");
    assert!(!err(&check(&directory, &["catalog-valid"])).contains(opm));
    // The waiver file does not determine the type of the directory, either.
    for text in ["schema: olm.package\n", "apiVersion: v1\nkind: Namespace\n"] {
        write(&directory, "nothing/.opgate.yaml", text);
        write(&directory, "nothing/values.yaml", "a: 1\n");
        let output = check(&directory, &["nothing"]);
        assert_eq!(status(&output), 2);
        assert!(err(&output).contains("set its type with --input-type"), "{}", err(&output));
    }
}

/// What is wrong in it is an error, everything counts, and nothing is passed over: not even with
/// `--no-waivers`, since other tools read the file.
#[test]
fn invalid_waiver_files_are_errors() {
    let directory = directory();
    write(&directory, "x/a.yaml", BUNDLE_WITHOUT_CLASS);
    let secret = tempfile::tempdir().unwrap();
    write(&secret, "secret", "waivers: [{rule: RPK-12, reason: hunter2}]\n");
    let at = directory.path().join("x/.opgate.yaml");
    let refused = |expected: &str| {
        for arguments in [&["x"][..], &["--no-waivers", "x"], &["x/a.yaml"]] {
            let output = check(&directory, arguments);
            assert_eq!(status(&output), 2, "{expected}: {}", all_output(&output));
            assert!(out(&output).contains("deny RPK-12"), "{expected}: {}", out(&output));
            let said = err(&output);
            assert!(said.contains(expected) && !said.contains("hunter2"), "{expected}: {said}");
        }
    };
    let waiver = "- {rule: RPK-12, reason: hunter2";
    for (text, expected) in [
        ("waivers: [\n".to_owned(), "x/.opgate.yaml:1:10: not YAML: "),
        (
            format!("waivers:\n{waiver}2}}\n- {{rule: RPK-1, reason: x}}\n"),
            "x/.opgate.yaml:3:4: there is no rule \"RPK-1\"; did you mean \"RPK-",
        ),
        (
            format!("waivers:\n{waiver}}}\npolicies: []\n"),
            "x/.opgate.yaml:3:1: unknown key \"policies\"",
        ),
        (
            format!("waivers:\n{waiver}, path: ../../etc}}\n"),
            "x/.opgate.yaml:2:35: unknown key \"path\"",
        ),
        (
            format!("waivers:\n{waiver}}}\n{waiver}}}\n"),
            "x/.opgate.yaml:3:4: RPK-12 is waived already on line 2",
        ),
        // The id and the name are one rule.
        (
            format!(
                "waivers:\n{waiver}}}\n- {{rule: provisioner-class-and-source-set, reason: x}}\n"
            ),
            "x/.opgate.yaml:3:4: RPK-12 is waived already on line 2",
        ),
        (
            "waivers: [{rule: provisioner-class-and-source, reason: x}]\n".to_owned(),
            "did you mean \"provisioner-class-and-source-set\"",
        ),
        (
            format!("waivers:\n{waiver}, until: 2027-02-30}}\n"),
            "x/.opgate.yaml:2:35: until is not a day",
        ),
        ("waivers: [{rule: RPK-12}]\n".to_owned(), "x/.opgate.yaml:1:11: reason is missing"),
        ("waivers: [{rule: \"*\", reason: x}]\n".to_owned(), "there is no rule \"*\""),
        (format!("waivers: []\n---\n{VALID_BUNDLE}"), "a second document"),
        (BUNDLE_WITHOUT_CLASS.to_owned(), "unknown key \"apiVersion\""),
        ("#".repeat((64 << 10) + 1), "x/.opgate.yaml: larger than 64Ki"),
    ] {
        write(&directory, "x/.opgate.yaml", text);
        refused(expected);
    }
    std::fs::remove_file(&at).unwrap();
    symlink(secret.path().join("secret"), &at).unwrap();
    refused("x/.opgate.yaml: not a regular file, but a symbolic link");
    std::fs::remove_file(&at).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    refused("x/.opgate.yaml: not a regular file, but a pipe");
    std::fs::remove_file(&at).unwrap();
    std::fs::create_dir(&at).unwrap();
    refused("x/.opgate.yaml: not a regular file, but a directory");
    // Every output format reports the error.
    for (form, text) in [
        ("jsonl", "\"cause\":\"x/.opgate.yaml: not a regular file"),
        ("junit", "<error message=\"x/.opgate.yaml: "),
        ("sarif", "toolExecutionNotifications"),
    ] {
        let output = check(&directory, &["--output", form, "x"]);
        assert!(out(&output).contains(text), "{form}: {}", out(&output));
    }
}
