//! Detects the subjects of a check at a path, or in a directory below it.
//!
//! ```text
//! file ───▶ its first document of a known type
//! directory ─┬▶ a bundle, by its directories and files
//!            ├▶ bundles and projects in it: each of them, and the catalogs next to them ┐
//!            └▶ otherwise the catalogs in it, and each file of manifests                ┴▶ [`super::repository`]
//! ```
//!
//! A directory can be any repository: files that are not checked are skipped, with the reason.

use std::path::Path;

use super::content::{File, ParseMode, peek};
use super::directory::{self, MAX_SEARCHED_ENTRIES};
use super::kinds::{
    CheckInputType, DetectedInput, Detection, DocumentType, SkipReason, document_type, is_exported,
};
use super::kustomize::PatchFiles;
use super::repository::{BundleDirectories, DirectorySearch};
use super::{dump, duplicate_keys, template};
use opgate_input::read::{FilePath, Reader};

/// The kinds that were searched for.
const NOTHING_DETECTED: &str = "no bundle (manifests/, metadata/annotations.yaml), no catalog (blobs with schema), no project (watches.yaml) and no manifest (apiVersion and kind) found in it; set its type with --input-type";

/// Detects what there is to check at a path, or below it.
///
/// # Errors
/// If no known kind is found: the kinds that were searched for.
pub fn detect(path: &Path, reader: &Reader) -> anyhow::Result<Detection> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|e| anyhow::anyhow!("{shown}: {e}"))?;
    if !metadata.is_dir() {
        return Ok(Detection { inputs: vec![detect_file(path, reader)?], skipped: Vec::new() });
    }
    let directory = directory::walk_up_to(path, MAX_SEARCHED_ENTRIES)?;
    let bundles = BundleDirectories::of(&directory, reader);
    if let Some(kind) = bundles.type_of("") {
        return Ok(Detection { inputs: vec![DetectedInput::new(path, kind)], skipped: Vec::new() });
    }
    let detection = DirectorySearch::new(&directory, bundles, reader).run();
    if detection.inputs.is_empty() {
        let broken = detection.skipped.iter().find_map(|passed| match &passed.reason {
            SkipReason::Unreadable(why) => Some(format!("\n{}:{why}", passed.path.display())),
            _ => None,
        });
        anyhow::bail!("{shown}: {NOTHING_DETECTED}{}", broken.unwrap_or_default());
    }
    Ok(detection)
}

/// Detects the type of a file.
fn detect_file(path: &Path, reader: &Reader) -> anyhow::Result<DetectedInput> {
    let shown = path.display();
    if dump::is_stored_list(path) {
        return Ok(DetectedInput::new(path, CheckInputType::Cluster));
    }
    // Several exported objects one after another are a dump, like a list of them.
    let mut exported = 0_u8;
    let is_dump = peek(FilePath::Named(path), path, reader, |json| {
        exported = if is_exported(json) { exported.saturating_add(1) } else { return Some(false) };
        (exported > 1).then_some(true)
    });
    if matches!(is_dump, Ok(Some(true))) {
        return Ok(DetectedInput::new(path, CheckInputType::Cluster));
    }
    match peek(FilePath::Named(path), path, reader, document_type) {
        Ok(Some(DocumentType::Input(CheckInputType::Manifest))) => {
            let not_evaluated = PatchFiles::near(path, reader).skip_reason(path);
            return Ok(DetectedInput {
                not_evaluated,
                ..DetectedInput::new(path, CheckInputType::Manifest)
            });
        }
        Ok(Some(DocumentType::Input(kind))) => return Ok(DetectedInput::new(path, kind)),
        Ok(Some(DocumentType::CatalogTemplate)) => {
            let not_evaluated = Some(SkipReason::CatalogTemplate.text());
            return Ok(DetectedInput {
                not_evaluated,
                ..DetectedInput::new(path, CheckInputType::Catalog)
            });
        }
        Ok(Some(DocumentType::Template | DocumentType::Kustomization)) => {
            return Ok(DetectedInput::new(path, CheckInputType::Manifest));
        }
        Ok(None) | Err(_) => {}
    }
    // The error in a file has the same text for all kinds.
    let name = shown.to_string();
    let read = File::read(FilePath::Named(path), name.clone(), name, ParseMode::AllFiles, reader);
    let read = duplicate_keys::reject_duplicates(read);
    anyhow::ensure!(
        read.read_error().is_some() || read.documents().is_none_or(|all| all.len() != 0),
        "{shown}: empty: it should hold manifests (apiVersion, kind, metadata) or AdmissionReviews"
    );
    anyhow::bail!(template::error_line(&read).unwrap_or_else(|| format!(
        "{shown}: neither a manifest (apiVersion and kind) nor a catalog (schema) nor a watches.yaml; set its type with --input-type"
    )))
}

