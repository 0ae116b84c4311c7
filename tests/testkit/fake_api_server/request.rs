//! Requests with decoded path and query.

use std::collections::BTreeMap;

use bytes::Bytes;
use hyper::http::request::Parts;
use serde_json::Value;

use super::status::{ApiResult, status};

/// A request, with path and query decoded.
#[derive(Clone)]
pub(super) struct ApiRequest {
    pub(super) method: String,
    pub(super) path: Vec<String>,
    query: BTreeMap<String, String>,
    pub(super) partial: bool,
    /// Whether the body is for a server-side apply.
    pub(super) is_apply: bool,
    pub(super) token: String,
    body: Bytes,
}

impl ApiRequest {
    pub(super) fn new(head: &Parts, body: Bytes) -> Self {
        let query = head.uri.query().unwrap_or_default().replace('+', " ");
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let segments = head.uri.path().split('/').filter(|segment| !segment.is_empty());
        let header = |name| head.headers.get(name).map_or("", |value| value.to_str().unwrap());
        let (accept, token) = (header("accept"), header("authorization"));
        Self {
            token: token.trim_start_matches("Bearer ").to_owned(),
            method: head.method.to_string(),
            path: segments.map(decoded).collect(),
            query: pairs.map(|(name, value)| (decoded(name), decoded(value))).collect(),
            partial: accept.contains("as=PartialObjectMetadata"),
            is_apply: header("content-type").contains("apply-patch"),
            body,
        }
    }

    pub(super) fn query(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    pub(super) fn has_flag(&self, name: &str) -> bool {
        matches!(self.query(name), "true" | "1")
    }

    /// A number in the query; 0 when it is missing.
    pub(super) fn number(&self, name: &str) -> ApiResult<u64> {
        number(if self.query(name).is_empty() { "0" } else { self.query(name) })
    }

    pub(super) fn object(&self) -> ApiResult<Value> {
        let object: Option<Value> = serde_json::from_slice(&self.body).ok();
        let bad = || status(400, "the object provided is unrecognized");
        object.filter(Value::is_object).ok_or_else(bad)
    }
}

pub(super) fn number(text: &str) -> ApiResult<u64> {
    text.parse().map_err(|_| status(400, &format!("invalid number: {text}")))
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = String::from_utf8(bytes.by_ref().take(2).collect()).unwrap();
            decoded.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).unwrap()
}
