//! The bundles, projects, catalogs and manifests in a directory with other content, such as a repository.
//!
//! ```text
//! directories ─▶ manifests/ in it, *.package.yaml in it ─▶ bundles, the outer ones
//! the other directories ─▶ watches.yaml in it, with a PROJECT next to it or by its content ─▶ projects
//! the other files ─┬▶ blobs ─▶ their directories, the outer ones ─▶ catalogs
//!                  ├▶ objects ─▶ manifests, unless there are bundles or projects
//!                  └▶ passed over, each with the reason
//! ```
//!
//! A catalog should have a directory for each package. If a directory contains nothing but such directories,
//! of different packages, it is the catalog. Hidden entries are skipped. An unreadable file that seems to be
//! an object counts as one, so that its error is reported.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use opgate_document::{Document, Text};

use super::bundle::WATCHES;
use super::content::{ParseMode, has_documents, peek};
use super::directory::{DirectoryListing, Entry};
use super::ignore::{self, IgnorePatterns};
use super::kinds::{
    CheckInputType, DetectedInput, Detection, DocumentType, SkipReason, SkippedFile, document_type,
    input_type,
};
use super::kustomize::{PatchFiles, is_kustomization};
use super::{duplicate_keys, parallel, template};
use opgate_input::read::Reader;

/// Maximum number of files of a directory `manifests/` that are searched for objects.
const MAX_SEARCHED_MANIFESTS: usize = 1_000;

/// The bundles in a directory, by their directories; the name of the directory itself is empty.
pub(super) struct BundleDirectories(Vec<(String, CheckInputType)>);

impl BundleDirectories {
    pub(super) fn of(directory: &DirectoryListing, reader: &Reader) -> Self {
        let mut found: Vec<(String, CheckInputType)> = Vec::new();
        for path in &directory.directories {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            if name == "manifests" && !is_hidden(path) {
                let kind = bundle_kind(directory, parent, path, reader);
                found.extend(kind.map(|kind| (parent.to_owned(), kind)));
            }
        }
        // A link instead of the directory: a rule reports it.
        for entry in directory.files.iter().filter(|entry| entry.rejection.is_some()) {
            let (parent, name) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
            if name == "manifests" && has_annotations(directory, parent) {
                found.push((parent.to_owned(), CheckInputType::Bundle));
            }
        }
        let charts = chart_directories(directory);
        let packages = directory.files.iter().filter(|file| {
            file.path.ends_with(".package.yaml") && chart_of(&charts, &file.path).is_none()
        });
        found.extend(packages.map(|file| (parent(&file.path).to_owned(), CheckInputType::Bundle)));
        found.retain(|(path, _)| !is_hidden(path));
        // The more specific result for a directory counts.
        found.sort_by_cached_key(|(path, kind)| {
            (format!("{path}/"), *kind == CheckInputType::Plain)
        });
        found.dedup_by(|(path, _), (outer, _)| is_within(path, outer));
        Self(found)
    }

    pub(super) fn type_of(&self, directory: &str) -> Option<CheckInputType> {
        self.0.iter().find(|(path, _)| path == directory).map(|(_, kind)| *kind)
    }

    /// Returns the directories of projects, which can be around bundles and next to them, but not in them.
    fn projects(&self, directory: &DirectoryListing, reader: &Reader) -> Vec<String> {
        let is_watches = |file: &&Entry| {
            let name = file.path.rsplit_once('/').map_or(&*file.path, |(_, name)| name);
            name == WATCHES && !is_hidden(&file.path) && !self.contains(&file.path)
        };
        let found = directory.files.iter().filter(is_watches).take(MAX_SEARCHED_MANIFESTS);
        let found = found.filter(|file| is_project(directory, file, reader));
        found.map(|file| parent(&file.path).to_owned()).collect()
    }

    /// Reports whether a path is in a bundle.
    fn contains(&self, path: &str) -> bool {
        // They are in the order of their paths, and none is in another one.
        let after = self.0.partition_point(|(bundle, _)| format!("{bundle}/").as_str() <= path);
        let before = after.checked_sub(1).and_then(|index| self.0.get(index));
        before.is_some_and(|(bundle, _)| is_within(path, bundle))
    }
}

