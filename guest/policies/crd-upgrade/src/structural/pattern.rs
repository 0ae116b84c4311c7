//! The syntax of patterns in Go's `regexp`.
//!
//! The API server compiles each `pattern` with Go. No other library has its syntax: `\<` and `{`
//! are literals there, `\pL` is supported, and `(?=` is not. Only the syntax is checked, in one
//! pass. Uncertain parts are accepted: names of classes of Unicode, and the size of a compiled
//! pattern.

use std::iter::Peekable;
use std::str::CharIndices;

use opgate_compat::go::shorten;

/// The names of classes in `[[:alpha:]]`.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// The maximum count of a repetition.
const MAX_REPEAT: u32 = 1_000;

/// The maximum size of a part of a pattern in a message, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

/// Go's error for a pattern.
pub(super) fn pattern_error(pattern: &str) -> Option<String> {
    let mut reader = Reader { text: pattern, chars: pattern.char_indices().peekable() };
    reader.read().err().map(|(what, part)| {
        format!("error parsing regexp: {what}: `{}`", shorten(part, MAX_SHOWN_BYTES))
    })
}

type PatternError<'p> = (&'static str, &'p str);

struct Reader<'p> {
    text: &'p str,
    chars: Peekable<CharIndices<'p>>,
}

/// The operand of a repetition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    None,
    Expression,
    /// A repetition that starts here.
    Repetition(usize),
}

