//! Reads that would find nothing without a word: by a text that is not a pointer, and of what a policy did
//! not declare. The host fails them for policies in any language.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use opgate::cluster::{EvaluationView, PolicyView};
use opgate::engine::reader::{
    ClusterReader, DeclaredRead, PolicyQuery, QueryResult, ReadResult, ResultAccounts,
};
use opgate::engine::{Budget, CallResult, Engine, Module, Pool, TimeLimit, wit};
use opgate::review::{self, Review};
use opgate_cluster::{Declaration, Resource};
use opgate_document::Document;
use serde_json::{Value, json};
use testkit::{create_bundle, hostile_component};

const MEMORY_BYTES: usize = 32 << 20;

static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| {
    Arc::new(Engine::start(Pool { instances: 4, memory: MEMORY_BYTES }, None).unwrap())
});

static ASKS_MODULE: LazyLock<Module> = LazyLock::new(|| {
    ENGINE.load(&std::fs::read(hostile_component("asks")).unwrap(), true).unwrap()
});

/// A cluster with one OperatorGroup.
#[derive(Debug)]
struct SingleGroup(Arc<DeclaredRead>);

impl SingleGroup {
    fn new(fields: &[&str], keys: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let (group, version) = ("operators.coreos.com".to_owned(), "v1".to_owned());
        Self(Arc::new(DeclaredRead {
            resource: Resource { group, version, resource: "operatorgroups".to_owned() },
            declaration: Declaration::new(&owned(fields), &owned(keys), &[]).unwrap(),
        }))
    }
}

impl ClusterReader for SingleGroup {
    fn get(
        &mut self,
        _: &wit::GroupVersionResource,
        _: &str,
        _: &str,
        _: ResultAccounts<'_>,
    ) -> ReadResult {
        let object = json!({
            "metadata": {"name": "b", "namespace": "a", "labels": {"team": "x"}},
            "spec": {"targetNamespaces": ["c"], "selector": {"matchLabels": {"a": "b"}, "0": 1}},
            "data": {"key": "value"},
        });
        let object = Document::parse(&object.to_string()).unwrap();
        let kept = self.0.declaration.project(object.root()).unwrap();
        Ok(Ok(QueryResult::new(vec![Arc::new(kept)], self.0.clone(), false)))
    }

    fn list(
        &mut self,
        _: &wit::GroupVersionResource,
        _: PolicyQuery,
        _: ResultAccounts<'_>,
    ) -> ReadResult {
        Ok(Ok(QueryResult::default()))
    }

    fn names(
        &mut self,
        _: &wit::GroupVersionResource,
        _: PolicyQuery,
        _: ResultAccounts<'_>,
    ) -> ReadResult {
        Ok(Ok(QueryResult::default()))
    }
}

