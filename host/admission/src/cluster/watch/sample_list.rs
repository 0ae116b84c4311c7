//! Lists some objects of a resource: page by page, within the limits.
//!
//! ```text
//! page ─▶ one object after the other (split) ─▶ without managedFields ─▶ SampleBuilder
//!   ▲                                                                      │ limit, bytes, time
//!   ├── continue, 410: once more from the start                            ▼
//!   └──────────────────────────────────────────────────────────────────  Sample
//! ```
//!
//! The first page has no resourceVersion, so the list is what the API server has stored, not what
//! it has cached; the tokens keep all pages at that version. A response is only read up to the
//! limit: the connection of the rest is dropped.

use std::sync::Arc;

use futures_util::AsyncBufReadExt as _;
use kube::core::Request;
use kube::core::params::ListParams;
use opgate_document::{Charge, IndexError, Kind, Text, Value};
use opgate_engine::reader::Sample;
use tokio::time::timeout_at;

use crate::cluster::watch::decode::{
    ApiError, Page, PageReader, read_document, token_rejected_text,
};
use crate::cluster::watch::direct_read_source::{SampleError, SampleRequest};
use crate::cluster::watch::requests::{ApiServer, resource_path};

/// Number of objects of the first page, and maximum number. The API server reads all objects of a
/// page before it responds, however large they are.
const FIRST_PAGE_LIMIT: usize = 20;
const MAX_PAGE_LIMIT: usize = 100;

/// Maximum number of pages. Pages may have fewer objects than requested.
const MAX_PAGES: usize = 32;

/// Responses may have this many times the bytes of the objects: the rest is metadata that is left
/// out.
const RESPONSE_BYTES_FACTOR: usize = 4;

/// The reason why a list ended early.
enum StopReason {
    /// A limit is reached.
    Full,
    /// The time is over.
    Late,
    Api(ApiError),
}

impl<E: Into<ApiError>> From<E> for StopReason {
    fn from(error: E) -> Self {
        Self::Api(error.into())
    }
}

/// The objects so far.
struct SampleBuilder<'a> {
    sample_request: &'a SampleRequest,
    texts: Vec<Arc<Text>>,
    /// Bytes of the objects, and of the responses.
    bytes: usize,
    response_bytes: usize,
    /// Whether an object was left out.
    has_gaps: bool,
}

impl<'a> SampleBuilder<'a> {
    fn new(sample_request: &'a SampleRequest) -> Self {
        Self { sample_request, texts: Vec::new(), bytes: 0, response_bytes: 0, has_gaps: false }
    }

    fn is_full(&self) -> bool {
        self.texts.len() >= self.sample_request.limit
    }

    fn remaining_bytes(&self) -> usize {
        self.sample_request.bytes.saturating_sub(self.bytes)
    }

    /// Adds an object, if it fits.
    fn add(&mut self, item: Vec<u8>) -> Result<(), StopReason> {
        let json = without_managed_fields(read_document(item)?.root());
        if json.len() > self.remaining_bytes() {
            return Err(StopReason::Full);
        }
        let charge = self.sample_request.account.as_ref().map(Charge::on).unwrap_or_default();
        if !charge.grow(json.len()) {
            return Err(StopReason::Full);
        }
        let length = json.len();
        match Text::with_charge(json, charge) {
            Ok(text) => {
                self.bytes = self.bytes.saturating_add(length);
                self.texts.push(Arc::new(text));
            }
            Err(IndexError::BudgetExceeded) => return Err(StopReason::Full),
            Err(IndexError::TooDeep(_)) => self.has_gaps = true,
        }
        Ok(())
    }

    fn into_sample(self, complete: bool) -> Sample {
        Sample { complete: complete && !self.has_gaps, objects: self.texts }
    }
}

impl ApiServer {
    /// Lists some objects of a resource.
    pub(in crate::cluster) async fn sample(
        &self,
        sample_request: &SampleRequest,
    ) -> Result<Sample, SampleError> {
        let resource = &sample_request.resource;
        let unavailable = |why: &str| Err(SampleError::Unavailable(format!("{resource}: {why}")));
        let mut is_first = true;
        loop {
            let mut builder = SampleBuilder::new(sample_request);
            return match self.sample_pages(&mut builder).await {
                Ok(()) => Ok(builder.into_sample(true)),
                Err(StopReason::Full) => Ok(builder.into_sample(false)),
                Err(StopReason::Late) if !builder.texts.is_empty() => {
                    Ok(builder.into_sample(false))
                }
                Err(StopReason::Late) => unavailable("the API server did not list it in time"),
                Err(StopReason::Api(ApiError::Gone | ApiError::Expired(_))) if is_first => {
                    is_first = false;
                    continue;
                }
                Err(StopReason::Api(ApiError::Gone | ApiError::Expired(_)))
                    if !builder.texts.is_empty() =>
                {
                    Ok(builder.into_sample(false))
                }
                // It no longer exists, or never did.
                Err(StopReason::Api(ApiError::Absent)) => {
                    Ok(SampleBuilder::new(sample_request).into_sample(true))
                }
                Err(StopReason::Api(ApiError::Forbidden(why))) => {
                    Err(SampleError::NotGranted(format!(
                        "{resource}: forbidden: {why}; grant list on it to the service account of opgate"
                    )))
                }
                Err(StopReason::Api(ApiError::Unauthorized(why))) => {
                    unavailable(&token_rejected_text(&why))
                }
                Err(StopReason::Api(error)) => unavailable(&error.to_string()),
            };
        }
    }

