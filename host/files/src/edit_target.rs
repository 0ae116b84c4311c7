//! The place in a file of what a JSON pointer of a request's object leads to, for edits of the file.

use super::bundle::Bundle;
use super::catalog::Package;
use super::content::Origin;
use super::reviews::{Request, RequestObject};

/// The place of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditTarget {
    /// The path of the file, as it was named or found below a directory.
    pub file: String,
    /// The directory of the bundle, if it is one.
    pub directory: Option<String>,
    /// The number of the document in the file, without empty ones; none for the file itself.
    pub document: Option<usize>,
    /// The JSON pointer in the document.
    pub pointer: String,
}

impl Request {
    /// Returns the place of a JSON pointer into the object; none if no file has it.
    pub fn edit_target(&self, pointer: &str) -> Option<EditTarget> {
        if self.is_stored || self.recorded.is_some() {
            return None;
        }
        match &self.object {
            RequestObject::Bundle(bundle) => bundle.edit_target(pointer),
            RequestObject::Package(package) => package.edit_target(pointer),
            RequestObject::Object(object) => {
                let is_of_controller = self.template.is_some() && !object.is_in_template(pointer);
                if object.file.origin != Origin::Whole || is_of_controller {
                    return None;
                }
                Some(EditTarget {
                    file: object.file.display_path.clone(),
                    directory: None,
                    document: Some(object.index),
                    pointer: format!("{}{pointer}", object.pointer),
                })
            }
        }
    }
}

/// Splits `/spec/files/3/documents/…` into 3 and the rest, for the list `files`.
fn split_index<'p>(pointer: &'p str, list: &str) -> Option<(usize, &'p str)> {
    let rest = pointer.strip_prefix("/spec/")?.strip_prefix(list)?.strip_prefix('/')?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (index, rest) = rest.split_at_checked(end)?;
    Some((index.parse().ok()?, rest))
}

impl Bundle {
    fn edit_target(&self, pointer: &str) -> Option<EditTarget> {
        let (position, rest) = split_index(pointer, "files")?;
        let file = self.files.get(position)?;
        let directory = file.display_path.strip_suffix(file.path.as_str());
        let place = |document, pointer: &str| EditTarget {
            file: file.display_path.clone(),
            directory: directory.map(str::to_owned),
            document,
            pointer: pointer.to_owned(),
        };
        let Some(rest) = rest.strip_prefix("/documents/") else {
            return rest.is_empty().then(|| place(None, ""));
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (index, pointer) = rest.split_at_checked(end)?;
        Some(place(Some(index.parse().ok()?), pointer))
    }
}

impl Package {
    fn edit_target(&self, pointer: &str) -> Option<EditTarget> {
        let (position, rest) = split_index(pointer, "blobs")?;
        let (file, index) = self.blobs.get(position)?;
        let pointer = rest.strip_prefix("/value")?;
        let is_whole = file.origin == Origin::Whole;
        is_whole.then(|| EditTarget {
            file: file.display_path.clone(),
            directory: None,
            document: Some(*index),
            pointer: pointer.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use opgate_input::read::Reader;

    use super::*;
    use crate::kinds::{CheckInputType, DetectedInput};
    use crate::load;
    use crate::testing::TempDirectory;

    fn targets(
        directory: &TempDirectory,
        input_type: CheckInputType,
        pointer: &str,
    ) -> Vec<String> {
        let input = DetectedInput::new(directory.path(), input_type);
        let subjects = load(&input, None, &Reader::default()).unwrap();
        let requests = subjects.iter().flat_map(|subject| &subject.requests);
        let root = directory.path().display().to_string();
        let shown = |target: EditTarget| {
            let EditTarget { file, document, pointer, .. } = target;
            format!("{} {document:?} {pointer}", file.replace(&root, ""))
        };
        requests.filter_map(|request| request.edit_target(pointer).map(shown)).collect()
    }

    #[test]
    fn pointers_of_bundles_lead_into_their_files() {
        let directory = TempDirectory::new(&[
            ("manifests/a.yaml", "kind: A\napiVersion: v1\n---\nkind: B\napiVersion: v1\n"),
            ("metadata/annotations.yaml", "annotations: {}\n"),
        ]);
        let of = |pointer| targets(&directory, CheckInputType::Bundle, pointer);
        let at = "/spec/files/0/documents/1/metadata";
        assert_eq!(of(at)[0], "/manifests/a.yaml Some(1) /metadata");
        assert_eq!(of("/spec/files/1")[0], "/metadata/annotations.yaml None ");
        // The other requests are the manifests themselves.
        assert_eq!(
            of("/kind")[..],
            ["/manifests/a.yaml Some(0) /kind", "/manifests/a.yaml Some(1) /kind"]
        );
        assert!(of("/spec/files/7/documents/0").len() == 2);
        assert!(of("/spec/directories/0").len() == 2);
    }

    #[test]
    fn pointers_of_catalogs_and_lists_lead_into_their_files() {
        let directory = TempDirectory::new(&[
            ("a.yaml", "schema: olm.package\nname: a\n"),
            ("b.json", "{\"schema\": \"x\"}{\"schema\": \"olm.channel\", \"package\": \"a\"}"),
        ]);
        let of = |pointer| targets(&directory, CheckInputType::Catalog, pointer);
        assert_eq!(of("/spec/blobs/1/value/name")[0], "/b.json Some(1) /name");
        assert!(of("/spec/blobs/1/file").is_empty());
        let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n";
        let directory = TempDirectory::new(&[("a.yaml", text)]);
        let of = |pointer| targets(&directory, CheckInputType::Manifest, pointer);
        assert_eq!(of("/spec/x"), ["/a.yaml Some(0) /items/0/spec/x"]);
    }
}
