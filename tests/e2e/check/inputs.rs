//! The files and directories that `opgate check` finds, and those that it rejects.

use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

#[test]
fn input_type_flag_overrides_detection() {
    let directory = directory();
    let paths = ["bundle-valid", "plain-valid", "catalog-valid", "good.yaml"];
    let cases = [
        ("bundle", "RegistryBundle", [0, 1, 1, 2]),
        ("plain", "PlainBundle", [0, 0, 1, 2]),
        ("catalog", "FileBasedCatalog", [1, 1, 0, 1]),
        ("manifest", "", [2, 0, 2, 0]),
    ];
    for (kind, document, codes) in cases {
        for (path, code) in paths.iter().zip(codes) {
            let (status, found) = records(&directory, &["--input-type", kind, path]);
            assert_eq!(status, code, "--input-type {kind} {path}: {found:?}");
            // In a directory of manifests, the command checks the readable ones.
            let is_directory = kind == "manifest" && path != &"good.yaml";
            assert!(found.is_empty() == (code == 2) || is_directory, "--input-type {kind} {path}");
            if !document.is_empty() {
                assert!(found.iter().all(|r| r["kind"] == document), "{kind} {path}: {found:?}");
            }
        }
    }
    let (_, found) = records(&directory, &["--input-type", "manifest", "plain-valid"]);
    let sources: Vec<_> =
        found.iter().map(|r| format!("{} {}", r["source"], r["kind"]).replace('"', "")).collect();
    let expected = [
        "plain-valid/manifests/deployment.yaml Deployment",
        "plain-valid/manifests/namespace.yaml Namespace",
        "plain-valid/manifests/rbac.yaml#1 ServiceAccount",
        "plain-valid/manifests/rbac.yaml#2 Role",
        "plain-valid/manifests/rbac.yaml#3 RoleBinding",
        "plain-valid/manifests/service.json Service",
    ];
    assert_eq!(sources, expected);
    let wrong = check(&directory, &["--input-type", "helm", "bundle-valid"]);
    assert_eq!(status(&wrong), 2);
    for word in ["helm", "bundle", "plain", "catalog", "manifest"] {
        assert!(err(&wrong).contains(word), "{}", err(&wrong));
    }
}

#[test]
fn a_path_that_is_named_twice_is_reported_once() {
    let directory = directory();
    for paths in [
        &["good.yaml", "good.yaml"][..],
        &["good.yaml", "./good.yaml"],
        &["./bundle-valid", "bundle-valid/."],
        &["plain-valid/manifests", "plain-valid/manifests/service.json"],
    ] {
        let (_, once) = records(&directory, paths.get(..1).unwrap());
        let (_, found) = records(&directory, paths);
        let sources =
            |found: &[Value]| found.iter().map(|it| it["source"].clone()).collect::<Vec<_>>();
        assert_eq!(sources(&found), sources(&once), "{paths:?}");
    }
}

/// The command reports a missing path, and a path without anything to check. In both cases it
/// fails.
#[test]
fn wrong_usage_ends_with_2() {
    let directory = directory();
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    write(&directory, "other/values.yaml", "a: 1\n");
    write(&directory, "texts/README.md", "# x\n");
    write(&directory, "none.yaml", "# nothing\n");
    let cases: [(&[&str], &[&str]); 20] = [
        (&[], &["PATH"]),
        (&["nowhere"], &["nowhere: No such file"]),
        (&["--input-type", "manifest", "nowhere"], &["nowhere", "No such file"]),
        (&["--input-type", "catalog", "nowhere"], &["nowhere", "No such file"]),
        (&["--input-type", "bundle", "nowhere"], &[" nowhere: No such file"]),
        (&["--input-type", "plain", "nowhere"], &[" nowhere: No such file"]),
        (&["empty"], &["empty: ", "manifests/", "schema", "apiVersion", "--input-type"]),
        (&["--input-type", "manifest", "empty"], &["empty: it is empty"]),
        (&["--input-type", "bundle", "empty"], &["empty: it is empty"]),
        (&["--input-type", "plain", "empty"], &["empty: it is empty"]),
        (&["--input-type", "catalog", "empty"], &["empty: it is empty"]),
        (
            &["--input-type", "manifest", "texts"],
            &["texts: there is no file *.json, *.yaml or *.yml in it"],
        ),
        (&["other"], &["other: ", "--input-type"]),
        (&["none.yaml"], &["none.yaml: empty: it should hold manifests"]),
        (&["--input-type", "bundle", "good.yaml"], &["good.yaml: not a directory"]),
        (&["--input-type", "manifest", "other"], &["other/values.yaml: /apiVersion is missing"]),
        (&["--output", "xml", "good.yaml"], &["xml", "sarif"]),
        (&["--config", "nowhere.yaml", "good.yaml"], &["nowhere.yaml: No such file"]),
        (&["--baseline", "good.yaml", "good.yaml", "good.yaml"], &["--baseline"]),
        (&["--baseline", "catalog-valid", "nowhere"], &["nowhere: No such file"]),
    ];
    for (arguments, expected) in cases {
        let output = check(&directory, arguments);
        assert_eq!(status(&output), 2, "{arguments:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{arguments:?}");
        for text in expected {
            assert!(err(&output).contains(text), "{arguments:?}: {}", err(&output));
        }
    }
}

