//! Which files are denied: the same verdicts as those of requests.

use serde_json::{Value, json};
use std::collections::BTreeSet;

use super::*;

#[test]
fn valid_input_passes_and_broken_input_is_denied() {
    // Path, exit status, kind and name of each subject, rules that deny.
    type Case<'c> = (&'c str, i32, &'c [(&'c str, &'c str)], &'c [&'c str]);
    let directory = directory();
    let cases: [Case<'_>; 9] = [
        ("bundle-valid", 0, &[("RegistryBundle", "bundle-valid")], &[]),
        ("bundle-broken", 1, &[("RegistryBundle", "bundle-broken")], &BROKEN_BUNDLE_RULES),
        ("plain-valid", 0, &[("PlainBundle", "plain-valid")], &[]),
        ("plain-broken", 1, &[("PlainBundle", "plain-broken")], &["PBF-03", "PBF-04", "PBF-05"]),
        ("catalog-valid", 0, &[("FileBasedCatalog", "etcd")], &[]),
        (
            "catalog-broken",
            1,
            &[("FileBasedCatalog", "etcd"), ("FileBasedCatalog", "")],
            &["FBC-11", "FBC-18", "FBC-21", "FBC-35", "FBC-43"],
        ),
        ("catalog-broken/etcd/catalog.yaml", 1, &[("FileBasedCatalog", "etcd")], &["FBC-11"]),
        ("good.yaml", 0, &[("Bundle", "good")], &[]),
        ("classless.yaml", 1, &[("Bundle", "classless")], &["RPK-12"]),
    ];
    for (path, code, subjects, expected) in cases {
        let (status, found) = records(&directory, &[path]);
        let names: Vec<_> = found
            .iter()
            .map(|r| (r["kind"].as_str().unwrap(), r["name"].as_str().unwrap()))
            .collect();
        assert_eq!((status, &*names), (code, subjects), "{path}");
        assert!(found.iter().all(|r| r["source"] == path), "{path}: {found:?}");
        assert_eq!(found.iter().all(|r| r["ok"] == true), code == 0, "{path}: {found:?}");
        let denied = found.iter().flat_map(violations).filter(|v| v["effect"] == "deny");
        let denied = sorted(denied.map(|v| v["rule"].as_str().unwrap()));
        assert!(expected.iter().all(|rule| denied.contains(rule)), "{path}: {denied:?}");
        assert_eq!(denied.is_empty(), expected.is_empty(), "{path}: {denied:?}");
    }
}

/// Bytes without any order in them, which nothing makes smaller.
fn random_bytes(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..count).map(next).collect()
}

/// A bundle has to fit into one ConfigMap, compressed and in base64, however large its files are.
#[test]
fn bundle_size_is_the_compressed_size() {
    let directory = directory();
    let cases = [
        ("metadata/large.txt", vec![b'a'; 5_000_000], 0, None),
        ("metadata/noise", random_bytes(600_000), 0, None),
        ("metadata/noise", random_bytes(700_000), 0, Some(("RBF-15", "nearing maximum bundle"))),
        (
            "metadata/noise",
            random_bytes(800_000),
            1,
            Some(("RBF-14", "exceeded: size=~1.1 MB , max=1.0 MB")),
        ),
        (
            "metadata/noise",
            random_bytes(3_000_000),
            1,
            Some(("RBF-14", "exceeded: size=~4.0 MB , max=1.0 MB")),
        ),
        // By how much it is too large does not matter any more.
        (
            "metadata/noise",
            random_bytes(9_000_000),
            1,
            Some(("RBF-14", "exceeded: size=~more than 8.4 MB , max=1.0 MB")),
        ),
        // OLM does not unpack what is elsewhere.
        ("docs/noise", random_bytes(3_000_000), 0, None),
    ];
    for (name, content, code, expected) in cases {
        let path = format!("bundle-valid/{name}");
        write(&directory, &path, &content);
        let output = check(&directory, &["--log", "info", "--output", "jsonl", "bundle-valid"]);
        std::fs::remove_file(directory.path().join(&path)).unwrap();
        let case = format!("{name}, {} bytes", content.len());
        let record: Value = serde_json::from_str(out(&output).trim()).unwrap();
        assert_eq!(status(&output), code, "{case}: {record}");
        assert_eq!(rules(&record), Vec::from_iter(expected.map(|(rule, _)| rule)), "{case}");
        let told = expected.is_none_or(|(_, text)| record.to_string().contains(text));
        assert!(told, "{case}: {record}");
        // Neither rule is left out.
        assert!(!err(&output).contains("RBF-1"), "{case}: {}", err(&output));
    }
}

