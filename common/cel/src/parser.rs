//! The grammar: tokens become an expression of bounded depth.
//!
//! Precedence is that of cel-go's grammar: `?:`, `||`, `&&`, relations, sums, products, `!` and `-`,
//! members. Chains of `||` and `&&` are one node; every other chain counts as depth.
//!
//! A superfluous or missing token is reported and parsing continues, as in cel-go's parser. Any other syntax
//! error ends parsing. Errors in names and literals are reported together, as long as the syntax is valid.

use super::lexer::{Kind, Lexer, SHOWN, Token};
use super::literal::{self, Literal};
use super::syntax::{Comprehension, Expr, Macro, Node, Term};
use super::{Error, MAX_DEPTH};
use opgate_upstream::go::shortened;

/// Operators with two sides, and how close they bind.
const OPERATORS: [(&str, u8); 12] = [
    ("<", 1),
    ("<=", 1),
    (">=", 1),
    (">", 1),
    ("==", 1),
    ("!=", 1),
    ("in", 1),
    ("+", 2),
    ("-", 2),
    ("*", 3),
    ("/", 3),
    ("%", 3),
];
const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];
/// Names in messages of the tokens that can begin an expression; the order of all tokens is that of the
/// grammar.
const STARTS: [&str; 15] = [
    "'['",
    "'{'",
    "'('",
    "'.'",
    "'-'",
    "'!'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
];
const ORDER: [&str; 21] = [
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "':'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
];
/// Errors of syntax that are reported before reading ends, as in cel-go.
const MOST: usize = 100;
/// cel-go's name for what a macro computes; a variable may not be called so.
const ACCUMULATOR: &str = "__result__";

/// Reading has ended; why is among the errors.
struct Halt;

type Parsed = Result<Expr, Halt>;
/// A node over one other.
type Over = fn(Box<Expr>) -> Node;

/// Terms, and where the signs between them are.
#[derive(Default)]
struct Chain {
    terms: Vec<Term>,
    signs: Vec<usize>,
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    token: Token,
    /// The one after it.
    ahead: Token,
    /// End of the previous token.
    end: usize,
    errors: Vec<Error>,
    depth: usize,
    /// Tokens that can follow the innermost expression.
    closers: Vec<&'static [&'static str]>,
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Expr, Vec<Error>> {
    let mut lexer = Lexer::new(text);
    let mut errors = Vec::new();
    let token = lexer.next(&mut errors);
    let ahead = lexer.next(&mut errors);
    let closers = Vec::new();
    let mut parser = Parser { text, lexer, token, ahead, end: 0, errors, depth: 0, closers };
    let parsed = parser.whole();
    match parsed {
        Ok(expr) if parser.errors.is_empty() => Ok(expr),
        _ => Err(parser.errors),
    }
}