/// Returns the type of the directory around `manifests/`: a registry+v1 bundle has annotations, or a
/// ClusterServiceVersion among its manifests; a plain+v0 bundle has nothing but manifests and the build files
/// of its image. Any other directory of this name has manifests like every directory.
fn bundle_kind(
    directory: &DirectoryListing,
    parent: &str,
    manifests: &str,
    reader: &Reader,
) -> Option<CheckInputType> {
    if has_annotations(directory, parent) {
        return Some(CheckInputType::Bundle);
    }
    let is_input = directory_files(directory, manifests).any(|file| is_kustomization(&file.path));
    if is_input {
        return None;
    }
    let has = |wanted: &dyn Fn(&str) -> bool| {
        let looks = |file: &Entry| {
            let look = |json: &str| wanted(json).then_some(());
            let found = peek(file.file_path(directory), Path::new(&file.path), reader, look);
            matches!(found, Ok(Some(())))
        };
        let files = directory_files(directory, manifests).filter(|file| has_documents(&file.path));
        files.filter(|file| file.rejection.is_none()).take(MAX_SEARCHED_MANIFESTS).any(looks)
    };
    if has(&|json| is_version(json)) {
        return Some(CheckInputType::Bundle);
    }
    let is_alone = has_only_manifests(directory, parent, manifests);
    // A named directory counts, even if it has no object.
    let is_plain = is_alone
        && (parent.is_empty() || has(&|json| input_type(json) == Some(CheckInputType::Manifest)));
    is_plain.then_some(CheckInputType::Plain)
}

/// Reports whether a document is a ClusterServiceVersion of any version.
fn is_version(json: &str) -> bool {
    let text = Arc::new(Text::new(json.to_owned()).unwrap_or_default());
    let end = text.len();
    let document = Document::part(text, 0..end);
    document.get("/kind").and_then(|kind| kind.text()) == Some("ClusterServiceVersion")
}

/// Reports whether a directory has nothing but `manifests/` and the build files of its image.
fn has_only_manifests(directory: &DirectoryListing, parent: &str, manifests: &str) -> bool {
    let is_inside = |path: &&str| parent.is_empty() || is_within(path, parent) && *path != parent;
    let files = directory.files.iter().map(|file| file.path.as_str()).filter(is_inside);
    files.into_iter().all(|path| {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        is_within(path, manifests)
            || name.starts_with('.')
            || name.ends_with("Dockerfile")
            || name.ends_with("Containerfile")
    })
}

/// Iterates over the files directly in a directory.
fn directory_files<'f>(
    directory: &'f DirectoryListing,
    path: &'f str,
) -> impl Iterator<Item = &'f Entry> {
    let first = directory.files.partition_point(|file| file.path.as_str() < path);
    let inside =
        directory.files.iter().skip(first).take_while(move |file| file.path.starts_with(path));
    inside.filter(move |file| parent(&file.path) == path)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Iterates over the directories around a path, without the directory itself.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(end, _)| path.get(..end))
}

fn is_within(path: &str, directory: &str) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.'))
}

fn find_file<'f>(directory: &'f DirectoryListing, path: &str) -> Option<&'f Entry> {
    let found = directory.files.binary_search_by(|file| file.path.as_str().cmp(path));
    found.ok().and_then(|index| directory.files.get(index))
}

fn has_annotations(directory: &DirectoryListing, parent: &str) -> bool {
    let slash = if parent.is_empty() { "" } else { "/" };
    let metadata = format!("{parent}{slash}metadata");
    find_file(directory, &metadata).is_some_and(|entry| entry.rejection.is_some())
        || ["annotations.yaml", "annotations.yml"]
            .iter()
            .any(|name| find_file(directory, &format!("{metadata}/{name}")).is_some())
}

/// Reports whether a `watches.yaml` is that of a project: other programs may have such a file.
fn is_project(directory: &DirectoryListing, watches: &Entry, reader: &Reader) -> bool {
    let parent = parent(&watches.path);
    let slash = if parent.is_empty() { "" } else { "/" };
    let looks = || {
        let found =
            peek(watches.file_path(directory), Path::new(&watches.path), reader, input_type);
        matches!(found, Ok(Some(CheckInputType::Project)))
    };
    find_file(directory, &format!("{parent}{slash}PROJECT")).is_some()
        || watches.rejection.is_none() && looks()
}

