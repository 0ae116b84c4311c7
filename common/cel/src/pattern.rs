//! Regular expressions, for `matches`.
//!
//! Patterns are those of the crate `regex-lite`, which like RE2 takes time in proportion to the text and to
//! the pattern, and limits `\d`, `\w` and `\s` to ASCII. Classes of Unicode (`\pL`) are not supported, and
//! `(?i)` folds ASCII only.

use std::collections::BTreeMap;

use regex_lite::{Regex, RegexBuilder};

use super::{Budget, Failure};

/// Bytes of a compiled pattern; most are far below one thousand.
const SIZE: usize = 1 << 16;
/// Patterns that are kept.
const KEPT: usize = 16;
/// Maximum size of a pattern with its repetitions, such as `{1000}`, written out.
const REPEATED: usize = 2_048;

/// Patterns that were compiled, by their text.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    known: BTreeMap<String, Result<Regex, String>>,
}

impl Patterns {
    /// Reports whether a pattern occurs in a text.
    pub(super) fn matches(
        &mut self,
        text: &str,
        pattern: &str,
        budget: &mut Budget,
    ) -> Result<bool, Failure> {
        // A step pays for 64 positions of a pattern at a place of the text.
        let weight = if pattern.contains('{') { REPEATED } else { 0 } + pattern.len() + 1;
        if !self.known.contains_key(pattern) {
            budget.spend(weight)?;
            if self.known.len() >= KEPT {
                self.known.clear();
            }
            let compiled = RegexBuilder::new(pattern).size_limit(SIZE).build();
            let compiled = compiled.map_err(|error| format!("error parsing regexp: {error}"));
            self.known.insert(pattern.to_owned(), compiled);
        }
        budget.spend((text.len() + 1).saturating_mul(weight) / 64)?;
        match self.known.get(pattern) {
            Some(Ok(regex)) => Ok(regex.is_match(text)),
            Some(Err(error)) => Err(Failure::Error(error.clone())),
            None => Ok(false),
        }
    }
}
