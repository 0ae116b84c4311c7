//! The grammar: a text becomes an expression of bounded depth.
//!
//! Precedence is that of cel-go's grammar: `?:`, `||`, `&&`, relations, sums, products, `!` and `-`,
//! members. Chains of `||` and `&&` are one node; every other chain counts as depth.

use super::{Error, MAX_DEPTH};
use crate::go::shortened;

/// An expression, and where in the text its operator or name is.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) at: usize,
    pub(super) node: Node,
    depth: usize,
}

#[derive(Debug)]
pub(super) enum Literal {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
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
    Ident(String),
    Select(Box<Expr>),
    /// `has(a.b)`, of which this is `a`.
    Has(Box<Expr>),
    Index(Box<Expr>, Box<Expr>),
    Call {
        target: Option<Box<Expr>>,
        name: String,
        args: Vec<Expr>,
    },
    Comprehension {
        kind: Macro,
        target: Box<Expr>,
        variable: String,
        args: Vec<Expr>,
    },
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    /// `&&` or `||`.
    Logic(Vec<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    End,
    Ident(&'t str),
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Sign(&'static str),
}

/// Longer ones first.
const SIGNS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "(", ")", "[", "]", "{", "}", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%", "=", "@",
];
/// Operators, and how close they bind.
const OPERATORS: [(&str, u8); 11] = [
    ("<", 1),
    ("<=", 1),
    (">", 1),
    (">=", 1),
    ("==", 1),
    ("!=", 1),
    ("+", 2),
    ("-", 2),
    ("*", 3),
    ("/", 3),
    ("%", 3),
];
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
];

struct Parser<'t> {
    text: &'t str,
    /// Where the current token begins and ends.
    at: usize,
    end: usize,
    token: Token<'t>,
    depth: usize,
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Expr, Error> {
    let mut parser = Parser { text, at: 0, end: 0, token: Token::End, depth: 0 };
    parser.advance()?;
    let expr = parser.expr()?;
    match parser.token {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected()),
    }
}

type Parsed = Result<Expr, Error>;
/// A node over one other.
type Over = fn(Box<Expr>) -> Node;

