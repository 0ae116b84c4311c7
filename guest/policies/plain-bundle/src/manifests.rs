//! The directory `manifests/`: PBF-01 to PBF-04. After rukpak v0.16.0
//! internal/provisioner/plain/plain.go.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Level, Report, Review, rule, rules};

use crate::BUNDLE;
use crate::objects::{self, PBF_04};

rules![PBF_01, PBF_02, PBF_03];

rule! {
    /// a plain bundle has the directory manifests/
    ///
    /// The bundle has a directory `manifests` at its top level. A file or a symbolic link with that
    /// name does not count. Other entries at the top level are allowed. On UPDATE the rule
    /// evaluates the whole bundle.
    ///
    /// # Why
    ///
    /// The plain provisioner reads only `manifests/`. Without this directory there is nothing to
    /// install, and the provisioner does not unpack the bundle; see OpenShift 4.12, Operators,
    /// *Plain bundle spec*.
    ///
    /// # Remediation
    ///
    /// Put the manifests into a directory `manifests` at the top level of the bundle. Replace a
    /// symbolic link by the directory itself.
    ///
    /// # Accepted
    ///
    /// ```text
    /// manifests/namespace.yaml
    /// manifests/deployment.yaml
    /// README.md
    /// ```
    ///
    /// # Rejected
    ///
    /// ```text
    /// deployment.yaml
    /// ```
    ///
    /// `message: get objects from bundle manifests: open manifests: file does not exist`
    ///
    /// If `manifests` exists but cannot be read, the message contains the reason instead of `file
    /// does not exist`.
    PBF_01: Deny {
        name: "plain-bundle-manifests-directory",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1195-1213", "OCP 4.15 L1048-1062, L21761-21772", "OKD L441-455", "rukpak v0.16.0 internal/provisioner/plain/plain.go"],
    }
}

rule! {
    /// manifests/ contains at least one object
    ///
    /// The files directly in `manifests/` contain at least one object. Empty documents, comments
    /// and a list without items are not objects. The rule reports nothing if `manifests/` is
    /// missing (PBF-01), or if an unreadable file or a subdirectory can contain objects: PBF-04 and
    /// PBF-03 report these. On UPDATE the rule evaluates the whole bundle.
    ///
    /// # Why
    ///
    /// A bundle without objects installs nothing. The plain provisioner rejects it; see OpenShift
    /// 4.12, Operators, *Plain bundle spec*.
    ///
    /// # Remediation
    ///
    /// Add a manifest with at least one object, or remove the bundle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # manifests/namespace.yaml
    /// apiVersion: v1
    /// kind: Namespace
    /// metadata: {name: x}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # manifests/a.yaml has comments only
    /// ```
    ///
    /// `message: invalid bundle: found zero objects: plain+v0 bundles are required to contain at
    /// least one object`
    PBF_02: Deny {
        name: "plain-bundle-has-objects",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1213", "OCP 4.15 L1062", "OKD L453-456", "rukpak v0.16.0 internal/provisioner/plain/plain.go"],
    }
}

const DIRECTORY: &str = "manifests";

/// The contents of `manifests/`.
#[derive(Default)]
struct ManifestContents {
    exists: bool,
    objects: usize,
    /// An entry that can contain objects was not evaluated.
    is_uncertain: bool,
}

