//! Pulls a component by its reference:
//!
//! ```text
//! tag ─▶ manifest ─▶ its digest ─▶ signature ─▶ index? ─▶ manifest by digest ─▶ layer by digest
//! ```

use crate::client::Session;
use crate::content::{blob, stated};
use crate::manifest::{ACCEPTED, MAX_MANIFEST, Manifest, component, only};
use crate::{Cache, Digest, Error, Keys, Reference, Registry, signature};

/// A component.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// The digest of the manifest or index that the reference names. Write it after `@`.
    pub digest: Digest,
    /// The component.
    pub component: Vec<u8>,
}

impl Registry {
    /// Pulls a component. Content with a digest comes from the cache, if the cache has it; a tag always comes from the registry. With
    /// keys, one of them must have signed the manifest, also if it comes from the cache.
    ///
    /// # Errors
    /// If the registry does not return it within the limits, it is not a policy, or it has no valid signature.
    pub async fn pull(
        &self,
        reference: &Reference,
        keys: Option<&Keys>,
        cache: Option<&Cache>,
    ) -> Result<Pulled, Error> {
        self.in_time(reference, self.pulled(reference, keys, cache)).await
    }

    /// Verifies that one of the keys signed a manifest, and returns its digest.
    ///
    /// # Errors
    /// If it has no such signature, or the registry does not respond.
    pub async fn verify(&self, reference: &Reference, keys: &Keys) -> Result<Digest, Error> {
        let verified = async {
            let mut session = self.client.session(reference, "pull")?;
            let (digest, _) = top(&mut session, reference, None).await?;
            signature::verify(&mut session, reference, &digest, keys, None).await?;
            Ok(digest)
        };
        self.in_time(reference, verified).await
    }

    async fn pulled(
        &self,
        reference: &Reference,
        keys: Option<&Keys>,
        cache: Option<&Cache>,
    ) -> Result<Pulled, Error> {
        let mut session = self.client.session(reference, "pull")?;
        let (digest, manifest) = top(&mut session, reference, cache).await?;
        if let Some(keys) = keys {
            signature::verify(&mut session, reference, &digest, keys, cache).await?;
        }
        let layers = match manifest {
            Manifest::Layers(layers) => layers,
            Manifest::Index(manifests) => {
                let one = only(&manifests)?;
                one.size("manifest", MAX_MANIFEST)?;
                match by_digest(&mut session, &one.digest()?, cache).await? {
                    Manifest::Layers(layers) => layers,
                    Manifest::Index(_) => return Err(Error::lasting("an index within an index")),
                }
            }
        };
        let layer = component(&layers)?;
        let size = layer.size("component", self.limits.component)?;
        let content = layer.digest()?;
        let kept =
            cache.and_then(|cache| cache.get(&content, size)).filter(|bytes| bytes.len() == size);
        if let Some(component) = kept {
            return Ok(Pulled { digest, component });
        }
        let component = blob(&mut session, content.clone(), size).await?;
        if let Some(cache) = cache {
            cache.keep(&content, &component);
        }
        Ok(Pulled { digest, component })
    }
}

/// Returns the manifest or index that a reference names, and its digest.
async fn top(
    session: &mut Session<'_>,
    reference: &Reference,
    cache: Option<&Cache>,
) -> Result<(Digest, Manifest), Error> {
    if let Some(digest) = reference.digest() {
        return Ok((digest.clone(), by_digest(session, digest, cache).await?));
    }
    let tag = reference.tag().unwrap_or_default();
    let reply = session.get(&format!("manifests/{tag}"), ACCEPTED, MAX_MANIFEST).await?;
    let digest = Digest::of(&reply.body);
    stated(&reply.headers, &digest)?;
    let manifest = Manifest::read(&reply.body, Some(&reply.headers))?;
    if let Some(cache) = cache {
        cache.keep(&digest, &reply.body);
    }
    Ok((digest, manifest))
}

/// Returns the manifest with a digest.
async fn by_digest(
    session: &mut Session<'_>,
    digest: &Digest,
    cache: Option<&Cache>,
) -> Result<Manifest, Error> {
    if let Some(bytes) = cache.and_then(|cache| cache.get(digest, MAX_MANIFEST)) {
        return Manifest::read(&bytes, None);
    }
    let reply = session.get(&format!("manifests/{digest}"), ACCEPTED, MAX_MANIFEST).await?;
    let found = Digest::of(&reply.body);
    if found != *digest {
        return Err(Error::lasting(format!(
            "the registry gives {found} for {digest}: it, or somebody on the way, has changed the content"
        )));
    }
    let manifest = Manifest::read(&reply.body, Some(&reply.headers))?;
    if let Some(cache) = cache {
        cache.keep(digest, &reply.body);
    }
    Ok(manifest)
}