impl<'t> Parser<'t> {
    fn rest(&self, from: usize) -> &'t str {
        self.text.get(from..).unwrap_or_default()
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error { at: self.at, message: message.into() }
    }

    fn unexpected(&self) -> Error {
        let found = match self.token {
            Token::End => "<EOF>",
            _ => self.text.get(self.at..self.end).unwrap_or_default(),
        };
        self.error(format!("Syntax error: mismatched input '{}'", shortened(found, 64)))
    }

    fn too_deep(at: usize) -> Error {
        let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
        Error { at, message }
    }

    fn node(at: usize, inner: usize, node: Node) -> Parsed {
        let depth = inner + 1;
        if depth > MAX_DEPTH { Err(Self::too_deep(at)) } else { Ok(Expr { at, node, depth }) }
    }

    // Tokens.

    fn advance(&mut self) -> Result<(), Error> {
        let mut at = self.end;
        loop {
            let rest = self.rest(at);
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                break;
            }
            at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
        self.at = at;
        let rest = self.rest(at);
        let Some(first) = rest.chars().next() else {
            self.end = at;
            self.token = Token::End;
            return Ok(());
        };
        let (token, length) = if first.is_ascii_digit()
            || first == '.' && rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
        {
            number(rest)
        } else if let Some((token, length)) = self.string(rest)? {
            (token, length)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
            (Token::Ident(rest.get(..length).unwrap_or_default()), length)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            return Err(self.error(format!("Syntax error: token recognition error at: '{first}'")));
        };
        self.end = at + length;
        self.token = token;
        Ok(())
    }

    /// A literal in quotes with its prefixes, if there is one.
    fn string(&self, rest: &'t str) -> Result<Option<(Token<'t>, usize)>, Error> {
        let prefix = rest.find(|c| !matches!(c, 'r' | 'R' | 'b' | 'B')).unwrap_or(rest.len());
        let (letters, after) = rest.split_at_checked(prefix).unwrap_or((rest, ""));
        let raw = letters.contains(['r', 'R']);
        let bytes = letters.contains(['b', 'B']);
        if letters.len() > usize::from(raw) + usize::from(bytes) {
            return Ok(None);
        }
        let delimiters = ["\"\"\"", "'''", "\"", "'"];
        let Some(quote) = delimiters.into_iter().find(|quote| after.starts_with(quote)) else {
            return Ok(None);
        };
        let body = after.get(quote.len()..).unwrap_or_default();
        let unterminated =
            || self.error("Syntax error: token recognition error: unterminated string");
        let mut chars = body.char_indices();
        loop {
            let (at, c) = chars.next().ok_or_else(unterminated)?;
            if body.get(at..).is_some_and(|rest| rest.starts_with(quote)) {
                let length = prefix + quote.len() + at + quote.len();
                return Ok(Some((if bytes { Token::Bytes } else { Token::Text }, length)));
            }
            match c {
                '\\' if !raw => {
                    let (_, escaped) = chars.next().ok_or_else(unterminated)?;
                    let digits = match escaped {
                        'x' | 'X' | '0'..='3' => 2,
                        'u' => 4,
                        'U' => 8,
                        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => {
                            0
                        }
                        _ => {
                            return Err(
                                self.error("Syntax error: token recognition error: bad escape")
                            );
                        }
                    };
                    for _ in 0..digits {
                        let (_, digit) = chars.next().ok_or_else(unterminated)?;
                        if !digit.is_ascii_hexdigit() {
                            return Err(
                                self.error("Syntax error: token recognition error: bad escape")
                            );
                        }
                    }
                }
                '\n' | '\r' if quote.len() == 1 => return Err(unterminated()),
                _ => {}
            }
        }
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token, Token::Sign(found) if found == sign)
    }

    fn take(&mut self, sign: &str) -> Result<bool, Error> {
        let found = self.is(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: &str) -> Result<(), Error> {
        if self.take(sign)? { Ok(()) } else { Err(self.unexpected()) }
    }

    // Grammar.

    fn expr(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Self::too_deep(self.at));
        }
        let condition = self.logic()?;
        let at = self.at;
        let expr = if self.take("?")? {
            let yes = self.logic()?;
            self.expect(":")?;
            let no = self.expr()?;
            let inner = condition.depth.max(yes.depth).max(no.depth);
            let node = Node::Ternary(Box::new(condition), Box::new(yes), Box::new(no));
            Self::node(at, inner, node)?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// Chains of `||` and, within them, of `&&`; in one function, because it is on the stack once
    /// for every level.
    fn logic(&mut self) -> Parsed {
        let mut any = Vec::new();
        let mut all = Vec::new();
        loop {
            all.push(self.operation(1)?);
            if self.take("&&")? {
                continue;
            }
            any.push(Self::chain(std::mem::take(&mut all))?);
            if !self.take("||")? {
                return Self::chain(any);
            }
        }
    }

    /// The terms of a chain, or the only one.
    fn chain(mut terms: Vec<Expr>) -> Parsed {
        match terms.pop() {
            Some(only) if terms.is_empty() => Ok(only),
            last => {
                terms.extend(last);
                let at = terms.first().map_or(0, |term| term.at);
                let inner = Self::deepest(&terms);
                Self::node(at, inner, Node::Logic(terms))
            }
        }
    }

    /// Relations, sums and products, by how close they bind.
    fn operation(&mut self, least: u8) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let found = match self.token {
                Token::Sign(sign) => OPERATORS.into_iter().find(|(known, _)| *known == sign),
                Token::Ident("in") => Some(("in", 1)),
                _ => None,
            };
            let Some((operator, binding)) = found.filter(|(_, binding)| *binding >= least) else {
                return Ok(left);
            };
            let at = self.at;
            self.advance()?;
            let right = self.operation(binding + 1)?;
            let inner = left.depth.max(right.depth);
            left = Self::node(at, inner, Node::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let at = self.at;
        let prefixes: [(&str, Over); 2] = [("!", Node::Not), ("-", Node::Negate)];
        for (sign, node) in prefixes {
            let mut odd = false;
            let mut any = false;
            while self.take(sign)? {
                odd = !odd;
                any = true;
            }
            if any {
                // Two of them cancel each other, as in cel-go.
                let inner = self.member()?;
                let depth = inner.depth;
                return if odd { Self::node(at, depth, node(Box::new(inner))) } else { Ok(inner) };
            }
        }
        self.member()
    }

    fn member(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        loop {
            let at = self.at;
            if self.take(".")? {
                let Token::Ident(name) = self.token else { return Err(self.unexpected()) };
                if name == "in" {
                    return Err(self.unexpected());
                }
                self.advance()?;
                let call = self.at;
                expr = if self.take("(")? {
                    let args = self.list(")")?;
                    Self::method(call, expr, name, args)?
                } else {
                    let depth = expr.depth;
                    Self::node(at, depth, Node::Select(Box::new(expr)))?
                };
            } else if self.take("[")? {
                let index = self.expr()?;
                self.expect("]")?;
                let inner = expr.depth.max(index.depth);
                expr = Self::node(at, inner, Node::Index(Box::new(expr), Box::new(index)))?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn list(&mut self, close: &str) -> Result<Vec<Expr>, Error> {
        let mut items = Vec::new();
        if self.take(close)? {
            return Ok(items);
        }
        loop {
            items.push(self.expr()?);
            if self.take(close)? {
                return Ok(items);
            }
            self.expect(",")?;
            // A list may end in a comma, arguments may not.
            if close == "]" && self.take(close)? {
                return Ok(items);
            }
        }
    }

    fn deepest(args: &[Expr]) -> usize {
        args.iter().map(|arg| arg.depth).max().unwrap_or_default()
    }

    /// A call on a value, which may be a macro.
    fn method(at: usize, target: Expr, name: &str, args: Vec<Expr>) -> Parsed {
        let inner = target.depth.max(Self::deepest(&args));
        let kind = match (name, args.len()) {
            ("all", 2) => Some(Macro::All),
            ("exists", 2) => Some(Macro::Exists),
            ("exists_one" | "existsOne", 2) => Some(Macro::ExistsOne),
            ("filter", 2) => Some(Macro::Filter),
            ("map", 2 | 3) => Some(Macro::Map),
            _ => None,
        };
        let target = Box::new(target);
        let Some(kind) = kind else {
            let name = name.to_owned();
            return Self::node(at, inner, Node::Call { target: Some(target), name, args });
        };
        let mut args = args.into_iter();
        let variable = match args.next() {
            Some(Expr { node: Node::Ident(name), .. }) => name,
            other => {
                let at = other.map_or(at, |other| other.at);
                return Err(Error { at, message: "argument must be a simple name".to_owned() });
            }
        };
        let args = args.collect();
        Self::node(at, inner, Node::Comprehension { kind, target, variable, args })
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at;
        let literal = |parser: &mut Self, literal| {
            parser.advance()?;
            Self::node(at, 0, Node::Literal(literal))
        };
        match self.token {
            Token::Int => {
                let text = self.text.get(self.at..self.end).unwrap_or_default();
                if !fits(text) {
                    return Err(self.error("Syntax error: invalid int literal"));
                }
                literal(self, Literal::Int)
            }
            Token::Uint => literal(self, Literal::Uint),
            Token::Double => literal(self, Literal::Double),
            Token::Text => literal(self, Literal::Text),
            Token::Bytes => literal(self, Literal::Bytes),
            Token::Ident("true" | "false") => literal(self, Literal::Bool),
            Token::Ident("null") => literal(self, Literal::Null),
            Token::Sign("(") => {
                self.advance()?;
                let mut inner = self.expr()?;
                self.expect(")")?;
                // Parentheses are depth, though nothing is left of them.
                inner.depth += 1;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.advance()?;
                let items = self.list("]")?;
                Self::node(at, Self::deepest(&items), Node::List(items))
            }
            Token::Sign("{") => self.map(),
            Token::Sign(".") => {
                self.advance()?;
                self.name()
            }
            Token::Ident(_) => self.name(),
            Token::End | Token::Sign(_) => Err(self.unexpected()),
        }
    }

    fn map(&mut self) -> Parsed {
        let at = self.at;
        self.advance()?;
        let mut entries = Vec::new();
        let mut inner = 0;
        while !self.take("}")? {
            let key = self.expr()?;
            self.expect(":")?;
            let value = self.expr()?;
            inner = inner.max(key.depth).max(value.depth);
            entries.push((key, value));
            if !self.take(",")? {
                self.expect("}")?;
                break;
            }
        }
        Self::node(at, inner, Node::Map(entries))
    }

    /// A name, or a call of a function.
    fn name(&mut self) -> Parsed {
        let at = self.at;
        let Token::Ident(name) = self.token else { return Err(self.unexpected()) };
        self.advance()?;
        let call = self.at;
        if !self.take("(")? {
            if RESERVED.contains(&name) || name == "while" {
                return Err(Error { at, message: format!("reserved identifier: {name}") });
            }
            return Self::node(at, 0, Node::Ident(name.to_owned()));
        }
        let mut args = self.list(")")?;
        if name == "has" && args.len() == 1 {
            return match args.pop() {
                Some(Expr { node: Node::Select(inner), depth, .. }) => {
                    Self::node(call, depth, Node::Has(inner))
                }
                _ => Err(Error { at: call, message: "invalid argument to has() macro".to_owned() }),
            };
        }
        let inner = Self::deepest(&args);
        let name = name.to_owned();
        Self::node(call, inner, Node::Call { target: None, name, args })
    }
}

/// Whether a whole number is one of 64 bits. What makes it negative is not part of it.
fn fits(text: &str) -> bool {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.is_ok_and(|value| value <= 1 << 63)
}

fn number(text: &str) -> (Token<'_>, usize) {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
    };
    let byte = |at: usize| text.as_bytes().get(at).copied().unwrap_or_default();
    let mut end = digits(0);
    let mut token = Token::Int;
    if end == 1 && matches!(byte(1), b'x' | b'X') && byte(2).is_ascii_hexdigit() {
        let rest = text.get(2..).unwrap_or_default();
        end = 2 + rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    } else {
        if byte(end) == b'.' && byte(end + 1).is_ascii_digit() {
            token = Token::Double;
            end += 1;
            end += digits(end);
        }
        if matches!(byte(end), b'e' | b'E') {
            let sign = usize::from(matches!(byte(end + 1), b'+' | b'-'));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                token = Token::Double;
                end += 1 + sign + exponent;
            }
        }
    }
    if token == Token::Int && matches!(byte(end), b'u' | b'U') {
        return (Token::Uint, end + 1);
    }
    (token, end)
}
