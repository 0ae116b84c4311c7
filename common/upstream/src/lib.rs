//! What Operators, bundles and messages owe to Go and to Kubernetes: rules and texts that must agree
//! with upstream byte for byte, without any I/O.
//!
//! * [`go`]: quoting, paths, names that fold, base64.
//! * [`kinds`]: kinds and resources.
//! * [`labels`]: label selectors.

pub mod go;
pub mod kinds;
pub mod labels;
