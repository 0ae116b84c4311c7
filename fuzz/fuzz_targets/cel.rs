//! Expressions in CEL: their syntax, their types and their values.
//!
//! The oracles: an error names a place in the text, an expression of type `bool` stays one in
//! parentheses and within a larger one, the constraint that holds it says the same, and what it says
//! of properties is the opposite of what its negation says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_cel::{self as cel, Budget, Failure, Fault, Program, Properties};
use opgate_constraint::{Check, Options, check};
use opgate_fuzz::large;

fuzz_target!(|rule: &str| {
    let found = cel::check(rule);
    if let Err(Fault::Wrong(error)) = &found {
        place(rule, error);
    }
    // A line break ends a comment.
    for (around, wanted) in [
        (format!("({rule}\n)"), found.clone()),
        (format!("!({rule}\n)"), found.clone()),
        (format!("({rule}\n) && properties.exists(p, p.type == 'a')"), found.clone()),
        (format!("({rule}\n) ? true : false"), found.clone()),
        (format!("[({rule}\n)].exists(v, v)"), found.clone()),
        (format!("({rule}\n) == ({rule}\n)"), found.clone()),
    ] {
        let other = cel::check(&around);
        // There may be one level too many.
        if wanted.is_ok() && !is_too_deep(&other) {
            assert_eq!(other, Ok(()), "{around:?}");
        }
    }
    within_a_constraint(rule, &found);
    if found.is_ok() {
        evaluated(rule);
    }
    let between = ["", " || ", "\n&& ", ",", "(", "[", ".", "? true :"];
    if let Some(large) = large(rule.as_bytes(), &between) {
        let large = String::from_utf8(large).expect("whole inputs");
        if let Ok(program) = Program::compile(&large) {
            let _ = program.run(&properties(), &mut Budget::default());
        }
    }
});

fn is_too_deep(found: &Result<(), Fault>) -> bool {
    matches!(found, Err(Fault::Wrong(error)) if error.contains("recursion limit exceeded"))
}

/// `ERROR: <input>:line:column: …`, a place in the text or right behind it.
fn place(rule: &str, error: &str) {
    let place = error.strip_prefix("ERROR: <input>:").expect("cel-go's form");
    let mut parts = place.splitn(3, ':');
    let mut number = || parts.next().and_then(|n| n.parse::<usize>().ok()).expect("a number");
    let (line, column) = (number(), number());
    let lines: Vec<&str> = rule.split('\n').collect();
    assert!((1..=lines.len()).contains(&line), "{rule:?}: {error}");
    let width = lines[line - 1].chars().count();
    assert!((1..=width + 1).contains(&column), "{rule:?}: {error}");
}

fn within_a_constraint(rule: &str, found: &Result<(), Fault>) {
    let json = serde_json::json!({"cel": {"rule": rule}}).to_string();
    if json.len() > Options::default().max_bytes {
        return;
    }
    let findings = check(json.as_bytes(), &Options::default()).findings;
    let checks: Vec<_> = findings.into_iter().map(|finding| finding.check).collect();
    let expected: &[Check] = match found {
        Ok(()) => &[],
        Err(Fault::Wrong(_)) => &[Check::Expression],
        Err(Fault::NotBool) => &[Check::Bool],
    };
    assert_eq!(checks, expected, "{json}");
}

fn properties() -> Properties {
    let all = [
        ("olm.package", r#"{"packageName":"etcd","version":"1.2.3"}"#),
        ("a", r#"[1, -1, 1.5, "1.2.3", true, null, {"b": [[]], "": ""}]"#),
        ("certified", r#""1.0.0""#),
    ];
    Properties::new(all.into_iter().map(|(kind, value)| (kind, value.as_bytes())))
}

/// What an expression says, and what those say that are made of it.
fn evaluated(rule: &str) {
    let properties = properties();
    let run = |rule: &str| {
        let program = Program::compile(rule).ok()?;
        let _ = program.culprit(&properties, &mut Budget::default());
        Some(program.run(&properties, &mut Budget::default()))
    };
    let value = run(rule).expect("it compiles");
    for (around, expected) in [
        (format!("!({rule}\n)"), value.clone().map(|value| !value)),
        (format!("({rule}\n) && true"), value.clone()),
        (format!("false || ({rule}\n)"), value.clone()),
        (format!("({rule}\n) ? true : false"), value.clone()),
        (format!("({rule}\n) || true"), limit_or(&value, true)),
        (format!("false && ({rule}\n)"), Ok(false)),
        (format!("[({rule}\n)].exists(v, v)"), value.clone()),
    ] {
        // There may be a level or a step too many.
        let Some(found) = run(&around) else { continue };
        if !matches!(found, Err(Failure::Limit(_))) {
            match (found, expected) {
                // What an error says is not compared.
                (Err(_), Err(_)) => {}
                (found, expected) => assert_eq!(found, expected, "{around:?}"),
            }
        }
    }
}

/// A limit ends an evaluation, whatever stands beside.
fn limit_or(value: &Result<bool, Failure>, other: bool) -> Result<bool, Failure> {
    match value {
        Err(Failure::Limit(_)) => value.clone(),
        _ => Ok(other),
    }
}
