//! Patterns of schemas.
//!
//! The crate `regex-lite` matches them, which like RE2 takes time in proportion to the text and to
//! the pattern. It does not support classes of Unicode (`\pL`). Patterns that it cannot compile,
//! and matches that would take too long, are not checked.

use std::collections::BTreeMap;

use regex_lite::{Regex, RegexBuilder};

use super::WorkBudget;

/// The maximum size of a compiled pattern in bytes; most have far fewer than one thousand.
const MAX_COMPILED_BYTES: usize = 1 << 16;
/// The maximum number of cached patterns.
const MAX_CACHED_PATTERNS: usize = 256;
/// The maximum length of a pattern after the expansion of repetitions such as `{1000}`.
const MAX_EXPANDED_LENGTH: usize = 2_048;
/// The number of pairs of a position in a pattern and an offset in a text that count as one step of
/// work.
const PAIRS_PER_STEP: usize = 64;

/// Compiled patterns, by their text. `None` for a pattern that cannot be compiled.
#[derive(Debug, Default)]
pub(super) struct Patterns(BTreeMap<String, Option<Regex>>);

/// Whether a pattern matches a text, if that is known.
pub(super) fn matches(pattern: &str, text: &str, work: &mut WorkBudget) -> Option<bool> {
    let repeated = if pattern.contains('{') { MAX_EXPANDED_LENGTH } else { 0 };
    let weight = pattern.len().saturating_add(repeated);
    let cost = (text.len().saturating_add(1)).saturating_mul(weight) / PAIRS_PER_STEP;
    if !work.spend(cost) {
        return None;
    }
    let known = &mut work.patterns.0;
    if !known.contains_key(pattern) {
        if known.len() >= MAX_CACHED_PATTERNS {
            known.clear();
        }
        let compiled = RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build().ok();
        known.insert(pattern.to_owned(), compiled);
        if !work.spend(weight) {
            return None;
        }
    }
    Some(work.patterns.0.get(pattern)?.as_ref()?.is_match(text))
}
