//! Pushes a component under a tag: config and layer first, then the manifest that names them.

use bytes::Bytes;
use http::{Method, Uri};

use crate::client::{Call, Session};
use crate::content::check_digest_header;
use crate::manifest::{MANIFEST_TYPE, encode_manifest};
use crate::{Digest, Error, Reference, Registry};

/// Maximum bytes of a response to an upload. opgate ignores its content.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// The interfaces of a component, by name.
#[derive(Debug, Clone, Copy)]
pub struct Interfaces<'a> {
    /// Those that it needs.
    pub imports: &'a [String],
    /// Those that it offers.
    pub exports: &'a [String],
}

impl Registry {
    /// Pushes a component under the tag of the reference, with the interfaces that it imports and exports for other tools. Returns
    /// the digest of the manifest: the same component has the same digest.
    ///
    /// # Errors
    /// If the reference names no tag, or the registry rejects the upload.
    pub async fn push(
        &self,
        reference: &Reference,
        component: Vec<u8>,
        interfaces: Interfaces<'_>,
    ) -> Result<Digest, Error> {
        self.with_timeout(reference, self.push_component(reference, component, interfaces)).await
    }

    async fn push_component(
        &self,
        reference: &Reference,
        component: Vec<u8>,
        interfaces: Interfaces<'_>,
    ) -> Result<Digest, Error> {
        let (Some(tag), None) = (reference.tag(), reference.digest()) else {
            return Err(Error::permanent("what is pushed gets a tag: name one, and no digest"));
        };
        let Interfaces { imports, exports } = interfaces;
        let (config, manifest) = encode_manifest(&component, imports, exports);
        let digest = Digest::of(&manifest);
        let mut session = self.client.session(reference, "pull,push")?;
        upload(&mut session, config.into()).await?;
        upload(&mut session, component.into()).await?;
        let uri = session.uri(&format!("manifests/{tag}"))?;
        let reply = session.call(&put_call(uri, manifest.into(), MANIFEST_TYPE)).await?;
        check_digest_header(&reply.headers, &digest)?;
        Ok(digest)
    }
}

fn put_call(uri: Uri, body: Bytes, content_type: &'static str) -> Call {
    let content_type = Some(content_type);
    Call {
        method: Method::PUT,
        uri,
        accept: None,
        content_type,
        body,
        max_bytes: MAX_RESPONSE_BYTES,
    }
}

/// Uploads bytes, unless the registry has them.
async fn upload(session: &mut Session<'_>, bytes: Bytes) -> Result<(), Error> {
    let digest = Digest::of(&bytes);
    let uri = session.uri(&format!("blobs/{digest}"))?;
    let empty = Call {
        method: Method::HEAD,
        uri,
        accept: None,
        content_type: None,
        body: Bytes::new(),
        max_bytes: MAX_RESPONSE_BYTES,
    };
    match session.call(&empty).await {
        Ok(_) => return Ok(()),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    let uri = session.uri("blobs/uploads/")?;
    let opened = session.call(&Call { method: Method::POST, uri, ..empty }).await?;
    let at = session.location_uri(&opened)?.to_string();
    let sign = if at.contains('?') { '&' } else { '?' };
    // A query may contain an unescaped colon.
    let at = format!("{at}{sign}digest={digest}").parse();
    let at = at.map_err(|_| Error::permanent("the registry names no address for an upload"))?;
    session.call(&put_call(at, bytes, "application/octet-stream")).await?;
    Ok(())
}
