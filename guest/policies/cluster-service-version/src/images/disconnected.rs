//! `ClusterServiceVersion`s that claim to work without a connection to the internet.
//!
//! ```text
//! claim ─▶ images of containers, RELATED_IMAGE_* ─┬─ by digest?                CSV-67
//!     │                                           └─ among the related images? CSV-69
//!     └──▶ relatedImages ─────────────────────────── by digest?                CSV-68
//! ```
//!
//! One image can violate all of these rules, and CSV-71. The violation at its first use names them
//! all. If the list has the image with an invalid reference, the violation of CSV-71 names them
//! ([`FurtherViolations`]).
//!
//! On UPDATE, only images that the old object does not use count, or all of them if the claim is
//! new.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::image;
use opgate_sdk::pods::PodSpec;
use opgate_sdk::{Document, Fix, Kind, corrections, json_string, pods, rule, rules};

use super::features;
use crate::csv::{Csv, LazyViolation};
use crate::targets::{CATALOG, CSV};

rules![CSV_67, CSV_68, CSV_69];

/// Names of the variables that hold images.
const RELATED_IMAGE_PREFIX: &str = "RELATED_IMAGE_";
const RELATED_IMAGES: &str = "/spec/relatedImages";

/// Whether a version claims in its annotations that it supports disconnected clusters.
pub(crate) fn claims_disconnected(csv: &Document) -> bool {
    features::claims_feature(csv, "disconnected", "disconnected")
}

/// Whether a version counts as one for disconnected clusters: by its annotations, or because the
/// setting `csv.disconnected` declares all versions as such.
pub(crate) fn is_claimed(csv: &Document, settings: &Document) -> bool {
    settings.boolean("/csv/disconnected") == Some(true) || claims_disconnected(csv)
}

rule! {
    /// a CSV for disconnected clusters names the images of its deployments by digest
    ///
    /// A CSV claims disconnected support if the JSON list in its annotation
    /// `operators.openshift.io/infrastructure-features` has `disconnected`, or if its annotation
    /// `features.operators.openshift.io/disconnected` is `"true"`. With the setting
    /// `csv.disconnected: true`, every CSV counts. Then each `image` of `containers` and
    /// `initContainers` in the pod templates of `spec.install.spec.deployments`, and each value of
    /// an `env` entry whose name starts with `RELATED_IMAGE_`, is a reference to an image with a
    /// digest. A tag in addition to the digest is allowed. Without deployments there is nothing to
    /// evaluate, and an entry without a value is not evaluated. On UPDATE, an image that the old
    /// object used is not evaluated unless the claim is new. This is a warning everywhere: many
    /// Operators are published with the claim and with tags, and can be installed. The violation at
    /// the first use of an image also names CSV-68 and CSV-69 if the image violates them.
    ///
    /// # Why
    ///
    /// The nodes of a disconnected cluster pull from a mirror, and mirrors are set up for digests
    /// (OpenShift 4.12, Operators, *Enabling your Operator for restricted network environments*). A
    /// tag is pulled from the internet, and the pod does not start.
    ///
    /// # Remediation
    ///
    /// Name each image by its digest, in the deployments and in `spec.relatedImages`; `make bundle
    /// USE_IMAGE_DIGESTS=true` does that in an Operator SDK project. Alternatively, remove the
    /// claim.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// containers:
    /// - name: etcd-operator
    ///   image: quay.io/etcdoperator/operator@sha256:d134a9865524c29fcf75bbc4469013bc38d8a15cb5f41acfddb6b9e492f556e4
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// containers:
    /// - {name: etcd-operator, image: "quay.io/etcdoperator/operator:v0.9.4"}
    /// ```
    ///
    /// `message: image "quay.io/etcdoperator/operator:v0.9.4" of container "etcd-operator" must be
    /// referenced by a digest (SHA) and not by a tag`
    pub(crate) CSV_67: Warn {
        name: "disconnected-deployment-images-by-digest",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L9829-9835, L19409, L19529-19535, L19776-19787, L19844", "OCP 4.15 L7004-7007, L14331, L14441-14453, L14678", "OCP 4.5 L6343-6432"],
    }
}

