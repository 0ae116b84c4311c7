//! Objects with constraints: the policy `constraint-limits` on every object with properties, and
//! `registry-bundle` on the annotations of a bundle.
//!
//! The first byte of an input selects the meaning of the rest:
//!
//! | byte | rest |
//! |---|---|
//! | `p` | text of the annotation `operatorframework.io/properties` |
//! | `o` | text of the annotation `olm.properties` |
//! | `s` | text of the annotation `olm.skipRange` |
//! | `f` | file in a ConfigMap |
//! | `b` | encoded value in `binaryData` |
//! | `z` | gzip in `binaryData`, without its first three bytes |
//! | `d` | JSON of `dependencies` and `properties` in the metadata of a bundle |
//! | `m` | values in `metadata/annotations.yaml`, one per line, then `\f` and `bundle.Dockerfile` |
//!
//! Oracle: the same text has the same violations in a ClusterServiceVersion, an InstallPlan, a ConfigMap
//! (JSON, YAML, gzip) and a catalog.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use opgate_constraint_limits::POLICY as CONSTRAINTS;
use opgate_fuzz::{base64, gzip, repeat_input};
use opgate_registry_bundle::POLICY as BUNDLES;
use opgate_sdk::{Document, GroupVersionResource, Operation, Policy, Request, RequestParts};
use serde_json::{Value, json};

const OLM_GROUP: &str = "operators.coreos.com";
const FILE_GROUP: &str = "opgate.dev";

/// Maximum size of expanded files: small, because the buffer is zeroed before each one.
const MAX_INFLATED_BYTES: usize = 64 << 10;

/// Maximum violations of a verdict.
const MAX_VIOLATIONS: usize = 256;
/// Bytes of a field that are compared: a verdict shortens longer fields.
const MAX_COMPARED_BYTES: usize = 512;

fn settings() -> [Value; 3] {
    [
        json!({"constraints": {"maxInflatedBytes": MAX_INFLATED_BYTES}}),
        json!({"constraints": {"maxInflatedBytes": MAX_INFLATED_BYTES, "mode": "upstream", "packageKeys": "code"},
            "bundle": {"redHatCatalog": true}}),
        json!({"constraints": {"maxBytes": 64, "maxDepth": 4, "warnDepth": 1, "maxInflatedBytes": 256},
            "rules": {"CON-23": "warn", "CON-24": "warn"}, "bundle": {"optional": ["good-practices"]}}),
    ]
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match kind {
        b'p' => check_properties("operatorframework.io/properties", &text),
        b'o' => check_properties("olm.properties", &text),
        b's' => check_properties("olm.skipRange", &text),
        b'f' => check_file(&text),
        b'b' => check_object(&config_map_request(), &binary_config_map(&text), "binaryData[f]"),
        b'z' => {
            let packed = [&[0x1f, 0x8b, 8], rest].concat();
            check_object(
                &config_map_request(),
                &binary_config_map(&base64(&packed)),
                "binaryData[f]",
            );
        }
        b'd' => check_dependencies(&text),
        b'm' => check_metadata(&text),
        _ => {}
    }
    if let Some(repeated) = repeat_input(rest, &["", "\n", ",", "\n---\n", "\\n"]) {
        let repeated = String::from_utf8_lossy(&repeated);
        let objects = [
            (csv_request(), csv("olm.properties", &repeated)),
            (config_map_request(), config_map("data", "f", &repeated)),
        ];
        for (request, object) in objects {
            evaluate(&CONSTRAINTS, &request, &object, None, &settings()[0], "");
        }
    }
});

fn request(group: &str, version: &str, resource: &str) -> RequestParts {
    let [group, version, resource] = [group, version, resource].map(str::to_owned);
    RequestParts {
        resource: GroupVersionResource { group, version, resource },
        ..RequestParts::default()
    }
}

fn csv_request() -> RequestParts {
    request(OLM_GROUP, "v1alpha1", "clusterserviceversions")
}

