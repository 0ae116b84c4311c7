//! What is at a path: a bundle, a catalog or manifests.

use std::path::Path;
use std::sync::Arc;

use opgate_document::{Document, Text};

use super::content::{Broken, has_documents, peek};
use super::folder;

/// What files are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum As {
    /// A folder with manifests and metadata (registry+v1)
    Bundle,
    /// A folder with manifests (plain+v0)
    Plain,
    /// A file-based catalog: a folder or one file
    Catalog,
    /// Kubernetes objects: a file or a folder of files
    Manifest,
}

/// Files of a folder that are looked into.
const LOOKS: usize = 1_000;

/// Finds out what is at a path.
///
/// # Errors
/// Where it is nothing that is known: what was looked for.
pub(crate) fn detect(path: &Path) -> anyhow::Result<As> {
    let shown = path.display();
    let found = std::fs::metadata(path).map_err(|e| anyhow::anyhow!("{shown}: {e}"))?;
    if !found.is_dir() {
        let looked = peek(path, what);
        let looked = looked.map_err(|broken| {
            let Broken { line, column, why, .. } = broken;
            anyhow::anyhow!("{shown}:{line}:{column}: {why}")
        })?;
        return looked.ok_or_else(|| {
            anyhow::anyhow!(
                "{shown}: neither a manifest (apiVersion and kind) nor a catalog (schema); say what it is with --as"
            )
        });
    }
    let has_manifests = path.join("manifests").is_dir();
    let has_annotations = ["annotations.yaml", "annotations.yml"]
        .iter()
        .any(|n| path.join("metadata").join(n).is_file());
    let folder = folder::walk(path)?;
    let is_legacy = |path: &str| !path.contains('/') && path.ends_with(".package.yaml");
    if (has_manifests && has_annotations) || folder.files.iter().any(|f| is_legacy(&f.path)) {
        return Ok(As::Bundle);
    }
    if has_manifests {
        return Ok(As::Plain);
    }
    let looks = folder.files.into_iter().filter(|f| has_documents(&f.path)).take(LOOKS);
    for entry in looks {
        // What cannot be read is reported when it is known what it should be.
        if let Ok(Some(found)) = peek(&entry.full, what) {
            return Ok(found);
        }
    }
    anyhow::bail!(
        "{shown}: no bundle (manifests/, metadata/annotations.yaml), no catalog (blobs with schema) and no manifest (apiVersion and kind) found; say what it is with --as"
    )
}

/// What a document says it is.
fn what(json: &str) -> Option<As> {
    let text = Arc::new(Text::new(json.to_owned()).ok()?);
    let end = text.len();
    let document = Document::part(text, 0..end);
    let has = |pointer: &str| document.get(pointer).is_some_and(|value| value.text().is_some());
    if has("/apiVersion") && has("/kind") {
        Some(As::Manifest)
    } else if has("/schema") {
        Some(As::Catalog)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Temporary, fixture};
    use super::*;

    #[test]
    fn folders_and_files_say_what_they_are() {
        for (name, expected) in [
            ("bundle-valid", As::Bundle),
            ("bundle-broken", As::Bundle),
            ("plain-valid", As::Plain),
            ("plain-valid/manifests", As::Manifest),
            ("plain-valid/manifests/namespace.yaml", As::Manifest),
            ("catalog-valid", As::Catalog),
            ("catalog-valid/etcd/catalog.yaml", As::Catalog),
            ("catalog-broken", As::Catalog),
        ] {
            assert_eq!(detect(&fixture(name)).unwrap(), expected, "{name}");
        }
        let legacy = Temporary::new(&[("etcd.package.yaml", "packageName: etcd\n")]);
        assert_eq!(detect(legacy.path()).unwrap(), As::Bundle);
    }

    #[test]
    fn what_was_looked_for_is_said() {
        let folder = Temporary::new(&[("a.yaml", "a: 1\n"), ("b.yaml", "a: [\n")]);
        let error = |name: &str| detect(&folder.path().join(name)).unwrap_err().to_string();
        assert!(error("").contains("no bundle (manifests/"), "{}", error(""));
        assert!(error("a.yaml").contains("neither a manifest"), "{}", error("a.yaml"));
        assert!(error("b.yaml").contains("not YAML"), "{}", error("b.yaml"));
        assert!(error("c").contains("No such file"), "{}", error("c"));
    }
}