rule! {
    /// a CSV for disconnected clusters names its related images by digest
    ///
    /// In a CSV that claims disconnected support, as in CSV-67, each `spec.relatedImages[].image`
    /// that is not empty is a reference to an image with a digest. A tag in addition to the digest
    /// is allowed. CSV-71 reports empty ones. If a deployment also names the image by a tag, the
    /// violation is one of CSV-67 and names this rule. On UPDATE, an image that the old object
    /// listed is not evaluated unless the claim is new. This is a warning everywhere, as CSV-67.
    ///
    /// # Why
    ///
    /// Tools that mirror a catalog read this list, and mirrors are set up for digests (OpenShift
    /// 4.12, Operators, *Enabling your Operator for restricted network environments*). An image
    /// that is listed by a tag is not found in the mirror.
    ///
    /// # Remediation
    ///
    /// Name each related image by its digest, or remove the claim.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// relatedImages:
    /// - name: etcd-image
    ///   image: quay.io/etcdoperator/etcd@sha256:13348c15263bd8838ec1d5fc4550ede9860fcbb0f843e48cbccec07810eebb68
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// relatedImages: [{name: etcd, image: "quay.io/etcdoperator/etcd:v3.4"}]
    /// ```
    ///
    /// `message: spec.relatedImages[0].image "quay.io/etcdoperator/etcd:v3.4" must be referenced by
    /// a digest (SHA) and not by a tag`
    pub(crate) CSV_68: Warn {
        name: "disconnected-related-images-by-digest",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L9829-9835, L19529-19535", "OCP 4.15 L14331, L14449-14451", "OCP 4.5 L6348-6370"],
    }
}

rule! {
    /// a CSV for disconnected clusters lists the images of its deployments
    ///
    /// In a CSV that claims disconnected support, as in CSV-67, `spec.relatedImages` lists each
    /// image of `containers` and `initContainers` of its deployments and each value of a variable
    /// `RELATED_IMAGE_*`, written in the same way. An image that several containers use is reported
    /// once, at the first one; for an image without a digest the violation of CSV-67 names this
    /// rule. On UPDATE, the rule evaluates only images that the old object did not use or that are
    /// no longer listed, or all images if the claim is new.
    ///
    /// # Why
    ///
    /// Tools that mirror a catalog copy the images that the list names (OpenShift 4.12, Operators,
    /// *Enabling your Operator for restricted network environments*). Some add the images of
    /// deployments by themselves, so this is a warning.
    ///
    /// # Remediation
    ///
    /// Add the image to `spec.relatedImages`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// Each image of the deployments is in `spec.relatedImages`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// relatedImages: []
    /// ```
    ///
    /// `message: image "quay.io/etcdoperator/operator@sha256:…" is not listed in
    /// spec.relatedImages`
    CSV_69: Warn {
        name: "complete-disconnected-related-images",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L9829-9832, L19409, L19529-19532", "OCP 4.15 L14331, L14441-14453", "OCP 4.5 L6343-6366"],
    }
}

/// Other violations of an image that CSV-71 reports.
#[derive(Default)]
pub(super) struct FurtherViolations {
    /// Field and message of CSV-67, for the first use.
    pub(super) used_by_tag: Option<[String; 2]>,
    /// Whether the list has it by a tag (CSV-68).
    pub(super) is_listed_by_tag: bool,
}

/// The images that CSV-71 reports.
pub(super) type InvalidImages = BTreeMap<String, FurtherViolations>;

/// Returns the images that CSV-71 reports, as `find_invalid` finds them, with the rules of this
/// module that they violate. Those rules are not reported here.
pub(super) fn check(
    csv: &mut Csv<'_, '_>,
    specs: &[PodSpec],
    are_deployments_new: bool,
    find_invalid: impl FnOnce(&Csv<'_, '_>) -> InvalidImages,
) -> InvalidImages {
    let rules = [&CSV_67, &CSV_68, &CSV_69];
    let settings = csv.review.settings;
    if !rules.into_iter().any(|rule| csv.is_on(rule)) || !is_claimed(csv.object, settings) {
        return InvalidImages::new();
    }
    // If the claim is new, all images are evaluated.
    let old = csv.ratchet_base().filter(|old| is_claimed(old, settings));
    if old.is_some() && !are_deployments_new && !csv.touches_json(RELATED_IMAGES) {
        return InvalidImages::new();
    }
    let mut images = Images {
        used_before: old.map(used_images).unwrap_or_default(),
        listed: related_images(csv.object),
        listed_before: old.map(related_images).unwrap_or_default(),
        reported: BTreeSet::new(),
        unlisted: BTreeSet::new(),
        is_fixed: false,
        invalid: find_invalid(csv),
    };
    let object = csv.object;
    for_each_image(object, specs, |image, used| images.check_used_image(csv, image, used));
    for (index, row) in object.rows(RELATED_IMAGES, &["/image"]).iter().enumerate() {
        images.check_listed_image(csv, index, row.text_or_empty(0));
    }
    images.invalid
}

