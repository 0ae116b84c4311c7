//! `metadata/annotations.yaml`.
//!
//! The registry uses the first file in `metadata/` that has annotations, regardless of its name; so
//! does [`find_annotations`]. The module `dockerfile` compares them with the labels of `bundle.Dockerfile`.

use std::collections::BTreeMap;

use opgate_sdk::go::quote;
use opgate_sdk::openshift;
use opgate_sdk::{Document, Fix, Kind, Report, corrections, escape, rule, rules};

use crate::ascii;
use crate::directory::{BUNDLE, BundleDirectory, Content, File, METADATA};
use crate::manifests::FIRST_IS_EMPTY;

rules![RBF_02, RBF_03, RBF_04, RBF_05, RBF_21, RBF_27];

const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
const METADATA_KEY: &str = "operators.operatorframework.io.bundle.metadata.v1";
const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";
/// The beginning of all keys of the registry.
const PREFIX: &str = "operators.operatorframework.io.bundle.";
const OPENSHIFT_VERSIONS: &str = "com.redhat.openshift.versions";
const REGISTRY_V1: &str = "registry+v1";

/// The annotations that a bundle must have.
const REQUIRED_KEYS: [&str; 5] = [MEDIA_TYPE, MANIFESTS, METADATA_KEY, PACKAGE, CHANNELS];

const NOT_FOUND: &str = "Could not find annotations file";

/// The annotations of a bundle.
pub(crate) struct Annotations<'f> {
    file: &'f File,
    /// The values by key, as upstream's decoder reads them; see [`text`].
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

    /// The pointer of an annotation.
    fn pointer(&self, key: &str) -> String {
        self.file.pointer(&format!("/annotations/{}", escape(key)))
    }

    /// The missing annotation: under another spelling, with its only value, or as in `bundle.Dockerfile`.
    fn add(&self, key: &str, labels: &BTreeMap<String, String>, has_csv: bool) -> Option<Fix> {
        let is_free = |name: &&String| {
            !REQUIRED_KEYS.contains(&name.as_str()) && name.as_str() != DEFAULT_CHANNEL
        };
        for name in self.values.keys().filter(is_free) {
            let title = format!("rename the annotation to {key}");
            let lacks_version = key.strip_suffix(".v1") == Some(name.as_str());
            let fix = if lacks_version || corrections::word(name, &[key]).is_some() {
                Fix::safe(title)
            } else if corrections::nearest(name, &[key]).is_some() {
                // Keys with this prefix are only for the registry, which ignores those that it does not know.
                if name.starts_with(PREFIX) { Fix::safe(title) } else { Fix::needs_review(title) }
            } else {
                continue;
            };
            return Some(fix.rename_key(self.pointer(name), key));
        }
        let value = match key {
            MEDIA_TYPE if has_csv => REGISTRY_V1,
            MANIFESTS => "manifests/",
            METADATA_KEY => "metadata/",
            _ => labels.get(key).map(String::as_str).filter(|value| !value.contains('$'))?,
        };
        let is_empty = value.split(',').any(|part| part.trim().is_empty());
        (!is_empty).then(|| {
            Fix::safe(format!("add the annotation {key}")).set_text(self.pointer(key), value)
        })
    }

    fn field(&self, key: &str) -> String {
        self.file.within(&format!("annotations[{key}]"))
    }
}

