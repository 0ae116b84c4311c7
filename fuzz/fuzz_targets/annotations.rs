//! Where constraints hide: the policy `constraint-limits` over everything that carries properties,
//! and `registry-bundle` over the annotations of a bundle.
//!
//! The first byte of an input says what the rest is:
//!
//! | byte | the rest |
//! |---|---|
//! | `p`, `o` | the text of the annotation `operatorframework.io/properties`, `olm.properties` |
//! | `s` | the text of the annotation `olm.skipRange` |
//! | `f` | a file in a ConfigMap |
//! | `b` | a value in `binaryData`, as it is written |
//! | `z` | what follows the first three bytes of a gzip in `binaryData` |
//! | `d` | the JSON of `dependencies` and `properties` in the metadata of a bundle |
//! | `m` | values in `metadata/annotations.yaml`, one on a line, and after a form feed `bundle.Dockerfile` |
//!
//! The oracle is that the hiding place does not matter: the same text gets the same findings in a
//! ClusterServiceVersion, an InstallPlan, a ConfigMap (JSON, YAML, packed) and a catalog.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use opgate_constraint_limits::POLICY as CONSTRAINTS;
use opgate_fuzz::{base64, gzip, large};
use opgate_registry_bundle::POLICY as BUNDLES;
use opgate_sdk::{Document, GroupVersionResource, Operation, Parts, Policy, Request};
use serde_json::{Value, json};

const OLM: &str = "operators.coreos.com";
const FILES: &str = "opgate.dev";

/// What compressed files may expand to: little, because all of it is set to zero before each.
const INFLATED: usize = 64 << 10;

/// Findings of a verdict, at the most.
const VIOLATIONS: usize = 256;
/// Bytes of a field that are compared. A verdict cuts longer ones, which start with the hiding place.
const FIELD: usize = 512;

fn settings() -> [Value; 3] {
    [
        json!({"constraints": {"maxInflatedBytes": INFLATED}}),
        json!({"constraints": {"maxInflatedBytes": INFLATED, "mode": "upstream", "packageKeys": "code"},
            "bundle": {"redHatCatalog": true}}),
        json!({"constraints": {"maxBytes": 64, "maxDepth": 4, "warnDepth": 1, "maxInflatedBytes": 256},
            "rules": {"CON-23": "warn", "CON-24": "warn"}, "bundle": {"optional": ["good-practices"]}}),
    ]
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match kind {
        b'p' => properties("operatorframework.io/properties", &text),
        b'o' => properties("olm.properties", &text),
        b's' => properties("olm.skipRange", &text),
        b'f' => file(&text),
        b'b' => every(&configmaps(), &binary(&text), "binaryData[f]"),
        b'z' => {
            let packed = [&[0x1f, 0x8b, 8], rest].concat();
            every(&configmaps(), &binary(&base64(&packed)), "binaryData[f]");
        }
        b'd' => dependencies(&text),
        b'm' => metadata(&text),
        _ => {}
    }
    if let Some(large) = large(rest, &["", "\n", ",", "\n---\n", "\\n"]) {
        let large = String::from_utf8_lossy(&large);
        let asked = [
            (csvs(), csv("olm.properties", &large), ""),
            (configmaps(), map("data", "f", &large), ""),
        ];
        for (request, object, field) in asked {
            found(&CONSTRAINTS, &request, &object, None, &settings()[0], field);
        }
    }
});

fn request(group: &str, version: &str, resource: &str) -> Parts {
    let [group, version, resource] = [group, version, resource].map(str::to_owned);
    Parts { resource: GroupVersionResource { group, version, resource }, ..Parts::default() }
}

fn csvs() -> Parts {
    request(OLM, "v1alpha1", "clusterserviceversions")
}

fn configmaps() -> Parts {
    request("", "v1", "configmaps")
}

fn csv(name: &str, text: &str) -> Value {
    json!({"kind": "ClusterServiceVersion", "metadata": {"name": "c", "annotations": {name: text}}})
}

/// A ConfigMap that OLM unpacks.
fn map(member: &str, file: &str, text: &str) -> Value {
    json!({"metadata": {"labels": {"olm.managed": "true"}}, member: {file: text}})
}

fn binary(value: &str) -> Value {
    map("binaryData", "f", value)
}

/// As OLM packs a file.
fn packed(file: &str) -> String {
    base64(base64(&gzip(file.as_bytes())).as_bytes())
}

fn document(value: &Value) -> Document {
    Document::parse(&value.to_string()).expect("a document")
}

static RULES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let rules = [&CONSTRAINTS, &BUNDLES].map(Policy::all_rules);
    rules.into_iter().flatten().map(|rule| rule.id).collect()
});

