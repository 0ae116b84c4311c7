//! Policy `file-based-catalog`: file-based catalogs load, and their upgrade graphs lead somewhere.
//!
//! The host makes one document of each package of a catalog folder, and one, without a name, of
//! what belongs to no package.
//!
//! ```text
//! document ─┬─ spec.blobs ─▶ catalog ─▶ graph, deprecations
//!           │                   └──────▶ baseline  (with the published document, on UPDATE)
//!           └─ spec.files, spec.directories ─▶ files
//! ```
//!
//! Versions and ranges are those of the crate `constraints`.
//!
//! Everything is read once into plain structures, and every walk costs n log n. The texts are those
//! of upstream's `opm validate`, byte for byte; but where that stops at the first error, this policy
//! tells all of them. What each rule says, and where it is written, is in [`rules`].

mod baseline;
mod blob;
mod bundle;
mod catalog;
mod channel;
mod deprecations;
mod files;
mod findings;
mod go_text;
mod graph;
mod image;
mod names;
mod objects;
mod package;
mod properties;
pub mod rules;
mod settings;
mod spelling;

use opgate_sdk::{Descriptor, Document, MatchRule, Operation, Policy, Request, Verdict};

use catalog::Catalog;
use findings::Findings;
use settings::Settings;

/// The policy.
#[derive(Debug)]
pub struct FileBasedCatalog;

opgate_sdk::export!(FileBasedCatalog);

const GROUP: &str = "opgate.dev";
const RESOURCE: &str = "filebasedcatalogs";

impl Policy for FileBasedCatalog {
    fn describe() -> Descriptor {
        Descriptor {
            name: "file-based-catalog",
            version: env!("CARGO_PKG_VERSION"),
            title: "file-based catalogs load, and their upgrade graphs lead somewhere",
            rules: rules::RULES,
            matches: &[MatchRule {
                groups: &[GROUP],
                versions: &["v1alpha1"],
                resources: &[RESOURCE],
                operations: &[Operation::Create, Operation::Update],
                ..MatchRule::EMPTY
            }],
            settings_schema: include_str!("settings.schema.json"),
            ..Descriptor::EMPTY
        }
    }

    fn validate(
        request: &Request,
        object: Option<&Document>,
        old_object: Option<&Document>,
        settings: &Document,
    ) -> Verdict {
        let resource = &request.resource;
        let is_ours = resource.group == GROUP && resource.resource == RESOURCE;
        let object = object.filter(|_| {
            is_ours && request.operation != Operation::Delete && request.sub_resource.is_empty()
        });
        let Some(document) = object else { return Verdict::default() };
        let mut findings = Findings::new(settings);
        let settings = Settings::of(settings);
        let catalog = Catalog::read(document, &settings, &mut findings);
        catalog.judge(&settings, &mut findings);
        files::judge(document, &mut findings);
        if let Some(published) = old_object.filter(|_| request.operation == Operation::Update) {
            baseline::judge(&catalog, document, published, &mut findings);
        }
        findings.finish()
    }
}
