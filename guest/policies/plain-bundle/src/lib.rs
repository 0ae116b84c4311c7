//! Policy `plain-bundle`: plain+v0 bundles as files.
//!
//! ```text
//! PlainBundle ─▶ manifests ─┬─ the directory and its entries
//!                           └─ objects, items of lists
//! ```
//!
//! The host builds the document from a directory. Fields are paths in the document, which the host
//! maps to locations in files. The messages are those of RukPak if it has one.

mod manifests;
mod objects;

use opgate_sdk::Target;

static BUNDLE: Target = Target::for_files("PlainBundle", &["plainbundles"]);

opgate_sdk::policy! {
    name: "plain-bundle",
    title: "plain+v0 bundles contain only manifests that can be applied",
    rules: [manifests::RULES, objects::RULES],
    routes: [BUNDLE => manifests::check],
}
