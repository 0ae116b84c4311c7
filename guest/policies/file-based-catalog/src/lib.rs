//! Policy `file-based-catalog`: file-based catalogs load, and their upgrade graphs lead somewhere.
//!
//! The host makes one document of each package of a catalog folder, and one, without a name, of
//! what belongs to no package.
//!
//! ```text
//! document ─┬─ spec.blobs ─▶ blob ─▶ properties, package, channel, bundle, deprecations: one by one
//!           │                └─────▶ catalog ─┬▶ unique, members  they belong together
//!           │                                 ├▶ graph            each channel leads somewhere
//!           │                                 ├▶ deprecations     what they refer to is there
//!           │                                 └▶ baseline         what was published stays (UPDATE)
//!           └─ spec.files, spec.directories ─▶ files
//! ```
//!
//! Versions and ranges are those of the crate `opgate-constraint`.
//!
//! Everything is read once into plain structures, and every walk costs n log n. The texts are those
//! of upstream's `opm validate`, byte for byte; but where that stops at the first error, this policy
//! reports all of them.

mod baseline;
mod blob;
mod bundle;
mod catalog;
mod channel;
mod deprecations;
mod files;
mod go_text;
mod graph;
mod judge;
mod objects;
mod package;
mod properties;
mod settings;
mod spelling;
mod text;

use opgate_sdk::Target;

static CATALOG: Target = Target::of_files("FileBasedCatalog", &["filebasedcatalogs"]);

opgate_sdk::policy! {
    name: "file-based-catalog",
    title: "file-based catalogs load, and their upgrade graphs lead somewhere",
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
    routes: [CATALOG => judge::judge],
    settings: include_str!("settings.json"),
}
