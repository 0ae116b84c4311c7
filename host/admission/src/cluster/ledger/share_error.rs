//! The reasons why the ledger does not have a reservation.

use crate::cluster::ReservationLimitReached;

/// The reason why the ledger does not have a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShareError {
    /// Another replica has allowed a change that may change a result: evaluate again.
    Outdated,
    /// The deadline of the request has passed.
    Late,
    /// The share of the tenant is used up.
    Full(ReservationLimitReached),
    /// The ledger cannot be used: the reason.
    Unavailable(String),
}

impl ShareError {
    /// The reason, for traces.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Outdated => "another replica allowed a conflicting change".to_owned(),
            Self::Late => "the deadline passed".to_owned(),
            Self::Full(limit) => limit.reason.clone(),
            Self::Unavailable(reason) => reason.clone(),
        }
    }
}
