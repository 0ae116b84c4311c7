//! The most that a policy can request from the host with each function. The host counts the cost of
//! each call. A call beyond the limit is a policy error that names the import and the limit.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use opgate::cluster::{EvaluationView, PolicyView};
use opgate::engine::{Budget, CallError, CallResult, Engine, Limits, Module, Pool, TimeLimit, wit};
use opgate::review::{self, Review};
use opgate_document::{Account, Document};
use serde_json::{Value, json};
use testkit::{create_bundle, hostile_component};

const MEMORY_BYTES: usize = 32 << 20;

/// A body: by default as large as they may be, or as a build that is not optimised can take.
const FULL_BODY_BYTES: usize = 7 << 20;
const LARGE_BODY_BYTES: usize = 1 << 20;

static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| {
    Arc::new(Engine::start(Pool { instances: 4, memory: MEMORY_BYTES }, None).unwrap())
});

static ASKS_MODULE: LazyLock<Module> = LazyLock::new(|| {
    ENGINE.load(&std::fs::read(hostile_component("asks")).unwrap(), true).unwrap()
});

/// With all the time that a slow machine may need.
fn generous_budget() -> Budget<'static> {
    let (processor, wall) = (Duration::from_secs(60), Duration::from_secs(600));
    Budget {
        memory: MEMORY_BYTES,
        time: TimeLimit::Full { cpu_time: processor, wall_time: wall },
        worker: None,
        shared_time: None,
    }
}

