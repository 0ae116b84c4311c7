//! The objects of one file.
//!
//! A list counts as its items, also in lists of lists. A stack of pointers visits them, so that
//! deep nesting does not deepen the call stack.

use opgate_sdk::{Document, Kind, Report, rule, rules};

use crate::BUNDLE;

rules![PBF_04, PBF_05];

rule! {
    /// manifests/ contains only static manifests
    ///
    /// Each file directly in `manifests/` is named `*.yaml`, `*.yml` or `*.json` and can be parsed,
    /// and each document in it is an object. A file can contain several documents. `apiVersion`,
    /// `kind` and `metadata.name` of an object do not contain a template action (`{{`). In other
    /// fields `{{` is data. A duplicate key in a mapping is a warning, because the provisioner
    /// reads the last one. On UPDATE the rule evaluates the whole bundle.
    ///
    /// # Why
    ///
    /// Provisioners do not render templates, and any other file cannot be applied: creating the
    /// content of the bundle on the cluster fails. OpenShift 4.12, Operators, *Plain bundle spec*,
    /// states this for all content that is not a static manifest.
    ///
    /// # Remediation
    ///
    /// Move other files, such as a README, out of `manifests/`. Render templates before you build
    /// the bundle. Correct the location that the message names in a file that cannot be parsed, and
    /// remove all but one of the values of a key.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # manifests/x.yaml
    /// apiVersion: v1
    /// kind: Namespace
    /// metadata: {name: x}
    /// ---
    /// apiVersion: v1
    /// kind: Secret
    /// metadata: {name: a}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # manifests/x.yaml
    /// apiVersion: v1
    /// kind: Secret
    /// metadata: {name: "{{ .Release.Name }}"}
    /// ```
    ///
    /// `message: manifests/x.yaml: not a static manifest: metadata.name contains a template action`
    ///
    /// For `manifests/README.md` the message ends with `neither YAML nor JSON`, for a document that
    /// is a list or a text with `not an object`, and for a file that cannot be parsed with the
    /// reason.
    pub(crate) PBF_04: Deny {
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1215-1217", "OCP 4.15 L1066-1068", "OKD L457", "rukpak v0.16.0 internal/provisioner/plain/plain.go"],
    }
}

/// A value to visit: its pointer and field, and whether a typed list determines its type.
struct PendingValue {
    pointer: String,
    field: String,
    is_typed: bool,
}

/// Evaluates the objects of a file and returns their number.
pub(crate) fn check(file: &Document, field: &str, path: &str, report: &mut Report<'_>) -> usize {
    let mut count = 0;
    for document in 0..file.length("/documents").unwrap_or_default() {
        let mut open = vec![PendingValue {
            pointer: format!("/documents/{document}"),
            field: format!("{field}.documents[{document}]"),
            is_typed: false,
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
                // The last one first, because the stack reverses the order.
                for item in (0..object.length("/items").unwrap_or_default()).rev() {
                    open.push(PendingValue {
                        pointer: format!("{}/items/{item}", next.pointer),
                        field: format!("{}.items[{item}]", next.field),
                        is_typed: kind != "List",
                    });
                }
                continue;
            }
            // An empty List can omit its items.
            if kind == "List" && !object.has("/items") {
                continue;
            }
            check_applicable(&object, &next, path, count, report);
            count += 1;
        }
    }
    count
}

rule! {
    /// every object has apiVersion, kind and a name
    ///
    /// Each object in the files directly in `manifests/` has `apiVersion`, `kind` and
    /// `metadata.name`, each a text that is not empty; `metadata.generateName` does not count as a
    /// name. A list (an object with `items` whose `kind` ends with `List`) counts as its items and
    /// needs neither `apiVersion` nor a name itself. Items of a typed list such as `ConfigMapList`
    /// take `apiVersion` and `kind` from the list; items of a `List` have their own. On UPDATE the
    /// rule evaluates the whole bundle.
    ///
    /// # Why
    ///
    /// An object without these fields cannot be applied, and one file that cannot be applied makes
    /// the installation of the bundle fail; see OpenShift 4.12, Operators, *Plain bundle spec*.
    ///
    /// # Remediation
    ///
    /// Add the field that the message names. Write a name instead of `metadata.generateName`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # manifests/x.yaml
    /// apiVersion: v1
    /// kind: List
    /// items:
    /// - {apiVersion: v1, kind: Namespace, metadata: {name: x}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # manifests/x.yaml
    /// apiVersion: v1
    /// kind: ConfigMap
    /// metadata: {generateName: x-}
    /// ```
    ///
    /// `message: manifests/x.yaml: object 0: metadata.name is missing; any file that would not
    /// successfully apply results in an error`
    ///
    /// Objects of a file are counted from 0, through all of its documents and lists.
    PBF_05: Deny {
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1217", "OCP 4.15 L1068", "OKD L457"],
    }
}

/// Checks PBF-05, and PBF-04 if a template would fill in a field that identifies the object.
fn check_applicable(
    object: &Document,
    at: &PendingValue,
    path: &str,
    index: usize,
    report: &mut Report<'_>,
) {
    for member in ["apiVersion", "kind", "metadata.name"] {
        let text = object.text_or_empty(&format!("/{}", member.replace('.', "/")));
        // The items of a typed list take both from the list.
        let is_implied = at.is_typed && member != "metadata.name";
        if text.is_empty() && !is_implied {
            let message = format!(
                "{path}: object {index}: {member} is missing; any file that would not successfully apply results in an error"
            );
            // The field that the member should have: the host maps it to the nearest location.
            report.add(&PBF_05, format!("{}.{member}", at.field), message);
        }
        if text.contains("{{") {
            let message =
                format!("{path}: not a static manifest: {member} contains a template action");
            report.add(&PBF_04, format!("{}.{member}", at.field), message);
        }
    }
}