rule! {
    /// metadata/ contains a file with annotations
    ///
    /// A file directly in `metadata/` has the mapping `annotations` at the top level of its first
    /// document. Its usual name is `annotations.yaml`, but any name is allowed: the first such file
    /// in the order of paths counts. Every value in the mapping is a string. A number or a boolean
    /// counts as its text (`4.10` is `4.1`), and null as an empty string. A duplicate key in a
    /// mapping is a warning, because the registry reads the last one. No other content precedes the
    /// mapping, not even a comment above a line `---` (RBF-12). A bundle without `metadata/`
    /// violates only RBF-01.
    ///
    /// # Why
    ///
    /// The registry reads the package and the channels of the bundle from this file. If a value is
    /// a list or a mapping, the registry does not recognize the file. See OpenShift 4.12,
    /// Operators, *Bundle format*, Annotations.
    ///
    /// # Remediation
    ///
    /// Add `metadata/annotations.yaml` with the mapping `annotations`, and correct a file that
    /// cannot be parsed. Write several channels in one string, separated by commas, and remove all
    /// but one of the values of a key.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.package.v1: "test-operator"
    /// ```
    ///
    /// # Rejected
    ///
    /// A directory `metadata/` that contains only `dependencies.yaml`.
    ///
    /// `message: Could not find annotations file`
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.channels.v1: [beta, stable]
    /// ```
    ///
    /// `message: Could not find annotations file: the value of
    /// "operators.operatorframework.io.bundle.channels.v1" is not a text`
    pub(crate) RBF_02: Deny {
        name: "bundle-annotations-file",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L415-432", "OCP 4.15 L336-366", "OKD L60-70", "operator-registry pkg/lib/bundle/validate.go"],
    }
}

/// The annotations, if there is a file that has them.
pub(crate) fn find_annotations<'f>(
    directory: &'f BundleDirectory<'_>,
    report: &mut Report<'_>,
) -> Option<Annotations<'f>> {
    // The registry finds no annotations if the first document is empty.
    let (unread, files): (Vec<_>, Vec<_>) =
        directory.files_in(METADATA).partition(|file| file.starts_empty);
    for file in files.into_iter().chain(unread) {
        let Some(object) = directory.first_document(file) else { continue };
        let map = object.at("/annotations").filter(|map| map.kind("") == Kind::Object);
        if let Some(map) = map {
            if file.starts_empty {
                let message = format!("{NOT_FOUND}: {FIRST_IS_EMPTY}");
                report.add(&RBF_02, file.field(), message);
            }
            return Some(read_annotations(file, &map, report));
        }
    }
    let is_failed = |file: &&File| file.name().starts_with("annotations.") && file.is_invalid();
    match directory.files_in(METADATA).find(is_failed) {
        Some(file) => {
            let why = if let Content::Invalid(why) = &file.content { why } else { "" };
            report.add(&RBF_02, file.error_field(), format!("{NOT_FOUND}: {why}"));
        }
        // Without metadata/ there is no file to search (RBF-01).
        None if directory.has_directory(METADATA) => report.add(&RBF_02, "spec.files", NOT_FOUND),
        None => {}
    }
    None
}

/// The registry does not recognize the file if a value is a list or an object.
fn read_annotations<'f>(
    file: &'f File,
    map: &Document,
    report: &mut Report<'_>,
) -> Annotations<'f> {
    let mut annotations = Annotations { file, values: BTreeMap::new() };
    for key in map.keys("") {
        let pointer = format!("/{}", escape(&key));
        let value = text(map, &pointer);
        if value.is_none() {
            let message = format!("{NOT_FOUND}: the value of {} is not a text", quote(&key));
            report.add(&RBF_02, annotations.field(&key), message);
            report.set_fix(&RBF_02, || {
                let texts: Option<Vec<_>> = map.items(&pointer).map(|item| item.text("")).collect();
                let texts = texts.filter(|texts| key == CHANNELS || texts.len() == 1)?;
                (!texts.is_empty())
                    .then(|| corrections::write(annotations.pointer(&key), &texts.join(",")))
            });
        }
        annotations.values.insert(key, value.unwrap_or_default());
    }
    annotations
}

/// A value as `sigs.k8s.io/yaml` decodes it into a string: numbers and booleans become their texts,
/// and null becomes an empty text.
fn text(map: &Document, value: &str) -> Option<String> {
    match map.kind(value) {
        Kind::Text => map.text(value),
        Kind::Boolean => map.boolean(value).map(|is_true| is_true.to_string()),
        Kind::Number => {
            let whole = map.integer(value).map(|number| number.to_string());
            whole.or_else(|| map.number(value).map(|number| number.to_string()))
        }
        Kind::Null | Kind::Missing => Some(String::new()),
        Kind::List | Kind::Object => None,
    }
}