/// Rules for every manifest evaluate files. They do not make the API server send requests.
#[test]
fn every_manifest_is_evaluated() {
    let directory = directory();
    let manifest = "apiVersion: cache.example.com/v1\nkind: Memcached\nmetadata:\n  name: a\n  labels: {tier: 1}\n  annotations:\n    ansible.operator-sdk/reconcile-period: soon\n    ansible.operator-sdk/max-runner-artifacts: '-1'\n";
    write(&directory, "memcached.yaml", manifest);
    let output = check(&directory, &["memcached.yaml"]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    for line in [
        "memcached.yaml:5:12: warn MSC-20 metadata.labels[tier] must be a string",
        "memcached.yaml:7:5: warn MSC-10 annotation ansible.operator-sdk/reconcile-period \"soon\" is not a duration",
        "memcached.yaml:8:5: warn MSC-11 annotation ansible.operator-sdk/max-runner-artifacts \"-1\" is not a non-negative integer",
    ] {
        assert!(out(&output).contains(line), "{}", out(&output));
    }
}

/// A setting keeps Secrets away from the webhook, and not from a check that is given one.
#[test]
fn pull_secret_in_a_file_is_evaluated() {
    let directory = directory();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: openshift-marketplace}\ntype: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: '{\"auths\": {\"a.io\": {}, \"b.io\": {}}}'\n";
    write(&directory, "secret.yaml", secret);
    let source = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: c, namespace: openshift-marketplace}\nspec: {sourceType: grpc, image: x, secrets: [s]}\n";
    write(&directory, "cluster.yaml", source);
    let output = check(&directory, &["--cluster-state", "cluster.yaml", "secret.yaml"]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    let line = "secret.yaml:6:3: warn CAT-21 include credentials for only one registry per secret: found [a.io b.io]";
    assert!(out(&output).contains(line), "{}", out(&output));
}

/// Unusual, and right.
#[test]
fn unusual_valid_yaml_is_read() {
    let directory = directory();
    let json = "{\"apiVersion\": \"core.rukpak.io/v1alpha1\", \"kind\": \"Bundle\", \"metadata\": {\"name\": \"b\"}, \"spec\": {}}";
    let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let cases = [
        ("crlf.yaml", BUNDLE_WITHOUT_CLASS.replace('\n', "\r\n")),
        ("bom.yaml", format!("\u{feff}{BUNDLE_WITHOUT_CLASS}")),
        ("bom.json", format!("\u{feff}{json}")),
        ("both.yaml", format!("\u{feff}{}", BUNDLE_WITHOUT_CLASS.replace('\n', "\r\n"))),
        ("json.yaml", json.to_owned()),
        ("tabs.yaml", json.replace(' ', "\t")),
        ("no-newline.yaml", BUNDLE_WITHOUT_CLASS.trim_end().to_owned()),
        ("start.yaml", format!("# comment\n\n---\n{BUNDLE_WITHOUT_CLASS}...\n---\n# nothing\n")),
        ("anchor.yaml", BUNDLE_WITHOUT_CLASS.replace("  name: classless", "  name: &n classless\n  labels: {app: *n}")),
        (
            "merge.yaml",
            format!("{BUNDLE_WITHOUT_CLASS}a: &a {{x: 1}}\nb: &b {{y: 2}}\nc:\n  <<: [*a, *b]\n  x: own\n"),
        ),
        (
            "merged-head.yaml",
            "head: &head\n  apiVersion: core.rukpak.io/v1alpha1\n  kind: Bundle\n<<: *head\nmetadata: {name: b}\nspec: {}\n".to_owned(),
        ),
        ("deep.yaml", format!("{BUNDLE_WITHOUT_CLASS}deep: {nested}\n")),
        ("deep.json", json.replace("{}", &format!("{{\"deep\": {nested}}}"))),
        ("long.yaml", format!("{BUNDLE_WITHOUT_CLASS}long: {}\n", "x".repeat(1_000_000))),
        (
            "list.yaml",
            format!("apiVersion: v1\nkind: List\nitems:\n- {}", BUNDLE_WITHOUT_CLASS.trim_end().replace('\n', "\n  ")),
        ),
    ];
    for (name, content) in cases {
        write(&directory, name, &content);
        let (status, found) = records(&directory, &[name]);
        assert_eq!((status, found.len()), (1, 1), "{name}: {found:?}");
        assert!(rules(&found[0]).contains(&"RPK-12"), "{name}: {found:?}");
        let place = location_of(&found[0], "RPK-12");
        let line = place.rsplit(':').next().unwrap().parse::<usize>().unwrap();
        assert!(content.lines().nth(line - 1).unwrap().contains("spec"), "{name}: {place}");
    }
    let both = format!("{VALID_BUNDLE}---\n{BUNDLE_WITHOUT_CLASS}");
    write(&directory, "two.yaml", &both);
    let (status, found) = records(&directory, &["two.yaml"]);
    assert_eq!((status, &found[0]["ok"], &found[1]["ok"]), (1, &json!(true), &json!(false)));
    assert_eq!(found[1]["source"], "two.yaml#2");
    let line = both.lines().enumerate().filter(|(_, l)| *l == "spec:").nth(1).unwrap().0 + 1;
    assert_eq!(location_of(&found[1], "RPK-12"), format!("two.yaml:{line}"));
}

