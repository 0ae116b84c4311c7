//! Scalars: plain ones, quoted ones, and blocks.

use std::borrow::Cow;

use super::{Scanner, Style, Token, signed};
use crate::error::{Error, Mark};

impl<'y> Scanner<'y> {
    pub(super) fn fetch_block_scalar(&mut self, is_literal: bool) -> Result<(), Error> {
        let mark = self.mark();
        self.skip(1);
        let (mut keep, mut strip, mut increment) = (false, false, 0);
        for _ in 0..2 {
            match self.at(0) {
                b'+' | b'-' if !keep && !strip => {
                    (keep, strip) = (self.at(0) == b'+', self.at(0) == b'-');
                    self.skip(1);
                }
                b'0' if increment == 0 => {
                    return Err(self.error("found an indentation indicator equal to 0", mark));
                }
                digit @ b'1'..=b'9' if increment == 0 => {
                    increment = signed(usize::from(digit - b'0'));
                    self.skip(1);
                }
                _ => break,
            }
        }
        let mut end = self.offset;
        self.end_line(mark)?;
        let mut indent = if increment > 0 { self.indent.max(0) + increment } else { 0 };
        let mut text = String::new();
        let mut last_break = "";
        let mut breaks = String::new();
        self.block_breaks(&mut indent, &mut breaks, mark)?;
        let mut after_blank = false;
        while signed(self.column()) == indent && !self.is_end() {
            let is_blank = self.is_blank(0);
            if !is_literal && last_break.starts_with('\n') && !after_blank && !is_blank {
                if breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(last_break);
            }
            text.push_str(&breaks);
            breaks.clear();
            after_blank = is_blank;
            let start = self.offset;
            self.skip_line();
            text.push_str(self.slice(start, self.offset));
            end = self.offset;
            last_break = self.skip_break();
            self.block_breaks(&mut indent, &mut breaks, mark)?;
        }
        if !strip {
            text.push_str(last_break);
        }
        if keep {
            text.push_str(&breaks);
            // Empty lines are part of it.
            end = self.line_start.saturating_sub(1).max(end);
        }
        let style = if is_literal { Style::Literal } else { Style::Folded };
        self.push(Token::Scalar { text: text.into(), style, end }, mark);
        Ok(())
    }

    /// Reads empty lines, and the indentation of the next one, which determines that of the scalar.
    fn block_breaks(
        &mut self,
        indent: &mut isize,
        breaks: &mut String,
        context: Mark,
    ) -> Result<(), Error> {
        let mut most = 0;
        loop {
            while (*indent == 0 || signed(self.column()) < *indent) && self.at(0) == b' ' {
                self.skip(1);
            }
            let column = signed(self.column());
            most = column.max(most);
            if (*indent == 0 || column < *indent) && self.at(0) == b'\t' {
                let why = "found a tab character where an indentation space is expected";
                return Err(self.error(why, context));
            }
            if !self.is_break(0) {
                break;
            }
            breaks.push_str(self.skip_break());
        }
        if *indent == 0 {
            *indent = most.max(self.indent + 1).max(1);
        }
        Ok(())
    }

    pub(super) fn fetch_quoted(&mut self, quote: u8) -> Result<(), Error> {
        let mark = self.mark();
        self.skip(1);
        let text = match self.quoted_line(quote) {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(self.quoted_lines(quote, mark)?),
        };
        self.push(Token::Scalar { text, style: Style::Quoted, end: self.offset }, mark);
        Ok(())
    }

