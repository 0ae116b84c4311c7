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

use opgate_compat::go::shorten;
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
const MAX_ERRORS: usize = 10;
/// Bytes of a line that an error repeats.
const MAX_LINE_BYTES: usize = 240;

/// Why an expression is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileError {
    /// It does not compile.
    Invalid(String),
    /// It compiles, and is of another type.
    NotBool,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => f.write_str(error),
            Self::NotBool => f.write_str(NOT_BOOL),
        }
    }
}

impl std::error::Error for CompileError {}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvaluationError {
    /// It fails; for OLM that is `false`.
    Error(String),
    /// It exceeds a limit, so that its value is unknown. Names the limit.
    Limit(&'static str),
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(error),
            Self::Limit(limit) => f.write_str(limit),
        }
    }
}

impl std::error::Error for EvaluationError {}

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
    fn spend(&mut self, steps: usize) -> Result<(), EvaluationError> {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or_default();
        left.map(drop).ok_or(EvaluationError::Limit("the evaluation takes more than 1000000 steps"))
    }
}

/// Properties as expressions see them.
#[derive(Debug)]
pub struct Properties(Result<Value, EvaluationError>);

impl Properties {
    /// Creates them from types and the JSON texts of their values.
    #[must_use]
    pub fn new<'p>(all: impl Iterator<Item = (&'p str, &'p [u8])>) -> Self {
        Self(json::properties(all).map_err(EvaluationError::from))
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
    pub fn compile(rule: &str) -> Result<Self, CompileError> {
        let size = rule.chars().count();
        if size > MAX_CHARACTERS {
            return Err(CompileError::Invalid(format!(
                "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {size}, limit {MAX_CHARACTERS}"
            )));
        }
        let wrong = |errors: Vec<Error>| CompileError::Invalid(format_errors(rule, errors));
        let expr = parser::parse(rule).map_err(wrong)?;
        match checker::check(&expr).map_err(wrong)? {
            types::Type::Bool => Ok(Self { text: rule.to_owned(), expr }),
            _ => Err(CompileError::NotBool),
        }
    }

    /// Reports whether it is true of properties.
    ///
    /// # Errors
    /// Fails if it has no value.
    pub fn run(
        &self,
        properties: &Properties,
        budget: &mut Budget,
    ) -> Result<bool, EvaluationError> {
        evaluate_bool(&self.expr, properties, budget)
    }

    /// Returns the first false part of a chain of `&&`, as written.
    #[must_use]
    pub fn first_false_term(&self, properties: &Properties, budget: &mut Budget) -> Option<&str> {
        let Node::Logic { is_and: true, terms } = &self.expr.node else { return None };
        let term =
            terms.iter().find(|term| evaluate_bool(&term.expr, properties, budget) == Ok(false))?;
        self.text.get(term.start..term.end)
    }
}

fn evaluate_bool(
    expr: &Expr,
    properties: &Properties,
    budget: &mut Budget,
) -> Result<bool, EvaluationError> {
    let properties = properties.0.as_ref().map_err(EvaluationError::clone)?;
    match evaluator::evaluate(expr, properties, budget)? {
        Value::Bool(value) => Ok(value),
        // Checked before; only a value that was `dyn` could be another one.
        other => {
            let kind = other.type_name();
            Err(EvaluationError::Error(format!("cel expression evalutated to {kind}, not bool")))
        }
    }
}

/// Checks an expression.
///
/// # Errors
/// Fails if it does not compile or is no `bool`.
pub fn check(rule: &str) -> Result<(), CompileError> {
    Program::compile(rule).map(drop)
}

/// Formats errors as cel-go does: line and column, and the line with a mark below it.
fn format_errors(rule: &str, mut errors: Vec<Error>) -> String {
    errors.sort_by_key(|error| error.at);
    let more = errors.len() > MAX_ERRORS;
    let shown = errors.iter().take(MAX_ERRORS).map(|error| format_error(rule, error));
    let rest = more.then(|| "more errors were truncated".to_owned());
    shown.chain(rest).collect::<Vec<_>>().join("\n")
}

fn format_error(rule: &str, error: &Error) -> String {
    let before = rule.get(..error.at).unwrap_or(rule);
    let row = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let marked = rule.get(start..error.at).unwrap_or_default();
    let message = shorten(&error.message, 4 * MAX_LINE_BYTES);
    let column = marked.chars().count() + 1;
    let head = format!("ERROR: <input>:{}:{column}: {message}", row + 1);
    let line = rule.get(start..).unwrap_or_default().split('\n').next().unwrap_or_default();
    // An empty text has no excerpt.
    if line.len() > MAX_LINE_BYTES || rule.is_empty() {
        return head;
    }
    // Below what is wide there are wide marks.
    let wide = |c: char| c.len_utf8() > 1;
    let dots: String = marked.chars().map(|c| if wide(c) { '．' } else { '.' }).collect();
    let next = line.get(marked.len()..).and_then(|rest| rest.chars().next());
    let mark = if next.is_some_and(wide) { '＾' } else { '^' };
    format!("{head}\n | {}\n | {dots}{mark}", line.replace('\t', " "))
}