/// Returns the directories of Helm charts.
fn chart_directories(directory: &DirectoryListing) -> Vec<&str> {
    let is_chart = |file: &&Entry| file.path.rsplit('/').next() == Some("Chart.yaml");
    directory.files.iter().filter(is_chart).map(|file| parent(&file.path)).collect()
}

/// Returns the chart of which a file is a template.
fn chart_of<'c>(charts: &[&'c str], path: &str) -> Option<&'c str> {
    let is_template = |chart: &&&str| {
        let inside = match **chart {
            "" => Some(path),
            chart => path.strip_prefix(chart).and_then(|rest| rest.strip_prefix('/')),
        };
        inside.is_some_and(|inside| inside.starts_with("templates/"))
    };
    charts.iter().find(is_template).copied()
}

/// The type of a file that is in no bundle.
enum FileClass {
    /// Its first blob is of this package.
    Blobs(String),
    /// It has objects: of a cluster, or to be created.
    Objects(CheckInputType),
    /// It could contain blobs or objects, but is unreadable, or is refused.
    Unreadable,
    /// It is skipped.
    Other(SkipReason),
}

/// The search for subjects in a directory.
pub(super) struct DirectorySearch<'f> {
    directory: &'f DirectoryListing,
    bundles: BundleDirectories,
    projects: Vec<String>,
    /// Folders with a `Chart.yaml`, in the order of their paths.
    charts: Vec<&'f str>,
    reader: &'f Reader,
}

impl<'f> DirectorySearch<'f> {
    pub(super) fn new(
        directory: &'f DirectoryListing,
        bundles: BundleDirectories,
        reader: &'f Reader,
    ) -> Self {
        let projects = bundles.projects(directory, reader);
        Self { directory, bundles, projects, charts: chart_directories(directory), reader }
    }

    pub(super) fn run(self) -> Detection {
        let Self { directory, bundles, projects, .. } = &self;
        let files: Vec<&Entry> = directory
            .files
            .iter()
            .filter(|file| !is_hidden(&file.path) && !bundles.contains(&file.path))
            .collect();
        let looks = parallel::map(&files, |file| self.classify(file));
        let has_bundles = !bundles.0.is_empty();
        // A project without bundles has charts and other templates, and no catalogs.
        let catalogs = if has_bundles || projects.is_empty() {
            self.catalogs(&files, &looks)
        } else {
            Vec::new()
        };
        let held: BTreeSet<&str> = catalogs.iter().map(String::as_str).collect();
        let is_held = |path: &str| {
            held.contains("") || held.contains(path) || ancestors(path).any(|f| held.contains(f))
        };
        let mut found = bundles.0.clone();
        let mut manifests = Vec::new();
        let mut passed_over = Vec::new();
        let has_others = has_bundles || !projects.is_empty();
        for (file, look) in files.iter().zip(looks) {
            if is_held(&file.path) {
                continue;
            }
            let mut pass = |reason| {
                let path = directory.root.path().join(&file.path);
                passed_over.push(SkippedFile { path, reason });
            };
            match look {
                FileClass::Objects(_) if has_others => pass(SkipReason::NextToBundles),
                FileClass::Objects(kind) => manifests.push((*file, kind)),
                FileClass::Unreadable if has_others => self.warn_skipped(file),
                FileClass::Unreadable => match self.skip_reason(file) {
                    Some(reason) => pass(reason),
                    None => manifests.push((*file, CheckInputType::Manifest)),
                },
                FileClass::Other(reason) if has_documents(&file.path) => pass(reason),
                // Blobs that are ignored.
                FileClass::Blobs(_) => pass(SkipReason::NotObjects),
                FileClass::Other(_) => {}
            }
        }
        found.extend(projects.iter().map(|path| (path.clone(), CheckInputType::Project)));
        found.extend(catalogs.into_iter().map(|path| (path, CheckInputType::Catalog)));
        let root = directory.root.path();
        // Joining an empty path would add a slash.
        let place = |path: &str| if path.is_empty() { root.to_path_buf() } else { root.join(path) };
        let is_dump = |(_, kind): &(&Entry, CheckInputType)| *kind == CheckInputType::Cluster;
        if found.is_empty() && !manifests.is_empty() && manifests.iter().all(is_dump) {
            return Detection {
                inputs: vec![DetectedInput::new(root, CheckInputType::Cluster)],
                skipped: passed_over,
            };
        }
        found.sort_by_cached_key(|(path, _)| format!("{path}/"));
        let mut all: Vec<DetectedInput> =
            found.into_iter().map(|(path, kind)| DetectedInput::new(place(&path), kind)).collect();
        let patches = if manifests.is_empty() {
            PatchFiles::default()
        } else {
            PatchFiles::of(directory, self.reader)
        };
        all.extend(manifests.into_iter().map(|(file, _)| {
            let path = place(&file.path);
            let (directory, not_evaluated) = (Some(root.to_path_buf()), patches.skip_reason(&path));
            DetectedInput {
                directory,
                not_evaluated,
                ..DetectedInput::new(path, CheckInputType::Manifest)
            }
        }));
        Detection { inputs: all, skipped: passed_over }
    }

