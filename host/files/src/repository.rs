//! The bundles, projects and catalogs in a folder with other content, such as a repository.
//!
//! ```text
//! folders ─▶ manifests/ in it, *.package.yaml in it ─▶ bundles, the outer ones
//! the other folders ─▶ watches.yaml in it, with a PROJECT beside it or by its content ─▶ projects
//! the other files ─▶ blobs ─▶ their folders, the outer ones ─▶ catalogs
//! ```
//!
//! A catalog should have a folder for each package. If a folder contains nothing but such folders,
//! of different packages, it is the catalog. Hidden entries and manifests elsewhere are left out.
//! Other files that cannot be read are reported, because one of them could belong to a catalog.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use opgate_document::{Document, Text};

use super::bundle::WATCHES;
use super::content::{has_documents, peek};
use super::folder::{Entry, Folder};
use super::ignore::Ignore;
use super::kinds::{As, Found, LOOKS, complaint, what};
use opgate_input::read::Reader;

/// Maximum number of unreadable files that are named.
const NAMED: usize = 10;

/// The bundles in a folder, by their own folders; the name of the folder itself is empty.
pub(super) struct Bundles(Vec<(String, As)>);

impl Bundles {
    pub(super) fn of(folder: &Folder, reader: &Reader) -> Self {
        let mut found: Vec<(String, As)> = Vec::new();
        for path in &folder.directories {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            if name == "manifests" {
                let kind = if has_annotations(folder, parent) { As::Bundle } else { As::Plain };
                // A found folder with this name has other content as well.
                if kind == As::Bundle || parent.is_empty() || has_objects(folder, path, reader) {
                    found.push((parent.to_owned(), kind));
                }
            }
        }
        // A link instead of the folder: a rule reports it.
        for entry in folder.files.iter().filter(|entry| entry.refused.is_some()) {
            let (parent, name) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
            if name == "manifests" && has_annotations(folder, parent) {
                found.push((parent.to_owned(), As::Bundle));
            }
        }
        let packages = folder.files.iter().filter(|file| file.path.ends_with(".package.yaml"));
        found.extend(packages.map(|file| (parent(&file.path).to_owned(), As::Bundle)));
        found.retain(|(path, _)| !is_hidden(path));
        // The more specific result for a folder counts.
        found.sort_by_cached_key(|(path, kind)| (format!("{path}/"), *kind == As::Plain));
        found.dedup_by(|(path, _), (outer, _)| is_within(path, outer));
        Self(found)
    }

    pub(super) fn at(&self, folder: &str) -> Option<As> {
        self.0.iter().find(|(path, _)| path == folder).map(|(_, kind)| *kind)
    }

    pub(super) fn are_below(&self) -> bool {
        !self.0.is_empty()
    }

    /// The folders of projects, which can be around bundles and beside them, but not in them.
    pub(super) fn projects(&self, folder: &Folder, reader: &Reader) -> Vec<String> {
        let is_watches = |file: &&Entry| {
            let name = file.path.rsplit_once('/').map_or(&*file.path, |(_, name)| name);
            let is_held = || self.0.iter().any(|(bundle, _)| is_within(&file.path, bundle));
            name == WATCHES && !is_hidden(&file.path) && !is_held()
        };
        let found = folder.files.iter().filter(is_watches).take(LOOKS);
        let found = found.filter(|file| is_project(folder, file, reader));
        found.map(|file| parent(&file.path).to_owned()).collect()
    }

    /// The bundles of a folder, its projects, and the catalogs beside the bundles, in the order of
    /// their paths.
    pub(super) fn and_others(
        self,
        projects: Vec<String>,
        folder: &Folder,
        reader: &Reader,
    ) -> Vec<Found> {
        let Self(mut found) = self;
        let root = folder.root.path();
        // A project without bundles has charts and other templates, and no catalogs.
        if !found.is_empty() {
            let catalogs = catalogs(folder, &found, reader);
            found.extend(catalogs.into_iter().map(|path| (path, As::Catalog)));
        }
        found.extend(projects.into_iter().map(|path| (path, As::Project)));
        found.sort_by_cached_key(|(path, _)| format!("{path}/"));
        let place = |path: String| {
            // Nothing joined would be a slash.
            if path.is_empty() { root.to_path_buf() } else { root.join(path) }
        };
        found.into_iter().map(|(path, kind)| Found { path: place(path), kind }).collect()
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The folders around a path, without the folder itself.
fn around(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(end, _)| path.get(..end))
}

fn is_within(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.'))
}

fn file<'f>(folder: &'f Folder, path: &str) -> Option<&'f Entry> {
    let found = folder.files.binary_search_by(|file| file.path.as_str().cmp(path));
    found.ok().and_then(|index| folder.files.get(index))
}

