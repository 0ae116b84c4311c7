//! Elements of a parsed expression.

use super::literal::Literal;

/// An expression, and where in the text errors about it point.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) at: usize,
    pub(super) node: Node,
    /// Levels in it, itself included.
    pub(super) depth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

#[derive(Debug)]
pub(super) enum Node {
    Literal(Literal),
    /// A name. One with a dot before it is none of a macro's variables.
    Ident {
        name: String,
        global: bool,
    },
    Select {
        operand: Box<Expr>,
        field: String,
        /// Whether it is `has(a.b)`.
        test: bool,
    },
    Index(Box<Expr>, Box<Expr>),
    Call {
        target: Option<Box<Expr>>,
        name: String,
        args: Vec<Expr>,
    },
    Comprehension(Box<Comprehension>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    /// A protocol message, which nothing here knows.
    Message(String),
    Logic {
        is_and: bool,
        terms: Vec<Term>,
    },
    /// An operator with two sides, by its sign.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// A macro that goes through a list or the keys of a map.
#[derive(Debug)]
pub(super) struct Comprehension {
    pub(super) kind: Macro,
    pub(super) target: Expr,
    pub(super) variable: String,
    /// Only of `map` with three arguments.
    pub(super) condition: Option<Expr>,
    pub(super) body: Expr,
}

/// A part of a chain of `&&` or `||`, and where its text begins and ends.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) expr: Expr,
}
