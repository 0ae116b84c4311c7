//! Fixes of violations in cases: each must be valid, apply to the object of its case, and satisfy the rule.

use opgate_casefile::{Case, apply_fixes};
use opgate_edit::{Edit, Fix, Safety};
use opgate_sdk::bindings::opgate::policy::types;
use opgate_sdk::{Verdict, Violation};
use serde_json::Value;

/// Maximum number of times that fixes are applied one after another, as in `opgate check --fix`.
const MAX_ROUNDS: usize = 10;

/// Returns a fix as the host reads it.
///
/// # Panics
/// If it is not valid: the host would ignore it.
pub(crate) fn convert(fix: &types::Fix) -> Fix {
    let edit = |edit: &types::Edit| match edit.clone() {
        types::Edit::Set(edit) => Edit::Set { pointer: edit.pointer, value: edit.value },
        types::Edit::Insert(edit) => Edit::Insert { pointer: edit.pointer, value: edit.value },
        types::Edit::Remove(pointer) => Edit::Remove { pointer },
        types::Edit::RenameKey(edit) => Edit::RenameKey { pointer: edit.pointer, name: edit.name },
        types::Edit::MoveFile(edit) => Edit::MoveFile { pointer: edit.pointer, path: edit.path },
    };
    let safety = match fix.safety {
        types::FixSafety::Safe => Safety::Safe,
        types::FixSafety::Unsafe => Safety::Unsafe,
    };
    let edits = fix.edits.iter().map(edit).collect();
    let fix = Fix { title: fix.title.clone(), safety, edits };
    if let Err(invalid) = fix.check() {
        panic!("the fix {:?} is not valid: {invalid}", fix.title);
    }
    fix
}

/// Returns the texts of all violations that are not of the given rule.
fn other_violations(case: &Case, violations: &[Violation]) -> Vec<String> {
    let others = violations.iter().filter(|violation| violation.rule != case.rule);
    others.map(|violation| format!("{}: {}", violation.rule, violation.message)).collect()
}

/// Removes the blobs that the host would put into the document of another package of the catalog.
fn remove_blobs_of_other_packages(document: &mut Value) {
    let Some(package) = document.pointer("/spec/package").cloned() else { return };
    let blobs = document.pointer_mut("/spec/blobs").and_then(Value::as_array_mut);
    let Some(blobs) = blobs else { return };
    blobs.retain(|blob| {
        let named = if blob["value"]["schema"] == "olm.package" { "name" } else { "package" };
        blob.pointer(&format!("/value/{named}")).is_none_or(|name| *name == package)
    });
}

/// Applies the fixes of the rule of a case until there are none. `verdict` evaluates a case.
///
/// # Errors
/// Fails if the rule then has a violation with a fix, or if another rule has a violation that was not there before.
pub(crate) fn check(case: &Case, verdict: &dyn Fn(&Case) -> Verdict) -> Result<(), String> {
    let mut case_after = case.clone();
    let before = verdict(case).violations;
    let known = other_violations(case, &before);
    let own = |violations: &[Violation]| {
        let own = violations.iter().filter(|violation| violation.rule == case.rule);
        own.filter_map(|violation| violation.fix.as_ref().map(convert)).collect::<Vec<_>>()
    };
    let mut fixes = own(&before);
    for _ in 0..MAX_ROUNDS {
        if fixes.is_empty() {
            return Ok(());
        }
        let Some(object) = &mut case_after.object else { return Ok(()) };
        let unchanged = object.clone();
        apply_fixes(object, &fixes.iter().collect::<Vec<_>>())?;
        if *object == unchanged {
            return Err("the fix changes nothing".to_owned());
        }
        remove_blobs_of_other_packages(object);
        let after = verdict(&case_after).violations;
        let others = other_violations(case, &after);
        if let Some(new) = others.iter().find(|other| !known.contains(other)) {
            return Err(format!("the fix adds a violation: {new}"));
        }
        fixes = own(&after);
    }
    Err(format!("{} still has a violation with a fix after {MAX_ROUNDS} rounds", case.rule))
}