    fn classify(&self, file: &Entry) -> FileClass {
        if let Some(refused) = &file.rejection {
            let is_own = refused.can_be_directory || has_documents(&file.path);
            return if is_own && !refused.points_inside {
                FileClass::Unreadable
            } else {
                FileClass::Other(SkipReason::NotObjects)
            };
        }
        if let Some(chart) = chart_of(&self.charts, &file.path) {
            return FileClass::Other(SkipReason::HelmTemplate(
                self.directory.root.path().join(chart),
            ));
        }
        // opm reads files of any name. Of those with another ending, none is a catalog.
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_read = has_documents(&file.path) || !name.contains('.');
        if !is_read || is_kustomization(&file.path) {
            return FileClass::Other(SkipReason::NotObjects);
        }
        let (at, path) = (file.file_path(self.directory), Path::new(&file.path));
        let look = |json: &str| document_type(json).map(|what| (what, blob_package(json)));
        match peek(at, path, self.reader, look) {
            Ok(Some((DocumentType::Input(CheckInputType::Catalog), package)))
                if package.is_blob =>
            {
                FileClass::Blobs(package.name)
            }
            _ if !has_documents(&file.path) => FileClass::Other(SkipReason::NotObjects),
            Ok(Some((
                DocumentType::Input(kind @ (CheckInputType::Manifest | CheckInputType::Cluster)),
                _,
            ))) => FileClass::Objects(kind),
            Ok(Some((DocumentType::CatalogTemplate, _))) => {
                FileClass::Other(SkipReason::CatalogTemplate)
            }
            Ok(Some((DocumentType::Template, _))) => FileClass::Other(SkipReason::Template),
            Ok(_) => FileClass::Other(SkipReason::NotObjects),
            Err(_) => FileClass::Unreadable,
        }
    }

    /// Returns why an unreadable file is skipped; none if it should contain objects.
    fn skip_reason(&self, file: &Entry) -> Option<SkipReason> {
        if file.rejection.is_some() {
            return None;
        }
        let read = file.read(self.directory, ParseMode::AllFiles, &self.reader.with_full_budget());
        let read = duplicate_keys::reject_duplicates(read);
        let text = read.read_error()?.text.clone().unwrap_or_default();
        let starts = |name: &str| text.lines().any(|line| line.trim_start().starts_with(name));
        let is_object = starts("apiVersion:") && starts("kind:")
            || starts("\"apiVersion\"") && starts("\"kind\"");
        if template::is_template_file(&read) {
            return Some(SkipReason::Template);
        }
        let why = || template::error_line(&read).unwrap_or_default();
        let place = |line: String| {
            line.strip_prefix(&read.display_path).map_or(line.clone(), str::to_owned)
        };
        (!is_object)
            .then(|| SkipReason::Unreadable(place(why()).trim_start_matches(':').to_owned()))
    }

    /// Reports a file next to bundles that could belong to a catalog.
    fn warn_skipped(&self, file: &Entry) {
        let read = duplicate_keys::reject_duplicates(file.read(
            self.directory,
            ParseMode::AllFiles,
            &self.reader.with_full_budget(),
        ));
        if let Some(line) = template::error_line(&read) {
            tracing::warn!("{line}; left out: it belongs to no bundle and no catalog");
        }
    }

