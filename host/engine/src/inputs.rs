//! The input of a policy.

use std::sync::Arc;

use opgate_document::Document;

use super::bindings::types as wit;

/// The input of a policy: one review, shared by all policies that evaluate it.
#[derive(Debug)]
pub struct Inputs {
    /// The operation.
    pub operation: wit::Operation,
    /// The request without its objects.
    pub request: RequestParts,
    /// The object, absent on DELETE.
    pub object: Option<Arc<Document>>,
    /// The object before the request, absent on CREATE.
    pub old_object: Option<Arc<Document>>,
}

/// A request without its objects, in parts. See `wit/policy.wit`.
#[derive(Debug)]
#[expect(missing_docs, reason = "documented once, in wit/policy.wit")]
pub struct RequestParts {
    pub uid: String,
    pub kind: wit::GroupVersionKind,
    pub resource: wit::GroupVersionResource,
    pub sub_resource: String,
    pub name: String,
    pub namespace: String,
    pub user: wit::UserInfo,
    pub dry_run: bool,
}
