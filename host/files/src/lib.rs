//! Bundles, catalogs and manifests on disk, as reviews.
//!
//! ```text
//! PATH ─▶ detect ─┬▶ bundle:   folder ─▶ one document with every file ──┐
//!                 ├▶ catalog:  folder less .indexignore ─▶ blobs, by ───┼▶ Subject: reviews ─▶ policies
//!                 │            package, one document each               │                        │
//!                 └▶ manifest: objects ─────────────────────────────────┘   Place ◀─ field ◀─────┘
//! ```
//!
//! Files are read once, on all processors, and kept as text; what policies see is put together from
//! parts of them right before it is judged. The documents have the group `opgate.dev`, the
//! version `v1alpha1` and the kinds `RegistryBundle`, `PlainBundle` and `FileBasedCatalog`.

mod below;
mod bundle;
mod catalog;
mod compressed;
mod content;
mod detect;
pub mod folder;
pub mod ignore;
mod manifest;
pub mod parallel;
mod place;
pub mod subject;
mod template;
#[cfg(test)]
mod testing;
mod unique;

pub use bundle::BundleKind;
pub use detect::{As, Found, detect};
pub use place::Place;
pub use subject::{Request, Resolver, Subject};
pub use template::complaint;

use std::path::Path;

use opgate_input::read::Reader;

/// What is to be checked at a path. Deep documents need the stack of a thread of [`parallel::map`].
/// `since` is what was published before.
///
/// # Errors
/// Where it cannot be read as what it should be: one line each.
pub fn load(
    path: &Path,
    kind: As,
    since: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Vec<Subject>> {
    let shown = path.display();
    let found = std::fs::metadata(path).map_err(|e| anyhow::anyhow!("{shown}: {e}"))?;
    if found.is_dir() {
        // Most likely the wrong folder: no rule has to say so.
        let mut entries = path.read_dir().map_err(|e| anyhow::anyhow!("{shown}: {e}"))?;
        anyhow::ensure!(entries.next().is_some(), "{shown}: there is nothing in it");
    }
    match kind {
        As::Bundle => {
            bundle::load(path, BundleKind::Registry, since, reader).map(|subject| vec![subject])
        }
        As::Plain => {
            bundle::load(path, BundleKind::Plain, since, reader).map(|subject| vec![subject])
        }
        As::Catalog => catalog::load(path, since, reader),
        As::Manifest => manifest::load(path, since, reader),
    }
}

/// The path of a file as messages name it.
fn shown(root: &Path, path: &str) -> String {
    root.join(path).display().to_string()
}
