//! The budget of one search. A search that exceeds its budget has no result.

use opgate_sdk::{ClusterRead, Document};

use super::SearchError;

/// The remaining steps, and the object that they are spent on.
pub(super) struct Budget {
    remaining: usize,
    object: String,
}

/// Maximum steps of one search. A comparison is one step, which takes a tenth of a microsecond.
pub(crate) const MAX_STEPS: usize = 500_000;
/// Steps of one host call.
pub(super) const CALL_STEPS: usize = 10;
/// Steps of a query for one object.
pub(super) const OBJECT_QUERY_STEPS: usize = 50;
/// Steps of a query for all objects with some labels.
pub(super) const SELECTION_QUERY_STEPS: usize = 20_000;

impl Budget {
    /// The whole budget of a search.
    pub(super) fn new() -> Self {
        Self { remaining: MAX_STEPS, object: "the object itself".to_owned() }
    }

    pub(super) fn spend(&mut self, amount: usize) -> Result<(), SearchError> {
        match self.remaining.checked_sub(amount) {
            Some(remaining) => {
                self.remaining = remaining;
                Ok(())
            }
            None => Err(SearchError::TooLarge(self.object.clone())),
        }
    }

    /// Charges the following steps to the object under review.
    pub(super) fn start_request_object(&mut self) {
        "the object itself".clone_into(&mut self.object);
    }

    /// Charges the following steps to this object of the cluster.
    pub(super) fn start_object(&mut self, read: &ClusterRead, object: &Document) {
        let namespace = object.text_or_empty("/metadata/namespace");
        let slash = if namespace.is_empty() { "" } else { "/" };
        let name = object.text_or_empty("/metadata/name");
        self.object = format!("{} {namespace}{slash}{name}", read.resource);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{SearchError, grants_group_writes, missing_permissions};

    #[test]
    fn oversized_rbac_objects_are_unanswered() {
        let too_large = |at: &str| SearchError::TooLarge(at.to_owned());
        let nothing = vec!["{}"; MANY_ELEMENTS].join(",");
        let found = grants_group_writes(&parse(&role("ns", "r", &nothing)), None);
        assert_eq!(found.complete(), Err(too_large("the object itself")));
        let others = vec![r#"{"kind":"User","name":"a"}"#; MANY_ELEMENTS].join(",");
        let objects = [
            ("clusterroles", role("", "r", ALL)),
            (
                "clusterrolebindings",
                binding("", "b", "ClusterRole", "r", &format!("{others},{SCOPED}")),
            ),
        ];
        assert_eq!(account(&objects), Err(too_large("clusterrolebindings b")));
        // Every required pair, against many rules that grant nearly all of them.
        let some = numbered_items(100);
        let wanted = format!(
            r#"{{"apiGroups":[{some}],"resources":[{some}],"verbs":[{some}],"resourceNames":[{some}]}}"#
        );
        let held = format!(
            r#"{{"apiGroups":["*"],"resources":["*"],"verbs":["*"],"resourceNames":[{}]}}"#,
            numbered_items(99)
        );
        let held = format!("{held},{}", held.replace("\"n0\"", "\"n99\""));
        let found = with_objects(&in_cluster(&held), || {
            missing_permissions("scoped", "scoped", &csv("", &wanted), None)
        });
        assert_eq!(found.complete(), Err(too_large("the object itself")));
        // A rule that grants all of them is found immediately.
        assert_eq!(missing(&in_cluster(&wanted), &csv("", &wanted)), []);
    }
}