fn config_map_request() -> RequestParts {
    request("", "v1", "configmaps")
}

fn csv(name: &str, text: &str) -> Value {
    json!({"kind": "ClusterServiceVersion", "metadata": {"name": "c", "annotations": {name: text}}})
}

/// Returns a ConfigMap with the label of OLM.
fn config_map(member: &str, file: &str, text: &str) -> Value {
    json!({"metadata": {"labels": {"olm.managed": "true"}}, member: {file: text}})
}

fn binary_config_map(value: &str) -> Value {
    config_map("binaryData", "f", value)
}

/// Packs a file as OLM does.
fn pack(file: &str) -> String {
    base64(base64(&gzip(file.as_bytes())).as_bytes())
}

fn document(value: &Value) -> Document {
    Document::parse(&value.to_string()).expect("a document")
}

static RULES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let rules = [&CONSTRAINTS, &BUNDLES].map(Policy::all_rules);
    rules.into_iter().flatten().map(|rule| rule.id).collect()
});

/// Rule and message of a violation, and its field without the prefix.
#[derive(Debug, PartialEq)]
struct RelativeViolation {
    rule: String,
    field: String,
    message: String,
}

/// Evaluates a policy. The fields of all violations must start with `prefix`.
fn evaluate(
    policy: &Policy,
    request: &RequestParts,
    object: &Value,
    old: Option<&Value>,
    settings: &Value,
    prefix: &str,
) -> Vec<RelativeViolation> {
    let request = Request::from(request.clone());
    let (object, old, settings) = (document(object), old.map(document), document(settings));
    let routes = policy.routes_of(&request, &settings);
    let verdict = policy.validate(&request, routes, Some(&object), old.as_ref(), &settings);
    assert!(verdict.violations.len() <= MAX_VIOLATIONS);
    let violations = verdict.violations.into_iter().map(|violation| {
        let (rule, field, message) = (violation.rule, violation.field, violation.message);
        assert!(RULES.contains(&*rule), "{rule}");
        assert!(!message.is_empty(), "{rule}");
        let rest = field.strip_prefix(prefix);
        let rest = rest.unwrap_or_else(|| panic!("{field} is not in {prefix}: {rule}"));
        let end = rest.floor_char_boundary(MAX_COMPARED_BYTES);
        let field = rest.get(..end).unwrap_or_default().to_owned();
        RelativeViolation { rule, field, message }
    });
    violations.collect()
}

/// Evaluates an object with all settings. Asserts that an update without changes and a deletion have no
/// violations.
fn check_object(request: &RequestParts, object: &Value, field: &str) {
    for settings in &settings() {
        evaluate(&CONSTRAINTS, request, object, None, settings, field);
    }
    let settings = &settings()[0];
    let update = RequestParts { operation: Operation::Update, ..request.clone() };
    assert_eq!(evaluate(&CONSTRAINTS, &update, object, Some(object), settings, field), []);
    let delete = RequestParts { operation: Operation::Delete, ..request.clone() };
    assert_eq!(evaluate(&CONSTRAINTS, &delete, object, None, settings, field), []);
}

