//! `spec.relatedImages`: references to images, and their names.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::image;
use opgate_sdk::{Document, Fix, Kind, corrections, escape, rule, rules};

use super::add_violation;
use super::disconnected::{self, CSV_67, CSV_68, FurtherViolations, InvalidImages};
use crate::csv::{Csv, LazyViolation};
use crate::targets::{CATALOG, CSV};

rules![CSV_71, CSV_72];

const LIST: &str = "/spec/relatedImages";

rule! {
    /// related images are references to images
    ///
    /// Each `spec.relatedImages[].image` is not empty, and is a reference in the syntax of
    /// container tools: `[DOMAIN/]PATH[:TAG][@DIGEST]` in the grammar of the distribution project.
    /// Tag, digest, both or none are accepted, and so is a name without a domain. Names of
    /// repositories are lower case; digests are sha256, sha384 or sha512 of full length. In a
    /// bundle the rule denies, as `operator-sdk bundle validate` does; elsewhere it warns, because
    /// OLM and opm accept any text. On UPDATE, an image that the old object listed is not
    /// evaluated.
    ///
    /// # Why
    ///
    /// Tools that mirror catalogs read the list, and one reference that they cannot parse stops
    /// them. The validator of bundles rejects it with the same text
    /// (`pkg/validation/internal/bundle.go` of operator-framework/api). OLM does not read the list:
    /// a ClusterServiceVersion with a wrong entry can be installed.
    ///
    /// # Remediation
    ///
    /// Correct the reference, or remove the entry.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// relatedImages: [{name: img, image: quay.io/org/img}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// relatedImages: [{name: a, image: ""}, {name: b, image: quay.io/Org/Img with spaces}]
    /// ```
    ///
    /// `message: relatedImages[0] has an empty image field`
    ///
    /// `message: relatedImages[1] has an invalid image pullspec "quay.io/Org/Img with spaces":
    /// invalid reference format: repository name must be lowercase`
    pub(crate) CSV_71: Deny {
        name: "valid-related-images",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle],
        source: ["api pkg/validation/internal/bundle.go, pkg/validation/internal/bundle_test.go"],
    }
}

