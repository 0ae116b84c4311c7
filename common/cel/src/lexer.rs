//! Tokens of an expression, as cel-go's lexer cuts them.
//!
//! The longest token wins. The start of an incomplete token is reported, up to the first character that does
//! not fit, and skipped; reading continues after it.

use super::Error;
use opgate_compat::go::shorten;

/// Bytes of a token that a message repeats.
pub(super) const MAX_SHOWN_BYTES: usize = 240;

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    End,
    Ident,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    /// An operator, a bracket or a word of the language.
    Sign(&'static str),
}

/// A token, and where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Longer ones first.
const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "(", ")", "[", "]", "{", "}", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];
/// These alone are no token, but begin one.
const SIGN_PREFIXES: [char; 3] = ['=', '&', '|'];
/// Words that are no names.
const KEYWORDS: [&str; 4] = ["in", "true", "false", "null"];

/// The tokens of a text, one after the other.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the next token. Invalid text is added to `wrong`.
    pub(super) fn next(&mut self, errors: &mut Vec<Error>) -> Token {
        loop {
            self.skip_trivia();
            let start = self.at;
            match token(self.rest()) {
                Ok((kind, length)) => {
                    self.at += length;
                    return Token { kind, start, end: self.at };
                }
                Err(length) => {
                    self.at += length;
                    let found = self.text.get(start..self.at).unwrap_or_default();
                    let found = shorten(found, MAX_SHOWN_BYTES);
                    let message = format!("Syntax error: token recognition error at: '{found}'");
                    errors.push(Error { at: start, message });
                }
            }
        }
    }

    /// Goes past white space and comments.
    fn skip_trivia(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }
}

/// A token, or how much of the text is none.
type LexResult = Result<(TokenKind, usize), usize>;

fn token(rest: &str) -> LexResult {
    let mut chars = rest.chars();
    let Some(first) = chars.next() else { return Ok((TokenKind::End, 0)) };
    let second = chars.next();
    if first.is_ascii_digit() || first == '.' && second.is_some_and(|c| c.is_ascii_digit()) {
        return Ok(number(rest));
    }
    if matches!(first, '"' | '\'') {
        return string(rest, false).map(|length| (TokenKind::Text, length));
    }
    // Letters before a string count if the string is whole; otherwise they are a name.
    if let Some(found) = prefixed_string(rest) {
        return Ok(found);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let name = rest.get(..length).unwrap_or_default();
        let kind =
            KEYWORDS.into_iter().find(|w| *w == name).map_or(TokenKind::Ident, TokenKind::Sign);
        return Ok((kind, length));
    }
    if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(*sign)) {
        return Ok((TokenKind::Sign(sign), sign.len()));
    }
    let and_next = second.filter(|_| SIGN_PREFIXES.contains(&first)).map_or(0, char::len_utf8);
    Err(first.len_utf8() + and_next)
}

/// Returns a string with `r`, `b` or both before it.
fn prefixed_string(rest: &str) -> Option<(TokenKind, usize)> {
    let (kind, after) = match rest.strip_prefix(['b', 'B']) {
        Some(after) => (TokenKind::Bytes, after),
        None => (TokenKind::Text, rest),
    };
    let raw = after.strip_prefix(['r', 'R']);
    let quoted = raw.unwrap_or(after);
    let prefix = rest.len() - quoted.len();
    if prefix == 0 || !quoted.starts_with(['"', '\'']) {
        return None;
    }
    string(quoted, raw.is_some()).ok().map(|length| (kind, prefix + length))
}

/// Returns the length of a string with its quotes, or that of what cannot be one.
fn string(rest: &str, raw: bool) -> Result<usize, usize> {
    let single = if rest.starts_with('"') { "\"" } else { "'" };
    let triple = if single == "\"" { "\"\"\"" } else { "'''" };
    if rest.starts_with(triple) {
        // If the long quote is not closed, there is an empty string with short quotes.
        return Ok(string_body(rest, triple, raw).unwrap_or(2));
    }
    string_body(rest, single, raw)
}

fn string_body(rest: &str, quote: &str, raw: bool) -> Result<usize, usize> {
    let inner = rest.get(quote.len()..).unwrap_or_default();
    let mut chars = inner.char_indices();
    let fails = |at: usize, c: char| quote.len() + at + c.len_utf8();
    loop {
        let (at, c) = chars.next().ok_or(rest.len())?;
        if inner.get(at..).is_some_and(|rest| rest.starts_with(quote)) {
            return Ok(quote.len() + at + quote.len());
        }
        match c {
            '\\' if !raw => {
                let (at, escaped) = chars.next().ok_or(rest.len())?;
                let (digits, radix) = match escaped {
                    'x' | 'X' => (2, 16),
                    'u' => (4, 16),
                    'U' => (8, 16),
                    '0'..='3' => (2, 8),
                    'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => {
                        (0, 16)
                    }
                    _ => return Err(fails(at, escaped)),
                };
                for _ in 0..digits {
                    let (at, digit) = chars.next().ok_or(rest.len())?;
                    if !digit.is_digit(radix) {
                        return Err(fails(at, digit));
                    }
                }
            }
            '\n' | '\r' if quote.len() == 1 => return Err(fails(at, c)),
            _ => {}
        }
    }
}

fn number(text: &str) -> (TokenKind, usize) {
    let run = |from: usize, is: fn(&u8) -> bool| {
        text.as_bytes().iter().skip(from).take_while(|byte| is(byte)).count()
    };
    let digits = |from: usize| run(from, u8::is_ascii_digit);
    let byte = |at: usize| text.as_bytes().get(at).copied().unwrap_or_default();
    let mut kind = TokenKind::Int;
    let mut end;
    if text.starts_with("0x") && byte(2).is_ascii_hexdigit() {
        end = 2 + run(2, u8::is_ascii_hexdigit);
    } else {
        end = digits(0);
        if byte(end) == b'.' && byte(end + 1).is_ascii_digit() {
            kind = TokenKind::Double;
            end += 1;
            end += digits(end);
        }
        if matches!(byte(end), b'e' | b'E') {
            let sign = usize::from(matches!(byte(end + 1), b'+' | b'-'));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                kind = TokenKind::Double;
                end += 1 + sign + exponent;
            }
        }
    }
    if kind == TokenKind::Int && matches!(byte(end), b'u' | b'U') {
        return (TokenKind::Uint, end + 1);
    }
    (kind, end)
}
