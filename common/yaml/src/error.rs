//! Why a text is no YAML, and where.

use std::borrow::Cow;

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    /// In bytes.
    pub(crate) offset: usize,
    /// From 0.
    pub(crate) line: usize,
    /// From 0, in bytes.
    pub(crate) column: usize,
}

impl Mark {
    /// Returns the position this number of bytes further on the same line.
    pub(crate) fn after(self, bytes: usize) -> Self {
        Self { offset: self.offset + bytes, column: self.column + bytes, ..self }
    }
}

/// Why a text is no YAML, or not to be said in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: Cow<'static, str>,
    /// Precedes the message, except for callers that expect upstream's text.
    hint: Option<&'static str>,
    mark: Mark,
    /// The line that upstream names, from 1.
    upstream_line: Option<usize>,
}

impl Error {
    /// Creates an error of the scanner.
    pub(crate) fn scanner(why: &'static str, mark: Mark, context: Mark) -> Self {
        // Upstream treats line 0 as unset.
        let upstream = if mark.line > 0 { mark.line + 1 } else { context.line };
        Self::new(why, mark, upstream)
    }

    /// Creates an error of the parser. Upstream names the line before.
    pub(crate) fn parser(why: &'static str, mark: Mark, context: Mark) -> Self {
        Self::new(why, mark, if mark.line > 0 { mark.line } else { context.line })
    }

    /// Returns the same error with a position and a text that are more helpful for the author.
    pub(crate) fn with_position(self, mark: Mark, hint: Option<&'static str>) -> Self {
        Self { hint, mark, ..self }
    }

    /// Creates an error for valid YAML that JSON cannot express.
    pub(crate) fn value(why: impl Into<Cow<'static, str>>, mark: Mark) -> Self {
        Self::new(why, mark, 0)
    }

    fn new(why: impl Into<Cow<'static, str>>, mark: Mark, upstream: usize) -> Self {
        let upstream = Some(upstream).filter(|line| *line > 0);
        Self { message: why.into(), hint: None, mark, upstream_line: upstream }
    }

    /// Returns the error message for the author of the text.
    #[must_use]
    pub fn message(&self) -> Cow<'_, str> {
        match self.hint {
            Some(hint) => format!("{hint}: {}", self.message).into(),
            None => Cow::Borrowed(&self.message),
        }
    }

    /// Returns the position, in bytes from the start of the text.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.mark.offset
    }

    /// Returns the whole message as upstream prints it: with `yaml: `, and with the line that it names.
    #[must_use]
    pub fn upstream_message(&self) -> String {
        match self.upstream_line {
            Some(line) => format!("yaml: line {line}: {}", self.message),
            None => format!("yaml: {}", self.message),
        }
    }
}
