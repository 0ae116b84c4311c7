//! Addresses of mail as Go's `net/mail` reads them, with its texts.
//!
//! ```text
//! Name <local@domain> (comment)      the name may be quoted, or encoded as RFC 2047 says
//! Group: a@example.com, b@example.com;
//! ```

use super::ip::Ip;
use super::{mime, quote, quote_char};

/// The reason why a text is no address of mail, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(String);

/// The message of a violation is this text.
impl From<AddressError> for String {
    fn from(error: AddressError) -> Self {
        error.0
    }
}

/// Checks as `mail.ParseAddress` whether a text is one address.
///
/// # Errors
/// Go's text.
pub fn check_address(text: &str) -> Result<(), AddressError> {
    let mut parser = Parser { rest: text };
    let count = parser.address(true)?;
    parser.skip_comments()?;
    if !parser.rest.is_empty() {
        return Err(AddressError(format!(
            "mail: expected single address, got {}",
            quote(parser.rest)
        )));
    }
    match count {
        0 => wrong("empty group"),
        1 => Ok(()),
        _ => wrong("group with multiple addresses"),
    }
}

fn wrong<T>(why: &str) -> Result<T, AddressError> {
    Err(AddressError(format!("mail: {why}")))
}

/// Decodes a word; an error is the one of its character set.
fn decode(word: &str) -> Result<Option<String>, AddressError> {
    mime::decode(word).map_err(|why| AddressError(why.to_string()))
}

const COMMENT_ERROR: &str = "misformatted parenthetical comment";

