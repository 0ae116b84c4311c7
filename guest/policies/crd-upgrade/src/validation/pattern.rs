//! Patterns of schemas.
//!
//! They are those of the crate `regex-lite`, which like RE2 takes time in proportion to the text and
//! to the pattern. Classes of Unicode (`\pL`) it does not know. What it cannot compile, and what
//! would take too long, is not checked.

use std::collections::BTreeMap;

use regex_lite::{Regex, RegexBuilder};

use super::Work;

/// Bytes of a compiled pattern; most are far below one thousand.
const SIZE: usize = 1 << 16;
/// Patterns that are kept.
const KEPT: usize = 256;
/// What a repetition such as `{1000}` may make of a short pattern, as if it were written out.
const REPEATED: usize = 2_048;
/// Positions of a pattern at places of a text that count as one step of work.
const STEP: usize = 64;

/// Patterns that were compiled, by their text. Nothing for one that cannot be compiled.
#[derive(Debug, Default)]
pub(super) struct Patterns(BTreeMap<String, Option<Regex>>);

/// Whether a pattern occurs in a text, if that can be said.
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
