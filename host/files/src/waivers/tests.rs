//! Tests of valid and hostile waiver files.

use std::fs::File;
use std::os::unix::fs::symlink;

use super::*;
use crate::testing::TempDirectory;

fn resolve(rule: &str) -> Result<String, UnknownRule> {
    let known = ["CSV-21", "CSV-22", "RBF-14"];
    if known.contains(&rule) {
        Ok(rule.to_owned())
    } else {
        Err(UnknownRule { hint: hint(rule, known) })
    }
}

fn parse_waivers(text: &str) -> Result<Vec<Waiver>, String> {
    parse("x", text, &resolve).map_err(|error| error.to_string())
}

#[test]
fn a_waiver_has_a_rule_a_reason_and_a_last_day() {
    let text = "# Ours.\nwaivers:\n- rule: CSV-21\n  reason: >\n    the icon\n    comes later\n  until: 2027-01-31\n- {reason: \" 100% \", rule: RBF-14}\n- rule: CSV-22\n  reason: no\n  until: \"2028-02-29\"\n";
    let waiver = |rule: &str, reason: &str, until, line, column| Waiver {
        rule: rule.to_owned(),
        reason: reason.to_owned(),
        until,
        line,
        column,
    };
    let date = |year, month, day| {
        Some(Date::from_calendar_date(year, Month::try_from(month).unwrap(), day).unwrap())
    };
    let expected = [
        waiver("CSV-21", "the icon comes later", date(2027, 1, 31), 3, 3),
        waiver("RBF-14", "100%", None, 8, 3),
        waiver("CSV-22", "no", date(2028, 2, 29), 9, 3),
    ];
    assert_eq!(parse_waivers(text).unwrap(), expected);
    assert_eq!(parse_waivers("waivers: []\n").unwrap(), []);
    assert_eq!(parse_waivers("{\"waivers\": []}").unwrap(), []);
}

/// Whatever is wrong is said with its place, and nothing is waived.
#[test]
fn invalid_waivers_report_location_and_waive_nothing() {
    let many = format!("waivers: [{}]", "{rule: CSV-21, reason: x},".repeat(257));
    let long = format!("waivers: [{{rule: CSV-21, reason: {}}}]", "é".repeat(257));
    let errors = "waivers: [1,".to_owned() + &"2,".repeat(200) + "3]";
    let cases: [(&str, &[&str]); 31] = [
        ("waivers:\n- rule: CSV-21\n  reason: \"\\u202e\\u200b\"\n", &["x:3:3: reason is empty"]),
        ("", &["x:1:1: not an object: write waivers: ["]),
        ("- a\n", &["x:1:1: not an object"]),
        ("{}\n", &["x:1:1: waivers is missing"]),
        ("waivers:\n", &["x:1:1: waivers is not a list"]),
        ("waivers: {rule: CSV-21, reason: x}\n", &["x:1:1: waivers is not a list"]),
        ("waivers: []\n---\nwaivers: []\n", &["x:3:1: not YAML: a second document"]),
        ("waivers: [\n", &["x:1:10: not YAML: "]),
        ("a: 1\na: 2\n", &["x:2:1: not YAML: duplicate mapping key: a"]),
        (
            "waiver: []\n",
            &[
                "x:1:1: unknown key \"waiver\": this file can waive rules and nothing else; did you mean \"waivers\"?",
                "x:1:1: waivers is missing",
            ],
        ),
        (
            "waivers: []\npolicies: []\n",
            &["x:2:1: unknown key \"policies\": this file can waive rules and nothing else"],
        ),
        ("waivers: []\n\"a/b\\nc~\": 1\n", &["x:2:1: unknown key \"a/b\\nc~\": this"]),
        ("waivers: [CSV-21]\n", &["x:1:11: not an object"]),
        ("waivers:\n- rule: CSV-21\n", &["x:2:3: reason is missing"]),
        ("waivers:\n- reason: x\n", &["x:2:3: rule is missing"]),
        ("waivers:\n- rule: CSV-21\n  reason: \" \\n\"\n", &["x:3:3: reason is empty"]),
        ("waivers:\n- rule: CSV-21\n  reason:\n", &["x:3:3: reason is empty"]),
        (
            "waivers:\n- rule: [CSV-21]\n  reason: 7\n",
            &["x:2:3: rule is not a text", "x:3:3: reason is not a text"],
        ),
        (
            "waivers:\n- {rule: CSV-12, reason: x}\n",
            &["x:2:4: there is no rule \"CSV-12\"; did you mean \"CSV-21\"?"],
        ),
        ("waivers:\n- {rule: csv-21, reason: x}\n", &["x:2:4: there is no rule \"csv-21\""]),
        ("waivers:\n- {rule: \"*\", reason: x}\n", &["x:2:4: there is no rule \"*\""]),
        ("waivers:\n- {rule: \"CSV-*\", reason: x}\n", &["x:2:4: there is no rule \"CSV-*\""]),
        (
            "waivers:\n- {rule: CSV-21, reason: x}\n- {rule: CSV-21, reason: y}\n",
            &["x:3:4: CSV-21 is waived already on line 2"],
        ),
        (
            "waivers:\n- {rule: CSV-21, reason: x, path: ../..}\n",
            &["x:2:29: unknown key \"path\": a waiver has rule, reason and until"],
        ),
        (
            "waivers:\n- {rule: CSV-21, reason: x, untill: 2027-01-31}\n",
            &["did you mean \"until\"?"],
        ),
        (
            "waivers:\n- {rule: CSV-21, reason: x, until: 2027-02-29}\n",
            &["x:2:29: until is not a day: write it like 2027-01-31"],
        ),
        ("waivers:\n- {rule: CSV-21, reason: x, until: }\n", &["x:2:29: until is not a day"]),
        ("&a waivers: [*a]\n", &["x:1:"]),
        (&many, &["x:1:1: 257 waivers are more than 256"]),
        (&long, &["x:1:26: reason has more than 512 bytes"]),
        (&errors, &["x:1:11: not an object", "x: 182 more errors"]),
    ];
    for (text, expected) in cases {
        let error = parse_waivers(text).unwrap_err();
        for (line, expected) in error.lines().zip(expected) {
            assert!(line.contains(expected) || expected.contains("more errors"), "{text}: {error}");
        }
        assert!(error.contains(expected.last().unwrap()), "{text}: {error}");
        assert!(expected.len() == error.lines().count() || text == errors, "{text}: {error}");
        assert!(error.lines().all(|line| line.len() <= MAX_ERROR_BYTES), "{text}");
    }
}

