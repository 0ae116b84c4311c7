//! Maximum bytes of the rows of each table of the overview. Full tables leave room for the rest of the page.

use super::MAX_PAGE_BYTES;

/// Bytes of the page that are not rows of its tables: style, script, and at most 16 texts of a server that is not
/// ready, each with 6 KiB after escapes.
const MAX_OTHER_BYTES: usize = 112 << 10;

pub(super) const REVIEWS: usize = 160 << 10;
pub(super) const REVIEWS_BY_RULE: usize = 32 << 10;
pub(super) const REVIEWS_BY_NAMESPACE: usize = 32 << 10;
pub(super) const POLICIES: usize = 48 << 10;
pub(super) const AUDIT: usize = 32 << 10;
pub(super) const POLICY_ERRORS: usize = 16 << 10;
pub(super) const CACHES: usize = 32 << 10;
pub(super) const RESERVATIONS: usize = 32 << 10;
pub(super) const REPLICAS: usize = 16 << 10;

/// The rows of all tables.
const MAX_ROWS_BYTES: usize = REVIEWS
    + REVIEWS_BY_RULE
    + REVIEWS_BY_NAMESPACE
    + POLICIES
    + AUDIT
    + POLICY_ERRORS
    + CACHES
    + RESERVATIONS
    + REPLICAS;

const _: () = assert!(MAX_ROWS_BYTES + MAX_OTHER_BYTES <= MAX_PAGE_BYTES);
