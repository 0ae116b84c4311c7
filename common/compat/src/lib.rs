//! Behaviour of Go and Kubernetes for Operators, bundles and messages: rules and texts that must agree with
//! upstream byte for byte, without any I/O.
//!
//! * [`kinds`]: kinds and resources.
//! * [`json`]: JSON as Go's decoder reads it, of any depth.
//! * [`image`]: references to images.
//! * [`go`]: quoting, paths, names that fold, base64, durations, addresses of mail, URLs
//!   and IP addresses.
//! * [`labels`]: label selectors.
//! * [`version`], [`range`]: semantic versions and ranges, as the library of OLM reads them.
//! * [`masterminds`]: constraints on versions, as the library of OLM 1.0 reads them.
//! * [`openshift`]: versions of OpenShift that a bundle names.
//! * [`controllers`]: the service accounts as which OLM and RukPak run.
//! * [`names`]: labels of DNS, names of APIs, keys and values of labels.
//! * [`nearest`]: the most similar of several names.

pub mod controllers;
pub mod go;
pub mod image;
pub mod json;
pub mod kinds;
pub mod labels;
pub mod masterminds;
pub mod names;
pub mod nearest;
pub mod openshift;
pub mod range;
pub mod version;
