//! Loads the reviews about a path.

mod bundle;
mod catalog;
mod manifest;
mod project;

use std::path::Path;

use opgate_input::read::Reader;

use crate::bundle::BundleKind;
use crate::kinds::As;
use crate::reviews::Subject;

/// The subjects to be checked at a path. Deep documents need the stack of a thread of
/// [`crate::parallel::map`]. `since` is the published version.
///
/// # Errors
/// If it cannot be read as this kind: one line for each error.
pub fn load(
    path: &Path,
    kind: As,
    since: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Vec<Subject>> {
    let shown = path.display();
    let found = std::fs::metadata(path).map_err(|e| anyhow::anyhow!("{shown}: {e}"))?;
    if found.is_dir() {
        // This is probably the wrong folder. No rule reports it.
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
        As::Project => project::load(path, since, reader).map(|subject| vec![subject]),
        // The caller reads dumps, part by part ([`crate::dump`]).
        As::Manifest | As::Cluster => manifest::load(path, since, reader),
    }
}