    /// Reads the text between quotes on one line, without any escapes.
    fn quoted_line(&mut self, quote: u8) -> Option<&'y str> {
        let rest = self.rest();
        let escape = if quote == b'"' { b'\\' } else { b'\n' };
        let end = memchr::memchr3(quote, escape, b'\n', rest)?;
        if rest.get(end) != Some(&quote)
            || quote == b'\'' && rest.get(end + 1) == Some(&quote)
            || memchr::memchr(b'\r', rest.get(..end)?).is_some()
            || self.has_odd_breaks
        {
            return None;
        }
        let text = self.slice(self.offset, self.offset + end);
        self.skip(end + 1);
        Some(text)
    }

    fn quoted_lines(&mut self, quote: u8, context: Mark) -> Result<String, Error> {
        let is_single = quote == b'\'';
        let mut text = String::new();
        loop {
            if self.is_any_marker() {
                return Err(self.error("found unexpected document indicator", context));
            }
            if self.is_end() {
                return Err(self.error("found unexpected end of stream", context));
            }
            let mut joins = false;
            while !self.is_blankz(0) {
                let byte = self.at(0);
                if is_single && byte == quote && self.at(1) == quote {
                    text.push('\'');
                    self.skip(2);
                } else if byte == quote {
                    break;
                } else if !is_single && byte == b'\\' && self.is_break(1) {
                    self.skip(1);
                    self.skip_break();
                    joins = true;
                    break;
                } else if !is_single && byte == b'\\' {
                    let c = self.escape(context)?;
                    text.push(c);
                } else {
                    let start = self.offset;
                    self.skip(1);
                    let is_end = |byte: u8| {
                        matches!(
                            byte,
                            b'\\' | b'\'' | b'"' | b' ' | b'\t' | b'\n' | b'\r' | 0xc2 | 0xe2
                        )
                    };
                    let more = self.rest().iter().position(|byte| is_end(*byte));
                    self.offset += more.unwrap_or(self.rest().len());
                    text.push_str(self.slice(start, self.offset));
                }
            }
            if self.at(0) == quote && !self.is_end() {
                self.skip(1);
                return Ok(text);
            }
            let start = self.offset;
            let (mut blanks, mut first, mut breaks) = (start..start, "", String::new());
            loop {
                if self.is_blank(0) {
                    self.skip(1);
                    if !joins {
                        blanks.end = self.offset;
                    }
                } else if self.is_break(0) {
                    if joins {
                        breaks.push_str(self.skip_break());
                    } else {
                        blanks.end = blanks.start;
                        first = self.skip_break();
                        joins = true;
                    }
                } else {
                    break;
                }
            }
            if joins {
                fold(&mut text, first, &breaks);
            } else {
                text.push_str(self.slice(blanks.start, blanks.end));
            }
        }
    }

    /// Returns a character that is written with `\`.
    fn escape(&mut self, context: Mark) -> Result<char, Error> {
        let (c, digits) = match self.at(1) {
            b'0' => ('\0', 0),
            b'a' => ('\u{7}', 0),
            b'b' => ('\u{8}', 0),
            b't' | b'\t' => ('\t', 0),
            b'n' => ('\n', 0),
            b'v' => ('\u{b}', 0),
            b'f' => ('\u{c}', 0),
            b'r' => ('\r', 0),
            b'e' => ('\u{1b}', 0),
            b' ' => (' ', 0),
            b'"' => ('"', 0),
            b'\'' => ('\'', 0),
            b'\\' => ('\\', 0),
            b'N' => ('\u{85}', 0),
            b'_' => ('\u{a0}', 0),
            b'L' => ('\u{2028}', 0),
            b'P' => ('\u{2029}', 0),
            b'x' => ('\0', 2),
            b'u' => ('\0', 4),
            b'U' => ('\0', 8),
            _ => return Err(self.error("found unknown escape character", context)),
        };
        self.skip(2);
        if digits == 0 {
            return Ok(c);
        }
        let hex = self.slice(self.offset, self.offset + digits);
        if hex.len() < digits || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(self.error("did not find expected hexdecimal number", context));
        }
        let c = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
        let c =
            c.ok_or_else(|| self.error("found invalid Unicode character escape code", context))?;
        self.skip(digits);
        Ok(c)
    }

    pub(super) fn fetch_plain(&mut self) -> Result<(), Error> {
        let mark = self.mark();
        let indent = self.indent + 1;
        let in_flow = self.flow_level > 0;
        // The range that is not yet in `text`.
        let (mut from, mut to) = (self.offset, self.offset);
        let mut text = String::new();
        let mut after_break = false;
        let (mut first, mut breaks) = ("", String::new());
        while !self.is_any_marker() && self.at(0) != b'#' {
            if !self.is_blankz(0) && !self.ends_plain(in_flow) {
                if after_break {
                    text.push_str(self.slice(from, to));
                    fold(&mut text, first, &breaks);
                    breaks.clear();
                    (from, after_break) = (self.offset, false);
                }
                self.skip_plain(in_flow);
                to = self.offset;
            }
            if !(self.is_blank(0) || self.is_break(0)) {
                break;
            }
            loop {
                if self.is_blank(0) {
                    if after_break && signed(self.column()) < indent && self.at(0) == b'\t' {
                        let why = "found a tab character that violates indentation";
                        return Err(self.error(why, mark));
                    }
                    self.skip(1);
                } else if self.is_break(0) {
                    if after_break {
                        breaks.push_str(self.skip_break());
                    } else {
                        first = self.skip_break();
                        after_break = true;
                    }
                } else {
                    break;
                }
            }
            if !in_flow && signed(self.column()) < indent {
                break;
            }
        }
        self.may_be_key |= after_break;
        let rest = self.slice(from, to);
        let text = if text.is_empty() { Cow::Borrowed(rest) } else { Cow::Owned(text + rest) };
        self.push(Token::Scalar { text, style: Style::Plain, end: to }, mark);
        Ok(())
    }

    fn ends_plain(&self, in_flow: bool) -> bool {
        match self.at(0) {
            b':' => self.is_blankz(1),
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => in_flow,
            _ => false,
        }
    }

    /// Steps to the end of a word of a plain scalar.
    fn skip_plain(&mut self, in_flow: bool) {
        while !self.is_blankz(0) && !self.ends_plain(in_flow) {
            self.skip(1);
            let is_special = |byte: &u8| {
                matches!(
                    byte,
                    b' ' | b'\t'
                        | b'\n'
                        | b'\r'
                        | b':'
                        | b','
                        | b'?'
                        | b'['
                        | b']'
                        | b'{'
                        | b'}'
                        | 0xc2
                        | 0xe2
                )
            };
            let more = self.rest().iter().position(is_special);
            self.offset += more.unwrap_or(self.rest().len());
        }
    }
}

/// Joins two lines of a scalar.
fn fold(text: &mut String, first: &str, more: &str) {
    if first.starts_with('\n') {
        text.push_str(if more.is_empty() { " " } else { more });
    } else {
        text.push_str(first);
        text.push_str(more);
    }
}
