//! Entry points of the fuzz targets (`fuzz/`). They have no other users.
//!
//! ```text
//! PATH ─▶ files::load ─▶ reviews ─▶ documents, for the native policies
//!                          └──────▶ places of fields in files
//! ```

use std::path::Path;

pub use opgate_admission::fuzzing::{Seen, View};
use opgate_admission::review::Review;
use opgate_files::{
    self as files, CheckInputType, DetectedInput, Location, LocationResolver, Request,
};
use opgate_input::read::Reader;

/// A question to the policies about a part of a catalog.
#[derive(Debug)]
pub struct Question(Request);

/// Returns the requests for each package of a catalog, as in `opgate check`.
///
/// # Errors
/// Fails if it is no catalog or is unreadable.
pub fn catalog(path: &Path, baseline: Option<&Path>) -> anyhow::Result<Vec<Question>> {
    let subjects = files::load(
        &DetectedInput::new(path, CheckInputType::Catalog),
        baseline,
        &Reader::default(),
    )?;
    Ok(subjects.into_iter().flat_map(|subject| subject.requests).map(Question).collect())
}

/// Finds out what is at a path.
///
/// # Errors
/// Fails if its type is unknown.
pub fn detect(path: &Path) -> anyhow::Result<()> {
    files::detect(path, &Reader::default()).map(drop)
}

impl Question {
    /// Returns the JSON of the document, and of the one that was published before.
    ///
    /// # Errors
    /// Fails if the review is unreadable, which must not happen.
    pub fn documents(&self) -> anyhow::Result<[Option<String>; 2]> {
        let text = self.0.text().map_err(|deep| anyhow::anyhow!("{deep:?}"))?;
        let inputs = Review::read(&text)?.inputs();
        let documents = [inputs.object, inputs.old_object];
        Ok(documents.map(|document| document.map(|d| d.root().raw().into_owned())))
    }

    /// Returns file, line and column of each field, if it has a location.
    pub fn places(&self, fields: &[String]) -> Vec<Option<(String, u64, u64)>> {
        let mut places = LocationResolver::new(&self.0.object);
        let place = |Location { file, line, column, .. }| (file, line, column);
        fields.iter().map(|field| places.resolve(field).map(place)).collect()
    }
}

/// Returns line and column of each value of an opgate document, by JSON pointer; none for other documents.
pub fn located(yaml: &str, pointers: &[String]) -> Option<Vec<(u64, u64)>> {
    let located = opgate_input::yaml::LocatedValue::read(yaml).ok()?;
    Some(pointers.iter().map(|pointer| located.location(pointer)).collect())
}

/// Reports for each file whether patterns of `.indexignore` in the outermost directory ignore it.
pub fn ignores(patterns: &str, paths: &[&str]) -> Vec<bool> {
    let mut ignore = files::ignore::IgnorePatterns::default();
    ignore.add("", patterns);
    paths.iter().map(|path| ignore.ignores(path)).collect()
}
