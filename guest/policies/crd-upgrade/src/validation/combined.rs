//! Schemas in schemas: `anyOf`, `oneOf`, `allOf` and `not`.
//!
//! If several schemas all fail, upstream prints the errors of the schema with most successful
//! checks.

use super::json::Json;
use super::outcome::{Outcome, Path, quoted};
use super::schema::{Schema, Subschema};
use super::{WorkBudget, validate as against};

/// The value against all of them.
pub(super) fn validate(
    schema: &Schema<'_>,
    value: &Json<'_>,
    path: &Path<'_>,
    work: &mut WorkBudget,
) -> Outcome {
    let mut outcome = Outcome::default();
    let place = || quoted(&path.to_string());
    if !schema.any_of.is_empty() {
        validate_any_of(&schema.any_of, value, path, work, &mut outcome);
    }
    if !schema.one_of.is_empty() {
        validate_one_of(&schema.one_of, value, path, work, &mut outcome);
    }
    if !schema.all_of.is_empty() {
        let mut valid = 0;
        for inner in &schema.all_of {
            let result = against(inner.get(), value, path, work);
            valid += usize::from(result.is_valid());
            outcome.merge(result);
        }
        if valid < schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.add_whole(&format!("{} must validate all the schemas (allOf){none}", place()));
        }
    }
    if let Some(not) = &schema.not {
        let result = against(not.get(), value, path, work);
        outcome.is_doubtful |= result.is_doubtful;
        if result.is_valid() && !result.is_doubtful {
            outcome.add_whole(&format!("{} must not validate the schema (not)", place()));
        }
    }
    outcome.matches += 1;
    outcome
}

/// Keeps the result with more successful checks.
fn keep_better(best: &mut Option<Outcome>, other: Outcome) {
    if best.as_ref().is_none_or(|best| other.matches > best.matches) {
        *best = Some(other);
    }
}

fn validate_any_of(
    schemas: &[Subschema<'_>],
    value: &Json<'_>,
    path: &Path<'_>,
    work: &mut WorkBudget,
    outcome: &mut Outcome,
) {
    let mut best = None;
    for inner in schemas {
        let result = against(inner.get(), value, path, work);
        if result.is_valid() {
            outcome.merge(result);
            return;
        }
        keep_better(&mut best, result);
    }
    let place = quoted(&path.to_string());
    outcome.add_whole(&format!("{place} must validate at least one schema (anyOf)"));
    outcome.merge(best.unwrap_or_default());
}

fn validate_one_of(
    schemas: &[Subschema<'_>],
    value: &Json<'_>,
    path: &Path<'_>,
    work: &mut WorkBudget,
    outcome: &mut Outcome,
) {
    let (mut best, mut first) = (None, None);
    let (mut valid, mut doubtful) = (0_usize, 0_usize);
    for inner in schemas {
        let result = against(inner.get(), value, path, work);
        if result.is_valid() {
            valid += 1;
            doubtful += usize::from(result.is_doubtful);
            first = first.or(Some(result));
        } else if valid == 0 {
            keep_better(&mut best, result);
        }
    }
    outcome.is_doubtful |= doubtful > 0;
    let certain = valid - doubtful;
    if valid == 1 || (certain <= 1 && doubtful > 0) {
        outcome.merge(first.unwrap_or_default());
        return;
    }
    let found = if valid == 0 {
        "Found none valid".to_owned()
    } else {
        format!("Found {valid} valid alternatives")
    };
    let place = quoted(&path.to_string());
    outcome.add_whole(&format!("{place} must validate one and only one schema (oneOf). {found}"));
    if valid == 0 {
        outcome.merge(best.unwrap_or_default());
    }
}