rule! {
    /// the annotations name media type, manifests, metadata, package and channels
    ///
    /// The annotations of the bundle (RBF-02) have five keys with the prefix
    /// `operators.operatorframework.io.bundle.`: `mediatype.v1`, `manifests.v1`, `metadata.v1`,
    /// `package.v1` and `channels.v1`. The key `channel.default.v1` and keys of other
    /// organizations, such as `com.redhat.openshift.versions`, are optional. The values of
    /// `manifests.v1` and `metadata.v1` are not compared with the directories.
    ///
    /// # Why
    ///
    /// operator-registry rejects a bundle that lacks one of the five. The keys are explained in
    /// OpenShift 4.12, Operators, *Bundle format*, Annotations.
    ///
    /// # Remediation
    ///
    /// Add the key that the message names to `metadata/annotations.yaml`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.mediatype.v1: "registry+v1"
    ///   operators.operatorframework.io.bundle.manifests.v1: "manifests/"
    ///   operators.operatorframework.io.bundle.metadata.v1: "metadata/"
    ///   operators.operatorframework.io.bundle.package.v1: "test-operator"
    ///   operators.operatorframework.io.bundle.channels.v1: "beta,stable"
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.mediatype.v1: "registry+v1"
    /// ```
    ///
    /// Among others: `message: Missing annotation
    /// "operators.operatorframework.io.bundle.package.v1"`
    RBF_03: Deny {
        name: "bundle-required-annotations",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L420-463", "OCP 4.15 L336-366", "OCP 4.5 L252-264", "OKD L60-76", "operator-registry pkg/lib/bundle/validate.go"],
    }
}

rule! {
    /// the media type of a bundle with a ClusterServiceVersion is registry+v1
    ///
    /// If `manifests/` contains a ClusterServiceVersion, the annotation
    /// `operators.operatorframework.io.bundle.mediatype.v1` is `registry+v1`. A bundle without a
    /// ClusterServiceVersion violates RBF-06, and a missing annotation violates RBF-03.
    ///
    /// # Why
    ///
    /// The media type defines how to read the bundle: `registry+v1` means a ClusterServiceVersion
    /// with its objects. operator-registry rejects any other value here. See OpenShift 4.12,
    /// Operators, *Bundle format*, Annotations.
    ///
    /// # Remediation
    ///
    /// Set the annotation to `registry+v1`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.mediatype.v1: "registry+v1"
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.mediatype.v1: "plain"
    /// ```
    ///
    /// `message: Expecting annotation "operators.operatorframework.io.bundle.mediatype.v1" to have
    /// value "registry+v1" instead of "plain"`
    RBF_04: Deny {
        name: "bundle-media-type",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L427, L437-438", "OCP 4.15 L336-366", "OKD L65, L71", "operator-registry pkg/lib/bundle/validate.go"],
    }
}

rule! {
    /// the annotations name at least one channel, and no empty one
    ///
    /// The annotation `operators.operatorframework.io.bundle.channels.v1` is a comma-separated list
    /// of at least one channel, and no element of it is empty or blank. The annotation
    /// `operators.operatorframework.io.bundle.channel.default.v1` is optional, but not empty if it
    /// is set. The rule does not check whether the default channel is in the list. A missing list
    /// violates RBF-03.
    ///
    /// # Why
    ///
    /// Users subscribe to a channel: a bundle in no channel cannot be installed from the catalog.
    /// The registry requires at least one channel, see OpenShift 4.12, Operators, *Bundle format*.
    ///
    /// # Remediation
    ///
    /// Name the channels without empty elements. Remove `channel.default.v1` if there is no default
    /// channel.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.channels.v1: "beta,stable"
    ///   operators.operatorframework.io.bundle.channel.default.v1: "stable"
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.channels.v1: "beta,,stable"
    /// ```
    ///
    /// `message: Expecting annotation "operators.operatorframework.io.bundle.channels.v1" to have
    /// non-empty value`
    RBF_05: Deny {
        name: "bundle-channels-annotation-not-empty",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L296-299, L431-463", "OCP 4.15 L274-278", "OCP 4.5 L218", "OKD L21, L69-70, L75-76", "operator-registry pkg/lib/bundle/validate.go"],
    }
}

