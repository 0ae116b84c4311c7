//! Content counts by its digest, whoever gives it.

use crate::client::Session;
use crate::{Digest, Error};

/// The bytes with this digest, of exactly this size.
pub(crate) async fn blob(
    session: &mut Session<'_>,
    digest: Digest,
    size: usize,
) -> Result<Vec<u8>, Error> {
    let reply =
        session.get(&format!("blobs/{digest}"), "application/octet-stream, */*", size).await?;
    if reply.body.len() != size {
        return Err(Error::lasting(format!(
            "{digest} has {} bytes, not {size} as the manifest says",
            reply.body.len()
        )));
    }
    let found = Digest::of(&reply.body);
    if found != digest {
        return Err(Error::lasting(format!(
            "the registry gives {found} for {digest}: it, or somebody on the way, has changed the content"
        )));
    }
    Ok(reply.body)
}

/// What the head of an answer says of a digest must be so.
pub(crate) fn stated(headers: &http::HeaderMap, digest: &Digest) -> Result<(), Error> {
    match headers.get("docker-content-digest").map(http::HeaderValue::as_bytes) {
        // One of another kind cannot be compared.
        Some(stated) if stated.starts_with(b"sha256:") && stated != digest.as_str().as_bytes() => {
            let stated = String::from_utf8_lossy(stated);
            Err(Error::lasting(format!(
                "the registry says that the digest is {stated:?}, and it is {digest}"
            )))
        }
        _ => Ok(()),
    }
}
