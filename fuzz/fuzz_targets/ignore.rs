//! `.indexignore`: any patterns on any names.
//!
//! An input is patterns, an empty line, and names. Oracles: a file in an ignored directory is ignored,
//! the last matching pattern counts, and duplicate patterns change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate::fuzzing::ignores;

fuzz_target!(|input: &str| {
    let (patterns, names) = input.split_once("\n\n").unwrap_or((input, "a\na/b.yaml\n.x"));
    let is_path = |name: &&str| {
        !name.is_empty() && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
    };
    let names: Vec<&str> = names.lines().filter(is_path).take(16).collect();
    let found = ignores(patterns, &names);
    assert_eq!(found, ignores(&format!("{patterns}\n{patterns}"), &names));
    let all = ignores(&format!("{patterns}\n*"), &names);
    assert!(all.iter().all(|ignored| *ignored), "{names:?}");
    // A negation includes all files again, because it also matches their directories.
    let none = ignores(&format!("{patterns}\n!*"), &names);
    assert!(none.iter().all(|ignored| !*ignored), "{names:?}");
});
