//! Components in registries: their references in the file, and the results of resolving them. This
//! module does not contact registries. The reader of the file resolves the references before the
//! policies are loaded.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Configuration, ModuleSource, PolicyConfig};

/// The reason why a component was not pulled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PullError(pub String);

/// A component in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryReference {
    /// As written: `oci://…`.
    pub reference: String,
    /// The digest that the reference had when it was resolved.
    pub digest: Option<String>,
}

impl fmt::Display for RegistryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reference)?;
        match &self.digest {
            Some(digest) if !self.reference.contains('@') => write!(f, "@{digest}"),
            _ => Ok(()),
        }
    }
}

/// The public keys by one of which a component must be signed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureKey {
    /// A file.
    File(PathBuf),
    /// PEM in the configuration itself.
    Pem(String),
}

/// A component that was found in a registry.
#[derive(Debug, Clone)]
pub struct ResolvedComponent {
    /// `sha256:…` of its manifest.
    pub digest: String,
    /// The component.
    pub component: Arc<[u8]>,
}

impl Configuration {
    /// `sha256:…` of the text of the file.
    #[must_use]
    pub fn text_digest(&self) -> Option<&str> {
        self.text_digest.as_deref()
    }

    /// The policies whose components are in registries, with their references.
    pub fn registry_references(&self) -> impl Iterator<Item = (&PolicyConfig, &RegistryReference)> {
        self.policies.iter().filter_map(|policy| match &policy.module {
            ModuleSource::Oci(remote) => Some((policy, remote)),
            ModuleSource::Builtin(_) | ModuleSource::File(_) => None,
        })
    }

    /// Sets the result of a registry for a policy, or the reason why there is none. A policy
    /// without a component is broken when it is loaded.
    pub fn resolve(&mut self, policy: &str, found: Result<ResolvedComponent, PullError>) {
        let named = self.policies.iter_mut().find(|config| config.name == policy);
        if let (Some(PolicyConfig { module: ModuleSource::Oci(remote), .. }), Ok(found)) =
            (named, &found)
        {
            remote.digest = Some(found.digest.clone());
        }
        self.resolved.insert(policy.to_owned(), found);
    }

    /// The resolved component of a policy.
    pub(in crate::policy) fn resolved_component(
        &self,
        policy: &str,
    ) -> Result<&Arc<[u8]>, PullError> {
        match self.resolved.get(policy) {
            Some(Ok(found)) => Ok(&found.component),
            Some(Err(why)) => Err(why.clone()),
            None => Err(PullError("it was not pulled".to_owned())),
        }
    }
}
