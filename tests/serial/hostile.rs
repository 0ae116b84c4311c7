//! Policies that misbehave: each ends in a clear error that names the cause, and nothing of one
//! evaluation reaches the next.

use std::io::BufRead as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{self, EvaluationView, PolicyView};
use opgate::engine::{Budget, CallError, Compiler, Engine, Pool, SharedCpuTime, TimeLimit};
use opgate::policy::{Configuration, Decision, LoadProgress, PolicySet, response};
use opgate::review::{self, Review};
use opgate_document::{Account, Charge, Document};
use serde_json::{Value, json};
use testkit::{bombs, configuration, create_bundle, good_spec, hostile_component};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{BINARY, block_until_idle_machine, wait_for_idle_machine};

fn load(policies: &[Value]) -> PolicySet {
    let text = configuration(policies);
    let configuration = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS).unwrap();
    PolicySet::load(&configuration, None, 64, cluster::ClusterOptions::of(cluster::Source::Absent))
        .unwrap()
}

/// With all the time that a slow machine may need, except for the case that tests the time limit.
fn misbehaves(name: &str, settings: &Value) -> Value {
    let mut policy = testkit::misbehaves(name, settings);
    let time = if settings["do"] == "spin" { "100ms" } else { "30s" };
    policy["limits"] = json!({"time": time});
    policy
}

async fn decide(set: &PolicySet, name: &str) -> Decision {
    let body = create_bundle("u", name, &good_spec()).to_string().into_bytes();
    let text = review::text(body).unwrap();
    let review = Review::read(&text).unwrap();
    set.decide(&review, None, Instant::now() + Duration::from_secs(60), &()).await.unwrap()
}

/// One line, of bounded length, without names of functions.
fn assert_readable_cause(cause: &str) {
    assert!(!cause.contains('\n') && cause.len() <= 2_200, "{cause}");
    for word in ["backtrace", "_ZN", "<unknown>", "wasm function", "opgate::"] {
        assert!(!cause.contains(word), "{cause}");
    }
}

/// What each misbehaviour ends in, as the administrator reads it.
#[tokio::test]
async fn every_misbehavior_is_a_policy_error_with_its_cause() {
    let _turn = wait_for_idle_machine().await;
    let cases = [
        (json!({"do": "spin"}), "exceeded the CPU time limit of 100ms"),
        (json!({"do": "grow"}), "wanted more than 32Mi of memory"),
        (json!({"do": "recurse"}), "ran out of stack or followed a bad pointer"),
        (json!({"do": "panic"}), "out of cheese  [31mredo from start"),
        (json!({"do": "trap"}), "wasm `unreachable` instruction executed"),
        (json!({"do": "many-violations", "number": 4_000_000}), "wanted more than 32Mi of memory"),
        (json!({"do": "long-warning", "number": 100_000_000}), "wanted more than 32Mi of memory"),
        (json!({"do": "log", "number": 100}), "wanted more than 32Mi of memory"),
        (
            json!({"do": "unknown-rule"}),
            "returned an invalid verdict: \"EVIL-2 \" is not a rule of the policy",
        ),
        (json!({"do": "bad-annotation"}), "\"a/b \" cannot be the key of an audit annotation"),
        (json!({"do": "many-annotations", "number": 17}), "17 audit annotations are more than 16"),
        (
            json!({"do": "parse", "number": 40}),
            "wanted more than 32Mi of memory, in document.parse",
        ),
        (json!({"do": "chatter-and-panic"}), "after many words"),
        (
            json!({"do": "handles", "number": 5_000}),
            "document.at: more than 1000 handles at a time",
        ),
    ];
    for (settings, cause) in cases {
        let set = load(&[misbehaves("evil", &settings)]);
        let decision = decide(&set, "b").await;
        let failure = decision.failure.unwrap_or_else(|| panic!("{settings}: no fault"));
        assert_eq!(failure.policy, "evil");
        assert!(failure.cause.contains(cause), "{settings}: {}", failure.cause);
        assert_readable_cause(&failure.cause);
        let noted = set.policies()[0].last_error().unwrap();
        assert_eq!(noted, failure.cause, "{settings}");
        // The engine is as good as new: a healthy policy next to it still answers.
        let set = load(&[misbehaves("evil", &settings), testkit::builtin_policy()]);
        let decision = decide(&set, &"n".repeat(53)).await;
        let denial = decision.denial.unwrap_or_else(|| panic!("{settings}: not denied"));
        assert_eq!(denial.message, "metadata.name: Too long: may not be longer than 52");
    }
}

