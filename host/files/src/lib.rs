//! Bundles, catalogs and manifests on disk, as reviews.
//!
//! ```text
//! PATH ─▶ detect ─┬▶ bundle:   directory ─▶ a document with every file ─┐
//!                 ├▶ project:  directory ─▶ a document: watches.yaml ───┤
//!                 ├▶ catalog:  directory less .indexignore ─▶ blobs, by ┼▶ Subject: reviews ─▶ policies
//!                 │            package, one document each               │                        │
//!                 └▶ manifest: objects ─────────────────────────────────┘   Place ◀─ field ◀─────┘
//! ```
//!
//! Files are read once, on all CPUs, and kept as text. The documents for policies are combined from
//! parts of them immediately before the evaluation. They have the group `opgate.dev`, the version
//! `v1alpha1` and the kinds `RegistryBundle`, `PlainBundle`, `OperatorProject` and
//! `FileBasedCatalog`. What a catalog offers can also be read like objects of a cluster, of the kind
//! `CatalogPackage`.

mod bundle;
mod catalog;
mod catalog_packages;
mod compressed;
mod content;
mod detect;
pub mod directory;
pub mod dump;
mod duplicate_keys;
mod edit_target;
mod excerpt;
mod field;
pub mod ignore;
mod json;
mod kinds;
mod kustomize;
mod load;
mod location;
pub mod parallel;
mod pod_template;
mod recorded_review;
mod repository;
mod reviews;
mod stream;
mod template;
#[cfg(test)]
mod testing;
mod unsupported;
pub mod waivers;

pub use bundle::BundleKind;
pub use catalog_packages::read_catalog_packages;
pub use detect::{detect, find_manifests};
pub use edit_target::EditTarget;
pub use json::GROUP;
pub use kinds::{CheckInputType, DetectedInput, Detection, SkipReason, SkippedFile};
pub use load::load;
pub use location::Location;
pub use recorded_review::RecordedReview;
pub use reviews::{LocationResolver, PodTemplate, Request, Subject};
pub use template::error_line;
pub use unsupported::{is_opgate_configuration, unsupported_type};
