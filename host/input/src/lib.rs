//! Reads what users have written.
//!
//! * [`objects`]: the objects of a document.
//! * [`read`]: the bytes of files, within a budget.
//! * [`yaml`]: YAML as JSON, with the places of its values.

pub mod objects;
pub mod read;
pub mod yaml;
