//! `ClusterServiceVersion`s that claim to work without a connection to the internet.
//!
//! ```text
//! claim ─▶ images of containers, RELATED_IMAGE_* ─┬─ by digest?                CSV-67
//!     │                                           └─ among the related images? CSV-69
//!     └──▶ relatedImages ─────────────────────────── by digest?                CSV-68
//! ```
//!
//! On UPDATE an image counts that the old object does not use, or all of them if the claim is new.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::image;
use opgate_sdk::pods::PodSpec;
use opgate_sdk::{Document, Level, Rule, pods, rule, rules};

use super::{add, features};
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_67, CSV_68, CSV_69];

/// Names of the variables that hold images.
const RELATED: &str = "RELATED_IMAGE_";
const RELATED_IMAGES: &str = "/spec/relatedImages";

/// Whether a version claims in its annotations that it supports disconnected clusters.
pub(crate) fn claims(csv: &Document) -> bool {
    features::claims(csv, "disconnected", "disconnected")
}

/// Whether a version counts as one for disconnected clusters: by its annotations, or because the
/// setting `csv.disconnected` says so of all.
pub(crate) fn is_claimed(csv: &Document, settings: &Document) -> bool {
    settings.boolean("/csv/disconnected") == Some(true) || claims(csv)
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
    /// digest. A tag beside the digest is allowed. Without deployments there is nothing to judge,
    /// and an entry without a value is not judged. On UPDATE, an image that the old object used is
    /// not judged unless the claim is new. In bundles and catalogs this is a warning, unless the
    /// setting is `true`: many are published with the claim and with tags, and upstream takes them.
    ///
    /// # Why
    ///
    /// The nodes of a disconnected cluster pull from a mirror, and mirrors are set up for digests
    /// (OpenShift 4.12, Operators, *Enabling your Operator for restricted network environments*). A
    /// tag is pulled from the internet, and the pod does not start.
    ///
    /// # Repair
    ///
    /// Name each image by its digest; `make bundle USE_IMAGE_DIGESTS=true` does that in an Operator
    /// SDK project. Or remove the claim.
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
    CSV_67: Deny {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L9829-9835, L19409, L19529-19535, L19776-19787, L19844; OCP 4.15 L7004-7007, L14331, L14441-14453, L14678; OCP 4.5 L6343-6432",
    }
}

rule! {
    /// a CSV for disconnected clusters names its related images by digest
    ///
    /// In a CSV that claims disconnected support, as in CSV-67, each `spec.relatedImages[].image`
    /// that is not empty is a reference to an image with a digest. A tag beside the digest is
    /// allowed. CSV-71 reports empty ones. On UPDATE, an image that the old object listed is not
    /// judged unless the claim is new. In bundles and catalogs this is a warning, as for CSV-67.
    ///
    /// # Why
    ///
    /// Tools that mirror a catalog read this list, and mirrors are set up for digests (OpenShift
    /// 4.12, Operators, *Enabling your Operator for restricted network environments*). An image
    /// that is listed by a tag is not found in the mirror.
    ///
    /// # Repair
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
    CSV_68: Deny {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L9829-9835, L19529-19535; OCP 4.15 L14331, L14449-14451; OCP 4.5 L6348-6370",
    }
}

rule! {
    /// a CSV for disconnected clusters lists the images of its deployments
    ///
    /// In a CSV that claims disconnected support, as in CSV-67, `spec.relatedImages` lists each
    /// image of `containers` and `initContainers` of its deployments and each value of a variable
    /// `RELATED_IMAGE_*`, written in the same way. An image that several containers use is reported
    /// once, at the first one. On UPDATE, an image is judged that the old object did not use or
    /// that is no longer listed, and all images are if the claim is new.
    ///
    /// # Why
    ///
    /// Tools that mirror a catalog copy the images that the list names (OpenShift 4.12, Operators,
    /// *Enabling your Operator for restricted network environments*). Some add the images of
    /// deployments by themselves, so this is a warning.
    ///
    /// # Repair
    ///
    /// Add the image to `spec.relatedImages`.
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
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L9829-9832, L19409, L19529-19532; OCP 4.15 L14331, L14441-14453; OCP 4.5 L6343-6366",
    }
}

