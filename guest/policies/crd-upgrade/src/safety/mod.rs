//! Upgrade safety: what the new schemas of a CRD do to objects and clients of the old ones.

use opgate_sdk::{Report, Review, rules};

rules![];

pub(crate) fn judge(_: &Review<'_>, _: &mut Report<'_>) {}