/// Asks about an object whose `spec.value` is what `value` says.
fn evaluate(settings: &Value, value: &str, budget: Budget<'_>) -> CallResult<wit::Verdict> {
    let body = create_bundle("u", "b", &json!({"value": "HERE", "other": "HERE"})).to_string();
    let body = body.replace("\"HERE\"", value);
    let text = review::text(body.into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let settings = Arc::new(Document::parse(&settings.to_string()).unwrap());
    let reader = Arc::new(PolicyView::default()).reader(EvaluationView::default());
    ASKS_MODULE.validate(&Arc::new(review.inputs()), 1, &settings, reader, budget)
}

/// As many items as fill half of a body: there are two of each value.
fn fill(size: usize, before: &str, item: &str, after: &str) -> String {
    let room = size / 2 - before.len() - after.len() - item.len();
    format!("{before}{}{item}{after}", format!("{item},").repeat(room / (item.len() + 1)))
}

fn names(count: usize) -> String {
    let members: Vec<_> = (0..count).map(|n| format!("\"{:06}\":1", (n * 7_919) % count)).collect();
    format!("{{{}}}", members.join(","))
}

/// Looks at the worst values there are: the largest, those that split into most parts, those whose
/// parts have to be sorted or read without escapes.
fn worst_values(size: usize) -> Vec<(&'static str, String)> {
    vec![
        ("numbers", fill(size, "[", "1", "]")),
        ("lists", fill(size, "[", "[]", "]")),
        ("objects", fill(size, "[", "{\"\":1}", "]")),
        ("escapes", format!("\"{}\"", "\\n".repeat(size / 4 - 1))),
        ("a text", format!("\"{}\"", "x".repeat(size / 2 - 2))),
        ("a number", "1".repeat(size / 2)),
        ("names", names(size / 2 / 11)),
        ("empty names", format!("[{}1{}]", "{\"\":".repeat(500), "}".repeat(500))),
    ]
}

/// Work and memory of the host grow with the size of the data that a call reads, and no faster.
#[test]
fn worst_call_of_each_function_costs_the_bytes_it_reads() {
    let functions = [
        "kind", "text", "boolean", "integer", "number", "length", "keys", "raw", "size", "at",
        "table", "row", "equal",
    ];
    let mut seen = Vec::new();
    for (what, value) in worst_values(LARGE_BODY_BYTES) {
        for function in functions {
            for pointer in ["/spec/value", "/spec/value/0"] {
                let settings = json!({
                    "do": function, "pointer": pointer, "column": "", "tokens": 500, "columns": 64,
                });
                let call = evaluate(&settings, &value, generous_budget());
                let units = usize::try_from(call.work.units).unwrap();
                // A table reads each of 64 columns of each element.
                let each = if ["table", "row"].contains(&function) { 64 * 8 * 10 } else { 40 };
                let most = LARGE_BODY_BYTES * each;
                assert!(units < most, "{function} of {what}: {units} units");
                // What the host has allocated for the guest, and its own memory.
                assert!(call.work.memory <= MEMORY_BYTES, "{function} of {what}: {:?}", call.work);
                match &call.result {
                    Ok(_) | Err(CallError::Memory(MEMORY_BYTES, _)) => {}
                    Err(fault) => panic!("{function} of {what}: {fault}"),
                }
                seen.push((units, function, what, pointer));
            }
        }
    }
    seen.sort_unstable();
    for (units, function, what, pointer) in seen.iter().rev().take(10) {
        eprintln!("{units:>10} units: {function} of {what} at {pointer}");
    }
}

/// What is too much names the import and the limit, before any work is done.
#[test]
fn exceeded_limit_error_names_import_and_limit() {
    let long = "a pointer of 4097 bytes, more than 4Ki";
    let mut cases: Vec<(Value, String)> = Vec::new();
    for function in [
        "kind", "text", "boolean", "integer", "number", "length", "keys", "raw", "size", "at",
        "table", "row", "equal",
    ] {
        cases.push((
            json!({"do": function, "slashes": 4_097}),
            format!("document.{function}: {long}"),
        ));
    }
    let table = |columns: usize, tokens: usize| json!({"do": "table", "pointer": "/spec", "columns": columns, "tokens": tokens});
    cases.extend([
        (
            json!({"do": "row", "pointer": "/spec", "columns": 65, "tokens": 1}),
            "document.row: 65 columns, more than 64".to_owned(),
        ),
        (table(65, 1), "document.table: 65 columns, more than 64".to_owned()),
        (table(64, 4_097), format!("document.table: {long}")),
        // The attack of a million empty tokens.
        (
            table(1, 1_000_000),
            "document.table: a pointer of 1000000 bytes, more than 4Ki".to_owned(),
        ),
        (
            json!({"do": "parse", "json": "1", "times": (4 << 20) + 1}),
            "document.parse: a text of 4194305 bytes, more than 4Mi".to_owned(),
        ),
        (
            json!({"do": "log", "bytes": (4 << 20) + 1}),
            "log.log: a line of 4194305 bytes, more than 4Mi".to_owned(),
        ),
        (
            json!({"do": "get", "bytes": 5_000}),
            "cluster.get: a name of 5000 bytes, more than 4Ki".to_owned(),
        ),
        (
            json!({"do": "list", "conditions": 17}),
            "cluster.list: 17 conditions, more than 16".to_owned(),
        ),
        (
            json!({"do": "names", "conditions": 1, "values": 65_537}),
            "cluster.names: 65537 values of a condition, more than 65536".to_owned(),
        ),
        (
            json!({"do": "names", "conditions": 4, "values": 65_536}),
            "cluster.names: a query of more than 4Mi".to_owned(),
        ),
        (
            json!({"do": "list", "labels": (4 << 20) + 1}),
            "cluster.list: a query of 4194305 bytes, more than 4Mi".to_owned(),
        ),
    ]);
    for (settings, says) in cases {
        let call = evaluate(&settings, "1", generous_budget());
        let fault = call.result.expect_err(&settings.to_string());
        assert_eq!(fault.to_string(), says, "{settings}");
        assert_eq!(fault.cause(), "limit");
        // Settings and object, and nothing of what was asked for.
        assert!(call.work.units < 20_000, "{settings}: {} units", call.work.units);
    }
}

/// What a guest has parsed counts as its memory with all that is made of it.
#[test]
fn host_values_count_as_guest_memory() {
    let parse = |what: &str, json: &str, times: usize| json!({"do": what, "before": "[", "json": json, "times": times, "after": "1]"});
    let cases = [
        (parse("parse", "[],", 1_300_000), "document.parse"),
        (parse("parse and compare", "1,", 600_000), "document.equal"),
        (parse("parse and compare", "[],", 300_000), "document.equal"),
        (parse("parse and compare", "\"\\n\",", 300_000), "document.equal"),
    ];
    for (settings, import) in cases {
        let call = evaluate(&settings, "1", generous_budget());
        let fault = call.result.expect_err(&settings.to_string());
        assert_eq!(fault.to_string(), format!("wanted more than 32Mi of memory, in {import}"));
        assert!(call.work.memory <= MEMORY_BYTES, "{:?}", call.work);
    }
    let small = parse("parse and compare", "[],", 10_000);
    assert!(evaluate(&small, "1", generous_budget()).result.is_ok());
}

/// A loop of the host ends with the time of the call, and soon.
#[test]
fn no_import_outlives_the_time_of_its_call() {
    let over = Budget { time: TimeLimit::Attempt(Duration::ZERO), ..generous_budget() };
    let whole = TimeLimit::Full { cpu_time: Duration::ZERO, wall_time: Duration::from_secs(600) };
    for time in [over.time, whole] {
        for (what, value) in worst_values(LARGE_BODY_BYTES) {
            for function in ["keys", "table", "row", "equal", "length"] {
                let settings = json!({
                    "do": function, "pointer": "/spec/value", "tokens": 500, "columns": 64,
                });
                let call = evaluate(&settings, &value, Budget { time, ..generous_budget() });
                if call.work.units > 200_000 {
                    // One step of the meter, and the largest thing that is done in one go.
                    assert!(call.work.units < 2_000_000, "{function} of {what}: {:?}", call.work);
                }
                if let Err(fault) = call.result {
                    assert!(fault.is_cpu_timeout(), "{function} of {what}: {fault}");
                }
            }
        }
    }
}

/// What the server has no memory for is the server's overload, and no policy sees a wrong answer.
#[test]
fn objects_over_the_memory_budget_are_an_overload() {
    let budget = Account::new(1 << 20);
    let account = Account::child(&budget, usize::MAX);
    let body = create_bundle("u", "b", &json!({"value": "HERE"})).to_string();
    let body = body.replace("\"HERE\"", &fill(FULL_BODY_BYTES, "[", "1", "]"));
    let charge = opgate_document::Charge::on(&account);
    let text = Arc::new(opgate_document::Text::with_charge(body, charge).unwrap());
    let review = Review::read(&text).unwrap();
    let inputs = Arc::new(review.inputs());
    for function in
        ["length", "kind", "keys", "table", "row", "row", "equal", "at", "text", "raw", "size"]
    {
        let settings = json!({"do": function, "pointer": "/spec/value/0", "columns": 1});
        let settings = Arc::new(Document::parse(&settings.to_string()).unwrap());
        let reader = Arc::new(PolicyView::default()).reader(EvaluationView::default());
        let call = ASKS_MODULE.validate(&inputs, 1, &settings, reader, generous_budget());
        let fault = call.result.unwrap_err();
        assert_eq!(fault, CallError::ServerMemory, "{function}");
        assert!(fault.is_overload());
    }
    assert!(account.is_exhausted() && !budget.is_exhausted());
    drop((inputs, text, account));
    assert_eq!(budget.used(), 0);
}

/// Run this manually, with an optimised build. It prints how long the worst calls take, and how
/// long a call continues after its time limit.
#[test]
#[ignore = "prints figures; see docs/performance.md"]
fn figures() {
    let limits = Limits { cpu_time: Duration::from_secs(10), ..Limits::default() };
    let mut rows = Vec::new();
    // The largest review with two objects that an API server sends, and the largest that the server
    // accepts.
    let sizes = [3 << 20, FULL_BODY_BYTES];
    for (size, (what, value)) in sizes
        .into_iter()
        .flat_map(|size| worst_values(size).into_iter().map(move |worst| (size >> 20, worst)))
    {
        for function in [
            "kind", "text", "integer", "number", "length", "keys", "raw", "size", "at", "table",
            "row", "equal",
        ] {
            let settings = json!({
                "do": function, "pointer": "/spec/value", "tokens": 500, "columns": 64,
            });
            let took = |budget| {
                let runs = (0..5).map(|_| {
                    let started = Instant::now();
                    let call = evaluate(&settings, &value, budget);
                    drop(call);
                    started.elapsed()
                });
                // The review is read each time, too.
                let idle = idle_time(&value);
                runs.min().unwrap().saturating_sub(idle)
            };
            let whole = took(Budget::of(limits));
            let given_up = took(Budget {
                time: TimeLimit::Attempt(Duration::from_millis(2)),
                ..generous_budget()
            });
            rows.push((given_up, whole, function, what, size));
        }
    }
    rows.sort_unstable();
    for (given_up, whole, function, what, size) in rows.iter().rev() {
        println!(
            "{size} MiB, {function:8} of {what:12}: {whole:>9.1?} to the end, {given_up:>9.1?} of 2 ms"
        );
    }
}

/// What an evaluation takes that asks about something else.
fn idle_time(value: &str) -> Duration {
    let settings = json!({"do": "kind", "pointer": "/metadata/name"});
    let runs = (0..5).map(|_| {
        let started = Instant::now();
        drop(evaluate(&settings, value, generous_budget()));
        started.elapsed()
    });
    runs.min().unwrap()
}
