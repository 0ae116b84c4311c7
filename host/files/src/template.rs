//! Files that resemble templates. The error of a parser does not help a user who forgot to render them.

use super::content::{Broken, File};

/// Follows the error in a file.
const HINT: &str = "; this looks like a template: render it first";

/// Returns the reason why a file is unreadable, with a hint if it is a template. The error is that of the
/// file's parser.
pub(super) fn why(broken: &Broken) -> String {
    let hint = if is_template(broken) { HINT } else { "" };
    format!("{}{hint}", broken.why)
}

/// Reports whether a file is unreadable and has actions of a template.
pub(super) fn is_one(file: &File) -> bool {
    let text = file.broken().and_then(|broken| broken.text.as_deref()).unwrap_or_default();
    [("{{", "}}"), ("{%", "%}"), ("<%", "%>")]
        .iter()
        .any(|(start, end)| text.split_once(start).is_some_and(|(_, after)| after.contains(end)))
}

/// Returns a line with the reason why a file is unreadable, if so.
pub fn complaint(file: &File) -> Option<String> {
    let broken = file.broken()?;
    let (line, column) = file.origin.place((broken.line, broken.column));
    Some(format!("{}:{line}:{column}: {}", file.shown, why(broken)))
}

/// Reports whether there is an action on the line of the error, or on the one above it: the parser stops
/// after a line with nothing else.
fn is_template(broken: &Broken) -> bool {
    let line = usize::try_from(broken.line).unwrap_or(usize::MAX);
    let lines = broken.text.as_deref().unwrap_or_default().lines();
    let around = lines.skip(line.saturating_sub(2)).take(line.min(2));
    around.into_iter().any(|line| {
        let after = line.split_once("{{").map(|(_, after)| after);
        after.is_some_and(|after| after.contains("}}"))
    })
}
