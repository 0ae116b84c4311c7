//! Values of expressions, as Prometheus documents them.

use std::collections::{BTreeMap, BTreeSet};

use super::parse::{Expression, Matcher};
use super::timeline::{Labels, Timeline};

/// A series of a result, and its value.
pub type Sample = (Labels, f64);

/// The value of an expression.
enum Value {
    Scalar(f64),
    Vector(Vec<Sample>),
}

/// Evaluates an expression at a time, in seconds; a scalar is a sample without labels.
///
/// # Panics
/// If a part of it is not known here.
pub fn evaluate(expression: &Expression, timeline: &Timeline, at: f64) -> Vec<Sample> {
    match value(expression, timeline, at) {
        Value::Scalar(number) => vec![(Labels::new(), number)],
        Value::Vector(vector) => vector,
    }
}

fn value(expression: &Expression, timeline: &Timeline, at: f64) -> Value {
    let value = value_of(expression, timeline, at);
    if let Value::Vector(vector) = &value {
        let mut known = BTreeSet::new();
        for (labels, _) in vector {
            assert!(known.insert(labels), "two series with the labels {labels:?}");
        }
    }
    value
}

fn value_of(expression: &Expression, timeline: &Timeline, at: f64) -> Value {
    match expression {
        Expression::Number(number) => Value::Scalar(*number),
        Expression::Selector { metric, matchers, range: None, offset } => {
            Value::Vector(select(timeline.instant(metric, at - offset), matchers).collect())
        }
        Expression::Selector { .. } => panic!("a range is no value"),
        Expression::Call(name, arguments) => call(name, arguments, timeline, at),
        Expression::Aggregation { operator, by, arguments } => {
            let [argument] = &arguments[..] else { panic!("one argument of {operator}") };
            Value::Vector(aggregate(operator, by, evaluate(argument, timeline, at)))
        }
        Expression::Binary { operator, on, left, right } => {
            let (left, right) = (value(left, timeline, at), value(right, timeline, at));
            if !matches!(operator.as_str(), "or" | "and" | "unless") {
                return binary(operator, left, right);
            }
            let (Value::Vector(left), Value::Vector(right)) = (left, right) else {
                panic!("{operator} is between vectors");
            };
            Value::Vector(combine_sets(operator, on.as_deref(), left, right))
        }
    }
}

/// The series that matchers select; none of these may be a regular expression.
fn select<T>(
    series: BTreeMap<Labels, T>,
    matchers: &[Matcher],
) -> impl Iterator<Item = (Labels, T)> {
    let is_known = |matcher: &Matcher| matches!(matcher.operator.as_str(), "=" | "!=");
    assert!(matchers.iter().all(is_known), "a regular expression: {matchers:?}");
    series.into_iter().filter(move |(labels, _)| {
        matchers.iter().all(|Matcher { label, operator, value }| {
            let is_equal = labels.get(label).map_or("", String::as_str) == value;
            is_equal == (operator == "=")
        })
    })
}

fn without_name(mut labels: Labels) -> Labels {
    labels.remove("__name__");
    labels
}

fn call(name: &str, arguments: &[Expression], timeline: &Timeline, at: f64) -> Value {
    match (name, arguments) {
        ("time", []) => Value::Scalar(at),
        ("vector", [number]) => Value::Vector(evaluate(number, timeline, at)),
        ("abs", [argument]) => {
            let vector = evaluate(argument, timeline, at).into_iter();
            Value::Vector(vector.map(|(labels, v)| (without_name(labels), v.abs())).collect())
        }
        ("absent", [argument @ Expression::Selector { matchers, .. }]) => {
            if !evaluate(argument, timeline, at).is_empty() {
                return Value::Vector(Vec::new());
            }
            let equal = matchers.iter().filter(|matcher| matcher.operator == "=");
            let labels = equal.map(|matcher| (matcher.label.clone(), matcher.value.clone()));
            Value::Vector(vec![(labels.collect(), 1.0)])
        }
        ("increase", [Expression::Selector { metric, matchers, range: Some(range), offset }]) => {
            let end = at - offset;
            let series = select(timeline.range(metric, *range, end), matchers);
            let increases = series.filter_map(|(labels, samples)| {
                Some((without_name(labels), increase(&samples, end - range, end)?))
            });
            Value::Vector(increases.collect())
        }
        _ => panic!("the function {name}"),
    }
}

