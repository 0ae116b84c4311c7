//! An OCI layout: blobs by digest, and an index that names one image.
//!
//! ```text
//! index.json ─▶ image index ─┬▶ manifest of a platform ─▶ configuration, layer   (one for each)
//!                            └▶ manifest of its SBOM ─▶ SBOM; subject: the manifest of the platform
//! ```
//!
//! The image index has the SBOMs among its manifests, so that a copy of the whole image includes them, and a
//! registry lists them as referrers. No runtime treats them as a platform: theirs is `unknown`.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::files::USER;
use super::platform::Arch;
use super::{Image, ImageMetadata, digest};

const INDEX_MEDIA_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION_MEDIA_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_MEDIA_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// Media type of SBOMs of this format.
const SBOM_MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";

/// Marks a directory as a layout.
const LAYOUT_MARKER: &str = "oci-layout";

/// An image for several platforms, as files.
#[derive(Debug)]
pub(super) struct Layout {
    /// By digest.
    blobs: BTreeMap<String, Vec<u8>>,
    index: Value,
    /// Digest of the image index: the reference is `IMAGE@sha256:…`.
    pub(super) digest: String,
    pub(super) tag: String,
    /// Bytes of configuration and layer of each platform.
    pub(super) sizes: Vec<(Arch, usize)>,
}

impl Layout {
    pub(super) fn of(
        metadata: &ImageMetadata,
        images: &[Image],
        tag: Option<&str>,
    ) -> Result<Self> {
        let mut layout = Self {
            blobs: BTreeMap::new(),
            index: Value::Null,
            digest: String::new(),
            tag: tag.unwrap_or(&metadata.version).to_owned(),
            sizes: Vec::new(),
        };
        let (mut manifests, mut sboms) = (Vec::new(), Vec::new());
        for image in images {
            let (manifest, sbom) = layout.add_image(metadata, image)?;
            manifests.push(manifest);
            sboms.push(sbom);
        }
        manifests.append(&mut sboms);
        let mut index = layout.add_json(
            INDEX_MEDIA_TYPE,
            &json!({
                "schemaVersion": 2,
                "mediaType": INDEX_MEDIA_TYPE,
                "manifests": manifests,
                "annotations": annotations(metadata)?,
            }),
        )?;
        layout.digest = text(&index, "digest");
        let tag = json!({"org.opencontainers.image.ref.name": layout.tag});
        set(&mut index, "annotations", tag);
        layout.index =
            json!({"schemaVersion": 2, "mediaType": INDEX_MEDIA_TYPE, "manifests": [index]});
        Ok(layout)
    }

    /// Descriptors of the manifests of an image and of its SBOM.
    fn add_image(&mut self, metadata: &ImageMetadata, image: &Image) -> Result<(Value, Value)> {
        let arch = image.arch.to_string();
        let labels = annotations(metadata)?;
        let created = metadata.created()?;
        let configuration = self.add_json(
            CONFIGURATION_MEDIA_TYPE,
            &json!({
                "created": created,
                "architecture": arch,
                "os": "linux",
                "config": {
                    "User": USER,
                    "ExposedPorts": {"8081/tcp": {}, "9443/tcp": {}},
                    "Entrypoint": ["/opgate"],
                    "WorkingDir": "/",
                    "StopSignal": "SIGTERM",
                    "Labels": labels,
                },
                "rootfs": {"type": "layers", "diff_ids": [image.layer.diff_id]},
                "history": [{"created": created, "created_by": "cargo xtask image"}],
            }),
        )?;
        let layer = self.add(LAYER_MEDIA_TYPE, image.layer.bytes.clone());
        self.sizes.push((image.arch, self.size(&configuration).saturating_add(self.size(&layer))));
        let mut manifest = self.add_json(
            MANIFEST_MEDIA_TYPE,
            &json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST_MEDIA_TYPE,
                "config": configuration,
                "layers": [layer],
                "annotations": labels,
            }),
        )?;
        let empty = self.add(EMPTY_MEDIA_TYPE, b"{}".to_vec());
        let mut content = self.add(SBOM_MEDIA_TYPE, image.sbom.clone());
        let title = json!({"org.opencontainers.image.title": "opgate.cdx.json"});
        set(&mut content, "annotations", title);
        let mut sbom = self.add_json(
            MANIFEST_MEDIA_TYPE,
            &json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST_MEDIA_TYPE,
                "artifactType": SBOM_MEDIA_TYPE,
                "config": empty,
                "layers": [content],
                "subject": manifest,
                "annotations": {
                    "org.opencontainers.image.created": created,
                    "org.opencontainers.image.description": format!("SBOM of opgate for {arch}"),
                },
            }),
        )?;
        set(&mut manifest, "platform", json!({"architecture": arch, "os": "linux"}));
        // No `artifactType` here: it is in the manifest, and tools of 2022 drop it when they copy the index,
        // which would then have another digest.
        set(&mut sbom, "platform", json!({"architecture": "unknown", "os": "unknown"}));
        Ok((manifest, sbom))
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Result<Value> {
        Ok(self.add(media_type, serde_json::to_vec(value)?))
    }

    /// Returns the descriptor of a blob.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = digest(&bytes);
        let descriptor = json!({"mediaType": media_type, "digest": digest, "size": bytes.len()});
        self.blobs.insert(digest, bytes);
        descriptor
    }

    fn size(&self, descriptor: &Value) -> usize {
        self.blobs.get(&text(descriptor, "digest")).map_or(0, Vec::len)
    }

    /// Writes it, in place of an earlier one.
    pub(super) fn write(&self, output: &Path) -> Result<()> {
        check_output(output)?;
        let blobs = output.join("blobs/sha256");
        if output.exists() {
            fs::remove_dir_all(output).with_context(|| output.display().to_string())?;
        }
        fs::create_dir_all(&blobs).with_context(|| blobs.display().to_string())?;
        for (digest, bytes) in &self.blobs {
            fs::write(blobs.join(digest.trim_start_matches("sha256:")), bytes)?;
        }
        fs::write(output.join("index.json"), serde_json::to_vec(&self.index)?)?;
        // Last: without it, the directory is no layout.
        fs::write(output.join(LAYOUT_MARKER), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(())
    }
}

/// Checks that only an earlier layout is overwritten.
pub(super) fn check_output(output: &Path) -> Result<()> {
    let mut entries = match fs::read_dir(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| output.display().to_string())?,
    };
    if entries.next().is_some()
        && !output.join(LAYOUT_MARKER).is_file()
        && !output.join("blobs").is_dir()
    {
        bail!("{} is not empty, and no OCI layout: name another directory", output.display());
    }
    ensure!(
        !output.join(".git").exists(),
        "{} is a repository: name another directory",
        output.display()
    );
    Ok(())
}

fn annotations(metadata: &ImageMetadata) -> Result<Value> {
    let labels = metadata.labels()?.into_iter().map(|(name, value)| (name, Value::from(value)));
    Ok(Value::Object(labels.collect()))
}

fn text(descriptor: &Value, name: &str) -> String {
    descriptor.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn set(descriptor: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = descriptor {
        members.insert(name.to_owned(), value);
    }
}