/// The SDK cuts a verdict to what the host takes; the host does not rely on it.
#[tokio::test]
async fn verdict_over_the_limits_is_a_policy_error() {
    let _turn = wait_for_idle_machine().await;
    let cases = [
        (257, 1, "returned an invalid verdict: 257 violations are more than 256"),
        (100_000, 1, "returned a verdict of more than 4Mi"),
        (20, 1 << 20, "returned a verdict of more than 4Mi"),
        (4_000_000, 0, "wanted more than 32Mi of memory"),
    ];
    for (number, length, cause) in cases {
        let mut policy = misbehaves("evil", &json!({"number": number, "length": length}));
        policy["module"] = json!(hostile_component("floods"));
        let decision = decide(&load(&[policy]), "b").await;
        let failure = decision.failure.unwrap_or_else(|| panic!("{number}: no fault"));
        assert!(failure.cause.contains(cause), "{number}: {}", failure.cause);
        assert_readable_cause(&failure.cause);
    }
    for (skipped, cause) in
        [(513, "513 skipped rules are more than 512"), (100_000, "more than 4Mi")]
    {
        let mut policy = misbehaves("evil", &json!({"skipped": skipped, "length": 1}));
        policy["module"] = json!(hostile_component("floods"));
        let failure = decide(&load(&[policy]), "b").await.failure.unwrap();
        assert!(failure.cause.contains(cause), "{skipped}: {}", failure.cause);
    }
}

#[tokio::test]
async fn excessive_verdict_is_truncated_for_the_api_server() {
    let _turn = wait_for_idle_machine().await;
    let set = load(&[misbehaves("evil", &json!({"do": "many-warnings", "number": 256}))]);
    let decision = decide(&set, "b").await;
    assert!(decision.denial.is_none() && decision.failure.is_none());
    assert_eq!(decision.warnings.len(), 9);
    let last = decision.warnings.last().unwrap();
    assert_eq!(last, "248 more warnings: run opgate check on the object to see them all");

    let set = load(&[misbehaves("evil", &json!({"do": "long-warning", "number": 1_000_000}))]);
    let decision = decide(&set, "b").await;
    assert_eq!(decision.warnings[0].chars().count(), 120);
    assert!(decision.violations[0].message.len() <= 4_096);

    let set = load(&[misbehaves("evil", &json!({"do": "log", "number": 20}))]);
    assert_eq!(decide(&set, "b").await.failure, None);
}