/// The increase of a counter between two times, extrapolated from the samples between them: up to the times if the
/// first and last sample are near, otherwise by half an interval, and not to less than 0.
#[expect(clippy::cast_precision_loss, reason = "few samples")]
fn increase(samples: &[(f64, f64)], start: f64, end: f64) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    if samples.len() < 2 {
        return None;
    }
    // A counter that begins again has counted its value.
    let resets = samples.windows(2).filter(|pair| pair[1].1 < pair[0].1);
    let counted = last.1 - first.1 + resets.map(|pair| pair[0].1).sum::<f64>();
    let duration = last.0 - first.0;
    let interval = duration / (samples.len() - 1) as f64;
    let extend = |gap: f64| if gap >= interval * 1.1 { interval / 2.0 } else { gap };
    let mut to_start = extend(first.0 - start);
    if counted > 0.0 && first.1 >= 0.0 {
        to_start = to_start.min(duration * (first.1 / counted));
    }
    Some(counted * (duration + to_start + extend(end - last.0)) / duration)
}

fn aggregate(operator: &str, by: &[String], vector: Vec<Sample>) -> Vec<Sample> {
    let mut groups: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
    for (mut labels, value) in vector {
        labels.retain(|label, _| by.contains(label));
        groups.entry(labels).or_default().push(value);
    }
    let combine = |values: Vec<f64>| match operator {
        "sum" => values.iter().sum(),
        "count" => f64::from(u32::try_from(values.len()).unwrap()),
        "max" => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
        "min" => values.into_iter().fold(f64::INFINITY, f64::min),
        other => panic!("the aggregation {other}"),
    };
    groups.into_iter().map(|(labels, values)| (labels, combine(values))).collect()
}

fn binary(operator: &str, left: Value, right: Value) -> Value {
    let compares = matches!(operator, "==" | "!=" | "<" | "<=" | ">" | ">=");
    let result = |labels: Labels, kept: f64, left: f64, right: f64| {
        if compares {
            holds(operator, left, right).then_some((labels, kept))
        } else {
            Some((without_name(labels), arithmetic(operator, left, right)))
        }
    };
    match (left, right) {
        (Value::Scalar(left), Value::Scalar(right)) => {
            assert!(!compares, "a comparison of scalars needs bool");
            Value::Scalar(arithmetic(operator, left, right))
        }
        (Value::Vector(left), Value::Scalar(right)) => Value::Vector(
            left.into_iter()
                .filter_map(|(labels, value)| result(labels, value, value, right))
                .collect(),
        ),
        (Value::Scalar(left), Value::Vector(right)) => Value::Vector(
            right
                .into_iter()
                .filter_map(|(labels, value)| result(labels, value, left, value))
                .collect(),
        ),
        (Value::Vector(left), Value::Vector(right)) => {
            let (left, mut right) = (by_other_labels(left), by_other_labels(right));
            let matched = left.into_iter().filter_map(|(others, (labels, value))| {
                let (_, partner) = right.remove(&others)?;
                result(labels, value, value, partner)
            });
            Value::Vector(matched.collect())
        }
    }
}

/// Series by their labels without the name, by which an operator matches them. Each has one partner at most.
fn by_other_labels(vector: Vec<Sample>) -> BTreeMap<Labels, Sample> {
    let mut series = BTreeMap::new();
    for (labels, value) in vector {
        let earlier = series.insert(without_name(labels.clone()), (labels, value));
        assert!(earlier.is_none(), "two partners on a side of an operator: {earlier:?}");
    }
    series
}

/// Combines sets of series that match by labels, or by all but the name.
fn combine_sets(
    operator: &str,
    on: Option<&[String]>,
    left: Vec<Sample>,
    right: Vec<Sample>,
) -> Vec<Sample> {
    let key = |labels: &Labels| {
        let mut labels = without_name(labels.clone());
        labels.retain(|label, _| on.is_none_or(|on| on.contains(label)));
        labels
    };
    let keys = |vector: &[Sample]| -> BTreeSet<Labels> {
        vector.iter().map(|(labels, _)| key(labels)).collect()
    };
    let (in_left, in_right) = (keys(&left), keys(&right));
    let left = left.into_iter();
    match operator {
        "and" => left.filter(|(labels, _)| in_right.contains(&key(labels))).collect(),
        "unless" => left.filter(|(labels, _)| !in_right.contains(&key(labels))).collect(),
        _ => {
            let more = right.into_iter().filter(|(labels, _)| !in_left.contains(&key(labels)));
            left.chain(more).collect()
        }
    }
}

fn holds(operator: &str, left: f64, right: f64) -> bool {
    match operator {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        "!=" => left.partial_cmp(&right).is_none_or(std::cmp::Ordering::is_ne),
        _ => left.partial_cmp(&right).is_some_and(std::cmp::Ordering::is_eq),
    }
}

fn arithmetic(operator: &str, left: f64, right: f64) -> f64 {
    match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        other => panic!("the operator {other}"),
    }
}
