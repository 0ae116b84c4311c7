//! The fields of a line in the text log: the message, and `key=value` with spaces between them.
//!
//! Names of users and objects and the messages of policies are untrusted. An ambiguous value is quoted, and
//! so is a message that could be read as a key. Readers and programs therefore find only the keys that opgate
//! wrote.
//!
//! A server writes the time and the level before them. The lines of interactive commands resemble their
//! errors: `warning: …`.

use std::fmt;

use anstyle::Style;
use opgate_text::is_control;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::cli::output::{ERROR, WARNING};

/// Format of fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldFormat;

impl<'w> FormatFields<'w> for FieldFormat {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = FieldWriter { writer, has_content: false, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

/// Log lines of interactive commands: the level as a word, and the fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventFormat {
    is_colored: bool,
}

impl EventFormat {
    /// Creates it with the global choice of colours for stderr.
    pub(super) fn new() -> Self {
        let choice = anstream::AutoStream::choice(&std::io::stderr());
        Self { is_colored: choice != anstream::ColorChoice::Never }
    }
}

impl<S, N> FormatEvent<S, N> for EventFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (word, style) = match *event.metadata().level() {
            Level::ERROR => ("error", ERROR),
            Level::WARN => ("warning", WARNING),
            Level::INFO => ("info", Style::new()),
            Level::DEBUG => ("debug", Style::new()),
            Level::TRACE => ("trace", Style::new()),
        };
        let style = if self.is_colored { style } else { Style::new() };
        write!(writer, "{style}{word}{style:#}: ")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

struct FieldWriter<'w> {
    writer: Writer<'w>,
    has_content: bool,
    result: fmt::Result,
}

impl Visit for FieldWriter<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format_field(field.name(), &format!("{value:?}"));
        let space = if std::mem::replace(&mut self.has_content, true) { " " } else { "" };
        self.result = self.result.and_then(|()| write!(self.writer, "{space}{text}"));
    }
}

fn format_field(name: &str, text: &str) -> String {
    if name == "message" {
        let is_plain = !text.contains(|c: char| c == '=' || is_control(c));
        return if is_plain { text.to_owned() } else { format!("{text:?}") };
    }
    if is_bare_word(text) || is_quoted(text) {
        format!("{name}={text}")
    } else {
        format!("{name}={text:?}")
    }
}

fn is_bare_word(text: &str) -> bool {
    let splits = |c: char| c.is_whitespace() || is_control(c) || matches!(c, '=' | '"' | '\\');
    !text.is_empty() && !text.contains(splits)
}

/// Reports whether all of it is one text in quotes.
fn is_quoted(text: &str) -> bool {
    let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let Some(inside) = inside else { return false };
    let mut is_escaped = false;
    for c in inside.chars() {
        if (c == '"' && !is_escaped) || is_control(c) {
            return false;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    !is_escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_value_is_quoted_as_one_value() {
        for (name, value, written) in [
            ("message", "decided", "decided"),
            ("message", "the user said allowed=true", r#""the user said allowed=true""#),
            ("message", "a\u{1b}[2J", r#""a\u{1b}[2J""#),
            ("user", "system:admin", "user=system:admin"),
            ("user", "eve allowed=true", r#"user="eve allowed=true""#),
            ("user", r#"eve" allowed="true"#, r#"user="eve\" allowed=\"true""#),
            ("user", r#""eve" allowed="true""#, r#"user="\"eve\" allowed=\"true\"""#),
            ("user", r#""eve\" allowed=\"true""#, r#"user="eve\" allowed=\"true""#),
            ("user", "eve\u{a0}x=y", r#"user="eve\u{a0}x=y""#),
            ("user", "a\u{200e}b\u{61c}", r#"user="a\u{200e}b\u{61c}""#),
            ("message", "a\u{200f}b", r#""a\u{200f}b""#),
            ("user", "a\\", r#"user="a\\""#),
            ("user", "\"a\\\"", r#"user="\"a\\\"""#),
            ("user", "", r#"user="""#),
            ("took", "2.5ms", "took=2.5ms"),
        ] {
            assert_eq!(format_field(name, value), written);
        }
    }
}
