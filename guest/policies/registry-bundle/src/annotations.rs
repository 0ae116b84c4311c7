//! `metadata/annotations.yaml`: RBF-02 to RBF-05, RBF-21 and RBF-27.
//!
//! The registry takes the first file in `metadata/` that has annotations, whatever its name; so does
//! [`find`]. RBF-22 compares them with the labels of `bundle.Dockerfile`.

use std::collections::BTreeMap;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::folder::{Content, File, Folder};
use crate::layout::METADATA;
use crate::{ascii, versions};

const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
const METADATA_KEY: &str = "operators.operatorframework.io.bundle.metadata.v1";
const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";
const OPENSHIFT_VERSIONS: &str = "com.redhat.openshift.versions";
const REGISTRY: &str = "registry+v1";

const NOT_FOUND: &str = "Could not find annotations file";

/// The annotations of a bundle.
pub(crate) struct Annotations<'f> {
    file: &'f File,
    /// By key; a null reads as an empty text, as in Go.
    values: BTreeMap<String, String>,
}

impl Annotations<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The package's name, if there is one.
    pub(crate) fn package(&self) -> Option<&str> {
        self.get(PACKAGE).filter(|name| !name.is_empty())
    }

    fn field(&self, key: &str) -> String {
        self.file.within(&format!("annotations[{key}]"))
    }
}

/// RBF-02: the file, if there is one.
pub(crate) fn find<'f>(
    folder: &'f Folder<'_>,
    findings: &mut Findings<'_>,
) -> Option<Annotations<'f>> {
    for file in folder.files_in(METADATA) {
        let Some(object) = folder.first(file) else { continue };
        let map = object.at("/annotations").filter(|map| map.kind("") == Kind::Object);
        if let Some(map) = map {
            return Some(read(file, &map, findings));
        }
    }
    let is_failed = |file: &&File| file.name().starts_with("annotations.") && file.is_failed();
    match folder.files_in(METADATA).find(is_failed) {
        Some(file) => {
            let why = if let Content::Failed(why) = &file.content { why } else { "" };
            findings.deny("RBF-02", file.error_field(), format!("{NOT_FOUND}: {why}"));
        }
        // Without metadata/ there is nothing to find it in, RBF-01.
        None if folder.has_directory(METADATA) => findings.deny("RBF-02", "spec.files", NOT_FOUND),
        None => {}
    }
    None
}

/// The registry reads texts only: anything else, and it does not see the file at all.
fn read<'f>(file: &'f File, map: &Document, findings: &mut Findings<'_>) -> Annotations<'f> {
    let mut annotations = Annotations { file, values: BTreeMap::new() };
    for key in map.keys("") {
        let value = format!("/{}", opgate_sdk::escape(&key));
        if map.has(&value) && map.kind(&value) != Kind::Text {
            let message = format!("{NOT_FOUND}: the value of {} is not a text", quote(&key));
            findings.deny("RBF-02", annotations.field(&key), message);
        }
        let text = map.text_or_empty(&value);
        annotations.values.insert(key, text);
    }
    annotations
}

/// RBF-03 to RBF-05.
pub(crate) fn judge(annotations: &Annotations<'_>, has_csv: bool, findings: &mut Findings<'_>) {
    for key in [MEDIA_TYPE, MANIFESTS, METADATA_KEY, PACKAGE, CHANNELS] {
        if annotations.get(key).is_none() {
            let message = format!("Missing annotation {}", quote(key));
            findings.deny("RBF-03", annotations.file.within("annotations"), message);
        }
    }
    if let Some(value) = annotations.get(MEDIA_TYPE)
        && has_csv
        && value != REGISTRY
    {
        let message = format!(
            "Expecting annotation {} to have value {} instead of {}",
            quote(MEDIA_TYPE),
            quote(REGISTRY),
            quote(value)
        );
        findings.deny("RBF-04", annotations.field(MEDIA_TYPE), message);
    }
    let is_empty = |list: &str| list.split(',').any(|name| name.trim().is_empty());
    let empty = [(CHANNELS, annotations.get(CHANNELS).is_some_and(is_empty)), {
        let default = annotations.get(DEFAULT_CHANNEL);
        (DEFAULT_CHANNEL, default.is_some_and(|name| name.trim().is_empty()))
    }];
    for (key, _) in empty.iter().filter(|(_, empty)| *empty) {
        let message = format!("Expecting annotation {} to have non-empty value", quote(key));
        findings.deny("RBF-05", annotations.field(key), message);
    }
}

/// RBF-21, for bundles that the settings call meant for Red Hat's catalogs. Without the key there is
/// nothing to judge.
pub(crate) fn openshift_versions(
    annotations: &Annotations<'_>,
    settings: &Document,
    findings: &mut Findings<'_>,
) {
    if settings.boolean("/bundle/redHatCatalog") != Some(true) {
        return;
    }
    let Some(value) = annotations.get(OPENSHIFT_VERSIONS) else { return };
    if !versions::is_openshift_range(value) {
        let message = format!(
            "{OPENSHIFT_VERSIONS} {} is not a version or a range of versions",
            quote(value)
        );
        findings.warn("RBF-21", annotations.field(OPENSHIFT_VERSIONS), message);
    }
}

/// RBF-27: names of channels by convention. After api `pkg/validation/internal/good_practices.go`.
pub(crate) fn channel_names(
    annotations: &Annotations<'_>,
    settings: &Document,
    findings: &mut Findings<'_>,
) {
    let suites = settings.texts("/bundle/optional");
    let selected = suites.iter().any(|suite| {
        matches!(
            suite.as_str(),
            "good-practices" | "name=good-practices" | "suite=operatorframework"
        )
    });
    if !selected && !findings.is_enabled("RBF-27") {
        return;
    }
    let channels = annotations.get(CHANNELS).unwrap_or_default().split(',');
    let all = channels.chain(annotations.get(DEFAULT_CHANNEL));
    let follows = |name: &str| ["candidate", "stable", "fast"].iter().any(|c| name.starts_with(c));
    let mut odd: Vec<_> =
        all.map(str::trim).filter(|name| !name.is_empty() && !follows(name)).collect();
    odd.sort_unstable();
    odd.dedup();
    if !odd.is_empty() {
        let message = format!(
            "channel(s) {} are not following the recommended naming convention: https://olm.operatorframework.io/docs/best-practices/channel-naming",
            ascii::list(&odd)
        );
        findings.warn("RBF-27", annotations.field(CHANNELS), message);
    }
}
