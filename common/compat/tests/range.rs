//! Ranges of versions: upstream's texts and quirks, and properties that hold for every input.

use opgate_compat::range::Range;
use opgate_compat::version::Version;
use proptest::prelude::*;

const LAST_ELEMENT_ERROR: &str = "Last element in range is '||'";

#[test]
fn invalid_ranges_report_upstream_errors() {
    for (range, error) in [
        ("", LAST_ELEMENT_ERROR),
        ("1", LAST_ELEMENT_ERROR),
        ("x", LAST_ELEMENT_ERROR),
        (" ", LAST_ELEMENT_ERROR),
        ("1.0.0 ||", LAST_ELEMENT_ERROR),
        ("|| 1.0.0", "First element in range is '||'"),
        ("||", "First element in range is '||'"),
        ("foo", r#"Could not get version from string: "foo""#),
        (">1.0.0-fix", r#"Could not get version from string: ">=""#),
        ("1.0.0-fix", r#"Could not get version from string: "<""#),
        (
            ">v0.1.0",
            r#"Could not parse Range ">v0.1.0": Could not parse comparator ">v" in ">v0.1.0""#,
        ),
        ("^1.2.3", r#"Could not parse Range "^1.2.3": Could not parse comparator "^" in "^1.2.3""#),
        ("~1.2", r#"Could not parse Range "~1.2": Could not parse comparator "~" in "~1.2""#),
        (
            ">1.00.1",
            r#"Could not parse Range ">1.00.1": Could not parse version "1.00.1" in ">1.00.1": Minor number must not contain leading zeroes "00""#,
        ),
        ("4.1.x to 4.1.2", r#"Could not get version from string: "to""#),
    ] {
        assert_eq!(Range::parse(range).unwrap_err().to_string(), error, "{range}");
    }
}

#[test]
fn range_contains_the_same_versions_as_upstream() {
    for (range, inside, outside) in [
        (">=1.0.0", vec!["1.0.0", "9.0.0"], vec!["0.9.9", "1.0.0-a"]),
        ("> 1.0.0 !1.2.1", vec!["1.0.1", "1.2.2"], vec!["1.0.0", "1.2.1"]),
        (">=4.1.0 <4.1.2", vec!["4.1.1"], vec!["4.1.2", "4.0.9"]),
        ("1.0.0 || 2.0.0", vec!["1.0.0", "2.0.0"], vec!["1.5.0"]),
        (">   1.0.0", vec!["1.0.1"], vec!["1.0.0"]),
        ("1.x", vec!["1.0.0", "1.9.0"], vec!["0.9.0", "2.0.0"]),
        ("1.2.x", vec!["1.2.0", "1.2.9"], vec!["1.3.0"]),
        ("1.x.x", vec!["1.0.0", "1.0.9"], vec!["1.1.0"]),
        ("^1.2.x", vec!["1.2.0"], vec!["1.2.1"]),
        ("~1.x", vec!["1.0.0"], vec!["1.1.0"]),
        ("! 1.0.0", vec!["1.0.0"], vec!["1.0.1"]),
        ("!1.x", vec![], vec!["0.1.0", "1.0.0", "2.0.0"]),
        (">1.x", vec!["2.0.0"], vec!["1.9.0"]),
        ("<=1.x", vec!["1.9.0"], vec!["2.0.0"]),
        (">=1.0.0-fix", vec!["1.0.0"], vec!["1.0.0-a"]),
        ("1.0.0 || || 2.0.0", vec!["1.0.0", "2.0.0"], vec!["3.0.0"]),
        ("1.0.0 || >=2.0.0 !=2.1.0", vec!["1.0.0", "2.0.0", "2.2.0"], vec!["1.0.1", "2.1.0"]),
    ] {
        let parsed = Range::parse(range).unwrap_or_else(|e| panic!("{range}: {e}"));
        for (versions, expected) in [(inside, true), (outside, false)] {
            for version in versions {
                let parsed_version = Version::parse(version).unwrap();
                assert_eq!(parsed.contains(&parsed_version), expected, "{version} in {range}");
                assert_eq!(
                    has_interval_with(&parsed, &parsed_version),
                    expected,
                    "{version} in {range}"
                );
            }
        }
    }
}

/// Whether one of the intervals of a range has a version.
fn has_interval_with(range: &Range, version: &Version) -> bool {
    range.intervals().into_iter().any(|(low, high)| {
        low.is_none_or(|end| version > end.version || end.is_included && version == end.version)
            && high.is_none_or(|end| {
                version < end.version || end.is_included && version == end.version
            })
    })
}

#[test]
fn ranges_with_surprising_meaning_are_reported() {
    for (range, surprise) in [
        (">=4.1.0 <4.1.2", vec![]),
        ("1.x", vec![]),
        (">=1.0.0-linux", vec![]),
        ("^1.2.x", vec![r#""^1.2.x" means exactly 1.2.0"#]),
        ("~1.x", vec![r#""~1.x" means exactly 1.0.0"#]),
        ("1.x.x", vec![r#""1.x.x" means 1.0.x"#]),
        ("! 1.0.0", vec![r#"the lone "!" is dropped"#]),
        ("!1.x", vec![r#""!1.x" holds for no version"#]),
    ] {
        assert_eq!(Range::parse(range).unwrap().warnings, surprise, "{range}");
    }
}

#[test]
fn bounds_of_ranges() {
    for (range, minimum, narrow) in [
        (">0.27.0", true, false),
        ("0.5.2", true, false),
        ("<2.0.0", false, false),
        (">=1.0.0 <1.1.0", true, true),
        (">1.0.0 <2.0.0", true, false),
        ("> 1.0.0 !1.2.1", true, false),
        ("!1.0.0", false, false),
        ("1.2.x", true, true),
        (">=1.0.0 <1.1.0 || >=1.1.0 <3.0.0", true, false),
        ("1.0.0 || <2.0.0", false, false),
    ] {
        let parsed = Range::parse(range).unwrap();
        assert_eq!((parsed.has_minimum(), parsed.is_narrow()), (minimum, narrow), "{range}");
    }
}

/// A range as its author means it.
#[derive(Debug, Clone)]
struct Model(Vec<Vec<(&'static str, [u64; 3])>>);

impl Model {
    fn text(&self, space: &str) -> String {
        let all = |all: &Vec<(&'static str, [u64; 3])>| {
            let one = |(op, [a, b, c]): &(&str, [u64; 3])| format!("{op}{a}.{b}.{c}");
            all.iter().map(one).collect::<Vec<_>>().join(space)
        };
        self.0.iter().map(all).collect::<Vec<_>>().join(" || ")
    }

    fn contains(&self, version: [u64; 3]) -> bool {
        let holds = |(op, other): &(&str, [u64; 3])| match *op {
            ">" => version > *other,
            ">=" => version >= *other,
            "<" => version < *other,
            "<=" => version <= *other,
            "!" | "!=" => version != *other,
            _ => version == *other,
        };
        self.0.iter().any(|all| all.iter().all(holds))
    }
}

fn model() -> impl Strategy<Value = Model> {
    let op = prop::sample::select(vec!["", "=", "==", "!", "!=", ">", ">=", "<", "<="]);
    let one = (op, prop::array::uniform3(0..3_u64));
    prop::collection::vec(prop::collection::vec(one, 1..4), 1..4).prop_map(Model)
}

proptest! {
    #[test]
    fn ranges_match_a_simple_model(
        model in model(),
        version in prop::array::uniform3(0..3_u64),
        spaces in 1..3_usize,
    ) {
        let range = Range::parse(&model.text(&" ".repeat(spaces))).unwrap();
        let [major, minor, patch] = version;
        let parsed = Version { major, minor, patch, pre: Vec::new(), has_build: false };
        prop_assert_eq!(range.contains(&parsed), model.contains(version), "{:?}", range);
        prop_assert_eq!(has_interval_with(&range, &parsed), model.contains(version), "{:?}", range);
        prop_assert!(range.warnings.is_empty());
    }

    #[test]
    fn any_range_is_parsed_without_panic(text in "([<>=!|x. 0-9v^~-]|é|\t|\\|\\|){0,24}") {
        let _ = Range::parse(&text).map(|range| (range.is_narrow(), range.has_minimum()));
    }
}
