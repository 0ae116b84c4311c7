//! Expressions in CEL: `cel::check`.
//!
//! The oracles: an error names a place in the text, an expression of type `bool` stays one in
//! parentheses and within a larger one, and the constraint that holds it says the same.
#![no_main]

use constraints::cel::{self, Fault};
use constraints::{Options, check};
use libfuzzer_sys::fuzz_target;
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
    let between = ["", " || ", "\n&& ", ",", "(", "[", ".", "? true :"];
    if let Some(large) = large(rule.as_bytes(), &between) {
        let _ = cel::check(&String::from_utf8(large).expect("whole inputs"));
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
    let rules: Vec<_> =
        check(json.as_bytes(), &Options::default()).findings.into_iter().map(|f| f.rule).collect();
    let expected: &[&str] = match found {
        Ok(()) => &[],
        Err(Fault::Wrong(_)) => &["CON-11"],
        Err(Fault::NotBool) => &["CON-12"],
    };
    assert_eq!(rules, expected, "{json}");
}
