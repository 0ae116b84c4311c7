//! Output that terminals and runners of CI jobs treat as text only.
//!
//! Runners read what a job prints, and act on lines in it: `::error::` at the beginning of a line (GitHub), `##[group]`
//! and `##vso[task.setvariable]` anywhere (GitHub, Azure), `##teamcity[…]` anywhere, and sections that a carriage return
//! and an escape sequence end (GitLab). Terminals act on control characters. The output of opgate contains names of
//! files, objects and users, which untrusted users choose. Therefore all output passes through [`Printed`], the last
//! step before the stream: no line of it is a command, whatever the code above it prints.

use std::io;

use crate::is_control;

/// The language of an output, which decides how a character is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people: styles of ANSI pass, other control characters become spaces.
    Text,
    /// JSON: the values stay what they are.
    Json,
    /// XML: the values stay what they are.
    Xml,
}

/// Maximum bytes of an escape sequence that sets a style.
const MAX_STYLE: usize = 32;

/// What of a command the last characters of a line are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    /// `#`
    Hash,
    /// `##`, and perhaps letters.
    Command,
}

/// What stands on a line so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// Nothing that a runner would see.
    No,
    /// `:`
    Colon,
    Yes,
}

/// A stream without commands of runners and without control characters.
#[derive(Debug)]
pub struct Printed<W> {
    inner: W,
    form: Form,
    begun: Begun,
    mark: Mark,
    /// An escape sequence that is not complete.
    style: String,
    /// A character that is not complete.
    rest: Vec<u8>,
    clean: String,
}

impl<W: io::Write> Printed<W> {
    /// What is written to a stream from now on.
    pub fn new(inner: W, form: Form) -> Self {
        let (style, clean) = (String::new(), String::new());
        Self { inner, form, begun: Begun::No, mark: Mark::None, style, rest: Vec::new(), clean }
    }

    fn take(&mut self, c: char) {
        if self.form == Form::Text && self.is_style(c) {
            return;
        }
        match c {
            // A runner ends a line at either.
            '\n' => {
                (self.begun, self.mark) = (Begun::No, Mark::None);
                self.clean.push('\n');
            }
            '\t' => self.clean.push('\t'),
            c if is_control(c) => {
                self.mark = Mark::None;
                self.escape(c, " ");
            }
            ':' if self.begun == Begun::Colon => {
                self.begun = Begun::Yes;
                self.escape(':', " :");
            }
            '[' if self.mark == Mark::Command => {
                (self.begun, self.mark) = (Begun::Yes, Mark::None);
                self.escape('[', " [");
            }
            c => {
                self.begun = match (self.begun, c) {
                    (Begun::No, ':') => Begun::Colon,
                    // White space before a command is ignored, and there is more of it than one thinks.
                    (Begun::No, c) if c == ' ' || !c.is_ascii() => Begun::No,
                    _ => Begun::Yes,
                };
                self.mark = match (self.mark, c) {
                    (Mark::None, '#') => Mark::Hash,
                    (Mark::Hash | Mark::Command, '#') => Mark::Command,
                    (Mark::Command, c) if c.is_ascii_alphanumeric() => Mark::Command,
                    _ => Mark::None,
                };
                self.clean.push(c);
            }
        }
    }

    /// A character in another way, or in a text this instead.
    fn escape(&mut self, c: char, instead: &str) {
        use std::fmt::Write as _;
        let code = u32::from(c);
        // Writing to a text does not fail.
        let _ = match self.form {
            Form::Text => self.clean.write_str(instead),
            Form::Json => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .try_for_each(|u| write!(self.clean, "\\u{u:04x}")),
            // XML 1.0 has no way to write other controls.
            Form::Xml if code < 0x20 => self.clean.write_char('\u{fffd}'),
            Form::Xml => write!(self.clean, "&#{code};"),
        };
    }

    /// Whether a character is a part of an escape sequence. One that sets a style (`ESC [ 1 ; 31 m`) passes as soon as it
    /// is complete. Of any other the escape character goes.
    fn is_style(&mut self, c: char) -> bool {
        if self.style.is_empty() {
            if c == '\u{1b}' {
                self.style.push(c);
                return true;
            }
            return false;
        }
        let is_next = match self.style.len() {
            1 => c == '[',
            MAX_STYLE.. => false,
            _ => c.is_ascii_digit() || c == ';' || c == 'm',
        };
        if is_next {
            self.style.push(c);
            if c == 'm' {
                self.clean.push_str(&std::mem::take(&mut self.style));
            }
            return true;
        }
        self.give_up_style();
        self.is_style(c)
    }