impl<'p> Reader<'p> {
    fn at(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, c)| *c)
    }

    fn next(&mut self) -> Option<char> {
        self.chars.next().map(|(_, c)| c)
    }

    fn consume_if(&mut self, wanted: char) -> bool {
        self.chars.next_if(|(_, c)| *c == wanted).is_some()
    }

    fn rest(&mut self) -> &'p str {
        let at = self.at();
        self.text.get(at..).unwrap_or_default()
    }

    fn since(&mut self, start: usize) -> &'p str {
        let end = self.at();
        self.text.get(start..end).unwrap_or_default()
    }

    fn skip(&mut self, bytes: usize) {
        let end = self.at().saturating_add(bytes);
        while self.chars.next_if(|(at, _)| *at < end).is_some() {}
    }

    fn read(&mut self) -> Result<(), PatternError<'p>> {
        let mut depth = 0_usize;
        let mut before = Operand::None;
        loop {
            let start = self.at();
            let Some(c) = self.next() else { break };
            before = match c {
                '(' if self.peek() == Some('?') => {
                    if self.flags(start)? {
                        depth = depth.saturating_add(1);
                        Operand::None
                    } else if before == Operand::None {
                        Operand::None
                    } else {
                        Operand::Expression
                    }
                }
                '(' => {
                    depth = depth.saturating_add(1);
                    Operand::None
                }
                ')' => {
                    depth = depth.checked_sub(1).ok_or(("unexpected )", self.text))?;
                    Operand::Expression
                }
                '|' => Operand::None,
                '[' => {
                    self.class(start)?;
                    Operand::Expression
                }
                '*' | '+' | '?' => self.repetition(start, before)?,
                '{' if self.count(start)? => self.repetition(start, before)?,
                '\\' => {
                    self.escape_outside(start)?;
                    Operand::Expression
                }
                _ => Operand::Expression,
            };
        }
        if depth > 0 { Err(("missing closing )", self.text)) } else { Ok(()) }
    }

    /// A repetition whose operator has been read.
    fn repetition(&mut self, start: usize, before: Operand) -> Result<Operand, PatternError<'p>> {
        match before {
            Operand::None => Err(("missing argument to repetition operator", self.since(start))),
            Operand::Repetition(first) => {
                self.consume_if('?');
                Err(("invalid nested repetition operator", self.since(first)))
            }
            Operand::Expression => {
                self.consume_if('?');
                Ok(Operand::Repetition(start))
            }
        }
    }

    /// After `{`: reads the rest of `{2,5}`, unless the brace is a literal.
    fn count(&mut self, start: usize) -> Result<bool, PatternError<'p>> {
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(false);
        }
        // No two numbers are longer, and a search to the end for each brace would be quadratic.
        let near = rest.get(..rest.floor_char_boundary(48)).unwrap_or(rest);
        let Some((inner, _)) = near.split_once('}') else { return Ok(false) };
        let number = |text: &str| {
            let is_number = !text.is_empty()
                && text.len() < 20
                && text.bytes().all(|byte| byte.is_ascii_digit())
                && (text.len() == 1 || !text.starts_with('0'));
            is_number.then(|| text.parse::<u32>().unwrap_or(u32::MAX))
        };
        let (min, max) = match inner.split_once(',') {
            None => (number(inner), number(inner)),
            Some((min, "")) => (number(min), number(min)),
            Some((min, max)) => (number(min), number(max)),
        };
        let (Some(min), Some(max)) = (min, max) else { return Ok(false) };
        self.skip(inner.len().saturating_add(1));
        if max > MAX_REPEAT || min > max {
            return Err(("invalid repeat count", self.since(start)));
        }
        Ok(true)
    }

    /// At the `?` of `(?`. Whether a group opens.
    fn flags(&mut self, start: usize) -> Result<bool, PatternError<'p>> {
        self.next();
        let rest = self.rest();
        if let Some(named) = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<')) {
            let name = named.split_once('>').map(|(name, _)| name);
            let is_name = |name: &&str| {
                !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
            };
            let Some(name) = name.filter(is_name) else {
                let rest = self.text.get(start..).unwrap_or_default();
                // Also a lookbehind: `(?<=`.
                let end = rest.find('>').map_or(rest.len(), |at| at.saturating_add(1));
                return Err(("invalid named capture", rest.get(..end).unwrap_or(rest)));
            };
            let prefix = rest.len().saturating_sub(named.len());
            self.skip(prefix.saturating_add(name.len()).saturating_add(1));
            return Ok(true);
        }
        let (mut is_negative, mut has_flag) = (false, false);
        loop {
            match self.next() {
                Some('i' | 'm' | 's' | 'U') => has_flag = true,
                Some('-') if !is_negative => (is_negative, has_flag) = (true, false),
                Some(end @ (':' | ')')) if !is_negative || has_flag => return Ok(end == ':'),
                None => return Err(("missing closing )", self.text)),
                Some(_) => {
                    return Err(("invalid or unsupported Perl syntax", self.since(start)));
                }
            }
        }
    }

    /// After a backslash, outside of a class.
    fn escape_outside(&mut self, start: usize) -> Result<(), PatternError<'p>> {
        match self.peek() {
            Some('A' | 'b' | 'B' | 'z' | 'd' | 's' | 'w' | 'D' | 'S' | 'W') => {
                self.next();
                Ok(())
            }
            Some('Q') => {
                let rest = self.rest();
                let length = rest.find("\\E").map_or(rest.len(), |at| at.saturating_add(2));
                self.skip(length);
                Ok(())
            }
            Some('p' | 'P') => self.unicode(start),
            _ => self.escape(start).map(drop),
        }
    }

    /// After a backslash: a class of Unicode.
    fn unicode(&mut self, start: usize) -> Result<(), PatternError<'p>> {
        self.next();
        match self.next() {
            Some('{') => {
                let rest = self.rest();
                let Some(end) = rest.find('}') else {
                    return Err(("invalid character class range", self.from(start)));
                };
                self.skip(end.saturating_add(1));
                Ok(())
            }
            Some(_) => Ok(()),
            None => Err(("invalid character class range", self.from(start))),
        }
    }

    fn from(&self, start: usize) -> &'p str {
        self.text.get(start..).unwrap_or_default()
    }

    /// After a backslash: one character.
    fn escape(&mut self, start: usize) -> Result<u32, PatternError<'p>> {
        let Some(c) = self.next() else {
            return Err(("trailing backslash at end of expression", ""));
        };
        let is_octal = |c: Option<char>| c.is_some_and(|c| c.is_digit(8));
        match c {
            '1'..='7' if !is_octal(self.peek()) => {}
            '0'..='7' => {
                let mut value = c.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    if let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) {
                        value = value * 8 + digit;
                        self.next();
                    }
                }
                return Ok(value);
            }
            'x' => {
                if let Some(value) = self.hexadecimal() {
                    return Ok(value);
                }
            }
            'a' => return Ok(7),
            'f' => return Ok(12),
            'n' => return Ok(10),
            'r' => return Ok(13),
            't' => return Ok(9),
            'v' => return Ok(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => return Ok(u32::from(c)),
            _ => {}
        }
        Err(("invalid escape sequence", self.since(start)))
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let digits: String = if self.consume_if('{') {
            let rest = self.rest();
            let end = rest.find('}')?;
            self.skip(end.saturating_add(1));
            rest.get(..end)?.to_owned()
        } else {
            [self.next()?, self.next()?].iter().collect()
        };
        let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
        let value = u32::from_str_radix(&digits, 16).ok().filter(|_| is_number)?;
        (value <= u32::from(char::MAX)).then_some(value)
    }

    /// After `[`.
    fn class(&mut self, start: usize) -> Result<(), PatternError<'p>> {
        self.consume_if('^');
        let mut is_first = true;
        loop {
            let at = self.at();
            match self.peek() {
                None => return Err(("missing closing ]", self.from(start))),
                Some(']') if !is_first => {
                    self.next();
                    return Ok(());
                }
                _ => is_first = false,
            }
            if self.named_class(at)? {
                continue;
            }
            let rest = self.rest();
            if rest.starts_with("\\p") || rest.starts_with("\\P") {
                self.next();
                self.unicode(at)?;
                continue;
            }
            if rest.starts_with('\\') && rest.get(1..2).is_some_and(|c| "dswDSW".contains(c)) {
                self.skip(2);
                continue;
            }
            let low = self.class_character(start)?;
            let rest = self.rest();
            if rest.len() >= 2 && rest.starts_with('-') && !rest.starts_with("-]") {
                self.next();
                let high = self.class_character(start)?;
                if high < low {
                    return Err(("invalid character class range", self.since(at)));
                }
            }
        }
    }

    /// `[:alpha:]`, if it starts here.
    fn named_class(&mut self, at: usize) -> Result<bool, PatternError<'p>> {
        let rest = self.rest();
        let Some(inner) = rest.strip_prefix("[:") else { return Ok(false) };
        if !inner.starts_with(|c: char| c == '^' || c.is_ascii_alphabetic()) {
            return Ok(false);
        }
        // No name is longer, and a search to the end for each bracket would be quadratic.
        let near = inner.get(..inner.floor_char_boundary(64)).unwrap_or(inner);
        let Some((name, _)) = near.split_once(":]") else { return Ok(false) };
        self.skip(name.len().saturating_add(4));
        if CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            Ok(true)
        } else {
            Err(("invalid character class range", self.since(at)))
        }
    }

    fn class_character(&mut self, class: usize) -> Result<u32, PatternError<'p>> {
        let at = self.at();
        match self.next() {
            None => Err(("missing closing ]", self.from(class))),
            Some('\\') => self.escape(at),
            Some(c) => Ok(u32::from(c)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_go_are_accepted() {
        for pattern in [
            "",
            "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
            r"\pL\p{Greek}\P{^Lu}[\p{L}\d_\-]",
            r"a{,5}|${var}|{|a{x}|a{01}|a{2}?|a{0,1000}",
            r"(?i)abc(?-s:.)(?P<name>x)(?<other>y)(?i:z)",
            r"[]a][^]a][a-][-a][[][[:alpha:][:^digit:]]",
            r"\Q(*[\E\x41\x{10FFFF}\07\123\n\/\-\_\<",
            r"^*$+\b?|a|",
            r"()*|(a|b)+?",
            "é{2}[à-ü]",
        ] {
            assert_eq!(pattern_error(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn other_patterns_are_refused_in_the_words_of_go() {
        for (pattern, expected) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("a[b", "missing closing ]: `[b`"),
            ("[a", "missing closing ]: `[a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a|+", "missing argument to repetition operator: `+`"),
            ("(?i)*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\i", r"invalid escape sequence: `\i`"),
            (r"[\b]", r"invalid escape sequence: `\b`"),
            (r"\x{110000}", r"invalid escape sequence: `\x{110000}`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("^(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=a)", "invalid named capture: `(?<=a)`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:letter:]]", "invalid character class range: `[:letter:]`"),
            (r"\p{", r"invalid character class range: `\p{`"),
        ] {
            let expected = format!("error parsing regexp: {expected}");
            assert_eq!(pattern_error(pattern), Some(expected), "{pattern}");
        }
    }

    #[test]
    fn long_patterns_take_time_in_proportion() {
        for part in ["[[:", "(?i)", "{", "a{1", r"\Q", "[a-", "(?<"] {
            let _ = pattern_error(&part.repeat(100_000));
        }
    }
}
