//! The objects of one file.
//!
//! A list stands for its items, in lists of lists as well. They are taken apart with a stack of
//! pointers, so that deep nesting costs no depth of calls.

use opgate_sdk::{Document, Kind, Report, rules};

use crate::manifests::PBF_04;

rules![];

/// Something to look at, and where it is.
struct Next {
    pointer: String,
    field: String,
}

/// Gives the number of objects.
pub(crate) fn judge(file: &Document, field: &str, path: &str, report: &mut Report<'_>) -> usize {
    let mut count = 0;
    for document in 0..file.length("/documents").unwrap_or_default() {
        let mut open = vec![Next {
            pointer: format!("/documents/{document}"),
            field: format!("{field}.documents[{document}]"),
        }];
        while let Some(next) = open.pop() {
            let Some(object) = file.at(&next.pointer) else { continue };
            if object.kind("") != Kind::Object {
                let message = format!("{path}: not a static manifest: not an object");
                report.add(&PBF_04, next.field, message);
                continue;
            }
            let kind = object.text_or_empty("/kind");
            if kind.ends_with("List") && object.kind("/items") == Kind::List {
                // The last one first, because the stack turns them around.
                for item in (0..object.length("/items").unwrap_or_default()).rev() {
                    open.push(Next {
                        pointer: format!("{}/items/{item}", next.pointer),
                        field: format!("{}.items[{item}]", next.field),
                    });
                }
                continue;
            }
            // An empty List may leave its items out.
            if kind == "List" && !object.has("/items") {
                continue;
            }
            applies(&object, &next, path, report);
            count += 1;
        }
    }
    count
}

/// PBF-04 where a template would fill in what identifies the object.
fn applies(object: &Document, at: &Next, path: &str, report: &mut Report<'_>) {
    for member in ["apiVersion", "kind", "metadata.name"] {
        let text = object.text_or_empty(&format!("/{}", member.replace('.', "/")));
        if text.contains("{{") {
            let message =
                format!("{path}: not a static manifest: {member} contains a template action");
            report.add(&PBF_04, format!("{}.{member}", at.field), message);
        }
    }
}