/// The keys that every bundle has.
pub(crate) fn check(
    annotations: &Annotations<'_>,
    labels: &BTreeMap<String, String>,
    has_csv: bool,
    report: &mut Report<'_>,
) {
    for key in REQUIRED_KEYS {
        if annotations.get(key).is_none() {
            let message = format!("Missing annotation {}", quote(key));
            report.add(&RBF_03, annotations.file.within("annotations"), message);
            report.set_fix(&RBF_03, || annotations.add(key, labels, has_csv));
        }
    }
    if let Some(value) = annotations.get(MEDIA_TYPE)
        && has_csv
        && value != REGISTRY_V1
    {
        let message = format!(
            "Expecting annotation {} to have value {} instead of {}",
            quote(MEDIA_TYPE),
            quote(REGISTRY_V1),
            quote(value)
        );
        report.add(&RBF_04, annotations.field(MEDIA_TYPE), message);
        report.set_fix(&RBF_04, || {
            Some(corrections::write(annotations.pointer(MEDIA_TYPE), REGISTRY_V1))
        });
    }
    let is_empty = |list: &str| list.split(',').any(|name| name.trim().is_empty());
    let empty = [(CHANNELS, annotations.get(CHANNELS).is_some_and(is_empty)), {
        let default = annotations.get(DEFAULT_CHANNEL);
        (DEFAULT_CHANNEL, default.is_some_and(|name| name.trim().is_empty()))
    }];
    for (key, _) in empty.iter().filter(|(_, empty)| *empty) {
        let message = format!("Expecting annotation {} to have non-empty value", quote(key));
        report.add(&RBF_05, annotations.field(key), message);
        report.set_fix(&RBF_05, || {
            let names = annotations.get(key)?.split(',').map(str::trim);
            let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
            let pointer = annotations.pointer(key);
            if *key == DEFAULT_CHANNEL {
                return Some(Fix::safe("remove the empty annotation").remove(pointer));
            }
            let fix = Fix::safe("remove the empty channels");
            (!names.is_empty()).then(|| fix.set_text(pointer, &names.join(",")))
        });
    }
}

rule! {
    /// com.redhat.openshift.versions is a version or an ordered range
    ///
    /// If the setting `bundle.redHatCatalog` is `true`, the annotation
    /// `com.redhat.openshift.versions` of the bundle is a version (`v4.7` or `=v4.7`), a range in
    /// ascending order (`v4.7-v4.9`), or a comma-separated list of versions (`v4.5,v4.6`). Versions
    /// have a `v` and two numbers. A bundle without the annotation is accepted. Without the
    /// setting, the rule reports nothing.
    ///
    /// # Why
    ///
    /// The catalogs of Red Hat offer the bundle for the versions of OpenShift that the annotation
    /// names. An unreadable annotation can offer the Operator to clusters on which it does not
    /// work. See OpenShift 4.12, Operators, *Controlling Operator compatibility with OpenShift
    /// Container Platform versions*.
    ///
    /// # Remediation
    ///
    /// Set the annotation to a version or to a range with the lower version first.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// annotations:
    ///   com.redhat.openshift.versions: "v4.7-v4.9"
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// annotations:
    ///   com.redhat.openshift.versions: "v4.9-v4.7"
    /// ```
    ///
    /// `message: com.redhat.openshift.versions "v4.9-v4.7" is not a version or a range of versions`
    RBF_21: Warn {
        name: "openshift-versions-range",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L21728-21767", "OCP 4.15 L15828-15874"],
    }
}

