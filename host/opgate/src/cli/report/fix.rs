//! The fix of a violation, with the places of its edits in files.

use std::path::{Path, PathBuf};

use opgate_edit::{Edit, Fix, Safety};
use opgate_files::Request;
use serde::Serialize;

/// A fix. Its members are those of the contract: pointers are relative to the object of the violation.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli) struct ReportedFix {
    #[serde(flatten)]
    fix: Box<Fix>,
    /// The edits in files; none if an edit is not in a file.
    #[serde(skip)]
    edits: Option<Vec<FileEdit>>,
}

/// An edit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct FileEdit {
    /// The file.
    pub(in crate::cli) path: PathBuf,
    /// The number of its document; none for the file itself.
    pub(in crate::cli) document: Option<usize>,
    /// The edit, with a pointer into the document.
    pub(in crate::cli) edit: Edit,
    /// The directory of the bundle, in which a file can be moved.
    pub(in crate::cli) directory: Option<PathBuf>,
}

impl ReportedFix {
    pub(super) fn new(fix: Box<Fix>) -> Self {
        Self { fix, edits: None }
    }

    /// Finds the places of the edits in the files of a request.
    pub(in crate::cli) fn locate(&mut self, request: &Request) {
        let edit = |edit: &Edit| {
            let target = request.edit_target(edit.pointer())?;
            Some(FileEdit {
                path: PathBuf::from(target.file),
                document: target.document,
                edit: edit.with_pointer(target.pointer),
                directory: target.directory.map(PathBuf::from),
            })
        };
        self.edits = self.fix.edits.iter().map(edit).collect();
    }

    /// Leaves out the edits if a file gets another name: standard input is no file.
    pub(in crate::cli) fn rename_files(&mut self, named: impl Fn(&str) -> String) {
        let is_renamed = |edit: &FileEdit| {
            let path = edit.path.display().to_string();
            named(&path) != path
        };
        self.edits.take_if(|edits| edits.iter().any(is_renamed));
    }

    /// Returns the edits in files; none if the fix is not for a file.
    pub(in crate::cli) fn edits(&self) -> Option<&[FileEdit]> {
        self.edits.as_deref()
    }

    /// Returns the files after the fix, with their new texts; none if the fix is not for texts, or cannot be made.
    /// `text_of` returns the text of a file.
    pub(in crate::cli) fn new_texts(
        &self,
        mut text_of: impl FnMut(&Path) -> Option<String>,
    ) -> Option<Vec<(&Path, String)>> {
        let mut files: Vec<(&Path, String)> = Vec::new();
        for FileEdit { path, document, edit, .. } in self.edits()? {
            let known = files.iter().position(|(known, _)| *known == path);
            let old = match known.and_then(|index| files.get(index)) {
                Some((_, text)) => text.clone(),
                None => text_of(path)?,
            };
            let name = path.file_name()?.to_string_lossy();
            let new = opgate_fix::apply(&old, &name, (*document)?, std::slice::from_ref(edit));
            let new = new.ok()?;
            match known.and_then(|index| files.get_mut(index)) {
                Some((_, text)) => *text = new,
                None => files.push((path, new)),
            }
        }
        Some(files)
    }

    /// Returns what it does.
    pub(in crate::cli) fn title(&self) -> &str {
        &self.fix.title
    }

    /// Reports whether it needs no review.
    pub(in crate::cli) fn is_safe(&self) -> bool {
        self.fix.safety == Safety::Safe
    }
}
