//! Verifies content by its digest, from whatever host it comes.

use crate::client::Session;
use crate::{Digest, Error};

/// Fetches the bytes with this digest, of exactly this size.
pub(crate) async fn fetch_blob(
    session: &mut Session<'_>,
    digest: Digest,
    size: usize,
) -> Result<Vec<u8>, Error> {
    let response =
        session.get(&format!("blobs/{digest}"), "application/octet-stream, */*", size).await?;
    if response.body.len() != size {
        return Err(Error::permanent(format!(
            "{digest} has {} bytes, not {size} as the manifest says",
            response.body.len()
        )));
    }
    let found = Digest::of(&response.body);
    if found != digest {
        return Err(Error::permanent(format!(
            "the registry gives {found} for {digest}: it, or somebody on the way, has changed the content"
        )));
    }
    Ok(response.body)
}

/// Checks that the digest in the head of a response, if it has one, is this digest.
pub(crate) fn check_digest_header(headers: &http::HeaderMap, digest: &Digest) -> Result<(), Error> {
    match headers.get("docker-content-digest").map(http::HeaderValue::as_bytes) {
        // A digest of another algorithm cannot be compared.
        Some(stated) if stated.starts_with(b"sha256:") && stated != digest.as_str().as_bytes() => {
            let stated = String::from_utf8_lossy(stated);
            Err(Error::permanent(format!(
                "the registry says that the digest is {stated:?}, and it is {digest}"
            )))
        }
        _ => Ok(()),
    }
}
