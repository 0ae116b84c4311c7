//! The fix of a violation, with the places of its edits in files.

use std::path::{Path, PathBuf};

use opgate_edit::{Edit, Fix, Safety};
use opgate_files::Request;
use opgate_platform::files::display_path;
use serde::Serialize;

/// A fix. Its members are those of the contract: pointers are relative to the object of the violation,
/// which is the workload of a Pod.
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

    /// Returns it with the places of the edits in the files of a request; none if it changes a part of a Pod that the
    /// template of the workload does not have.
    pub(in crate::cli) fn located(mut self, request: &Request) -> Option<Self> {
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
        if let Some(template) = &request.template {
            self.edits.as_ref()?;
            for edit in &mut self.fix.edits {
                *edit = edit.with_pointer(format!("{}{}", template.pointer, edit.pointer()));
            }
        }
        Some(self)
    }

    /// Leaves out the edits if a file gets another name: standard input is no file.
    pub(in crate::cli) fn rename_files(&mut self, named: impl Fn(&str) -> String) {
        let is_renamed = |edit: &FileEdit| {
            let path = display_path(&edit.path);
            named(&path) != path
        };
        self.edits.take_if(|edits| edits.iter().any(is_renamed));
    }

    /// Moves the edits from one directory to another.
    pub(in crate::cli) fn move_files(&mut self, from: &Path, to: &Path) {
        let moved = |path: &Path| Some(to.join(path.strip_prefix(from).ok()?));
        for edit in self.edits.iter_mut().flatten() {
            edit.path = moved(&edit.path).unwrap_or_else(|| edit.path.clone());
            edit.directory =
                edit.directory.as_deref().map(|it| moved(it).unwrap_or_else(|| it.to_path_buf()));
        }
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

#[cfg(test)]
mod tests {
    use opgate_files::{CheckInputType, DetectedInput};
    use opgate_input::read::Reader;
    use serde_json::{Value, json};

    use super::*;

    /// The pointers that are reported, and those in the file.
    fn pointers(fix: &ReportedFix) -> (Vec<Value>, Vec<&str>) {
        let fix_json = serde_json::to_value(fix).unwrap();
        let reported = fix_json["edits"].as_array().unwrap().iter();
        let edits = fix.edits().unwrap().iter().map(|edit| edit.edit.pointer()).collect();
        (reported.map(|edit| edit["pointer"].clone()).collect(), edits)
    }

    #[test]
    fn fixes_of_pods_are_relative_to_the_workload() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        let workload = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  volumeClaimTemplates: [{metadata: {name: data}}]\n  template: {spec: {volumes: [{name: cache}, {name: data}]}}\n";
        std::fs::write(&path, workload).unwrap();
        let input = DetectedInput::new(&path, CheckInputType::Manifest);
        let mut subject = opgate_files::load(&input, None, &Reader::default()).unwrap().remove(0);
        subject.expand_pod_templates();
        let located = |request: &Request, pointers: &[&str]| {
            let remove = |pointer: &&str| Edit::Remove { pointer: (*pointer).to_owned() };
            let edits = pointers.iter().map(remove).collect();
            let fix = Fix { title: "remove".to_owned(), safety: Safety::Safe, edits };
            ReportedFix::new(Box::new(fix)).located(request)
        };
        let [workload, pod] = &subject.requests[..] else { panic!("{:?}", subject.requests) };
        let fix = located(workload, &["/metadata/namespace"]).unwrap();
        assert_eq!(
            pointers(&fix),
            (vec![json!("/metadata/namespace")], vec!["/metadata/namespace"])
        );
        for pointer in
            ["/spec/hostNetwork", "/metadata/labels/a", "/metadata/finalizers", "/spec/volumes/0/x"]
        {
            let fix = located(pod, &[pointer]).unwrap();
            let expected = format!("/spec/template{pointer}");
            assert_eq!(pointers(&fix), (vec![json!(expected)], vec![expected.as_str()]));
        }
        // The controller writes these, and a fix is applied as a whole.
        for pointer in [
            "/metadata/namespace",
            "/metadata/labelled",
            "/kind",
            "/spec",
            "/spec/volumes",
            "/spec/volumes/1/name",
        ] {
            assert!(located(pod, &[pointer]).is_none(), "{pointer}");
            assert!(located(pod, &["/spec/hostNetwork", pointer]).is_none(), "{pointer}");
        }
    }
}