/// Asserts that the text of an annotation has the same violations in all objects.
fn check_properties(name: &str, text: &str) {
    let csv = csv(name, text);
    let field = format!("metadata.annotations[{name}]");
    check_object(&csv_request(), &csv, &field);
    // An empty text means a lookup without properties.
    let is_lookup = name == "operatorframework.io/properties" && !text.is_empty();
    let plan = json!({"status": {"bundleLookups": [{"properties": text}]}});
    let plans = request(OLM_GROUP, "v1alpha1", "installplans");
    let plan_field = "status.bundleLookups[0].properties";
    if is_lookup {
        check_object(&plans, &plan, plan_field);
    }
    let json = csv.to_string();
    // YAML forbids some characters that JSON allows.
    let is_printable_ascii = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let blob = |kind: &str, value: Value| {
        json!({"spec": {"blobs": [{"file": "f", "index": 0, "value":
            {"schema": "olm.bundle", "properties": [{"type": kind, "value": value}]}}]}})
    };
    let value = "spec.blobs[0].value.properties[0].value";
    let catalogs = request(FILE_GROUP, "v1alpha1", "filebasedcatalogs");
    let metadata = blob("olm.csv.metadata", json!({"annotations": {name: text}}));
    let object = blob("olm.bundle.object", json!({"data": base64(json.as_bytes())}));
    for settings in &settings()[..2] {
        let expected = evaluate(&CONSTRAINTS, &csv_request(), &csv, None, settings, &field);
        let assert_same = |request: &RequestParts, object: &Value, field: &str| {
            let found = evaluate(&CONSTRAINTS, request, object, None, settings, field);
            assert_eq!(found, expected, "{field}");
        };
        assert_same(&catalogs, &metadata, &format!("{value}.annotations[{name}]"));
        if is_lookup {
            assert_same(&plans, &plan, plan_field);
        }
        if name == "olm.skipRange" {
            continue;
        }
        assert_same(&catalogs, &object, &format!("{value}.data.{field}"));
        assert_same(
            &config_map_request(),
            &config_map("data", "f", &json),
            &format!("data[f].{field}"),
        );
        assert_same(
            &config_map_request(),
            &binary_config_map(&pack(&json)),
            &format!("binaryData[f].{field}"),
        );
        if is_printable_ascii {
            let yaml = format!("---\n{json}\n");
            assert_same(
                &config_map_request(),
                &config_map("data", "f", &yaml),
                &format!("data[f].{field}"),
            );
        }
    }
}

/// Asserts that a file in a ConfigMap has the same violations as text and packed.
fn check_file(text: &str) {
    let (plain, packed) = (config_map("data", "f", text), binary_config_map(&pack(text)));
    check_object(&config_map_request(), &plain, "data[f]");
    check_object(&config_map_request(), &packed, "binaryData[f]");
    for settings in &settings()[..2] {
        assert_eq!(
            evaluate(&CONSTRAINTS, &config_map_request(), &plain, None, settings, "data[f]"),
            evaluate(&CONSTRAINTS, &config_map_request(), &packed, None, settings, "binaryData[f]"),
        );
    }
}

/// Evaluates dependencies and properties in the files of a bundle.
fn check_dependencies(json: &str) {
    let Ok(list) = serde_json::from_str::<Value>(json) else { return };
    let bundle = json!({"spec": {"files": [
        {"path": "metadata/dependencies.yaml", "documents": [{"dependencies": list}]},
        {"path": "metadata/properties.yaml", "documents": [{"properties": list}]},
        {"path": "manifests/c.yaml", "documents": [list, {"kind": "ClusterServiceVersion", "spec":
            {"customresourcedefinitions": {"required": list}, "apiservicedefinitions": {"required": list}}}]},
    ]}});
    let request = request(FILE_GROUP, "v1alpha1", "registrybundles");
    for settings in &settings() {
        evaluate(&CONSTRAINTS, &request, &bundle, None, settings, "spec.files[");
        evaluate(&BUNDLES, &request, &bundle, None, settings, "spec.");
    }
}

/// Keys of `metadata/annotations.yaml`, in the order of the lines of an input.
const ANNOTATION_KEYS: [&str; 7] = [
    "operators.operatorframework.io.bundle.mediatype.v1",
    "operators.operatorframework.io.bundle.manifests.v1",
    "operators.operatorframework.io.bundle.metadata.v1",
    "operators.operatorframework.io.bundle.package.v1",
    "operators.operatorframework.io.bundle.channels.v1",
    "operators.operatorframework.io.bundle.channel.default.v1",
    "com.redhat.openshift.versions",
];

