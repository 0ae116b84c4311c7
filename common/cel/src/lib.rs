//! Expressions in CEL: syntax, result type `bool`, and evaluation for properties.
//!
//! ```text
//! text ─▶ lexer ─▶ parser ─▶ checker ─▶ Program ──────────▶ evaluator ─▶ true, false, error or limit
//!                    │          │                              │
//!                literal    library, types        json ─▶ value, functions, time, pattern
//! ```
//!
//! Grammar, macros and standard library are those of cel-go, with the variable `properties` (a list of maps
//! from strings to any value) and the function `semver_compare`. Nesting is limited to [`MAX_DEPTH`], where
//! cel-go stops at 250; types, values and the steps of an evaluation have separate bounds. Errors have the
//! texts of cel-go. Protocol messages and optional values (`a.?b`) are refused. ADR 0014 explains why this
//! code is part of opgate, and how it differs from cel-go.

mod checker;
mod evaluator;
mod functions;
mod json;
mod lexer;
mod library;
mod literal;
mod parser;
mod pattern;
mod syntax;
mod time;
mod types;
mod value;

use std::fmt;

use opgate_upstream::go::shortened;
use syntax::{Expr, Node};
use value::Value;

/// Levels of an expression. Optimised native code needs less than 256 KiB of stack for this depth; a policy
/// has 512.
pub const MAX_DEPTH: usize = 64;
/// The text about an expression of any other type.
pub const NOT_BOOL: &str = "cel expressions must have type Bool";
/// Steps of an evaluation: a step is a node, an element of a new list, or sixteen bytes of a text. This
/// number takes well below a second, and some tens of megabytes of memory.
pub const MAX_STEPS: usize = 1_000_000;
/// Characters of an expression, as in cel-go.
const MAX_CHARACTERS: usize = 100_000;
/// Errors of one expression that are reported.
const MOST_ERRORS: usize = 10;
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

impl std::error::Error for Fault {}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It fails; for OLM that is `false`.
    Error(String),
    /// It exceeds a limit, so that its value is unknown. Names the limit.
    Limit(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(error),
            Self::Limit(limit) => f.write_str(limit),
        }
    }
}

impl std::error::Error for Failure {}

/// Steps that are left, for one expression or for several.
#[derive(Debug)]
pub struct Budget {
    steps: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { steps: MAX_STEPS }
    }
}

impl Budget {
    fn spend(&mut self, steps: usize) -> Result<(), Failure> {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or_default();
        left.map(drop).ok_or(Failure::Limit("the evaluation takes more than 1000000 steps"))
    }
}

/// Properties as expressions see them.
#[derive(Debug)]
pub struct Properties(Result<Value, Failure>);

impl Properties {
    /// Creates them from types and the JSON texts of their values.
    #[must_use]
    pub fn new<'p>(all: impl Iterator<Item = (&'p str, &'p [u8])>) -> Self {
        Self(json::properties(all).map_err(Failure::from))
    }
}

/// The error, and its position in the text.
#[derive(Debug)]
pub(crate) struct Error {
    at: usize,
    message: String,
}

/// An expression that compiles, and is a `bool`.
#[derive(Debug)]
pub struct Program {
    text: String,
    expr: Expr,
}

impl Program {
    /// Reads an expression and checks its types.
    ///
    /// # Errors
    /// Fails if it does not compile or is no `bool`.
    pub fn compile(rule: &str) -> Result<Self, Fault> {
        let size = rule.chars().count();
        if size > MAX_CHARACTERS {
            return Err(Fault::Wrong(format!(
                "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {size}, limit {MAX_CHARACTERS}"
            )));
        }
        let wrong = |errors: Vec<Error>| Fault::Wrong(displayed(rule, errors));
        let expr = parser::parse(rule).map_err(wrong)?;
        match checker::check(&expr).map_err(wrong)? {
            types::Type::Bool => Ok(Self { text: rule.to_owned(), expr }),
            _ => Err(Fault::NotBool),
        }
    }

    /// Reports whether it is true of properties.
    ///
    /// # Errors
    /// Fails if it has no value.
    pub fn run(&self, properties: &Properties, budget: &mut Budget) -> Result<bool, Failure> {
        value_of(&self.expr, properties, budget)
    }

    /// Returns the first false part of a chain of `&&`, as written.
    #[must_use]
    pub fn culprit(&self, properties: &Properties, budget: &mut Budget) -> Option<&str> {
        let Node::Logic { is_and: true, terms } = &self.expr.node else { return None };
        let term =
            terms.iter().find(|term| value_of(&term.expr, properties, budget) == Ok(false))?;
        self.text.get(term.start..term.end)
    }
}

fn value_of(expr: &Expr, properties: &Properties, budget: &mut Budget) -> Result<bool, Failure> {
    let properties = properties.0.as_ref().map_err(Failure::clone)?;
    match evaluator::evaluate(expr, properties, budget)? {
        Value::Bool(value) => Ok(value),
        // Checked before; only a value that was `dyn` could be another one.
        other => {
            let kind = other.kind();
            Err(Failure::Error(format!("cel expression evalutated to {kind}, not bool")))
        }
    }
}

/// Checks an expression.
///
/// # Errors
/// Fails if it does not compile or is no `bool`.
pub fn check(rule: &str) -> Result<(), Fault> {
    Program::compile(rule).map(drop)
}

/// Formats errors as cel-go does: line and column, and the line with a mark below it.
fn displayed(rule: &str, mut errors: Vec<Error>) -> String {
    errors.sort_by_key(|error| error.at);
    let more = errors.len() > MOST_ERRORS;
    let shown = errors.iter().take(MOST_ERRORS).map(|error| shown(rule, error));
    let rest = more.then(|| "more errors were truncated".to_owned());
    shown.chain(rest).collect::<Vec<_>>().join("\n")
}

fn shown(rule: &str, error: &Error) -> String {
    let before = rule.get(..error.at).unwrap_or(rule);
    let row = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let marked = rule.get(start..error.at).unwrap_or_default();
    let message = shortened(&error.message, 4 * LINE);
    let column = marked.chars().count() + 1;
    let head = format!("ERROR: <input>:{}:{column}: {message}", row + 1);
    let line = rule.get(start..).unwrap_or_default().split('\n').next().unwrap_or_default();
    // An empty text has no excerpt.
    if line.len() > LINE || rule.is_empty() {
        return head;
    }
    // Below what is wide there are wide marks.
    let wide = |c: char| c.len_utf8() > 1;
    let dots: String = marked.chars().map(|c| if wide(c) { '．' } else { '.' }).collect();
    let next = line.get(marked.len()..).and_then(|rest| rest.chars().next());
    let mark = if next.is_some_and(wide) { '＾' } else { '^' };
    format!("{head}\n | {}\n | {dots}{mark}", line.replace('\t', " "))
}
