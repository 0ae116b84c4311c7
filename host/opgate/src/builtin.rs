//! The policies that this program carries; the build script embeds them.

use opgate_admission::policy::Builtin;

/// Every policy that the host carries, in the order in which they serve.
pub static BUILTINS: &[Builtin] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

#[cfg(test)]
mod tests;
