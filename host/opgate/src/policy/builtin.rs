//! The policies that the host carries.

use opgate_unsafe::Image;

/// A policy as the build script embeds it.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The component.
    pub component: &'static [u8],
    /// What wasmtime made of it during the build.
    pub image: Image,
}

/// Every policy that the host carries, in the order in which they serve.
pub static BUILTINS: &[Builtin] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));