    fn give_up_style(&mut self) {
        let style = std::mem::take(&mut self.style);
        for c in style.chars().skip(1) {
            self.take(c);
        }
    }

    fn take_bytes(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.rest);
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            for c in chunk.valid().chars() {
                self.take(c);
            }
            let wrong = chunk.invalid();
            // The beginning of a character at the end: the rest of it may come.
            if chunks.peek().is_none() && wrong.len() < 4 && is_begun(wrong) {
                self.rest = wrong.to_vec();
            } else if !wrong.is_empty() {
                self.take(char::REPLACEMENT_CHARACTER);
            }
        }
    }
}

/// Whether more bytes can make a character of these.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

impl<W: io::Write> io::Write for Printed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take_bytes(bytes);
        let clean = std::mem::take(&mut self.clean);
        self.inner.write_all(clean.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A text as [`Printed`] writes it, in the middle of a line.
#[must_use]
pub fn printed(text: &str) -> String {
    let mut printed = Printed::new(io::sink(), Form::Text);
    printed.begun = Begun::Yes;
    for c in text.chars() {
        printed.take(c);
    }
    printed.give_up_style();
    printed.clean
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn written(form: Form, parts: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        let mut printed = Printed::new(&mut bytes, form);
        for part in parts {
            printed.write_all(part).unwrap();
        }
        printed.flush().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn ci_runner_commands_are_printed_as_text() {
        for (text, expected) in [
            ("a.yaml:1:2: deny", "a.yaml:1:2: deny"),
            ("std::env::var", "std::env::var"),
            ("::error::x", ": :error::x"),
            ("a\n \t::add-mask::x", "a\n \t: :add-mask::x"),
            ("\u{a0}\u{2003}::x", "\u{a0}\u{2003}: :x"),
            ("a\r::x", "a ::x"),
            ("x ##[group]", "x ## [group]"),
            ("##vso[task.setvariable]x", "##vso [task.setvariable]x"),
            ("a ###teamcity[x", "a ###teamcity [x"),
            ("## a[0]", "## a[0]"),
            ("#[derive]", "#[derive]"),
            ("section_start:1:a\r\u{1b}[0Kb", "section_start:1:a [0Kb"),
            ("\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[1;31mred\u{1b}[0m"),
            ("\u{1b}]0;title\u{7}", "]0;title "),
            ("\u{1b}\u{1b}[2Jx", "[2Jx"),
            ("a\u{200e}\u{200f}\u{61c}\u{202e}\u{2066}\u{2028}b", "a      b"),
        ] {
            assert_eq!(written(Form::Text, &[text.as_bytes()]), expected, "{text:?}");
        }
    }

    #[test]
    fn json_and_xml_keep_their_values() {
        let found = written(Form::Json, &["\"##[x] ##vso[y] \u{200e}\"".as_bytes()]);
        assert_eq!(found, "\"##\\u005bx] ##vso\\u005by] \\u200e\"");
        let xml = written(Form::Xml, &["<a>::error::##[b]</a>\n::c".as_bytes()]);
        assert_eq!(xml, "<a>::error::##&#91;b]</a>\n:&#58;c");
    }

    proptest! {
        /// Wherever it is cut, the same is written, and no line of it is a command.
        #[test]
        fn printed_lines_are_never_runner_commands(parts in proptest::collection::vec("([:#\\[\n\r\t é\u{200f}\u{1b}m0-9a-z]|##vso\\[|\u{1b}\\[0m)*", 0..6)) {
            let whole = parts.concat();
            let once = written(Form::Text, &[whole.as_bytes()]);
            let bytes: Vec<&[u8]> = whole.as_bytes().chunks(1).collect();
            prop_assert_eq!(&written(Form::Text, &bytes), &once);
            for line in once.split(['\n', '\r']) {
                prop_assert!(!line.trim().starts_with("::"), "{:?}", line);
                let is_command = line.match_indices("##").any(|(at, _)| {
                    let behind = line.get(at..).unwrap_or_default().trim_start_matches('#');
                    behind.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).starts_with('[')
                });
                prop_assert!(!is_command, "{:?}", line);
            }
        }
    }
}
