//! Reads what users have written.
//!
//! * [`read`]: the bytes of files, within a budget.
//! * [`yaml`]: YAML as JSON, with the places of its values.

pub mod read;
pub mod yaml;
