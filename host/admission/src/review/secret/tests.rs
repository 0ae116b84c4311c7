use opgate_compat::go::base64;
use opgate_document::{Document, Kind};
use opgate_input::secrets::{DOCKER_CONFIG, DOCKER_CONFIG_JSON, encode_base64};

use super::*;

fn base64_of(text: &str) -> String {
    encode_base64(text.as_bytes())
}

/// The visible parts of a Secret with this data.
fn redacted_secret(data: &serde_json::Value) -> Document {
    let copy = "{\"data\":{\"p\":\"hunter2\"}}";
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "other": "hunter2",
        "metadata": {
            "name": "s", "namespace": "n", "labels": {"a": "b"},
            "managedFields": ["hunter2"],
            "annotations": {
                "x": "y", "kubectl.kubernetes.io/last-applied-configuration": copy, "kapp.k14s.io/original": copy,
                "banzaicloud.com/last-applied": base64_of(copy), "objectset.rio.cattle.io/applied": base64_of(copy),
                "not-a-text": ["hunter2"],
            },
        },
        "data": data,
        "stringData": {"p": "hunter2"},
    });
    redact(&Document::parse(&secret.to_string()).unwrap())
}

fn text<'d>(document: &'d Document, pointer: &str) -> &'d str {
    document.get(pointer).and_then(|value| value.text()).unwrap_or_else(|| panic!("{pointer}"))
}

