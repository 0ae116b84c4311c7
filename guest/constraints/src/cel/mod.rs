//! CEL expressions: whether one can be read, and whether it is a `bool`.
//!
//! ```text
//! text ─▶ syntax (Expr) ─▶ types ─▶ bool?
//! ```
//!
//! The grammar and the standard library follow cel-go's, with its macros, the variable `properties`
//! (a list of maps from strings to anything) and the function `semver_compare`. It is a parser of our
//! own, because the crate `cel` 0.15 overflows half a megabyte of stack on four hundred parentheses:
//! here nothing is deeper than [`MAX_DEPTH`], where cel-go stops at 250. Errors have cel-go's form,
//! and its text where a name is unknown or types do not fit; what is said about syntax is shorter than
//! there. Protocol messages and optional values (`a.?b`) are not known, and refused. An expression is
//! not evaluated here.

mod syntax;
mod types;

use std::fmt;

use crate::go::shortened;

/// Levels of an expression. Native code, optimised, needs less than 256 KiB of stack for so many; a
/// policy has 512.
pub const MAX_DEPTH: usize = 64;
/// The text about an expression of any other type.
pub const NOT_BOOL: &str = "cel expressions must have type Bool";
/// Bytes of a line that an error repeats.
const LINE: usize = 240;

/// Why an expression is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It does not compile.
    Wrong(String),
    /// It compiles, and is of another type.
    NotBool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(error) => f.write_str(error),
            Self::NotBool => f.write_str(NOT_BOOL),
        }
    }
}

/// What is wrong, and where in the text.
#[derive(Debug)]
pub(crate) struct Error {
    at: usize,
    message: String,
}

/// Checks an expression.
///
/// # Errors
/// Where it does not compile or is no `bool`.
pub fn check(rule: &str) -> Result<(), Fault> {
    let wrong = |error: Error| Fault::Wrong(displayed(rule, &error));
    let expression = syntax::parse(rule).map_err(wrong)?;
    match types::of(&expression).map_err(wrong)? {
        types::Type::Bool => Ok(()),
        _ => Err(Fault::NotBool),
    }
}