/// Evaluates the whole bundle, whether it is new or was published before.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(bundle) = review.object else { return };
    let mut contents = ManifestContents::default();
    check_subdirectories(bundle, &mut contents, report);
    // A link instead of the directory, or an unreadable directory.
    let mut refused = None;
    for (index, file) in (0u32..).zip(bundle.items("/spec/files")) {
        let Some(path) = file.text("/path") else { continue };
        if path == DIRECTORY && file.kind("/error") == Kind::Object {
            let field = format!("spec.files[{index}].error");
            refused = Some((field, file.text_or_empty("/error/message")));
        }
        if directory_of(&path) == Some(DIRECTORY) {
            contents.exists = true;
            check_manifest(&file, index, &path, &mut contents, report);
        }
    }
    if !contents.exists {
        let open = "get objects from bundle manifests: open manifests";
        let (field, why) = refused
            .unwrap_or_else(|| ("spec.directories".to_owned(), "file does not exist".to_owned()));
        report.add(&PBF_01, field, format!("{open}: {why}"));
    } else if contents.objects == 0 && !contents.is_uncertain {
        let message = "invalid bundle: found zero objects: plain+v0 bundles are required to contain at least one object";
        report.add(&PBF_02, "spec.files", message);
    }
}

fn directory_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(directory, _)| directory)
}

rule! {
    /// manifests/ has no subdirectories
    ///
    /// There is no directory in `manifests/`, not even an empty one. The rule reports each
    /// subdirectory directly below `manifests/` once. The contents of subdirectories are not
    /// evaluated. On UPDATE the rule evaluates the whole bundle.
    ///
    /// # Why
    ///
    /// The plain provisioner expects all manifests in one directory and does not unpack a bundle
    /// with subdirectories; see OpenShift 4.12, Operators, *Plain bundle spec*.
    ///
    /// # Remediation
    ///
    /// Move the manifests from the subdirectory up into `manifests/`, and remove the subdirectory.
    ///
    /// # Accepted
    ///
    /// ```text
    /// manifests/a.yaml
    /// manifests/b.json
    /// ```
    ///
    /// # Rejected
    ///
    /// ```text
    /// manifests/a.yaml
    /// manifests/sub/x.yaml
    /// ```
    ///
    /// `message: get objects from bundle manifests: subdirectories are not allowed within the
    /// "manifests" directory of the bundle image filesystem: found "manifests/sub"`
    PBF_03: Deny {
        name: "plain-bundle-no-subdirectories",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1213", "OCP 4.15 L1062", "OKD L456", "rukpak v0.16.0 internal/provisioner/plain/plain.go"],
    }
}

/// PBF-03: reports every directory directly below `manifests/`, whether it is listed or contains a
/// file.
fn check_subdirectories(
    bundle: &Document,
    contents: &mut ManifestContents,
    report: &mut Report<'_>,
) {
    let mut seen = BTreeSet::new();
    let mut found = |path: &str, is_directory: bool, field: String| {
        if path == DIRECTORY && is_directory {
            contents.exists = true;
        }
        let mut parts = path.split('/');
        let (Some(DIRECTORY), Some(name), rest) = (parts.next(), parts.next(), parts.next()) else {
            return;
        };
        if (is_directory || rest.is_some()) && seen.insert(name.to_owned()) {
            contents.exists = true;
            contents.is_uncertain = true;
            let message = format!(
                "get objects from bundle manifests: subdirectories are not allowed within the {} directory of the bundle image filesystem: found {}",
                quote(DIRECTORY),
                quote(&format!("{DIRECTORY}/{name}"))
            );
            report.add(&PBF_03, field, message);
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
fn check_manifest(
    file: &Document,
    index: u32,
    path: &str,
    contents: &mut ManifestContents,
    report: &mut Report<'_>,
) {
    let field = format!("spec.files[{index}]");
    if file.kind("/error") == Kind::Object {
        contents.is_uncertain = true;
        let why = file.text_or_empty("/error/message");
        let message = format!("{path}: not a static manifest: {why}");
        report.add(&PBF_04, format!("{field}.error"), message);
    } else if file.kind("/documents") != Kind::List {
        let message = format!("{path}: not a static manifest: neither YAML nor JSON");
        report.add(&PBF_04, field, message);
    } else {
        if let Some(why) = file.text("/twice/message") {
            let message = format!("{path}: {why}: the last one counts");
            report.add_as(Level::Warn, &PBF_04, format!("{field}.twice"), message);
        }
        contents.objects += objects::check(file, &field, path, report);
    }
}