fn has_annotations(folder: &Folder, parent: &str) -> bool {
    let slash = if parent.is_empty() { "" } else { "/" };
    let metadata = format!("{parent}{slash}metadata");
    file(folder, &metadata).is_some_and(|entry| entry.refused.is_some())
        || ["annotations.yaml", "annotations.yml"]
            .iter()
            .any(|name| file(folder, &format!("{metadata}/{name}")).is_some())
}

/// Whether a `watches.yaml` is that of a project: other programs may have such a file.
fn is_project(folder: &Folder, watches: &Entry, reader: &Reader) -> bool {
    let parent = parent(&watches.path);
    let slash = if parent.is_empty() { "" } else { "/" };
    let looks = || {
        let found = peek(watches.at(folder), Path::new(&watches.path), reader, what);
        matches!(found, Ok(Some(As::Project)))
    };
    file(folder, &format!("{parent}{slash}PROJECT")).is_some()
        || watches.refused.is_none() && looks()
}

/// Whether a folder directly contains objects, and is not the input of kustomize.
fn has_objects(folder: &Folder, path: &str, reader: &Reader) -> bool {
    let is_input = ["kustomization.yaml", "kustomization.yml", "Kustomization"]
        .iter()
        .any(|name| file(folder, &format!("{path}/{name}")).is_some());
    let first = folder.files.partition_point(|file| file.path.as_str() < path);
    let inside = folder.files.iter().skip(first).take_while(|file| file.path.starts_with(path));
    let inside = inside.filter(|file| parent(&file.path) == path && has_documents(&file.path));
    let is_object = |file: &Entry| {
        let found = peek(file.at(folder), Path::new(&file.path), reader, what);
        matches!(found, Ok(Some(As::Manifest)))
    };
    !is_input && inside.take(LOOKS).any(is_object)
}

/// The kind of a file beside the bundles.
enum Look {
    /// Its first blob is of this package.
    Blobs(String),
    /// It could have blobs, but cannot be read, or is refused.
    Broken,
    /// Any other file.
    Other,
}

fn look(folder: &Folder, file: &Entry, reader: &Reader) -> Look {
    if file.refused.is_some() {
        return Look::Broken;
    }
    if !has_documents(&file.path) {
        return Look::Other;
    }
    let (at, path) = (file.at(folder), Path::new(&file.path));
    match peek(at, path, reader, |json| what(json).map(|kind| (kind, package(json)))) {
        Ok(Some((As::Catalog, package))) => Look::Blobs(package),
        Ok(_) => Look::Other,
        Err(_) => Look::Broken,
    }
}

/// The package of a blob.
fn package(json: &str) -> String {
    let text = Arc::new(Text::new(json.to_owned()).unwrap_or_default());
    let end = text.len();
    let document = Document::part(text, 0..end);
    let member = |pointer: &str| document.get(pointer).and_then(|value| value.text());
    let is_package = member("/schema") == Some("olm.package");
    member(if is_package { "/name" } else { "/package" }).unwrap_or_default().to_owned()
}

/// The catalogs beside the bundles: folders, or files if a folder contains a bundle as well.
fn catalogs(folder: &Folder, bundles: &[(String, As)], reader: &Reader) -> Vec<String> {
    let ignored = Ignore::of(folder, reader).unwrap_or_default();
    // Folders with a bundle anywhere below them.
    let shared: HashSet<&str> =
        [""].into_iter().chain(bundles.iter().flat_map(|(path, _)| around(path))).collect();
    let held: HashSet<&str> = bundles.iter().map(|(path, _)| path.as_str()).collect();
    let is_beside = |file: &&Entry| {
        !is_hidden(&file.path)
            && !around(&file.path).any(|folder| held.contains(folder))
            && !ignored.ignores_entry(file)
    };
    // By folder or by file, the package of the first blob; folders with any other content.
    let mut blobs: BTreeMap<String, String> = BTreeMap::new();
    let mut others: HashSet<&str> = shared.clone();
    let mut broken = Vec::new();
    let (mut looks, mut unseen) = (0usize, 0usize);
    for file in folder.files.iter().filter(is_beside) {
        let found = if has_documents(&file.path) && looks == LOOKS {
            unseen += 1;
            Look::Other
        } else {
            looks += usize::from(has_documents(&file.path));
            look(folder, file, reader)
        };
        match found {
            Look::Blobs(package) => {
                let folder = parent(&file.path);
                let at = if shared.contains(folder) { &file.path } else { folder };
                // With a slash, the outer ones come first.
                blobs.entry(format!("{at}/")).or_insert(package);
            }
            Look::Broken => broken.push(file),
            Look::Other => others.extend(around(&file.path)),
        }
    }
    let mut catalogs: Vec<(&str, &str)> = Vec::new();
    for (path, package) in &blobs {
        let path = path.trim_end_matches('/');
        if !catalogs.last().is_some_and(|(outer, _)| is_within(path, outer)) {
            catalogs.push((path, package));
        }
    }
    let found = with_packages(&catalogs, &others);
    left_out(folder, &found, &broken, unseen, reader);
    found
}

