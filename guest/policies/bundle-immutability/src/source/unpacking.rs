//! Sources that webhook and CRD accept, and that fail when they are unpacked.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::{clean_path, quote};
use opgate_sdk::{Document, Report, corrections, rule, rules};

use super::{entries, field};
use crate::reads::{CONFIG_MAPS, ConfigMaps, NO_CONFIG_MAPS};
use crate::targets::BUNDLE;

rules![RPK_08, RPK_21];

rule! {
    /// directories and paths can be unpacked: neither `..` nor absolute
    ///
    /// `spec.source.git.directory` and each `spec.source.configMaps[].path` of a new Bundle, once
    /// `.`, `..` and repeated slashes are resolved, is neither `..` nor starts with `/`. The rule
    /// evaluates both fields, regardless of `spec.source.type`. It warns by default, and denies
    /// with the setting `rukpak.strictPaths: true`. RPK-05 and RPK-06 evaluate paths that start
    /// with `../`.
    ///
    /// # Why
    ///
    /// RukPak's webhook only rejects `../`, so it accepts these paths. Unpacking the Bundle then
    /// fails, and you can only replace the Bundle, because its spec is immutable.
    ///
    /// # Remediation
    ///
    /// Use a path relative to the root of the repository or of the bundle, for example `manifests`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {repository: r, ref: {commit: 8f3b8a6}, directory: manifests}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {repository: r, ref: {commit: 8f3b8a6}, directory: /manifests}}
    /// ```
    ///
    /// `message: get subdirectory "/manifests" for repository "r": directory can not start with
    /// '../' or '/'`
    ///
    /// For a path of a ConfigMap the message contains the name of the ConfigMap instead, as in `for
    /// configmap "a"`.
    RPK_08: Warn {
        name: "bundle-source-paths-unpackable",
        on: [BUNDLE: Create],
        denies_with: ["/rukpak/strictPaths"],
        source: ["rukpak v0.16.0 internal/source/git.go, internal/webhook/bundle.go"],
    }
}

/// After rukpak v0.16.0 internal/source/git.go.
pub(crate) fn check_paths(object: &Document, source: &str, report: &mut Report<'_>) {
    let mut found = |pointer: &str, field: String, path: &str, of: &str, name: &str| {
        let message = format!(
            "get subdirectory {} for {of} {}: directory can not start with '../' or '/'",
            quote(path),
            quote(name)
        );
        report.add(&RPK_08, field, message);
        report.set_fix(&RPK_08, || {
            let relative = path.trim_start_matches('/');
            let is_valid = relative.split('/').all(|part| part != ".." && !part.is_empty());
            is_valid.then(|| corrections::write(pointer, relative))
        });
    };
    let directory = format!("{source}/git/directory");
    let path = object.text_or_empty(&directory);
    if breaks_unpacking(&clean_path(&path)) {
        let repository = object.text_or_empty(&format!("{source}/git/repository"));
        found(&directory, field(&directory), &path, "repository", &repository);
    }
    let config_maps = format!("{source}/configMaps");
    for (index, entry) in entries(object, &config_maps) {
        let path = object.text_or_empty(&format!("{entry}/path"));
        if breaks_unpacking(&clean_path(&path)) {
            let field = format!("{}[{index}].path", field(&config_maps));
            let name = object.text_or_empty(&format!("{entry}/configMap/name"));
            found(&format!("{entry}/path"), field, &path, "configmap", &name);
        }
    }
}

/// Whether unpacking fails at a cleaned path that the webhook accepts.
fn breaks_unpacking(cleaned: &str) -> bool {
    cleaned == ".." || cleaned.starts_with('/')
}

/// Bytes of paths and names that are compared for one source, so that time and memory do not depend
/// on the number of references to a ConfigMap with many files.
const MAX_COMPARED_BYTES: usize = 1 << 20;

