//! Reads the selector of a PodDisruptionBudget.

use opgate_sdk::{Document, Kind, Selector, escape};

const LABELS: &str = "/spec/selector/matchLabels";
const EXPRESSIONS: &str = "/spec/selector/matchExpressions";

/// Returns none for a budget that selects no pod: without a selector, or with one that an API server would
/// reject. An empty one selects all pods of the namespace.
pub(crate) fn selector(budget: &Document) -> Option<Selector> {
    if budget.kind("/spec/selector") != Kind::Object {
        return None;
    }
    let mut selector = Selector::default();
    for key in budget.keys(LABELS) {
        let value = budget.text(&format!("{LABELS}/{}", escape(&key)))?;
        selector.add_match_label(&key, &value).ok()?;
    }
    for expression in budget.items(EXPRESSIONS) {
        let (key, operator) = (expression.text("/key")?, expression.text("/operator")?);
        let values = expression.texts("/values");
        selector.add_match_expression(&key, &operator, values.iter().map(String::as_str)).ok()?;
    }
    Some(selector)
}