/// Twenty policies that each answer as much as they may, about a review with the longest names.
#[tokio::test]
async fn response_to_many_violations_is_limited() {
    let _turn = wait_for_idle_machine().await;
    let flood = |n: usize| {
        let mut policy = misbehaves(&format!("evil-{n}"), &json!({"number": 200, "length": 4_096}));
        policy["module"] = json!(hostile_component("floods"));
        match n % 4 {
            0 => policy["mode"] = json!("audit"),
            1 => policy["mode"] = json!("warn"),
            2 => policy["settings"] = json!({"skipped": 500, "length": 1_000}),
            _ => {}
        }
        policy
    };
    let set = load(&(0..20).map(flood).collect::<Vec<_>>());
    let name = "\u{1}\"".repeat(2_000);
    let body = create_bundle(&"\u{1}".repeat(1_024), &name, &good_spec()).to_string().into_bytes();
    let text = review::text(body).unwrap();
    let review = Review::read(&text).unwrap();
    let soon = Instant::now() + Duration::from_secs(60);
    let decision = set.decide(&review, None, soon, &()).await.unwrap();
    assert_eq!((decision.policy_errors.len(), decision.violations.len()), (0, 15 * 200));
    let answer = response::body(&review, &decision);
    assert_eq!(answer.len(), response::body_size(&review, &decision));
    assert!((64 << 10..=96 << 10).contains(&answer.len()), "{}", answer.len());
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let answer = &answer["response"];
    // Whatever is left out is counted where it would be.
    let causes = answer["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.last().unwrap()["message"], format!("and {} more", 1_000 - causes.len() + 1));
    assert!(causes.len() > 4);
    let warnings = answer["warnings"].as_array().unwrap();
    assert!(warnings.len() <= 9, "{warnings:?}");
    let left_out = answer["auditAnnotations"]["opgate.left-out"].as_str().unwrap();
    assert!(left_out.contains("did not fit"), "{left_out}");
}

#[tokio::test]
async fn control_characters_reach_neither_terminals_nor_headers() {
    let _turn = wait_for_idle_machine().await;
    let set = load(&[misbehaves("evil", &json!({"do": "controls"}))]);
    let decision = decide(&set, "b").await;
    let denial = decision.denial.unwrap();
    assert_eq!(denial.message, "a b  [2Jc d e");
    assert_eq!(denial.causes[0].field, "spec .x");
    assert_eq!(decision.warnings, ["w x"]);
}

#[tokio::test]
async fn too_deep_json_is_an_error_in_the_guest() {
    let _turn = wait_for_idle_machine().await;
    let set = load(&[misbehaves("evil", &json!({"do": "deep-json", "number": 100_000}))]);
    let decision = decide(&set, "b").await;
    assert_eq!(decision.denial.unwrap().message, "nests deeper than 512 levels");
}

/// The administrator chooses the effect of a policy error. In the modes warn and audit it never
/// blocks.
#[tokio::test]
async fn policy_error_has_the_configured_effect() {
    let _turn = wait_for_idle_machine().await;
    let cases = [
        ("enforce", "failurePolicy", (true, false, 0)),
        ("enforce", "deny", (false, true, 0)),
        ("enforce", "allow", (false, false, 1)),
        ("warn", "failurePolicy", (false, false, 1)),
        ("warn", "deny", (false, false, 1)),
        ("audit", "deny", (false, false, 0)),
    ];
    for (mode, on_error, expected) in cases {
        let mut policy = misbehaves("evil", &json!({"do": "panic"}));
        policy["mode"] = mode.into();
        policy["onError"] = on_error.into();
        let decision = decide(&load(&[policy]), "b").await;
        let (failure, denial) = (decision.failure.is_some(), decision.denial.is_some());
        assert_eq!((failure, denial, decision.warnings.len()), expected, "{mode} {on_error}");
        assert_eq!(decision.policy_errors.len(), 1, "{mode} {on_error}");
        let note = &decision.audit_annotations["evil"];
        assert!(note.starts_with("policy evil failed: panicked at "), "{note}");
    }
}

/// A policy error in rules that only warn cannot prevent the answer to a request, and cannot allow
/// it.
#[tokio::test]
async fn policy_error_in_advisory_rules_drops_them() {
    let _turn = wait_for_idle_machine().await;
    let policy = |settings: &Value, rules: &Value| {
        let mut policy = misbehaves("evil", settings);
        policy["module"] = json!(hostile_component("advises"));
        policy["rules"] = rules.clone();
        policy
    };
    for (what, cause) in
        [("spin", "CPU time limit"), ("grow", "memory"), ("panic", "advice is dear")]
    {
        let settings = json!({"do": what});
        let set = load(&[policy(&settings, &json!({}))]);
        let decision = decide(&set, "good").await;
        assert_eq!((&decision.failure, &decision.denial), (&None, &None), "{what}");
        assert!(decision.warnings.is_empty() && decision.policy_errors.is_empty(), "{decision:?}");
        let dropped = &decision.dropped[0];
        assert_eq!(dropped.rules, ["ADVICE-1", "ADVICE-2"]);
        assert!(dropped.cause.contains(cause), "{}", dropped.cause);
        let note = &decision.audit_annotations["evil"];
        assert!(note.starts_with("dropped ADVICE-1 ADVICE-2: "), "{note}");
        let denial = decide(&set, "bad").await.denial.unwrap();
        assert_eq!(denial.message, "no", "what denies is evaluated");
        // What may deny is not dropped, by the configuration's word or by a setting.
        for (settings, rules) in [
            (settings.clone(), json!({"ADVICE-1": "deny"})),
            (json!({"do": what, "strict": true}), json!({})),
        ] {
            let decision = decide(&load(&[policy(&settings, &rules)]), "good").await;
            assert!(decision.failure.unwrap().cause.contains(cause), "{what} {rules}");
            assert!(decision.dropped.is_empty());
        }
        // What only warns by the configuration's word is.
        let strict = json!({"do": what, "strict": true});
        let set = load(&[policy(&strict, &json!({"ADVICE-1": "warn"}))]);
        assert_eq!(decide(&set, "good").await.failure, None);
    }
    // Without a policy error nothing is dropped.
    let decision = decide(&load(&[policy(&json!({}), &json!({}))]), "good").await;
    assert_eq!(decision.warnings, ["think twice", "think again"]);
    assert!(decision.dropped.is_empty());
}

/// `onError: allow` forgives errors of the policy, not that it was given too much to do.
#[tokio::test]
async fn limit_errors_ignore_on_error_allow() {
    let _turn = wait_for_idle_machine().await;
    let cases = [
        (json!({"do": "panic"}), true),
        (json!({"do": "unknown-rule"}), true),
        (json!({"do": "spin"}), false),
        (json!({"do": "grow"}), false),
        (json!({"do": "recurse"}), false),
        (json!({"do": "many-annotations", "number": 17}), false),
    ];
    for (settings, allowed) in cases {
        let mut policy = misbehaves("evil", &settings);
        policy["onError"] = "allow".into();
        let decision = decide(&load(&[policy]), "b").await;
        assert_eq!(decision.failure.is_none(), allowed, "{settings}");
        assert_eq!(decision.denial, None);
        assert_eq!(decision.policy_errors.len(), 1);
    }
}

/// A client that keeps a policy busy does not bypass it, whatever its policy errors do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_ignores_on_error_allow() {
    let _turn = wait_for_idle_machine().await;
    for concurrency in [1, 4] {
        let mut guard = misbehaves("guard", &json!({"do": "spin-for-name", "name": "slow"}));
        guard["onError"] = "allow".into();
        guard["limits"] = json!({"time": "30s", "concurrency": concurrency});
        let set = Arc::new(load(&[guard]));
        let mut busy = Vec::new();
        for _ in 0..4 {
            let set = set.clone();
            busy.push(tokio::spawn(async move { decide(&set, "slow").await }));
        }
        while set.policies()[0].dispatcher.worker_calls() == 0 {
            tokio::task::yield_now().await;
        }
        let body = create_bundle("u", "slow", &good_spec()).to_string().into_bytes();
        let text = review::text(body).unwrap();
        let review = Review::read(&text).unwrap();
        for _ in 0..30 {
            let soon = Instant::now() + Duration::from_millis(20);
            let answer = set.decide(&review, None, soon, &()).await;
            assert!(
                matches!(answer, Err(opgate::evaluation::DecideError::Overload(_))),
                "{answer:?}"
            );
        }
        busy.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// A call that is too long for the fast lane runs twice until it is known that calls of this policy are.
/// Then those of all users start where they belong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_long_for_all_tenants_skip_the_fast_path() {
    let _turn = wait_for_idle_machine().await;
    let mut slow = misbehaves("slow", &json!({"do": "spin-for-name", "name": "slow"}));
    slow["limits"] = json!({"time": "50ms"});
    let set = load(&[slow]);
    let repeated = || set.policies()[0].dispatcher.repeated_calls();
    for (user, expected) in [("a", 1), ("b", 2), ("c", 2), ("d", 2)] {
        let mut review = create_bundle("u", "slow", &good_spec());
        review["request"]["userInfo"]["username"] = user.into();
        // A server accounts for the memory of a request.
        let charge = Charge::on(&Account::new(1 << 30));
        let text = review::charged_text(review.to_string().into_bytes(), charge).unwrap();
        let review = Review::read(&text).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        // Its time is up, or on a busy machine there is none. Either way the call was long.
        let _ = set.decide(&review, None, deadline, &()).await;
        assert_eq!(repeated(), expected, "{user}");
    }
}

/// Audit and warn never block, not even by being busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_policy_in_warn_or_audit_is_skipped() {
    let _turn = wait_for_idle_machine().await;
    for (mode, on_error) in [("audit", "failurePolicy"), ("warn", "deny"), ("warn", "allow")] {
        let mut watcher = misbehaves("watcher", &json!({"do": "spin-for-name", "name": "slow"}));
        watcher["mode"] = mode.into();
        watcher["onError"] = on_error.into();
        watcher["limits"] = json!({"time": "30s", "concurrency": 1});
        let set = Arc::new(load(&[watcher, testkit::builtin_policy()]));
        let busy = set.clone();
        let slow = tokio::spawn(async move { decide(&busy, "slow").await });
        while set.policies()[0].dispatcher.worker_calls() == 0 {
            tokio::task::yield_now().await;
        }
        let decision = decide(&set, "b").await;
        assert!(decision.denial.is_none() && decision.failure.is_none(), "{mode}");
        assert_eq!(decision.policy_errors[0].class, "overload", "{mode}");
        let decision = decide(&set, &"n".repeat(53)).await;
        assert!(decision.denial.is_some(), "{mode}: the other policy still denies");
        slow.abort();
    }
}