rule! {
    /// no two ConfigMaps of a Bundle contain the same file
    ///
    /// If `spec.source.type` of a new Bundle is `configMaps`, no two of its ConfigMaps have the
    /// same key in `data` or `binaryData` at the same `path`, once `.`, `..` and repeated slashes
    /// are resolved. A ConfigMap that is listed twice is not a conflict, and a ConfigMap that does
    /// not exist yet has no files.
    ///
    /// The rule reads the ConfigMaps in the namespace of RukPak, `rukpak.systemNamespace`
    /// (`rukpak-system`). Without cluster state, or if it would have to compare paths and names of
    /// more than 1 MiB, the rule is skipped, and the audit annotation `skipped-rules` names it;
    /// with `messages.skippedRules: warn` a warning names it too.
    ///
    /// # Why
    ///
    /// Each key becomes a file of the bundle. RukPak v0.16.0 does not unpack a Bundle with two
    /// files at the same path.
    ///
    /// # Remediation
    ///
    /// Give the ConfigMaps different paths, or rename one of the keys.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # both ConfigMaps have the key m.yaml
    /// spec:
    ///   source:
    ///     type: configMaps
    ///     configMaps: [{configMap: {name: a}, path: x}, {configMap: {name: b}, path: y}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # both ConfigMaps have the key m.yaml
    /// spec:
    ///   source: {type: configMaps, configMaps: [{configMap: {name: a}}, {configMap: {name: b}}]}
    /// ```
    ///
    /// `message: duplicate path "m.yaml" found in configmaps [a b]`
    RPK_21: Warn {
        name: "unique-files-of-bundle-config-maps",
        on: [BUNDLE: Create],
        reads: [CONFIG_MAPS],
        may_skip: true,
        source: ["rukpak v0.16.0 internal/source/configmaps.go"],
    }
}

/// After rukpak v0.16.0 internal/source/configmaps.go.
pub(crate) fn check_duplicate_files(
    object: &Document,
    source: &str,
    config_maps: &mut ConfigMaps,
    report: &mut Report<'_>,
) {
    if object.text_or_empty(&format!("{source}/type")) != "configMaps" {
        return;
    }
    let member = format!("{source}/configMaps");
    let duplicates = find_duplicates(object, &member, config_maps);
    let field = field(&member);
    if config_maps.are_unavailable() {
        report.skip(&RPK_21, &field, NO_CONFIG_MAPS);
    } else if duplicates.is_none() {
        report.skip(&RPK_21, &field, "the ConfigMaps have too many files");
    }
    for message in duplicates.into_iter().flatten() {
        report.add(&RPK_21, field.clone(), message);
    }
}

/// Returns a message for each file that more than one ConfigMap contains, or `None` if the
/// comparison exceeds the limit.
fn find_duplicates(
    object: &Document,
    member: &str,
    config_maps: &mut ConfigMaps,
) -> Option<Vec<String>> {
    let mut directories: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, entry) in entries(object, member) {
        let directory = clean_path(&object.text_or_empty(&format!("{entry}/path")));
        let name = object.text_or_empty(&format!("{entry}/configMap/name"));
        directories.entry(directory).or_default().insert(name);
    }
    // The name of a file has no slash, so files of different directories are different.
    directories.retain(|_, names| names.len() > 1);
    let mut budget = MAX_COMPARED_BYTES;
    let mut files: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for name in directories.values().flatten() {
        if !files.contains_key(name.as_str()) {
            let found = config_maps.query_files(name);
            for file in &found {
                budget = budget.checked_sub(file.len() + 1)?;
            }
            files.insert(name, found);
        }
    }
    let mut duplicates = Vec::new();
    for (directory, names) in &directories {
        let mut givers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in names {
            for file in files.get(name.as_str()).into_iter().flatten() {
                budget = budget.checked_sub(directory.len() + file.len() + name.len() + 1)?;
                givers.entry(file).or_default().push(name);
            }
        }
        for (file, names) in givers.into_iter().filter(|(_, names)| names.len() > 1) {
            duplicates.push(format!(
                "duplicate path {} found in configmaps [{}]",
                quote(&clean_path(&format!("{directory}/{file}"))),
                names.join(" ")
            ));
        }
    }
    Some(duplicates)
}