/// Blobs of a package can be anywhere: in nested directories, as JSON and YAML, several in a file.
#[test]
fn blobs_are_found_at_any_depth() {
    let directory = directory();
    let bundle = |package: &str, version: &str| {
        json!({
            "schema": "olm.bundle",
            "package": package,
            "name": format!("{package}.v{version}"),
            "image": format!("quay.io/example/{package}@sha256:{}", "0".repeat(64)),
            "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}],
        })
    };
    let package =
        |name: &str| json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"});
    let channel = |package: &str, entries: Value| json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries});
    let a =
        channel("a", json!([{"name": "a.v1.0.0"}, {"name": "a.v1.1.0", "replaces": "a.v1.0.0"}]));
    write(&directory, "catalog/a/package.json", format!("{}{a:#}\n", package("a")));
    write(&directory, "catalog/a/v1/0/bundle.json", format!("{:#}", bundle("a", "1.0.0")));
    write(
        &directory,
        "catalog/a/v1/1/bundle.yaml",
        format!("---\n# JSON is YAML\n{:#}\n", bundle("a", "1.1.0")),
    );
    let b = channel("b", json!([{"name": "b.v2.0.0"}]));
    // The name of a file says nothing.
    write(
        &directory,
        "catalog/all/of/b",
        format!("{}\n{b}\n\n{}", package("b"), bundle("b", "2.0.0")),
    );
    let (status, found) = records(&directory, &["catalog"]);
    let names: Vec<_> = found.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!((status, &*names), (0, &["a", "b"][..]), "{found:?}");

    // The third value of a file, and the second document of another.
    write(
        &directory,
        "catalog/all/of/b",
        format!("{}\n{b}\n\n{}", package("b"), bundle("b", "two")),
    );
    let one = serde_json::to_string(&bundle("a", "1.0.0")).unwrap();
    write(
        &directory,
        "catalog/a/v1/1/bundle.yaml",
        format!("---\n{one}\n---\n{}", bundle("a", "x")),
    );
    let (status, found) = records(&directory, &["catalog"]);
    assert_eq!(status, 1);
    assert_eq!(location_of(&found[1], "FBC-35"), "catalog/all/of/b:4");
    assert_eq!(location_of(&found[0], "FBC-35"), "catalog/a/v1/1/bundle.yaml:4");
    assert!(rules(&found[0]).contains(&"FBC-30"), "a bundle is there twice: {found:?}");
}

