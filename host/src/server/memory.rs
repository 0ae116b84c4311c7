//! What requests hold of the server's memory.

/// What an answer holds until its client has taken it.
#[derive(Debug, Clone)]
pub(super) struct Paid;
