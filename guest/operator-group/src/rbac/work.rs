//! What one question may cost. One whose work is used up has no answer.

use super::Unanswered;

/// Work that is left. A comparison is one, which is about a tenth of a microsecond.
pub(super) struct Work(usize);

const WORK: usize = 500_000;
/// One call of the host.
pub(super) const CALL: usize = 10;
/// Asking the cluster for one object.
pub(super) const OBJECT: usize = 50;
/// Asking the cluster for all that have some labels.
pub(super) const SELECTION: usize = 20_000;

impl Work {
    /// All the work of a question.
    pub(super) const fn new() -> Self {
        Self(WORK)
    }

    pub(super) fn spend(&mut self, amount: usize) -> Result<(), Unanswered> {
        self.0 = self.0.checked_sub(amount).ok_or(Unanswered::TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Unanswered, missing_permissions, opens_groups};

    #[test]
    fn what_is_too_large_has_no_answer() {
        let nothing = vec!["{}"; MANY].join(",");
        assert_eq!(
            opens_groups(&parsed(&role("ns", "r", &nothing)), None),
            Err(Unanswered::TooLarge)
        );
        let nobody = vec![r#"{"kind":"User","name":"a"}"#; MANY].join(",");
        let objects = [
            ("clusterroles", role("", "r", ALL)),
            (
                "clusterrolebindings",
                binding("", "b", "ClusterRole", "r", &format!("{nobody},{SCOPED}")),
            ),
        ];
        assert_eq!(account(&objects), Err(Unanswered::TooLarge));
        // Every pair of what is wanted, against many that have nearly all of it.
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
            missing_permissions("scoped", "scoped", &csv("", &wanted))
        });
        assert_eq!(found, Err(Unanswered::TooLarge));
        // One that has all of it is found at once.
        assert_eq!(missing(&in_cluster(&wanted), &csv("", &wanted)), []);
    }
}
