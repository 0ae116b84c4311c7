//! Policy `registry-bundle`: registry+v1 bundles, and the package manifests that came before them, as
//! files.
//!
//! ```text
//! RegistryBundle ─▶ folder ─┬─ layout        directories, size
//!                           ├─ annotations   metadata/annotations.yaml ◀── dockerfile (labels)
//!                           ├─ dependencies, properties   the other files of metadata/
//!                           ├─ manifests     the object of each file ─▶ object_meta, apis,
//!                           │                                          objects, removed
//!                           ├─ scorecard     tests/scorecard/config.yaml
//!                           └─ package       *.package.yaml with a directory per version
//! ```
//!
//! The host builds the document from a folder; fields are paths into it, which the host turns into
//! places in files. The texts are upstream's, byte for byte. What each rule says, and where it is
//! written, is in [`rules`].

mod annotations;
mod apis;
mod ascii;
mod dependencies;
mod dockerfile;
mod findings;
mod folder;
mod layout;
mod manifests;
mod object_meta;
mod objects;
mod package;
mod properties;
mod removed;
pub mod rules;
mod scorecard;
mod versions;

use opgate_sdk::{Descriptor, Document, MatchRule, Operation, Policy, Request, Verdict};

use annotations::Annotations;
use findings::Findings;
use folder::Folder;

/// The policy.
#[derive(Debug)]
pub struct RegistryBundle;

opgate_sdk::export!(RegistryBundle);

impl Policy for RegistryBundle {
    fn describe() -> Descriptor {
        Descriptor {
            name: "registry-bundle",
            version: env!("CARGO_PKG_VERSION"),
            title: "registry+v1 bundles have what the registry and OLM ask of their files",
            rules: rules::RULES,
            matches: &[MatchRule {
                groups: &["opgate.dev"],
                versions: &["v1alpha1"],
                resources: &["registrybundles"],
                operations: rules::OPERATIONS,
                ..MatchRule::EMPTY
            }],
            settings_schema: include_str!("settings.schema.json"),
            ..Descriptor::EMPTY
        }
    }

    fn validate(
        request: &Request,
        object: Option<&Document>,
        _: Option<&Document>,
        settings: &Document,
    ) -> Verdict {
        let object = object.filter(|_| request.operation != Operation::Delete);
        let Some(object) = object else { return Verdict::default() };
        let mut findings = Findings::new(settings);
        let folder = Folder::read(object);
        let packages = package::manifests(&folder);
        package::judge_manifests(&folder, &packages, settings, &mut findings);
        if package::is_package(&folder, &packages) {
            package::judge_versions(&folder, &packages, &mut findings);
        } else {
            bundle(&folder, settings, &mut findings);
        }
        findings.finish()
    }
}

/// A folder that is a bundle.
fn bundle(folder: &Folder<'_>, settings: &Document, findings: &mut Findings<'_>) {
    layout::directories(folder, findings);
    layout::size(folder, findings);

    let objects = manifests::of(folder, folder.files_in(manifests::DIRECTORY));
    let annotations = annotations::find(folder, findings);
    if let Some(annotations) = &annotations {
        let has_csv = objects.iter().any(|object| object.kind == manifests::CSV);
        annotations::judge(annotations, has_csv, findings);
        annotations::openshift_versions(annotations, settings, findings);
        annotations::channel_names(annotations, settings, findings);
        dockerfile::judge(folder, annotations, findings);
    }
    dependencies::judge(folder, settings, findings);
    properties::judge(folder, findings);

    manifests::judge_files(folder, &objects, settings, findings);
    // Without the directory (RBF-01) there is nothing that could be in it.
    if folder.has_directory(manifests::DIRECTORY) {
        manifests::one_csv(folder, &objects, findings);
    }
    let package = annotations.as_ref().and_then(Annotations::package);
    manifests::release(folder, &objects, package, findings);
    manifests::accounts(folder, &objects, findings);
    apis::judge(folder, &objects, true, findings);
    objects::judge(folder, &objects, findings);
    removed::judge(folder, &objects, settings, findings);
    scorecard::judge(folder, findings);
}
