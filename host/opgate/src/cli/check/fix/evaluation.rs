//! The evaluation of a unit with other texts than those of its files.

use super::moves;
use super::unit::{Texts, UnitSource};
use crate::cli::check::units::UnitResult;

/// Evaluates a unit with new texts. Those of an editor count for its other files.
pub(super) fn evaluate(unit: &UnitSource<'_>, texts: &Texts) -> UnitResult {
    if moves::has_moves(texts) {
        return moves::evaluate(unit, texts).unwrap_or_else(UnitResult::of_error);
    }
    let texts = texts.iter();
    let texts = texts.filter_map(|(path, file)| Some((path.clone(), file.new.clone()?)));
    let reader = unit.reader.with_full_budget().with_more_unsaved(texts.collect());
    (unit.evaluate)(unit.input, &reader)
}
