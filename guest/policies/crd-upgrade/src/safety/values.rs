//! The values that a field can have: enum, default, pattern and nullable.

use opgate_sdk::rule;

use super::change::Change;
use crate::schema::{Keyword, Schema, difference};
use crate::targets::CRD;

rule! {
    /// no enum is introduced, loses values or is removed
    ///
    /// In each version that both CRDs have, for each schema that both have: a schema without `enum`
    /// does not get one, and one with `enum` keeps all of its values. Removing an enum counts as
    /// removing all values. Adding values is safe. Values are compared and printed as JSON, in
    /// order.
    ///
    /// The rule applies to UPDATEs that change a schema. The setting `crd.upgradeSafety` can turn
    /// it off, or make it deny.
    ///
    /// # Why
    ///
    /// Objects that are stored with a removed value can no longer be updated. Clients that know the
    /// values of an enum can fail on another value after the enum is removed.
    ///
    /// # Remediation
    ///
    /// Restore the previous enum: add the values that the message names, and remove an introduced
    /// enum. You can add further values; let the Operator treat obsolete values like their
    /// replacements. For fewer values, add a version to `spec.versions` with the new enum, and keep
    /// the old version unchanged.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// enum: [Managed, Unmanaged] # [Managed] before
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// enum: [Managed] # [Managed, Unmanaged] before
    /// # message: 'v1: ^.spec.mode: enum: allowed enum values removed : ["Unmanaged"]'
    /// ```
    pub(crate) CRD_22: Warn {
        name: "crd-enum-not-tightened",
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: ["crdify test/enumvalueremoved, test/enumnetnew"],
    }
}
fn enum_change<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.json_elements(Keyword::Enum), new.json_elements(Keyword::Enum));
    if was.is_empty() {
        let added = difference(is, &[]);
        return (!added.is_empty()).then_some(Change::EnumAdded(added));
    }
    let removed = difference(was, &is);
    (!removed.is_empty()).then_some(Change::EnumRemoved(removed))
}

rule! {
    /// no default is added, removed or changed in a version
    ///
    /// In each version that both CRDs have, for each schema that both have, `default` is the same
    /// JSON, or missing in both. The order of members and the notation of numbers make no
    /// difference. `null` counts as missing.
    ///
    /// The rule applies to UPDATEs that change a schema. The setting `crd.upgradeSafety` can turn
    /// it off, or make it deny.
    ///
    /// # Why
    ///
    /// The API server also applies defaults when it reads objects. All objects without the field
    /// change their meaning at once, without a write.
    ///
    /// # Remediation
    ///
    /// Restore the previous default, which the message quotes, and remove an added default. For
    /// another value, let the Operator choose it for new objects, or add a version to
    /// `spec.versions` with the new default, and keep the old version unchanged.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// mode: {type: string, default: Managed} # before and after
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// mode: {type: string, default: Unmanaged} # Managed before
    /// # message: 'v1: ^.spec.mode: default: default value changed : "\"Managed\"" -> "\"Unmanaged\""'
    /// ```
    pub(crate) CRD_24: Warn {
        name: "crd-default-unchanged",
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: ["crdify test/defaultvaluechanged, test/defaultvaluenetnew, test/defaultvalueremoved"],
    }
}
fn default_change<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.json(Keyword::Default), new.json(Keyword::Default));
    (was != is).then_some(Change::Default(was, is))
}

rule! {
    /// pattern and nullable of a field do not change in a version
    ///
    /// In each version that both CRDs have, for each schema that both have, `pattern` and
    /// `nullable` are the same. The rule reports each of them if it is added, removed or changed.
    /// An empty pattern counts as missing, and `nullable: false` is the same as no `nullable`.
    ///
    /// The rule applies to UPDATEs that change a schema. The setting `crd.upgradeSafety` can turn
    /// it off, or make it deny.
    ///
    /// # Why
    ///
    /// Stored values that do not match the new pattern can no longer be updated, and without
    /// `nullable` the API server drops a stored null. Clients that rely on a pattern, or on a value
    /// that is never null, fail if the pattern is removed or null is allowed.
    ///
    /// # Remediation
    ///
    /// Restore the previous values, and remove an added pattern. Let the Operator report values
    /// that it does not accept, or add a version to `spec.versions` with the new pattern or
    /// `nullable`, and keep the old version unchanged.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// name: {type: string, pattern: ^a} # before and after
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// name: {type: string, pattern: ^b} # ^a before
    /// # message: 'v1: ^.spec.name: pattern: pattern changed : "^a" -> "^b"'
    /// ```
    pub(crate) CRD_25: Warn {
        name: "crd-pattern-and-nullable-unchanged",
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: ["crdify test/patternchanged, test/nullableremoved"],
    }
}
fn pattern_change<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.text(Keyword::Pattern), new.text(Keyword::Pattern));
    (was != is).then_some(Change::Pattern(was, is))
}

fn nullable_change<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.flag(Keyword::Nullable), new.flag(Keyword::Nullable));
    (was != is).then_some(Change::Nullable(was))
}

/// The change of a keyword of these rules.
pub(super) fn find_change<'t>(
    keyword: Keyword,
    old: &Schema<'t>,
    new: &Schema<'t>,
) -> Option<Change<'t>> {
    match keyword {
        Keyword::Default => default_change(old, new),
        Keyword::Enum => enum_change(old, new),
        Keyword::Pattern => pattern_change(old, new),
        Keyword::Nullable => nullable_change(old, new),
        _ => None,
    }
}
