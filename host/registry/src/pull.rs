//! Pulls a component by its reference:
//!
//! ```text
//! tag ─▶ manifest ─▶ its digest ─▶ signature ─▶ index? ─▶ manifest by digest ─▶ layer by digest
//! ```

use crate::client::Session;
use crate::content::{check_digest_header, fetch_blob};
use crate::manifest::{
    ACCEPTED_TYPES, MAX_MANIFEST_BYTES, Manifest, component_layer, wasm_manifest,
};
use crate::{Cache, Digest, Error, PublicKeys, Reference, Registry, signature};

/// A component.
#[derive(Debug, Clone)]
pub struct PulledComponent {
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
        keys: Option<&PublicKeys>,
        cache: Option<&Cache>,
    ) -> Result<PulledComponent, Error> {
        self.with_timeout(reference, self.pull_component(reference, keys, cache)).await
    }

    /// Verifies that one of the keys signed a manifest, and returns its digest.
    ///
    /// # Errors
    /// If it has no such signature, or the registry does not respond.
    pub async fn verify(&self, reference: &Reference, keys: &PublicKeys) -> Result<Digest, Error> {
        let verified = async {
            let mut session = self.client.session(reference, "pull")?;
            let (digest, _) = fetch_root_manifest(&mut session, reference, None).await?;
            signature::verify(&mut session, reference, &digest, keys, None).await?;
            Ok(digest)
        };
        self.with_timeout(reference, verified).await
    }

    async fn pull_component(
        &self,
        reference: &Reference,
        keys: Option<&PublicKeys>,
        cache: Option<&Cache>,
    ) -> Result<PulledComponent, Error> {
        let mut session = self.client.session(reference, "pull")?;
        let (digest, manifest) = fetch_root_manifest(&mut session, reference, cache).await?;
        if let Some(keys) = keys {
            signature::verify(&mut session, reference, &digest, keys, cache).await?;
        }
        let layers = match manifest {
            Manifest::Layers(layers) => layers,
            Manifest::Index(manifests) => {
                let descriptor = wasm_manifest(&manifests)?;
                descriptor.size_within("manifest", MAX_MANIFEST_BYTES)?;
                match fetch_manifest(&mut session, &descriptor.digest()?, cache).await? {
                    Manifest::Layers(layers) => layers,
                    Manifest::Index(_) => return Err(Error::permanent("an index within an index")),
                }
            }
        };
        let layer = component_layer(&layers)?;
        let size = layer.size_within("component", self.limits.max_component_bytes)?;
        let content = layer.digest()?;
        let cached =
            cache.and_then(|cache| cache.get(&content, size)).filter(|bytes| bytes.len() == size);
        if let Some(component) = cached {
            return Ok(PulledComponent { digest, component });
        }
        let component = fetch_blob(&mut session, content.clone(), size).await?;
        if let Some(cache) = cache {
            cache.put(&content, &component);
        }
        Ok(PulledComponent { digest, component })
    }
}

/// Returns the manifest or index that a reference names, and its digest.
async fn fetch_root_manifest(
    session: &mut Session<'_>,
    reference: &Reference,
    cache: Option<&Cache>,
) -> Result<(Digest, Manifest), Error> {
    if let Some(digest) = reference.digest() {
        return Ok((digest.clone(), fetch_manifest(session, digest, cache).await?));
    }
    let tag = reference.tag().unwrap_or_default();
    let reply =
        session.get(&format!("manifests/{tag}"), ACCEPTED_TYPES, MAX_MANIFEST_BYTES).await?;
    let digest = Digest::of(&reply.body);
    check_digest_header(&reply.headers, &digest)?;
    let manifest = Manifest::parse(&reply.body, Some(&reply.headers))?;
    if let Some(cache) = cache {
        cache.put(&digest, &reply.body);
    }
    Ok((digest, manifest))
}

/// Returns the manifest with a digest.
async fn fetch_manifest(
    session: &mut Session<'_>,
    digest: &Digest,
    cache: Option<&Cache>,
) -> Result<Manifest, Error> {
    if let Some(bytes) = cache.and_then(|cache| cache.get(digest, MAX_MANIFEST_BYTES)) {
        return Manifest::parse(&bytes, None);
    }
    let reply =
        session.get(&format!("manifests/{digest}"), ACCEPTED_TYPES, MAX_MANIFEST_BYTES).await?;
    let found = Digest::of(&reply.body);
    if found != *digest {
        return Err(Error::permanent(format!(
            "the registry gives {found} for {digest}: it, or somebody on the way, has changed the content"
        )));
    }
    let manifest = Manifest::parse(&reply.body, Some(&reply.headers))?;
    if let Some(cache) = cache {
        cache.put(digest, &reply.body);
    }
    Ok(manifest)
}
