//! Published bundles: for what they are denied, and whether upstream's validators refuse the same.
//!
//! ```text
//! OPGATE_CORPUS ─▶ opgate check --output jsonl ─▶ findings by rule ─▶ a table
//!                                             └▶ bundles denied ── corpus/shared.tsv ─▶ less than 2 % for reasons of our own
//! ```
//!
//! The bundles are not part of the repository: `docs/reliability.md` says where to get some.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::check::command;
use crate::rules::documented::documented_rules;

/// Bundles of a hundred that may be denied for a reason that upstream does not share.
const MAX_DENIED_PERCENT: usize = 2;

/// The denials that upstream shares: rule, words of the message, and where upstream refuses.
fn shared_denials() -> Vec<[&'static str; 3]> {
    let lines =
        include_str!("published_bundles/shared.tsv").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let cells: Vec<_> = line.split('\t').collect();
        cells.try_into().unwrap_or_else(|_| panic!("not three cells: {line}"))
    };
    lines.map(row).collect()
}

/// What a rule finds in all bundles.
#[derive(Default)]
struct RuleViolations {
    bundles: BTreeSet<String>,
    count: usize,
    example: String,
}

#[test]
#[ignore = "needs a directory of bundles in OPGATE_CORPUS"]
fn published_bundles_are_denied_for_upstream_reasons() {
    let directory = PathBuf::from(env::var_os("OPGATE_CORPUS").expect("OPGATE_CORPUS"));
    let directory = directory.canonicalize().unwrap();
    let path = directory.display().to_string();
    let arguments = ["check", "--output", "jsonl", "--max-input-size", "4Gi", &path];
    // Configurations and caches of other directories have no effect.
    let home = tempfile::tempdir().unwrap();
    let mut child = command(&directory, &arguments)
        .env("OPGATE_CACHE_DIR", home.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let shared = shared_denials();
    let is_shared = |rule: &str, message: &str| {
        let fits = |[known, words, _]: &&[&str; 3]| *known == rule && message.contains(words);
        shared.iter().find(fits).is_some_and(|[_, _, place]| *place != "-")
    };
    let mut rules: BTreeMap<(String, String), RuleViolations> = BTreeMap::new();
    let (mut bundles, mut denied) = (0, 0);
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let subject: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if subject["kind"] != "RegistryBundle" {
            continue;
        }
        let name = relative(&text(&subject["source"]), &directory);
        bundles += 1;
        denied += usize::from(subject["ok"] == false);
        for violation in subject["violations"].as_array().into_iter().flatten() {
            let (rule, level) = (text(&violation["rule"]), text(&violation["effect"]));
            let message = text(&violation["message"]);
            if level == "deny" && !is_shared(&rule, &message) {
                own.entry(name.clone()).or_insert_with(|| format!("{rule} {message}"));
            }
            let found = rules.entry((level, rule)).or_default();
            found.count += 1;
            found.bundles.insert(name.clone());
            if found.example.is_empty() {
                let start: String = message.chars().take(90).collect();
                found.example = format!("{name}: {}", start.replace('\n', " "));
            }
        }
    }
    let status = child.wait().unwrap();
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    assert!(bundles > 0, "there are no bundles in {}", directory.display());

    println!("| level | rule | bundles | findings | for example |\n|---|---|---|---|---|");
    for ((level, rule), found) in &rules {
        let RuleViolations { bundles, count: findings, example } = found;
        println!("| {level} | {rule} | {} | {findings} | {example} |", bundles.len());
    }
    println!(
        "\n{denied} of {bundles} bundles are denied, {} of them for reasons of our own:",
        own.len()
    );
    for (name, why) in &own {
        println!("    {name}: {why}");
    }
    assert!(own.len() * 100 < bundles * MAX_DENIED_PERCENT, "{} of {bundles}", own.len());
}

fn relative(source: &str, directory: &Path) -> String {
    let path = Path::new(source);
    path.strip_prefix(directory).unwrap_or(path).display().to_string()
}

/// A rule that is gone, or a line that no rule reaches, would hide what it stands for.
#[test]
fn the_table_of_shared_denials_names_rules_once() {
    let known: BTreeSet<&str> = documented_rules().iter().map(|row| row.id).collect();
    let mut seen = BTreeSet::new();
    for [rule, words, place] in shared_denials() {
        assert!(known.contains(rule), "{rule}");
        assert!(!place.is_empty(), "{rule}");
        assert!(seen.insert((rule, words)), "{rule} {words}");
        assert!(words.is_empty() || !seen.contains(&(rule, "")), "{rule}: {words} comes too late");
    }
}
