//! Write admission policies for opgate: one `impl` and one macro.
//!
//! A policy is a type that implements [`Policy`]; [`export!`] makes the component's exports of it.
//! Built for `wasm32-unknown-unknown` it becomes a core module, which `opgate policy pack` turns
//! into the component that the host loads. The rule logic is plain Rust: in native unit tests the
//! same code runs on [`Document::parse`]d JSON, without a host.
//!
//! ```
//! use opgate_sdk::{Descriptor, Document, Level, MatchRule, Operation, Policy, Request, Rule, Verdict};
//!
//! struct NoLatest;
//!
//! impl Policy for NoLatest {
//!     fn describe() -> Descriptor {
//!         Descriptor {
//!             name: "no-latest",
//!             version: "1.0.0",
//!             title: "images are pinned",
//!             rules: &[Rule {
//!                 id: "IMG-1",
//!                 title: "a Bundle does not use the tag latest",
//!                 kinds: &["Bundle"],
//!                 operations: &[Operation::Create],
//!                 source: "house rules",
//!                 ..Rule::DENY
//!             }],
//!             matches: &[MatchRule {
//!                 groups: &["core.rukpak.io"],
//!                 versions: &["v1alpha1"],
//!                 resources: &["bundles"],
//!                 operations: &[Operation::Create],
//!                 ..MatchRule::EMPTY
//!             }],
//!             ..Descriptor::EMPTY
//!         }
//!     }
//!
//!     fn validate(_: &Request, object: Option<&Document>, _: Option<&Document>, _: &Document) -> Verdict {
//!         let mut verdict = Verdict::default();
//!         let image = object.and_then(|o| o.text("/spec/source/image/ref")).unwrap_or_default();
//!         if image.ends_with(":latest") {
//!             verdict.add(Level::Deny, "IMG-1", "spec.source.image.ref", "pin the image");
//!         }
//!         verdict
//!     }
//! }
//!
//! opgate_sdk::export!(NoLatest);
//!
//! let bundle = Document::parse(r#"{"spec":{"source":{"image":{"ref":"a:latest"}}}}"#).unwrap();
//! let settings = Document::parse("{}").unwrap();
//! let verdict = NoLatest::validate(&Request::default(), Some(&bundle), None, &settings);
//! assert_eq!(verdict.violations[0].message, "pin the image");
//! ```
//!
//! What happens around a call: the instance is fresh, memory is handed out by bumping a pointer
//! and never taken back (a call lives for microseconds), and a panic writes its text to the host's
//! log before the instance is thrown away.

// The allocator: it is linked for being there.
#[cfg(target_arch = "wasm32")]
use opgate_unsafe as _;

pub mod cluster;
pub mod conventions;
pub mod copies;
mod describe;
mod document;
pub mod identities;
pub mod log;
#[cfg(feature = "json")]
mod raw;
mod rows;
mod shape;
mod verdict;

#[doc(hidden)]
pub mod shell;

/// What `wit-bindgen` makes of `wit/policy.wit`.
#[doc(hidden)]
#[allow(clippy::all, clippy::pedantic, missing_docs, unsafe_code, reason = "generated code")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/policy.wit",
        world: "cluster-policy",
        default_bindings_module: "opgate_sdk::bindings",
        pub_export_macro: true,
        additional_derives: [Clone, PartialEq],
    });
}

pub use bindings::opgate::policy::document::Kind;
pub use bindings::opgate::policy::types::{
    DefaultLevel, GroupVersionKind, GroupVersionResource, Level, Operation, Request, SettingsError,
    UserInfo, Violation,
};
pub use describe::{ClusterRead, Descriptor, Index, MatchRule, Rule, Setting};
pub use document::{Document, Items, escape};
pub use opgate_upstream::go;
pub use opgate_upstream::labels::Selector;
#[cfg(feature = "json")]
pub use raw::Raw;
pub use rows::{Row, Rows};
pub use shape::Shape;
pub use verdict::Verdict;

/// An admission policy.
pub trait Policy {
    /// What the policy is: its rules, the requests it wants, the schema of its settings.
    fn describe() -> Descriptor;

    /// Checks what the JSON Schema of the settings cannot say. Called once, at load.
    ///
    /// # Errors
    /// Every reason to refuse the settings, at once.
    fn validate_settings(_settings: &Document) -> Result<(), Vec<SettingsError>> {
        Ok(())
    }

    /// Judges a request. `object` is absent on DELETE, `old_object` on CREATE and CONNECT.
    fn validate(
        request: &Request,
        object: Option<&Document>,
        old_object: Option<&Document>,
        settings: &Document,
    ) -> Verdict;
}

/// Makes a [`Policy`] the policy of this component. Once per crate; without effect in native builds.
#[macro_export]
macro_rules! export {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        type OpgateExportedPolicy = $crate::shell::Shell<$policy>;
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::export!(OpgateExportedPolicy with_types_in $crate::bindings);
    };
}

impl Default for Request {
    /// An empty CREATE, to start test requests from.
    fn default() -> Self {
        Self {
            uid: String::new(),
            operation: Operation::Create,
            kind: GroupVersionKind {
                group: String::new(),
                version: String::new(),
                kind: String::new(),
            },
            resource: GroupVersionResource {
                group: String::new(),
                version: String::new(),
                resource: String::new(),
            },
            sub_resource: String::new(),
            name: String::new(),
            namespace: String::new(),
            user: UserInfo { username: String::new(), uid: String::new(), groups: Vec::new() },
            dry_run: false,
        }
    }
}
