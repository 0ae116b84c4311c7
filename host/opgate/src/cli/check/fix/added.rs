//! The violations that a fix adds. Violations are compared, not counted: another one of the rule can go away at once.
//!
//! ```text
//! before ─┐                 ┌─ the same field and text
//! after ──┴▶ rule by rule ──┼─ the same field, with another text
//!                           ├─ the same field except for renamed keys, and for indexes if elements move
//!                           └▶ left over: added
//! ```

use std::collections::BTreeMap;

use opgate_edit::Edit;

use crate::cli::check::units::UnitResult;

/// The text before a message of a rule with more violations than a verdict has room for, after their number.
const OMITTED: &str = " more violations of this rule are omitted; ";

/// The violations of a unit, by policy and rule.
#[derive(Debug, Default)]
pub(super) struct KnownViolations(BTreeMap<(String, String), RuleViolations>);

#[derive(Debug, Default, Clone)]
struct RuleViolations {
    listed: Vec<ViolationIdentity>,
    /// Number of violations without a text.
    omitted: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ViolationIdentity {
    source: String,
    field: String,
    message: String,
}

/// The changes after which a field can have another name.
#[derive(Debug, Default)]
pub(super) struct FieldChanges {
    /// Whether elements of lists, or files, were added or removed.
    moves_elements: bool,
    /// The old and the new name of keys.
    renamed: Vec<(String, String)>,
}

impl FieldChanges {
    pub(super) fn add(&mut self, edit: &Edit) {
        match edit {
            Edit::Insert { .. } | Edit::Remove { .. } | Edit::MoveFile { .. } => {
                self.moves_elements = true;
            }
            Edit::RenameKey { pointer, name } => {
                let old = pointer.rsplit('/').next().unwrap_or_default();
                let old = old.replace("~1", "/").replace("~0", "~");
                self.renamed.push((old, name.clone()));
            }
            Edit::Set { .. } => {}
        }
    }

    /// Returns the name that a field has after them.
    fn field(&self, field: &str) -> String {
        let renamed = self.renamed.iter().fold(field.to_owned(), |field, (old, new)| {
            let key = |name: &str| format!("[{name}]");
            let field = field.replace(&key(old), &key(new));
            let member = field.strip_suffix(old.as_str()).filter(|rest| rest.ends_with('.'));
            member.map(|rest| format!("{rest}{new}")).unwrap_or(field)
        });
        if self.moves_elements { without_indexes(&renamed) } else { renamed }
    }
}

impl KnownViolations {
    pub(super) fn of(result: &UnitResult) -> Self {
        let mut all = Self::default();
        for (source, violation) in result.violations() {
            let rule = (violation.policy.clone(), violation.rule.clone());
            all.add(rule, source, &violation.field, &violation.message);
        }
        all
    }

    fn add(&mut self, rule: (String, String), source: &str, field: &str, message: &str) {
        let found = self.0.entry(rule).or_default();
        let omitted = message.split_once(OMITTED);
        let omitted = omitted.and_then(|(count, rest)| Some((count.parse().ok()?, rest)));
        let (count, message) = omitted.unwrap_or((0_usize, message));
        found.omitted = found.omitted.saturating_add(count);
        let [source, field, message] = [source, field, message].map(str::to_owned);
        found.listed.push(ViolationIdentity { source, field, message });
    }

    /// Returns the rule and the message of each violation that is here and was not there before the changes.
    pub(super) fn added_since<'s>(
        &'s self,
        before: &Self,
        changes: &FieldChanges,
    ) -> Vec<(&'s str, &'s str)> {
        let none = RuleViolations::default();
        let mut added = Vec::new();
        for (rule, after) in &self.0 {
            let before = before.0.get(rule).unwrap_or(&none);
            let texts = after.added_since(before, changes);
            added.extend(texts.into_iter().map(|text| (rule.1.as_str(), text)));
        }
        added
    }
}

