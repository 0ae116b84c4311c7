//! Policies that are part of the program.

use std::fmt;

use opgate_engine::Image;

/// A policy as the build embeds it.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The component.
    pub component: &'static [u8],
    /// `sha256:…` of the component, which is not read as long as the image fits.
    pub digest: &'static str,
    /// The native code that the build compiled from it.
    pub image: Image,
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builtin").field(&self.name).finish()
    }
}
