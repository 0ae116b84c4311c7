//! The digest of a configuration: its text, the components of its policies, and the platform of
//! the cluster.
//!
//! Replicas compare it, and the webhook registration follows it. It is the digest of the active
//! configuration, not of the current content of the files: a set has the digest of the components
//! that it loaded.

use std::fmt::Write as _;
use std::path::Path;

use super::config::{Configuration, ModuleSource, PolicyConfig};
use super::{Mode, Platform, component_file};
use opgate_engine::digest;

/// Replaces the digest of an unreadable component.
const UNREADABLE: &str = "unreadable";

impl Configuration {
    /// `sha256:…` of this configuration with the current components in its files. Reads all of
    /// them.
    #[must_use]
    pub fn digest(&self) -> String {
        self.digest_with(|_| None)
    }

    /// The digest if the digests of some components are known.
    pub(super) fn digest_with<'d>(
        &self,
        known: impl Fn(&PolicyConfig) -> Option<&'d str>,
    ) -> String {
        let mut text = format!("{}\n", self.text_digest.as_deref().unwrap_or("built-in"));
        for policy in self.policies.iter().filter(|policy| policy.mode != Mode::Off) {
            let module = match known(policy) {
                Some(digest) => digest.to_owned(),
                None => self.digest_of(policy),
            };
            // Names have no spaces. Writing to a `String` does not fail.
            let _ = writeln!(text, "{} {module}", policy.name);
        }
        // Servers that detect different platforms serve different configurations.
        if let Some(platform) = self.platform() {
            let Platform { profile, olm, rukpak, .. } = platform;
            let _ = writeln!(text, "{} {olm:?} {rukpak:?}", profile.as_str());
        }
        digest(text.as_bytes())
    }

    fn digest_of(&self, policy: &PolicyConfig) -> String {
        match &policy.module {
            ModuleSource::Builtin(name) => {
                let found = self.builtins.iter().find(|builtin| builtin.name == name);
                found.map_or(UNREADABLE, |builtin| builtin.digest).to_owned()
            }
            ModuleSource::File(path) => digest_of_file(path),
            ModuleSource::Oci(_) => match self.resolved_component(&policy.name) {
                Ok(component) => digest(component),
                Err(_) => UNREADABLE.to_owned(),
            },
        }
    }
}

/// `sha256:…` of a component.
fn digest_of_file(path: &Path) -> String {
    component_file::read(path).map_or_else(|_| UNREADABLE.to_owned(), |bytes| digest(&bytes))
}