#[test]
fn several_paths_are_checked_at_once() {
    let directory = directory();
    let all = ["catalog-broken", "good.yaml", "bundle-valid", "classless.yaml", "plain-valid"];
    let (status, found) = records(&directory, &all);
    let sources: Vec<_> = found.iter().map(|r| r["source"].as_str().unwrap()).collect();
    let expected = [
        "catalog-broken",
        "catalog-broken",
        "good.yaml",
        "bundle-valid",
        "classless.yaml",
        "plain-valid",
    ];
    assert_eq!((status, &*sources), (1, &expected[..]), "in the order in which they are named");
    let (status, found) = records(&directory, &["good.yaml", "bundle-valid", "catalog-valid"]);
    assert_eq!((status, found.len()), (0, 3));
    // One that is missing does not keep the others from being checked.
    for arguments in [["nowhere", "classless.yaml"], ["classless.yaml", "nowhere"]] {
        let (status, found) = records(&directory, &arguments);
        assert_eq!((status, found.len(), rules(&found[0])), (2, 1, vec!["RPK-12"]));
    }
}

/// An unreadable directory does not prevent the check of the files next to it. No user can read a
/// path that is too long, unlike a path without permission.
#[test]
fn unreadable_directories_are_reported() {
    let cases = [
        ("catalog-broken", "etcd/deep", 1, "FBC-43"),
        ("bundle-broken", "manifests/deep", 2, ""),
        ("bundle-broken", "docs", 2, ""),
        ("plain-broken", "manifests/deep", 2, ""),
    ];
    for (fixture, at, code, rule) in cases {
        let directory = directory();
        let (_, before) = records(&directory, &[fixture]);
        nest_beyond_path_limit(&directory.path().join(fixture).join(at));
        let output = check(&directory, &["--output", "jsonl", fixture]);
        assert_eq!(status(&output), code, "{fixture}/{at}: {}", err(&output));
        let (_, found) = records(&directory, &[fixture]);
        // The command still reports all other violations.
        for (before, found) in before.iter().zip(&found) {
            assert!(rules(before).iter().all(|rule| rules(found).contains(rule)), "{found}");
        }
        let all = out(&output);
        assert!(all.contains(&format!("{fixture}/{at}/d")), "{all}");
        assert!(all.contains("File name too long"), "{all}");
        let told =
            |v: &Value| v["rule"] == rule && v["location"]["file"].to_string().contains("/dddd");
        assert!(rule.is_empty() || found.iter().flat_map(violations).any(told), "{all}");
    }
    let directory = directory();
    write(&directory, "manifests/good.yaml", VALID_BUNDLE);
    nest_beyond_path_limit(&directory.path().join("manifests/deep"));
    let output = check(&directory, &["manifests"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("error: manifests/deep/d"), "{}", err(&output));
}

/// Creates nested directories until the path of the innermost ones exceeds the limit for paths.
fn nest_beyond_path_limit(at: &Path) {
    let names = vec!["d".repeat(200); 12].join("/");
    let (outer, inner) = (at.join(&names), at.with_extension("inner"));
    std::fs::create_dir_all(&outer).unwrap();
    std::fs::create_dir_all(inner.join(&names)).unwrap();
    std::fs::rename(inner, outer.join("inner")).unwrap();
}

#[test]
fn standard_input_is_a_file() {
    let directory = directory();
    let catalog = std::fs::read(directory.path().join("catalog-broken/etcd/catalog.yaml")).unwrap();
    let json = br#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}"#;
    let cases: [(&[&str], &[u8], i32, &str); 9] = [
        (&["-"], BUNDLE_WITHOUT_CLASS.as_bytes(), 1, "-:5:1: deny RPK-12 "),
        (&["-"], VALID_BUNDLE.as_bytes(), 0, ""),
        (&["-"], json, 0, ""),
        (
            &["--input-type", "manifest", "-"],
            BUNDLE_WITHOUT_CLASS.as_bytes(),
            1,
            "-:5:1: deny RPK-12 ",
        ),
        (&["--input-type", "catalog", "-"], &catalog, 1, "└── -:4:1: FBC-11 "),
        (&["-", "good.yaml"], &catalog, 1, "-:4:1: deny FBC-11 "),
        (&["-"], b"a: [\n", 2, " -:1:4: not YAML"),
        (&["--input-type", "bundle", "-"], b"a: 1\n", 2, " -: not a directory"),
        (&["-", "-"], VALID_BUNDLE.as_bytes(), 2, "name it once"),
    ];
    let before = std::fs::read_dir(directory.path()).unwrap().count();
    for (arguments, input, code, expected) in cases {
        let output = check_stdin(&directory, arguments, input);
        let all = out(&output) + &err(&output);
        assert_eq!(status(&output), code, "{arguments:?}: {all}");
        assert!(all.contains(expected), "{arguments:?}: {all}");
        // The command has deleted the copy, and its output does not mention the copy.
        assert!(!all.contains(&*directory.path().to_string_lossy()), "{arguments:?}: {all}");
    }
    let cache = usize::from(directory.path().join(".cache").exists());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), before + cache);
    let output =
        check_stdin(&directory, &["--output", "jsonl", "-"], BUNDLE_WITHOUT_CLASS.as_bytes());
    let record: Value = serde_json::from_str(out(&output).trim()).unwrap();
    assert_eq!(
        (&record["source"], location_of(&record, "RPK-12")),
        (&json!("-"), "-:5".to_owned())
    );
}