fn decoded(document: &Document, pointer: &str) -> String {
    let mut bytes = Vec::new();
    base64::decode(text(document, pointer), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn secret_shows_only_name_type_and_keys() {
    let document =
        redacted_secret(&serde_json::json!({"p": base64_of("hunter2"), "q": 7, "r": null}));
    let json = document.root().raw().into_owned();
    let copied = base64_of("{\"data\":{\"p\":\"hunter2\"}}");
    for hidden in ["hunter2", &base64_of("hunter2"), &copied, "managedFields"] {
        assert!(!json.contains(hidden), "{hidden} in {json}");
    }
    assert_eq!(text(&document, "/type"), "Opaque");
    assert_eq!(text(&document, "/metadata/name"), "s");
    let annotation = |name: &str| text(&document, &format!("/metadata/annotations/{name}"));
    let (kubectl, kapp) =
        ("kubectl.kubernetes.io~1last-applied-configuration", "kapp.k14s.io~1original");
    assert_eq!(annotation("x").len(), 32);
    assert_eq!(annotation(kubectl), annotation(kapp));
    assert_ne!(annotation(kapp), annotation("banzaicloud.com~1last-applied"));
    let keys: Vec<_> = document.get("/data").unwrap().members().map(|(name, _)| name).collect();
    assert_eq!(keys, ["p", "q", "r"]);
    assert_eq!(document.get("/data/q").unwrap().kind(), Kind::Null);
}

#[test]
fn changed_secret_value_is_visible_without_the_value() {
    let of = |value: &str| {
        let document = redacted_secret(&serde_json::json!({"p": base64_of(value)}));
        text(&document, "/data/p").to_owned()
    };
    assert_eq!(of("one"), of("one"));
    assert_ne!(of("one"), of("two"));
    assert_ne!(of(""), of("two"));
    let broken = redacted_secret(&serde_json::json!({"p": "no base64 at all"}));
    assert!(base64::decode(text(&broken, "/data/p"), &mut Vec::new()).is_err());
}

#[test]
fn docker_configuration_shows_only_hosts() {
    let file = r#"{"auths":{"quay.io":{"auth":"hunter2"},"https://a.b/c":{"password":"hunter2"}},"credHelpers":{"hunter2":"x"}}"#;
    let old = r#"{"quay.io":{"auth":"hunter2"}}"#;
    let of = |file: &str, old: &str| {
        redacted_secret(
            &serde_json::json!({(DOCKER_CONFIG_JSON): base64_of(file), (DOCKER_CONFIG): base64_of(old)}),
        )
    };
    let document = of(file, old);
    let shown = decoded(&document, "/data/.dockerconfigjson");
    let shown_old = decoded(&document, "/data/.dockercfg");
    assert!(!shown.contains("hunter2") && !shown_old.contains("hunter2"), "{shown} {shown_old}");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["auths"], serde_json::json!({"quay.io": {}, "https://a.b/c": {}}));
    let shown_old: serde_json::Value = serde_json::from_str(&shown_old).unwrap();
    assert_eq!(shown_old.as_object().unwrap().keys().collect::<Vec<_>>(), ["quay.io"]);
    let changed = of(&file.replace("hunter2", "other"), &old.replace("hunter2", "other"));
    for pointer in ["/data/.dockerconfigjson", "/data/.dockercfg"] {
        assert_ne!(text(&document, pointer), text(&changed, pointer), "{pointer}");
    }
    for broken in ["hunter2", "[\"hunter2\"]", "\"hunter2\"", "{", &"[".repeat(9_999)] {
        let shown = decoded(&of(broken, broken), "/data/.dockerconfigjson");
        assert!(
            serde_json::from_str::<serde_json::Value>(&shown).is_ok_and(|v| v.is_number())
                || !shown.contains("hunter2"),
            "{shown}"
        );
    }
}

#[test]
fn strings_are_hidden_as_data_is() {
    let document = redacted_secret(&serde_json::json!({}));
    assert_ne!(text(&document, "/stringData/p"), "hunter2");
    for secret in ["[]", "7", r#"{"data":["hunter2"],"metadata":"hunter2"}"#] {
        let document = redact(&Document::parse(secret).unwrap());
        assert!(!document.root().raw().contains("hunter2"), "{secret}");
    }
}

#[test]
fn reads_of_secret_values_are_rejected() {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let read = |fields: &[&str], keys: &[&str], indexes: &[&str]| wit::ClusterRead {
        resource: wit::GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "secrets".to_owned(),
        },
        fields: texts(fields),
        keys: texts(keys),
        label_selector: String::new(),
        namespace: None,
        indexes: indexes
            .iter()
            .map(|&field| wit::Index {
                name: "i".to_owned(),
                field: field.to_owned(),
                separator: String::new(),
            })
            .collect(),
        rules: Vec::new(),
        enabled_by: Vec::new(),
    };
    assert_eq!(check_read(&read(&["/type"], &["/data"], &["/type", "/data/#"])), Ok(()));
    for (fields, keys, indexes) in [
        (&["/data"][..], &[][..], &[][..]),
        (&["/data/*"], &[], &[]),
        (&["/*"], &[], &[]),
        (&["/data/.dockerconfigjson"], &[], &[]),
        (&["/stringData"], &[], &[]),
        (&["/metadata/annotations"], &[], &[]),
        (&[], &["/metadata/annotations"], &[]),
        (&[], &[""], &[]),
        (&[], &[], &["/data/*"]),
        (&[], &[], &["/data/{password}"]),
    ] {
        let refused = check_read(&read(fields, keys, indexes)).unwrap_err().to_string();
        assert!(refused.contains("a policy reads no more than"), "{refused}");
    }
}

#[test]
fn secrets_among_files_are_hidden_and_nothing_else_changes() {
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": base64_of("hunter2")},
    });
    let map = serde_json::json!({"kind": "ConfigMap", "data": {"p": "shown"}});
    let bundle = |documents: serde_json::Value| {
        serde_json::json!({
            "kind": "RegistryBundle",
            "spec": {"files": [{"path": "a", "text": "x"}, {"path": "b", "documents": documents}, 7], "links": []},
        })
    };
    let text = bundle(serde_json::json!([map, secret, "hunter2?", map])).to_string();
    let document = redact_files(&Document::parse(&text).unwrap()).unwrap();
    let json = document.root().raw().into_owned();
    assert!(!json.contains(&base64_of("hunter2")), "{json}");
    let mut seen: serde_json::Value = serde_json::from_str(&json).unwrap();
    let hidden = seen["spec"]["files"][1]["documents"][1].take();
    assert_eq!(hidden["metadata"]["name"], "s");
    assert_eq!(hidden["data"].as_object().unwrap().len(), 1);
    assert_eq!(seen, bundle(serde_json::json!([map, null, "hunter2?", map])));
    let without = bundle(serde_json::json!([map])).to_string();
    assert!(redact_files(&Document::parse(&without).unwrap()).is_none());
}
