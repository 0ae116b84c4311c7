//! Lists in messages.

/// The maximum size of a message, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 4_096;

/// Joins texts with a separator, up to the length of a message.
pub(crate) fn join<'t>(texts: impl IntoIterator<Item = &'t str>, between: &str) -> String {
    let mut joined = String::new();
    for (index, text) in texts.into_iter().enumerate() {
        if joined.len() > MAX_MESSAGE_BYTES {
            break;
        }
        if index > 0 {
            joined.push_str(between);
        }
        joined.push_str(text);
    }
    joined
}
