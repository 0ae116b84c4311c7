//! A watch of one object: what is stored now, and each later version.
//!
//! ```text
//! GET …?watch=true&fieldSelector=metadata.name=NAME ─▶ lines ─▶ ADDED, MODIFIED: the object
//!                                                           ├▶ DELETED: none
//!                                                           └▶ ERROR, silence, end: the stream ends
//! ```

use std::io;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{Stream, try_unfold};
use futures_util::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use opgate_certs::error_text::with_causes;
use serde_json::Value;

use crate::api::{ApiError, Kind, REQUEST_TIMEOUT, text};

/// The API server ends a watch after this time. The next one begins with what is stored.
const WATCH_DURATION: Duration = Duration::from_mins(1);

/// A watch that is silent for this much longer is broken.
const END_GRACE: Duration = Duration::from_secs(10);

/// Maximum bytes of an event. An object has at most 1.5 MiB in etcd; JSON can escape each of them.
const MAX_EVENT_BYTES: u64 = 16 << 20;

/// The body of a response, by lines.
type Lines = Pin<Box<dyn AsyncBufRead + Send>>;

/// Watches one object: `None` if it was deleted.
pub(crate) fn watch_object(
    client: Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> impl Stream<Item = Result<Option<Value>, ApiError>> + Send + use<> {
    let path = format!(
        "{}?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={}",
        kind.path(namespace),
        WATCH_DURATION.as_secs()
    );
    try_unfold(None, move |open: Option<Lines>| {
        let (client, path) = (client.clone(), path.clone());
        async move {
            let mut lines = match open {
                Some(lines) => lines,
                None => open_watch(client, path).await?,
            };
            let Some(event) = next_event(&mut lines).await? else { return Ok(None) };
            Ok(Some((event, Some(lines))))
        }
    })
}

async fn open_watch(client: Client, path: String) -> Result<Lines, ApiError> {
    let request = http::Request::get(path).header(http::header::ACCEPT, "application/json");
    let request = request.body(Body::empty()).map_err(|e| ApiError::Invalid(e.to_string()))?;
    let response = tokio::time::timeout(REQUEST_TIMEOUT, client.send(request)).await;
    let response = response.map_err(|_| ApiError::Unavailable("no response".to_owned()))?;
    let response = response.map_err(|e| ApiError::Unavailable(with_causes(&e)))?;
    let code = response.status();
    if !code.is_success() {
        return Err(ApiError::of(code.as_u16(), code.to_string().as_bytes(), "watch"));
    }
    let bytes = response.into_body().into_data_stream().map_err(io::Error::other);
    Ok(Box::pin(bytes.into_async_read()))
}

/// The object of the next event; `None` if the watch has ended.
async fn next_event(lines: &mut Lines) -> Result<Option<Option<Value>>, ApiError> {
    loop {
        let mut line = Vec::new();
        let mut limited = lines.as_mut().take(MAX_EVENT_BYTES);
        let reading = limited.read_until(b'\n', &mut line);
        let read = tokio::time::timeout(WATCH_DURATION + END_GRACE, reading).await;
        let read = read.map_err(|_| ApiError::Unavailable("the watch is silent".to_owned()))?;
        let read = read.map_err(|e| ApiError::Unavailable(with_causes(&e)))?;
        if read == 0 {
            return Ok(None);
        }
        if u64::try_from(read) == Ok(MAX_EVENT_BYTES) {
            let why = format!("an event of more than {MAX_EVENT_BYTES} bytes");
            return Err(ApiError::Unavailable(why));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let mut event: Value = serde_json::from_slice(&line)
            .map_err(|e| ApiError::Unavailable(format!("an event is no JSON: {e}")))?;
        return match text(&event, "/type") {
            "ADDED" | "MODIFIED" => Ok(event.get_mut("object").map(Value::take).map(Some)),
            "DELETED" => Ok(Some(None)),
            _ => Err(ApiError::Unavailable(text(&event, "/object/message").to_owned())),
        };
    }
}

#[cfg(test)]
mod tests {
    use futures_util::io::{BufReader, repeat};

    use super::*;

    #[tokio::test]
    async fn event_without_an_end_is_read_up_to_the_limit() {
        let begin = &br#"{"type":"ADDED","object":{"data":""#[..];
        let mut lines: Lines = Box::pin(BufReader::new(begin.chain(repeat(b'x'))));
        let error = next_event(&mut lines).await.unwrap_err().to_string();
        assert!(error.contains("more than 16777216 bytes"), "{error}");
    }

    #[tokio::test]
    async fn event_of_the_largest_object_is_read() {
        // Each byte is escaped with six.
        let text = "\\u0001".repeat(3 << 19);
        let event = format!("{{\"type\":\"ADDED\",\"object\":{{\"data\":\"{text}\"}}}}\n");
        let mut lines: Lines = Box::pin(BufReader::new(futures_util::io::Cursor::new(event)));
        let object = next_event(&mut lines).await.unwrap().flatten().unwrap();
        assert_eq!(object["data"].as_str().map(str::len), Some(3 << 19));
    }
}
