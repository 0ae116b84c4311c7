//! Policies that the program carries.

use std::fmt;

use opgate_engine::Image;

/// A policy as the build embeds it.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The component.
    pub component: &'static [u8],
    /// What wasmtime made of it during the build.
    pub image: Image,
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builtin").field(&self.name).finish()
    }
}
