//! The code that `wit-bindgen` generates from `wit/policy.wit` and `wit/browser.wit` of this crate.

#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used,
    clippy::allow_attributes_without_reason,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_qualifications,
    dead_code,
    reason = "generated code"
)]
pub(crate) mod generated {
    wit_bindgen::generate!({
        path: ["../../wit/policy.wit", "wit/browser.wit"],
        world: "opgate:browser/browser",
        default_bindings_module: "crate::bindings::generated",
        pub_export_macro: true,
        generate_all,
    });
}

#[cfg(target_arch = "wasm32")]
pub(crate) use generated::export;
pub(crate) use generated::exports::opgate::browser::evaluation;
pub(crate) use generated::exports::opgate::policy::{cluster, document, log, request};
pub(crate) use generated::opgate::policy::types;
