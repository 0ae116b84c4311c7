//! What a `spec.source` must look like, wherever it stands.
//!
//! The checks of RukPak's webhook ([`webhook`], rukpak v0.16.0 internal/webhook/bundle.go) and those
//! of its CRD ([`schema`]), which matter where objects come past the CRD, as in files.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::{clean, quote};
use opgate_sdk::{Document, Kind, Shape};

use crate::context::ConfigMaps;
use crate::findings::field;

/// Members of `spec.source` of which exactly one says where the content is.
const SOURCES: [&str; 5] = ["git", "image", "configMaps", "upload", "http"];

/// `BundleSource` of rukpak v0.16.0, `api/v1alpha1/bundle_types.go`.
pub(crate) const SHAPE: Shape = Shape::Struct(&[
    ("type", Shape::Scalar),
    ("image", Shape::Pointer(&[("ref", Shape::Scalar), ("pullSecret", Shape::Scalar)])),
    (
        "git",
        Shape::Pointer(&[
            ("repository", Shape::Scalar),
            ("directory", Shape::Scalar),
            (
                "ref",
                Shape::Struct(&[
                    ("branch", Shape::Scalar),
                    ("commit", Shape::Scalar),
                    ("tag", Shape::Scalar),
                ]),
            ),
            ("auth", AUTHORIZATION),
        ]),
    ),
    (
        "configMaps",
        Shape::List(&Shape::Struct(&[("configMap", REFERENCE), ("path", Shape::Scalar)])),
    ),
    ("upload", Shape::Pointer(&[])),
    ("http", Shape::Pointer(&[("url", Shape::Scalar), ("auth", AUTHORIZATION)])),
]);
const REFERENCE: Shape = Shape::Struct(&[("name", Shape::Scalar)]);
const AUTHORIZATION: Shape =
    Shape::Struct(&[("secret", REFERENCE), ("insecureSkipVerify", Shape::Scalar)]);

/// One thing wrong with a source: the rule of Bundles that says so, where, and upstream's text.
pub(crate) struct Finding {
    pub(crate) rule: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

/// The members of [`SOURCES`] that are there.
pub(crate) fn present(object: &Document, source: &str) -> Vec<&'static str> {
    SOURCES.into_iter().filter(|member| object.has(&format!("{source}/{member}"))).collect()
}

/// Whether a cleaned path leads out of the root, as RukPak's webhook tells it.
fn leaves_root(cleaned: &str) -> bool {
    cleaned.starts_with("../")
}

/// Index and pointer of each entry of a list; nothing for other kinds. Pointers and not handles: an
/// object of 1.5 MB has tens of thousands of entries, and a handle costs two calls of the host more.
pub(crate) fn entries(object: &Document, list: &str) -> impl Iterator<Item = (u32, String)> {
    let is_list = object.kind(list) == Kind::List;
    let count = object.length(list).filter(|_| is_list).unwrap_or_default();
    (0..count).map(move |index| (index, format!("{list}/{index}")))
}

/// Whether unpacking fails at a cleaned path that the webhook lets pass.
fn breaks_unpacking(cleaned: &str) -> bool {
    cleaned == ".." || cleaned.starts_with('/')
}

/// The checks of the webhook, RPK-02 to RPK-07. `owner` is what upstream's texts start with,
/// `bundle` or `bundledeployment`.
pub(crate) fn webhook(
    object: &Document,
    source: &str,
    owner: &str,
    config_maps: &mut ConfigMaps,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let kind = object.text_or_empty(&format!("{source}/type"));
    let member = format!("{source}/{kind}");
    let mut missing = |rule, kind: &str, spelled: &str| {
        let message =
            format!("{owner}.spec.source.{spelled} must be set for source type \"{spelled}\"");
        found.push(Finding { rule, field: field(&format!("{source}/{kind}")), message });
    };
    match kind.as_str() {
        "image" if !object.has(&member) => missing("RPK-02", "image", "image"),
        "git" if !object.has(&member) => missing("RPK-03", "git", "git"),
        // An object has a length too, but no entries.
        "configMaps" if object.items(&member).next().is_none() => {
            missing("RPK-04", "configMaps", "configmaps");
        }
        "git" => {
            let directory = format!("{member}/directory");
            if leaves_root(&clean(&object.text_or_empty(&directory))) {
                let message = format!(
                    "{owner}.spec.source.git.directory begins with \"../\": directory must define path within the repository"
                );
                found.push(Finding { rule: "RPK-05", field: field(&directory), message });
            }
        }
        "configMaps" => {
            for (index, entry) in entries(object, &member) {
                let path = object.text_or_empty(&format!("{entry}/path"));
                if leaves_root(&clean(&path)) {
                    let field = format!("{}[{index}].path", field(&member));
                    let message = format!(
                        "{owner}.spec.source.configmaps[{index}].path is invalid: {} is outside bundle root",
                        quote(&path)
                    );
                    found.push(Finding { rule: "RPK-06", field, message });
                }
                let name = object.text_or_empty(&format!("{entry}/configMap/name"));
                if config_maps.is_mutable(&name) {
                    let field = format!("{}[{index}].configMap.name", field(&member));
                    let message = format!(
                        "{owner}.spec.source.configmaps[{index}].configmap.name is invalid: configmap {} is not immutable",
                        quote(&name)
                    );
                    found.push(Finding { rule: "RPK-07", field, message });
                }
            }
        }
        _ => {}
    }
    found
}

