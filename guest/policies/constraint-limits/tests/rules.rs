//! The verdicts of the policy: the cases of its rules, and properties that no case can show.
#![expect(clippy::expect_used, reason = "tests may panic")]

use opgate_constraint_limits::POLICY;
use opgate_sdk::{Document, GroupVersionResource, Request, RequestParts, Verdict};
use serde_json::{Value, json};

opgate_sdk_testing::tests!(POLICY);

/// The verdict for an object that is created.
fn evaluate_object(resource: &str, object: &Value, settings: &Value) -> Verdict {
    let [group, version, resource] = ["operators.coreos.com", "v1alpha1", resource];
    let resource = GroupVersionResource {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
    };
    let request = Request::from(RequestParts { resource, ..RequestParts::default() });
    let [object, settings] =
        [object, settings].map(|json| Document::parse(&json.to_string()).expect("JSON"));
    let routes = POLICY.routes_of(&request, &settings);
    POLICY.validate(&request, routes, Some(&object), None, &settings)
}

fn judged_csv(property: &str, settings: &Value) -> Verdict {
    let list = format!(r#"[{{"type":"olm.constraint","value":{property}}}]"#);
    let csv = json!({"metadata": {"annotations": {"olm.properties": list}}});
    evaluate_object("clusterserviceversions", &csv, settings)
}

/// 64 KiB by default, counted on the raw text.
#[test]
fn constraint_over_the_byte_limit_is_denied() {
    let of = |bytes: usize| {
        let value = json!({"failureMessage": "", "cel": {"rule": "true"}}).to_string();
        let text = "x".repeat(bytes - value.len());
        let value = json!({"failureMessage": text, "cel": {"rule": "true"}}).to_string();
        assert_eq!(value.len(), bytes);
        let found = judged_csv(&value, &json!({})).violations;
        found.into_iter().map(|v| (v.rule, v.message)).collect::<Vec<_>>()
    };
    assert_eq!(of(65_536), []);
    let message = "parse olm.constraint: olm.constraint value is greater than max constraint size 65536 bytes";
    assert_eq!(of(65_537), [("CON-01".to_owned(), message.to_owned())]);
}

#[test]
fn violations_over_the_limit_are_shared_and_counted() {
    let properties = json!([{"type": "olm.constraint", "value": {}}]).to_string();
    let lookup = json!({"properties": format!(r#"{{"properties":{properties}}}"#)});
    let plan = json!({"status": {"bundleLookups": vec![lookup; 5_000]}});
    let found = evaluate_object("installplans", &plan, &json!({})).violations;
    assert_eq!(found.len(), 256);
    assert!(found.iter().all(|violation| violation.rule == "CON-04"));
    let last = &found[255].message;
    assert!(last.starts_with("4744 more violations of this rule are omitted; "), "{last}");
}

#[test]
fn violations_of_one_constraint_over_the_limit_are_counted() {
    let value = json!({"any": {"constraints": vec![json!({"x": 1, "gvk": {}}); 3_000]}});
    let found = judged_csv(&value.to_string(), &json!({})).violations;
    let of = |rule: &str| found.iter().filter(|v| v.rule == rule).collect::<Vec<_>>();
    let (fields, parts) = (of("CON-03"), of("CON-07"));
    assert_eq!((fields.len(), parts.len()), (128, 128));
    let last = &fields[127].message;
    assert!(last.starts_with("2872 more violations of this rule are omitted; "), "{last}");
    let last = &parts[127].message;
    assert!(last.starts_with("8872 more violations of this rule are omitted; "), "{last}");
}

/// After a denial, the rest of a list with constraints that take much memory is not read.
#[test]
fn a_large_list_is_read_in_part() {
    let large = json!({"all": {"constraints": vec![json!({"x": 1}); 6_000]}}).to_string();
    let property = format!(r#"{{"type":"olm.constraint","value":{large}}}"#);
    let properties = format!("[{}]", vec![property; 40].join(","));
    assert!(properties.len() < 3 << 20);
    let csv = json!({"metadata": {"annotations": {"olm.properties": properties}}});
    let settings = json!({"constraints": {"maxBytes": 131_072}});
    let found = evaluate_object("clusterserviceversions", &csv, &settings).violations;
    let last = &found[found.len() - 1].message;
    // The first two are read.
    let more = format!("{} more violations of this rule are omitted; ", 2 * 6_000 + 1 - 256);
    assert!(last.starts_with(&more), "{last}");
}

/// Long names: a few of them reach the maximum size of a verdict.
#[test]
fn unread_rest_of_a_list_is_reported() {
    let property = format!(r#"{{"type":"olm.constraint","value":{{"{}":1}}}}"#, "x".repeat(4_000));
    let properties = format!("[{}]", vec![property; 100].join(","));
    let csv = json!({"metadata": {"annotations": {"olm.properties": properties}}});
    let found = evaluate_object("clusterserviceversions", &csv, &json!({})).violations;
    let last = &found[found.len() - 1];
    assert_eq!(
        last.field,
        format!("metadata.annotations[olm.properties][{}].value", found.len() - 1)
    );
    assert_eq!(
        last.message,
        "the rest of the list is not read, because so much of it is refused already"
    );
    assert!((21..60).contains(&found.len()), "{}", found.len());
}

#[test]
fn deep_constraints_are_measured_not_followed() {
    let nested = |levels: usize| {
        let open = r#"{"all":{"constraints":["#.repeat(levels);
        let value = format!("{open}{{\"cel\":{{\"rule\":\"true\"}}}}{}", "]}}".repeat(levels));
        let found = judged_csv(&value, &json!({"constraints": {"maxBytes": 131_072}}));
        found.violations.into_iter().map(|v| v.rule).collect::<Vec<_>>()
    };
    assert_eq!(nested(10), Vec::<String>::new());
    assert_eq!(nested(2_500), ["CON-15"]);
    assert_eq!(nested(3_400), ["CON-16"]);
    assert_eq!(nested(20_000), ["CON-01"]);
}
