//! Policy `registry-bundle`: registry+v1 bundles, and the package manifests that came before them, as
//! files.
//!
//! ```text
//! RegistryBundle ─▶ directory ─┬─ layout        directories, size
//!                              ├─ annotations   metadata/annotations.yaml ◀── dockerfile (labels)
//!                              ├─ dependencies, properties   the other files of metadata/
//!                              ├─ manifests     the object of each file ─▶ object_meta, csv, apis,
//!                              │                                          objects, removed
//!                              ├─ scorecard     tests/scorecard/config.yaml
//!                              └─ package       *.package.yaml with a directory per version
//! manifest ─▶ fields   each object, in a bundle or separate
//! ```
//!
//! The host builds the document from a directory. Fields are paths in the document, which the host
//! maps to locations in files. The messages are upstream's, byte for byte.

mod annotations;
mod apis;
mod ascii;
mod csv;
mod dependencies;
mod directory;
mod dockerfile;
mod fields;
mod layout;
mod manifests;
mod objects;
mod package;
mod properties;
mod removed;
mod scorecard;
mod versions;

use crate::directory::{MANIFESTS, METADATA};
use opgate_sdk::{Document, Report, Review};

use annotations::Annotations;
use directory::BundleDirectory;

opgate_sdk::policy! {
    name: "registry-bundle",
    title: "registry+v1 bundles satisfy the requirements of the registry and OLM on their files",
    rules: [
        annotations::RULES,
        apis::RULES,
        csv::RULES,
        dependencies::RULES,
        dockerfile::RULES,
        fields::RULES,
        layout::RULES,
        manifests::RULES,
        objects::RULES,
        package::RULES,
        properties::RULES,
        removed::RULES,
        scorecard::RULES,
    ],
    routes: [directory::BUNDLE => check, fields::MANIFEST => fields::check],
    settings: include_str!("settings.json"),
}

/// Evaluates the whole directory, whether it is new or was published before.
fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.object else { return };
    let directory = BundleDirectory::read(object);
    let packages = package::manifests(&directory);
    package::check_manifests(&directory, &packages, review.settings, report);
    if package::is_package(&directory, &packages) {
        package::check_versions(&directory, &packages, report);
    } else {
        check_bundle(&directory, review.settings, report);
    }
}

/// Reports duplicate keys in mappings of `metadata/`, each by the rule of the file.
fn check_repeated_keys(directory: &BundleDirectory<'_>, report: &mut Report<'_>) {
    for file in directory.files_in(METADATA).filter(|file| file.duplicate_key.is_some()) {
        let Some(object) = directory.first_document(file) else { continue };
        for (member, rule) in [
            ("/annotations", &annotations::RBF_02),
            ("/dependencies", &dependencies::RBF_17),
            ("/properties", &properties::RBF_19),
        ] {
            if object.has(member) {
                file.report_repeated_key(rule, report);
                break;
            }
        }
    }
}

/// Evaluates a directory that is a bundle.
fn check_bundle(directory: &BundleDirectory<'_>, settings: &Document, report: &mut Report<'_>) {
    layout::check_directories(directory, report);
    layout::check_size(directory, report);

    let is_read = |file: &&directory::File| !file.is_hidden();
    let objects = manifests::of(directory, directory.files_in(MANIFESTS).filter(is_read));
    let annotations = annotations::find_annotations(directory, report);
    if let Some(annotations) = &annotations {
        let has_csv = objects.iter().any(|object| object.kind == manifests::CSV);
        let labels = dockerfile::label_values(directory);
        annotations::check(annotations, &labels, has_csv, report);
        annotations::check_openshift_versions(annotations, settings, report);
        annotations::check_channel_names(annotations, settings, report);
        dockerfile::check(directory, annotations, report);
    }
    check_repeated_keys(directory, report);
    dependencies::check(directory, settings, report);
    properties::check(directory, report);

    manifests::check_files(directory, &objects, settings, report);
    // Without the directory (RBF-01) there are no files in it.
    if directory.has_directory(MANIFESTS) {
        csv::check_single_csv(directory, &objects, report);
    }
    let package = annotations.as_ref().and_then(Annotations::package);
    csv::check_release(directory, &objects, package, report);
    csv::check_accounts(directory, &objects, report);
    let failed: Vec<_> = directory.files_in(MANIFESTS).filter(|file| file.is_invalid()).collect();
    apis::check(directory, &objects, true, &failed, report);
    objects::check(directory, &objects, report);
    removed::check(directory, &objects, settings, report);
    scorecard::check(directory, report);
}