impl Parser<'_> {
    fn whole(&mut self) -> Parsed {
        let expr = self.expr()?;
        if self.token.kind != Kind::End {
            // A single token more is too much; with several it is unclear what was meant.
            let what = if self.ahead.kind == Kind::End { "extraneous" } else { "mismatched" };
            self.unexpected(what, "<EOF>");
        }
        Ok(expr)
    }

    // Errors.

    fn error(&mut self, at: usize, message: impl Into<String>) {
        self.errors.push(Error { at, message: message.into() });
    }

    fn shown(&self, token: Token) -> String {
        if token.kind == Kind::End {
            return "<EOF>".to_owned();
        }
        let text = self.text.get(token.start..token.end).unwrap_or_default();
        let text = shortened(text, SHOWN);
        text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
    }

    fn unexpected(&mut self, what: &str, expected: &str) {
        let found = self.shown(self.token);
        let message = format!("Syntax error: {what} input '{found}' expecting {expected}");
        self.error(self.token.start, message);
    }

    /// Returns ANTLR's error if no rule matches: the text starts at the token where the rule began.
    fn no_alternative(&mut self, from: usize) -> Halt {
        let text = self.text.get(from..self.token.end).unwrap_or_default();
        let text = shortened(text.trim_end(), SHOWN);
        let text = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
        let message = format!("Syntax error: no viable alternative at input '{text}'");
        self.error(self.token.start, message);
        Halt
    }

    fn too_deep(&mut self, at: usize) -> Halt {
        self.error(at, format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        Halt
    }

    fn node(&mut self, at: usize, inner: usize, node: Node) -> Parsed {
        let depth = inner + 1;
        if depth > MAX_DEPTH { Err(self.too_deep(at)) } else { Ok(Expr { at, node, depth }) }
    }

    /// Returns a placeholder for an invalid expression, so that parsing can continue.
    fn nothing(at: usize) -> Expr {
        Expr { at, node: Node::Literal(Literal::Null), depth: 1 }
    }

    // Tokens.

    fn advance(&mut self) -> Result<(), Halt> {
        self.end = self.token.end;
        self.token = self.ahead;
        self.ahead = self.lexer.next(&mut self.errors);
        if self.errors.len() > MOST {
            self.errors.truncate(MOST);
            let message = format!("Syntax error: More than {MOST} syntax errors");
            self.error(self.token.start, message);
            return Err(Halt);
        }
        Ok(())
    }

    fn is(&self, sign: &str) -> bool {
        is_sign(self.token.kind, sign)
    }

    fn take(&mut self, sign: &str) -> Result<bool, Halt> {
        let found = self.is(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Reports whether a token may follow a complete expression.
    fn may_follow(&self, token: Token) -> bool {
        let closers: &[&str] = self.closers.last().copied().unwrap_or_default();
        match token.kind {
            Kind::End => self.closers.is_empty(),
            Kind::Sign("." | "[" | "?" | "&&" | "||") => true,
            Kind::Sign(sign) => closers.contains(&sign) || operator(sign).is_some(),
            _ => false,
        }
    }

    /// Parses a required sign. One superfluous token before it is skipped, and if the next token may follow
    /// the sign, a missing sign is only reported.
    fn expect(&mut self, sign: &str) -> Result<(), Halt> {
        if self.take(sign)? {
            return Ok(());
        }
        let quoted = format!("'{sign}'");
        if is_sign(self.ahead.kind, sign) {
            self.unexpected("extraneous", &quoted);
            self.advance()?;
            return self.advance();
        }
        let insert =
            if sign == ":" { begins(self.token.kind) } else { self.may_follow(self.token) };
        if insert {
            let found = self.shown(self.token);
            let message = format!("Syntax error: missing {quoted} at '{found}'");
            self.error(self.token.start, message);
            return Ok(());
        }
        self.unexpected("mismatched", &quoted);
        Err(Halt)
    }

    /// Makes sure that what comes begins an expression, or is one of some signs.
    fn starts(&mut self, or: &[&str]) -> Result<(), Halt> {
        let fits =
            |kind: Kind| begins(kind) || matches!(kind, Kind::Sign(sign) if or.contains(&sign));
        if fits(self.token.kind) {
            return Ok(());
        }
        let quoted: Vec<_> = or.iter().map(|sign| format!("'{sign}'")).collect();
        let allowed = |name: &&str| STARTS.contains(name) || quoted.iter().any(|q| q == name);
        let names: Vec<_> = ORDER.into_iter().filter(allowed).collect();
        let expected = format!("{{{}}}", names.join(", "));
        if fits(self.ahead.kind) {
            self.unexpected("extraneous", &expected);
            return self.advance();
        }
        self.unexpected("mismatched", &expected);
        Err(Halt)
    }

    /// Reports an unexpected token inside a list or a map.
    fn goes_on(&mut self, close: &str) -> Result<(), Halt> {
        let fits = |kind: Kind| is_sign(kind, ",") || is_sign(kind, close);
        if fits(self.token.kind) {
            return Ok(());
        }
        let expected = format!("{{'{close}', ','}}");
        if fits(self.ahead.kind) {
            self.unexpected("extraneous", &expected);
            return self.advance();
        }
        self.unexpected("mismatched", &expected);
        Err(Halt)
    }

    // Grammar.

    fn expr(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep(self.token.start));
        }
        let condition = self.logic()?;
        let at = self.token.start;
        let expr = if self.take("?")? { self.ternary(at, condition)? } else { condition };
        self.depth -= 1;
        Ok(expr)
    }

    fn ternary(&mut self, at: usize, condition: Expr) -> Parsed {
        self.closers.push(&[":"]);
        let yes = self.logic()?;
        self.expect(":")?;
        self.closers.pop();
        let no = self.expr()?;
        let inner = condition.depth.max(yes.depth).max(no.depth);
        self.node(at, inner, Node::Ternary(Box::new(condition), Box::new(yes), Box::new(no)))
    }

    /// Returns an expression within signs that may follow it.
    fn within(&mut self, closers: &'static [&'static str]) -> Parsed {
        self.closers.push(closers);
        let expr = self.expr()?;
        self.closers.pop();
        Ok(expr)
    }

    /// Chains of `||` and, within them, of `&&`; in one function, because it is on the stack once
    /// for every level.
    fn logic(&mut self) -> Parsed {
        let mut any = Chain::default();
        let mut all = Chain::default();
        loop {
            let start = self.token.start;
            let expr = self.operation(1)?;
            all.terms.push(Term { start, end: self.end, expr });
            let at = self.token.start;
            if self.take("&&")? {
                all.signs.push(at);
                continue;
            }
            any.terms.push(self.chain(true, std::mem::take(&mut all))?);
            if !self.take("||")? {
                return Ok(self.chain(false, any)?.expr);
            }
            any.signs.push(at);
        }
    }

    /// Returns the terms of a chain, or the only one.
    fn chain(&mut self, is_and: bool, chain: Chain) -> Result<Term, Halt> {
        let Chain { mut terms, signs } = chain;
        let Some(last) = terms.pop() else { return Err(Halt) };
        // cel-go makes a balanced tree of a chain: the sign in the middle is its root.
        let (Some(first), Some(&at)) = (terms.first(), signs.get(signs.len() / 2)) else {
            return Ok(last);
        };
        let (start, end) = (first.start, last.end);
        terms.push(last);
        let inner = terms.iter().map(|term| term.expr.depth).max().unwrap_or_default();
        let expr = self.node(at, inner, Node::Logic { is_and, terms })?;
        Ok(Term { start, end, expr })
    }

    /// Relations, sums and products, by how close they bind.
    fn operation(&mut self, least: u8) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let Kind::Sign(sign) = self.token.kind else { return Ok(left) };
            let Some(binding) = operator(sign).filter(|binding| *binding >= least) else {
                return Ok(left);
            };
            let at = self.token.start;
            self.advance()?;
            let right = self.operation(binding + 1)?;
            let inner = left.depth.max(right.depth);
            let node = Node::Binary(sign, Box::new(left), Box::new(right));
            left = self.node(at, inner, node)?;
        }
    }

    fn unary(&mut self) -> Parsed {
        self.starts(&[])?;
        let at = self.token.start;
        let is_number = |kind| matches!(kind, Kind::Int | Kind::Double);
        if self.is("-") && is_number(self.ahead.kind) {
            // The sign belongs to the number.
            return self.member();
        }
        let prefixes: [(&str, Over); 2] = [("!", Node::Not), ("-", Node::Negate)];
        for (sign, node) in prefixes {
            let mut odd = false;
            let mut last = None;
            while self.is(sign) {
                last = Some(self.token.start);
                self.advance()?;
                odd = !odd;
            }
            let Some(last) = last else { continue };
            self.operand(sign, last)?;
            // Two of them cancel each other, as in cel-go.
            let inner = self.member()?;
            let depth = inner.depth;
            return if odd { self.node(at, depth, node(Box::new(inner))) } else { Ok(inner) };
        }
        self.member()
    }

    /// Makes sure that something follows `!` or `-`.
    fn operand(&mut self, sign: &str, from: usize) -> Result<(), Halt> {
        if sign == "-" && (self.is("!") || !begins(self.token.kind)) {
            let halt = self.no_alternative(from);
            if self.token.kind == Kind::End {
                let _ = self.starts(&[]);
            }
            return Err(halt);
        }
        if !begins(self.token.kind) {
            self.unexpected("extraneous", &format!("{{{}}}", STARTS.join(", ")));
            return Err(Halt);
        }
        if self.is("-") && !matches!(self.ahead.kind, Kind::Int | Kind::Double) {
            let from = self.token.start;
            self.advance()?;
            return self.operand("-", from).and_then(|()| Err(self.no_alternative(from)));
        }
        Ok(())
    }

    fn member(&mut self) -> Parsed {
        // Only names with dots between them can be those of messages.
        let mut path = matches!(self.token.kind, Kind::Ident | Kind::Sign("."));
        let start = self.token.start;
        let mut expr = self.primary()?;
        path &= matches!(expr.node, Node::Ident { .. });
        loop {
            let at = self.token.start;
            if path && self.is("{") {
                let name = self.text.get(start..self.end).unwrap_or_default();
                let name = name.split_ascii_whitespace().collect();
                expr = self.message(at, name)?;
                path = false;
            } else if self.take(".")? {
                expr = self.dotted(at, expr, &mut path)?;
            } else if self.take("[")? {
                path = false;
                if self.is("?") {
                    self.error(at, "unsupported syntax '[?'");
                    self.advance()?;
                }
                self.starts(&["?"])?;
                let index = self.within(&["]"])?;
                self.expect("]")?;
                let inner = expr.depth.max(index.depth);
                let node = Node::Index(Box::new(expr), Box::new(index));
                expr = self.node(at, inner, node)?;
            } else {
                return Ok(expr);
            }
        }
    }

    /// Returns a field, or a call on a value.
    fn dotted(&mut self, at: usize, expr: Expr, path: &mut bool) -> Parsed {
        let optional = self.take("?")?;
        if optional {
            self.error(at, "unsupported syntax '.?'");
            *path = false;
        }
        let Kind::Ident = self.token.kind else {
            let adjacent = at + 1 == self.token.start;
            if let Kind::Sign(word @ ("true" | "false" | "null")) = self.token.kind
                && adjacent
            {
                let message =
                    format!("Syntax error: mismatched input '{word}' expecting IDENTIFIER");
                self.error(self.token.start, message);
                return Err(Halt);
            }
            return Err(self.no_alternative(at));
        };
        let field = self.text.get(self.token.start..self.token.end).unwrap_or_default().to_owned();
        self.advance()?;
        let call = self.token.start;
        if !optional && self.take("(")? {
            *path = false;
            let args = self.arguments()?;
            return self.method(call, expr, field, args);
        }
        let depth = expr.depth;
        self.node(at, depth, Node::Select { operand: Box::new(expr), field, test: false })
    }

    /// Arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Result<Vec<Expr>, Halt> {
        let mut items = Vec::new();
        self.starts(&[")"])?;
        if self.take(")")? {
            return Ok(items);
        }
        loop {
            items.push(self.within(&[",", ")"])?);
            if !self.take(",")? {
                self.expect(")")?;
                return Ok(items);
            }
        }
    }

    fn deepest(args: &[Expr]) -> usize {
        args.iter().map(|arg| arg.depth).max().unwrap_or_default()
    }

    /// Returns a call on a value, which may be a macro.
    fn method(&mut self, at: usize, target: Expr, name: String, args: Vec<Expr>) -> Parsed {
        let inner = target.depth.max(Self::deepest(&args));
        let kind = match (name.as_str(), args.len()) {
            ("all", 2) => Some(Macro::All),
            ("exists", 2) => Some(Macro::Exists),
            ("exists_one" | "existsOne", 2) => Some(Macro::ExistsOne),
            ("filter", 2) => Some(Macro::Filter),
            ("map", 2 | 3) => Some(Macro::Map),
            _ => None,
        };
        let Some(kind) = kind else {
            let target = Some(Box::new(target));
            return self.node(at, inner, Node::Call { target, name, args });
        };
        let mut args = args.into_iter();
        let (Some(first), Some(second), third) = (args.next(), args.next(), args.next()) else {
            return Err(Halt);
        };
        let variable = match first.node {
            // With a dot before it, a variable is one that no name finds.
            Node::Ident { name, global: true } => format!(".{name}"),
            Node::Ident { name, .. } if name != ACCUMULATOR => name,
            node => {
                let message = match (node, kind) {
                    (Node::Ident { .. }, _) => "iteration variable overwrites accumulator variable",
                    (_, Macro::Map | Macro::Filter) => "argument is not an identifier",
                    _ => "argument must be a simple name",
                };
                self.error(first.at, message);
                return Ok(Self::nothing(at));
            }
        };
        let (condition, body) = match third {
            Some(body) => (Some(second), body),
            None => (None, second),
        };
        let comprehension = Comprehension { kind, target, variable, condition, body };
        self.node(at, inner, Node::Comprehension(Box::new(comprehension)))
    }

    fn literal(&mut self) -> Parsed {
        let at = self.token.start;
        let negative = self.take("-")?;
        let text = self.text.get(self.token.start..self.token.end).unwrap_or_default();
        let read = match self.token.kind {
            Kind::Int => literal::int(text, negative),
            Kind::Uint => literal::uint(text),
            Kind::Double => literal::double(text, negative),
            Kind::Text => literal::text(text),
            Kind::Bytes => literal::bytes(text),
            Kind::Sign(word @ ("true" | "false")) => Ok(Literal::Bool(word == "true")),
            _ => Ok(Literal::Null),
        };
        self.advance()?;
        match read {
            Ok(literal) => self.node(at, 0, Node::Literal(literal)),
            Err(message) => {
                self.error(at, message);
                Ok(Self::nothing(at))
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.token.start;
        match self.token.kind {
            Kind::Sign("(") => {
                self.advance()?;
                let mut inner = self.within(&[")"])?;
                self.expect(")")?;
                // Parentheses are depth, though nothing is left of them.
                inner.depth += 1;
                Ok(inner)
            }
            Kind::Sign("[") => self.list(),
            Kind::Sign("{") => self.map(),
            Kind::Sign(".") => {
                self.advance()?;
                if self.token.kind != Kind::Ident {
                    return Err(self.no_alternative(at));
                }
                self.name(Some(at))
            }
            Kind::Ident => self.name(None),
            _ => self.literal(),
        }
    }

    /// Tells that values may not be optional, where one is.
    fn no_option(&mut self) -> Result<(), Halt> {
        if self.is("?") {
            self.error(self.token.start, "unsupported syntax '?'");
            self.advance()?;
        }
        Ok(())
    }

    fn list(&mut self) -> Parsed {
        let at = self.token.start;
        self.advance()?;
        self.starts(&["]", ",", "?"])?;
        let mut items = Vec::new();
        while !self.is("]") && !self.is(",") {
            self.no_option()?;
            items.push(self.within(&[",", "]"])?);
            self.goes_on("]")?;
            // A comma before the end belongs to the list.
            let more = self.is(",") && (begins(self.ahead.kind) || self.ahead_is("?"));
            if !more {
                break;
            }
            self.advance()?;
        }
        self.take(",")?;
        self.expect("]")?;
        self.node(at, Self::deepest(&items), Node::List(items))
    }

    fn ahead_is(&self, sign: &str) -> bool {
        is_sign(self.ahead.kind, sign)
    }

    fn map(&mut self) -> Parsed {
        let at = self.token.start;
        self.advance()?;
        self.starts(&["}", ",", "?"])?;
        let mut entries = Vec::new();
        let mut inner = 0;
        while !self.is("}") && !self.is(",") {
            self.no_option()?;
            let key = self.within(&[":"])?;
            self.expect(":")?;
            let value = self.within(&[",", "}"])?;
            inner = inner.max(key.depth).max(value.depth);
            entries.push((key, value));
            self.goes_on("}")?;
            let more = self.is(",") && (begins(self.ahead.kind) || self.ahead_is("?"));
            if !more {
                break;
            }
            self.advance()?;
        }
        self.take(",")?;
        self.expect("}")?;
        self.node(at, inner, Node::Map(entries))
    }

    /// Fields of a message; their values are read for their syntax only.
    fn message(&mut self, at: usize, name: String) -> Parsed {
        self.advance()?;
        let mut inner = 0;
        loop {
            if self.is("}") || self.is(",") {
                break;
            }
            self.no_option()?;
            if self.token.kind != Kind::Ident {
                let expected = "{'}', ',', '?', IDENTIFIER}";
                let fits = |sign| is_sign(self.ahead.kind, sign);
                if self.ahead.kind == Kind::Ident || fits("}") || fits(",") || fits("?") {
                    self.unexpected("extraneous", expected);
                    self.advance()?;
                    continue;
                }
                self.unexpected("mismatched", expected);
                return Err(Halt);
            }
            self.advance()?;
            self.expect(":")?;
            inner = inner.max(self.within(&[",", "}"])?.depth);
            self.goes_on("}")?;
            if !self.is(",") || !(self.ahead.kind == Kind::Ident || self.ahead_is("?")) {
                break;
            }
            self.advance()?;
        }
        self.take(",")?;
        self.expect("}")?;
        self.node(at, inner, Node::Message(name))
    }

    /// Parses a name, or a call of a function. `dot` is the position of a preceding dot.
    fn name(&mut self, dot: Option<usize>) -> Parsed {
        let at = self.token.start;
        let text = self.text;
        let name = text.get(self.token.start..self.token.end).unwrap_or_default();
        let reserved = RESERVED.contains(&name);
        self.advance()?;
        let call = self.token.start;
        let is_call = self.take("(")?;
        let mut args = if is_call { self.arguments()? } else { Vec::new() };
        if reserved {
            let at = dot.unwrap_or(at);
            self.error(at, format!("reserved identifier: {name}"));
            return Ok(Self::nothing(at));
        }
        let global = dot.is_some();
        let name = name.to_owned();
        if !is_call {
            return self.node(at, 0, Node::Ident { name, global });
        }
        let inner = Self::deepest(&args);
        if name == "has" && args.len() == 1 && !global {
            return match args.pop() {
                Some(Expr { node: Node::Select { operand, field, .. }, .. }) => {
                    self.node(call, inner, Node::Select { operand, field, test: true })
                }
                other => {
                    let at = other.map_or(call, |other| other.at);
                    self.error(at, "invalid argument to has() macro");
                    Ok(Self::nothing(call))
                }
            };
        }
        let name = if global { format!(".{name}") } else { name };
        self.node(call, inner, Node::Call { target: None, name, args })
    }
}

fn is_sign(kind: Kind, sign: &str) -> bool {
    matches!(kind, Kind::Sign(found) if found == sign)
}

fn operator(sign: &str) -> Option<u8> {
    OPERATORS.into_iter().find(|(known, _)| *known == sign).map(|(_, binding)| binding)
}

/// Reports whether an expression may begin so.
fn begins(kind: Kind) -> bool {
    match kind {
        Kind::End => false,
        Kind::Sign(sign) => {
            matches!(sign, "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
        }
        _ => true,
    }
}
