//! Constraints on versions as OLM 1.0 reads them.

use opgate_compat::masterminds::Constraint;
use opgate_compat::version::Version;

/// The tables of operator-controller v0.8.0, and more of the same kind.
#[test]
fn errors_match_the_schema_and_the_library() {
    for text in [
        "1.2.3",
        "1.2.3-alpha.1+metadata",
        "1.2.3-alpha-beta",
        ">=1.2.3",
        "=>1.2.3",
        ">= 1.2.3",
        ">=v1.2.3",
        ">= v1.2.3",
        "<=1.2.3",
        "=<1.2.3",
        "=1.2.3",
        "!=1.2.3",
        "<1.2.3",
        ">1.2.3",
        "~1.2.2",
        "~>1.2.3",
        "^1.2.3",
        "v1.2.3",
        "1.x",
        "1.X",
        "1.*",
        "1.2.x",
        "1.2.X",
        "1.2.*",
        "*",
        "1",
        "1.11",
        ">=1.2.3 <2.3.4",
        ">=1.2.3,<2.3.4",
        ">=1.2.3, <2.3.4",
        ">=1.2.3 , <2.3.4",
        "<1.2.3||>2.3.4",
        "<1.2.3|| >2.3.4",
        "<1.2.3 ||>2.3.4",
        "<1.2.3 || >2.3.4",
        ">1.0.0,<1.2.3 || >2.1.0",
        "<1.2.3-abc >2.3.4-def",
        "<1.2.3-abc+def >2.3.4-ghi+jkl",
        " 1.2.3\t",
    ] {
        assert!(Constraint::parse(text).is_ok(), "{text}");
    }
    for text in [
        "",
        " ",
        "latest",
        "invalid-semver",
        "1.2.3.4",
        "1.02.3",
        "1.2.03",
        "1.2.3-beta!",
        "1.2.3.alpha",
        "1..2.3",
        "1.2.3-pre+bad_metadata",
        "1.2.-3",
        ".1.2.3",
        "<<1.2.3",
        ">>1.2.3",
        ">~1.2.3",
        "==1.2.3",
        "=!1.2.3",
        "!1.2.3",
        "1.Y",
        ">1.2.3 && <2.3.4",
        ">1.2.3;<2.3.4",
        "1.2.3 - 2.3.4",
        ">1.0.0<2.0.0",
        "1.0.0,",
        ",1.0.0",
        "1.0.0,,2.0.0",
        "> = 1.0.0",
        ">",
        "xx",
        "1.2.3-",
        "1.2.3+",
        "1.2.3-a..b",
        "1.0.0|2.0.0",
        "1.0.0\u{a0}",
    ] {
        let error = format!("improper constraint: {text}");
        assert_eq!(Constraint::parse(text).unwrap_err().to_string(), error, "{text}");
    }
    for (text, error) in [
        ("1.0.0 || latest", "improper constraint:  latest"),
        ("1.0.0 ||", "improper constraint: "),
        ("1.2.3-01", "constraint Parser Error"),
        ("99999999999999999999.0.0", "constraint Parser Error"),
    ] {
        assert_eq!(Constraint::parse(text).unwrap_err().to_string(), error, "{text}");
    }
}

/// The tables of the documents, and additional behaviour of the library.
#[test]
fn versions_satisfy_constraints_as_in_the_library() {
    for (text, inside, outside) in [
        ("1.11.x", &["1.11.0", "1.11.9"][..], &["1.12.0", "1.10.9", "1.11.1-a"][..]),
        (">=1.12.X", &["1.12.0", "2.0.0"], &["1.11.9"]),
        ("<=2.x", &["2.9.9", "0.0.1"], &["3.0.0"]),
        ("<=2.3", &["2.3.9"], &["2.4.0", "3.0.0"]),
        ("*", &["0.0.0", "9.9.9"], &["1.0.0-a"]),
        ("~1.11.0", &["1.11.0", "1.11.9"], &["1.12.0"]),
        ("~1", &["1.0.0", "1.9.9"], &["2.0.0", "0.9.0"]),
        ("~1.12", &["1.12.0"], &["1.13.0", "2.12.0"]),
        ("~0.0.0", &["0.0.0", "5.0.0"], &[]),
        ("^0", &["0.0.0", "0.9.9"], &["1.0.0"]),
        ("^0.0", &["0.0.0", "0.0.9"], &["0.1.0", "1.0.0"]),
        ("^0.0.3", &["0.0.3"], &["0.0.4", "0.0.2"]),
        ("^0.2.3", &["0.2.3", "0.2.9"], &["0.3.0", "0.2.2"]),
        ("^1.2.3", &["1.2.3", "1.9.0"], &["2.0.0", "1.2.2"]),
        ("^1.2.3-beta", &["1.2.3-beta", "1.3.0-alpha"], &["2.0.0-alpha", "1.2.3-alpha"]),
        ("^*", &["0.0.0"], &["0.0.1", "1.0.0"]),
        (">1", &["2.0.0"], &["1.9.9"]),
        (">1.2", &["1.3.0", "2.0.0"], &["1.2.9"]),
        (">*", &["0.0.1"], &["0.0.0"]),
        (">1.2.3", &["1.2.4"], &["1.2.3", "1.3.0-a"]),
        ("!=1.2", &["1.3.0", "2.2.0"], &["1.2.0", "1.2.9", "1.3.0-a"]),
        ("!=1", &["2.0.0"], &["1.5.0"]),
        ("!=1.2.3", &["1.2.4", "1.2.4-a"], &["1.2.3"]),
        ("1.2.3", &["1.2.3"], &["1.2.4", "1.2.3-a"]),
        (">=1.11, <1.13", &["1.11.0", "1.12.9"], &["1.13.0", "1.10.0"]),
        ("<1.0.0 || >=2.0.0", &["0.9.0", "2.0.0"], &["1.0.0"]),
    ] {
        let constraint = Constraint::parse(text).unwrap();
        let contains = |version: &&str| constraint.contains(&Version::parse(version).unwrap());
        for version in inside {
            assert!(contains(version), "{version} is in {text}");
        }
        for version in outside {
            assert!(!contains(version), "{version} is not in {text}");
        }
    }
}

#[test]
fn exact_versions_and_ends() {
    for (text, is_exact, above) in [
        ("1.2.3", true, Some([1, 2, 4])),
        ("=v1.2.3-a", true, Some([1, 2, 4])),
        ("1.2", false, Some([1, 3, 0])),
        ("1.2.x", false, Some([1, 3, 0])),
        ("1", false, Some([2, 0, 0])),
        ("*", false, None),
        (">1.11.1", false, None),
        (">=0.0.1 <0.1.0", false, Some([0, 1, 0])),
        ("<2.0.0 || 1.0.0", false, Some([2, 0, 0])),
        ("1.0.0 || >2", false, None),
        ("1.0.0 2.0.0", false, Some([1, 0, 1])),
        ("!=1.0.0", false, None),
        ("<=0.0.5", false, Some([0, 0, 6])),
        ("<=*", false, Some([0, 1, 0])),
    ] {
        let constraint = Constraint::parse(text).unwrap();
        assert_eq!(constraint.exact_version().is_some(), is_exact, "{text}");
        assert_eq!(constraint.upper_bound(), above, "{text}");
    }
}
