//! stdout and stderr: styles, and escapes for text that others wrote.

use std::io::{self, BufWriter, Write as _};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};

use opgate_text::printed::{Form, Printed};

/// Style of errors and denials.
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default();
pub(super) const SUCCESS: Style = AnsiColor::Green.on_default();
pub(super) const DIMMED: Style = Style::new().dimmed();

/// Returns the output format of a command that prints text or JSON.
pub(super) fn text_or_json(is_json: bool) -> Form {
    if is_json { Form::Json } else { Form::Text }
}

/// A stream with or without styles.
pub(super) type Stream = AutoStream<Box<dyn io::Write + Send>>;

pub(super) type Out = BufWriter<Stream>;

/// Returns stdout for reports. It escapes commands of CI runners and terminals, except styles. Without a
/// format, it writes the text unchanged: only for text that opgate itself has written and escaped.
pub(super) fn stdout(form: Option<Form>) -> Out {
    BufWriter::new(stream(form))
}

/// [`stdout`] for a few lines.
pub(super) fn stream(form: Option<Form>) -> Stream {
    let (choice, out) = (AutoStream::choice(&io::stdout()), io::stdout());
    AutoStream::new(escaping_stream(out, form), choice)
}

/// Writes a single line to stderr.
pub(super) fn print_error(line: std::fmt::Arguments<'_>) {
    let (choice, err) = (AutoStream::choice(&io::stderr()), BufWriter::new(io::stderr()));
    let mut out = AutoStream::new(escaping_stream(err, Some(Form::Text)), choice);
    // Without stderr there is no place for the message.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn escaping_stream(
    inner: impl io::Write + Send + 'static,
    form: Option<Form>,
) -> Box<dyn io::Write + Send> {
    match form {
        Some(form) => Box::new(Printed::new(inner, form)),
        None => Box::new(inner),
    }
}