#[test]
fn configuration_sets_levels_and_policies() {
    let directory = directory();
    let policies = |name: &str, extra: Value| {
        let mut policy = json!({"name": name});
        policy.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!([policy])
    };
    let all = |rules: &[&str], level: &str| {
        let levels = rules.iter().map(|rule| ((*rule).to_owned(), json!(level)));
        json!({"rules": levels.collect::<serde_json::Map<_, _>>()})
    };
    let broken_bundle = ["RBF-03", "RBF-07", "RBF-10", "RBF-12"];
    let cases = [
        ("classless.yaml", policies("bundle-immutability", json!({})), 1, 1),
        ("classless.yaml", policies("bundle-immutability", all(&["RPK-12"], "warn")), 0, 1),
        ("classless.yaml", policies("bundle-immutability", all(&["RPK-12"], "off")), 0, 0),
        ("classless.yaml", policies("bundle-immutability", json!({"mode": "warn"})), 0, 1),
        ("classless.yaml", policies("operator-group", json!({})), 0, 0),
        ("bundle-broken", policies("registry-bundle", json!({})), 1, 4),
        ("bundle-broken", policies("registry-bundle", all(&broken_bundle, "warn")), 0, 4),
        ("bundle-broken", policies("registry-bundle", all(&broken_bundle[..3], "off")), 1, 1),
        ("plain-broken", policies("plain-bundle", json!({"mode": "warn"})), 0, 3),
        ("catalog-broken", policies("file-based-catalog", json!({"mode": "warn"})), 0, 5),
    ];
    for (path, policies, code, count) in cases {
        configuration(&directory, &policies);
        let (status, found) = records(&directory, &["--config", "opgate.yaml", path]);
        let reported = sorted(found.iter().flat_map(rules)).len();
        assert_eq!((status, reported), (code, count), "{path} {policies}: {found:?}");
    }
    // A file that no policy has told about is not passed over.
    configuration(&directory, &policies("registry-bundle", all(&broken_bundle, "off")));
    let output = check(&directory, &["--config", "opgate.yaml", "bundle-broken"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("bundle-broken/manifests/service.yaml:4:"), "{}", err(&output));
    // Without a policy for such a directory, the command reports that no policy evaluated it.
    configuration(&directory, &json!([]));
    let output = check(&directory, &["--config", "opgate.yaml", "catalog-valid"]);
    assert_eq!(status(&output), 0);
    assert!(err(&output).contains("FileBasedCatalog"), "{}", err(&output));
    // Warnings count as errors if the configuration sets this.
    let policy = policies("bundle-immutability", all(&["RPK-12"], "warn"));
    let strict = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "check": {"warningsAsErrors": true},
        "policies": policy,
    });
    write(&directory, "opgate.yaml", strict.to_string());
    for (path, code) in [("classless.yaml", 1), ("good.yaml", 0)] {
        assert_eq!(records(&directory, &["--config", "opgate.yaml", path]).0, code, "{path}");
    }
    write(
        &directory,
        "opgate.yaml",
        "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolices: []\n",
    );
    let output = check(&directory, &["--config", "opgate.yaml", "good.yaml"]);
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("opgate.yaml:3:1"), "{}", err(&output));
}

/// A manifest in a bundle becomes an object of a cluster. The policies of its kind evaluate it as
/// one.
#[test]
fn bundle_manifests_are_evaluated_by_policies_of_their_kind() {
    let directory = directory();
    let group = "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata:\n  name: g\n  namespace: n\nspec:\n  targetNamespaces: [\"\"]\n";
    for (fixture, document) in [("bundle-valid", "RegistryBundle"), ("plain-valid", "PlainBundle")]
    {
        write(&directory, &format!("{fixture}/manifests/a.yaml"), BUNDLE_WITHOUT_CLASS);
        write(&directory, &format!("{fixture}/manifests/b.yaml"), group);
        let (status, found) = records(&directory, &[fixture]);
        assert_eq!((status, found.len(), &found[0]["kind"]), (1, 1, &json!(document)));
        for (rule, path, field) in [
            ("RPK-12", "manifests/a.yaml:5", ".documents[0].spec.provisionerClassName"),
            ("OPG-04", "manifests/b.yaml:7", ".documents[0].spec.targetNamespaces"),
        ] {
            assert_eq!(location_of(&found[0], rule), format!("{fixture}/{path}"));
            let violation = violations(&found[0]).iter().find(|v| v["rule"] == rule).unwrap();
            let shown = violation["field"].as_str().unwrap();
            assert!(shown.starts_with("spec.files[") && shown.ends_with(field), "{shown}");
        }
        // The manifests alone say the same.
        let alone =
            records(&directory, &["--input-type", "manifest", &format!("{fixture}/manifests")]).1;
        let of = |records: &[Value], policy: &str| {
            let all = records.iter().flat_map(violations).filter(|v| v["policy"] == policy);
            all.map(|v| (v["rule"].clone(), v["message"].clone(), v["location"].clone()))
                .collect::<Vec<_>>()
        };
        for policy in ["bundle-immutability", "operator-group"] {
            assert!(!of(&found, policy).is_empty(), "{policy}: {found:?}");
            assert_eq!(of(&found, policy), of(&alone, policy), "{policy}");
        }
    }
}

