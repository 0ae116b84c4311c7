//! Expressions in CEL: the texts of cel-go, the values of the language's specification, and what comes
//! of expressions that mean harm. The tables are in `tables/`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::string_slice, reason = "tests may panic")]

use opgate_cel::{Budget, CompileError, EvaluationError, Program, Properties, check};
use proptest::prelude::*;
use serde_json::Value;

fn table(json: &str) -> Vec<Value> {
    serde_json::from_str(json).unwrap()
}

fn text<'v>(case: &'v Value, name: &str) -> &'v str {
    case[name].as_str().unwrap_or_else(|| panic!("{name} in {case}"))
}

/// Evaluates an expression for properties, each with its type and the JSON text of its value.
fn run(rule: &str, properties: &[(String, String)]) -> Result<bool, EvaluationError> {
    let program = Program::compile(rule).unwrap_or_else(|fault| panic!("{rule}: {fault}"));
    let texts = properties.iter().map(|(kind, value)| (kind.as_str(), value.as_bytes()));
    program.run(&Properties::new(texts), &mut Budget::default())
}

/// Frames of a build for tests are several times as large as those of a policy.
fn with_small_stack(test: impl FnOnce() + Send + 'static) {
    let small = std::thread::Builder::new().stack_size(2 << 20);
    small.spawn(test).unwrap().join().unwrap();
}

#[test]
fn errors_match_cel_go() {
    for case in table(include_str!("tables/errors.json")) {
        let (rule, error) = (text(&case, "rule"), text(&case, "error"));
        assert_eq!(check(rule), Err(CompileError::Invalid(error.to_owned())), "{rule}");
    }
}

#[test]
fn expressions_evaluate_properties_as_in_olm() {
    for set in table(include_str!("tables/evaluation.json")) {
        let properties = set["properties"].as_array().unwrap();
        let property = |p: &Value| (text(p, "type").to_owned(), p["value"].to_string());
        let properties: Vec<_> = properties.iter().map(property).collect();
        for case in set["cases"].as_array().unwrap() {
            let rule = text(case, "rule");
            let expected = match case["holds"].as_bool() {
                Some(holds) => Ok(holds),
                None => Err(EvaluationError::Error(text(case, "error").to_owned())),
            };
            assert_eq!(run(rule, &properties), expected, "{rule}");
        }
    }
}

#[test]
fn values_match_the_specification() {
    for case in table(include_str!("tables/conformance.json")) {
        let (name, expr) = (text(&case, "name"), text(&case, "expr"));
        let Some(value) = case["value"].as_str() else {
            let error = Err(EvaluationError::Error(text(&case, "error").to_owned()));
            assert_eq!(run(&format!("dyn({expr}) == dyn(0)"), &[]), error, "{name}: {expr}");
            continue;
        };
        let same = if value == "double('NaN')" {
            format!("dyn({expr}) != dyn({expr})")
        } else {
            format!("dyn({expr}) == dyn({value})")
        };
        let rule = format!("{same} && type({expr}) == type({value})");
        assert_eq!(run(&rule, &[]), Ok(true), "{name}: {expr} should be {value}");
    }
}

#[test]
fn expressions_other_than_bool_are_rejected() {
    for rule in [
        "1",
        "properties",
        "properties[0].value",
        "properties[0]",
        "'a'",
        "true ? properties[0].value : true",
        "true ? dyn(true) : false",
        "[true, 1][0]",
        "semver_compare('1.0.0', '1.0.0')",
        "null",
        "bool",
        "[]",
    ] {
        assert_eq!(check(rule), Err(CompileError::NotBool), "{rule}");
    }
    for rule in [
        "[true][0]",
        "{'a': true}.a",
        "[].all(x, x)",
        "bool(properties[0].value)",
        "properties.map(p, p.type == 'a')[0]",
        "// comment\ntrue",
        "-9223372036854775808 < 0",
        "!(-1 < 2) != !!true",
        "type(1) == int && type(timestamp(0)) == google.protobuf.Timestamp",
    ] {
        assert_eq!(check(rule), Ok(()), "{rule}");
    }
}

