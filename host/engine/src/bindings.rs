//! The code that wasmtime generates from `wit/policy.wit`.

#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unreachable,
    clippy::allow_attributes_without_reason,
    missing_docs,
    unsafe_code,
    unused_qualifications,
    reason = "generated code"
)]
pub(crate) mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit/policy.wit",
        world: "cluster-policy",
        with: {
            "opgate:policy/document.document": crate::document_handle::Handle,
            "opgate:policy/request.request": crate::document_handle::RequestHandle,
        },
        imports: { default: trappable },
    });
}

pub(crate) use generated::ClusterPolicyPre;
pub(crate) use generated::opgate::policy::log::Severity;
pub use generated::opgate::policy::types;