/// As cel-go shows an error: line and column, and the line with a mark below it.
fn displayed(rule: &str, error: &Error) -> String {
    let before = rule.get(..error.at).unwrap_or(rule);
    let row = before.matches('\n').count();
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
    let line = rule.split('\n').nth(row).unwrap_or_default();
    let message = shortened(&error.message, 2 * LINE);
    let head = format!("ERROR: <input>:{}:{}: {message}", row + 1, column + 1);
    if line.len() > LINE {
        return head;
    }
    format!("{head}\n | {line}\n | {}^", ".".repeat(column))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expressions_of_type_bool_are_accepted() {
        for rule in [
            "true",
            r#"properties.exists(p, p.type == "certified")"#,
            r#"properties.exists(p, p.type == "certified") && properties.exists(p, p.type == "stable")"#,
            "properties.exists(p, p.type == 'olm.test' && (semver_compare(p.value, '1.0.0') == 0))",
            "properties.all(p, has(p.value.x) ? p.value.x in [1, 2] : false)",
            "properties.exists_one(p, p.value.matches('a.*') || p.value.startsWith(r'\\d'))",
            "properties.filter(p, p.type == 'x').size() >= 1",
            "size(properties.map(p, p.value)) == 0 || 1.5e3 > 0x1F || 1u < 2",
            "!(-1 < 2) != !!true",
            "{'a': 1, 'b': 2}.a == 1 && 'a' in {'a': 1}",
            "[1, 2, 3,][0] + 3 * 4 % 5 - 6 / 7 == 1",
            "type(1) == int && string(1) == '1' && dyn(1) == 'x'",
            "duration('1s') < duration('2s') && timestamp('2020-01-01T00:00:00Z').getFullYear() == 1",
            "// comment\ntrue",
            "[].size() == 0 && [] == [1] && {} == {'a': 1} && null == null",
            "bool(properties[0].value)",
            "properties.map(p, p.type == 'a', p.value).exists(v, v)",
        ] {
            assert_eq!(check(rule), Ok(()), "{rule}");
        }
    }

    #[test]
    fn expressions_of_other_types_are_not() {
        for rule in [
            "1",
            "properties",
            "properties[0].value",
            "properties[0]",
            "'a'",
            "true ? properties[0].value : true",
            "semver_compare('1.0.0', '1.0.0')",
            "null",
            "bool",
        ] {
            assert_eq!(check(rule), Err(Fault::NotBool), "{rule}");
        }
    }

    #[test]
    fn what_does_not_compile_is_told_as_cel_go_tells_it() {
        for (rule, error) in [
            (
                "doesnt_exist(properties)",
                "ERROR: <input>:1:13: undeclared reference to 'doesnt_exist' (in container '')\n | doesnt_exist(properties)\n | ............^",
            ),
            (
                "true &&\n  x",
                "ERROR: <input>:2:3: undeclared reference to 'x' (in container '')\n |   x\n | ..^",
            ),
            (
                "1 == 'a'",
                "ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, string)'\n | 1 == 'a'\n | ..^",
            ),
            (
                "1 && true",
                "ERROR: <input>:1:1: expected type 'bool' but found 'int'\n | 1 && true\n | ^",
            ),
            ("", "ERROR: <input>:1:1: Syntax error: mismatched input '<EOF>'\n | \n | ^"),
        ] {
            assert_eq!(check(rule), Err(Fault::Wrong(error.to_owned())), "{rule}");
        }
        for rule in [
            "a b",
            "(true",
            "true)",
            "[true",
            "{1:2",
            "{1}",
            "'a",
            "\"a\n\"",
            "0x",
            "1..2",
            "true &&",
            "properties.exists(p)",
            "properties.exists(1, true)",
            "p.type == 'x'",
            "has(true)",
            "properties.exists(p, 1)",
            "1.exists(p, true)",
            "for",
            "true ? 1",
            "true ? 1 : 'a'",
            "a.b.c",
            "!1",
            "-'a'",
            "1 + 'a'",
            "size(1)",
            "'a'.size(1)",
            "true.matches('a')",
            "1 in 2",
            "99999999999999999999 > 1",
            "'\\q' == ''",
            "1 < 'a'",
            "@",
            "true # x",
            "properties.exists(p, true) && p.type == 'x'",
            "properties['a']",
            "semver_compare(1)",
        ] {
            assert!(matches!(check(rule), Err(Fault::Wrong(_))), "{rule}: {:?}", check(rule));
        }
    }

    #[test]
    fn depth_is_bounded_and_breadth_is_not() {
        // Frames of a build for tests are several times as large as those of a policy.
        let small = std::thread::Builder::new().stack_size(2 << 20);
        let run = || {
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
            ] {
                let rule = |n: usize| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
                if let Err(Fault::Wrong(error)) = check(&rule(fine)) {
                    panic!("{open}: {error}");
                }
                let Err(Fault::Wrong(error)) = check(&rule(20_000)) else { panic!("{open}") };
                assert!(error.contains("expression recursion limit exceeded: 64"), "{error}");
            }
            assert_eq!(check(&format!("{}true", "!".repeat(20_001))), Ok(()));
            assert_eq!(check(&format!("true{}", "&&true".repeat(10_000))), Ok(()));
            assert_eq!(check(&format!("true{}", "||true".repeat(10_000))), Ok(()));
            assert_eq!(check(&format!("1 in [{}]", "1,".repeat(30_000))), Ok(()));
        };
        small.spawn(run).unwrap().join().unwrap();
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(rule in "(properties|p|exists|has|\\(|\\)|\\[|\\]|\\{|\\}|[.,:?!+*/%<>=&|'\"\\\\-]|true|1|0x|1e|r|b| |é|\n){0,24}") {
            let _ = check(&rule);
        }
    }
}