/// Limits hold before the first answer, too: the others serve, and the broken one has its cause.
#[test]
fn policy_that_fails_to_load_reports_cause_and_blocks_no_others() {
    let _turn = block_until_idle_machine();
    let directory = tempfile::tempdir().unwrap();
    let good = std::fs::read(hostile_component("misbehaves")).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let mut state = 0x1234_5678_u32;
    let mut random = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    let noise: Vec<u8> = (0..100_000).map(&mut random).collect();
    let magic_noise = [b"\0asm\x0d\0\x01\0".as_slice(), &noise].concat();
    let mut cases = vec![
        (
            hostile_component("loops-in-describe"),
            "describe: exceeded the CPU time limit of 100ms: raise `limits.time` of the policy",
        ),
        (
            hostile_component("loops-in-settings"),
            "validate-settings: exceeded the CPU time limit of 100ms",
        ),
        (hostile_component("refers-in-schema"), "its settings schema has references"),
        (
            hostile_component("imports-wasi"),
            "imports \"wasi:cli/environment@0.2.0\": a policy has no WASI",
        ),
        (
            hostile_component("imports-foreign"),
            "imports \"example:clock/now@1.0.0\": a policy may import",
        ),
        (
            hostile_component("imports-other-version"),
            "was built for version 0.9.0 of opgate:policy",
        ),
        (
            hostile_component("reads-cluster"),
            "imports opgate:policy/cluster, but reads nothing that was granted",
        ),
        (file("core.wasm", b"\0asm\x01\0\0\0"), "a core module, not a component"),
        (file("empty.wasm", b""), "the file is empty"),
        (file("noise.wasm", &noise), "not WebAssembly"),
        (file("magic-noise.wasm", &magic_noise), "not a valid component"),
        (file("text.wasm", b"hello"), "not WebAssembly"),
        (directory.path().join("missing.wasm"), "No such file"),
        (directory.path().to_path_buf(), "is a directory"),
    ];
    let large = vec![0u8; (32 << 20) + 1];
    cases.push((file("large.wasm", &large), "bytes are more than the 33554432"));
    for length in [8, 9, 100, good.len() / 2, good.len() - 1] {
        let path = file(&format!("cut-{length}.wasm"), &good[..length]);
        cases.push((path, ""));
    }
    for (module, cause) in cases {
        let set = load(&[json!({"name": "broken", "module": module}), testkit::builtin_policy()]);
        assert_eq!(set.policies().len(), 1, "{}", module.display());
        let broken = &set.broken()[0];
        assert_eq!(broken.name, "broken");
        let error = broken.error.to_string();
        assert!(error.contains(cause), "{}: {error}", module.display());
        assert!(!error.contains('\n') && !error.is_empty(), "{error}");
    }
}