/// A repository contains bundles and catalogs next to other files.
#[test]
fn bundles_and_catalogs_below_a_directory_are_found() {
    let directory = directory();
    for (fixture, path) in [
        ("bundle-valid", "repo/bundle/0.1.0"),
        ("bundle-broken", "repo/bundle/0.2.0"),
        ("plain-valid", "repo/plain"),
        ("catalog-broken", "repo/catalog"),
    ] {
        copy(&directory.path().join(fixture), &directory.path().join(path));
    }
    write(&directory, "repo/config/classless.yaml", BUNDLE_WITHOUT_CLASS);
    write(&directory, "repo/Makefile", "all:\n");
    write(&directory, "repo/chart/templates/a.yaml", "name: {{ .Values.name }}\n");
    let expected = [
        ("repo/bundle/0.1.0", "RegistryBundle", true, "bundle"),
        ("repo/bundle/0.2.0", "RegistryBundle", false, "bundle"),
        ("repo/catalog", "FileBasedCatalog", false, "catalog"),
        ("repo/catalog", "FileBasedCatalog", false, "catalog"),
        ("repo/plain", "PlainBundle", true, "plain bundle"),
    ];
    let (code, found) = records(&directory, &["repo"]);
    assert_eq!((code, found.len()), (1, 5), "{found:?}");
    let output = check(&directory, &["repo"]);
    for ((source, kind, ok, name), record) in expected.into_iter().zip(&found) {
        assert_eq!((&record["source"], &record["kind"]), (&json!(source), &json!(kind)));
        assert_eq!(record["ok"], ok, "{record}");
        // The command prints the detected type to stderr.
        let line = format!("{source}: {name}\n");
        assert!(err(&output).contains(&line), "{line} is not in {}", err(&output));
    }
    for place in [
        "bundle/0.2.0/manifests/lease.yaml:2:1: deny RBF-10",
        "catalog/prometheus/catalog.json:5:1: deny FBC-43",
    ] {
        assert!(out(&output).contains(&format!("repo/{place}")), "{}", out(&output));
    }
    // What could have been of a catalog is not passed over in silence.
    let left = "warning: repo/chart/templates/a.yaml:1:8: not YAML";
    assert!(err(&output).contains(left), "{}", err(&output));
    let named = err(&check(&directory, &["repo/bundle/0.1.0"]));
    assert!(named.ends_with("\n1 passed, 0 denied, 0 errors\n"), "{named}");
    assert!(!named.contains("repo/"), "what is named is not found: {named}");
    // Old and new have to be one thing.
    let output = check(&directory, &["--baseline", "bundle-valid", "repo"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("repo: --baseline compares one"), "{}", err(&output));
    let output = check(&directory, &["--baseline", "bundle-valid", "repo/bundle/0.1.0"]);
    assert_eq!(status(&output), 0, "{}", err(&output));
}

/// The project of an Operator is its `watches.yaml`, with the bundles next to it.
#[test]
fn projects_are_evaluated_by_their_watches() {
    let directory = directory();
    let watches = "# all\n- version: v1alpha1\n  group: app.example.com\n  kind: AppService\n  role: r\n  playbook: p.yml\n  manageStatus: 'yes'\n";
    write(&directory, "project/watches.yaml", watches);
    write(&directory, "project/PROJECT", "layout: [ansible.sdk.operatorframework.io/v1]\n");
    write(&directory, "project/config/manager/patch.yaml", BUNDLE_WITHOUT_CLASS);
    let found = [
        "watches.yaml:6:3: deny MSC-12 role and playbook are mutually exclusive for app.example.com/v1alpha1 AppService",
        "watches.yaml:7:3: warn MSC-13 watches.yaml entry 0: manageStatus must be a boolean",
    ];
    for args in
        [&["project"][..], &["--input-type", "project", "project"], &["project/watches.yaml"]]
    {
        let output = check(&directory, args);
        assert_eq!(status(&output), 1, "{args:?}");
        for line in found {
            assert!(out(&output).contains(&format!("project/{line}")), "{}", out(&output));
        }
    }
    copy(&directory.path().join("bundle-valid"), &directory.path().join("project/bundle"));
    let (code, found) = records(&directory, &["project"]);
    let kinds: Vec<_> = found.iter().map(|record| record["kind"].clone()).collect();
    assert_eq!((code, kinds), (1, vec![json!("OperatorProject"), json!("RegistryBundle")]));
    write(&directory, "project/watches.yaml", "- kind: {\n");
    let output = check(&directory, &["--input-type", "project", "project"]);
    assert_eq!(status(&output), 1, "{}", err(&output));
    let denied = "deny MSC-13 watches.yaml cannot be read: not YAML";
    assert!(out(&output).contains(denied), "{}", out(&output));
    let output = check(&directory, &["--input-type", "project", "bundle-valid"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("there is no watches.yaml in it"), "{}", err(&output));
}

/// A link to a file inside of the directory is that file. The command reports any other link, does
/// not show its target, and fails.
#[test]
fn links_are_followed_only_inside_the_directory() {
    // What is moved away first, the link and where it leads to, what is checked, exit status, and what is said.
    type Case<'c> = (Option<(&'c str, &'c str)>, (&'c str, &'c str), &'c [&'c str], i32, &'c str);
    let crds = "dependencies:\n- type: olm.crd\n  value: {}\n";
    let out = "a symbolic link that leads out of the directory: put the file itself there";
    let cases: [Case<'_>; 19] = [
        (
            None,
            ("bundle/manifests/x.yaml", "../../secret.yaml"),
            &["bundle"],
            1,
            &format!(
                "manifests/x.yaml:1:1: deny RBF-12 manifests/x.yaml: cannot parse manifest: {out}"
            ),
        ),
        (
            None,
            ("bundle/metadata/dependencies.yaml", "../../crds.yaml"),
            &["bundle"],
            1,
            &format!(
                "dependencies.yaml:1:1: deny RBF-17 couldn't parse dependency of type unknown: {out}"
            ),
        ),
        (
            Some(("crds.yaml", "bundle/crds")),
            ("bundle/metadata/dependencies.yaml", "../crds"),
            &["bundle"],
            1,
            "metadata/dependencies.yaml:2:3: deny RBF-18 couldn't parse dependency of type olm.crd\n  2 | - type: olm.crd\n",
        ),
        (
            None,
            ("bundle/metadata/properties.yaml", "/etc/passwd"),
            &["bundle"],
            1,
            "deny RBF-19 properties[0]: a symbolic link that leads out",
        ),
        (
            Some(("bundle/metadata/annotations.yaml", "annotations.yaml")),
            ("bundle/metadata/annotations.yaml", "../../annotations.yaml"),
            &["bundle"],
            1,
            &format!("deny RBF-02 Could not find annotations file: {out}"),
        ),
        (
            Some(("bundle/metadata/annotations.yaml", "bundle/annotations")),
            ("bundle/metadata/annotations.yaml", "../annotations"),
            &["bundle"],
            0,
            "1 passed, 0 denied, 0 errors\n",
        ),
        (
            Some(("bundle/manifests", "bundle/m")),
            ("bundle/manifests", "m"),
            &["bundle"],
            1,
            "bundle/manifests:1:1: deny RBF-01 Unable to locate manifests directory: a symbolic link to a directory: put the directory itself there",
        ),
        (
            Some(("bundle/metadata", "m")),
            ("bundle/metadata", "../m"),
            &["bundle"],
            1,
            "deny RBF-01 Unable to locate metadata directory: a symbolic link that leads out of the directory: put the directory",
        ),
        (
            None,
            ("bundle/docs", "."),
            &["bundle"],
            2,
            "error: bundle/docs:1:1: a symbolic link to a directory",
        ),
        (
            None,
            ("bundle/metadata/x", "x"),
            &["bundle"],
            2,
            "x:1:1: a symbolic link that cannot be followed",
        ),
        (
            None,
            ("plain/manifests/x.yaml", "/etc/passwd"),
            &["plain"],
            1,
            "deny PBF-04 manifests/x.yaml: not a static manifest: a symbolic link that leads out",
        ),
        (
            Some(("plain/manifests", "plain/m")),
            ("plain/manifests", "m"),
            &["--input-type", "plain", "plain"],
            1,
            "plain/manifests:1:1: deny PBF-01 get objects from bundle manifests: open manifests: a symbolic link to a directory",
        ),
        (
            Some(("classless.yaml", "plain/classless.yaml")),
            ("plain/manifests/x.yaml", "../classless.yaml"),
            &["plain"],
            1,
            "plain/manifests/x.yaml:5:1: deny RPK-12",
        ),
        (
            None,
            ("catalog/etcd/x.yaml", "../../secret.yaml"),
            &["catalog"],
            1,
            "catalog/etcd/x.yaml:1:1: deny FBC-43",
        ),
        (None, ("catalog/x", ".."), &["catalog"], 1, "catalog/x:1:1: deny FBC-43"),
        (
            Some(("catalog/etcd/catalog.yaml", "catalog/etcd/.catalog")),
            ("catalog/etcd/catalog.yaml", ".catalog"),
            &["catalog"],
            1,
            "deny FBC-04",
        ),
        (
            None,
            ("manifests/x.yaml", "../secret.yaml"),
            &["manifests"],
            2,
            &format!("error: manifests/x.yaml:1:1: {out}"),
        ),
        (
            None,
            ("manifests/x", "/etc"),
            &["manifests"],
            2,
            "error: manifests/x:1:1: a symbolic link that leads out",
        ),
        (
            None,
            ("manifests/x.yaml", "good.yaml"),
            &["manifests"],
            0,
            "2 passed, 0 denied, 0 errors\n",
        ),
    ];
    for (moved, (at, to), arguments, code, expected) in cases {
        let directory = directory();
        write(&directory, "secret.yaml", "password: hunter2\n");
        write(&directory, "crds.yaml", crds);
        write(&directory, "manifests/good.yaml", VALID_BUNDLE);
        for name in ["bundle", "plain", "catalog"] {
            let valid = directory.path().join(format!("{name}-valid"));
            std::fs::rename(valid, directory.path().join(name)).unwrap();
        }
        // What stands there makes room.
        let _ = std::fs::remove_file(directory.path().join("bundle/metadata/dependencies.yaml"));
        if let Some((from, to)) = moved {
            std::fs::rename(directory.path().join(from), directory.path().join(to)).unwrap();
        }
        symlink(to, directory.path().join(at)).unwrap();
        let output = check(&directory, arguments);
        let all = self::out(&output) + &err(&output);
        assert_eq!(status(&output), code, "{at} to {to}: {all}");
        assert!(!all.contains("hunter2") && !all.contains("root:"), "{at} to {to}: {all}");
        assert!(all.contains(expected), "{at} to {to}: {expected}\nis not in\n{all}");
    }
    let directory = directory();
    // The command follows a link that an argument names. It reports a link without a target.
    symlink("bundle-broken", directory.path().join("named")).unwrap();
    symlink("circle.yaml", directory.path().join("circle.yaml")).unwrap();
    assert_eq!(records(&directory, &["named"]).0, 1);
    let circle = check(&directory, &["circle.yaml"]);
    assert_eq!(status(&circle), 2);
    assert!(err(&circle).contains("circle.yaml: "), "{}", err(&circle));
    // The command neither reads nor skips a special file. No process ever writes into this pipe.
    write(&directory, "pipe/manifests/good.yaml", VALID_BUNDLE);
    let pipe = directory.path().join("pipe/manifests/pipe.yaml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let piped = check(&directory, &["pipe"]);
    assert_eq!(status(&piped), 1, "{}", err(&piped));
    let line = "pipe/manifests/pipe.yaml:1:1: deny PBF-04 ";
    let table = std::str::from_utf8(&piped.stdout).unwrap();
    assert!(table.contains(line) && table.contains("not a regular file, but a pipe"), "{table}");
}

#[test]
fn indexignore_has_the_syntax_of_gitignore() {
    // Folder and text of each list, files that are left.
    type Case<'c> = (&'c [(&'c str, &'c str)], &'c [&'c str]);
    // What is left of a catalog with a text in each of these files.
    let files = [
        "README.md",
        "docs/a.md",
        "docs/deep/b.txt",
        "etcd/README.md",
        "etcd/docs/c.md",
        "etcd/keep.txt",
        "x.txt",
    ];
    let cases: [Case<'_>; 12] = [
        (&[], &files),
        (&[("", "*\n")], &[]),
        (&[("", "# README.md\n\n*.md\n")], &["docs/deep/b.txt", "etcd/keep.txt", "x.txt"]),
        (
            &[("", "*.txt\n!keep.txt\n")],
            &["README.md", "docs/a.md", "etcd/README.md", "etcd/docs/c.md", "etcd/keep.txt"],
        ),
        (
            &[("", "!keep.txt\n*.txt\n")],
            &["README.md", "docs/a.md", "etcd/README.md", "etcd/docs/c.md"],
        ),
        (&[("", "docs/\n")], &["README.md", "etcd/README.md", "etcd/keep.txt", "x.txt"]),
        (
            &[("", "/docs\n")],
            &["README.md", "etcd/README.md", "etcd/docs/c.md", "etcd/keep.txt", "x.txt"],
        ),
        // Files in an excluded directory stay excluded.
        (&[("", "docs\n!docs/a.md\n")], &["README.md", "etcd/README.md", "etcd/keep.txt", "x.txt"]),
        (&[("", "/*\n!/etcd/\n/etcd/*\n!/etcd/keep.txt\n")], &["etcd/keep.txt"]),
        (&[("", "**/*.md\nx.txt/\n?.txt\n")], &["etcd/keep.txt"]),
        (&[("", "*.md\r\n*.txt\r\n"), ("etcd/", "!README.md\n/docs\n")], &["etcd/README.md"]),
        (&[("etcd/", "*\n")], &["README.md", "docs/a.md", "docs/deep/b.txt", "x.txt"]),
    ];
    for (ignores, left) in cases {
        let directory = directory();
        std::fs::remove_file(directory.path().join("catalog-valid/.indexignore")).unwrap();
        for file in files {
            write(&directory, &format!("catalog-valid/{file}"), "just a text\n");
        }
        for (base, text) in ignores {
            write(&directory, &format!("catalog-valid/{base}.indexignore"), text);
        }
        let (status, found) = records(&directory, &["--input-type", "catalog", "catalog-valid"]);
        let unreadable: Vec<_> = found
            .iter()
            .flat_map(violations)
            .filter(|v| v["rule"] == "FBC-43")
            .map(|v| {
                v["location"]["file"].as_str().unwrap().strip_prefix("catalog-valid/").unwrap()
            })
            .collect();
        assert_eq!(unreadable, left, "{ignores:?}");
        // A directory in which every file is excluded is not a catalog.
        let code = if found.is_empty() { 2 } else { i32::from(!left.is_empty()) };
        assert_eq!(status, code, "{ignores:?}: {found:?}");
    }
    // Blobs are left out as well.
    let directory = directory();
    write(&directory, "catalog-broken/.indexignore", "/prometheus/\netcd/catalog.yaml\n");
    copy(
        &directory.path().join("catalog-valid/etcd"),
        &directory.path().join("catalog-broken/better"),
    );
    assert_eq!(records(&directory, &["catalog-broken"]).0, 0);
}
