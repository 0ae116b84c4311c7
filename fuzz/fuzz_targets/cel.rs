//! Expressions in CEL: syntax, types and values.
//!
//! Oracles: an error has a position in the text; an expression of type `bool` stays one in parentheses
//! and in larger expressions, and their values follow from its value; the constraint that contains an
//! expression has the same errors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_cel::{self as cel, Budget, CompileError, EvaluationError, Program, Properties};
use opgate_constraint::{Check, Options, check};
use opgate_fuzz::repeat_input;

fuzz_target!(|rule: &str| {
    let found = cel::check(rule);
    if let Err(CompileError::Invalid(error)) = &found {
        assert_position(rule, error);
    }
    // A line break ends a comment.
    for outer in [
        format!("({rule}\n)"),
        format!("!({rule}\n)"),
        format!("({rule}\n) && properties.exists(p, p.type == 'a')"),
        format!("({rule}\n) ? true : false"),
        format!("[({rule}\n)].exists(v, v)"),
        format!("({rule}\n) == ({rule}\n)"),
    ] {
        let outer_result = cel::check(&outer);
        // The outer expression can exceed the limit on levels.
        if found.is_ok() && !is_too_deep(&outer_result) {
            assert_eq!(outer_result, Ok(()), "{outer:?}");
        }
    }
    check_constraint(rule, &found);
    if found.is_ok() {
        check_values(rule);
    }
    let separators = ["", " || ", "\n&& ", ",", "(", "[", ".", "? true :"];
    if let Some(repeated) = repeat_input(rule.as_bytes(), &separators) {
        let repeated = String::from_utf8(repeated).expect("complete inputs");
        if let Ok(program) = Program::compile(&repeated) {
            let _ = program.run(&properties(), &mut Budget::default());
        }
    }
});

fn is_too_deep(found: &Result<(), CompileError>) -> bool {
    matches!(found, Err(CompileError::Invalid(error)) if error.contains("recursion limit exceeded"))
}

/// Asserts that an error, `ERROR: <input>:line:column: …`, has a position in the text or right behind it.
fn assert_position(rule: &str, error: &str) {
    let position = error.strip_prefix("ERROR: <input>:").expect("cel-go's format");
    let mut parts = position.splitn(3, ':');
    let mut number = || parts.next().and_then(|n| n.parse::<usize>().ok()).expect("a number");
    let (line, column) = (number(), number());
    let lines: Vec<&str> = rule.split('\n').collect();
    assert!((1..=lines.len()).contains(&line), "{rule:?}: {error}");
    let width = lines[line - 1].chars().count();
    assert!((1..=width + 1).contains(&column), "{rule:?}: {error}");
}

/// Asserts that a constraint with the expression has the matching violations.
fn check_constraint(rule: &str, found: &Result<(), CompileError>) {
    let json = serde_json::json!({"cel": {"rule": rule}}).to_string();
    if json.len() > Options::default().max_bytes {
        return;
    }
    let violations = check(json.as_bytes(), &Options::default()).violations;
    let checks: Vec<_> = violations.into_iter().map(|violation| violation.check).collect();
    let expected: &[Check] = match found {
        Ok(()) => &[],
        Err(CompileError::Invalid(_)) => &[Check::Expression],
        Err(CompileError::NotBool) => &[Check::Bool],
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

/// Asserts the values of expressions around another one.
fn check_values(rule: &str) {
    let properties = properties();
    let run = |rule: &str| {
        let program = Program::compile(rule).ok()?;
        let _ = program.first_false_term(&properties, &mut Budget::default());
        Some(program.run(&properties, &mut Budget::default()))
    };
    let value = run(rule).expect("an expression that compiles");
    for (outer, expected) in [
        (format!("!({rule}\n)"), value.clone().map(|value| !value)),
        (format!("({rule}\n) && true"), value.clone()),
        (format!("false || ({rule}\n)"), value.clone()),
        (format!("({rule}\n) ? true : false"), value.clone()),
        (format!("({rule}\n) || true"), limit_or(&value, true)),
        (format!("false && ({rule}\n)"), Ok(false)),
        (format!("[({rule}\n)].exists(v, v)"), value.clone()),
    ] {
        // The outer expression can exceed the limits on levels and steps.
        let Some(found) = run(&outer) else { continue };
        if !matches!(found, Err(EvaluationError::Limit(_))) {
            match (found, expected) {
                // Messages of errors can differ.
                (Err(_), Err(_)) => {}
                (found, expected) => assert_eq!(found, expected, "{outer:?}"),
            }
        }
    }
}

/// Returns the limit error of `value`, because a limit ends an evaluation; else `other`.
fn limit_or(value: &Result<bool, EvaluationError>, other: bool) -> Result<bool, EvaluationError> {
    match value {
        Err(EvaluationError::Limit(_)) => value.clone(),
        _ => Ok(other),
    }
}
