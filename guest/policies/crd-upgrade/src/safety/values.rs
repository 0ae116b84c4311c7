//! Which values a field can have: its enum, default, pattern, and whether null is one.

use opgate_sdk::rule;

use super::change::Change;
use crate::schema::{Keyword, Schema, without};
use crate::targets::CRD;

rule! {
    /// no enum is introduced, loses values or is dropped
    ///
    /// In each version that both CRDs have, for each schema that both have: a schema without `enum`
    /// does not get one, and one with `enum` keeps all of its values. To drop an enum is to remove
    /// all values. To add values is safe. Values are compared and printed as JSON, in order.
    ///
    /// The rule looks at UPDATEs that change a schema. The setting `crd.upgradeSafety` can switch
    /// it off, or have it deny.
    ///
    /// # Why
    ///
    /// Objects that are stored with a removed value cannot be updated any more. Clients that know
    /// the values of an enum and meet another one, after the enum was dropped, may not cope with
    /// it.
    ///
    /// # Repair
    ///
    /// Write the enum as it was before: put back the values that the message names, and remove an enum that was
    /// not there. Values can be added beside them; let the Operator treat obsolete ones like those that replace
    /// them. For fewer values, add a version to `spec.versions` with the new enum, and keep the old one as it is.
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
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: "crdify test/enumvalueremoved, test/enumnetnew",
    }
}
fn allowed<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.jsons(Keyword::Enum), new.jsons(Keyword::Enum));
    if was.is_empty() {
        let added = without(is, &[]);
        return (!added.is_empty()).then_some(Change::EnumAdded(added));
    }
    let removed = without(was, &is);
    (!removed.is_empty()).then_some(Change::EnumRemoved(removed))
}

rule! {
    /// no default is added, removed or changed in a version
    ///
    /// In each version that both CRDs have, for each schema that both have, `default` is the same
    /// JSON, or missing in both. The order of members and the notation of numbers make no
    /// difference. `null` is no default.
    ///
    /// The rule looks at UPDATEs that change a schema. The setting `crd.upgradeSafety` can switch
    /// it off, or have it deny.
    ///
    /// # Why
    ///
    /// The API server applies defaults when it reads objects, too. All objects without the field
    /// change their meaning at once, although nobody wrote to them.
    ///
    /// # Repair
    ///
    /// Write the default as it was before, as the message quotes it, and remove one that was not there. For another
    /// value, let the Operator choose it for new objects, or add a version to `spec.versions` with the new default,
    /// and keep the old one as it is.
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
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: "crdify test/defaultvaluechanged, test/defaultvaluenetnew, test/defaultvalueremoved",
    }
}
fn default<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.json(Keyword::Default), new.json(Keyword::Default));
    (was != is).then_some(Change::Default(was, is))
}

rule! {
    /// pattern and nullable of a field do not change in a version
    ///
    /// In each version that both CRDs have, for each schema that both have,
    /// `pattern` and `nullable` are the same. Each of them is reported when it is added, removed or
    /// changed. An empty pattern is none, and `nullable: false` is the same as no `nullable`.
    ///
    /// The rule looks at UPDATEs that change a schema. The setting `crd.upgradeSafety` can switch
    /// it off, or have it deny.
    ///
    /// # Why
    ///
    /// Stored values that do not match the new pattern cannot be updated any more, and without
    /// `nullable` the API server drops a null that is stored. Clients that rely on a pattern, or on
    /// a value that is never null, fail where it is removed or null is allowed.
    ///
    /// # Repair
    ///
    /// Write both as they were before, and remove a pattern that was not there. Let the Operator report values that
    /// it does not accept, or add a version to `spec.versions` with the new ones, and keep the old one as it is.
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
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: "crdify test/patternchanged, test/nullableremoved",
    }
}
fn pattern<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.text(Keyword::Pattern), new.text(Keyword::Pattern));
    (was != is).then_some(Change::Pattern(was, is))
}

fn nullable<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.flag(Keyword::Nullable), new.flag(Keyword::Nullable));
    (was != is).then_some(Change::Nullable(was))
}

/// What changed of a keyword of these rules.
pub(super) fn change<'t>(
    keyword: Keyword,
    old: &Schema<'t>,
    new: &Schema<'t>,
) -> Option<Change<'t>> {
    match keyword {
        Keyword::Default => default(old, new),
        Keyword::Enum => allowed(old, new),
        Keyword::Pattern => pattern(old, new),
        Keyword::Nullable => nullable(old, new),
        _ => None,
    }
}
