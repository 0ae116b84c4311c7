//! Lists in messages.

/// What a message holds, in bytes.
pub(crate) const LONGEST: usize = 4_096;

/// Texts with something between them, up to the length of a message.
pub(crate) fn joined<'t>(texts: impl IntoIterator<Item = &'t str>, between: &str) -> String {
    let mut joined = String::new();
    for (index, text) in texts.into_iter().enumerate() {
        if joined.len() > LONGEST {
            break;
        }
        if index > 0 {
            joined.push_str(between);
        }
        joined.push_str(text);
    }
    joined
}
