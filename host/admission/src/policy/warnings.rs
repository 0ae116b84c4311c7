//! The warnings of a response, for the user who sent the request: few, short, the most serious
//! first.
//!
//! ```text
//! texts, the most serious first ─▶ the first eight, cut to 120 characters ─▶ a line that counts the rest
//! ```

use std::collections::HashSet;

use opgate_text::short_line;

/// Maximum number of warnings, without the line that counts the others: users do not read more.
const MAX_WARNINGS: usize = 8;

/// Maximum characters of a warning, as Kubernetes recommends. All of them together stay far below
/// the 4,096 characters of a response, including those of other webhooks, above which an API
/// server truncates.
const MAX_WARNING_CHARS: usize = 120;

/// The first lines, and one that counts the others. Equal texts count once. If texts are equal up
/// to the cut, one is shown.
pub(super) fn limit_lines<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut known = HashSet::new();
    let mut warnings: Vec<String> = Vec::new();
    let mut more = 0usize;
    for line in lines.filter(|line| known.insert(*line)) {
        let line = short_line(line, MAX_WARNING_CHARS);
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&line) {
            warnings.push(line);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        let s = if more == 1 { "" } else { "s" };
        let rest = "run opgate check on the object to see them all";
        warnings.push(format!("{more} more warning{s}: {rest}"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_few_and_short_and_the_rest_is_counted() {
        let texts = |count: usize| (0..count).map(|n| format!("w{n}")).collect::<Vec<_>>();
        let shown = |texts: &[String]| limit_lines(texts.iter().map(String::as_str));
        assert_eq!(shown(&[]), [""; 0]);
        assert_eq!(shown(&texts(8)), texts(8));
        assert_eq!(shown(&[texts(8), texts(8)].concat()), texts(8));
        for (count, last) in [
            (9, "1 more warning: run opgate check on the object to see them all"),
            (1_008, "1000 more warnings: run opgate check on the object to see them all"),
        ] {
            let shown = shown(&texts(count));
            assert_eq!((&shown[..8], shown[8].as_str()), (&texts(8)[..], last));
        }
        // Characters count, not bytes.
        let (exact, long) = ("é".repeat(120), "é".repeat(121));
        assert_eq!(shown(std::slice::from_ref(&exact)), [exact]);
        let other = format!("{long}!");
        let cut = format!("{}…", "é".repeat(119));
        let rest = "1 more warning: run opgate check on the object to see them all";
        assert_eq!(shown(&[long, other]), [cut.as_str(), rest]);
    }
}
