//! The verdicts of the policy: the cases of its rules, and properties that no case can show.

use std::sync::LazyLock;

use opgate_crd_upgrade::POLICY;
use opgate_sdk::cluster::Cluster;
use opgate_sdk::{Operation, Report, Request, RequestParts, Review, SampleError};
use opgate_sdk_testing::Case;
use opgate_sdk_testing::native::verdict;
use serde_json::json;

opgate_sdk_testing::tests!(POLICY);

/// Names and values that the rules require.
const WORDS: [&str; 48] = [
    "Namespaced",
    "Webhook",
    "BundleDeployment",
    "ConversionWebhook",
    "Copied",
    "spec",
    "status",
    "metadata",
    "name",
    "versions",
    "version",
    "served",
    "storage",
    "schema",
    "openAPIV3Schema",
    "validation",
    "type",
    "object",
    "array",
    "string",
    "integer",
    "number",
    "nullable",
    "format",
    "date-time",
    "properties",
    "additionalProperties",
    "items",
    "required",
    "enum",
    "pattern",
    "maximum",
    "minLength",
    "multipleOf",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-int-or-string",
    "conversion",
    "strategy",
    "storedVersions",
    "replaces",
    "owned",
    "conversionCRDs",
    "v1",
    "replicas",
    "crontabs.stable.example.com",
];

#[test]
fn any_value_in_any_field_has_a_verdict() {
    opgate_sdk_testing::any::value_in_any_place_has_a_verdict(&POLICY, DIRECTORY, &WORDS);
}

/// The state of a cluster from a file can have what no API server stores.
#[test]
fn stored_definition_with_a_mapping_of_versions_has_no_versions() {
    let mut tried = 0;
    for case in CASES.iter().filter(|case| case.rule == "CRD-17") {
        let mut case = case.clone();
        for object in case.cluster.iter_mut().flatten() {
            if object["kind"] == "CustomResourceDefinition"
                && let Some(version) = object["spec"]["versions"].get(0).cloned()
            {
                object["spec"]["versions"] = json!({"v1": version});
                tried += 1;
            }
        }
        let _ = verdict(&POLICY, &case);
    }
    assert!(tried > 0);
}

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| opgate_sdk_testing::native::cases(&POLICY, DIRECTORY));

#[expect(clippy::expect_used, reason = "a test without its case fails")]
fn case(rule: &str, name: &str) -> Case {
    let found = CASES.iter().find(|case| case.rule == rule && case.name == name);
    found.expect("a case of this name").clone()
}

/// The reason why a rule was skipped, or evaluated in part.
fn reason(case: &Case, rule: &str) -> Option<String> {
    let skipped = verdict(&POLICY, case).skipped;
    skipped.into_iter().find(|skipped| skipped.rule == rule).map(|skipped| skipped.reason)
}

#[test]
fn number_of_evaluated_objects_is_reported() {
    for rule in ["CRD-11", "CRD-17"] {
        let more = case(rule, "more objects than the limit");
        let expected = "in part: 1 objects were looked at, there are more";
        assert_eq!(reason(&more, rule).as_deref(), Some(expected));
        let mut absent = case(rule, "there is no cluster to ask");
        absent.settings["crd"]["validateExisting"] = json!("all");
        let expected = "the cluster's custom resources are not available";
        assert_eq!(reason(&absent, rule).as_deref(), Some(expected));
    }
}

/// Objects that take too long are not evaluated, and the verdict reports it.
#[test]
fn work_has_a_limit() {
    let mut slow = case("CRD-11", "there are no objects");
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let object = slow.object.as_mut().expect("an object");
    object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!({"l": list});
    for name in ["a", "b", "c", "d", "e"] {
        slow.cluster.as_mut().expect("a cluster").push(json!({
            "apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name},
            "l": vec![1; 100_000],
        }));
    }
    let expected = "in part: 3 objects were looked at, more would take too long";
    assert_eq!(reason(&slow, "CRD-11").as_deref(), Some(expected));
    assert!(verdict(&POLICY, &slow).violations.iter().all(|found| found.rule != "CRD-11"));
}

