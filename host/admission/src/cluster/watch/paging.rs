//! Lists in pages of few bytes, whatever the size of the objects.
//!
//! ```text
//! limit ─▶ answer, as it arrives ─▶ one object after the other (split) ─▶ Listing
//!   ▲                 │ 2 MiB                                               │
//!   ├── a quarter ────┘ down to one object, or all of a server              │
//!   │                   that does not know pages                            │
//!   └───────────── the limit that fits the next page ───────────────────────┘
//! ```
//!
//! Tenants can fill the memory for the text of an object and the index of its parse: an index is
//! several times as large as a text that consists of brackets. So only a few pages are read at a
//! time, only one object of each is in memory, and at most one small and one large object of all
//! pages are parsed at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::AsyncBufReadExt as _;
use kube::core::Request;
use kube::core::params::ListParams;
use tokio::time::Instant;

use crate::cluster::ResourceCache;
use crate::cluster::store::listing::{ExcludedObjects, Listing};
use crate::cluster::watch::decode::{self, ApiError, Page, PageReader};
use crate::cluster::watch::page_backoff::PageBackoff;
use crate::cluster::watch::parse_limiter::ReadPriority;
use crate::cluster::watch::requests::{ApiServer, label_selector, resource_path, with_timeout};

/// Number of objects of the first page, and maximum number.
pub(in crate::cluster) const FIRST_PAGE_LIMIT: u32 = 20;
const MAX_PAGE_LIMIT: u32 = 500;

/// Desired bytes of a page, and maximum bytes of a page with more than one object.
const TARGET_PAGE_BYTES: usize = 1 << 20;
pub(in crate::cluster) const MAX_PAGE_BYTES: usize = 2 << 20;

/// An object of more bytes is read while no other such object is.
const LARGE_OBJECT_BYTES: usize = 2 << 20;

/// Maximum bytes of all objects of a list that is polled, or does not come in pages. Nothing else
/// limits it: its objects are not stored by an API server. A thousand `PackageManifests` take some
/// MiB.
const MAX_LIST_BYTES: usize = 64 << 20;

/// Bytes that count for an unreadable object.
const UNREADABLE_OBJECT_BYTES: usize = 1 << 10;

/// A page that was read.
struct ReadPage {
    page: Page,
    bytes: usize,
    /// The time until its first bytes.
    latency: Duration,
}

/// The reason why there is no page.
enum PageError {
    TooLarge,
    Api(ApiError),
}

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self::Api(error.into())
    }
}

impl ApiServer {
    /// All objects of a kind, or the one with this name: that one whatever its labels are, because an object
    /// without the labels of the cache is something else than none.
    pub(in crate::cluster) async fn list(
        &self,
        cache: &ResourceCache,
        namespace: Option<&str>,
        name: Option<&str>,
        waiting: ReadPriority,
    ) -> Result<Listing, ApiError> {
        self.list_with(cache, namespace, name, waiting, &mut PageBackoff::none()).await
    }

    /// [`list`](Self::list) with pauses for the API server.
    pub(in crate::cluster) async fn list_with(
        &self,
        cache: &ResourceCache,
        namespace: Option<&str>,
        name: Option<&str>,
        waiting: ReadPriority,
        backoff: &mut PageBackoff,
    ) -> Result<Listing, ApiError> {
        if cache.resource().is_server_version() {
            return self.version(cache).await;
        }
        let within: Arc<str> = namespace.unwrap_or_default().into();
        let mut listing = cache.empty();
        // Most polled resources do not support pages: then this is one request.
        let mut limit = if cache.is_polled() { 1 } else { FIRST_PAGE_LIMIT };
        let mut params = ListParams {
            label_selector: label_selector(cache).filter(|_| name.is_none()),
            field_selector: name.map(|name| format!("metadata.name={}", escape_field_value(name))),
            ..ListParams::default()
        };
        loop {
            params.limit = Some(limit);
            let request = Request::new(resource_path(cache.resource(), namespace));
            let request = request.list(&params).map_err(|e| ApiError::Other(e.to_string()))?;
            backoff.wait_before_page().await;
            let page = self.page(request, limit, cache, &within, waiting, &mut listing).await;
            let ReadPage { page, bytes, latency } = match page {
                Ok(page) => page,
                Err(PageError::TooLarge) => {
                    if params.continue_token.is_none() {
                        // The next response has another version, which need not have these
                        // objects.
                        listing = cache.empty();
                    }
                    // Request this page again with its token.
                    limit = if name.is_some() { 1 } else { (limit / 4).max(1) };
                    continue;
                }
                Err(PageError::Api(error)) if backoff.wait_if_busy(&error).await => continue,
                Err(PageError::Api(error)) => return Err(error),
            };
            backoff.record_page(latency);
            if page.next.is_empty() {
                listing.version = page.version;
                let any = || ExcludedObjects::Any(listing.version.clone());
                listing.excluded = match (name, listing.excluded) {
                    (None, _) if is_partial(cache, namespace) => any(),
                    (None, _) => ExcludedObjects::None,
                    (Some(_), ExcludedObjects::Any(_)) => any(),
                    (Some(_), excluded) => excluded,
                };
                return match listing.unreadable.nameless_reason() {
                    // A cache records the missing object. In a direct read, a missing object would
                    // count as absent.
                    Some(why) if waiting == ReadPriority::Request => {
                        Err(ApiError::Other(why.to_string()))
                    }
                    _ => Ok(listing),
                };
            }
            limit = next_limit(limit, bytes, page.count);
            params.continue_token = Some(page.next);
        }
    }