/// A secret in 3 MiB of memory (initial and grown) and in a static. In a thousand later
/// evaluations, many of them in the same place, no evaluation has read a word of it.
#[tokio::test]
async fn evaluations_share_no_state() {
    let _turn = wait_for_idle_machine().await;
    let mut policies = vec![misbehaves("writer", &json!({"do": "write-secret"}))];
    policies.push(misbehaves("reader", &json!({"do": "read-secret"})));
    for policy in &mut policies {
        policy["limits"] = json!({"time": "30s", "concurrency": 1});
    }
    let set = load(&policies);
    assert!(set.engine().is_pooled());
    for round in 0..1_000 {
        let decision = decide(&set, "b").await;
        let found: Vec<_> = decision.violations.iter().map(|v| (&*v.policy, &*v.message)).collect();
        assert_eq!(found, [("writer", "5ec2e75ec2e75ec2")], "round {round}");
    }
}

/// What a policy does depends on nothing but its input.
#[tokio::test]
async fn the_same_input_gives_the_same_verdict() {
    let _turn = wait_for_idle_machine().await;
    let set = load(&[testkit::builtin_policy()]);
    let body = create_bundle("u", "b", &json!({"source": {"type": "git"}})).to_string();
    let text = review::text(body.into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let mut seen = Vec::new();
    for _ in 0..50 {
        let deadline = Instant::now() + Duration::from_secs(60);
        let decision = set.decide(&review, None, deadline, &()).await.unwrap();
        seen.push((decision.denial, decision.warnings, decision.audit_annotations));
    }
    seen.dedup();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].0.is_some());
}

