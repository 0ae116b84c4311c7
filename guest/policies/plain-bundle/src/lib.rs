//! Policy `plain-bundle`: plain+v0 bundles as files.
//!
//! ```text
//! PlainBundle ─▶ manifests ─┬─ the directory and what is in it
//!                           └─ objects, lists taken apart
//! ```
//!
//! The host builds the document from a folder; fields are paths into it, which the host turns into
//! places in files. The texts are RukPak's where it has one.

mod manifests;
mod objects;

use opgate_sdk::Target;

static BUNDLE: Target = Target::of_files("PlainBundle", &["plainbundles"]);

opgate_sdk::policy! {
    name: "plain-bundle",
    title: "plain+v0 bundles hold manifests that can be applied, and nothing else",
    rules: [manifests::RULES, objects::RULES],
    routes: [BUNDLE => manifests::judge],
}
