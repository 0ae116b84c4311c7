//! Patterns of schemas.
//!
//! The crate `regex-lite` matches them, which like RE2 takes time in proportion to the text and to
//! the pattern. It does not support classes of Unicode (`\pL`). Patterns that it cannot compile,
//! and matches that would take too long, are not checked.

use std::collections::BTreeMap;

use regex_lite::{Regex, RegexBuilder};

use super::Work;

/// The maximum size of a compiled pattern in bytes; most have far fewer than one thousand.
const SIZE: usize = 1 << 16;
/// The maximum number of cached patterns.
const KEPT: usize = 256;
/// The maximum length of a pattern after the expansion of repetitions such as `{1000}`.
const REPEATED: usize = 2_048;
/// The number of pairs of a position in a pattern and an offset in a text that count as one step of
/// work.
const STEP: usize = 64;

/// Compiled patterns, by their text. `None` for a pattern that cannot be compiled.
#[derive(Debug, Default)]
pub(super) struct Patterns(BTreeMap<String, Option<Regex>>);

/// Whether a pattern matches a text, if that is known.
pub(super) fn occurs(pattern: &str, text: &str, work: &mut Work) -> Option<bool> {
    let repeated = if pattern.contains('{') { REPEATED } else { 0 };
    let weight = pattern.len().saturating_add(repeated);
    let cost = (text.len().saturating_add(1)).saturating_mul(weight) / STEP;
    if !work.spend(cost) {
        return None;
    }
    let known = &mut work.patterns.0;
    if !known.contains_key(pattern) {
        if known.len() >= KEPT {
            known.clear();
        }
        let compiled = RegexBuilder::new(pattern).size_limit(SIZE).build().ok();
        known.insert(pattern.to_owned(), compiled);
        if !work.spend(weight) {
            return None;
        }
    }
    Some(work.patterns.0.get(pattern)?.as_ref()?.is_match(text))
}