fn evaluate(settings: &Value, reader: impl ClusterReader) -> CallResult<wit::Verdict> {
    let body = create_bundle("u", "b", &json!({"value": 1})).to_string();
    let text = review::text(body.into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let settings = Arc::new(Document::parse(&settings.to_string()).unwrap());
    let (processor, wall) = (Duration::from_secs(60), Duration::from_secs(600));
    let budget = Budget {
        memory: MEMORY_BYTES,
        time: TimeLimit::Full { cpu_time: processor, wall_time: wall },
        worker: None,
        shared_time: None,
    };
    ASKS_MODULE.validate(&Arc::new(review.inputs()), 1, &settings, reader, budget)
}

const READ_FUNCTIONS: [&str; 13] = [
    "kind", "text", "boolean", "integer", "number", "length", "keys", "raw", "size", "at", "table",
    "row", "equal",
];

/// A policy whose author forgot the slash would admit everything.
#[test]
fn text_that_is_not_a_pointer_is_a_policy_error() {
    let nobody = || Arc::new(PolicyView::default()).reader(EvaluationView::default());
    for function in READ_FUNCTIONS {
        let call = evaluate(&json!({"do": function, "pointer": "spec/replicas"}), nobody());
        let fault = call.result.expect_err(function);
        let expected = format!(
            "document.{function}: 'spec/replicas' is not a JSON pointer: write '/spec/replicas'"
        );
        assert_eq!((fault.to_string(), fault.cause()), (expected, "pointer"));
        assert!(fault.can_be_allowed());
    }
    let column = json!({"do": "row", "pointer": "", "column": "spec", "columns": 3});
    let fault = evaluate(&column, nobody()).result.expect_err("a column");
    assert_eq!(fault.to_string(), "document.row: 'spec' is not a JSON pointer: write '/spec'");
    for pointer in ["", "/spec", "/"] {
        evaluate(&json!({"do": "at", "pointer": pointer}), nobody()).result.unwrap();
    }
}

/// Every function of a document, with a pointer that the policy did not declare, from the object
/// and from a part.
#[test]
fn read_of_an_undeclared_field_is_a_policy_error() {
    for function in READ_FUNCTIONS {
        let (table, column) = if function == "table" { ("/*/other", "/other") } else { ("", "") };
        for (at, pointer) in [("", "/spec/selector"), ("/spec", "/selector")] {
            let settings = json!({"do": function, "stored": true, "at": at, "pointer": pointer, "column": column, "columns": 1});
            let fault =
                evaluate(&settings, SingleGroup::new(&["/spec/targetNamespaces"], &[])).result;
            let expected = format!(
                "document.{function}: the policy read '/spec/selector{table}' of operators.coreos.com/v1/operatorgroups, which its read does not declare: add \"/spec/selector{table}\" to `fields`"
            );
            assert_eq!(fault.expect_err(function).to_string(), expected);
        }
    }
    let equal = json!({"do": "equal", "stored": true, "at": "", "pointer": "/metadata/name"});
    let fault = evaluate(&equal, SingleGroup::new(&[], &[])).result.expect_err("the other side");
    assert!(fault.to_string().contains("read '/spec/other'"), "{fault}");
}

#[test]
fn declared_fields_and_all_below_are_read() {
    let declared = ["/spec/targetNamespaces/*", "/spec/selector", "/spec/other"];
    for function in READ_FUNCTIONS.iter().filter(|function| **function != "table") {
        for pointer in ["/spec/selector", "/spec/selector/matchLabels/a", "/metadata/labels/team"] {
            let settings = json!({"do": function, "stored": true, "at": "", "pointer": pointer});
            evaluate(&settings, SingleGroup::new(&declared, &[])).result.expect(pointer);
        }
        let settings =
            json!({"do": function, "stored": true, "at": "/spec/selector", "pointer": "/x"});
        let answer = evaluate(&settings, SingleGroup::new(&["/spec"], &[])).result;
        assert!(answer.is_ok() || *function == "equal", "{function}: {answer:?}");
    }
    for (function, pointer) in [
        ("kind", "/spec"),
        ("size", "/spec"),
        ("raw", "/spec/targetNamespaces"),
        ("keys", "/data"),
        ("boolean", "/data/key"),
    ] {
        let settings = json!({"do": function, "stored": true, "at": "", "pointer": pointer});
        evaluate(&settings, SingleGroup::new(&declared, &["/data"])).result.expect(pointer);
    }
}

/// What is there in part is not taken for the whole.
#[test]
fn reading_a_partly_declared_whole_is_a_policy_error() {
    for (function, pointer, expected) in [
        (
            "raw",
            "/spec",
            "the policy read all of '/spec' of operators.coreos.com/v1/operatorgroups, of which its read declares only parts: add \"/spec\" to `fields`, or read the parts by their pointers",
        ),
        ("keys", "/spec", "read all of '/spec'"),
        (
            "raw",
            "",
            "the policy read all of an object of operators.coreos.com/v1/operatorgroups, of which its read declares only some fields: read these by their pointers",
        ),
        (
            "text",
            "/data/key",
            "the policy read the value of '/data/key' of operators.coreos.com/v1/operatorgroups, of which its read declares only the name: add \"/data/key\" to `fields`",
        ),
    ] {
        let settings = json!({"do": function, "stored": true, "at": "", "pointer": pointer});
        let fault = evaluate(&settings, SingleGroup::new(&["/spec/selector"], &["/data"])).result;
        let fault = fault.expect_err(pointer).to_string();
        assert!(fault.contains(expected), "{fault}");
    }
}
