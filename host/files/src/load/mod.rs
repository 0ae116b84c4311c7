//! Loads the reviews about a path.

mod bundle;
mod catalog;
mod manifest;
mod project;

use std::path::Path;

use opgate_input::read::Reader;

use crate::bundle::BundleKind;
use crate::kinds::{CheckInputType, DetectedInput};
use crate::reviews::Subject;

/// Returns the subjects to be checked of something that was found. Deep documents need the stack of a thread
/// of [`crate::parallel::map`]. `since` is the published version. Everything is read with the budget of the
/// reader.
///
/// # Errors
/// Fails if it is unreadable as this kind: one line for each error. If it exceeds the reader's budget, that
/// is the only error.
pub fn load(
    found: &DetectedInput,
    baseline: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Vec<Subject>> {
    let (path, shown) = (found.path.as_path(), found.path.display());
    let subjects = load_subjects(found, baseline, reader);
    reader.ensure_complete().map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
    let mut subjects = subjects?;
    if let Some(reason) = &found.not_evaluated {
        for subject in &mut subjects {
            subject.requests.clear();
            subject.not_evaluated = Some(reason.clone());
        }
        if subjects.is_empty() {
            subjects.push(Subject::not_evaluated(path, reason));
        }
    }
    Ok(subjects)
}

fn load_subjects(
    found: &DetectedInput,
    baseline: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Vec<Subject>> {
    let (path, shown) = (found.path.as_path(), found.path.display());
    let metadata = std::fs::metadata(path);
    if found.directory.is_none() && metadata.map_err(|e| anyhow::anyhow!("{shown}: {e}"))?.is_dir()
    {
        // Probably the wrong directory. No rule reports it.
        let mut entries = path.read_dir().map_err(|e| anyhow::anyhow!("{shown}: {e}"))?;
        anyhow::ensure!(entries.next().is_some(), "{shown}: it is empty");
    }
    match found.input_type {
        CheckInputType::Bundle => {
            bundle::load(path, BundleKind::Registry, baseline, reader).map(|subject| vec![subject])
        }
        CheckInputType::Plain => {
            bundle::load(path, BundleKind::Plain, baseline, reader).map(|subject| vec![subject])
        }
        CheckInputType::Catalog if found.not_evaluated.is_some() => Ok(Vec::new()),
        CheckInputType::Catalog => catalog::load(path, baseline, reader),
        CheckInputType::Project => {
            project::load(path, baseline, reader).map(|subject| vec![subject])
        }
        // The caller reads dumps, part by part ([`crate::dump`]).
        CheckInputType::Manifest | CheckInputType::Cluster => {
            manifest::load(path, found.directory.as_deref(), baseline, reader)
        }
    }
}
