//! `opgate check --cluster-state`: rules about the cluster, in files.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::check::{
    check, configuration, directory, err, out, records, rules, status, violations, write,
};

const VERSION_RESPONSE: &str = r#"{"major": "1", "minor": "19", "gitVersion": "v1.19.3"}"#;
const CSV_FILE: &str = "bundle-valid/manifests/etcdoperator.clusterserviceversion.yaml";

fn cluster_version(version: &str) -> String {
    format!(
        "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {{name: version}}\nstatus: {{desired: {{version: {version}}}, history: [{{state: Completed, version: {version}}}]}}\n"
    )
}

/// The fixtures, with a cluster, and a bundle that supports OpenShift up to 4.12.
fn cluster() -> TempDir {
    let directory = directory();
    write(&directory, "version.json", VERSION_RESPONSE);
    write(&directory, "cluster/version.json", VERSION_RESPONSE);
    write(&directory, "cluster/clusterversion.yaml", cluster_version("4.13.2"));
    let csv = std::fs::read_to_string(directory.path().join(CSV_FILE)).unwrap();
    let last = r#"    olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.12"}]'"#;
    write(
        &directory,
        CSV_FILE,
        csv.replacen("  annotations:", &format!("  annotations:\n{last}"), 1),
    );
    directory
}

/// Rules and places of what is found, with the status.
fn check_rules(directory: &TempDir, arguments: &[&str]) -> (i32, Vec<String>) {
    let (code, records) = records(directory, arguments);
    let shown = |v: &Value| {
        let place = &v["location"];
        let file = place["file"].as_str().unwrap_or_default();
        let name = file.rsplit('/').next().unwrap_or_default();
        format!("{} {name}:{}", v["rule"].as_str().unwrap(), place["line"])
    };
    (code, records.iter().flat_map(violations).map(shown).collect())
}

fn not_evaluated(directory: &TempDir, arguments: &[&str]) -> String {
    let said = err(&check(directory, &[&["--log", "info"], arguments].concat()));
    let lines = said.lines().filter(|line| line.contains("not evaluated: they need other objects"));
    lines.collect()
}

#[test]
fn bundles_are_checked_against_the_cluster_version() {
    let directory = cluster();
    let minimum = "CSV-23 etcdoperator.clusterserviceversion.yaml:26".to_owned();
    let maximum = "CSV-81 etcdoperator.clusterserviceversion.yaml:6".to_owned();
    let both = vec![maximum, minimum.clone()];
    assert_eq!(check_rules(&directory, &["bundle-valid"]), (0, vec![]));
    let skipped = not_evaluated(&directory, &["bundle-valid"]);
    assert!(skipped.contains("CSV-23") && skipped.contains("CSV-81"), "{skipped}");
    let with = |context: &[&str]| {
        let flags = context.iter().flat_map(|path| ["--cluster-state", path]);
        let arguments: Vec<_> = flags.chain(["bundle-valid"]).collect();
        (check_rules(&directory, &arguments), not_evaluated(&directory, &arguments))
    };
    // Rules that need what the files do not show are skipped as without them.
    let (all, skipped) = with(&["version.json"]);
    assert_eq!(all, (0, vec![minimum]));
    assert!(!skipped.contains("CSV-23") && skipped.contains("CSV-81"), "{skipped}");
    assert!(skipped.contains("OPG-20"), "{skipped}");
    for context in [&["cluster"][..], &["version.json", "cluster/clusterversion.yaml"]] {
        assert_eq!(with(context).0, (0, both.clone()), "{context:?}");
    }
    let arguments = ["--cluster-state", "cluster", "--fail-on", "warn", "bundle-valid"];
    assert_eq!(status(&check(&directory, &arguments)), 1);
    // Without a file the configuration says it.
    let settings = json!({"csv": {"kubernetesVersion": "1.19.3", "openShiftVersion": "4.13"}});
    configuration(&directory, &json!([{"name": "cluster-service-version", "settings": settings}]));
    assert_eq!(check_rules(&directory, &["--config", "opgate.yaml", "bundle-valid"]), (0, both));
}

/// What the files show of a resource is all there is of it. Of others nothing is known.
#[test]
fn partial_snapshot_denies_only_by_its_objects() {
    let directory = directory();
    let csv = |namespace: &str| {
        let text = std::fs::read_to_string(directory.path().join(CSV_FILE)).unwrap();
        let text = text.replacen("metadata:\n", &format!("metadata:\n{namespace}"), 1);
        let required = "  customresourcedefinitions:\n    required:\n      - {name: prometheuses.monitoring.coreos.com, kind: Prometheus, version: v1, displayName: Prometheus, description: Metrics}";
        text.replacen("  customresourcedefinitions:", required, 1)
    };
    write(&directory, "named.yaml", csv("  namespace: operators\n"));
    write(&directory, "unnamed.yaml", csv(""));
    write(&directory, "version.json", VERSION_RESPONSE.replace("19", "29"));
    let group = |namespace: &str| {
        format!(
            "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {{name: g, namespace: {namespace}}}\nspec: {{}}\nstatus: {{namespaces: [\"\"]}}\n"
        )
    };
    write(&directory, "elsewhere.yaml", group("elsewhere"));
    write(&directory, "here.yaml", group("operators"));
    let crd = |name: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {name}}}\nspec: {{versions: [{{name: v1, served: true, storage: true}}]}}\n"
        )
    };
    write(&directory, "other-crd.yaml", crd("others.example.com"));
    write(&directory, "crd.yaml", crd("prometheuses.monitoring.coreos.com"));
    for (context, path, code, expected) in [
        ("version.json", "named.yaml", 0, &[][..]),
        ("elsewhere.yaml", "named.yaml", 1, &["OPG-20"]),
        ("elsewhere.yaml", "unnamed.yaml", 0, &[]),
        ("here.yaml", "named.yaml", 0, &[]),
        ("other-crd.yaml", "unnamed.yaml", 0, &["CSV-50"]),
        ("crd.yaml", "unnamed.yaml", 0, &[]),
    ] {
        let (status, found) = records(&directory, &["--cluster-state", context, path]);
        assert_eq!((status, rules(&found[0])), (code, expected.to_vec()), "{context} {path}");
    }
}

#[test]
fn unreadable_cluster_state_ends_the_check() {
    let directory = cluster();
    write(&directory, "cut.yaml", "kind: [");
    write(&directory, "values.yaml", "a: 1\n");
    for (context, said) in [
        ("nowhere.yaml", "nowhere.yaml: No such file"),
        ("cut.yaml", "cut.yaml:1:"),
        ("values.yaml", "values.yaml: /apiVersion is missing"),
    ] {
        let output = check(
            &directory,
            &["--cluster-state", "cluster", "--cluster-state", context, "classless.yaml"],
        );
        assert_eq!((status(&output), &*out(&output)), (2, ""), "{context}: {}", err(&output));
        assert!(err(&output).contains(said), "{context}: {}", err(&output));
    }
    // It counts as everything else that is read.
    let arguments = ["--max-input-size", "1Ki", "--cluster-state", "cluster", "good.yaml"];
    assert_eq!(status(&check(&directory, &arguments)), 0);
    write(&directory, "cluster/large.yaml", cluster_version("4.13.2") + &"#".repeat(2_000));
    let output = check(&directory, &arguments);
    assert_eq!((status(&output), &*out(&output)), (2, ""), "{}", err(&output));
}