/// Replaces folders by the one around them, if each of them is another package.
fn with_packages(catalogs: &[(&str, &str)], others: &HashSet<&str>) -> Vec<String> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, package) in catalogs {
        packages.entry(parent(path)).or_default().push(package);
    }
    packages.retain(|folder, packages| {
        let different: BTreeSet<&&str> = packages.iter().collect();
        !others.contains(folder) && different.len() == packages.len()
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

/// Reports the files that could belong to a catalog, but do not.
fn left_out(
    folder: &Folder,
    catalogs: &[String],
    broken: &[&Entry],
    unseen: usize,
    reader: &Reader,
) {
    let catalogs: HashSet<&str> = catalogs.iter().map(String::as_str).collect();
    let is_left = |file: &&&Entry| !around(&file.path).any(|folder| catalogs.contains(folder));
    let mut left = broken.iter().filter(is_left);
    for file in left.by_ref().take(NAMED) {
        if let Some(line) = complaint(folder, file, reader) {
            tracing::warn!("{line}; left out: it belongs to no bundle and no catalog");
        }
    }
    let root = folder.root.path().display();
    match left.count() {
        0 => {}
        more => tracing::warn!("{root}: {more} more files that cannot be read are left out"),
    }
    if unseen > 0 {
        tracing::warn!("{root}: {unseen} files are left out: name the catalogs in it");
    }
}

#[cfg(test)]
mod tests {
    use crate::detect::detect;
    use crate::testing::Temporary;
    use opgate_input::read::Reader;

    const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    const A: &str = "schema: olm.package\nname: a\n";
    const B: &str = "schema: olm.channel\npackage: b\n";
    const ANNOTATIONS: &str = "annotations: {}\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let folder = Temporary::new(files);
        let relative = |found: &super::Found| {
            let path = found.path.strip_prefix(folder.path()).unwrap();
            format!("{} {}", path.display(), found.kind.name())
        };
        detect(folder.path(), &Reader::default()).unwrap().iter().map(relative).collect()
    }

    #[test]
    fn bundles_are_found_in_their_folders() {
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
            ("plain/v1/catalog.yaml", A),
            (".hidden/bundle/manifests/a.yaml", OBJECT),
        ];
        let expected =
            ["bundle-2 bundle", "bundle/0.1.0 bundle", "legacy bundle", "plain/v1 plain bundle"];
        assert_eq!(found(&files), expected);
    }

    /// Files beside a bundle, and the catalogs among them.
    type Case<'c> = (&'c [(&'c str, &'c str)], &'c [&'c str]);

    #[test]
    fn catalogs_are_found_beside_bundles() {
        let bundle = [("bundle/manifests/a.yaml", OBJECT)];
        let cases: [Case<'_>; 9] = [
            (&[("catalog/catalog.yaml", A), ("catalog/more/b.yaml", B)], &["catalog"]),
            (&[("catalog/a/catalog.yaml", A), ("catalog/b/catalog.yaml", B)], &["catalog"]),
            (&[("catalog/a/c.yaml", A), ("catalog/b/c.json", "{")], &["catalog"]),
            // The same package twice gives two catalogs, and other files belong to none.
            (&[("x/v1/c.yaml", A), ("x/v2/c.yaml", A)], &["x/v1", "x/v2"]),
            (&[("x/v1/a/c.yaml", A), ("x/v2/a/c.yaml", A)], &["x/v1", "x/v2"]),
            (&[("x/a/c.yaml", A), ("x/Dockerfile", "FROM x")], &["x/a"]),
            (&[("x/a/c.yaml", A), ("x/README.md", "#"), ("x/.indexignore", "*.md")], &["x"]),
            (
                &[("a.yaml", A), ("x/a.yaml", A), ("x/b/manifests/o.yaml", OBJECT)],
                &["a.yaml", "x/a.yaml"],
            ),
            (&[("x/a.yaml", A), (".indexignore", "a.yaml"), ("y/.b/a.yaml", A)], &[]),
        ];
        for (files, expected) in cases {
            let found = found(&[&bundle, files].concat());
            let catalogs = found.iter().filter_map(|line| line.strip_suffix(" catalog"));
            assert_eq!(catalogs.collect::<Vec<_>>(), expected, "{files:?}");
        }
    }
}
