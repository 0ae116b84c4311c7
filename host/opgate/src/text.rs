//! Text from elsewhere, made fit for a line of a log, a header or a terminal; and lines that are not
//! written as often as strangers can cause them.

use std::error::Error;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The text as one line of at most `limit` bytes: control characters become spaces, what is too
/// much is cut at a character and marked with `…`.
#[must_use]
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    const MARK: char = '…';
    let mut line = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        if line.len() + c.len_utf8() > limit {
            while line.len() + MARK.len_utf8() > limit && line.pop().is_some() {}
            line.push(MARK);
            return line;
        }
        line.push(if is_control(c) { ' ' } else { c });
    }
    line
}

/// An error with what caused it, of which nothing is said twice: most errors say themselves what caused
/// them.
#[must_use]
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let words = |error: &(dyn Error + 'static)| {
        opgate_certs::words::of_any(error).unwrap_or_else(|| error.to_string())
    };
    let mut text = words(error);
    let mut at = error.source();
    while let Some(cause) = at {
        let cause_text = words(cause);
        let with_cause = format!(": {cause_text}");
        if text != cause_text && !text.contains(&with_cause) {
            text.push_str(&with_cause);
        }
        at = cause.source();
    }
    text
}

/// Controls, and the characters that turn the direction of the text around them.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Of several candidates the one that is nearest to what was written, if any is near.
pub(crate) fn nearest<'c>(
    written: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    // The distance costs the product of both lengths, and nobody mistypes that much.
    if written.len() > 64 {
        return None;
    }
    let scored = candidates.into_iter().map(|c| (strsim::damerau_levenshtein(written, c), c));
    let (distance, best) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= written.chars().count().max(3) / 3 + 1).then_some(best)
}

/// `; did you mean "x"?` where something is near, otherwise nothing.
pub(crate) fn hint<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    nearest(written, candidates).map(|c| format!("; did you mean {c:?}?")).unwrap_or_default()
}

/// A line of the log that anybody can cause at will: it is written once in a while.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// Time between two lines.
    const PERIOD: Duration = Duration::from_secs(60);

    /// How often the line was not written since the last time, where it is to be written now.
    pub(crate) fn tell(&self) -> Option<u64> {
        self.tell_at(Instant::now())
    }

    fn tell_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let (last, held) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < Self::PERIOD) {
            *held += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_controls_and_keeps_its_bound() {
        let cases = [
            ("plain", 16, "plain"),
            ("a\nb\r\u{1b}[31mc\u{202e}", 64, "a b  [31mc "),
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abc…"),
            ("ééééé", 8, "éé…"),
            ("abc", 2, "…"),
        ];
        for (text, limit, line) in cases {
            assert_eq!(one_line(text, limit), line, "{text:?}");
        }
    }

    #[test]
    fn an_error_says_nothing_twice() {
        let cause = || std::io::Error::other("no");
        let says_it = anyhow::Error::new(cause()).context("cannot do it: no");
        let says_not = anyhow::Error::new(cause()).context("cannot do it");
        assert_eq!(causes(says_it.as_ref()), "cannot do it: no");
        assert_eq!(causes(says_not.as_ref()), "cannot do it: no");
    }

    #[test]
    fn a_line_that_anybody_can_cause_is_written_seldom() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        let told = [0, 1, 59, 60, 61].map(|s| seldom.tell_at(start + Duration::from_secs(s)));
        assert_eq!(told, [Some(0), None, None, Some(2), None]);
    }

    #[test]
    fn hints_name_what_is_near() {
        let keys = ["policies", "profile", "kind"];
        assert_eq!(hint("polices", keys), "; did you mean \"policies\"?");
        assert_eq!(hint("zzzzzzzz", keys), "");
    }
}
