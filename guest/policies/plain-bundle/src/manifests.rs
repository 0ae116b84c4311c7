//! The directory `manifests/`: PBF-01 to PBF-04. After rukpak v0.16.0
//! internal/provisioner/plain/plain.go.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::objects;

const DIRECTORY: &str = "manifests";

/// What `manifests/` holds.
#[derive(Default)]
struct Contents {
    is_there: bool,
    objects: usize,
    /// There is something that may hold objects but could not be looked at.
    is_uncertain: bool,
}

pub(crate) fn judge(bundle: &Document, findings: &mut Findings) {
    let mut contents = Contents::default();
    subdirectories(bundle, &mut contents, findings);
    // A link in the place of the directory, or one that may not be read.
    let mut refused = None;
    for (index, file) in (0u32..).zip(bundle.items("/spec/files")) {
        let Some(path) = file.text("/path") else { continue };
        if path == DIRECTORY && file.kind("/error") == Kind::Object {
            let field = format!("spec.files[{index}].error");
            refused = Some((field, file.text_or_empty("/error/message")));
        }
        if directory_of(&path) == Some(DIRECTORY) {
            contents.is_there = true;
            manifest(&file, index, &path, &mut contents, findings);
        }
    }
    if !contents.is_there {
        let open = "get objects from bundle manifests: open manifests";
        let (field, why) = refused
            .unwrap_or_else(|| ("spec.directories".to_owned(), "file does not exist".to_owned()));
        findings.deny("PBF-01", field, format!("{open}: {why}"));
    } else if contents.objects == 0 && !contents.is_uncertain {
        let message = "invalid bundle: found zero objects: plain+v0 bundles are required to contain at least one object";
        findings.deny("PBF-02", "spec.files", message);
    }
}

fn directory_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(directory, _)| directory)
}

/// PBF-03: every directory directly below `manifests/`, whether it is listed or a file is in it.
fn subdirectories(bundle: &Document, contents: &mut Contents, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    let mut found = |path: &str, is_directory: bool, field: String| {
        if path == DIRECTORY && is_directory {
            contents.is_there = true;
        }
        let mut parts = path.split('/');
        let (Some(DIRECTORY), Some(name), rest) = (parts.next(), parts.next(), parts.next()) else {
            return;
        };
        if (is_directory || rest.is_some()) && seen.insert(name.to_owned()) {
            contents.is_there = true;
            contents.is_uncertain = true;
            let message = format!(
                "get objects from bundle manifests: subdirectories are not allowed within the {} directory of the bundle image filesystem: found {}",
                quote(DIRECTORY),
                quote(&format!("{DIRECTORY}/{name}"))
            );
            findings.deny("PBF-03", field, message);
        }
    };
    for (index, path) in bundle.texts("/spec/directories").iter().enumerate() {
        found(path, true, format!("spec.directories[{index}]"));
    }
    for (index, file) in bundle.items("/spec/files").enumerate() {
        found(&file.text_or_empty("/path"), false, format!("spec.files[{index}]"));
    }
}

/// PBF-04 for one file, then its objects.
fn manifest(
    file: &Document,
    index: u32,
    path: &str,
    contents: &mut Contents,
    findings: &mut Findings,
) {
    let field = format!("spec.files[{index}]");
    if file.kind("/error") == Kind::Object {
        contents.is_uncertain = true;
        let why = file.text_or_empty("/error/message");
        let message = format!("{path}: not a static manifest: {why}");
        findings.deny("PBF-04", format!("{field}.error"), message);
    } else if file.kind("/documents") != Kind::List {
        let message = format!("{path}: not a static manifest: neither YAML nor JSON");
        findings.deny("PBF-04", field, message);
    } else {
        contents.objects += objects::judge(file, &field, path, findings);
    }
}