/// The images of a ClusterServiceVersion, by the fields that name them.
struct Images {
    used_before: BTreeSet<String>,
    /// The images of the list, each with its first index.
    listed: BTreeMap<String, usize>,
    listed_before: BTreeMap<String, usize>,
    /// Images for which a violation of CSV-67 names the other rules.
    reported: BTreeSet<String>,
    /// Images that CSV-69 has reported.
    unlisted: BTreeSet<String>,
    /// Whether a violation of CSV-69 has the fix that lists all images.
    is_fixed: bool,
    invalid: InvalidImages,
}

impl Images {
    /// Evaluates an image of a container.
    fn check_used_image(&mut self, csv: &mut Csv<'_, '_>, image: &str, used: &ImageUse<'_>) {
        let was_used = self.used_before.contains(image);
        let has_tag = image::digest(image).is_none();
        let by_tag = || {
            let by = used.user();
            let image = quote(image);
            let why = "must be referenced by a digest (SHA) and not by a tag";
            [used.field(), format!("image {image} of {by} {why}")]
        };
        if has_tag
            && !was_used
            && let Some(further) = self.invalid.get_mut(image)
        {
            further.used_by_tag.get_or_insert_with(by_tag);
            return;
        }
        let is_unlisted = !self.listed.contains_key(image)
            && (!was_used || self.listed_before.contains_key(image))
            && self.unlisted.insert(image.to_owned());
        let not_listed = || {
            let message = format!("image {} is not listed in spec.relatedImages", quote(image));
            [used.field(), message]
        };
        let is_first = has_tag && !was_used && self.reported.insert(image.to_owned());
        let place = self.listed.get(image).copied();
        let is_listed_by_tag = is_first && !self.listed_before.contains_key(image);
        let listed_by_tag = || tag_violation(place.unwrap_or_default(), image);
        let violations: [(bool, LazyViolation<'_>); 3] = [
            (has_tag && !was_used, (&CSV_67, &by_tag)),
            (is_listed_by_tag && place.is_some() && csv.is_on(&CSV_67), (&CSV_68, &listed_by_tag)),
            (is_unlisted, (&CSV_69, &not_listed)),
        ];
        let violations: Vec<_> =
            violations.into_iter().filter(|(is, _)| *is).map(|(_, it)| it).collect();
        csv.add_once(&violations);
        if is_unlisted && !self.is_fixed {
            let (object, listed, is_fixed) = (csv.object, &self.listed, &mut self.is_fixed);
            csv.fix(&CSV_69, || {
                *is_fixed = true;
                list_images(object, listed).0
            });
        }
    }

    /// Evaluates an image of the list.
    fn check_listed_image(&mut self, csv: &mut Csv<'_, '_>, index: usize, image: &str) {
        let is_new = !image.is_empty() && !self.listed_before.contains_key(image);
        if !is_new || image::digest(image).is_some() {
            return;
        }
        if let Some(further) = self.invalid.get_mut(image) {
            further.is_listed_by_tag = true;
        } else if !(csv.is_on(&CSV_67) && self.reported.contains(image)) {
            csv.add_once(&[(&CSV_68, &|| tag_violation(index, image))]);
        }
    }
}

/// Field and message of CSV-68.
pub(super) fn tag_violation(index: usize, image: &str) -> [String; 2] {
    let field = format!("spec.relatedImages[{index}].image");
    let image = quote(image);
    let message = format!("{field} {image} must be referenced by a digest (SHA) and not by a tag");
    [field, message]
}

/// Where an image is used.
struct ImageUse<'u> {
    csv: &'u Document,
    container: pods::Container<'u>,
    /// The variable that holds it: its index and its name.
    variable: Option<(u32, &'u str)>,
}

impl ImageUse<'_> {
    fn field(&self) -> String {
        let container = self.container.field();
        match self.variable {
            Some((index, _)) => format!("{container}.env[{index}].value"),
            None => format!("{container}.image"),
        }
    }

    /// The name of the image in the list of related images.
    fn name(&self) -> String {
        match self.variable {
            Some((_, name)) => {
                let name = name.strip_prefix(RELATED_IMAGE_PREFIX).unwrap_or_default();
                name.to_ascii_lowercase().replace('_', "-")
            }
            None => self.csv.text_or_empty(&format!("{}/name", self.container.pointer())),
        }
    }

