//! Reads what users have written.
//!
//! * [`field`]: fields of violations as paths in a document.
//! * [`objects`]: the objects of a document.
//! * [`read`]: the bytes of files, within a budget.
//! * [`secrets`]: the parts of Secrets that policies see.
//! * [`yaml`]: YAML as JSON, with the places of its values.

pub mod field;
pub mod objects;
// WebAssembly has no files.
#[cfg(not(target_family = "wasm"))]
pub mod read;
pub mod secrets;
pub mod yaml;