fn is_visible(c: char) -> bool {
    c.is_ascii_graphic() || !c.is_ascii()
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// Reports whether a character belongs to an atom, or is the dot between two.
fn is_atom_char(c: char) -> bool {
    let is_special =
        matches!(c, '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"');
    is_visible(c) && !is_special
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    fn take(&mut self, c: char) -> bool {
        let after = self.rest.strip_prefix(c);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn skip_comments(&mut self) -> Result<(), AddressError> {
        self.skip_space();
        while self.take('(') {
            if self.comment().is_none() {
                return wrong(COMMENT_ERROR);
            }
            self.skip_space();
        }
        Ok(())
    }

    /// Reads one address, or a group if it is allowed. Returns the number of addresses.
    fn address(&mut self, may_be_group: bool) -> Result<usize, AddressError> {
        self.skip_space();
        if self.rest.is_empty() {
            return wrong("no address");
        }
        let start = self.rest;
        if self.spec().is_ok() {
            self.skip_space();
            if self.take('(') {
                self.named_by_comment()?;
            }
            return Ok(1);
        }
        self.rest = start;
        let is_atom = start.starts_with('<') || self.phrase()?;
        self.skip_space();
        if may_be_group && self.take(':') {
            return self.group();
        }
        if !self.take('<') {
            return if is_atom {
                wrong("missing '@' or angle-addr")
            } else {
                wrong("no angle-addr")
            };
        }
        self.spec()?;
        if self.take('>') { Ok(1) } else { wrong("unclosed angle-addr") }
    }

    fn group(&mut self) -> Result<usize, AddressError> {
        self.skip_space();
        if self.take(';') {
            self.skip_comments()?;
            return Ok(0);
        }
        let mut count = 0;
        loop {
            self.skip_space();
            count += self.address(false)?;
            self.skip_comments()?;
            if self.take(';') {
                self.skip_comments()?;
                return Ok(count);
            }
            if !self.take(',') {
                return wrong("expected comma");
            }
        }
    }

    /// Reads `local@domain`.
    fn spec(&mut self) -> Result<(), AddressError> {
        self.skip_space();
        if self.rest.is_empty() {
            return wrong("no addr-spec");
        }
        if self.rest.starts_with('"') {
            if !self.quoted().is_ok_and(|text| !text.is_empty) {
                return wrong("empty quoted string in addr-spec");
            }
        } else {
            self.atom(false)?;
        }
        if !self.take('@') {
            return wrong("missing @ in addr-spec");
        }
        self.skip_space();
        if self.rest.is_empty() {
            return wrong("no domain in addr-spec");
        }
        if self.take('[') { self.literal() } else { self.atom(false).map(drop) }
    }

    /// Returns the words of a name. An error after the first word ends the name. Says whether all of the name
    /// is one atom; what words are encoded one after the other make one word.
    fn phrase(&mut self) -> Result<bool, AddressError> {
        let (mut words, mut is_atom) = (0_usize, true);
        let mut encoded: Option<bool> = None;
        let mut error = None;
        loop {
            if words > 0 {
                self.skip_comments()?;
            }
            self.skip_space();
            if self.rest.is_empty() {
                break;
            }
            // The text of an encoded word, or whether a plain one is an atom.
            let word = if self.rest.starts_with('"') {
                self.quoted().map(|text| Err(text.is_atom))
            } else {
                self.atom(true).and_then(|atom| Ok(decode(atom)?.ok_or(true)))
            };
            match word {
                Ok(Ok(text)) => {
                    if !text.is_empty() {
                        let is_atom = text.chars().all(is_atom_char);
                        encoded = Some(is_atom && encoded.unwrap_or(true));
                    }
                }
                Ok(Err(plain)) => {
                    for word in encoded.take().into_iter().chain([plain]) {
                        words += 1;
                        is_atom &= word;
                    }
                }
                Err(why) => {
                    error = Some(why);
                    break;
                }
            }
        }
        if let Some(word) = encoded {
            words += 1;
            is_atom &= word;
        }
        match error {
            Some(why) if words == 0 => wrong(&format!("missing word in phrase: {why}")),
            // Between two words is a space.
            _ => Ok(is_atom && words < 2),
        }
    }

    /// Reads the text between two quotes, of which the first is next.
    fn quoted(&mut self) -> Result<Quoted, AddressError> {
        let mut text = Quoted { is_empty: true, is_atom: true };
        let mut is_escaped = false;
        for (index, c) in self.rest.char_indices().skip(1) {
            let is_known = is_visible(c) || is_space(c);
            match c {
                '"' if !is_escaped => {
                    self.rest = self.rest.get(index + 1..).unwrap_or_default();
                    return Ok(text);
                }
                '\\' if !is_escaped => is_escaped = true,
                c if is_known => {
                    text = Quoted { is_empty: false, is_atom: text.is_atom && is_atom_char(c) };
                    is_escaped = false;
                }
                c => return wrong(&format!("bad character in quoted-string: {}", quote_char(c))),
            }
        }
        wrong("unclosed quoted-string")
    }

    /// Characters of an atom and dots; in a name they may stand anywhere.
    fn atom(&mut self, is_permissive: bool) -> Result<&'t str, AddressError> {
        let end = self.rest.find(|c| !is_atom_char(c)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        if atom.is_empty() {
            return wrong("invalid string");
        }
        self.rest = rest;
        if is_permissive {
            return Ok(atom);
        }
        if atom.starts_with('.') {
            return wrong("leading dot in atom");
        }
        if atom.contains("..") {
            return wrong("double dot in atom");
        }
        if atom.ends_with('.') {
            return wrong("trailing dot in atom");
        }
        Ok(atom)
    }

    /// Reads an IP address instead of a domain, after the bracket.
    fn literal(&mut self) -> Result<(), AddressError> {
        let is_end = |c| matches!(c, '[' | ']' | '\\') || !is_visible(c);
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        if !self.take(']') {
            return match rest.chars().next() {
                None => wrong("unclosed domain-literal"),
                Some(c) => wrong(&format!("bad character in domain-literal: {}", quote_char(c))),
            };
        }
        match text.strip_prefix("IPv6:") {
            Some(address) if Ip::is_ipv4(address).is_none() => {
                wrong(&format!("invalid IPv6 address in domain-literal: {}", quote(text)))
            }
            None if Ip::is_ipv4(text) != Some(true) => {
                wrong(&format!("invalid IP address in domain-literal: {}", quote(text)))
            }
            _ => Ok(()),
        }
    }

    /// Reads a comment after the address as its name.
    fn named_by_comment(&mut self) -> Result<(), AddressError> {
        let Some(comment) = self.comment() else { return wrong(COMMENT_ERROR) };
        comment.split(is_space).try_for_each(|word| decode(word).map(drop))
    }

    /// Reads the text between two parentheses, of which the first was read; none if the last is missing.
    fn comment(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut depth = 1_usize;
        let mut characters = self.rest.char_indices();
        while let Some((index, c)) = characters.next() {
            match c {
                '\\' => match characters.next() {
                    Some((_, escaped)) => text.push(escaped),
                    None => break,
                },
                '(' => {
                    depth += 1;
                    text.push(c);
                }
                ')' if depth == 1 => {
                    self.rest = self.rest.get(index + 1..).unwrap_or_default();
                    return Some(text);
                }
                ')' => {
                    depth -= 1;
                    text.push(c);
                }
                c => text.push(c),
            }
        }
        None
    }
}

/// A text that was in quotes.
struct Quoted {
    is_empty: bool,
    is_atom: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_valid_in_go_are_accepted() {
        for text in [
            "jdoe@machine.example",
            " \tjdoe@machine.example",
            "John Doe <jdoe@machine.example>",
            "<jdoe@machine.example>",
            "\"Joe \\\"Q.\\\" Public\" <john.q.public@example.com>",
            "John (middle) Doe <jdoe@machine.example>",
            "jdoe@machine.example (John Doe) (again)",
            "\"john doe\"@example.com",
            "A. . Person <a@b>",
            "=?iso-8859-1?q?J=F6rg_Doe?= <joerg@example.com>",
            "=?utf-8?b?SsO2cmc=?= =?us-ascii?q?Doe=e9?= <joerg@example.com>",
            "Jörg <jörg@exämple.com>",
            "cfws@example.com (CFWS (cfws)) \t (another\\) one)",
            "dev@[192.168.0.1]",
            "dev@[::ffff:1.2.3.4]",
            "dev@[IPv6:::1]",
            "A group: one@example.com;",
            "A group: One <one@example.com> (x); (y)",
        ] {
            assert_eq!(check_address(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn errors_match_go() {
        for (text, error) in [
            ("", "mail: no address"),
            (" \t", "mail: no address"),
            ("invalidemail", "mail: missing '@' or angle-addr"),
            ("foo.bar", "mail: missing '@' or angle-addr"),
            ("John Doe", "mail: no angle-addr"),
            ("=?utf-8?q?a_b?=", "mail: no angle-addr"),
            ("@example.com", "mail: missing word in phrase: mail: invalid string"),
            ("cfws@example.com (", "mail: misformatted parenthetical comment"),
            ("cfws@example.com (a\\)", "mail: misformatted parenthetical comment"),
            ("a@b c", "mail: expected single address, got \"c\""),
            ("jdoe@[[192.168.0.1]", "mail: missing '@' or angle-addr"),
            ("<jdoe@[[192.168.0.1]>", "mail: bad character in domain-literal: '['"),
            ("<jdoe@[192.168.0.1", "mail: unclosed domain-literal"),
            ("<jdoe@[1.2.3]>", "mail: invalid IP address in domain-literal: \"1.2.3\""),
            ("<jdoe@[::1]>", "mail: invalid IP address in domain-literal: \"::1\""),
            ("<jdoe@[IPv6:x]>", "mail: invalid IPv6 address in domain-literal: \"IPv6:x\""),
            ("<jdoe@b", "mail: unclosed angle-addr"),
            ("<jdoe>", "mail: missing @ in addr-spec"),
            ("<jdoe@", "mail: no domain in addr-spec"),
            ("<", "mail: no addr-spec"),
            ("<.a@b>", "mail: leading dot in atom"),
            ("<a..b@c>", "mail: double dot in atom"),
            ("<a@b.>", "mail: trailing dot in atom"),
            ("<\"\"@b>", "mail: empty quoted string in addr-spec"),
            (
                "\"\\\u{1}\" <a@b>",
                "mail: missing word in phrase: mail: bad character in quoted-string: '\\x01'",
            ),
            ("\"Jo", "mail: missing word in phrase: mail: unclosed quoted-string"),
            (
                "=?windows-1250?q?a?= <a@b>",
                "mail: missing word in phrase: charset not supported: \"windows-1250\"",
            ),
            ("a@b (=?X?q?a?=)", "charset not supported: \"x\""),
            ("empty group: ;", "mail: empty group"),
            ("root group: embed group: null@example.com;", "mail: no angle-addr"),
            ("group: one@b two@c;", "mail: expected comma"),
            ("group: one@b, two@c;", "mail: group with multiple addresses"),
        ] {
            assert_eq!(check_address(text).unwrap_err().to_string(), error, "{text}");
        }
    }
}