/// As the command line loads: components from files are compiled by child processes.
fn load_in_subprocess(policies: &[Value]) -> PolicySet {
    load_in_subprocess_with(usize::MAX, policies)
}

/// The same, where the children together have this much memory.
fn load_in_subprocess_with(memory: usize, policies: &[Value]) -> PolicySet {
    let text = configuration(policies);
    let configuration = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS).unwrap();
    let compiler = Compiler::in_subprocess_of(BINARY.into(), memory);
    let context = cluster::ClusterOptions::of(cluster::Source::Absent);
    let loading = LoadProgress::default();
    PolicySet::load_with(&configuration, None, compiler, 64, context, &loading).unwrap()
}

/// Components that are valid, and made to harm the process that compiles or loads them. A component
/// that passes the gate ends with the limits of the child.
#[tokio::test]
async fn harmful_component_does_not_affect_other_policies() {
    let _turn = wait_for_idle_machine().await;
    let directory = tempfile::tempdir().unwrap();
    let padded = |component| bombs::padded(component, 4 << 20);
    let cases = [
        // It made wasmtime panic: `invalid adapter module generated: multiple memories`. Now it is
        // compiled, and is no policy.
        ("two-memories", bombs::two_memories(), "cannot be used: "),
        ("two-in-a-module", bombs::module_with_two_memories(), "a module with 2 memories"),
        ("locals", bombs::locals_and_blocks(5_000, 10), "5000 locals: at most 196608 and 4096"),
        ("large", bombs::pressure(30_000), "a function of "),
        ("functions", bombs::functions(40_000), "functions: at most 32768"),
        ("imports", bombs::imports(70_000), "types, imports, exports and the like: at most 65536"),
        ("modules", bombs::modules(40), "33 modules: at most 32"),
        ("instances", bombs::instances(9), "9 instances of modules: at most 8"),
        // What is large has wider bounds, and has them.
        ("large-modules", padded(bombs::modules(70)), "65 modules: at most 64"),
        ("large-instances", padded(bombs::instances(65)), "65 instances of modules: at most 64"),
        ("large-function", padded(bombs::pressure(80_000)), "locals: at most 524288 and 4096"),
        ("large-allowed", padded(bombs::instances(40)), "does not export \"describe\""),
        ("memory", bombs::memory(513), "starts with 32832Ki of memory, and may have 32Mi"),
        ("too-large", bombs::padded(bombs::instances(1), 32 << 20), "more than the 33554432 that"),
        // Seconds to minutes without limits.
        ("slow", bombs::slow(), "cannot be compiled: exceeded the CPU time limit of "),
    ];
    for (name, component, cause) in cases {
        let path = directory.path().join(format!("{name}.wasm"));
        std::fs::write(&path, &component).unwrap();
        let set = load_in_subprocess(&[
            json!({"name": "broken", "module": path}),
            testkit::builtin_policy(),
        ]);
        let error = set.broken()[0].error.to_string();
        assert!(error.contains(cause), "{name}, {} bytes: {error}", component.len());
        assert!(!error.contains('\n') && error.len() < 1_024, "{name}");
        let decision = decide(&set, &"n".repeat(53)).await;
        assert!(
            decision.denial.is_some() || decision.failure.is_some(),
            "{name}: the others serve"
        );
    }
}

