//! Policy `file-based-catalog`: file-based catalogs are readable, and their upgrade graphs have a
//! head.
//!
//! The host creates one document for each package of a catalog directory, and one document without
//! a name for the blobs of no package.
//!
//! ```text
//! document ─┬─ spec.blobs ─▶ blob ─▶ properties, package, channel, bundle, deprecations: each separately
//!           │                └─────▶ catalog ─┬▶ unique, members  the blobs of a package match
//!           │                                 ├▶ graph            each channel has a head
//!           │                                 ├▶ deprecations     the references exist
//!           │                                 └▶ baseline         published bundles stay (UPDATE)
//!           └─ spec.files, spec.directories ─▶ files
//! ```
//!
//! The crate `opgate-constraint` parses versions and ranges.
//!
//! All blobs are read once into plain structures, and every walk takes O(n log n). The messages are
//! those of upstream's `opm validate`, byte for byte. Upstream stops at the first error; this
//! policy reports all errors.

mod baseline;
mod blob;
mod bundle;
mod catalog;
mod channel;
mod deprecations;
mod evaluate;
mod files;
mod go_text;
mod graph;
mod objects;
mod package;
mod package_list;
mod properties;
mod settings;
mod spelling;
mod text;

use opgate_sdk::Target;

static CATALOG: Target = Target::for_files("FileBasedCatalog", &["filebasedcatalogs"]);

opgate_sdk::policy! {
    name: "file-based-catalog",
    title: "file-based catalogs are readable, and their upgrade graphs have a head",
    rules: [
        baseline::RULES,
        blob::RULES,
        bundle::RULES,
        bundle::properties::RULES,
        catalog::RULES,
        channel::RULES,
        deprecations::RULES,
        files::RULES,
        graph::RULES,
        bundle::decoded::RULES,
        bundle::identity::RULES,
        bundle::images::RULES,
        catalog::members::RULES,
        package::RULES,
        properties::RULES,
        catalog::unique::RULES,
    ],
    routes: [CATALOG => evaluate::check],
    settings: include_str!("settings.json"),
}