    /// Returns the catalogs: directories, or files if a directory contains a bundle as well.
    fn catalogs(&self, files: &[&Entry], looks: &[FileClass]) -> Vec<String> {
        let Self { directory, bundles, reader, .. } = self;
        // If it is unreadable, the reader of the catalog reports that.
        let ignored = IgnorePatterns::of(directory, reader).unwrap_or_default();
        // Folders with a bundle anywhere below them.
        let shared: HashSet<&str> = if bundles.0.is_empty() {
            HashSet::new()
        } else {
            [""].into_iter().chain(bundles.0.iter().flat_map(|(path, _)| ancestors(path))).collect()
        };
        // By directory or by file, the package of the first blob; directories with any other content.
        let mut blobs: BTreeMap<String, String> = BTreeMap::new();
        let mut others: HashSet<&str> = shared.clone();
        for (file, look) in files.iter().zip(looks) {
            let is_ignored = ignored.ignores_entry(file);
            match look {
                _ if is_ignored => {}
                FileClass::Blobs(package) => {
                    let directory = parent(&file.path);
                    let at = if shared.contains(directory) { &file.path } else { directory };
                    // With a slash, the outer ones come first.
                    blobs.entry(format!("{at}/")).or_insert_with(|| package.clone());
                }
                // A file that cannot be read can be one of the catalog.
                FileClass::Unreadable => {}
                // The input of opm is in the directory of its catalog.
                FileClass::Other(_) if file.path.rsplit('/').next() == Some(ignore::FILE_NAME) => {}
                FileClass::Other(_) | FileClass::Objects(_) => {
                    others.extend(ancestors(&file.path));
                    others.insert("");
                }
            }
        }
        // An ignore file of opm at the top marks the whole directory as a catalog.
        let is_object = |look: &FileClass| matches!(look, FileClass::Objects(_));
        let is_listed = directory.files.iter().any(|file| file.path == ignore::FILE_NAME);
        let is_whole = bundles.0.is_empty() && is_listed && !looks.iter().any(is_object);
        if is_whole && !blobs.is_empty() {
            return vec![String::new()];
        }
        let mut catalogs: Vec<(&str, &str)> = Vec::new();
        for (path, package) in &blobs {
            let path = path.trim_end_matches('/');
            if !catalogs.last().is_some_and(|(outer, _)| is_within(path, outer)) {
                catalogs.push((path, package));
            }
        }
        merge_package_directories(&catalogs, &others)
    }
}

/// The package of a blob.
struct BlobPackage {
    name: String,
    /// Whether its schema is one of OLM's.
    is_blob: bool,
}

fn blob_package(json: &str) -> BlobPackage {
    let text = Arc::new(Text::new(json.to_owned()).unwrap_or_default());
    let end = text.len();
    let document = Document::part(text, 0..end);
    let member = |pointer: &str| document.get(pointer).and_then(|value| value.text());
    let schema = member("/schema").unwrap_or_default();
    let pointer = if schema == "olm.package" { "/name" } else { "/package" };
    let name = member(pointer).unwrap_or_default().to_owned();
    BlobPackage { name, is_blob: schema.starts_with("olm.") }
}

/// Replaces directories by the one around them, if each of them is another package.
fn merge_package_directories(catalogs: &[(&str, &str)], others: &HashSet<&str>) -> Vec<String> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, package) in catalogs {
        packages.entry(parent(path)).or_default().push(package);
    }
    packages.retain(|directory, packages| {
        let different: BTreeSet<&&str> = packages.iter().collect();
        !others.contains(directory) && different.len() == packages.len()
    });
    let found = catalogs
        .iter()
        .map(|(path, _)| if packages.contains_key(parent(path)) { parent(path) } else { path });
    let found: BTreeSet<String> = found.map(|path| format!("{path}/")).collect();
    let mut outer: Vec<String> = Vec::new();
    for path in &found {
        let path = path.trim_end_matches('/');
        if !outer.last().is_some_and(|outer| is_within(path, outer)) {
            outer.push(path.to_owned());
        }
    }
    outer
}

#[cfg(test)]
mod tests {
    use crate::detect::detect;
    use crate::testing::TempDirectory;
    use opgate_input::read::Reader;

    const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    const PACKAGE_BLOB: &str = "schema: olm.package\nname: a\n";
    const CHANNEL_BLOB: &str = "schema: olm.channel\npackage: b\n";
    const ANNOTATIONS: &str = "annotations: {}\n";

    fn detect_inputs(files: &[(&str, &str)]) -> Vec<String> {
        let directory = TempDirectory::new(files);
        let relative = |found: &super::DetectedInput| {
            let path = found.path.strip_prefix(directory.path()).unwrap();
            format!("{} {}", path.display(), found.input_type.name())
        };
        detect(directory.path(), &Reader::default()).unwrap().inputs.iter().map(relative).collect()
    }