    /// Adds the objects of a page to a listing. Returns its metadata and its size.
    async fn page(
        &self,
        request: http::Request<Vec<u8>>,
        limit: u32,
        cache: &ResourceCache,
        namespace: &Arc<str>,
        waiting: ReadPriority,
        listing: &mut Listing,
    ) -> Result<ReadPage, PageError> {
        // A permit is acquired when a response arrives, so that a server that hangs does not delay
        // other reads.
        let began = Instant::now();
        let stream = self.send(request).await?;
        let latency = began.elapsed();
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let reading = async {
            let _place = self.page_permits.acquire().await.ok();
            let mut stream = std::pin::pin!(stream);
            let (mut text, mut bytes, mut large) = (PageReader::default(), 0_usize, None);
            loop {
                let part = stream.fill_buf().await?;
                let length = part.len();
                if length == 0 {
                    return Ok(ReadPage { page: text.finish()?, bytes, latency });
                }
                bytes = bytes.saturating_add(length);
                let mut rest = part;
                while let Some(item) = text.next(&mut rest)? {
                    let (reading, namespace) = (cache.shared_resolved_read(), namespace.clone());
                    let read = move |text| decode::read_item(&reading, text, &namespace);
                    if let Some(change) = self.parse_limiter.read(item, waiting, read).await? {
                        cache.add(listing, change);
                    }
                    if cache.is_polled() || text.count() > most {
                        ensure_bounded(listing)?;
                    }
                }
                if bytes > MAX_PAGE_BYTES && most > 1 && text.count() <= most {
                    return Err(PageError::TooLarge);
                }
                stream.consume_unpin(length);
                if text.item_bytes() <= LARGE_OBJECT_BYTES {
                    large = None;
                } else if large.is_none() {
                    // The holder of this permit needs no other one.
                    large = self.large_object_permit.acquire().await.ok();
                }
            }
        };
        with_timeout(reading).await
    }
}

/// Whether a list of this scope lacks objects that the cache does not keep.
fn is_partial(cache: &ResourceCache, namespace: Option<&str>) -> bool {
    let is_elsewhere = cache.namespace().is_some_and(|own| namespace.is_some_and(|ns| ns != own));
    is_elsewhere || label_selector(cache).is_some()
}

/// Fails if a listing holds more than the limit.
pub(in crate::cluster) fn ensure_bounded(listing: &Listing) -> Result<(), ApiError> {
    let unreadable = listing.unreadable.len().saturating_mul(UNREADABLE_OBJECT_BYTES);
    if listing.objects.bytes().saturating_add(unreadable) <= MAX_LIST_BYTES {
        return Ok(());
    }
    Err(ApiError::Other(format!("objects of which more than {MAX_LIST_BYTES} bytes would be kept")))
}

/// Number of objects of the next page, for the desired bytes. It grows slowly, because large
/// objects can follow small ones.
pub(in crate::cluster) fn next_limit(limit: u32, bytes: usize, count: usize) -> u32 {
    let each = (bytes / count.max(1)).max(1);
    let fitting = u32::try_from(TARGET_PAGE_BYTES / each).unwrap_or(MAX_PAGE_LIMIT);
    fitting.clamp(1, limit.saturating_mul(4).min(MAX_PAGE_LIMIT))
}

/// A text in a field selector.
pub(in crate::cluster) fn escape_field_value(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_large_as_the_objects_allow() {
        for (limit, bytes, count, next) in [
            (20, 20 * 300, 20, 80),
            (80, 80 * 300, 80, 320),
            (320, 320 * 300, 320, 500),
            (500, 500 * 100_000, 500, 10),
            (20, 20 * 100_000, 20, 10),
            (1, 3 << 20, 1, 1),
            (1, 300, 1, 4),
            (20, 100, 0, 80),
        ] {
            assert_eq!(next_limit(limit, bytes, count), next, "{limit} {bytes} {count}");
        }
    }
}