/// A finding: rule, rest of the field, message.
type Found = (String, String, String);

/// Asks a policy. Every field must start with this one.
fn found(
    policy: &Policy,
    request: &Parts,
    object: &Value,
    old: Option<&Value>,
    settings: &Value,
    field: &str,
) -> Vec<Found> {
    let request = Request::from(request.clone());
    let (object, old, settings) = (document(object), old.map(document), document(settings));
    let routes = policy.routes_of(&request, &settings);
    let verdict = policy.validate(&request, routes, Some(&object), old.as_ref(), &settings);
    assert!(verdict.violations.len() <= VIOLATIONS);
    let told = verdict.violations.into_iter().map(|violation| {
        let (rule, at) = (violation.rule, violation.field);
        assert!(RULES.contains(&*rule), "{rule}");
        assert!(!violation.message.is_empty(), "{rule}");
        let rest = at.strip_prefix(field);
        let rest = rest.unwrap_or_else(|| panic!("{at} is not in {field}: {rule}"));
        let rest = rest.get(..rest.floor_char_boundary(FIELD)).unwrap_or_default().to_owned();
        (rule, rest, violation.message)
    });
    told.collect()
}

/// Asks with all settings, and that nothing is said of what does not change or goes away.
fn every(request: &Parts, object: &Value, field: &str) {
    for settings in &settings() {
        found(&CONSTRAINTS, request, object, None, settings, field);
    }
    let settings = &settings()[0];
    let update = Parts { operation: Operation::Update, ..request.clone() };
    let unchanged = found(&CONSTRAINTS, &update, object, Some(object), settings, field);
    assert_eq!(unchanged, []);
    let delete = Parts { operation: Operation::Delete, ..request.clone() };
    assert_eq!(found(&CONSTRAINTS, &delete, object, None, settings, field), []);
}

/// A text in an annotation, in every hiding place.
fn properties(name: &str, text: &str) {
    let csv = csv(name, text);
    let field = format!("metadata.annotations[{name}]");
    every(&csvs(), &csv, &field);
    // A lookup without properties is one without a text.
    let is_lookup = name == "operatorframework.io/properties" && !text.is_empty();
    let plan = json!({"status": {"bundleLookups": [{"properties": text}]}});
    let plans = request(OLM, "v1alpha1", "installplans");
    let lookup = "status.bundleLookups[0].properties";
    if is_lookup {
        every(&plans, &plan, lookup);
    }
    let json = csv.to_string();
    // YAML forbids some characters that JSON allows.
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let blob = |kind: &str, value: Value| {
        json!({"spec": {"blobs": [{"file": "f", "index": 0, "value":
            {"schema": "olm.bundle", "properties": [{"type": kind, "value": value}]}}]}})
    };
    let value = "spec.blobs[0].value.properties[0].value";
    let catalogs = request(FILES, "v1alpha1", "filebasedcatalogs");
    let metadata = blob("olm.csv.metadata", json!({"annotations": {name: text}}));
    let object = blob("olm.bundle.object", json!({"data": base64(json.as_bytes())}));
    for settings in &settings()[..2] {
        let expected = found(&CONSTRAINTS, &csvs(), &csv, None, settings, &field);
        let same = |request: &Parts, object: &Value, at: &str| {
            let found = found(&CONSTRAINTS, request, object, None, settings, at);
            assert_eq!(found, expected, "{at}");
        };
        same(&catalogs, &metadata, &format!("{value}.annotations[{name}]"));
        if is_lookup {
            same(&plans, &plan, lookup);
        }
        if name == "olm.skipRange" {
            continue;
        }
        same(&catalogs, &object, &format!("{value}.data.{field}"));
        same(&configmaps(), &map("data", "f", &json), &format!("data[f].{field}"));
        same(&configmaps(), &binary(&packed(&json)), &format!("binaryData[f].{field}"));
        if is_plain {
            let yaml = format!("---\n{json}\n");
            same(&configmaps(), &map("data", "f", &yaml), &format!("data[f].{field}"));
        }
    }
}

/// A file in a ConfigMap, as it is and packed.
fn file(text: &str) {
    let (plain, packed) = (map("data", "f", text), binary(&packed(text)));
    every(&configmaps(), &plain, "data[f]");
    every(&configmaps(), &packed, "binaryData[f]");
    for settings in &settings()[..2] {
        assert_eq!(
            found(&CONSTRAINTS, &configmaps(), &plain, None, settings, "data[f]"),
            found(&CONSTRAINTS, &configmaps(), &packed, None, settings, "binaryData[f]"),
        );
    }
}