/// Asserts the violations of the annotations of a bundle. An empty line is a missing annotation.
fn check_metadata(text: &str) {
    let (lines, dockerfile) = text.split_once('\u{c}').unwrap_or((text, ""));
    let all =
        ANNOTATION_KEYS.into_iter().zip(lines.split('\n')).filter(|(_, value)| !value.is_empty());
    let annotations: BTreeMap<&str, &str> = all.collect();
    let bundle = |dockerfile: &str| {
        json!({"spec": {"directories": ["manifests", "metadata"], "files": [
            {"path": "bundle.Dockerfile", "size": dockerfile.len(), "text": dockerfile},
            {"path": "manifests/c.yaml", "size": 1, "documents": [{"kind": "ClusterServiceVersion",
                "apiVersion": "operators.coreos.com/v1alpha1", "metadata": {"name": "c"}}]},
            {"path": "metadata/annotations.yaml", "size": 1, "documents": [{"annotations": annotations}]},
        ]}})
    };
    let request = request(FILE_GROUP, "v1alpha1", "registrybundles");
    let [_, redhat, strict] = &settings();
    let rules = |object: &Value, settings: &Value| {
        let violations = evaluate(&BUNDLES, &request, object, None, settings, "spec.");
        violations.into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    let violated = rules(&bundle(dockerfile), redhat);
    let count = |rule: &str| violated.iter().filter(|id| *id == rule).count();
    let get = |index: usize| annotations.get(ANNOTATION_KEYS[index]).copied();
    assert_eq!(
        count("RBF-03"),
        ANNOTATION_KEYS[..5].iter().filter(|k| !annotations.contains_key(*k)).count()
    );
    assert_eq!(count("RBF-04") > 0, get(0).is_some_and(|media| media != "registry+v1"));
    let channels = get(4).is_some_and(|list| list.split(',').any(|name| name.trim().is_empty()));
    let default = get(5).is_some_and(|name| name.trim().is_empty());
    assert_eq!(count("RBF-05"), usize::from(channels) + usize::from(default));
    assert_eq!(count("RBF-21") == 0, get(6).is_none_or(is_version_range));
    let names = [4, 5].into_iter().filter_map(get).flat_map(|list| list.split(','));
    let is_unconventional = |name: &str| {
        !name.trim().is_empty()
            && !["candidate", "stable", "fast"].iter().any(|c| name.trim().starts_with(c))
    };
    // The default channel is a single name, even with commas.
    let names: Vec<&str> = names.collect();
    let violated = rules(&bundle(dockerfile), strict);
    if get(5).is_none_or(|name| !name.contains(',')) {
        let is_violated = violated.iter().any(|rule| rule == "RBF-27");
        assert_eq!(is_violated, names.into_iter().any(is_unconventional));
    }
    // Equal labels in the Dockerfile are no violation.
    let is_word = |text: &str| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b',' | b'/' | b'+'))
    };
    if annotations.values().all(|value| is_word(value)) {
        let labels = annotations.iter().map(|(key, value)| format!("LABEL {key}={value}\n"));
        let labels = labels.collect::<String>();
        assert!(!rules(&bundle(&labels), redhat).iter().any(|rule| rule == "RBF-22"));
    }
}

/// Reports whether a text is `vX.Y`, `=vX.Y`, an ordered `vX.Y-vX.Y`, or a list with commas.
fn is_version_range(text: &str) -> bool {
    let version = |text: &str| {
        let numbers = text.trim().strip_prefix('v')?.split('.').map(|number| {
            let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
            number.parse::<u32>().ok().filter(|_| is_number)
        });
        <[u32; 2]>::try_from(numbers.collect::<Option<Vec<_>>>()?).ok()
    };
    let text = text.trim();
    let parts: Vec<&str> = text.splitn(2, '-').collect();
    match (parts.as_slice(), text.strip_prefix('=')) {
        ([from, to], _) => version(from).zip(version(to)).is_some_and(|(from, to)| from <= to),
        (_, Some(exact)) => version(exact).is_some(),
        _ => text.split(',').all(|part| version(part).is_some()),
    }
}
