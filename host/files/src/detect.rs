//! What is at a path: a bundle, a catalog or manifests; or a folder with some of them below it.
//!
//! ```text
//! file ───▶ its first document that says what it is
//! folder ─┬▶ manifests/ or *.package.yaml in it: a bundle
//!         ├▶ bundles below it: each of them, and the catalogs beside them ([`super::below`])
//!         └▶ the first document in it that says what it is
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_document::{Document, Text};

use super::below::Bundles;
use super::content::{Expect, File, has_documents, peek};
use super::folder::{self, Entry, Folder};
use super::ignore::Ignore;
use super::{template, unique};
use opgate_input::read::{At, Reader};

/// What files are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum As {
    /// A folder with manifests and metadata (registry+v1)
    Bundle,
    /// A folder with manifests (plain+v0)
    Plain,
    /// A file-based catalog: a folder or one file
    Catalog,
    /// Kubernetes objects: a file or a folder of files
    Manifest,
}

impl As {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::Plain => "plain bundle",
            Self::Catalog => "catalog",
            Self::Manifest => "manifests",
        }
    }
}

/// Something that can be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: As,
}

/// Files of a folder that are looked into.
pub(super) const LOOKS: usize = 1_000;

/// What was looked for.
const KNOWN: &str = "no bundle (manifests/, metadata/annotations.yaml), no catalog (blobs with schema) and no manifest (apiVersion and kind) found in it; say what it is with --as";

/// Finds out what is at a path, or below it.
///
/// # Errors
/// Where it is nothing that is known: what was looked for.
pub fn detect(path: &Path, reader: &Reader) -> anyhow::Result<Vec<Found>> {
    let shown = path.display();
    let found = std::fs::metadata(path).map_err(|e| anyhow::anyhow!("{shown}: {e}"))?;
    let whole = |kind| Ok(vec![Found { path: path.to_path_buf(), kind }]);
    if !found.is_dir() {
        return whole(file(path, reader)?);
    }
    let folder = folder::walk(path)?;
    let bundles = Bundles::of(&folder, reader);
    if let Some(kind) = bundles.at("") {
        return whole(kind);
    }
    let looks = folder.files.iter().filter(|entry| has_documents(&entry.path)).take(LOOKS);
    if bundles.are_below() {
        return Ok(bundles.and_catalogs(&folder, reader));
    }
    // Where it cannot be read, whoever reads the catalog says so.
    let ignored = Ignore::of(&folder, reader).unwrap_or_default();
    // Most likely what was meant to be found.
    let refused = folder.files.iter().filter(|entry| entry.refused.is_some());
    let refused = refused.filter(|entry| !ignored.ignores_entry(entry));
    let mut broken = refused.map(|entry| complaint(&folder, entry, reader)).next().flatten();
    for entry in looks {
        match peek(entry.at(&folder), Path::new(&entry.path), reader, what) {
            // Blobs that are ignored make no catalog.
            Ok(Some(As::Catalog)) if ignored.ignores(&entry.path) => {}
            Ok(Some(kind)) => return whole(kind),
            Ok(None) => {}
            Err(_) => broken = broken.or_else(|| complaint(&folder, entry, reader)),
        }
    }
    let broken = broken.map(|line| format!("\n{line}")).unwrap_or_default();
    anyhow::bail!("{shown}: {KNOWN}{broken}")
}

/// What a file is.
fn file(path: &Path, reader: &Reader) -> anyhow::Result<As> {
    let shown = path.display();
    if let Ok(Some(kind)) = peek(At::Named(path), path, reader, what) {
        return Ok(kind);
    }
    // What is wrong with a file is said in the same words, whoever reads it.
    let name = shown.to_string();
    let read = File::read(At::Named(path), name.clone(), name, Expect::Documents, reader);
    anyhow::bail!(template::complaint(&unique::checked(read)).unwrap_or_else(|| format!(
        "{shown}: neither a manifest (apiVersion and kind) nor a catalog (schema); say what it is with --as"
    )))
}

/// What is wrong with a file of a folder, where something is.
pub(super) fn complaint(folder: &Folder, entry: &Entry, reader: &Reader) -> Option<String> {
    template::complaint(&unique::checked(entry.read(folder, Expect::Documents, reader)))
}

/// What a document says it is.
pub(super) fn what(json: &str) -> Option<As> {
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
    use super::*;
    use crate::testing::{Temporary, fixture};

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
            let path = fixture(name);
            assert_eq!(
                detect(&path, &Reader::default()).unwrap(),
                [Found { path, kind: expected }],
                "{name}"
            );
        }
        let legacy = Temporary::new(&[("etcd.package.yaml", "packageName: etcd\n")]);
        assert_eq!(detect(legacy.path(), &Reader::default()).unwrap()[0].kind, As::Bundle);
    }

    #[test]
    fn what_was_looked_for_is_said() {
        let folder = Temporary::new(&[("a.yaml", "a: 1\n"), ("b.yaml", "a: [\n")]);
        let error = |name: &str| {
            detect(&folder.path().join(name), &Reader::default()).unwrap_err().to_string()
        };
        assert!(error("").contains("no bundle (manifests/"), "{}", error(""));
        assert!(error("").contains("b.yaml:1:4: not YAML"), "{}", error(""));
        assert!(error("a.yaml").contains("neither a manifest"), "{}", error("a.yaml"));
        assert!(error("b.yaml").contains("not YAML"), "{}", error("b.yaml"));
        assert!(error("c").contains("No such file"), "{}", error("c"));
    }

    #[test]
    fn blobs_that_are_ignored_make_no_catalog() {
        let folder = Temporary::new(&[
            ("a/catalog.yaml", "schema: olm.package\nname: x\n"),
            (".indexignore", "*\n"),
        ]);
        let error = detect(folder.path(), &Reader::default()).unwrap_err().to_string();
        assert!(error.contains("no catalog"), "{error}");
        folder.write("b.yaml", "apiVersion: v1\nkind: Namespace\n");
        assert_eq!(detect(folder.path(), &Reader::default()).unwrap()[0].kind, As::Manifest);
    }
}
