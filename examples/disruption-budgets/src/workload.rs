//! A workload as far as budgets see it: the labels of its pods, and how many there are.

use std::collections::BTreeMap;

use opgate_sdk::{Document, Kind, escape};

#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) replicas: i64,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Workload {
    /// Fields that API servers fill in have the default: one replica.
    pub(crate) fn of(kind: &'static str, object: &Document, name: String) -> Self {
        const LABELS: &str = "/spec/template/metadata/labels";
        let mut labels = BTreeMap::new();
        for key in object.keys(LABELS) {
            if let Some(value) = object.text(&format!("{LABELS}/{}", escape(&key))) {
                labels.insert(key, value);
            }
        }
        let is_set = object.kind("/spec/replicas") == Kind::Number;
        let replicas = if is_set { object.integer("/spec/replicas").unwrap_or(0) } else { 1 };
        Self { kind, name, replicas, labels }
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }
}