    async fn sample_pages(&self, builder: &mut SampleBuilder<'_>) -> Result<(), StopReason> {
        let sample_request = builder.sample_request;
        let mut params = ListParams::default();
        let mut limit = FIRST_PAGE_LIMIT;
        for _ in 0..MAX_PAGES {
            let wanted = limit.min(sample_request.limit.saturating_sub(builder.texts.len())).max(1);
            params.limit = u32::try_from(wanted).ok();
            let request = Request::new(resource_path(&sample_request.resource, None));
            let request = request.list(&params).map_err(|e| ApiError::Other(e.to_string()))?;
            let page =
                timeout_at(sample_request.deadline, self.sample_page(request, builder)).await;
            let page = page.map_err(|_| StopReason::Late)??;
            if page.next.is_empty() {
                return Ok(());
            }
            if builder.is_full() {
                return Err(StopReason::Full);
            }
            // Small objects: a larger page each time.
            let each = (builder.response_bytes / builder.texts.len().max(1)).max(1);
            limit =
                (sample_request.bytes / each).clamp(1, limit.saturating_mul(4).min(MAX_PAGE_LIMIT));
            params.continue_token = Some(page.next);
        }
        Err(StopReason::Full)
    }

    async fn sample_page(
        &self,
        request: http::Request<Vec<u8>>,
        builder: &mut SampleBuilder<'_>,
    ) -> Result<Page, StopReason> {
        let stream = self.send(request).await?;
        let mut stream = std::pin::pin!(stream);
        let mut text = PageReader::default();
        let most = builder.sample_request.bytes.saturating_mul(RESPONSE_BYTES_FACTOR);
        loop {
            let part = stream.fill_buf().await?;
            let length = part.len();
            if length == 0 {
                return Ok(text.finish()?);
            }
            let mut rest = part;
            while let Some(item) = text.next(&mut rest)? {
                if builder.is_full() {
                    // The server sent more than requested: it does not support pages.
                    return Err(StopReason::Full);
                }
                // One at a time, for all resources.
                let _one = self.acquire_parse_permit().await;
                builder.add(item)?;
            }
            builder.response_bytes = builder.response_bytes.saturating_add(length);
            if text.item_bytes() > builder.sample_request.bytes || builder.response_bytes > most {
                return Err(StopReason::Full);
            }
            stream.consume_unpin(length);
        }
    }
}

/// The text of an object without `metadata.managedFields`, which is often half of it.
fn without_managed_fields(object: Value<'_>) -> String {
    let mut json = String::with_capacity(object.size());
    write_object(object, &["metadata"], &mut json);
    json
}

/// Writes an object; of the member at the path, all but `managedFields`.
fn write_object(object: Value<'_>, path: &[&str], json: &mut String) {
    if object.kind() != Kind::Object {
        json.push_str(&object.raw());
        return;
    }
    json.push('{');
    let is_kept = |name: &str| !path.is_empty() || name != "managedFields";
    for (index, (name, member)) in object.members().filter(|(name, _)| is_kept(name)).enumerate() {
        if index > 0 {
            json.push(',');
        }
        json.push_str(&serde_json::Value::from(name).to_string());
        json.push(':');
        match path.split_first() {
            Some((first, rest)) if name == *first => write_object(member, rest, json),
            _ => json.push_str(&member.raw()),
        }
    }
    json.push('}');
}

#[cfg(test)]
mod tests {
    use opgate_document::Document;

    use super::*;

    #[test]
    fn managed_fields_of_objects_are_omitted() {
        for (object, kept) in [
            (
                r#"{"metadata":{"name":"a","managedFields":[{"a":1}]},"spec":{"managedFields":[1]}}"#,
                r#"{"metadata":{"name":"a"},"spec":{"managedFields":[1]}}"#,
            ),
            (
                r#"{"metadata":{"managedFields":1,"name":"\"é"}, "managedFields":2}"#,
                r#"{"managedFields":2,"metadata":{"name":"\"é"}}"#,
            ),
            (r#"{"metadata":[1]}"#, r#"{"metadata":[1]}"#),
            (r"[1, 2]", "[1, 2]"),
            ("{}", "{}"),
        ] {
            let document = Document::parse(object).unwrap();
            assert_eq!(without_managed_fields(document.root()), kept, "{object}");
        }
    }
}
