//! The requirements on a `spec.source` in all kinds of objects.
//!
//! ```text
//! webhook    the checks of RukPak's webhook
//! schema     those of its CRD, which matter where objects come past the CRD, as in files
//! unpacking  what both let pass and unpacking does not
//! pinned     whether the content can move
//! ```

pub(crate) mod pinned;
pub(crate) mod schema;
pub(crate) mod unpacking;
pub(crate) mod webhook;

use opgate_sdk::{Document, Kind, Review, Rule, Shape, is_terminating};

/// The members of `spec.source`. Exactly one of them contains the location of the content.
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

/// A violation in a source: the rule of Bundles, the field, and upstream's message.
pub(crate) struct Violation {
    pub(crate) rule: &'static Rule,
    pub(crate) field: String,
    pub(crate) message: String,
}

/// `/spec/source` → `spec.source`. None of the pointers used here has an escape.
pub(crate) fn field(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// The members of [`SOURCES`] that are set.
pub(crate) fn present_sources(object: &Document, source: &str) -> Vec<&'static str> {
    SOURCES.into_iter().filter(|member| object.has(&format!("{source}/{member}"))).collect()
}

/// Whether the webhook's checks run for an unchanged source, like upstream's. By default they do
/// not, because users must be able to add a label to an existing object or remove a finalizer. The
/// deletion of an object must always be able to finish.
pub(crate) fn is_rechecked(review: &Review<'_>, object: &Document) -> bool {
    review.settings.boolean("/rukpak/recheckUnchanged") == Some(true) && !is_terminating(object)
}

/// Index and pointer of each entry of a list. Empty for other kinds. Returns pointers instead of
/// handles: an object of 1.5 MB has tens of thousands of entries, and a handle costs two more host
/// calls.
pub(crate) fn entries(object: &Document, list: &str) -> impl Iterator<Item = (u32, String)> {
    let is_list = object.kind(list) == Kind::List;
    let count = object.length(list).filter(|_| is_list).unwrap_or_default();
    (0..count).map(move |index| (index, format!("{list}/{index}")))
}
