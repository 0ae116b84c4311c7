//! Cases of rules: what each rule accepts and rejects, in one format for all policies.
//!
//! ```text
//! cases/<RULE>.yaml ─┐                ┌─▶ the policy's code, natively ──┐
//! cases/objects.yaml ┴▶ read ─▶ Case ─┴─▶ review(): its component ──────┴▶ Answer ─▶ compare ─▶ Diff
//!        ▲                                                                                  │
//!        └───────────────────────────── update ◀────────────────────────────────────────────┘
//! ```
//!
//! Nothing here reads files or runs a policy: that is up to those who do. Nothing panics: what is wrong
//! with a file is said with its line.
//!
//! A file:
//!
//! ```yaml
//! rule: PBF-02                     # the name of the file
//! settings: {}                     # for all cases below, unless they have their own
//! cluster: none                    # the objects of the cluster, or none (there is no cluster to ask)
//! otherRules: ignored                  # what other rules find does not count; otherwise left out
//! accept:                          # the rule finds nothing
//! - name: one object
//!   folder: {manifests/a.yaml: {apiVersion: v1, kind: Namespace, metadata: {name: a}}}
//! reject:                          # the rule finds this
//! - name: an empty directory
//!   folder: {}
//!   directories: [manifests]
//!   field: spec.files
//!   message: "invalid bundle: …"
//! skip:                            # the rule could not be evaluated
//! - name: without a cluster
//!   create: …
//! ```
//!
//! **What is judged** is one of:
//! * `create: OBJECT`, `update: [OLD, NEW]`, `delete: OBJECT`: an object, or the name of one in
//!   `objects.yaml`. `with` changes it (the new one) by JSON pointer, `null` takes away; `withOld` the
//!   old one. `request` says what does not follow from the object: `name`, `namespace`, `user`,
//!   `groups`, `subResource`, `resource`, `version`.
//! * `folder: FILES`: a bundle as files (`files`, `patch`, `directories` and `compressedSize` change a
//!   folder that has a name). Content by path: an object is one document, a list several, a text a
//!   file that is neither YAML nor JSON, `{$error: why}` one that cannot be read, `{$twice: why, …}` one
//!   document with a name that stands twice in it, `{$binary: SIZE}` one of bytes. Places in files are written `manifests/a.yaml#documents[0].kind`.
//! * `catalog: {blobs: […]}`: a package of a catalog, with `package`, `packages`, `files`,
//!   `directories`, `more` blobs after the others, and `baseline`, the blobs that were published. Each
//!   list of blobs may be the name of one in `objects.yaml`. The blob `{$bundle: a.v1.0.0}` is a bundle
//!   of that name, with a package, an image and a version that fit it; other members replace those.
//!
//! **A repair**: `repairs: NAME` of an accepted case names a rejected one of the file. It is about the same,
//! and its other members are changes: those of `with`, `patch`, `files`, `request` and `catalog` are added
//! to those of the rejected case, others replace them.
//!
//! **The cluster** is a list of objects, or names of objects in `objects.yaml`. An element without a
//! kind, `{gitVersion: v1.25.4}`, is the version of the API server, as `/version` gives it.
//!
//! **What must be found**: everything, also of other rules unless `otherRules: ignored`. `field`, `message` and `level` (by default the
//! rule's own) for one finding of the rule, `findings` for several, `also` for those of other rules,
//! each with its `rule`. `starts` in the place of `message` gives its beginning. `skipped` lists the
//! rules that are not evaluated, `notes` the audit annotations, `reason` that of the denial.

mod case;
mod compare;
mod documents;
mod entry;
mod tree;
mod update;

use std::fmt;

pub use case::{Case, Expects, Finding, Place, server_version};
pub use compare::{Answer, Diff};
pub use entry::RequestParts;
pub use opgate_upstream::kinds::plural;
use serde_json::Value;
pub use update::update;

/// The file with objects that cases name.
pub const OBJECTS: &str = "objects.yaml";

/// Bytes of JSON that a file may become.
const ROOM: usize = 64 << 20;

/// A file of a folder with cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name in the folder: `IMG-1.yaml`, or `objects.yaml`.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The name of the file.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// One sentence, in lower case.
    pub why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.why)
    }
}

impl std::error::Error for Wrong {}

/// All cases of a folder, in the order of its files; `objects.yaml` may be among these. `kinds` are
/// those that the policy looks at: they say what a `folder` is.
///
/// # Errors
/// Everything that is wrong.
pub fn read(files: &[File], kinds: &[&str]) -> Result<Vec<Case>, Vec<Wrong>> {
    let (mut cases, mut wrong) = (Vec::new(), Vec::new());
    let mut objects = Value::Null;
    if let Some(file) = files.iter().find(|file| file.name == OBJECTS) {
        match tree::parse(file) {
            Ok((Value::Null, _)) => {}
            Ok((found @ Value::Object(_), _)) => objects = found,
            Ok(_) => {
                let why = "not objects by their names".to_owned();
                wrong.push(Wrong { file: file.name.clone(), line: 1, why });
            }
            Err(why) => wrong.push(why),
        }
    }
    for file in files.iter().filter(|file| file.name != OBJECTS) {
        match case::read_file(file, &objects, kinds) {
            Ok(found) => cases.extend(found),
            Err(found) => wrong.extend(found),
        }
    }
    if wrong.is_empty() { Ok(cases) } else { Err(wrong) }
}

/// The line of an offset, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