#[test]
fn non_json_property_is_empty() {
    let properties = |value: &str| vec![("a".to_owned(), value.to_owned())];
    for value in ["", "red", "{", "1e999", "[1] 2"] {
        assert_eq!(run("properties == [{}]", &properties(value)), Ok(true), "{value}");
        let error = Err(EvaluationError::Error("no such key: type".to_owned()));
        assert_eq!(run("properties[0].type == 'a'", &properties(value)), error, "{value}");
    }
    for (value, is) in [
        ("1", "1.0"),
        ("\"\\u00e9\"", "'é'"),
        ("{\"a\": 1, \"a\": 2}", "{'a': 2.0}"),
        (" [null, true] ", "[null, true]"),
    ] {
        let rule = format!("properties[0].value == dyn({is})");
        assert_eq!(run(&rule, &properties(value)), Ok(true), "{value}");
    }
}

#[test]
fn depth_is_bounded_and_breadth_is_not() {
    with_small_stack(|| {
        for (open, inner, close, fine) in [
            ("(", "true", ")", 30),
            ("!(", "true", ")", 30),
            ("[", "true", "]", 60),
            ("{1:", "true", "}", 60),
            ("true?true:", "true", "", 60),
            ("", "1", "+1", 60),
            ("", "properties[0]", ".a", 60),
            ("bool(", "true", ")", 30),
            ("[1].exists(x,", "true", ")", 30),
            ("type(", "true", ")", 60),
        ] {
            let rule = |n: usize| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
            if let Err(CompileError::Invalid(error)) = check(&rule(fine)) {
                panic!("{open}: {error}");
            }
            let Err(CompileError::Invalid(error)) = check(&rule(5_000)) else { panic!("{open}") };
            assert!(error.contains("expression recursion limit exceeded: 64"), "{error}");
        }
        for rule in [
            format!("{}true", "!".repeat(20_001)),
            format!("true{}", "&&true".repeat(10_000)),
            format!("true{}", "||true".repeat(10_000)),
            format!("1 in [{}]", "1,".repeat(30_000)),
            format!("{{}} == {{{}}}", "1:[],".repeat(10_000)),
            format!("[{}] == []", "[]==[],".repeat(8_000)),
        ] {
            assert_eq!(check(&rule), Ok(()), "{}", &rule[..20]);
        }
    });
}

#[test]
fn many_syntax_errors_are_reported_briefly() {
    with_small_stack(|| {
        for rule in [
            "x,".repeat(30_000),
            format!("[{}]", "x,".repeat(30_000)),
            "#".repeat(65_536),
            "'".repeat(65_535),
            "+".repeat(65_536),
            format!("{}é", "\t".repeat(65_000)),
            format!("'{}' + 1", "a".repeat(65_000)),
            format!("{}(1)", "a".repeat(65_000)),
            "1 ".repeat(32_768),
            "x\n".repeat(32_768),
        ] {
            let Err(CompileError::Invalid(error)) = check(&rule) else { panic!("{}", &rule[..20]) };
            assert!(error.len() < 20_000, "{} bytes about {}", error.len(), &rule[..20]);
        }
        let Err(CompileError::Invalid(error)) = check(&"a".repeat(100_001)) else {
            panic!("too long")
        };
        assert!(error.ends_with("size exceeds limit: size: 100001, limit 100000"), "{error}");
    });
}

#[test]
fn type_size_is_limited() {
    with_small_stack(|| {
        let doubled = format!("[1]{} == []", ".map(x, {x: x})".repeat(40));
        let deep = format!("[1]{} == []", ".map(x, [[[[x]]]])".repeat(40));
        let lists = format!("[1]{} == []", ".map(x, [x, x])".repeat(40));
        for rule in [doubled, deep] {
            let Err(CompileError::Invalid(error)) = check(&rule) else { panic!("{rule}") };
            assert!(error.contains("the type of this expression is too large"), "{error}");
        }
        // Its type is small enough; its value is not.
        assert_eq!(check(&lists), Ok(()));
    });
}