impl RuleViolations {
    fn added_since(&self, before: &Self, changes: &FieldChanges) -> Vec<&str> {
        let mut gone: Vec<&ViolationIdentity> = before.listed.iter().collect();
        let mut new: Vec<&ViolationIdentity> = self.listed.iter().collect();
        pair(&mut gone, &mut new, |it| format!("{}\0{}\0{}", it.source, it.field, it.message));
        pair(&mut gone, &mut new, |it| format!("{}\0{}", it.source, it.field));
        pair(&mut gone, &mut new, |it| format!("{}\0{}", it.source, changes.field(&it.field)));
        let total = |it: &Self| it.listed.len().saturating_add(it.omitted);
        let more = total(self).saturating_sub(total(before));
        // A violation can have been one of those without a text.
        let count = if before.omitted > 0 { more.min(new.len()) } else { new.len() };
        // Listed ones stand for those without a text.
        let hidden = more.saturating_sub(count).min(self.listed.len());
        let listed = self.listed.iter().take(hidden);
        new.into_iter().take(count).chain(listed).map(|it| it.message.as_str()).collect()
    }
}

/// Removes the violations of both lists that have the same key.
fn pair(
    gone: &mut Vec<&ViolationIdentity>,
    new: &mut Vec<&ViolationIdentity>,
    key: impl Fn(&ViolationIdentity) -> String,
) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for violation in gone.iter() {
        *counts.entry(key(violation)).or_default() += 1;
    }
    let mut paired: BTreeMap<String, usize> = BTreeMap::new();
    new.retain(|violation| {
        let key = key(violation);
        let is_paired = take_one(&mut counts, &key);
        if is_paired {
            *paired.entry(key).or_default() += 1;
        }
        !is_paired
    });
    gone.retain(|violation| !take_one(&mut paired, &key(violation)));
}

fn take_one(counts: &mut BTreeMap<String, usize>, key: &str) -> bool {
    let left = counts.get_mut(key).filter(|count| **count > 0);
    left.map(|count| *count -= 1).is_some()
}

/// A field without the indexes of elements.
fn without_indexes(field: &str) -> String {
    let parts = field.split('[').map(|part| match part.split_once(']') {
        Some((index, rest)) if index.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => part,
    });
    parts.collect::<Vec<_>>().join("[")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(violations: &[(&str, &str)]) -> KnownViolations {
        let mut all = KnownViolations::default();
        for (field, message) in violations {
            all.add(("policy".to_owned(), "R-1".to_owned()), "source", field, message);
        }
        all
    }

    #[test]
    fn added_violations_are_found_among_others() {
        let none = FieldChanges::default;
        let mut moves = none();
        moves.add(&Edit::Remove { pointer: "/x/0".to_owned() });
        let mut renames = none();
        renames.add(&Edit::RenameKey { pointer: "/x/a~1b".to_owned(), name: "c".to_owned() });
        let many = |count: usize| format!("{count} more violations of this rule are omitted; a");
        let (a, b) = (("spec.a", "a"), ("spec.b", "b"));
        let [fewer, some, more] = [8, 9, 10].map(many);
        for (before, after, changes, expected) in [
            (&[a, b][..], &[b][..], none(), &[][..]),
            (&[a], &[a, b], none(), &["R-1 b"]),
            (&[], &[a], none(), &["R-1 a"]),
            // Another one of the rule goes away.
            (&[a], &[b], none(), &["R-1 b"]),
            (&[a, a], &[a, b], none(), &["R-1 b"]),
            // It has another text.
            (&[b], &[("spec.b", "still b")], none(), &[]),
            // Elements move.
            (&[("x[1].a", "1")], &[("x[0].a", "0")], moves, &[]),
            (&[("x[1].a", "1")], &[("x[0].a", "0")], none(), &["R-1 0"]),
            // Keys are renamed.
            (&[("x[a/b]", "1"), ("x.a/b", "1")], &[("x[c]", "2"), ("x.c", "2")], renames, &[]),
            (&[("x[a/b]", "1")], &[("x[c]", "2")], none(), &["R-1 2"]),
            // Some have no text.
            (&[("a", &*some)], &[("b", &*fewer)], none(), &[]),
            (&[("a", &*some)], &[("a", &*more)], none(), &["R-1 a"]),
        ] {
            let after_all = known(after);
            let added = after_all.added_since(&known(before), &changes);
            let added: Vec<_> = added.iter().map(|(rule, text)| format!("{rule} {text}")).collect();
            assert_eq!(added, expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn fields_are_compared_without_indexes() {
        for (field, expected) in [
            ("spec.x[10].y[0]", "spec.x[.y["),
            ("metadata.labels[a]", "metadata.labels[a]"),
            ("spec.x", "spec.x"),
        ] {
            assert_eq!(without_indexes(field), expected);
        }
    }
}
