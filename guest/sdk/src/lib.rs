//! Write admission policies for opgate: rules, and the functions that evaluate them.
//!
//! A [`rule!`] is a typed constant with its documentation. [`policy!`] combines the rules of the
//! modules and creates the exports of the component. Built for `wasm32-unknown-unknown`, the crate
//! becomes a core module, which `opgate policy pack` turns into the component that the host loads.
//! The functions are plain Rust: in native unit tests the same code runs on [`Document::parse`]d
//! JSON, without a host.
//!
//! ```
//! use opgate_sdk::{
//!     Document, Report, Request, RequestParts, Review, Target, policy, rule,
//!     rules,
//! };
//!
//! static BUNDLE: Target = Target {
//!     groups: &["core.rukpak.io"],
//!     versions: &["v1alpha1"],
//!     resources: &["bundles"],
//!     kind: "Bundle",
//!     ..Target::EMPTY
//! };
//!
//! rule! {
//!     /// a Bundle does not use the tag latest
//!     ///
//!     /// `spec.source.image.ref` does not end with `:latest`.
//!     ///
//!     /// # Why
//!     ///
//!     /// The tag moves: the same Bundle unpacks to other content tomorrow.
//!     ///
//!     /// # Remediation
//!     ///
//!     /// Name the image by its digest.
//!     ///
//!     /// # Accepted
//!     ///
//!     /// `ref: example.com/a@sha256:…`
//!     ///
//!     /// # Rejected
//!     ///
//!     /// `ref: example.com/a:latest`
//!     IMG_1: Deny {
//!         on: [BUNDLE: Create | Update],
//!         source: ["house rules"],
//!     }
//! }
//! rules![IMG_1];
//!
//! fn evaluate(review: &Review<'_>, report: &mut Report<'_>) {
//!     let Some(bundle) = review.object else { return };
//!     if bundle.text_or_empty("/spec/source/image/ref").ends_with(":latest") {
//!         report.add(&IMG_1, "spec.source.image.ref", "pin the image");
//!     }
//! }
//!
//! policy! {
//!     name: "no-latest",
//!     title: "images are pinned",
//!     rules: [RULES],
//!     routes: [BUNDLE => evaluate],
//! }
//!
//! # fn main() {
//! let bundle = Document::parse(r#"{"spec":{"source":{"image":{"ref":"a:latest"}}}}"#).unwrap();
//! let settings = Document::parse("{}").unwrap();
//! let request = Request::from(RequestParts::default());
//! let verdict = POLICY.validate(&request, 1, Some(&bundle), None, &settings);
//! assert_eq!(verdict.violations[0].rule, "IMG-1");
//! # }
//! ```
//!
//! Each call has a new instance. Memory is allocated by advancing a pointer and never freed,
//! because a call lives for microseconds. A panic writes its text to the host's log before the host
//! drops the instance.

// The allocator: linking it is enough.
#[cfg(target_arch = "wasm32")]
use opgate_alloc as _;

pub mod bundle_objects;
pub mod catalog;
pub mod cluster;
pub mod copies;
pub mod corrections;
pub mod crd_conversion;
pub mod describe;
mod document;
pub mod feature_set;
mod fix;
pub mod go_format;
pub mod identities;
pub mod install_modes;
pub mod lists;
pub mod log;
pub mod namespaces;
pub mod operator_groups;
pub mod operator_hub;
pub mod package_manifests;
pub mod pods;
mod policy;
pub mod pull_secret;
#[cfg(feature = "json")]
mod raw;
pub mod rbac;
mod reads;
mod report;
mod request;
mod review;
mod rows;
mod rule;
mod sample;
pub mod schema;
mod selector;
mod shape;

#[doc(hidden)]
pub mod exports;

/// The code that `wit-bindgen` generates from `wit/policy.wit`.
#[doc(hidden)]
#[allow(clippy::all, clippy::pedantic, missing_docs, unsafe_code, reason = "generated code")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "wit/policy.wit",
        world: "cluster-policy",
        default_bindings_module: "opgate_sdk::bindings",
        pub_export_macro: true,
        additional_derives: [Clone, PartialEq],
        // The type contains handles.
        additional_derives_ignore: ["sample-result"],
    });
}

pub use bindings::opgate::policy::document::Kind;
pub use bindings::opgate::policy::types::{
    DefaultLevel, GroupVersionKind, GroupVersionResource, Level, Operation, SettingsError,
    SkippedRule, UserInfo, Verdict, Violation,
};
pub use document::{Document, Items, escape};
pub use fix::{Fix, json_string};
pub use opgate_compat::labels::{Selector, SelectorError};
pub use opgate_compat::{go, image, names, openshift};
#[doc(hidden)]
pub use policy::any_settings;
pub use policy::{Policy, Route};
#[cfg(feature = "json")]
pub use raw::Raw;
pub use reads::{ClusterRead, Index, Setting};
pub use report::{Report, UNLISTED_IDENTITY_KEY};
pub use request::{Request, RequestParts};
pub use review::{Review, is_terminating};
pub use rows::{Row, Rows};
pub use rule::{InputType, NamePatterns, Rule, Target};
#[doc(hidden)]
pub use rule::{bytes_of, rule_id, text_of};
pub use sample::{MAX_SAMPLE_OBJECTS, Sample, SampleError, sample};
pub use shape::Shape;