#[test]
fn evaluations_end_at_a_limit() {
    with_small_stack(|| {
        const TEN: &str = "[0,1,2,3,4,5,6,7,8,9]";
        let nested = |name: &str, inner: &str| {
            let variables = ["a", "b", "c", "d", "e", "f", "g", "h"];
            variables
                .iter()
                .fold(inner.to_owned(), |inner, v| format!("{TEN}.{name}({v}, {inner})"))
        };
        let doubled = |start: &str, more: &str, times: usize| {
            format!("[{start}]{}", format!(".map(x, {more})").repeat(times))
        };
        let numbers: Vec<_> = (0..2_000).collect();
        let limits = [
            nested("all", "true"),
            nested("exists", "false"),
            // An error does not keep it from going on, and neither does what might decide.
            nested("all", "1/0 == 1"),
            format!("{} || true", nested("all", "true")),
            format!("!{}", nested("exists", "false")),
            format!("{}.size() == 1", nested("map", "1")),
            format!("{TEN}.filter(x, {}).size() == 1", nested("all", "true")),
            format!("{} == 'a'", doubled("'aaaaaaaaaaaaaaaa'", "x + x", 30) + "[0]"),
            format!("{}.size() == 1", doubled("[1]", "x + x", 30) + "[0]"),
            format!("{0} == {0}", doubled("dyn(1)", "dyn([x, x])", 30)),
            format!("{}.size() == 1", doubled("dyn(1)", "dyn([[[[[[[[x]]]]]]]])", 40)),
            format!("'{}'.matches('a{{2}}b')", "a".repeat(50_000)),
            format!(
                "{TEN}.all(x, 'aaaa'.matches('(((a{{1,9}}){{1,9}}){{1,9}})' + string(x)) || true)"
            )
            .replacen(TEN, &format!("{numbers:?}"), 1),
        ];
        for rule in limits {
            let found = run(&rule, &[]);
            let start: String = rule.chars().take(80).collect();
            assert!(matches!(found, Err(EvaluationError::Limit(_))), "{start}: {found:?}");
        }
    });
}

#[test]
fn patterns_behave_like_re2() {
    for (text, pattern, matches) in [
        ("stable-v1", "v[0-9]+$", true),
        ("stable-v1", "^v", false),
        ("a\nb", "a.b", false),
        ("a\nb", "(?s)a.b", true),
        ("ABC", "(?i)b", true),
        ("é", "^.$", true),
        // Digits and letters of ASCII only.
        ("٣", "\\\\d", false),
        ("é", "\\\\w", false),
        ("x", "", true),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "(a+)+$", false),
    ] {
        let rule = format!("'{}'.matches('{pattern}')", text.replace('\n', "\\n"));
        assert_eq!(run(&rule, &[]), Ok(matches), "{rule}");
    }
    for pattern in ["(", "[", "*", "(?=a)", "(a)\\\\1", "a{1000}{1000}{1000}", "\\\\pL"] {
        let Err(EvaluationError::Error(error)) = run(&format!("'a'.matches('{pattern}')"), &[])
        else {
            panic!("{pattern}");
        };
        assert!(error.starts_with("error parsing regexp: "), "{error}");
    }
}

#[test]
fn property_depth_is_limited() {
    let deep = |levels: usize| {
        let value = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        run("properties[0].type == 'a'", &[("a".to_owned(), value)])
    };
    assert_eq!(deep(200), Ok(true));
    assert!(matches!(deep(300), Err(EvaluationError::Limit(_))));
    assert!(matches!(deep(100_000), Err(EvaluationError::Limit(_))));
}

/// Tokens that make a good many expressions that are sound, and more that are not.
const EXPRESSION_TOKENS: &str = "(properties|p|x|exists|all|map|filter|has|size|dyn|semver_compare|matches\
    |\\(|\\)|\\(|\\)|\\[|\\]|\\{|\\}|[.,:?!+*/%<>=&|'\"\\\\#-]|==|&&|\\|\\||true|1|2u|0x|1e|1\\.5|r|b|'a'| |é|\n){0,24}";

proptest! {
    #[test]
    fn any_expression_runs_without_panic(rule in EXPRESSION_TOKENS) {
        if let Ok(program) = Program::compile(&rule) {
            let properties = Properties::new([("a", b"[1, {\"b\": null}]".as_slice())].into_iter());
            let _ = program.run(&properties, &mut Budget::default());
        }
    }

    #[test]
    fn any_property_bytes_run_without_panic(value in ".{0,40}", rule in "(==|!=|in)") {
        let rule = format!("properties[0].value {rule} properties.map(p, p.value)");
        let _ = run(&rule, &[("a".to_owned(), value)]);
    }

    #[test]
    fn integer_arithmetic_matches_rust(a in any::<i64>(), b in any::<i64>()) {
        let less = run(&format!("({a}) < ({b})"), &[]);
        prop_assert_eq!(less, Ok(a < b));
        let sum = run(&format!("({a}) + ({b}) == 0"), &[]);
        let overflow = || EvaluationError::Error("integer overflow".to_owned());
        let expected = a.checked_add(b).map(|sum| sum == 0).ok_or_else(overflow);
        prop_assert_eq!(sum, expected);
    }
}