/// Dependencies and properties of a bundle in files.
fn dependencies(json: &str) {
    let Ok(list) = serde_json::from_str::<Value>(json) else { return };
    let bundle = json!({"spec": {"files": [
        {"path": "metadata/dependencies.yaml", "documents": [{"dependencies": list}]},
        {"path": "metadata/properties.yaml", "documents": [{"properties": list}]},
        {"path": "manifests/c.yaml", "documents": [list, {"kind": "ClusterServiceVersion", "spec":
            {"customresourcedefinitions": {"required": list}, "apiservicedefinitions": {"required": list}}}]},
    ]}});
    let request = request(FILES, "v1alpha1", "registrybundles");
    for settings in &settings() {
        found(&CONSTRAINTS, &request, &bundle, None, settings, "spec.files[");
        found(&BUNDLES, &request, &bundle, None, settings, "spec.");
    }
}

/// Keys of `metadata/annotations.yaml`, in the order of the lines of an input.
const KEYS: [&str; 7] = [
    "operators.operatorframework.io.bundle.mediatype.v1",
    "operators.operatorframework.io.bundle.manifests.v1",
    "operators.operatorframework.io.bundle.metadata.v1",
    "operators.operatorframework.io.bundle.package.v1",
    "operators.operatorframework.io.bundle.channels.v1",
    "operators.operatorframework.io.bundle.channel.default.v1",
    "com.redhat.openshift.versions",
];

/// The annotations of a bundle; an empty line stands for one that is not there.
fn metadata(text: &str) {
    let (lines, dockerfile) = text.split_once('\u{c}').unwrap_or((text, ""));
    let all = KEYS.into_iter().zip(lines.split('\n')).filter(|(_, value)| !value.is_empty());
    let annotations: BTreeMap<&str, &str> = all.collect();
    let bundle = |dockerfile: &str| {
        json!({"spec": {"directories": ["manifests", "metadata"], "files": [
            {"path": "bundle.Dockerfile", "size": dockerfile.len(), "text": dockerfile},
            {"path": "manifests/c.yaml", "size": 1, "documents": [{"kind": "ClusterServiceVersion",
                "apiVersion": "operators.coreos.com/v1alpha1", "metadata": {"name": "c"}}]},
            {"path": "metadata/annotations.yaml", "size": 1, "documents": [{"annotations": annotations}]},
        ]}})
    };
    let request = request(FILES, "v1alpha1", "registrybundles");
    let [_, redhat, strict] = &settings();
    let rules = |object: &Value, settings: &Value| {
        let found = found(&BUNDLES, &request, object, None, settings, "spec.");
        found.into_iter().map(|(rule, _, _)| rule).collect::<Vec<_>>()
    };
    let told = rules(&bundle(dockerfile), redhat);
    let count = |rule: &str| told.iter().filter(|told| *told == rule).count();
    let get = |index: usize| annotations.get(KEYS[index]).copied();
    assert_eq!(count("RBF-03"), KEYS[..5].iter().filter(|k| !annotations.contains_key(*k)).count());
    assert_eq!(count("RBF-04") > 0, get(0).is_some_and(|media| media != "registry+v1"));
    let channels = get(4).is_some_and(|list| list.split(',').any(|name| name.trim().is_empty()));
    let default = get(5).is_some_and(|name| name.trim().is_empty());
    assert_eq!(count("RBF-05"), usize::from(channels) + usize::from(default));
    assert_eq!(count("RBF-21") == 0, get(6).is_none_or(is_openshift));
    let named = [4, 5].into_iter().filter_map(get).flat_map(|list| list.split(','));
    let is_odd = |name: &str| {
        !name.trim().is_empty()
            && !["candidate", "stable", "fast"].iter().any(|c| name.trim().starts_with(c))
    };
    // The default channel is one name, commas and all; it starts as its first part does.
    let names: Vec<&str> = named.collect();
    let told = rules(&bundle(dockerfile), strict);
    if get(5).is_none_or(|name| !name.contains(',')) {
        let is_told = told.iter().any(|rule| rule == "RBF-27");
        assert_eq!(is_told, names.into_iter().any(is_odd));
    }
    // Labels that say the same.
    let is_word = |text: &str| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b',' | b'/' | b'+'))
    };
    if annotations.values().all(|value| is_word(value)) {
        let labels = annotations.iter().map(|(key, value)| format!("LABEL {key}={value}\n"));
        let labels = labels.collect::<String>();
        assert!(!rules(&bundle(&labels), redhat).iter().any(|rule| rule == "RBF-22"));
    }
}

/// `vX.Y`, `=vX.Y`, `vX.Y-vX.Y` in order, or several with commas.
fn is_openshift(text: &str) -> bool {
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