    #[test]
    fn bundles_are_found_in_their_directories() {
        let files = [
            ("bundle/0.1.0/manifests/a.yaml", OBJECT),
            ("bundle/0.1.0/metadata/annotations.yaml", ANNOTATIONS),
            ("bundle/0.1.0/tests/manifests/a.yaml", OBJECT),
            ("bundle-2/manifests/a.yaml", OBJECT),
            ("bundle-2/metadata/annotations.yml", ANNOTATIONS),
            ("config/manager/manager.yaml", OBJECT),
            ("config/manifests/kustomization.yaml", "resources: []\n"),
            ("config/manifests/a.yaml", OBJECT),
            ("docs/manifests/README.md", "# x\n"),
            ("empty/metadata/annotations.yaml", ANNOTATIONS),
            ("legacy/etcd.package.yaml", "packageName: etcd\n"),
            ("legacy/0.1/manifests/a.yaml", OBJECT),
            ("plain/v1/manifests/a.json", "{\"apiVersion\": \"v1\", \"kind\": \"Namespace\"}"),
            ("plain/v1/Dockerfile", "FROM scratch\n"),
            ("csv/manifests/a.yaml", "apiVersion: v1alpha1\nkind: ClusterServiceVersion\n"),
            ("repository/README.md", "# x\n"),
            ("repository/manifests/a.yaml", OBJECT),
            ("repository/manifests/OWNERS", "x\n"),
            (".hidden/bundle/manifests/a.yaml", OBJECT),
        ];
        let expected = [
            "bundle-2 bundle",
            "bundle/0.1.0 bundle",
            "csv bundle",
            "legacy bundle",
            "plain/v1 plain bundle",
        ];
        assert_eq!(detect_inputs(&files), expected);
    }

    /// Files next to a bundle, and the catalogs among them.
    type Case<'c> = (&'c [(&'c str, &'c str)], &'c [&'c str]);

    #[test]
    fn catalogs_are_found_next_to_bundles() {
        let bundle = [("bundle/manifests/a.yaml", OBJECT)];
        let cases: [Case<'_>; 9] = [
            (
                &[("catalog/catalog.yaml", PACKAGE_BLOB), ("catalog/more/b.yaml", CHANNEL_BLOB)],
                &["catalog"],
            ),
            (
                &[
                    ("catalog/a/catalog.yaml", PACKAGE_BLOB),
                    ("catalog/b/catalog.yaml", CHANNEL_BLOB),
                ],
                &["catalog"],
            ),
            (&[("catalog/a/c.yaml", PACKAGE_BLOB), ("catalog/b/c.json", "{")], &["catalog"]),
            // A repeated package gives two catalogs, and other files belong to none.
            (&[("x/v1/c.yaml", PACKAGE_BLOB), ("x/v2/c.yaml", PACKAGE_BLOB)], &["x/v1", "x/v2"]),
            (
                &[("x/v1/a/c.yaml", PACKAGE_BLOB), ("x/v2/a/c.yaml", PACKAGE_BLOB)],
                &["x/v1", "x/v2"],
            ),
            (&[("x/a/c.yaml", PACKAGE_BLOB), ("x/Dockerfile", "FROM x")], &["x/a"]),
            (
                &[("x/a/c.yaml", PACKAGE_BLOB), ("x/README.md", "#"), ("x/.indexignore", "*.md")],
                &["x"],
            ),
            (
                &[
                    ("a.yaml", PACKAGE_BLOB),
                    ("x/a.yaml", PACKAGE_BLOB),
                    ("x/b/manifests/o.yaml", OBJECT),
                ],
                &["a.yaml", "x/a.yaml"],
            ),
            (
                &[
                    ("x/a.yaml", PACKAGE_BLOB),
                    (".indexignore", "a.yaml"),
                    ("y/.b/a.yaml", PACKAGE_BLOB),
                ],
                &[],
            ),
        ];
        for (files, expected) in cases {
            let found = detect_inputs(&[&bundle, files].concat());
            let catalogs = found.iter().filter_map(|line| line.strip_suffix(" catalog"));
            assert_eq!(catalogs.collect::<Vec<_>>(), expected, "{files:?}");
        }
    }
}
