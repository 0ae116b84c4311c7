//! Lists in pages of few bytes, whatever the size of the objects.
//!
//! ```text
//! limit ─▶ answer ─ at most 2 MiB ─▶ parse, one at a time ─▶ Listing ─▶ the limit that fits the next page
//!   ▲                 │ more
//!   └── a quarter ────┘ down to one object, which is read while nothing else is
//! ```
//!
//! The text of a page and the index of its parse are memory that tenants can fill: an index has
//! several times the size of a text with nothing but brackets. So few pages are read at a time, and
//! one of them is parsed.

use futures_util::AsyncReadExt as _;
use kube::Client;
use kube::core::Request;
use kube::core::params::ListParams;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Kind;
use super::lens::Listing;
use super::live::{ANSWER, label_selector, no_answer, path};
use super::wire::{Trouble, page};
use opgate_certs::words::causes;
use opgate_text::one_line;

/// Number of objects of the first page, and maximum number.
const FIRST: u32 = 20;
const MOST: u32 = 500;

/// Desired bytes of a page, and maximum bytes of a page with more than one object.
const AIM: usize = 1 << 20;
const LARGEST_PAGE: u64 = 2 << 20;

/// Maximum bytes of an object, as a page of its own or as an event. An API server accepts requests
/// of 3 MiB, and one byte can become six in JSON.
pub(super) const LARGEST_OBJECT: u64 = 32 << 20;

/// Maximum number of concurrent pages.
const AT_ONCE: u32 = 3;

/// Limits of concurrent reads from an API server, for all resources.
#[derive(Debug)]
pub(super) struct Pages {
    places: Semaphore,
    parse: Semaphore,
}

impl Default for Pages {
    fn default() -> Self {
        let places = usize::try_from(AT_ONCE).unwrap_or(1);
        Self { places: Semaphore::new(places), parse: Semaphore::new(1) }
    }
}

/// The reason why there is no page.
enum NoPage {
    TooLarge,
    Trouble(Trouble),
}

impl Pages {
    /// Permission to parse.
    pub(super) async fn one(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.parse.acquire().await.ok()
    }

    /// All objects of a kind, or the one with this name.
    pub(super) async fn list(
        &self,
        client: &Client,
        kind: &Kind,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Listing, Trouble> {
        let mut listing = kind.empty();
        let mut limit = FIRST;
        let mut params = ListParams {
            label_selector: label_selector(kind),
            field_selector: name.map(|name| format!("metadata.name={}", escaped(name))),
            ..ListParams::default()
        };
        loop {
            params.limit = Some(limit);
            let request = Request::new(path(kind.resource(), namespace));
            let request = request.list(&params).map_err(|e| Trouble::Other(e.to_string()))?;
            let answer = match self.ask(client, request, limit == 1).await {
                Ok(answer) => answer,
                Err(NoPage::TooLarge) if limit > 1 => {
                    // The same page again, from the same token.
                    limit = if name.is_some() { 1 } else { (limit / 4).max(1) };
                    continue;
                }
                Err(NoPage::TooLarge) => {
                    let text = format!("an object of more than {LARGEST_OBJECT} bytes");
                    return Err(Trouble::Other(text));
                }
                Err(NoPage::Trouble(trouble)) => return Err(trouble),
            };
            let _one = self.one().await;
            let bytes = answer.len();
            let page = page(kind, &mut listing, answer, namespace.unwrap_or_default())?;
            limit = next_limit(limit, bytes, page.count);
            if page.next.is_empty() {
                listing.version = page.version;
                return Ok(listing);
            }
            params.continue_token = Some(page.next);
        }
    }

    /// The text of an answer. One that `is_single` can be large, and is read while no other is.
    async fn ask(
        &self,
        client: &Client,
        request: http::Request<Vec<u8>>,
        is_single: bool,
    ) -> Result<Vec<u8>, NoPage> {
        let asking = async {
            // A permit is taken when an answer arrives, so that a server that hangs does not delay
            // others.
            let stream = client.request_stream(request).await.map_err(Trouble::from)?;
            let places = if is_single { AT_ONCE } else { 1 };
            let most = if is_single { LARGEST_OBJECT } else { LARGEST_PAGE };
            let _places = self.places.acquire_many(places).await.ok();
            let mut answer = Vec::new();
            let stream = std::pin::pin!(stream);
            let mut rest = stream.take(most);
            let read = rest.read_to_end(&mut answer).await;
            let read = read.map_err(|e| Trouble::Other(one_line(&causes(&e), 512)))?;
            if u64::try_from(read) == Ok(most) { Err(NoPage::TooLarge) } else { Ok(answer) }
        };
        let answer = tokio::time::timeout(ANSWER, asking).await;
        answer.unwrap_or_else(|_| Err(Trouble::Other(no_answer(ANSWER)).into()))
    }
}

impl From<Trouble> for NoPage {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Number of objects of the next page, for the desired bytes. It grows slowly, because large
/// objects can follow small ones.
fn next_limit(limit: u32, bytes: usize, count: usize) -> u32 {
    let each = (bytes / count.max(1)).max(1);
    let fitting = u32::try_from(AIM / each).unwrap_or(MOST);
    fitting.clamp(1, limit.saturating_mul(4).min(MOST))
}

/// A text in a field selector.
fn escaped(text: &str) -> String {
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
