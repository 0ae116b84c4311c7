//! What roles and bindings let the ServiceAccounts of OperatorGroups do.
//!
//! ```text
//! widening ───────▶ rights                what a role lets do to a few resources
//! permissions ─┐
//! pull_secrets ┴──▶ granted, policy_rule  all that an account may do
//!
//! each of them ───▶ bindings, subjects    which roles apply to which accounts
//!                   read, budget          objects, as long as the budget lasts
//! ```
//!
//! Every question has a fixed budget: roles and bindings have whatever size their authors
//! like, and a call has a fixed time.

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

pub(crate) use budget::STEPS;
pub(crate) use permissions::{asks_for_permissions, group_account, missing_permissions};
pub(crate) use pull_secrets::lacks_pull_secrets;
pub(crate) use widening::{opens_groups, widened_account, widening_binding, widening_role};

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// There is no cluster to ask.
    Absent,
    /// The budget was used up by this.
    TooLarge(String),
}

/// What was found, and why that may not be all.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) what: T,
    pub(crate) short: Option<Unanswered>,
}

impl<T> Found<T> {
    fn of(what: T, end: Result<(), Unanswered>) -> Self {
        Self { what, short: end.err() }
    }

    #[cfg(test)]
    fn complete(self) -> Result<T, Unanswered> {
        self.short.map_or(Ok(self.what), Err)
    }
}

impl From<ReadError> for Unanswered {
    fn from(_: ReadError) -> Self {
        // Only roles are read by selectors, and `read::each` ignores wrong ones.
        Self::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;

    #[test]
    fn without_a_cluster_there_is_no_answer() {
        assert_eq!(widened_account("scoped", "scoped").complete(), Err(Unanswered::Absent));
        let reviewed = parsed(&binding("", "b", "ClusterRole", "r", SCOPED));
        assert_eq!(widening_binding(&reviewed, None).complete(), Err(Unanswered::Absent));
        let reviewed = parsed(&role("", "r", CREATE_CRDS));
        assert_eq!(widening_role(&reviewed, None).complete(), Err(Unanswered::Absent));
        assert_eq!(lacks_pull_secrets("scoped", "scoped").complete(), Err(Unanswered::Absent));
        // What asks for nothing needs none.
        let reviewed = parsed(&role("", "r", READ_CRDS));
        assert_eq!(widening_role(&reviewed, None).complete(), Ok(None));
        let missing = missing_permissions("scoped", "scoped", &parsed("{}"), None);
        assert_eq!(missing.complete(), Ok(vec![]));
    }
}
