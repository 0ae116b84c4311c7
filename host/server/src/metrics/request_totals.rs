//! The totals of requests since the start of the server, for `/ui/`.

use super::{CodeLabel, Metrics};

/// The codes with which the webhook port responds.
const CODES: [u16; 9] = [200, 400, 404, 408, 413, 415, 422, 500, 503];

/// The policy errors of a policy with one cause.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PolicyErrorTotal {
    pub(crate) policy: String,
    pub(crate) cause: &'static str,
    pub(crate) count: u64,
}

/// Totals of requests.
#[derive(Debug)]
pub(crate) struct RequestTotals {
    /// Responses by HTTP code, without codes that the server has not sent.
    pub(crate) responses: Vec<(u16, u64)>,
    pub(crate) in_flight: i64,
    pub(crate) shed: u64,
    pub(crate) panics: u64,
    pub(crate) policy_errors: Vec<PolicyErrorTotal>,
}

impl Metrics {
    /// Returns the totals of requests.
    pub(crate) fn request_totals(&self) -> RequestTotals {
        let count = |code| Some((code, self.requests.get(&CodeLabel { code })?.get()));
        let mut policy_errors: Vec<_> = self
            .policy_errors
            .counts()
            .into_iter()
            .map(|(labels, count)| PolicyErrorTotal {
                policy: labels.policy,
                cause: labels.cause,
                count,
            })
            .collect();
        policy_errors.sort();
        RequestTotals {
            responses: CODES.into_iter().filter_map(count).collect(),
            in_flight: self.in_flight.get(),
            shed: self.shed.get(),
            panics: self.panics.get(),
            policy_errors,
        }
    }
}
