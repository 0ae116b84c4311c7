//! Detects a bundle, a catalog or manifests at a path, or in a folder below it.
//!
//! ```text
//! file ───▶ its first document that says what it is
//! folder ─┬▶ manifests/ or *.package.yaml in it: a bundle
//!         ├▶ bundles and projects in it: each of them, and the catalogs beside them
//!         │  ([`super::repository`])
//!         └▶ the first document in it that says what it is
//! ```

use std::path::Path;

use super::content::{Expect, File, has_documents, peek};
use super::folder;
use super::ignore::Ignore;
use super::kinds::{As, Found, LOOKS, complaint, what};
use super::repository::Bundles;
use super::{dump, template, unique};
use opgate_input::read::{At, Reader};

/// The kinds that were searched for.
const KNOWN: &str = "no bundle (manifests/, metadata/annotations.yaml), no catalog (blobs with schema), no project (watches.yaml) and no manifest (apiVersion and kind) found in it; say what it is with --as";

/// Detects the subjects at a path, or below it.
///
/// # Errors
/// If no known kind is found: the kinds that were searched for.
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
    let projects = bundles.projects(&folder, reader);
    if bundles.are_below() || !projects.is_empty() {
        return Ok(bundles.and_others(projects, &folder, reader));
    }
    // If it cannot be read, reading the catalog reports that.
    let ignored = Ignore::of(&folder, reader).unwrap_or_default();
    // A refused entry is probably what the user meant.
    let refused = folder.files.iter().filter(|entry| entry.refused.is_some());
    let refused = refused.filter(|entry| !ignored.ignores_entry(entry));
    let mut broken = refused.map(|entry| complaint(&folder, entry, reader)).next().flatten();
    for entry in looks {
        match peek(entry.at(&folder), Path::new(&entry.path), reader, what) {
            // Ignored blobs do not make a catalog.
            Ok(Some(As::Catalog)) if ignored.ignores(&entry.path) => {}
            // A project is recognised by the name of the file as well.
            Ok(None | Some(As::Project)) => {}
            Ok(Some(kind)) => return whole(kind),
            Err(_) => broken = broken.or_else(|| complaint(&folder, entry, reader)),
        }
    }
    let broken = broken.map(|line| format!("\n{line}")).unwrap_or_default();
    anyhow::bail!("{shown}: {KNOWN}{broken}")
}

/// The kind of a file.
fn file(path: &Path, reader: &Reader) -> anyhow::Result<As> {
    let shown = path.display();
    if dump::is_list(path) {
        return Ok(As::Cluster);
    }
    if let Ok(Some(kind)) = peek(At::Named(path), path, reader, what) {
        return Ok(kind);
    }
    // The error in a file has the same text for all kinds.
    let name = shown.to_string();
    let read = File::read(At::Named(path), name.clone(), name, Expect::Documents, reader);
    let read = unique::checked(read);
    anyhow::ensure!(
        read.broken().is_some() || read.documents().is_none_or(|all| all.len() != 0),
        "{shown}: empty: it should hold manifests (apiVersion, kind, metadata) or AdmissionReviews"
    );
    anyhow::bail!(template::complaint(&read).unwrap_or_else(|| format!(
        "{shown}: neither a manifest (apiVersion and kind) nor a catalog (schema) nor a watches.yaml; say what it is with --as"
    )))
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

    #[test]
    fn projects_are_found_by_their_watches() {
        const ONE: &str = "- version: v1\n  kind: K\n  role: r\n";
        const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
        const BLOB: &str = "schema: olm.package\nname: a\n";
        let found = |files: &[(&str, &str)]| {
            let folder = Temporary::new(files);
            let found = detect(folder.path(), &Reader::default()).unwrap();
            let relative = |found: &Found| {
                let path = found.path.strip_prefix(folder.path()).unwrap();
                format!("{} {}", path.display(), found.kind.name())
            };
            found.iter().map(relative).collect::<Vec<_>>()
        };
        let sample = ("config/samples/a.yaml", OBJECT);
        let project = ("PROJECT", "layout: x\n");
        assert_eq!(found(&[("watches.yaml", ONE), sample, ("a.yaml", BLOB)]), [" project"]);
        assert_eq!(found(&[("watches.yaml", "# nothing yet\n"), project, sample]), [" project"]);
        assert_eq!(found(&[("watches.yaml", "- a: [\n"), project]), [" project"]);
        let files = [
            ("watches.yaml", ONE),
            ("bundle/manifests/a.yaml", OBJECT),
            ("bundle/manifests/watches.yaml", ONE),
            ("catalog/a.yaml", BLOB),
        ];
        assert_eq!(found(&files), [" project", "bundle plain bundle", "catalog catalog"]);
        let files = [("a/watches.yaml", ONE), ("b/c/watches.yaml", ONE), (".d/watches.yaml", ONE)];
        assert_eq!(found(&files), ["a project", "b/c project"]);
        // Another program's, beside manifests, and another list.
        assert_eq!(found(&[("watches.yaml", "- path: /\n"), ("a.yaml", OBJECT)]), [" manifests"]);
        assert_eq!(found(&[("a.yaml", ONE), ("b.yaml", OBJECT)]), [" manifests"]);
        let folder = Temporary::new(&[("a.yaml", ONE)]);
        let file = folder.path().join("a.yaml");
        assert_eq!(detect(&file, &Reader::default()).unwrap()[0].kind, As::Project);
    }
}
