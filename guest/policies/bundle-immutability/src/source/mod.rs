//! What a `spec.source` must look like, wherever it stands.
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
    pub(crate) rule: &'static Rule,
    pub(crate) field: String,
    pub(crate) message: String,
}

/// `/spec/source` → `spec.source`. None of the pointers used here has an escape.
pub(crate) fn field(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// The members of [`SOURCES`] that are there.
pub(crate) fn present(object: &Document, source: &str) -> Vec<&'static str> {
    SOURCES.into_iter().filter(|member| object.has(&format!("{source}/{member}"))).collect()
}

/// Whether the webhook's checks of a source run where it did not change, as upstream's do. Not unless a
/// setting asks for it: an object that is there must be able to get a label or lose a finalizer.
/// What is on its way out must be able to go.
pub(crate) fn is_rechecked(review: &Review<'_>, object: &Document) -> bool {
    review.settings.boolean("/rukpak/recheckUnchanged") == Some(true) && !is_terminating(object)
}

/// Index and pointer of each entry of a list; nothing for other kinds. Pointers and not handles: an
/// object of 1.5 MB has tens of thousands of entries, and a handle costs two calls of the host more.
pub(crate) fn entries(object: &Document, list: &str) -> impl Iterator<Item = (u32, String)> {
    let is_list = object.kind(list) == Kind::List;
    let count = object.length(list).filter(|_| is_list).unwrap_or_default();
    (0..count).map(move |index| (index, format!("{list}/{index}")))
}
