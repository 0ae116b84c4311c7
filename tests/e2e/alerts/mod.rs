//! Alerts and the dashboard: they name metrics that exist, alerts have a section in the run-book, and each fires while
//! a server has the problem and stops afterwards.

mod dashboard;
mod episode;
mod metrics;
mod promql;
mod runbook;
mod scenarios;

use std::process::Command;

use serde_json::Value;

use crate::BINARY;

/// The rules of the alerts that opgate prints, with more arguments.
fn alert_rules(arguments: &[&str]) -> Vec<Value> {
    let printed = manifests(&[&["--with", "monitoring"], arguments].concat());
    let rules = printed.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    rules["spec"]["groups"][0]["rules"].as_array().unwrap().clone()
}

/// The objects of an installation.
fn manifests(arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new(BINARY);
    command.args(["manifests", "all", "-o", "json"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    list["items"].as_array().unwrap().clone()
}