/// Returns the files of a directory of manifests, each to be checked separately.
///
/// # Errors
/// Fails if the directory is unreadable or has no such file.
pub fn find_manifests(root: &Path) -> anyhow::Result<Vec<DetectedInput>> {
    let directory = directory::walk_up_to(root, MAX_SEARCHED_ENTRIES)?;
    let is_empty = directory.files.is_empty() && directory.directories.is_empty();
    // Probably the wrong directory.
    anyhow::ensure!(!is_empty, "{}: it is empty", root.display());
    // An entry that could contain files is reported, whatever its name.
    let is_directory =
        |entry: &directory::Entry| entry.rejection.as_ref().is_some_and(|r| r.can_be_directory);
    let files = directory
        .files
        .iter()
        .filter(|entry| super::content::has_documents(&entry.path) || is_directory(entry));
    let found = |entry: &directory::Entry| {
        let directory = Some(root.to_path_buf());
        DetectedInput {
            directory,
            ..DetectedInput::new(root.join(&entry.path), CheckInputType::Manifest)
        }
    };
    let files: Vec<_> = files.map(found).collect();
    anyhow::ensure!(
        !files.is_empty(),
        "{}: there is no file *.json, *.yaml or *.yml in it",
        root.display()
    );
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TempDirectory, fixture};

    fn detect_all(path: &Path) -> Vec<DetectedInput> {
        detect(path, &Reader::default()).unwrap().inputs
    }

    #[test]
    fn input_type_of_directories_and_files_is_detected() {
        for (name, expected) in [
            ("bundle-valid", CheckInputType::Bundle),
            ("bundle-broken", CheckInputType::Bundle),
            ("plain-valid", CheckInputType::Plain),
            ("plain-valid/manifests/namespace.yaml", CheckInputType::Manifest),
            ("catalog-valid", CheckInputType::Catalog),
            ("catalog-valid/etcd/catalog.yaml", CheckInputType::Catalog),
            ("catalog-broken", CheckInputType::Catalog),
        ] {
            let path = fixture(name);
            assert_eq!(detect_all(&path), [DetectedInput::new(path, expected)], "{name}");
        }
        let manifests = fixture("plain-valid/manifests");
        let files = detect_all(&manifests);
        assert!(
            files.len() > 1 && files.iter().all(|file| file.input_type == CheckInputType::Manifest),
            "{files:?}"
        );
        assert!(files.iter().all(|file| file.directory.as_deref() == Some(manifests.as_path())));
        let legacy = TempDirectory::new(&[("etcd.package.yaml", "packageName: etcd\n")]);
        assert_eq!(detect_all(legacy.path())[0].input_type, CheckInputType::Bundle);
    }

    #[test]
    fn undetected_input_reports_expected_types() {
        let directory = TempDirectory::new(&[("a.yaml", "a: 1\n"), ("b.yaml", "a: [\n")]);
        let error = |name: &str| {
            detect(&directory.path().join(name), &Reader::default()).unwrap_err().to_string()
        };
        assert!(error("").contains("no bundle (manifests/"), "{}", error(""));
        assert!(error("").contains("b.yaml:1:4: not YAML"), "{}", error(""));
        assert!(error("a.yaml").contains("neither a manifest"), "{}", error("a.yaml"));
        assert!(error("b.yaml").contains("not YAML"), "{}", error("b.yaml"));
        assert!(error("c").contains("No such file"), "{}", error("c"));
    }

    #[test]
    fn ignored_blobs_make_no_catalog() {
        let directory = TempDirectory::new(&[
            ("a/catalog.yaml", "schema: olm.package\nname: x\n"),
            (".indexignore", "*\n"),
        ]);
        let error = detect(directory.path(), &Reader::default()).unwrap_err().to_string();
        assert!(error.contains("no catalog"), "{error}");
        directory.write("b.yaml", "apiVersion: v1\nkind: Namespace\n");
        assert_eq!(detect_all(directory.path())[0].input_type, CheckInputType::Manifest);
    }

    #[test]
    fn repository_without_bundles_yields_its_manifests() {
        const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
        let exported = OBJECT.replace("{name: x}", "{name: x, uid: a, resourceVersion: b}");
        let directory = TempDirectory::new(&[
            (".github/workflows/ci.yaml", "on: push\n"),
            ("OWNERS", "approvers: [a]\n"),
            ("README.md", "# x\n"),
            ("apps/a.yaml", OBJECT),
            ("apps/broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n"),
            ("apps/exported.yaml", &exported),
            ("apps/kustomization.yaml", "resources: [a.yaml]\npatches: [{path: p.yaml}]\n"),
            ("apps/p.yaml", OBJECT),
            ("apps/patch.json", "[{\"op\": \"remove\", \"path\": \"/a\"}]"),
            ("catalogs/a/c.yaml", "schema: olm.package\nname: a\n"),
            ("catalogs/a-template.yaml", "schema: olm.template.basic\nentries: []\n"),
            ("chart/Chart.yaml", "apiVersion: v2\nname: x\n"),
            ("chart/crds/crd.yaml", OBJECT),
            ("chart/templates/a.yaml", OBJECT),
            ("chart/templates/b.yaml", "metadata: {{ x }}\n"),
            ("chart/values.yaml", "a: 1\n"),
            ("manifests/OWNERS", "x\n"),
            ("manifests/a.yaml", OBJECT),
            ("notes.yaml", "a: [\n"),
            ("schema.json", "{\"schema\": \"https://example.com\"}"),
            ("templated.yaml", &OBJECT.replace('x', "'{{ name }}'")),
        ]);
        let Detection { inputs: found, skipped: passed_over } =
            detect(directory.path(), &Reader::default()).unwrap();
        let shown =
            |path: &Path| path.strip_prefix(directory.path()).unwrap().display().to_string();
        let kinds: Vec<_> = found
            .iter()
            .map(|f| (shown(&f.path), f.input_type, f.not_evaluated.is_some()))
            .collect();
        let manifest = |path: &str| (path.to_owned(), CheckInputType::Manifest, false);
        let expected = [
            ("catalogs/a".to_owned(), CheckInputType::Catalog, false),
            manifest("apps/a.yaml"),
            manifest("apps/broken.yaml"),
            manifest("apps/exported.yaml"),
            ("apps/p.yaml".to_owned(), CheckInputType::Manifest, true),
            manifest("chart/crds/crd.yaml"),
            manifest("manifests/a.yaml"),
        ];
        assert_eq!(kinds, expected);
        let passed: Vec<_> =
            passed_over.iter().map(|p| (shown(&p.path), p.reason.clone())).collect();
        let helm = || SkipReason::HelmTemplate(directory.path().join("chart"));
        let not = |path: &str| (path.to_owned(), SkipReason::NotObjects);
        let expected = [
            not("apps/kustomization.yaml"),
            not("apps/patch.json"),
            ("catalogs/a-template.yaml".to_owned(), SkipReason::CatalogTemplate),
            not("chart/Chart.yaml"),
            ("chart/templates/a.yaml".to_owned(), helm()),
            ("chart/templates/b.yaml".to_owned(), helm()),
            not("chart/values.yaml"),
            ("notes.yaml".to_owned(), SkipReason::Unreadable("1:4: not YAML: x".to_owned())),
            not("schema.json"),
            ("templated.yaml".to_owned(), SkipReason::Template),
        ];
        for (found, expected) in passed.iter().zip(&expected) {
            let is_error = matches!(found.1, SkipReason::Unreadable(_));
            assert!(found == expected || is_error && found.0 == expected.0, "{found:?}");
        }
        assert_eq!(passed.len(), expected.len(), "{passed:?}");
    }

    #[test]
    fn projects_are_found_by_their_watches() {
        const ONE: &str = "- version: v1\n  kind: K\n  role: r\n";
        const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
        const BLOB: &str = "schema: olm.package\nname: a\n";
        let found = |files: &[(&str, &str)]| {
            let directory = TempDirectory::new(files);
            let found = detect(directory.path(), &Reader::default()).unwrap().inputs;
            let relative = |found: &DetectedInput| {
                let path = found.path.strip_prefix(directory.path()).unwrap();
                format!("{} {}", path.display(), found.input_type.name())
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
        // A file of another program next to manifests, and a list of another kind.
        assert_eq!(
            found(&[("watches.yaml", "- path: /\n"), ("a.yaml", OBJECT)]),
            ["a.yaml manifests"]
        );
        assert_eq!(found(&[("a.yaml", ONE), ("b.yaml", OBJECT)]), ["b.yaml manifests"]);
        let directory = TempDirectory::new(&[("a.yaml", ONE)]);
        let file = directory.path().join("a.yaml");
        assert_eq!(
            detect_file(&file, &Reader::default()).unwrap().input_type,
            CheckInputType::Project
        );
    }
}
