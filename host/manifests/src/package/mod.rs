//! `opgate manifests package`: an installation as files, for tools other than `kubectl apply`.
//!
//! ```text
//!                                ┌─▶ kustomize  kustomize/base, kustomize/monitoring
//! all: objects, by each variant ─┼─▶ helm       helm/opgate: templates, values and their schema
//!                                ├─▶ olm        olm/bundle, olm/catalog
//!                                └─▶ grafana/opgate.json, which can be imported
//! ```
//!
//! All of it comes from the objects that `opgate manifests all` prints. `deploy/` in the sources is the output
//! for the default configuration.

mod helm;
mod kustomize;
mod olm;
mod values;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::installation::{Installation, dashboard};
use crate::yaml;
use opgate_admission::policy::Policy;

/// Files by their path in the directory, and their text.
type Files = Vec<(PathBuf, String)>;

/// Writes all files below a directory, and returns their paths. Files of earlier runs that are no longer
/// written stay.
/// # Errors
/// If a file cannot be written.
pub fn write(
    directory: &Path,
    policies: &[&Policy],
    installation: &Installation,
    bundle_image: &str,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = kustomize::files(policies, installation)?;
    files.extend(helm::files(policies, installation)?);
    files.extend(olm::files(policies, installation, bundle_image)?);
    files.push(("grafana/opgate.json".into(), dashboard::dashboard_json()?));
    let mut written = Vec::new();
    for (path, text) in files {
        let path = directory.join(path);
        let named = || path.display().to_string();
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(named)?;
        }
        std::fs::write(&path, text).with_context(named)?;
        written.push(path);
    }
    Ok(written)
}

fn yaml(value: &Value) -> anyhow::Result<String> {
    yaml::text(value).map_err(anyhow::Error::from)
}

fn documents(objects: &[Value]) -> anyhow::Result<String> {
    yaml::documents(objects).map_err(anyhow::Error::from)
}

/// Returns `kind` of an object.
fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// Returns `metadata.name` of an object.
fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
