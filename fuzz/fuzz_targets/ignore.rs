//! `.indexignore`: patterns of strangers on names of strangers.
//!
//! An input is patterns, an empty line, and names. The oracles: a file in an ignored folder is ignored,
//! what is said last counts, and patterns that are there twice change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (patterns, names) = input.split_once("\n\n").unwrap_or((input, "a\na/b.yaml\n.x"));
    let is_path = |name: &&str| {
        !name.is_empty() && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
    };
    let names: Vec<&str> = names.lines().filter(is_path).take(16).collect();
    let found = opgate::fuzzing::ignores(patterns, &names);
    assert_eq!(found, opgate::fuzzing::ignores(&format!("{patterns}\n{patterns}"), &names));
    let all = opgate::fuzzing::ignores(&format!("{patterns}\n*"), &names);
    assert!(all.iter().all(|ignored| *ignored), "{names:?}");
    // A negation brings a file back, unless its folder is ignored.
    let none = opgate::fuzzing::ignores(&format!("{patterns}\n!*"), &names);
    assert!(none.iter().all(|ignored| !*ignored), "{names:?}");
});