/// The checks of the CRD, RPK-09 to RPK-11.
pub(crate) fn schema(object: &Document, source: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let one_of = |rule, pointer: &str, count: usize| {
        let alternatives = match count {
            0 => "none valid".to_owned(),
            count => format!("{count} valid alternatives"),
        };
        let field = field(pointer);
        let message = format!(
            "\"{field}\" must validate one and only one schema (oneOf). Found {alternatives}"
        );
        Finding { rule, field, message }
    };
    let members = present(object, source);
    if members.len() != 1 {
        found.push(one_of("RPK-09", source, members.len()));
    }
    let reference = format!("{source}/git/ref");
    // What is there and is no object has none of the three.
    if object.has(&reference) {
        let kinds = ["branch", "commit", "tag"];
        let count = kinds.iter().filter(|k| object.has(&format!("{reference}/{k}"))).count();
        if count != 1 {
            found.push(one_of("RPK-10", &reference, count));
        }
    }
    let mut required = |field: String| {
        found.push(Finding { rule: "RPK-11", message: format!("{field}: Required value"), field });
    };
    let mut members_required = vec!["type"];
    for member in &members {
        members_required.extend(match *member {
            "git" => ["git/repository", "git/ref"].as_slice(),
            "image" => &["image/ref"],
            "http" => &["http/url"],
            _ => &[],
        });
    }
    for member in members_required {
        let pointer = format!("{source}/{member}");
        if !object.has(&pointer) {
            required(field(&pointer));
        }
    }
    let config_maps = format!("{source}/configMaps");
    for (index, entry) in entries(object, &config_maps) {
        if !object.has(&format!("{entry}/configMap")) {
            required(format!("{}[{index}].configMap", field(&config_maps)));
        }
    }
    found
}

/// RPK-08: paths that the webhook lets pass and unpacking does not (rukpak v0.16.0
/// internal/source/git.go).
pub(crate) fn unpackable(object: &Document, source: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut report = |field: String, path: &str, of: &str, name: &str| {
        let message = format!(
            "get subdirectory {} for {of} {}: directory can not start with '../' or '/'",
            quote(path),
            quote(name)
        );
        found.push(Finding { rule: "RPK-08", field, message });
    };
    let directory = format!("{source}/git/directory");
    let path = object.text_or_empty(&directory);
    if breaks_unpacking(&clean(&path)) {
        let repository = object.text_or_empty(&format!("{source}/git/repository"));
        report(field(&directory), &path, "repository", &repository);
    }
    let config_maps = format!("{source}/configMaps");
    for (index, entry) in entries(object, &config_maps) {
        let path = object.text_or_empty(&format!("{entry}/path"));
        if breaks_unpacking(&clean(&path)) {
            let field = format!("{}[{index}].path", field(&config_maps));
            let name = object.text_or_empty(&format!("{entry}/configMap/name"));
            report(field, &path, "configmap", &name);
        }
    }
    found
}

/// Bytes of paths and names that are compared for one source, so that neither time nor memory depend
/// on how often it names a ConfigMap of many files.
const COMPARED: usize = 1 << 20;

/// RPK-21: files that more than one ConfigMap gives (rukpak v0.16.0 internal/source/configmaps.go).
/// `None` where there is too much to compare.
pub(crate) fn duplicate_files(
    object: &Document,
    source: &str,
    config_maps: &mut ConfigMaps,
) -> Option<Vec<Finding>> {
    let member = format!("{source}/configMaps");
    let mut directories: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, entry) in entries(object, &member) {
        let directory = clean(&object.text_or_empty(&format!("{entry}/path")));
        let name = object.text_or_empty(&format!("{entry}/configMap/name"));
        directories.entry(directory).or_default().insert(name);
    }
    // A file's name has no slash, so that files of different directories are different.
    directories.retain(|_, names| names.len() > 1);
    let mut budget = COMPARED;
    let mut files: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for name in directories.values().flatten() {
        if !files.contains_key(name.as_str()) {
            let found = config_maps.files(name);
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
            let message = format!(
                "duplicate path {} found in configmaps [{}]",
                quote(&clean(&format!("{directory}/{file}"))),
                names.join(" ")
            );
            duplicates.push(Finding { rule: "RPK-21", field: field(&member), message });
        }
    }
    Some(duplicates)
}
