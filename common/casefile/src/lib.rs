//! Cases of rules: what each rule accepts and rejects, in one format for all policies.
//!
//! ```text
//! cases/<RULE>.yaml ─┐                ┌─▶ the policy's code, natively ──┐
//! cases/objects.yaml ┴▶ read ─▶ Case ─┴─▶ review(): its component ──────┴▶ PolicyResult ─▶ compare ─▶ Diff
//!        ▲                                                                                  │
//!        └───────────────────────────── update ◀────────────────────────────────────────────┘
//! ```
//!
//! This crate neither reads files nor runs policies: its callers do. It does not panic: an error in a file
//! is returned with its line.
//!
//! A file:
//!
//! ```yaml
//! rule: IMG-1                      # the name of the file
//! settings: {}                     # for all cases below, unless they have their own
//! cluster: none                    # the objects of the cluster, or none (there is no cluster state)
//! otherRules: ignored              # violations of other rules do not count; optional
//! accept:                          # no violation of the rule
//! - name: a digest
//!   create: pod                    # a name in objects.yaml
//! reject:                          # this violation of the rule
//! - name: a tag
//!   create: pod
//!   with: {/spec/containers/0/image: "a:v1"}
//!   field: spec.containers[0].image
//!   message: "pin the image: …"
//! skip:                            # the rule could not be evaluated
//! - name: without a cluster
//!   create: …
//! ```
//!
//! **The subject** is one of:
//! * `create: OBJECT`, `update: [OLD, NEW]`, `delete: OBJECT`: an object, or the name of one in
//!   `objects.yaml`. `with` changes it (the new one) by JSON pointer, `null` removes a member; `withOld`
//!   changes the old one. `request` sets the members that do not follow from the object: `name`, `namespace`,
//!   `user`, `groups`, `subResource`, `resource`, `version`.
//! * `directory: FILES`: a bundle as files (`files`, `patch`, `directories` and `compressedSize` change a
//!   directory that has a name). Content by path: an object is one document, a list several, a text a file
//!   that is neither YAML nor JSON, `{$error: why}` an unreadable one, `{$twice: why, …}` one document with a
//!   duplicate name, `{$binary: SIZE}` one of bytes. Locations in files are written
//!   `manifests/a.yaml#documents[0].kind`.
//! * `catalog: {blobs: […]}`: a package of a catalog, with `package`, `packages`, `files`,
//!   `directories`, `more` blobs after the others, and `baseline`, the blobs that were published. Each
//!   list of blobs may be the name of one in `objects.yaml`. The blob `{$bundle: a.v1.0.0}` is a bundle
//!   of that name, with a package, an image and a version that fit it; other members replace those.
//!
//! **A fix**: `fixes: NAME` of an accepted case names a rejected one of the file. It has the same subject,
//! and its other members are changes: those of `with`, `patch`, `files`, `request` and `catalog` are added to
//! those of the rejected case, others replace them.
//!
//! **No evaluation**: an accepted case shows that its rule evaluates a request and finds nothing. With `matches:
//! false`, it shows that the rule does not evaluate the request: another kind, operation or scope, or a rule that is
//! off.
//!
//! **The fixed object**: `fixed` of a rejected case is the object after the fixes of the rule's violations: an
//! object, the name of one in `objects.yaml`, or the values that the fixes change, as in `with`. For a bundle it has
//! these changes by path, as `patch` and `files` do. Without `fixed`, every fix must still apply.
//!
//! **The cluster** is a list of objects, or names of objects in `objects.yaml`. An element without a
//! kind, `{gitVersion: v1.25.4}`, is the version of the API server, as `/version` gives it.
//!
//! **The expected result** is complete: it includes other rules unless `otherRules: ignored`. `field`,
//! `message` and `level` (by default that of the rule) describe one violation of the rule, `violations`
//! several, `otherViolations` those of other rules, each with its `rule`. `messagePrefix` instead of `message`
//! is its beginning. `skipped` lists the skipped rules, `auditAnnotations` the audit annotations, `reason` that
//! of the denial.

mod case;
mod compare;
mod documents;
mod entry;
mod fixed;
mod tree;
mod update;

use std::fmt;

pub use case::{Case, Expectation, Location, Violation, server_version};
pub use compare::{Diff, PolicyResult};
pub use entry::RequestParts;
pub use fixed::apply_fixes;
pub use opgate_compat::kinds::plural;
use serde_json::Value;
pub use update::{UpdateError, set_cluster, update};

/// The file with objects that cases name.
pub const OBJECTS_FILE: &str = "objects.yaml";

/// JSON Schema of a file with the cases of a rule, for editors.
pub const SCHEMA: &str = include_str!("schema.json");

/// Bytes of JSON that a file may become.
const MAX_JSON_BYTES: usize = 64 << 20;

/// A file of a case directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name in the directory: `IMG-1.yaml`, or `objects.yaml`.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// An error in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseFileError {
    /// The name of the file.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// One sentence, in lower case.
    pub message: String,
}

impl fmt::Display for CaseFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for CaseFileError {}

/// Reads all cases of a directory, in the order of its files; `objects.yaml` may be among these. `kinds` are
/// the kinds that the policy matches: they determine the type of a bundle in a case.
///
/// # Errors
/// Everything that is wrong.
pub fn read(files: &[File], kinds: &[&str]) -> Result<Vec<Case>, Vec<CaseFileError>> {
    let (mut cases, mut errors) = (Vec::new(), Vec::new());
    let mut objects = Value::Null;
    if let Some(file) = files.iter().find(|file| file.name == OBJECTS_FILE) {
        match tree::parse(file) {
            Ok((Value::Null, _)) => {}
            Ok((found @ Value::Object(_), _)) => objects = found,
            Ok(_) => {
                let why = "not objects by their names".to_owned();
                errors.push(CaseFileError { file: file.name.clone(), line: 1, message: why });
            }
            Err(why) => errors.push(why),
        }
    }
    for file in files.iter().filter(|file| file.name != OBJECTS_FILE) {
        match case::read_file(file, &objects, kinds) {
            Ok(found) => cases.extend(found),
            Err(found) => errors.extend(found),
        }
    }
    if errors.is_empty() { Ok(cases) } else { Err(errors) }
}

/// Returns the line of an offset, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