/// In a container of 128 MiB the children have 48 MiB, so that the system need not end a process. A
/// policy needs less; one that needs more ends in an error that states the limit.
#[test]
fn compiler_memory_is_small_in_a_small_container() {
    let _turn = block_until_idle_machine();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.wasm");
    std::fs::write(&path, bombs::tables(1_000, 60)).unwrap();
    let large = json!({"name": "large", "module": path});
    let good = misbehaves("good", &json!({"do": "controls"}));
    let set = load_in_subprocess_with(48 << 20, &[large, good]);
    let names = |name: &str| name == "good";
    assert!(set.policies().iter().map(|policy| &*policy.name).all(names), "{:?}", set.broken());
    let error = set.broken()[0].error.to_string();
    assert!(error.contains("it takes more than 48Mi of memory"), "{error}");
    assert!(error.contains("the memory limit of the container leaves no more"), "{error}");
    assert_eq!(set.policies().len(), 1, "{:?}", set.broken());
}

/// A policy in a child and one here are the same.
#[tokio::test]
async fn subprocess_compilation_gives_same_module() {
    let _turn = wait_for_idle_machine().await;
    let policy = misbehaves("evil", &json!({"do": "controls"}));
    let (here, apart) = (load(std::slice::from_ref(&policy)), load_in_subprocess(&[policy]));
    assert_eq!(here.policies()[0].module.digest(), apart.policies()[0].module.digest());
    let (one, other) = (decide(&here, "b").await, decide(&apart, "b").await);
    assert_eq!(one.denial.unwrap().message, other.denial.unwrap().message);
}