#[test]
fn days_are_full_dates() {
    for good in ["2027-01-31", "2000-02-29", "9999-12-31", "0000-01-01"] {
        assert_eq!(parse_day(good).unwrap().to_string(), good);
    }
    for bad in [
        "",
        "soon",
        "2027",
        "2027-1-31",
        "2027-01-32",
        "2027-13-01",
        "2027-00-10",
        "2027-01-00",
        "1900-02-29",
        "+027-01-31",
        "-2027-01-31",
        "2027-01-31T00:00:00Z",
        "2027-01-31-",
        "٢٠٢٧-01-31",
        "12027-01-31",
    ] {
        assert_eq!(parse_day(bad), None, "{bad}");
    }
}

proptest::proptest! {
    /// Whatever a stranger writes: waivers within their bounds, or errors of a line each, each with
    /// the name of the file.
    #[test]
    fn any_text_is_waivers_or_errors(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "waivers", ":", " ", "\n", "- ", "[", "]", "{", "}", ",", "rule: ", "CSV-21", "RBF-14", "*",
                "reason: ", "until: ", "2027-01-31", "2027-02-30", "x", "\"", "\\n", "&a ", "*a", "<<: ",
                "null", "---\n", "\u{202e}", "\u{1b}[31m", "waivers:\n- rule: CSV-21\n  reason: x\n",
            ]),
            0..24,
        ),
    ) {
        let text = parts.concat();
        match parse_waivers(&text) {
            Ok(list) => for waiver in list {
                assert_eq!(resolve(&waiver.rule).as_ref(), Ok(&waiver.rule), "{text}");
                assert!(!waiver.reason.is_empty() && waiver.reason.len() <= MAX_REASON_BYTES, "{text}");
                assert!(!waiver.reason.contains(char::is_control), "{text}");
            },
            Err(error) => for line in error.lines() {
                assert!(line.starts_with("x:") && !line.contains(char::is_control), "{error}");
            },
        }
    }
}

/// Checks that only a regular file of the directory itself is read, up to a maximum size.
#[test]
fn only_a_regular_waiver_file_is_read() {
    let text = "waivers: [{rule: CSV-21, reason: x}]\n";
    let read = |directory: &TempDirectory| {
        read(directory.path(), &resolve, &Reader::default()).map_err(|error| error.to_string())
    };
    let directory = TempDirectory::new(&[("a", "")]);
    assert_eq!(read(&directory), Ok(None));
    directory.write(FILE_NAME, format!("\u{feff}{text}"));
    assert_eq!(read(&directory).unwrap().unwrap().list.len(), 1);
    let outside = TempDirectory::new(&[("secret", text), (FILE_NAME, "password: hunter2\n")]);
    for target in [outside.path().join("secret"), "a".into(), "missing".into(), "/dev/zero".into()]
    {
        let directory = TempDirectory::new(&[("a", text)]);
        symlink(target, directory.path().join(FILE_NAME)).unwrap();
        let error = read(&directory).unwrap_err();
        assert!(error.ends_with("not a regular file, but a symbolic link"), "{error}");
    }
    let inner = TempDirectory::new(&[(".opgate.yaml/x", text)]);
    assert!(read(&inner).unwrap_err().ends_with("not a regular file, but a directory"));
    directory.write(FILE_NAME, vec![b'#'; MAX_FILE_BYTES + 1]);
    assert!(read(&directory).unwrap_err().ends_with("/.opgate.yaml: larger than 64Ki"));
    let file = File::options().write(true).open(directory.path().join(FILE_NAME)).unwrap();
    file.set_len(1 << 40).unwrap();
    assert!(read(&directory).unwrap_err().ends_with("larger than 64Ki"));
    directory.write(FILE_NAME, [0xff, 0xfe]);
    assert!(read(&directory).unwrap_err().contains("not UTF-8"));
    directory.write(FILE_NAME, "a: \0");
    assert!(read(&directory).is_err());
    // Bombs of aliases and of levels end early.
    let bomb: String = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, i| {
        let p = i - 1;
        text + &format!("a{i}: &a{i} [*a{p}, *a{p}, *a{p}]\n")
    });
    for text in [bomb, "[".repeat(MAX_FILE_BYTES), "{a: ".repeat(MAX_FILE_BYTES / 4)] {
        directory.write(FILE_NAME, text);
        assert!(read(&directory).unwrap_err().contains("not YAML: "));
    }
}