/// This number of versions is valid JSON. Their schemas are not compared.
#[test]
fn very_many_versions_are_not_compared() {
    let mut many = case("CRD-11", "there are no objects");
    let version = json!({"name": "v", "served": true, "storage": false, "schema": {}});
    let versions = || json!(vec![version.clone(); 20_000]);
    many.object.as_mut().expect("an object")["spec"]["versions"] = versions();
    many.old.as_mut().expect("an object")["spec"]["versions"] = versions();
    let expected = "the CRD has too many versions to compare them";
    assert_eq!(reason(&many, "CRD-11").as_deref(), Some(expected));
}

/// A file can have them.
#[test]
fn very_many_versions_are_not_read() {
    let mut many = case("CRD-04", "upper case");
    let object = many.object.as_mut().expect("an object");
    object["spec"]["versions"] = json!(vec![json!({}); 32_769]);
    object["metadata"]["name"] = json!("a");
    let expected = "the CRD has too many versions to evaluate them";
    for rule in ["CRD-04", "CRD-13"] {
        assert_eq!(reason(&many, rule).as_deref(), Some(expected));
    }
    let found: Vec<_> = verdict(&POLICY, &many).violations.into_iter().map(|v| v.rule).collect();
    assert_eq!(found, ["CRD-01"]);
}

/// Each version needs a list request to the API server.
#[test]
fn objects_of_some_versions_are_listed() {
    let mut several = case("CRD-11", "there are no objects");
    let versions = |maximum: u32| {
        let version = |n: u32| {
            json!({"name": format!("v{n}"), "served": true, "storage": n == 0,
                "schema": {"openAPIV3Schema": {"maxProperties": maximum}}})
        };
        json!((0..9).map(version).collect::<Vec<_>>())
    };
    several.object.as_mut().expect("an object")["spec"]["versions"] = versions(2);
    several.old.as_mut().expect("an object")["spec"]["versions"] = versions(3);
    let expected = "in part: objects of 8 versions were looked at, there are more versions";
    assert_eq!(reason(&several, "CRD-11").as_deref(), Some(expected));
}

/// Too deep JSON, as a schema and as an object.
#[test]
fn too_deep_schema_or_object_is_skipped_in_part() {
    let deep = (0..200).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
    let mut schema = case("CRD-11", "there are no objects");
    schema.object.as_mut().expect("an object")["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        deep.clone();
    let expected = "in part: the schema is too large or too deep";
    assert_eq!(reason(&schema, "CRD-11").as_deref(), Some(expected));
    let mut object = case("CRD-11", "there are no objects");
    object.cluster.as_mut().expect("a cluster").push(json!({
        "apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "a"},
        "spec": deep,
    }));
    let expected = "in part: an object is too large or too deep";
    assert_eq!(reason(&object, "CRD-11").as_deref(), Some(expected));
}

/// A file larger than the objects that an API server stores.
#[test]
fn schemas_beyond_a_limit_are_evaluated_in_part() {
    let wide = |count: usize| {
        let member = |n| (format!("p{n}"), json!({"type": "string", "default": "a"}));
        json!({"type": "object", "properties": (0..count).map(member).collect::<serde_json::Map<_, _>>()})
    };
    let deep = (0..200).fold(
        json!({"type": "object", "default": {}}),
        |inner, _| json!({"type": "object", "properties": {"a": inner}}),
    );
    let large = json!({"type": "object", "description": "a".repeat(1_600_000)});
    let few = wide(1_000);
    for (schema, expected) in [
        (&few, None),
        (&wide(30_000), Some("in part: the defaults take too long to evaluate all of them")),
        (&deep, Some("in part: the defaults take too long to evaluate all of them")),
        (&large, Some("in part: the schemas are too large to evaluate them")),
        (
            &json!({"allOf": vec![json!({}); 50_000]}),
            Some("in part: the schemas take too long to evaluate all of them"),
        ),
    ] {
        let mut case = case("CRD-33", "a type that there is not");
        let object = case.object.as_mut().expect("an object");
        object["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
        assert_eq!(reason(&case, "CRD-33").as_deref(), expected);
    }
}

/// Objects without permission to list them.
#[test]
fn missing_permission_is_the_reason_of_a_skipped_rule() {
    let case = case("CRD-11", "all CRDs");
    let document = |value: &serde_json::Value| {
        opgate_sdk::Document::parse(&value.to_string()).expect("a document")
    };
    let (new, old) = (case.object.as_ref().map(document), case.old.as_ref().map(document));
    let settings = document(&case.settings);
    let parts = RequestParts { operation: Operation::Update, ..RequestParts::default() };
    let request = Request::from(parts);
    let review =
        Review { request: &request, object: new.as_ref(), old: old.as_ref(), settings: &settings };
    let refused = SampleError::NotGranted("list crontabs.stable.example.com is not granted".into());
    let cluster = Cluster::new(&POLICY.reads(), &settings).with_sample_error(refused);
    let verdict = cluster.run(|| {
        let mut report = Report::new(review);
        (POLICY.routes[0].evaluate)(&review, &mut report);
        report.finish()
    });
    let skipped: Vec<_> = verdict.skipped.iter().map(|s| (&*s.rule, &*s.reason)).collect();
    assert_eq!(skipped, [("CRD-11", "list crontabs.stable.example.com is not granted")]);
}

/// A ClusterServiceVersion that claims the CRD, with more text than the limit.
fn claim(namespace: &str, number: usize) -> serde_json::Value {
    let pad = |n: usize| json!({"name": format!("{}{n}", "x".repeat(1_000)), "version": "v1"});
    let mut owned: Vec<_> = (0..300).map(pad).collect();
    owned.push(json!({"name": "crontabs.stable.example.com", "version": "v1alpha1"}));
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("claim{number}.v1.0.0"), "namespace": namespace},
        "spec": {"customresourcedefinitions": {"owned": owned}},
    })
}