/// A manifest is denied here for what an API server would be told about it.
#[test]
fn manifest_and_its_review_get_the_same_verdict() {
    let directory = directory();
    let bundle = |spec: Value| json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "b"}, "spec": spec});
    let group = |spec: Value| json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "g", "namespace": "n", "annotations": {"olm.providedAPIs": "x"}}, "spec": spec});
    let class = "core-rukpak-io-plain";
    let cases = [
        ("bundles", bundle(testkit::good_spec())),
        ("bundles", bundle(json!({}))),
        ("bundles", bundle(json!({"provisionerClassName": "Not OK", "source": {"type": "git"}}))),
        (
            "bundles",
            bundle(
                json!({"provisionerClassName": class, "source": {"type": "git", "git": {"repository": "r", "directory": "../..", "ref": {"branch": "b", "tag": "t"}}}}),
            ),
        ),
        (
            "bundles",
            bundle(
                json!({"provisionerClassName": class, "source": {"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}, "path": "/x"}, {"configMap": {"name": "b"}, "path": "../y"}]}}),
            ),
        ),
        (
            "bundles",
            bundle(
                json!({"provisionerClassName": class, "source": {"type": "image", "image": {"ref": "x:latest"}}}),
            ),
        ),
        (
            "operatorgroups",
            group(json!({"targetNamespaces": ["a", "a", ""], "upgradeStrategy": "Nope"})),
        ),
        (
            "operatorgroups",
            group(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})),
        ),
        (
            "bundledeployments",
            json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "d".repeat(60)}, "spec": {"template": {"spec": {"source": {"type": "image"}}}}}),
        ),
        (
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}),
        ),
    ];
    let mut evaluated = 0;
    for (resource, object) in cases {
        let api_version = object["apiVersion"].as_str().unwrap();
        let (api_group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = json!({"group": api_group, "version": version, "resource": resource});
        let kind = json!({"group": api_group, "version": version, "kind": object["kind"]});
        let request = json!({
            "uid": "u",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": object["metadata"]["name"],
            "namespace": object["metadata"].get("namespace").unwrap_or(&json!("")),
            "operation": "CREATE",
            "userInfo": {"username": "admin"},
            "object": object,
            "oldObject": null,
        });
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        write(&directory, "review.json", review.to_string());
        write(&directory, "object.json", format!("{object:#}"));
        let replayed = command(directory.path(), &["replay", "--output", "jsonl", "review.json"])
            .output()
            .unwrap();
        let replayed: (i32, Value) =
            (status(&replayed), serde_json::from_str(out(&replayed).trim()).unwrap());
        let (code, found) = records(&directory, &["--input-type", "manifest", "object.json"]);
        let without_places = |v: &Value| {
            let mut v = v.clone();
            v.as_object_mut().unwrap().remove("location");
            v.to_string()
        };
        let set =
            |record: &Value| violations(record).iter().map(without_places).collect::<BTreeSet<_>>();
        assert_eq!(set(&found[0]), set(&replayed.1), "{object}");
        assert_eq!(violations(&found[0]).len(), violations(&replayed.1).len(), "{object}");
        assert_eq!((code, &found[0]["ok"]), (replayed.0, &replayed.1["allowed"]), "{object}");
        evaluated += violations(&found[0]).len();
    }
    assert!(evaluated > 15, "{evaluated}");
}
