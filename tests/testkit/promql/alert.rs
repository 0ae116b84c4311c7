//! The state of an alert over time.

use std::collections::BTreeMap;

use serde_json::Value;

use super::evaluate::evaluate;
use super::parse::{Expression, parse, seconds};
use super::timeline::{Labels, Timeline};

/// Interval of evaluations.
pub const INTERVAL_SECONDS: f64 = 30.0;

/// A rule of an alert.
pub struct Alert {
    /// Its name.
    pub name: String,
    /// The condition.
    pub expression: Expression,
    /// Seconds for which the condition must hold.
    pub duration: f64,
}

impl Alert {
    /// Reads a rule of a `PrometheusRule`.
    ///
    /// # Panics
    /// If it is none.
    pub fn of(rule: &Value) -> Self {
        let text = |name: &str| rule[name].as_str().unwrap();
        let (name, duration) = (text("alert").to_owned(), seconds(text("for")));
        Self { name, expression: parse(text("expr")), duration }
    }

    /// The series for which it fires at each step between two times, of a server that evaluates it from the first.
    pub fn firing(&self, timeline: &Timeline, start: f64, end: f64) -> Vec<(f64, Vec<Labels>)> {
        let (mut steps, mut time) = (Vec::new(), start);
        let mut active: BTreeMap<Labels, f64> = BTreeMap::new();
        while time <= end {
            let now = evaluate(&self.expression, timeline, time);
            let since = |labels: &Labels| active.get(labels).copied().unwrap_or(time);
            active = now.iter().map(|(labels, _)| (labels.clone(), since(labels))).collect();
            let firing = active.iter().filter(|(_, since)| time - *since >= self.duration);
            steps.push((time, firing.map(|(labels, _)| labels.clone()).collect()));
            time += INTERVAL_SECONDS;
        }
        steps
    }
}