rule! {
    /// related images have unique names
    ///
    /// Each `spec.relatedImages[].name` is not empty, and no earlier entry has the same name. On
    /// UPDATE, a name, or an empty name, is not evaluated if the old object had it as often.
    ///
    /// # Why
    ///
    /// The name identifies the image (OpenShift 4.5, Operators, *Enabling your Operator for
    /// restricted network environments*), and the CRD of CSVs requires it. Two entries with the
    /// same name break nothing immediately, so this is a warning.
    ///
    /// # Remediation
    ///
    /// Give each related image a unique name.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// Names `etcd-operator` and `etcd-image`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// relatedImages: [{name: etcd, image: quay.io/a/b}, {name: etcd, image: quay.io/a/c}]
    /// ```
    ///
    /// `message: spec.relatedImages[1].name "etcd" is not a unique identifier for the image`
    CSV_72: Warn {
        name: "unique-related-image-names",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.5 L6352-6366", "api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

/// Returns the images that CSV-71 reports as invalid references.
pub(super) fn find_invalid(csv: &Csv<'_, '_>) -> InvalidImages {
    if !csv.is_on(&CSV_71) || csv.object.kind(LIST) != Kind::List || !csv.touches_json(LIST) {
        return InvalidImages::new();
    }
    let before: BTreeSet<String> = csv.ratchet_base().map(images).unwrap_or_default();
    let rows = csv.object.rows(LIST, &["/image"]);
    let listed = rows.iter().filter_map(|row| row.text(0));
    let is_invalid = |image: &&str| {
        !image.is_empty() && !before.contains(*image) && image::error(image).is_some()
    };
    listed
        .filter(is_invalid)
        .map(|image| (image.to_owned(), FurtherViolations::default()))
        .collect()
}

pub(super) fn check(csv: &mut Csv<'_, '_>, invalid: &InvalidImages) {
    // Most objects have no related images.
    if csv.object.kind(LIST) != Kind::List || !csv.touches_json(LIST) {
        return;
    }
    let old = csv.ratchet_base();
    let images_before: BTreeSet<String> = old.map(images).unwrap_or_default();
    let names_before = old.map(names).unwrap_or_default();
    let mut names_so_far: BTreeMap<String, usize> = BTreeMap::new();
    let rows = csv.object.rows(LIST, &["/image", "/name"]);
    for (index, row) in rows.iter().enumerate() {
        // If it is not a text, the API server rejects it, and a file does not parse as a CSV.
        if matches!(row.kind(0), Kind::Text | Kind::Missing | Kind::Null) {
            let image = row.text_or_empty(0);
            if !images_before.contains(image) {
                check_reference(csv, index, image, invalid.get(image));
            }
        }
        let name = row.text_or_empty(1);
        let count = names_so_far.entry(name.to_owned()).or_default();
        *count += 1;
        let was_so = names_before.get(name).is_some_and(|before| *before >= *count);
        if (name.is_empty() || *count > 1) && !was_so {
            add_violation(csv, &CSV_72, || {
                let field = format!("spec.relatedImages[{index}].name");
                let name = quote(name);
                let message = format!("{field} {name} is not a unique identifier for the image");
                (field, message)
            });
            let object = csv.object;
            csv.fix(&CSV_72, || {
                let first = rows.iter().position(|row| row.text_or_empty(1) == name)?;
                let is_other = first != index && !name.is_empty();
                is_other.then(|| corrections::remove_equal(object, LIST, first, index)).flatten()
            });
        }
    }
}

fn check_reference(
    csv: &mut Csv<'_, '_>,
    index: usize,
    image: &str,
    further: Option<&FurtherViolations>,
) {
    let wrong = if image.is_empty() {
        Some(String::new())
    } else {
        image::error(image).map(|why| why.to_string())
    };
    let Some(why) = wrong else { return };
    let is_invalid = || {
        let field = format!("spec.relatedImages[{index}].image");
        let message = if image.is_empty() {
            format!("relatedImages[{index}] has an empty image field")
        } else {
            let image = quote(image);
            format!("relatedImages[{index}] has an invalid image pullspec {image}: {why}")
        };
        [field, message]
    };
    let used = further.and_then(|further| further.used_by_tag.as_ref());
    let used_by_tag = || used.cloned().unwrap_or_default();
    let listed_by_tag = || disconnected::tag_violation(index, image);
    let mut violations: Vec<LazyViolation<'_>> = vec![(&CSV_71, &is_invalid)];
    if used.is_some() {
        violations.push((&CSV_67, &used_by_tag));
    }
    if further.is_some_and(|further| further.is_listed_by_tag) {
        violations.push((&CSV_68, &listed_by_tag));
    }
    csv.add_once(&violations);
    let object = csv.object;
    csv.fix(&CSV_71, || {
        let entry = format!("{LIST}/{index}");
        if image.is_empty() {
            return says_nothing(object, &entry)
                .then(|| Fix::safe("remove the empty entry").remove(entry));
        }
        let reference = corrections::image_reference(image)?;
        Some(corrections::write(format!("{entry}/image"), &reference))
    });
}

/// Whether an entry is null or an object without a text, so that its author loses nothing. A misspelt key is a text.
fn says_nothing(csv: &Document, entry: &str) -> bool {
    let is_blank = |key: &String| {
        let member = format!("{entry}/{}", escape(key));
        csv.kind(&member) == Kind::Null || csv.text(&member).is_some_and(|text| text.is_empty())
    };
    match csv.kind(entry) {
        Kind::Null => true,
        Kind::Object => csv.keys(entry).iter().all(is_blank),
        _ => false,
    }
}

/// The images, with an empty one for an entry without an image.
fn images(csv: &Document) -> BTreeSet<String> {
    let rows = csv.rows(LIST, &["/image"]);
    rows.iter().map(|row| row.text_or_empty(0).to_owned()).collect()
}

/// The number of occurrences of each name.
fn names(csv: &Document) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for row in csv.rows(LIST, &["/name"]).iter() {
        *names.entry(row.text_or_empty(0).to_owned()).or_default() += 1;
    }
    names
}
