//! The objects of one file: PBF-04 for documents that are none, PBF-05 for what each needs to be
//! applied.
//!
//! A list stands for its items, in lists of lists as well. They are taken apart with a stack of
//! pointers, so that deep nesting costs no depth of calls.

use opgate_sdk::{Document, Kind};

use crate::findings::Findings;

/// Something to look at: where it is, and whether a typed list says what it is.
struct Next {
    pointer: String,
    field: String,
    is_typed: bool,
}

/// Gives the number of objects.
pub(crate) fn judge(file: &Document, field: &str, path: &str, findings: &mut Findings) -> usize {
    let mut count = 0;
    for document in 0..file.length("/documents").unwrap_or_default() {
        let mut open = vec![Next {
            pointer: format!("/documents/{document}"),
            field: format!("{field}.documents[{document}]"),
            is_typed: false,
        }];
        while let Some(next) = open.pop() {
            let Some(object) = file.at(&next.pointer) else { continue };
            if object.kind("") != Kind::Object {
                let message = format!("{path}: not a static manifest: not an object");
                findings.deny("PBF-04", next.field, message);
                continue;
            }
            let kind = object.text_or_empty("/kind");
            if kind.ends_with("List") && object.kind("/items") == Kind::List {
                // The last one first, because the stack turns them around.
                for item in (0..object.length("/items").unwrap_or_default()).rev() {
                    open.push(Next {
                        pointer: format!("{}/items/{item}", next.pointer),
                        field: format!("{}.items[{item}]", next.field),
                        is_typed: kind != "List",
                    });
                }
                continue;
            }
            // An empty List may leave its items out.
            if kind == "List" && !object.has("/items") {
                continue;
            }
            applies(&object, &next, path, count, findings);
            count += 1;
        }
    }
    count
}

/// PBF-05, and PBF-04 where a template would fill in what identifies the object.
fn applies(object: &Document, at: &Next, path: &str, index: usize, findings: &mut Findings) {
    for member in ["apiVersion", "kind", "metadata.name"] {
        let text = object.text_or_empty(&format!("/{}", member.replace('.', "/")));
        // The items of a typed list take both from the list.
        let is_implied = at.is_typed && member != "metadata.name";
        if text.is_empty() && !is_implied {
            let message = format!(
                "{path}: object {index}: {member} is missing; any file that would not successfully apply results in an error"
            );
            // Where the member should be: the host finds the nearest thing around it.
            findings.deny("PBF-05", format!("{}.{member}", at.field), message);
        }
        if text.contains("{{") {
            let message =
                format!("{path}: not a static manifest: {member} contains a template action");
            findings.deny("PBF-04", format!("{}.{member}", at.field), message);
        }
    }
}
