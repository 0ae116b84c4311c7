//! Documents that are made from files.

use opgate_sdk::{Report, Review};

use crate::seccomp;

/// The files of a bundle. The manifest of its `ClusterServiceVersion` is a request of its own.
pub(crate) fn bundle(review: &Review<'_>, report: &mut Report<'_>) {
    if let Some(object) = review.object {
        seccomp::judge(object, report);
    }
}

/// The blobs of a package in a catalog.
pub(crate) fn catalog(_review: &Review<'_>, _report: &mut Report<'_>) {}
