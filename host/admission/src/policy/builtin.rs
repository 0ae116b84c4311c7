//! Policies that are part of the program.

use std::fmt;

use miniz_oxide::inflate::decompress_to_vec;
use opgate_engine::Image;

/// A policy as the build embeds it.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The component, deflated to a third of its size (RFC 1951). A server reads it only if the
    /// image does not fit; it contains the pages of rules.
    pub deflated: &'static [u8],
    /// `sha256:…` of the component.
    pub digest: &'static str,
    /// The native code that the build compiled from it.
    pub image: Image,
}

impl Builtin {
    /// The component. Takes some milliseconds.
    #[must_use]
    pub fn component(&self) -> Vec<u8> {
        // The build has deflated it. An empty component is rejected.
        decompress_to_vec(self.deflated).unwrap_or_default()
    }
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builtin").field(&self.name).finish()
    }
}
