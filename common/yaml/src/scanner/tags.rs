//! Directives, tags, and what they are made of.

use std::borrow::Cow;

use super::{Scanner, Token, is_word};
use crate::error::{Error, Mark};

impl<'y> Scanner<'y> {
    pub(super) fn fetch_directive(&mut self) -> Result<(), Error> {
        self.outdent_to(-1);
        self.drop_candidate()?;
        self.may_be_key = false;
        let mark = self.mark();
        self.skip(1);
        let name = self.word();
        if name.is_empty() {
            return Err(self.error("could not find expected directive name", mark));
        }
        if !self.is_blankz(0) {
            return Err(self.error("found unexpected non-alphabetical character", mark));
        }
        let token = match name {
            "YAML" => {
                self.skip_blanks();
                let major = self.version(mark)?;
                if self.at(0) != b'.' {
                    return Err(self.error("did not find expected digit or '.' character", mark));
                }
                self.skip(1);
                Token::Version { major, minor: self.version(mark)? }
            }
            "TAG" => {
                self.skip_blanks();
                let handle = self.tag_handle(true, mark)?;
                if !self.is_blank(0) {
                    return Err(self.error("did not find expected whitespace", mark));
                }
                self.skip_blanks();
                let prefix = self.tag_uri("", mark)?;
                if !self.is_blankz(0) {
                    return Err(self.error("did not find expected whitespace or line break", mark));
                }
                Token::TagPrefix { handle, prefix }
            }
            _ => return Err(self.error("found unknown directive name", mark)),
        };
        self.end_line(mark)?;
        self.push(token, mark);
        Ok(())
    }

    /// Steps over blanks, a comment and a line break; there is nothing else.
    pub(super) fn end_line(&mut self, context: Mark) -> Result<(), Error> {
        self.skip_blanks();
        self.skip_comment();
        if !self.is_breakz(0) {
            return Err(self.error("did not find expected comment or line break", context));
        }
        self.skip_break();
        Ok(())
    }

    fn version(&mut self, context: Mark) -> Result<u32, Error> {
        let start = self.offset;
        while self.at(0).is_ascii_digit() {
            self.skip(1);
            // The limit is that of upstream's numbers.
            if self.offset - start > 2 {
                return Err(self.error("found extremely long version number", context));
            }
        }
        let number = self.slice(start, self.offset).parse();
        number.map_err(|_| self.error("did not find expected version number", context))
    }

    fn tag_handle(&mut self, is_directive: bool, context: Mark) -> Result<&'y str, Error> {
        const NONE: &str = "did not find expected '!'";
        let start = self.offset;
        if self.at(0) != b'!' {
            return Err(self.error(NONE, context));
        }
        self.skip(1);
        self.word();
        if self.at(0) == b'!' {
            self.skip(1);
        } else if is_directive && self.offset - start > 1 {
            return Err(self.error(NONE, context));
        }
        Ok(self.slice(start, self.offset))
    }

    /// Reads the text after a handle; `head` is the part of it that was read as one.
    fn tag_uri(&mut self, head: &'y str, context: Mark) -> Result<Cow<'y, str>, Error> {
        let start = self.offset;
        let mut escaped: Option<Vec<u8>> = None;
        loop {
            let byte = self.at(0);
            if byte == b'%' {
                let before = self.slice(start, self.offset);
                let hex = self.slice(self.offset + 1, self.offset + 3);
                let octet = u8::from_str_radix(hex, 16).ok().filter(|_| {
                    hex.len() == 2 && hex.bytes().all(|digit| digit.is_ascii_hexdigit())
                });
                let octet =
                    octet.ok_or_else(|| self.error("did not find URI escaped octet", context))?;
                escaped.get_or_insert_with(|| before.as_bytes().to_vec()).push(octet);
                self.skip(3);
            } else if is_word(byte) || b";/?:@&=+$,.!~*'()[]".contains(&byte) {
                if let Some(escaped) = &mut escaped {
                    escaped.push(byte);
                }
                self.skip(1);
            } else {
                break;
            }
        }
        if self.offset == start && head.is_empty() {
            return Err(self.error("did not find expected tag URI", context));
        }
        let head = head.get(1..).unwrap_or_default();
        let text = match escaped {
            None => Cow::Borrowed(self.slice(start, self.offset)),
            Some(bytes) => {
                let wrong = |_| self.error("found an incorrect leading UTF-8 octet", context);
                Cow::Owned(String::from_utf8(bytes).map_err(wrong)?)
            }
        };
        Ok(if head.is_empty() { text } else { Cow::Owned(format!("{head}{text}")) })
    }

    pub(super) fn fetch_tag(&mut self) -> Result<(), Error> {
        let mark = self.mark();
        let token = if self.at(1) == b'<' {
            self.skip(2);
            let suffix = self.tag_uri("", mark)?;
            if self.at(0) != b'>' {
                return Err(self.error("did not find the expected '>'", mark));
            }
            self.skip(1);
            Token::Tag { handle: "", suffix }
        } else {
            let handle = self.tag_handle(false, mark)?;
            if handle.len() > 1 && handle.ends_with('!') {
                Token::Tag { handle, suffix: self.tag_uri("", mark)? }
            } else {
                let suffix = self.tag_uri(handle, mark)?;
                if suffix.is_empty() {
                    Token::Tag { handle: "", suffix: "!".into() }
                } else {
                    Token::Tag { handle: "!", suffix }
                }
            }
        };
        if !self.is_blankz(0) {
            return Err(self.error("did not find expected whitespace or line break", mark));
        }
        self.push(token, mark);
        Ok(())
    }
}
