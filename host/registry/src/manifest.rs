//! Manifests: finds the layer of the component, and writes the manifests of pushed policies.
//!
//! An artifact is a Wasm OCI artifact of the CNCF: a config with a separate type and one layer `application/wasm`. Older tools write
//! other types. The type of the layer must be one of WebAssembly; its bytes are checked later.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Digest, Error};

/// Maximum bytes of a manifest, as in registries.
pub(crate) const MAX_MANIFEST_BYTES: usize = 4 << 20;

pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_MANIFEST_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_INDEX_TYPE: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// The media types that opgate accepts.
pub(crate) const ACCEPTED_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// The type of an artifact's config.
pub(crate) const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// The type of its layer.
const LAYER_TYPE: &str = "application/wasm";
/// Layers of older tools: wasm-to-oci, and examples of oras.
const OLDER_LAYER_TYPES: [&str; 2] = [
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
];

/// A descriptor in a manifest or an index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    artifact_type: Option<String>,
    platform: Option<Platform>,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Platform {
    architecture: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestText {
    schema_version: Option<Value>,
    media_type: Option<String>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

/// A manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Manifest {
    /// A manifest with layers.
    Layers(Vec<Descriptor>),
    /// An index of other manifests.
    Index(Vec<Descriptor>),
}

impl Manifest {
    /// Parses a manifest. Its type, in its text and in the head of the response, must match its structure, so that tools that sign or
    /// scan it by its type see the same content as opgate.
    pub(crate) fn parse(bytes: &[u8], headers: Option<&HeaderMap>) -> Result<Self, Error> {
        let wrong = |why: &str| Error::permanent(format!("not a manifest: {why}"));
        let text: ManifestText =
            serde_json::from_slice(bytes).map_err(|error| wrong(&error.to_string()))?;
        if text.schema_version.as_ref().and_then(Value::as_u64) != Some(2) {
            return Err(wrong("its schemaVersion is not 2"));
        }
        let (manifest, known) = match (text.layers, text.manifests) {
            (Some(layers), None) => (Self::Layers(layers), [MANIFEST_TYPE, DOCKER_MANIFEST_TYPE]),
            (None, Some(manifests)) => (Self::Index(manifests), [INDEX_TYPE, DOCKER_INDEX_TYPE]),
            (Some(_), Some(_)) => return Err(wrong("it has layers and manifests at once")),
            (None, None) => return Err(wrong("it has neither layers nor manifests")),
        };
        let stated = headers.and_then(|headers| headers.get(CONTENT_TYPE));
        let stated = stated.map(|stated| stated.to_str().unwrap_or("?"));
        let stated = stated.map(|stated| stated.split(';').next().unwrap_or_default().trim());
        let [form, _] = known;
        for stated in stated.into_iter().chain(text.media_type.as_deref()) {
            if !known.contains(&stated) {
                return Err(wrong(&format!("its type is {stated:?}, its form that of {form}")));
            }
        }
        Ok(manifest)
    }
}

impl Descriptor {
    pub(crate) fn digest(&self) -> Result<Digest, Error> {
        Digest::parse(&self.digest).map_err(|why| Error::permanent(why.to_string()))
    }

    /// Returns its size, if that is within a limit.
    pub(crate) fn size_within(&self, what: &str, most: usize) -> Result<usize, Error> {
        let size = usize::try_from(self.size).ok().filter(|size| *size <= most);
        size.ok_or_else(|| {
            Error::permanent(format!("the {what} has {} bytes, more than {most}", self.size))
        })
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// Returns the layer with the component.
pub(crate) fn component_layer(layers: &[Descriptor]) -> Result<&Descriptor, Error> {
    let is_wasm = |layer: &&Descriptor| {
        layer.media_type == LAYER_TYPE || OLDER_LAYER_TYPES.contains(&layer.media_type.as_str())
    };
    match layers {
        [layer] if is_wasm(&layer) => Ok(layer),
        [] => Err(Error::permanent(
            "the artifact has no layer: a policy is one layer application/wasm",
        )),
        _ => {
            let types: Vec<_> =
                layers.iter().take(4).map(|layer| format!("{:?}", layer.media_type)).collect();
            let (count, types) = (layers.len(), types.join(", "));
            Err(Error::permanent(format!(
                "the artifact is no policy: it has {count} layers ({types}); a policy is one layer {LAYER_TYPE}, as `opgate policy push`, wkg and oras write it"
            )))
        }
    }
}

/// Returns the only manifest for WebAssembly in an index.
pub(crate) fn wasm_manifest(manifests: &[Descriptor]) -> Result<&Descriptor, Error> {
    let is_wasm = |one: &&Descriptor| {
        let architecture =
            one.platform.as_ref().and_then(|platform| platform.architecture.as_deref());
        architecture == Some("wasm") || one.artifact_type.as_deref() == Some(CONFIG_TYPE)
    };
    let mut found = manifests.iter().filter(is_wasm);
    match (found.next(), found.next(), manifests) {
        (Some(one), None, _) | (None, None, [one]) => Ok(one),
        (Some(_), Some(_), _) => Err(Error::permanent(
            "an index with several manifests for WebAssembly: name one of them by its digest",
        )),
        _ => Err(Error::permanent(format!(
            "an index of {} manifests, none of which is for WebAssembly: name one by its digest",
            manifests.len()
        ))),
    }
}

/// Writes the config and the manifest of a component. They contain no time, so that the same component has the same digest.
pub(crate) fn encode_manifest(
    component: &[u8],
    imports: &[String],
    exports: &[String],
) -> (Vec<u8>, Vec<u8>) {
    let layer = Digest::of(component);
    let config = json!({
        "created": "1970-01-01T00:00:00Z",
        "author": null,
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer.as_str()],
        "component": {"exports": exports, "imports": imports, "target": null},
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, "digest": Digest::of(&config).as_str(), "size": config.len()},
        "layers": [{"mediaType": LAYER_TYPE, "digest": layer.as_str(), "size": component.len()}],
    });
    (config, manifest.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn layer(media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": Digest::of(b"").as_str(), "size": 0})
    }

    fn read(text: &Value, content_type: Option<&'static str>) -> Result<Manifest, String> {
        let headers = content_type
            .map(|value| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]));
        Manifest::parse(text.to_string().as_bytes(), headers.as_ref())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_policy_is_one_layer_of_webassembly() {
        for (layers, why) in [
            (vec!["application/wasm"], None),
            (vec!["application/vnd.wasm.content.layer.v1+wasm"], None),
            (vec!["application/vnd.oci.image.layer.v1.tar+gzip"], Some("is no policy")),
            (vec!["application/wasm", "application/wasm"], Some("2 layers")),
            (vec!["application/wasm", "text/markdown"], Some("2 layers")),
            (vec![""], Some("is no policy")),
            (vec![], Some("no layer")),
        ] {
            let layers: Vec<_> = layers.into_iter().map(layer).collect();
            let text = json!({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "layers": layers});
            let Ok(Manifest::Layers(layers)) = read(&text, Some(MANIFEST_TYPE)) else {
                panic!("{text}")
            };
            match (component_layer(&layers), why) {
                (Ok(_), None) => {}
                (Err(error), Some(why)) => assert!(error.to_string().contains(why), "{error}"),
                (found, why) => panic!("{text}: {found:?}, not {why:?}"),
            }
        }
    }

    #[test]
    fn written_manifest_reads_back_equal() {
        let (config, manifest) = encode_manifest(b"wasm", &[], &["validate".to_owned()]);
        assert_eq!(
            (config.clone(), manifest.clone()),
            encode_manifest(b"wasm", &[], &["validate".to_owned()])
        );
        let Ok(Manifest::Layers(layers)) = Manifest::parse(&manifest, None) else { panic!() };
        let layer = component_layer(&layers).unwrap();
        assert_eq!((layer.digest().unwrap(), layer.size), (Digest::of(b"wasm"), 4));
        let config: Value = serde_json::from_slice(&config).unwrap();
        assert_eq!(config["layerDigests"][0], Digest::of(b"wasm").as_str());
    }

    #[test]
    fn contradictory_manifest_is_rejected() {
        let both = json!({"schemaVersion": 2, "layers": [], "manifests": []});
        for (text, content_type, why) in [
            (both, None, "at once"),
            (json!({"schemaVersion": 2}), None, "neither"),
            (json!({"schemaVersion": 1, "layers": []}), None, "schemaVersion"),
            (json!({"layers": []}), None, "schemaVersion"),
            (
                json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "layers": []}),
                None,
                "its type is",
            ),
            (
                json!({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "layers": []}),
                Some(INDEX_TYPE),
                "its type is",
            ),
            (json!({"schemaVersion": 2, "layers": []}), Some("text/html"), "its type is"),
            (json!({"schemaVersion": 2, "manifests": [{"digest": 1}]}), None, "not a manifest"),
            (json!([]), None, "not a manifest"),
        ] {
            let said = read(&text, content_type).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
        let twice = br#"{"schemaVersion": 2, "layers": [], "layers": []}"#;
        assert!(Manifest::parse(twice, None).is_err());
    }

    #[test]
    fn an_index_has_one_manifest_for_webassembly() {
        let one = |architecture: &str| {
            let mut one = layer(MANIFEST_TYPE);
            one["platform"] = json!({"architecture": architecture, "os": "wasip2"});
            one
        };
        for (manifests, is_found) in [
            (vec![layer(MANIFEST_TYPE)], true),
            (vec![one("wasm")], true),
            (vec![one("amd64"), one("wasm"), one("arm64")], true),
            (vec![one("wasm"), one("wasm")], false),
            (vec![one("amd64"), one("arm64")], false),
            (vec![], false),
        ] {
            let text = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests});
            let Ok(Manifest::Index(manifests)) = read(&text, Some(INDEX_TYPE)) else {
                panic!("{text}")
            };
            assert_eq!(wasm_manifest(&manifests).is_ok(), is_found, "{text}");
        }
    }
}