pub(crate) fn check_openshift_versions(
    annotations: &Annotations<'_>,
    settings: &Document,
    report: &mut Report<'_>,
) {
    if settings.boolean("/bundle/redHatCatalog") != Some(true) {
        return;
    }
    let Some(value) = annotations.get(OPENSHIFT_VERSIONS) else { return };
    if openshift::earliest_version(value).is_none() {
        let message = format!(
            "{OPENSHIFT_VERSIONS} {} is not a version or a range of versions",
            quote(value)
        );
        report.add(&RBF_21, annotations.field(OPENSHIFT_VERSIONS), message);
        report.set_fix(&RBF_21, || {
            let pointer = annotations.pointer(OPENSHIFT_VERSIONS);
            let range = with_v(value)?;
            if openshift::earliest_version(&range).is_some() {
                return Some(corrections::write(pointer, &range));
            }
            let (from, to) = range.split_once('-')?;
            let range = format!("{to}-{from}");
            openshift::earliest_version(&range)?;
            Some(corrections::propose(pointer, &range))
        });
    }
}

/// The versions without spaces, each with a `v`.
fn with_v(value: &str) -> Option<String> {
    const MAX_BYTES: usize = 256;
    let plain: String = value.chars().filter(|c| !c.is_whitespace()).collect();
    if plain.len() > MAX_BYTES {
        return None;
    }
    let mut range = String::new();
    let mut is_start = true;
    for c in plain.chars() {
        if is_start && c.is_ascii_digit() {
            range.push('v');
        }
        range.push(if is_start && c == 'V' { 'v' } else { c });
        is_start = matches!(c, '=' | '-' | ',');
    }
    Some(range)
}

rule! {
    /// channels are named candidate, fast or stable
    ///
    /// The name of each channel in `operators.operatorframework.io.bundle.channels.v1` and
    /// `operators.operatorframework.io.bundle.channel.default.v1` starts with `candidate`, `fast`
    /// or `stable`. The rule is off by default. It is on if the setting `bundle.optional` contains
    /// `good-practices`, `name=good-practices` or `suite=operatorframework`, or if `rules` sets a
    /// level for it; `operatorhub` and `name=operatorhub` do not turn it on.
    ///
    /// # Why
    ///
    /// Users choose a channel by its name, and a common convention makes the meaning of names
    /// predictable. OpenShift 4.12, Operators, recommends a convention within an Operator but
    /// prescribes no names; these three are those of the good-practices validator of
    /// operator-framework/api.
    ///
    /// # Remediation
    ///
    /// Rename the channels, for example to `stable-v1`. Keep the old channels that users are
    /// subscribed to.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.channels.v1: "stable,fast"
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// annotations:
    ///   operators.operatorframework.io.bundle.channels.v1: "beta,stable"
    /// ```
    ///
    /// `message: channel(s) ["beta"] are not following the recommended naming convention:
    /// https://olm.operatorframework.io/docs/best-practices/channel-naming`
    RBF_27: Warn {
        name: "recommended-channel-names",
        on: [BUNDLE: Create | Update],
        enabled_by: ["/bundle/optional"],
        source: ["OCP 4.12 L1911, L6881, L22740", "api pkg/validation/internal/good_practices.go"],
    }
}

/// After api `pkg/validation/internal/good_practices.go`.
pub(crate) fn check_channel_names(
    annotations: &Annotations<'_>,
    settings: &Document,
    report: &mut Report<'_>,
) {
    let suites = settings.texts("/bundle/optional");
    let selected = suites.iter().any(|suite| {
        matches!(
            suite.as_str(),
            "good-practices" | "name=good-practices" | "suite=operatorframework"
        )
    });
    if !selected && !report.is_configured(&RBF_27) {
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
        report.add(&RBF_27, annotations.field(CHANNELS), message);
    }
}