pub(super) fn judge(csv: &mut Csv<'_, '_>, specs: &[PodSpec], are_deployments_new: bool) {
    let rules = [&CSV_67, &CSV_68, &CSV_69];
    let settings = csv.review.settings;
    if !rules.into_iter().any(|rule| csv.is_on(rule)) || !is_claimed(csv.object, settings) {
        return;
    }
    // If the claim is new, everything is.
    let old = csv.spares().filter(|old| is_claimed(old, settings));
    if old.is_some() && !are_deployments_new && !csv.touches_json(RELATED_IMAGES) {
        return;
    }
    let listed = related_images(csv.object);
    let used_before = old.map(used_images).unwrap_or_default();
    let listed_before = old.map(related_images).unwrap_or_default();
    deployments(csv, specs, &used_before, (&listed, &listed_before));
    for (index, row) in csv.object.rows(RELATED_IMAGES, &["/image"]).iter().enumerate() {
        let image = row.text_or_empty(0);
        if !image.is_empty() && !listed_before.contains(image) && image::digest(image).is_none() {
            add_by_digest(csv, &CSV_68, || {
                let field = format!("spec.relatedImages[{index}].image");
                let message = format!(
                    "{field} {} must be referenced by a digest (SHA) and not by a tag",
                    quote(image)
                );
                (field, message)
            });
        }
    }
}

/// Adds a finding about a tag: in a bundle and in a catalog a warning, unless the setting says that all of
/// them are for disconnected clusters.
fn add_by_digest(
    csv: &mut Csv<'_, '_>,
    rule: &'static Rule,
    texts: impl FnOnce() -> (String, String),
) {
    let is_set = csv.review.settings.boolean("/csv/disconnected") == Some(true);
    if !csv.is_packaged() || is_set {
        add(csv, rule, texts);
    } else if csv.report.is_full(rule) {
        csv.report.add_more_as(Level::Warn, rule, 1);
    } else {
        let (field, message) = texts();
        csv.add_as(Level::Warn, rule, &field, message);
    }
}

/// The images of the deployments. `listed` has the related images of the object, and those of the
/// old one.
fn deployments(
    csv: &mut Csv<'_, '_>,
    specs: &[PodSpec],
    used_before: &BTreeSet<String>,
    listed: (&BTreeSet<String>, &BTreeSet<String>),
) {
    let mut unlisted = BTreeSet::new();
    each_image(csv.object, specs, |image, used| {
        let was_used = used_before.contains(image);
        if !was_used && image::digest(image).is_none() {
            add_by_digest(csv, &CSV_67, || {
                let message = format!(
                    "image {} of {} must be referenced by a digest (SHA) and not by a tag",
                    quote(image),
                    used.by()
                );
                (used.field(), message)
            });
        }
        let is_new = !was_used || listed.1.contains(image);
        if is_new && !listed.0.contains(image) && unlisted.insert(image.to_owned()) {
            add(csv, &CSV_69, || {
                let message = format!("image {} is not listed in spec.relatedImages", quote(image));
                (used.field(), message)
            });
        }
    });
}

/// Where an image is used.
struct Used<'u> {
    csv: &'u Document,
    container: pods::Container<'u>,
    /// The variable that holds it: its index and its name.
    variable: Option<(u32, &'u str)>,
}

impl Used<'_> {
    fn field(&self) -> String {
        let container = self.container.field();
        match self.variable {
            Some((index, _)) => format!("{container}.env[{index}].value"),
            None => format!("{container}.image"),
        }
    }

    /// Who uses it, for people.
    fn by(&self) -> String {
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
fn each_image(csv: &Document, specs: &[PodSpec], mut visit: impl FnMut(&str, &Used<'_>)) {
    pods::each_container(csv, specs, &["/image", "/env"], |_, container| {
        let image = container.row.text_or_empty(0);
        if !image.is_empty() {
            visit(image, &Used { csv, container, variable: None });
        }
        if container.row.length(1).is_none_or(|length| length == 0) {
            return;
        }
        let variables = csv.rows(&format!("{}/env", container.pointer()), &["/name", "/value"]);
        for (index, row) in (0..).zip(variables.iter()) {
            let (name, value) = (row.text_or_empty(0), row.text_or_empty(1));
            if name.starts_with(RELATED) && !value.is_empty() {
                visit(value, &Used { csv, container, variable: Some((index, name)) });
            }
        }
    });
}

fn used_images(csv: &Document) -> BTreeSet<String> {
    let mut images = BTreeSet::new();
    each_image(csv, &pods::in_csv(csv), |image, _| {
        if !images.contains(image) {
            images.insert(image.to_owned());
        }
    });
    images
}

fn related_images(csv: &Document) -> BTreeSet<String> {
    let rows = csv.rows(RELATED_IMAGES, &["/image"]);
    rows.iter().filter_map(|row| row.text(0).map(str::to_owned)).collect()
}
