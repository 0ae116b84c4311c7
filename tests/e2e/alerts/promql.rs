//! The values of expressions, for which `promtool test rules` gives the same.

use std::panic::AssertUnwindSafe;

use serde_json::Value;
use testkit::promql::{Labels, Timeline, evaluate, parse, parse_metrics};

fn labels(value: &Value) -> Labels {
    let members = value.as_object().unwrap().iter();
    members.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// A timeline with a sample of each series every minute; null for none.
fn timeline(series: &Value) -> Timeline {
    let mut timeline = Timeline::default();
    let all = series.as_array().unwrap();
    let count = all.iter().map(|one| one["values"].as_array().unwrap().len()).max().unwrap_or(0);
    for minute in 0..count {
        let samples = all.iter().filter_map(|one| {
            let value = one["values"].get(minute)?.as_f64()?;
            Some((labels(&one["labels"]), value))
        });
        let time = f64::from(u32::try_from(minute).unwrap()) * 60.0;
        timeline.add(time, &[], &samples.collect());
    }
    timeline
}

#[test]
fn expressions_have_the_values_that_prometheus_documents() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("promql.json")).unwrap();
    assert!(cases.len() >= 15);
    for case in cases {
        let expression = case["expression"].as_str().unwrap();
        let at = case["minute"].as_f64().unwrap() * 60.0;
        let mut found = evaluate(&parse(expression), &timeline(&case["series"]), at);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = case["expected"].as_array().unwrap();
        assert_eq!(found.len(), expected.len(), "{expression}: {found:?}");
        for ((found_labels, value), expected) in found.iter().zip(expected) {
            assert_eq!(*found_labels, labels(&expected["labels"]), "{expression}");
            let wanted = expected["value"].as_f64().unwrap();
            assert!((value - wanted).abs() < 1e-9, "{expression}: {value}, not {wanted}");
        }
    }
}

#[test]
fn expressions_that_prometheus_or_this_module_cannot_evaluate_fail() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("promql_invalid.json")).unwrap();
    for case in cases {
        let text = case["expression"].as_str().unwrap();
        let expression = std::panic::catch_unwind(|| parse(text)).ok();
        let Some(series) = case.get("series") else {
            assert_eq!(expression, None, "{text} was parsed");
            continue;
        };
        let expression = expression.unwrap_or_else(|| panic!("{text} was not parsed"));
        let timeline = timeline(series);
        let evaluation = AssertUnwindSafe(|| evaluate(&expression, &timeline, timeline.end()));
        let value = std::panic::catch_unwind(evaluation).ok();
        assert_eq!(value, None, "{text} was evaluated");
    }
}

#[test]
fn metrics_text_is_read_with_escapes_and_exemplars() {
    let text = "# TYPE a counter\na_total{x=\"q\\\"\\\\\\n,}\",y=\"\"} 2 # {trace_id=\"1\"} 0.5\nb 1e3\n# EOF\n";
    let samples = parse_metrics(text);
    let of = |pairs: &[(&str, &str)]| {
        let labels: Labels =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        samples.get(&labels).copied()
    };
    assert_eq!(samples.len(), 2, "{samples:?}");
    assert_eq!(of(&[("__name__", "a_total"), ("x", "q\"\\\n,}"), ("y", "")]), Some(2.0));
    assert_eq!(of(&[("__name__", "b")]), Some(1_000.0));
}