    /// The user of the image, for messages.
    fn user(&self) -> String {
        let name = self.csv.text_or_empty(&format!("{}/name", self.container.pointer()));
        let kind = if self.container.is_regular() { "container" } else { "init container" };
        let container = format!("{kind} {}", quote(&name));
        match self.variable {
            Some((_, variable)) => format!("environment variable {variable} of {container}"),
            None => container,
        }
    }
}

/// Calls `visit` with each image that the deployments name.
fn for_each_image(csv: &Document, specs: &[PodSpec], mut visit: impl FnMut(&str, &ImageUse<'_>)) {
    pods::each_container(csv, specs, &["/image", "/env"], |_, container| {
        let image = container.row.text_or_empty(0);
        if !image.is_empty() {
            visit(image, &ImageUse { csv, container, variable: None });
        }
        if container.row.length(1).is_none_or(|length| length == 0) {
            return;
        }
        let variables = csv.rows(&format!("{}/env", container.pointer()), &["/name", "/value"]);
        for (index, row) in (0..).zip(variables.iter()) {
            let (name, value) = (row.text_or_empty(0), row.text_or_empty(1));
            if name.starts_with(RELATED_IMAGE_PREFIX) && !value.is_empty() {
                visit(value, &ImageUse { csv, container, variable: Some((index, name)) });
            }
        }
    });
}

/// Entries for the images of the deployments that the list lacks, and whether they are all of them, with the names that `operator-sdk` gives them:
/// those of the containers and variables. An image whose name is in use remains.
fn list_images(csv: &Document, listed: &BTreeMap<String, usize>) -> (Option<Fix>, bool) {
    const MAX_ENTRIES: usize = 16;
    let rows = csv.rows(RELATED_IMAGES, &["/name"]);
    let mut names: BTreeSet<String> =
        rows.iter().filter_map(|row| row.text(0)).map(str::to_owned).collect();
    let mut images = BTreeSet::new();
    let mut entries = Vec::new();
    let mut is_complete = true;
    // CSV-71 corrects these entries.
    let corrected: BTreeSet<String> =
        listed.keys().filter_map(|image| corrections::image_reference(image)).collect();
    for_each_image(csv, &pods::in_csv(csv), |image, used| {
        if listed.contains_key(image) || images.contains(image) {
            return;
        }
        let name = used.name();
        let is_listable = image::digest(image).is_some()
            && image::error(image).is_none()
            && !corrected.contains(image)
            && entries.len() < MAX_ENTRIES;
        if is_listable && !name.is_empty() && names.insert(name.clone()) {
            images.insert(image.to_owned());
            let [image, name] = [image, &name].map(json_string);
            entries.push(format!("{{\"image\":{image},\"name\":{name}}}"));
        } else {
            is_complete = false;
        }
    });
    let fix = Fix::safe("list the images of the deployments");
    let fix = match csv.kind(RELATED_IMAGES) {
        _ if entries.is_empty() => None,
        Kind::List => {
            let end = format!("{RELATED_IMAGES}/-");
            Some(entries.into_iter().fold(fix, |fix, entry| fix.insert(end.clone(), entry)))
        }
        Kind::Missing | Kind::Null => {
            Some(fix.set(RELATED_IMAGES, format!("[{}]", entries.join(","))))
        }
        _ => None,
    };
    (fix, is_complete)
}

/// Adds what a new claim needs: entries for images. None if an image has no digest, or has no name for the list.
pub(super) fn prepare(csv: &Document, fix: Fix) -> Option<Fix> {
    let listed = related_images(csv);
    if listed.keys().any(|image| image::digest(image).is_none()) {
        return None;
    }
    let (images, is_complete) = list_images(csv, &listed);
    match images {
        _ if !is_complete => None,
        Some(images) => fix.and(images),
        None => Some(fix),
    }
}

fn used_images(csv: &Document) -> BTreeSet<String> {
    let mut images = BTreeSet::new();
    for_each_image(csv, &pods::in_csv(csv), |image, _| {
        if !images.contains(image) {
            images.insert(image.to_owned());
        }
    });
    images
}

fn related_images(csv: &Document) -> BTreeMap<String, usize> {
    let rows = csv.rows(RELATED_IMAGES, &["/image"]);
    let mut images = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        if let Some(image) = row.text(0)
            && !images.contains_key(image)
        {
            images.insert(image.to_owned(), index);
        }
    }
    images
}
