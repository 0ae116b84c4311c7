//! The dashboard has the structure that Grafana expects.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use testkit::promql::{Matcher, parse};

use super::manifests;

/// Columns of a dashboard.
const COLUMNS: u64 = 24;

/// The ConfigMap with the dashboard.
fn config_map() -> Value {
    let objects = manifests(&["--with", "dashboard"]);
    let is_it = |object: &&Value| object["metadata"]["name"] == "opgate-dashboard";
    objects.iter().find(is_it).unwrap().clone()
}

fn dashboard() -> Value {
    serde_json::from_str(config_map()["data"]["opgate.json"].as_str().unwrap()).unwrap()
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().unwrap()
}

/// Expressions with their legends.
pub(super) fn queries() -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let dashboard = dashboard();
    let targets = panels(&dashboard).iter().filter_map(|panel| panel["targets"].as_array());
    let all =
        targets.flatten().map(|target| (text(&target["expr"]), text(&target["legendFormat"])));
    let all: Vec<_> = all.collect();
    assert!(all.len() > 20);
    all
}

#[test]
fn dashboard_is_found_by_sidecars_and_is_in_the_repository() {
    let config_map = config_map();
    assert_eq!(config_map["metadata"]["labels"]["grafana_dashboard"], "1");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/grafana/opgate.json");
    let text = config_map["data"]["opgate.json"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), text);
    let plain = manifests(&["--with", "monitoring"]);
    assert!(plain.iter().all(|object| object["metadata"]["name"] != "opgate-dashboard"));
    // A ConfigMap has at most 1 MiB.
    assert!(text.len() < 100_000, "{}", text.len());
}

#[test]
fn panels_have_ids_and_places_that_do_not_overlap() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36));
    assert!(dashboard["title"].is_string() && dashboard["uid"].is_string());
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let [x, y, width, height] =
            ["x", "y", "w", "h"].map(|member| panel["gridPos"][member].as_u64().unwrap());
        assert!(width > 0 && height > 0 && x + width <= COLUMNS, "{title}");
        for column in x..x + width {
            for line in y..y + height {
                assert!(cells.insert((column, line)), "{title} covers another panel");
            }
        }
        let is_row = panel["type"] == "row";
        assert_eq!(panel["targets"].is_array(), !is_row, "{title}");
    }
}

#[test]
fn queries_use_the_variables() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "job", "namespace"]);
    let [label, operator, value] = ["job", "=", "$job"].map(str::to_owned);
    let job = Matcher { label, operator, value };
    for panel in panels(&dashboard).iter().filter(|panel| panel["type"] != "row") {
        let mut references = BTreeSet::new();
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}");
            assert!(references.insert(target["refId"].as_str().unwrap()), "{target}");
            let expression = target["expr"].as_str().unwrap();
            for (metric, matchers) in parse(expression).selectors() {
                let has_job = matchers.contains(&job);
                assert!(has_job, "{metric} is not of the selected job: {expression}");
            }
        }
    }
}
