//! One ClusterServiceVersion from four sources: a separate object, a manifest of a bundle,
//! `olm.bundle.object` of a catalog, and `olm.csv.metadata` of a catalog. The tests evaluate all objects
//! of the cases from each source. A bundle is evaluated as strictly as by its author's tools, so it can
//! have more violations.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests may panic")]

use std::collections::BTreeSet;

use opgate_cluster_service_version::POLICY;
use opgate_sdk::Level;
use opgate_sdk_testing::native::{cases, verdict};
use opgate_sdk_testing::{Case, RequestParts};
use serde_json::{Map, Value, json};

/// Rule, message, and the field in the object.
type Finding = (String, String, String);

/// Members of the spec, and their names in `olm.csv.metadata`.
const MEMBERS: [(&str, &str); 12] = [
    ("apiservicedefinitions", "apiServiceDefinitions"),
    ("customresourcedefinitions", "crdDescriptions"),
    ("description", "description"),
    ("displayName", "displayName"),
    ("installModes", "installModes"),
    ("keywords", "keywords"),
    ("links", "links"),
    ("maintainers", "maintainers"),
    ("maturity", "maturity"),
    ("minKubeVersion", "minKubeVersion"),
    ("nativeAPIs", "nativeAPIs"),
    ("provider", "provider"),
];

/// The violations of rules that also match catalogs.
fn findings(case: &Case, place: &str) -> BTreeSet<Finding> {
    let rules = POLICY.all_rules();
    let in_catalogs = |id: &str| {
        let rule = rules.iter().find(|rule| rule.id == id).expect("a rule of the policy");
        rule.on.iter().any(|(target, _)| target.kind == "FileBasedCatalog")
    };
    let found = verdict(&POLICY, case).violations.into_iter();
    // An API server requires the member; tools that read a catalog use false if it is missing.
    let is_decoded = |message: &str| message.ends_with(".supported: Required value");
    let found = found.filter(|found| in_catalogs(&found.rule) && !is_decoded(&found.message));
    found
        .map(|found| {
            let field = found.field.strip_prefix(place).unwrap_or(&found.field);
            (found.rule, found.message, field.trim_start_matches('.').to_owned())
        })
        .collect()
}

/// The rules that deny the object of a case.
fn denials(case: &Case) -> BTreeSet<String> {
    let found = verdict(&POLICY, case).violations.into_iter();
    found.filter(|found| found.level == Level::Deny).map(|found| found.rule).collect()
}

/// The case with another user and other groups, which identify the source of the object.
fn sent_by(case: &Case, user: &str, groups: &[&str]) -> Case {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let user = Some(user.to_owned());
    Case { request: RequestParts { user, groups, ..case.request.clone() }, ..case.clone() }
}

/// The case with a catalog of one bundle instead of its object.
fn in_catalog(case: &Case, name: &Value, property: &Value) -> Case {
    let blob = json!({"schema": "olm.bundle", "name": name, "properties": [property]});
    let catalog = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "FileBasedCatalog",
        "metadata": {"name": "p"},
        "spec": {"package": "p", "blobs": [{"value": blob}]},
    });
    Case { object: Some(catalog), ..case.clone() }
}

/// New objects that do not claim to be copies, and are evaluated without a cluster.
fn objects() -> Vec<(Case, Value)> {
    let mut found = Vec::new();
    for case in cases(&POLICY, env!("CARGO_MANIFEST_DIR")) {
        let Some(object) = case.object.clone() else { continue };
        let is_new = case.operation == "CREATE" && case.cluster.is_none();
        let claims = object["metadata"]["labels"].get("olm.copiedFrom").is_some()
            || object["metadata"]["annotations"].get("olm.operatorNamespace").is_some()
            || object["status"]["reason"] == "Copied";
        let is_named = case.request.name.is_none() && case.request.sub_resource.is_none();
        if object["kind"] == "ClusterServiceVersion" && is_new && !claims && is_named {
            found.push((sent_by(&case, "opgate:check", &[]), object));
        }
    }
    assert!(found.len() > 100, "{} objects", found.len());
    found
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * digit) & 63).expect("six bits");
            let is_there = digit <= chunk.len();
            text.push(if is_there { char::from(DIGITS[index]) } else { '=' });
        }
    }
    text
}

#[test]
fn object_in_a_catalog_has_the_same_violations() {
    let place = "spec.blobs[0].value.properties[0].value.data";
    let mut count = 0;
    for (case, object) in objects() {
        let data = base64(object.to_string().as_bytes());
        let property = json!({"type": "olm.bundle.object", "value": {"data": data}});
        let catalog = in_catalog(&case, &json!("p.v1.0.0"), &property);
        let (expected, found) = (findings(&case, ""), findings(&catalog, place));
        assert_eq!(found, expected, "{}: {}", case.rule, case.name);
        count += found.len();
    }
    assert!(count > 100, "{count} findings");
}

#[test]
fn metadata_in_a_catalog_show_nothing_that_the_object_does_not() {
    for (case, object) in objects() {
        let mut metadata = Map::new();
        for member in ["annotations", "labels"] {
            metadata.insert(member.to_owned(), object["metadata"][member].clone());
        }
        for (member, name) in MEMBERS {
            if let Some(value) = object["spec"].get(member) {
                metadata.insert(name.to_owned(), value.clone());
            }
        }
        let property = json!({"type": "olm.csv.metadata", "value": metadata});
        let catalog = in_catalog(&case, &object["metadata"]["name"], &property);
        let expected = findings(&case, "");
        let known: BTreeSet<_> = expected.iter().map(|(rule, text, _)| (rule, text)).collect();
        for (rule, text, field) in &findings(&catalog, "") {
            let what = format!("{}: {}: {rule} at {field}: {text}", case.rule, case.name);
            assert!(known.contains(&(rule, text)), "{what}");
        }
    }
}

#[test]
fn bundle_is_denied_whenever_its_object_is_denied() {
    let mut stricter = 0;
    for (case, _) in objects() {
        let bundle = denials(&sent_by(&case, "opgate:check", &["opgate:bundle"]));
        let object = denials(&sent_by(&case, "alice", &[]));
        let missed: Vec<_> = object.difference(&bundle).collect();
        assert!(missed.is_empty(), "{}: {}: {missed:?}", case.rule, case.name);
        stricter += bundle.difference(&object).count();
    }
    assert!(stricter > 10, "{stricter} denials of bundles only");
}