/// Calls that share CPU time end with it, whatever their own limits; a call that begins when nothing is left
/// ends at once.
#[test]
fn calls_share_the_time_of_a_review() {
    let _turn = block_until_idle_machine();
    let engine = Arc::new(Engine::start(Pool { instances: 2, memory: 32 << 20 }, None).unwrap());
    let evil = engine.load(&std::fs::read(hostile_component("misbehaves")).unwrap(), true).unwrap();
    let settings = Arc::new(Document::parse(r#"{"do": "spin"}"#).unwrap());
    let body = create_bundle("u", "b", &good_spec()).to_string().into_bytes();
    let text = review::text(body).unwrap();
    let inputs = Arc::new(Review::read(&text).unwrap().inputs());
    let limit = Duration::from_millis(20);
    let shared = SharedCpuTime::new(limit);
    let (processor, wall) = (Duration::from_secs(60), Duration::from_secs(600));
    let time = TimeLimit::Full { cpu_time: processor, wall_time: wall };
    let budget = Budget { memory: 32 << 20, time, worker: None, shared_time: Some(&shared) };
    let spin = || {
        let reader = Arc::new(PolicyView::default()).reader(EvaluationView::default());
        evil.validate(&inputs, 1, &settings, reader, budget).result.unwrap_err()
    };
    let first = spin();
    assert_eq!(first, CallError::SharedCpuTime(limit));
    assert!(first.to_string().contains("together exceeded the CPU time limit of 20ms"), "{first}");
    assert!(!first.can_be_allowed() && !first.is_overload());
    let used = shared.used();
    assert!(used >= limit);
    assert_eq!(spin(), CallError::SharedCpuTime(limit));
    // The second call is charged as well, and ends before the first check of the clock.
    assert!(shared.used() > used);
}

/// Rules that only warn get half of the time of a policy, so that both calls together keep its limit.
#[tokio::test]
async fn both_calls_of_a_policy_keep_its_limit() {
    let _turn = wait_for_idle_machine().await;
    let mut policy = misbehaves("evil", &json!({"do": "spin"}));
    policy["module"] = json!(hostile_component("advises"));
    let decision = decide(&load(&[policy]), "good").await;
    assert_eq!(decision.dropped[0].cause, "exceeded the CPU time limit of 50ms");
}

/// A call that waits for a processor because other calls use them has used no CPU time: calls that
/// spin on all processors cause no error in a call that needs little.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiting_for_a_processor_uses_no_time() {
    let _turn = wait_for_idle_machine().await;
    // One tenant has few long calls of one policy at a time, so that there are four policies.
    let evils = ["a", "b", "c", "d"].map(|name| {
        let mut evil = misbehaves(name, &json!({"do": "spin-for-name", "name": "slow"}));
        evil["limits"] = json!({"time": "30s"});
        evil
    });
    // Next to the others it waits longer than it works.
    let mut good = misbehaves("good", &json!({"do": "work", "number": 30_000_000}));
    good["limits"] = json!({"time": "1s"});
    let burners = Arc::new(load(&evils));
    let set = load(&[good]);
    let spawn = |_| {
        let burners = burners.clone();
        tokio::spawn(async move { decide(&burners, "slow").await })
    };
    let burning: Vec<_> = (0..2).map(spawn).collect();
    while burners.policies().iter().any(|policy| policy.dispatcher.worker_calls() == 0) {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        assert_eq!(decide(&set, "b").await.failure, None);
    }
    burning.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A settings schema of patterns took 23 s and 2.4 GB. Limits of its structure apply, and a schema
/// within them ends with the limits of the child.
#[tokio::test]
async fn oversized_settings_schema_does_not_affect_other_policies() {
    let _turn = wait_for_idle_machine().await;
    for (module, says) in [
        ("explodes-in-patterns", "its settings schema has more than 128 patterns"),
        ("explodes-in-schema", "its settings schema "),
    ] {
        let set = load_in_subprocess(&[
            json!({"name": "broken", "module": hostile_component(module), "settings": {"a": "b"}}),
            testkit::builtin_policy(),
        ]);
        let error = set.broken()[0].error.to_string();
        assert!(error.contains(says), "{module}: {error}");
        assert_readable_cause(&error);
        assert_eq!(set.policies().len(), 1);
    }
}

/// A policy that takes long to load blocks neither other policies from being loaded nor the
/// liveness of the process: `/readyz` names the policies that are being loaded.
#[tokio::test]
async fn policies_load_in_parallel_and_readiness_names_pending_ones() {
    let _turn = wait_for_idle_machine().await;
    let certificates = testkit::Certificates::new();
    let directory = tempfile::tempdir().unwrap();
    let slow = |name: &str| json!({"name": name, "module": hostile_component("loops-in-describe"), "limits": {"time": "30s"}});
    let path = directory.path().join("opgate.yaml");
    let policies = [slow("slow-a"), slow("slow-b"), testkit::builtin_policy()];
    std::fs::write(&path, configuration(&policies)).unwrap();
    let mut command = std::process::Command::new(BINARY);
    command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBECONFIG");
    command.args(["--log-format", "json", "serve", "--listen", "127.0.0.1:0"]);
    command.args(["--ops-listen", "127.0.0.1:0"]);
    command.arg("--tls-dir").arg(certificates.directory.path());
    command.arg("--cache-dir").arg(directory.path().join("cache")).arg("--config").arg(&path);
    let mut server = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(server.stderr.take().unwrap()).lines();
    let line = lines.find_map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_ne!(line["message"], "serving");
        (line["message"] == "loading policies").then(|| line["ops"].as_str().unwrap().to_owned())
    });
    let ops = line.expect("it says where it can be asked");
    let get = async |path: &str| {
        let mut stream = tokio::net::TcpStream::connect(&ops).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: opgate\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    testkit::wait_until("both are being loaded", async || {
        let answer = get("/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        ["slow-a", "slow-b"]
            .iter()
            .all(|p| answer.contains(&format!("policy {p}: is being loaded")))
            && !answer.contains("bundle-immutability")
    })
    .await;
    assert!(get("/livez").await.starts_with("HTTP/1.1 200 "));
    server.kill().unwrap();
    server.wait().unwrap();
}
