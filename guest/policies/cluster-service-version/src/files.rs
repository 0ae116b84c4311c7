//! ClusterServiceVersions in catalogs, and what only the files of a bundle show.
//!
//! The manifest of a bundle is a request of its own ([`crate::judge`]). Here are the rules that need
//! the files beside it.

use opgate_sdk::{Report, Review};

/// The files of a bundle.
pub(crate) fn bundle(_review: &Review<'_>, _report: &mut Report<'_>) {}

/// The blobs of a package in a catalog.
pub(crate) fn catalog(_review: &Review<'_>, _report: &mut Report<'_>) {}
