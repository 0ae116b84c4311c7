//! The budget of one search. A search that exceeds its budget has no result.

use opgate_sdk::{ClusterRead, Document};

use super::Unanswered;

/// The remaining steps, and the object that they are spent on.
pub(super) struct Budget {
    left: usize,
    at: String,
}

/// Maximum steps of one search. A comparison is one step, which takes a tenth of a microsecond.
pub(crate) const STEPS: usize = 500_000;
/// Steps of one host call.
pub(super) const CALL: usize = 10;
/// Steps of a query for one object.
pub(super) const OBJECT: usize = 50;
/// Steps of a query for all objects with some labels.
pub(super) const SELECTION: usize = 20_000;

impl Budget {
    /// The whole budget of a search.
    pub(super) fn new() -> Self {
        Self { left: STEPS, at: "the object itself".to_owned() }
    }

    pub(super) fn spend(&mut self, amount: usize) -> Result<(), Unanswered> {
        match self.left.checked_sub(amount) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Unanswered::TooLarge(self.at.clone())),
        }
    }

    /// Charges the following steps to the object under review.
    pub(super) fn turn_to_object(&mut self) {
        "the object itself".clone_into(&mut self.at);
    }

    /// Charges the following steps to this object of the cluster.
    pub(super) fn turn_to(&mut self, read: &ClusterRead, object: &Document) {
        let namespace = object.text_or_empty("/metadata/namespace");
        let slash = if namespace.is_empty() { "" } else { "/" };
        let name = object.text_or_empty("/metadata/name");
        self.at = format!("{} {namespace}{slash}{name}", read.resource);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Unanswered, missing_permissions, opens_groups};

    #[test]
    fn oversized_rbac_objects_are_unanswered() {
        let too_large = |at: &str| Unanswered::TooLarge(at.to_owned());
        let nothing = vec!["{}"; MANY].join(",");
        let found = opens_groups(&parsed(&role("ns", "r", &nothing)), None);
        assert_eq!(found.complete(), Err(too_large("the object itself")));
        let others = vec![r#"{"kind":"User","name":"a"}"#; MANY].join(",");
        let objects = [
            ("clusterroles", role("", "r", ALL)),
            (
                "clusterrolebindings",
                binding("", "b", "ClusterRole", "r", &format!("{others},{SCOPED}")),
            ),
        ];
        assert_eq!(account(&objects), Err(too_large("clusterrolebindings b")));
        // Every required pair, against many rules that grant nearly all of them.
        let some = numbered(100);
        let wanted = format!(
            r#"{{"apiGroups":[{some}],"resources":[{some}],"verbs":[{some}],"resourceNames":[{some}]}}"#
        );
        let held = format!(
            r#"{{"apiGroups":["*"],"resources":["*"],"verbs":["*"],"resourceNames":[{}]}}"#,
            numbered(99)
        );
        let held = format!("{held},{}", held.replace("\"n0\"", "\"n99\""));
        let found = within(&in_cluster(&held), || {
            missing_permissions("scoped", "scoped", &csv("", &wanted), None)
        });
        assert_eq!(found.complete(), Err(too_large("the object itself")));
        // A rule that grants all of them is found immediately.
        assert_eq!(missing(&in_cluster(&wanted), &csv("", &wanted)), []);
    }
}
