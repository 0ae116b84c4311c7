//! Regular expressions, for `matches`.
//!
//! Patterns are those of the crate `regex-lite`, which like RE2 takes time in proportion to the text and to
//! the pattern, and limits `\d`, `\w` and `\s` to ASCII. Classes of Unicode (`\pL`) are not supported, and
//! `(?i)` folds ASCII only.

use std::collections::BTreeMap;

use regex_lite::{Regex, RegexBuilder};

use super::{Budget, EvaluationError};

/// Bytes of a compiled pattern; most are far below one thousand.
const MAX_COMPILED_BYTES: usize = 1 << 16;
/// Patterns that are kept.
const MAX_CACHED_PATTERNS: usize = 16;
/// Maximum size of a pattern with its repetitions, such as `{1000}`, written out.
const MAX_EXPANDED_SIZE: usize = 2_048;

/// Patterns that were compiled, by their text.
#[derive(Debug, Default)]
pub(super) struct PatternCache {
    compiled: BTreeMap<String, Result<Regex, EvaluationError>>,
}

impl PatternCache {
    /// Reports whether a pattern occurs in a text.
    pub(super) fn matches(
        &mut self,
        text: &str,
        pattern: &str,
        budget: &mut Budget,
    ) -> Result<bool, EvaluationError> {
        // A step pays for 64 positions of a pattern at a place of the text.
        let weight = if pattern.contains('{') { MAX_EXPANDED_SIZE } else { 0 } + pattern.len() + 1;
        if !self.compiled.contains_key(pattern) {
            budget.spend(weight)?;
            if self.compiled.len() >= MAX_CACHED_PATTERNS {
                self.compiled.clear();
            }
            let compiled = RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build();
            let compiled = compiled
                .map_err(|error| EvaluationError::Error(format!("error parsing regexp: {error}")));
            self.compiled.insert(pattern.to_owned(), compiled);
        }
        budget.spend((text.len() + 1).saturating_mul(weight) / 64)?;
        match self.compiled.get(pattern) {
            Some(Ok(regex)) => Ok(regex.is_match(text)),
            Some(Err(error)) => Err(error.clone()),
            None => Ok(false),
        }
    }
}
