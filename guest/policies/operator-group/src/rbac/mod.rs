//! The permissions that roles and bindings give to the ServiceAccounts of OperatorGroups.
//!
//! ```text
//! widening ───────▶ rights                the permissions of a role for a few resources
//! permissions ─┐
//! pull_secrets ┴──▶ granted, policy_rule  all permissions of an account
//!
//! each of them ───▶ bindings, subjects    the roles that apply to an account
//!                   read, budget          objects, within the budget
//! ```
//!
//! Every search has a fixed budget: roles and bindings can have any size, and a call has a fixed
//! time.

mod bindings;
mod budget;
mod granted;
mod permissions;
mod policy_rule;
mod pull_secrets;
mod read;
mod rights;
mod subjects;
#[cfg(test)]
mod testing;
mod widening;

use opgate_sdk::cluster::ReadError;

pub(crate) use budget::MAX_STEPS;
pub(crate) use permissions::{group_account, missing_permissions, requests_new_permissions};
pub(crate) use pull_secrets::lacks_pull_secrets;
pub(crate) use widening::{grants_group_writes, widened_account, widening_binding, widening_role};

/// The reason why a search has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SearchError {
    /// There is no cluster to query.
    NoCluster,
    /// The budget was exceeded at this object.
    TooLarge(String),
}

/// The result of a search, and the reason why it may be incomplete.
#[derive(Debug)]
pub(crate) struct SearchResult<T> {
    pub(crate) value: T,
    pub(crate) incomplete_reason: Option<SearchError>,
}

impl<T> SearchResult<T> {
    fn of(what: T, end: Result<(), SearchError>) -> Self {
        Self { value: what, incomplete_reason: end.err() }
    }

    #[cfg(test)]
    fn complete(self) -> Result<T, SearchError> {
        self.incomplete_reason.map_or(Ok(self.value), Err)
    }
}

impl From<ReadError> for SearchError {
    fn from(_: ReadError) -> Self {
        // Only roles are read by selectors, and `read::each` ignores invalid ones.
        Self::NoCluster
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;

    #[test]
    fn without_a_cluster_there_is_no_answer() {
        assert_eq!(widened_account("scoped", "scoped").complete(), Err(SearchError::NoCluster));
        let reviewed = parse(&binding("", "b", "ClusterRole", "r", SCOPED));
        assert_eq!(widening_binding(&reviewed, None).complete(), Err(SearchError::NoCluster));
        let reviewed = parse(&role("", "r", CREATE_CRDS));
        assert_eq!(widening_role(&reviewed, None).complete(), Err(SearchError::NoCluster));
        assert_eq!(lacks_pull_secrets("scoped", "scoped").complete(), Err(SearchError::NoCluster));
        // A rule that requests nothing requires no permission.
        let reviewed = parse(&role("", "r", READ_CRDS));
        assert_eq!(widening_role(&reviewed, None).complete(), Ok(None));
        let missing = missing_permissions("scoped", "scoped", &parse("{}"), None);
        assert_eq!(missing.complete(), Ok(vec![]));
    }
}
