//! Lists some objects of a resource: page by page, within the limits.
//!
//! ```text
//! page ─▶ one object after the other (split) ─▶ without managedFields ─▶ Taken
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
use opgate_document::{Charge, Kind, Text, Unfit, Value};
use opgate_engine::reader::Sample;
use tokio::time::timeout_at;

use super::{Ask, NoSample};
use crate::cluster::decode::{ApiError, Page, PageText, read_document, token_refused};
use crate::cluster::requests::{Server, path};

/// Number of objects of the first page, and maximum number. The API server reads all objects of a
/// page before it responds, however large they are.
const FIRST: usize = 20;
const MOST: usize = 100;

/// Maximum number of pages. Pages may have fewer objects than requested.
const MOST_PAGES: usize = 32;

/// Responses may have this many times the bytes of the objects: the rest is metadata that is left
/// out.
const READ: usize = 4;

/// The reason why a list ended early.
enum End {
    /// A limit is reached.
    Full,
    /// The time is over.
    Late,
    Trouble(ApiError),
}

impl<E: Into<ApiError>> From<E> for End {
    fn from(trouble: E) -> Self {
        Self::Trouble(trouble.into())
    }
}

/// The objects so far.
struct Taken<'a> {
    ask: &'a Ask,
    texts: Vec<Arc<Text>>,
    /// Bytes of the objects, and of the responses.
    bytes: usize,
    read: usize,
    /// Whether an object was left out.
    gaps: bool,
}

impl<'a> Taken<'a> {
    fn new(ask: &'a Ask) -> Self {
        Self { ask, texts: Vec::new(), bytes: 0, read: 0, gaps: false }
    }

    fn is_full(&self) -> bool {
        self.texts.len() >= self.ask.limit
    }

    fn room(&self) -> usize {
        self.ask.bytes.saturating_sub(self.bytes)
    }

    /// Adds an object, if it fits.
    fn add(&mut self, item: Vec<u8>) -> Result<(), End> {
        let json = without_managed_fields(read_document(item)?.root());
        if json.len() > self.room() {
            return Err(End::Full);
        }
        let charge = self.ask.account.as_ref().map(Charge::on).unwrap_or_default();
        if !charge.grow(json.len()) {
            return Err(End::Full);
        }
        let length = json.len();
        match Text::charged(json, charge) {
            Ok(text) => {
                self.bytes = self.bytes.saturating_add(length);
                self.texts.push(Arc::new(text));
            }
            Err(Unfit::Full) => return Err(End::Full),
            Err(Unfit::Deep(_)) => self.gaps = true,
        }
        Ok(())
    }

    fn sample(self, complete: bool) -> Sample {
        Sample { complete: complete && !self.gaps, objects: self.texts }
    }
}

impl Server {
    /// Lists some objects of a resource.
    pub(in crate::cluster) async fn sample(&self, ask: &Ask) -> Result<Sample, NoSample> {
        let resource = &ask.resource;
        let unavailable = |why: &str| Err(NoSample::Unavailable(format!("{resource}: {why}")));
        let mut is_first = true;
        loop {
            let mut taken = Taken::new(ask);
            return match self.sample_pages(&mut taken).await {
                Ok(()) => Ok(taken.sample(true)),
                Err(End::Full) => Ok(taken.sample(false)),
                Err(End::Late) if !taken.texts.is_empty() => Ok(taken.sample(false)),
                Err(End::Late) => unavailable("the API server did not list it in time"),
                Err(End::Trouble(ApiError::Gone)) if is_first => {
                    is_first = false;
                    continue;
                }
                Err(End::Trouble(ApiError::Gone)) if !taken.texts.is_empty() => {
                    Ok(taken.sample(false))
                }
                // It no longer exists, or never did.
                Err(End::Trouble(ApiError::Absent)) => Ok(Taken::new(ask).sample(true)),
                Err(End::Trouble(ApiError::Forbidden(why))) => Err(NoSample::NotGranted(format!(
                    "{resource}: forbidden: {why}; grant list on it to the service account of opgate"
                ))),
                Err(End::Trouble(ApiError::Unauthorized(why))) => unavailable(&token_refused(&why)),
                Err(End::Trouble(trouble)) => unavailable(&trouble.to_string()),
            };
        }
    }

    async fn sample_pages(&self, taken: &mut Taken<'_>) -> Result<(), End> {
        let ask = taken.ask;
        let mut params = ListParams::default();
        let mut limit = FIRST;
        for _ in 0..MOST_PAGES {
            let wanted = limit.min(ask.limit.saturating_sub(taken.texts.len())).max(1);
            params.limit = u32::try_from(wanted).ok();
            let request = Request::new(path(&ask.resource, None));
            let request = request.list(&params).map_err(|e| ApiError::Other(e.to_string()))?;
            let page = timeout_at(ask.until, self.sample_page(request, taken)).await;
            let page = page.map_err(|_| End::Late)??;
            if page.next.is_empty() {
                return Ok(());
            }
            if taken.is_full() {
                return Err(End::Full);
            }
            // Small objects: a larger page each time.
            let each = (taken.read / taken.texts.len().max(1)).max(1);
            limit = (ask.bytes / each).clamp(1, limit.saturating_mul(4).min(MOST));
            params.continue_token = Some(page.next);
        }
        Err(End::Full)
    }

    async fn sample_page(
        &self,
        request: http::Request<Vec<u8>>,
        taken: &mut Taken<'_>,
    ) -> Result<Page, End> {
        let stream = self.ask(request).await?;
        let mut stream = std::pin::pin!(stream);
        let mut text = PageText::default();
        let most = taken.ask.bytes.saturating_mul(READ);
        loop {
            let part = stream.fill_buf().await?;
            let length = part.len();
            if length == 0 {
                return Ok(text.end()?);
            }
            let mut rest = part;
            while let Some(item) = text.next(&mut rest)? {
                if taken.is_full() {
                    // The server sent more than requested: it does not support pages.
                    return Err(End::Full);
                }
                // One at a time, for all resources.
                let _one = self.one().await;
                taken.add(item)?;
            }
            taken.read = taken.read.saturating_add(length);
            if text.item_bytes() > taken.ask.bytes || taken.read > most {
                return Err(End::Full);
            }
            stream.consume_unpin(length);
        }
    }
}

/// The text of an object without `metadata.managedFields`, which is often half of it.
fn without_managed_fields(object: Value<'_>) -> String {
    let mut json = String::with_capacity(object.size());
    write(object, &["metadata"], &mut json);
    json
}

/// Writes an object; of the member at the path, all but `managedFields`.
fn write(object: Value<'_>, path: &[&str], json: &mut String) {
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
            Some((first, rest)) if name == *first => write(member, rest, json),
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
    fn managed_fields_of_the_object_are_left_out() {
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
