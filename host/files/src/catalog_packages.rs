//! The packages of a catalog as objects that policies read, like those of a cluster.
//!
//! ```text
//! blobs, by package ─┬ olm.channel ─▶ channels: name, and names of the entries
//!                    └ olm.bundle ──▶ bundles: name, and version of the property olm.package
//! ```
//!
//! The objects have the kind `CatalogPackage`, the name of the package, and the name of the catalog in
//! the place of a namespace: a package can be in several catalogs. No API server has them.

use std::path::Path;

use opgate_document::{Document, Value};
use opgate_input::read::Reader;
use serde_json::{Value as Json, json};

use super::catalog::{self, Package};
use super::json::{GROUP, VERSION};

/// Returns the packages of the catalog at a path: a directory or a file.
///
/// # Errors
/// Everything that cannot be read, one line each.
pub fn read_catalog_packages(root: &Path, reader: &Reader) -> anyhow::Result<Vec<Document>> {
    let packages = catalog::read(root, reader)?;
    let broken = packages.iter().flat_map(|package| &package.unreadable);
    let lines: Vec<_> = broken.filter_map(|file| file.error_line()).collect();
    anyhow::ensure!(lines.is_empty(), "{}", lines.join("\n"));
    let name = if root.is_dir() { root.file_name() } else { root.file_stem() };
    let name = name.unwrap_or_default().to_string_lossy();
    let named = packages.iter().filter(|package| !package.name.is_empty());
    named.map(|package| package_object(&name, package)).collect()
}

fn package_object(catalog: &str, package: &Package) -> anyhow::Result<Document> {
    let (mut channels, mut bundles) = (Vec::new(), Vec::new());
    for (file, index) in &package.blobs {
        let Some(blob) = file.documents().map(|documents| documents.document(*index)) else {
            continue;
        };
        let blob = blob.root();
        match text(blob, "/schema").as_str() {
            "olm.channel" => channels.push(channel_object(blob)),
            "olm.bundle" => bundles.push(bundle_object(blob)),
            _ => {}
        }
    }
    let object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "CatalogPackage",
        "metadata": {"name": package.name, "namespace": catalog},
        "channels": channels,
        "bundles": bundles,
    });
    Document::of(object.to_string()).map_err(|_| anyhow::anyhow!("{}: too large", package.name))
}

fn text(value: Value<'_>, pointer: &str) -> String {
    value.get(pointer).and_then(|value| value.text()).unwrap_or_default().to_owned()
}

fn channel_object(blob: Value<'_>) -> Json {
    let entries = blob.get("/entries").into_iter().flat_map(|entries| entries.items());
    let entries: Vec<_> = entries.map(|entry| text(entry, "/name")).collect();
    json!({"name": text(blob, "/name"), "entries": entries})
}

fn bundle_object(blob: Value<'_>) -> Json {
    let mut properties = blob.get("/properties").into_iter().flat_map(|all| all.items());
    let version = properties.find(|property| text(*property, "/type") == "olm.package");
    let version = version.map(|property| text(property, "/value/version")).unwrap_or_default();
    json!({"name": text(blob, "/name"), "version": version})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDirectory;

    #[test]
    fn packages_have_their_channels_and_bundles() {
        let directory = TempDirectory::new(&[
            (
                "redhat/a/catalog.json",
                r#"{"schema":"olm.package","name":"a"}{"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v1"},7]}"#,
            ),
            (
                "redhat/bundles.yaml",
                "---\nschema: olm.bundle\npackage: a\nname: a.v1\nproperties:\n- {type: olm.gvk}\n- {type: olm.package, value: {packageName: a, version: 1.0.0}}\n---\nschema: olm.bundle\npackage: b\nname: b.v1\n---\nschema: other\n",
            ),
        ]);
        let of = |path: &Path| -> Vec<Json> {
            let objects = read_catalog_packages(path, &Reader::default()).unwrap();
            let json = |object: &Document| serde_json::from_str(&object.root().raw()).unwrap();
            objects.iter().map(json).collect()
        };
        let found = of(&directory.path().join("redhat"));
        let expected = json!([
            {
                "apiVersion": "opgate.dev/v1alpha1",
                "kind": "CatalogPackage",
                "metadata": {"name": "a", "namespace": "redhat"},
                "channels": [{"name": "stable", "entries": ["a.v1", ""]}],
                "bundles": [{"name": "a.v1", "version": "1.0.0"}],
            },
            {
                "apiVersion": "opgate.dev/v1alpha1",
                "kind": "CatalogPackage",
                "metadata": {"name": "b", "namespace": "redhat"},
                "channels": [],
                "bundles": [{"name": "b.v1", "version": ""}],
            },
        ]);
        assert_eq!(json!(found), expected);
        let file = of(&directory.path().join("redhat/a/catalog.json"));
        assert_eq!(file[0]["metadata"]["namespace"], "catalog");
    }

    #[test]
    fn unreadable_catalog_file_is_reported() {
        let directory =
            TempDirectory::new(&[("a.yaml", "schema: olm.package\nname: a\n---\na: [\n")]);
        let error =
            read_catalog_packages(directory.path(), &Reader::default()).unwrap_err().to_string();
        assert!(error.contains("a.yaml:"), "{error}");
    }
}
