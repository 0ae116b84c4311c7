//! Files that look like templates. What a parser says about them helps nobody who forgot to render them.

use super::content::{Broken, File};

/// Said after what is wrong with a file.
const HINT: &str = "; this looks like a template: render it first";

/// Why a file cannot be read, with a hint where that is because it is a template; the error is that of
/// the file's parser.
pub(super) fn why(broken: &Broken) -> String {
    let hint = if is_template(broken) { HINT } else { "" };
    format!("{}{hint}", broken.why)
}

/// A line that says why a file cannot be read, where it cannot.
pub fn complaint(file: &File) -> Option<String> {
    let broken = file.broken()?;
    Some(format!("{}:{}:{}: {}", file.shown, broken.line, broken.column, why(broken)))
}

/// Whether there is an action on the line of the error, or on the one above it: the parser stops behind
/// a line that holds nothing else.
fn is_template(broken: &Broken) -> bool {
    let line = usize::try_from(broken.line).unwrap_or(usize::MAX);
    let lines = broken.text.as_deref().unwrap_or_default().lines();
    let around = lines.skip(line.saturating_sub(2)).take(line.min(2));
    around.into_iter().any(|line| {
        let after = line.split_once("{{").map(|(_, after)| after);
        after.is_some_and(|after| after.contains("}}"))
    })
}
