//! Asks the host once for as much as its settings say: the worst that each import can be asked for.
#![allow(clippy::panic, clippy::expect_used, reason = "the point of it")]

use std::hint::black_box;

use opgate_hostile::{Handle, Hostile, verdict};
use opgate_sdk::bindings::opgate::policy::cluster;
use opgate_sdk::{Document, GroupVersionResource, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Asks;

opgate_hostile::export!(Asks);

impl Hostile for Asks {
    fn validate_handles(object: Option<&Handle>, settings: &Handle) -> Verdict {
        let settings = Document::of(settings);
        let stored = settings.has("/stored").then(|| {
            let groups = GroupVersionResource {
                group: "operators.coreos.com".into(),
                version: "v1".into(),
                resource: "operatorgroups".into(),
            };
            let found = cluster::get(&groups, "a", "b").ok().flatten();
            let found = found.expect("an object of the cluster");
            found.at(&settings.text_or_empty("/at")).expect("a part of it")
        });
        let object = stored.as_ref().or(object).expect("an object");
        let number = |pointer: &str| {
            let number = settings.integer(pointer).unwrap_or_default();
            usize::try_from(number).unwrap_or_default()
        };
        let pointer = settings.text_or_empty("/pointer") + &"/".repeat(number("/slashes"));
        let columns = || {
            let column = settings.text_or_empty("/column") + &"/".repeat(number("/tokens"));
            vec![column; number("/columns")]
        };
        let secrets = || GroupVersionResource {
            group: String::new(),
            version: "v1".into(),
            resource: "secrets".into(),
        };
        let query = || cluster::Query {
            namespace: None,
            label_selector: Some("x".repeat(number("/labels"))),
            matches: vec![
                cluster::IndexMatch {
                    index: "i".into(),
                    values: vec![String::new(); number("/values")],
                    include_missing: false,
                };
                number("/conditions")
            ],
            after: None,
            limit: 0,
        };
        match settings.text_or_empty("/do").as_str() {
            "kind" => drop(black_box(object.kind(&pointer))),
            "text" => drop(black_box(object.text(&pointer))),
            "boolean" => drop(black_box(object.boolean(&pointer))),
            "integer" => drop(black_box(object.integer(&pointer))),
            "number" => drop(black_box(object.number(&pointer))),
            "length" => drop(black_box(object.length(&pointer))),
            "keys" => drop(black_box(object.keys(&pointer))),
            "raw" => drop(black_box(object.raw(&pointer))),
            "size" => drop(black_box(object.size(&pointer))),
            "at" => drop(black_box(object.at(&pointer))),
            "table" => drop(black_box(object.table(&pointer, &columns()))),
            "row" => drop(black_box(object.row(&pointer, &columns()))),
            "equal" => drop(black_box(object.equal(&pointer, object, "/spec/other"))),
            "parse" => {
                let json = settings.text_or_empty("/json").repeat(number("/times"));
                let json =
                    settings.text_or_empty("/before") + &json + &settings.text_or_empty("/after");
                drop(black_box(Handle::parse(&json)));
            }
            "parse and compare" => {
                let json = settings.text_or_empty("/json").repeat(number("/times"));
                let json = json + &settings.text_or_empty("/after");
                // The same, written otherwise.
                let before = settings.text_or_empty("/before");
                let (one, other) = (format!("{before}{json}"), format!("{before} {json}"));
                let (one, other) = (Handle::parse(&one), Handle::parse(&other));
                black_box(one.expect("JSON").equal("", &other.expect("JSON"), ""));
            }
            "log" => opgate_sdk::bindings::opgate::policy::log::log(
                opgate_sdk::bindings::opgate::policy::log::Severity::Info,
                &"l".repeat(number("/bytes")),
            ),
            "get" => drop(black_box(cluster::get(&secrets(), "", &"n".repeat(number("/bytes"))))),
            "list" => drop(black_box(cluster::list(&secrets(), &query()))),
            "names" => drop(black_box(cluster::names(&secrets(), &query()))),
            other => panic!("no {other}"),
        }
        verdict()
    }
}
