//! The grammar: tokens become an expression of bounded depth.
//!
//! Precedence is that of cel-go's grammar: `?:`, `||`, `&&`, relations, sums, products, `!` and `-`,
//! members. Chains of `||` and `&&` are one node; every other chain counts as depth.
//!
//! A superfluous or missing token is reported and parsing continues, as in cel-go's parser. Any other syntax
//! error ends parsing. Errors in names and literals are reported together, as long as the syntax is valid.

use super::lexer::{Lexer, MAX_SHOWN_BYTES, Token, TokenKind};
use super::literal::{self, Literal};
use super::syntax::{Comprehension, Expr, Macro, Node, Term};
use super::{Error, MAX_DEPTH};
use opgate_compat::go::shorten;

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
const START_TOKENS: [&str; 15] = [
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
const TOKEN_ORDER: [&str; 21] = [
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
const MAX_SYNTAX_ERRORS: usize = 100;
/// cel-go's name for what a macro computes; a variable may not be called so.
const ACCUMULATOR: &str = "__result__";

/// Reading has ended; why is among the errors.
struct ParseAborted;

type ParseResult = Result<Expr, ParseAborted>;
/// A node over one other.
type UnaryNode = fn(Box<Expr>) -> Node;

/// Terms, and where the signs between them are.
#[derive(Default)]
struct TermChain {
    terms: Vec<Term>,
    signs: Vec<usize>,
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    token: Token,
    /// The one after it.
    lookahead: Token,
    /// End of the previous token.
    previous_end: usize,
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
    let mut parser =
        Parser { text, lexer, token, lookahead: ahead, previous_end: 0, errors, depth: 0, closers };
    let parsed = parser.parse_whole();
    match parsed {
        Ok(expr) if parser.errors.is_empty() => Ok(expr),
        _ => Err(parser.errors),
    }
}

impl Parser<'_> {
    fn parse_whole(&mut self) -> ParseResult {
        let expr = self.expr()?;
        if self.token.kind != TokenKind::End {
            // A single token more is too much; with several it is unclear what was meant.
            let what =
                if self.lookahead.kind == TokenKind::End { "extraneous" } else { "mismatched" };
            self.unexpected(what, "<EOF>");
        }
        Ok(expr)
    }

    // Errors.

    fn error(&mut self, at: usize, message: impl Into<String>) {
        self.errors.push(Error { at, message: message.into() });
    }

    fn token_text(&self, token: Token) -> String {
        if token.kind == TokenKind::End {
            return "<EOF>".to_owned();
        }
        let text = self.text.get(token.start..token.end).unwrap_or_default();
        let text = shorten(text, MAX_SHOWN_BYTES);
        text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
    }

    fn unexpected(&mut self, what: &str, expected: &str) {
        let found = self.token_text(self.token);
        let message = format!("Syntax error: {what} input '{found}' expecting {expected}");
        self.error(self.token.start, message);
    }

    /// Returns ANTLR's error if no rule matches: the text starts at the token where the rule began.
    fn no_alternative(&mut self, from: usize) -> ParseAborted {
        let text = self.text.get(from..self.token.end).unwrap_or_default();
        let text = shorten(text.trim_end(), MAX_SHOWN_BYTES);
        let text = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
        let message = format!("Syntax error: no viable alternative at input '{text}'");
        self.error(self.token.start, message);
        ParseAborted
    }

    fn too_deep(&mut self, at: usize) -> ParseAborted {
        self.error(at, format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        ParseAborted
    }

    fn node(&mut self, at: usize, inner: usize, node: Node) -> ParseResult {
        let depth = inner + 1;
        if depth > MAX_DEPTH { Err(self.too_deep(at)) } else { Ok(Expr { at, node, depth }) }
    }

    /// Returns a placeholder for an invalid expression, so that parsing can continue.
    fn placeholder(at: usize) -> Expr {
        Expr { at, node: Node::Literal(Literal::Null), depth: 1 }
    }

    // Tokens.

    fn advance(&mut self) -> Result<(), ParseAborted> {
        self.previous_end = self.token.end;
        self.token = self.lookahead;
        self.lookahead = self.lexer.next(&mut self.errors);
        if self.errors.len() > MAX_SYNTAX_ERRORS {
            self.errors.truncate(MAX_SYNTAX_ERRORS);
            let message = format!("Syntax error: More than {MAX_SYNTAX_ERRORS} syntax errors");
            self.error(self.token.start, message);
            return Err(ParseAborted);
        }
        Ok(())
    }

    fn is_at(&self, sign: &str) -> bool {
        is_sign(self.token.kind, sign)
    }

    fn accept(&mut self, sign: &str) -> Result<bool, ParseAborted> {
        let found = self.is_at(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Reports whether a token may follow a complete expression.
    fn may_follow(&self, token: Token) -> bool {
        let closers: &[&str] = self.closers.last().copied().unwrap_or_default();
        match token.kind {
            TokenKind::End => self.closers.is_empty(),
            TokenKind::Sign("." | "[" | "?" | "&&" | "||") => true,
            TokenKind::Sign(sign) => closers.contains(&sign) || operator(sign).is_some(),
            _ => false,
        }
    }

    /// Parses a required sign. One superfluous token before it is skipped, and if the next token may follow
    /// the sign, a missing sign is only reported.
    fn expect(&mut self, sign: &str) -> Result<(), ParseAborted> {
        if self.accept(sign)? {
            return Ok(());
        }
        let quoted = format!("'{sign}'");
        if is_sign(self.lookahead.kind, sign) {
            self.unexpected("extraneous", &quoted);
            self.advance()?;
            return self.advance();
        }
        let insert =
            if sign == ":" { can_begin_expr(self.token.kind) } else { self.may_follow(self.token) };
        if insert {
            let found = self.token_text(self.token);
            let message = format!("Syntax error: missing {quoted} at '{found}'");
            self.error(self.token.start, message);
            return Ok(());
        }
        self.unexpected("mismatched", &quoted);
        Err(ParseAborted)
    }

    /// Makes sure that what comes begins an expression, or is one of some signs.
    fn expect_start(&mut self, or: &[&str]) -> Result<(), ParseAborted> {
        let fits = |kind: TokenKind| {
            can_begin_expr(kind) || matches!(kind, TokenKind::Sign(sign) if or.contains(&sign))
        };
        if fits(self.token.kind) {
            return Ok(());
        }
        let quoted: Vec<_> = or.iter().map(|sign| format!("'{sign}'")).collect();
        let allowed = |name: &&str| START_TOKENS.contains(name) || quoted.iter().any(|q| q == name);
        let names: Vec<_> = TOKEN_ORDER.into_iter().filter(allowed).collect();
        let expected = format!("{{{}}}", names.join(", "));
        if fits(self.lookahead.kind) {
            self.unexpected("extraneous", &expected);
            return self.advance();
        }
        self.unexpected("mismatched", &expected);
        Err(ParseAborted)
    }

    /// Reports an unexpected token inside a list or a map.
    fn expect_separator(&mut self, close: &str) -> Result<(), ParseAborted> {
        let fits = |kind: TokenKind| is_sign(kind, ",") || is_sign(kind, close);
        if fits(self.token.kind) {
            return Ok(());
        }
        let expected = format!("{{'{close}', ','}}");
        if fits(self.lookahead.kind) {
            self.unexpected("extraneous", &expected);
            return self.advance();
        }
        self.unexpected("mismatched", &expected);
        Err(ParseAborted)
    }

    // Grammar.

    fn expr(&mut self) -> ParseResult {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep(self.token.start));
        }
        let condition = self.logic()?;
        let at = self.token.start;
        let expr = if self.accept("?")? { self.ternary(at, condition)? } else { condition };
        self.depth -= 1;
        Ok(expr)
    }

    fn ternary(&mut self, at: usize, condition: Expr) -> ParseResult {
        self.closers.push(&[":"]);
        let yes = self.logic()?;
        self.expect(":")?;
        self.closers.pop();
        let no = self.expr()?;
        let inner = condition.depth.max(yes.depth).max(no.depth);
        self.node(at, inner, Node::Ternary(Box::new(condition), Box::new(yes), Box::new(no)))
    }

    /// Returns an expression within signs that may follow it.
    fn expr_within(&mut self, closers: &'static [&'static str]) -> ParseResult {
        self.closers.push(closers);
        let expr = self.expr()?;
        self.closers.pop();
        Ok(expr)
    }

    /// Chains of `||` and, within them, of `&&`; in one function, because it is on the stack once
    /// for every level.
    fn logic(&mut self) -> ParseResult {
        let mut any = TermChain::default();
        let mut all = TermChain::default();
        loop {
            let start = self.token.start;
            let expr = self.operation(1)?;
            all.terms.push(Term { start, end: self.previous_end, expr });
            let at = self.token.start;
            if self.accept("&&")? {
                all.signs.push(at);
                continue;
            }
            any.terms.push(self.chain(true, std::mem::take(&mut all))?);
            if !self.accept("||")? {
                return Ok(self.chain(false, any)?.expr);
            }
            any.signs.push(at);
        }
    }

    /// Returns the terms of a chain, or the only one.
    fn chain(&mut self, is_and: bool, chain: TermChain) -> Result<Term, ParseAborted> {
        let TermChain { mut terms, signs } = chain;
        let Some(last) = terms.pop() else { return Err(ParseAborted) };
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
    fn operation(&mut self, least: u8) -> ParseResult {
        let mut left = self.unary()?;
        loop {
            let TokenKind::Sign(sign) = self.token.kind else { return Ok(left) };
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

    fn unary(&mut self) -> ParseResult {
        self.expect_start(&[])?;
        let at = self.token.start;
        let is_number = |kind| matches!(kind, TokenKind::Int | TokenKind::Double);
        if self.is_at("-") && is_number(self.lookahead.kind) {
            // The sign belongs to the number.
            return self.member();
        }
        let prefixes: [(&str, UnaryNode); 2] = [("!", Node::Not), ("-", Node::Negate)];
        for (sign, node) in prefixes {
            let mut odd = false;
            let mut last = None;
            while self.is_at(sign) {
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
    fn operand(&mut self, sign: &str, from: usize) -> Result<(), ParseAborted> {
        if sign == "-" && (self.is_at("!") || !can_begin_expr(self.token.kind)) {
            let halt = self.no_alternative(from);
            if self.token.kind == TokenKind::End {
                let _ = self.expect_start(&[]);
            }
            return Err(halt);
        }
        if !can_begin_expr(self.token.kind) {
            self.unexpected("extraneous", &format!("{{{}}}", START_TOKENS.join(", ")));
            return Err(ParseAborted);
        }
        if self.is_at("-") && !matches!(self.lookahead.kind, TokenKind::Int | TokenKind::Double) {
            let from = self.token.start;
            self.advance()?;
            return self.operand("-", from).and_then(|()| Err(self.no_alternative(from)));
        }
        Ok(())
    }

    fn member(&mut self) -> ParseResult {
        // Only names with dots between them can be those of messages.
        let mut path = matches!(self.token.kind, TokenKind::Ident | TokenKind::Sign("."));
        let start = self.token.start;
        let mut expr = self.primary()?;
        path &= matches!(expr.node, Node::Ident { .. });
        loop {
            let at = self.token.start;
            if path && self.is_at("{") {
                let name = self.text.get(start..self.previous_end).unwrap_or_default();
                let name = name.split_ascii_whitespace().collect();
                expr = self.message(at, name)?;
                path = false;
            } else if self.accept(".")? {
                expr = self.selection(at, expr, &mut path)?;
            } else if self.accept("[")? {
                path = false;
                if self.is_at("?") {
                    self.error(at, "unsupported syntax '[?'");
                    self.advance()?;
                }
                self.expect_start(&["?"])?;
                let index = self.expr_within(&["]"])?;
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
    fn selection(&mut self, at: usize, expr: Expr, path: &mut bool) -> ParseResult {
        let optional = self.accept("?")?;
        if optional {
            self.error(at, "unsupported syntax '.?'");
            *path = false;
        }
        let TokenKind::Ident = self.token.kind else {
            let adjacent = at + 1 == self.token.start;
            if let TokenKind::Sign(word @ ("true" | "false" | "null")) = self.token.kind
                && adjacent
            {
                let message =
                    format!("Syntax error: mismatched input '{word}' expecting IDENTIFIER");
                self.error(self.token.start, message);
                return Err(ParseAborted);
            }
            return Err(self.no_alternative(at));
        };
        let field = self.text.get(self.token.start..self.token.end).unwrap_or_default().to_owned();
        self.advance()?;
        let call = self.token.start;
        if !optional && self.accept("(")? {
            *path = false;
            let args = self.arguments()?;
            return self.method(call, expr, field, args);
        }
        let depth = expr.depth;
        self.node(at, depth, Node::Select { operand: Box::new(expr), field, test: false })
    }

    /// Arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Result<Vec<Expr>, ParseAborted> {
        let mut items = Vec::new();
        self.expect_start(&[")"])?;
        if self.accept(")")? {
            return Ok(items);
        }
        loop {
            items.push(self.expr_within(&[",", ")"])?);
            if !self.accept(",")? {
                self.expect(")")?;
                return Ok(items);
            }
        }
    }

    fn max_depth(args: &[Expr]) -> usize {
        args.iter().map(|arg| arg.depth).max().unwrap_or_default()
    }

    /// Returns a call on a value, which may be a macro.
    fn method(&mut self, at: usize, target: Expr, name: String, args: Vec<Expr>) -> ParseResult {
        let inner = target.depth.max(Self::max_depth(&args));
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
            return Err(ParseAborted);
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
                return Ok(Self::placeholder(at));
            }
        };
        let (condition, body) = match third {
            Some(body) => (Some(second), body),
            None => (None, second),
        };
        let comprehension = Comprehension { kind, target, variable, condition, body };
        self.node(at, inner, Node::Comprehension(Box::new(comprehension)))
    }

    fn literal(&mut self) -> ParseResult {
        let at = self.token.start;
        let negative = self.accept("-")?;
        let text = self.text.get(self.token.start..self.token.end).unwrap_or_default();
        let read = match self.token.kind {
            TokenKind::Int => literal::int(text, negative),
            TokenKind::Uint => literal::uint(text),
            TokenKind::Double => literal::double(text, negative),
            TokenKind::Text => literal::text(text),
            TokenKind::Bytes => literal::bytes(text),
            TokenKind::Sign(word @ ("true" | "false")) => Ok(Literal::Bool(word == "true")),
            _ => Ok(Literal::Null),
        };
        self.advance()?;
        match read {
            Ok(literal) => self.node(at, 0, Node::Literal(literal)),
            Err(message) => {
                self.error(at, message);
                Ok(Self::placeholder(at))
            }
        }
    }

    fn primary(&mut self) -> ParseResult {
        let at = self.token.start;
        match self.token.kind {
            TokenKind::Sign("(") => {
                self.advance()?;
                let mut inner = self.expr_within(&[")"])?;
                self.expect(")")?;
                // Parentheses are depth, though nothing is left of them.
                inner.depth += 1;
                Ok(inner)
            }
            TokenKind::Sign("[") => self.list(),
            TokenKind::Sign("{") => self.map(),
            TokenKind::Sign(".") => {
                self.advance()?;
                if self.token.kind != TokenKind::Ident {
                    return Err(self.no_alternative(at));
                }
                self.name(Some(at))
            }
            TokenKind::Ident => self.name(None),
            _ => self.literal(),
        }
    }

    /// Tells that values may not be optional, where one is.
    fn reject_optional(&mut self) -> Result<(), ParseAborted> {
        if self.is_at("?") {
            self.error(self.token.start, "unsupported syntax '?'");
            self.advance()?;
        }
        Ok(())
    }

    fn list(&mut self) -> ParseResult {
        let at = self.token.start;
        self.advance()?;
        self.expect_start(&["]", ",", "?"])?;
        let mut items = Vec::new();
        while !self.is_at("]") && !self.is_at(",") {
            self.reject_optional()?;
            items.push(self.expr_within(&[",", "]"])?);
            self.expect_separator("]")?;
            // A comma before the end belongs to the list.
            let more =
                self.is_at(",") && (can_begin_expr(self.lookahead.kind) || self.is_lookahead("?"));
            if !more {
                break;
            }
            self.advance()?;
        }
        self.accept(",")?;
        self.expect("]")?;
        self.node(at, Self::max_depth(&items), Node::List(items))
    }

    fn is_lookahead(&self, sign: &str) -> bool {
        is_sign(self.lookahead.kind, sign)
    }

    fn map(&mut self) -> ParseResult {
        let at = self.token.start;
        self.advance()?;
        self.expect_start(&["}", ",", "?"])?;
        let mut entries = Vec::new();
        let mut inner = 0;
        while !self.is_at("}") && !self.is_at(",") {
            self.reject_optional()?;
            let key = self.expr_within(&[":"])?;
            self.expect(":")?;
            let value = self.expr_within(&[",", "}"])?;
            inner = inner.max(key.depth).max(value.depth);
            entries.push((key, value));
            self.expect_separator("}")?;
            let more =
                self.is_at(",") && (can_begin_expr(self.lookahead.kind) || self.is_lookahead("?"));
            if !more {
                break;
            }
            self.advance()?;
        }
        self.accept(",")?;
        self.expect("}")?;
        self.node(at, inner, Node::Map(entries))
    }

    /// Fields of a message; their values are read for their syntax only.
    fn message(&mut self, at: usize, name: String) -> ParseResult {
        self.advance()?;
        let mut inner = 0;
        loop {
            if self.is_at("}") || self.is_at(",") {
                break;
            }
            self.reject_optional()?;
            if self.token.kind != TokenKind::Ident {
                let expected = "{'}', ',', '?', IDENTIFIER}";
                let fits = |sign| is_sign(self.lookahead.kind, sign);
                if self.lookahead.kind == TokenKind::Ident || fits("}") || fits(",") || fits("?") {
                    self.unexpected("extraneous", expected);
                    self.advance()?;
                    continue;
                }
                self.unexpected("mismatched", expected);
                return Err(ParseAborted);
            }
            self.advance()?;
            self.expect(":")?;
            inner = inner.max(self.expr_within(&[",", "}"])?.depth);
            self.expect_separator("}")?;
            if !self.is_at(",")
                || !(self.lookahead.kind == TokenKind::Ident || self.is_lookahead("?"))
            {
                break;
            }
            self.advance()?;
        }
        self.accept(",")?;
        self.expect("}")?;
        self.node(at, inner, Node::Message(name))
    }

    /// Parses a name, or a call of a function. `dot` is the position of a preceding dot.
    fn name(&mut self, dot: Option<usize>) -> ParseResult {
        let at = self.token.start;
        let text = self.text;
        let name = text.get(self.token.start..self.token.end).unwrap_or_default();
        let reserved = RESERVED.contains(&name);
        self.advance()?;
        let call = self.token.start;
        let is_call = self.accept("(")?;
        let mut args = if is_call { self.arguments()? } else { Vec::new() };
        if reserved {
            let at = dot.unwrap_or(at);
            self.error(at, format!("reserved identifier: {name}"));
            return Ok(Self::placeholder(at));
        }
        let global = dot.is_some();
        let name = name.to_owned();
        if !is_call {
            return self.node(at, 0, Node::Ident { name, global });
        }
        let inner = Self::max_depth(&args);
        if name == "has" && args.len() == 1 && !global {
            return match args.pop() {
                Some(Expr { node: Node::Select { operand, field, .. }, .. }) => {
                    self.node(call, inner, Node::Select { operand, field, test: true })
                }
                other => {
                    let at = other.map_or(call, |other| other.at);
                    self.error(at, "invalid argument to has() macro");
                    Ok(Self::placeholder(call))
                }
            };
        }
        let name = if global { format!(".{name}") } else { name };
        self.node(call, inner, Node::Call { target: None, name, args })
    }
}

fn is_sign(kind: TokenKind, sign: &str) -> bool {
    matches!(kind, TokenKind::Sign(found) if found == sign)
}

fn operator(sign: &str) -> Option<u8> {
    OPERATORS.into_iter().find(|(known, _)| *known == sign).map(|(_, binding)| binding)
}

/// Reports whether an expression may begin so.
fn can_begin_expr(kind: TokenKind) -> bool {
    match kind {
        TokenKind::End => false,
        TokenKind::Sign(sign) => {
            matches!(sign, "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
        }
        _ => true,
    }
}
