//! Verifies content by its digest, from whatever host it comes.

use crate::client::Session;
use crate::{Digest, Error};

/// Fetches the bytes with this digest, of exactly this size.
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

/// Checks that the digest in the head of a response, if it has one, is this digest.
pub(crate) fn stated(headers: &http::HeaderMap, digest: &Digest) -> Result<(), Error> {
    match headers.get("docker-content-digest").map(http::HeaderValue::as_bytes) {
        // A digest of another algorithm cannot be compared.
        Some(stated) if stated.starts_with(b"sha256:") && stated != digest.as_str().as_bytes() => {
            let stated = String::from_utf8_lossy(stated);
            Err(Error::lasting(format!(
                "the registry says that the digest is {stated:?}, and it is {digest}"
            )))
        }
        _ => Ok(()),
    }
}
