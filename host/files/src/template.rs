//! Files that resemble templates. The error of a parser does not help a user who forgot to render them.

use super::content::{File, ReadError};

/// Follows the error in a file.
const TEMPLATE_HINT: &str = "; this looks like a template: render it first";

/// Returns the reason why a file is unreadable, with a hint if it is a template. The error is that of the
/// file's parser.
pub(super) fn error_message(broken: &ReadError) -> String {
    let hint = if is_template(broken) { TEMPLATE_HINT } else { "" };
    format!("{}{hint}", broken.message)
}

/// Reports whether a file is unreadable and has actions of a template.
pub(super) fn is_template_file(file: &File) -> bool {
    let text = file.read_error().and_then(|broken| broken.text.as_deref()).unwrap_or_default();
    [("{{", "}}"), ("{%", "%}"), ("<%", "%>")]
        .iter()
        .any(|(start, end)| text.split_once(start).is_some_and(|(_, after)| after.contains(end)))
}

/// Returns a line with the reason why a file is unreadable, if so.
pub fn error_line(file: &File) -> Option<String> {
    let broken = file.read_error()?;
    let (line, column) = file.origin.file_position((broken.line, broken.column));
    Some(format!("{}:{line}:{column}: {}", file.display_path, error_message(broken)))
}

/// Reports whether there is an action on the line of the error, or on the one above it: the parser stops
/// after a line with nothing else.
fn is_template(broken: &ReadError) -> bool {
    let line = usize::try_from(broken.line).unwrap_or(usize::MAX);
    let lines = broken.text.as_deref().unwrap_or_default().lines();
    let around = lines.skip(line.saturating_sub(2)).take(line.min(2));
    around.into_iter().any(|line| {
        let after = line.split_once("{{").map(|(_, after)| after);
        after.is_some_and(|after| after.contains("}}"))
    })
}