/// Names determine whether there are several owners; large lists are not read.
#[test]
fn very_many_claims_are_not_read() {
    let more = "in part: some ClusterServiceVersions were looked at, there are more or larger ones that may name the CRD";
    for (namespaces, count) in [(vec!["team"], 3), (vec!["team", "other"], 36)] {
        let mut many = case("CRD-10", "two owners");
        let claims = |namespace| (0..count).map(move |number| claim(namespace, number));
        many.cluster = Some(namespaces.into_iter().flat_map(claims).collect());
        let found: Vec<_> =
            verdict(&POLICY, &many).violations.into_iter().map(|v| v.rule).collect();
        assert_eq!(found, ["CRD-10", "CRD-12"]);
        assert_eq!(reason(&many, "CRD-10"), None);
        assert_eq!(reason(&many, "CRD-15").as_deref(), Some(more));
    }
}

/// A chain that OLM does not create.
#[test]
fn a_chain_is_followed_over_some_versions() {
    for (length, is_several) in [(16, false), (17, true)] {
        let mut chain = case("CRD-10", "two owners");
        let link = |number: usize| {
            let mut csv = claim("team", number);
            csv["metadata"]["name"] = json!(format!("a{number:02}"));
            csv["spec"] = json!({"replaces": format!("a{:02}", number + 1), "customresourcedefinitions":
                {"owned": [{"name": "crontabs.stable.example.com", "version": "v1beta1"}]}});
            csv
        };
        chain.cluster = Some((0..length).map(link).collect());
        let violations = verdict(&POLICY, &chain).violations;
        assert_eq!(violations.iter().any(|found| found.rule == "CRD-10"), is_several, "{length}");
    }
}

/// Another 16 hide a reference, and the verdict reports it.
#[test]
fn references_beyond_the_limit_are_skipped() {
    for (count, expected) in [(16, None), (17, Some("in part: "))] {
        let mut many = case("CRD-15", "a version that is required goes");
        let reference = |number: usize| {
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                "metadata": {"name": format!("a{number:02}"), "namespace": "team"},
                "spec": {"customresourcedefinitions": {"required":
                    [{"name": "crontabs.stable.example.com", "version": "v1alpha1"}]}},
            })
        };
        many.cluster = Some((0..count).map(reference).collect());
        let found = verdict(&POLICY, &many).violations;
        assert_eq!(found.iter().filter(|found| found.rule == "CRD-15").count(), 16, "{count}");
        let reason = reason(&many, "CRD-15");
        assert_eq!(reason.as_deref().and_then(|reason| reason.get(..9)), expected, "{count}");
    }
}
