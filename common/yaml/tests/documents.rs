//! Compares this crate with go-yaml on a table of documents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

use opgate_yaml::{BooleanWords, Document};

const TABLE: &str = include_str!("documents.tsv");

#[test]
fn documents_are_converted_like_upstream() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let [name, text, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        count += 1;
        let text: String = serde_json::from_str(text).unwrap();
        let strict = opgate_yaml::read_strict(&text, 100_000);
        let found = match &strict {
            Ok(json) => String::from_utf8(json.clone()).unwrap(),
            Err(why) => format!("! {why}"),
        };
        if found != expected {
            wrong.push(format!("{name}\n  expected {expected}\n  found    {found}"));
        }
        // The other ways agree, but for names that stand twice.
        let files = opgate_yaml::documents(&text, BooleanWords::Yaml11, 100_000);
        match (&strict, files) {
            (Ok(json), Ok(parts)) => assert_eq!(parts[0].json.as_bytes(), json, "{name}"),
            (Err(why), Err(error)) => {
                assert_eq!(why.to_string(), error.upstream_message(), "{name}");
            }
            (strict, files) => panic!("{name}: {strict:?} {files:?}"),
        }
        let is_read = matches!(opgate_yaml::read(&text, 100_000), Some(Document::Json(_)));
        let is_twice = expected.starts_with("! yaml: duplicate");
        assert_eq!(is_read, strict.is_ok() || is_twice, "{name}");
    }
    assert!(count >= 60, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
