//! From a path to the reviews that are about it.

mod bundle;
mod catalog;
mod manifest;

use std::path::Path;

use opgate_input::read::Reader;

use crate::bundle::BundleKind;
use crate::kinds::As;
use crate::reviews::Subject;

/// What is to be checked at a path. Deep documents need the stack of a thread of [`crate::parallel::map`].
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
