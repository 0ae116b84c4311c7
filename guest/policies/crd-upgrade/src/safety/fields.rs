//! Fields that disappear, become required, or get another type.

use opgate_sdk::rule;

use super::change::Change;
use crate::schema::{Keyword, Schema, difference};
use crate::targets::CRD;

rule! {
    /// no field disappears from a version
    ///
    /// Every schema in a version of the old CRD is in the version of the same name of the new CRD:
    /// those of `properties`, `items`, `additionalProperties`, `patternProperties`, `allOf`,
    /// `anyOf`, `oneOf`, `not`, `definitions`, `dependencies` and `additionalItems`. The rule
    /// reports each missing schema once, by its path from `^`, the outermost schema, also if it is
    /// in another missing schema. Its type, enum and default are not reported in addition. Renaming
    /// a field removes it.
    ///
    /// The rule applies to UPDATEs that change a schema. The setting `crd.upgradeSafety` can turn
    /// it off, or make it deny. CRD-12 and CRD-13 evaluate the removal of whole versions.
    ///
    /// # Why
    ///
    /// The API server prunes fields that the schema does not have. The values of these fields are
    /// lost at the next update of the objects, and the API server ignores the field in requests
    /// without an error.
    ///
    /// # Remediation
    ///
    /// Keep the field, and describe it as deprecated. Remove it in a new version.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {type: object, properties: {mode: {type: string}, newfield: {type: string}}}
    /// # {mode: {type: string}} before
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {type: object, properties: {}} # {mode: {type: string}} before
    /// # message: 'existingFieldRemoval: removed field : v1alpha1.^.spec.mode'
    /// ```
    pub(crate) CRD_19: Warn {
        name: "crd-field-not-removed",
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: ["OCP 4.12 L3093", "crdify test/existingfieldremoval", "operator-controller internal/operator-controller/rukpak/preflights/crdupgradesafety/crdupgradesafety.go"],
    }
}
/// The message for a missing schema.
pub(super) fn removed_text(version: &str, path: &str) -> String {
    format!("existingFieldRemoval: removed field : {version}.{path}")
}

rule! {
    /// no field becomes required in a version
    ///
    /// In each version that both CRDs have, for each schema that both have, `required` has no new
    /// name. A new schema can require any fields. The message lists the names in order.
    ///
    /// The rule applies to UPDATEs that change a schema. The setting `crd.upgradeSafety` can turn
    /// it off, or make it deny.
    ///
    /// # Why
    ///
    /// Objects without the field stay stored, but can no longer be updated, and clients that do not
    /// know the field cannot create objects.
    ///
    /// # Remediation
    ///
    /// Leave the field optional, and let the Operator choose its value if it is missing. Require it
    /// in a new version.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {type: object, required: [size]} # [size, mode] before
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {type: object, required: [size, mode]} # [size] before
    /// # message: 'v1alpha1: ^.spec: required: new required fields: [mode]'
    /// ```
    pub(crate) CRD_20: Warn {
        name: "crd-field-not-newly-required",
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: ["crdify test/requiredfieldadded", "kapp pkg/kapp/crdupgradesafety"],
    }
}
fn required_change<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let added =
        difference(new.text_elements(Keyword::Required), &old.text_elements(Keyword::Required));
    (!added.is_empty()).then_some(Change::Required(added))
}

rule! {
    /// the type of a field does not change in a version
    ///
    /// In each version that both CRDs have, for each schema that both have, `type` is the same. A
    /// missing type counts as a separate type: adding or removing it is a change.
    ///
    /// The rule applies to UPDATEs that change a schema. The setting `crd.upgradeSafety` can turn
    /// it off, or make it deny.
    ///
    /// # Why
    ///
    /// Values of the old type that are stored are no longer valid. Clients decode the field into a
    /// type of their language, and fail when a value of another type arrives.
    ///
    /// # Remediation
    ///
    /// Keep the field unchanged, and add a field with another name and the new type, or define a
    /// new version with a conversion webhook.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// size: {type: integer, description: new} # {type: integer} before
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// size: {type: string} # {type: integer} before
    /// # message: 'v1alpha1: ^.spec.size: type: type changed : "integer" -> "string"'
    /// ```
    pub(crate) CRD_21: Warn {
        name: "crd-field-type-unchanged",
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: ["crdify test/typechanged"],
    }
}
fn type_change<'t>(old: &Schema<'t>, new: &Schema<'t>) -> Option<Change<'t>> {
    let (was, is) = (old.text(Keyword::Type), new.text(Keyword::Type));
    (was != is).then_some(Change::Type(was, is))
}

/// The change of a keyword of these rules.
pub(super) fn find_change<'t>(
    keyword: Keyword,
    old: &Schema<'t>,
    new: &Schema<'t>,
) -> Option<Change<'t>> {
    match keyword {
        Keyword::Required => required_change(old, new),
        Keyword::Type => type_change(old, new),
        _ => None,
    }
}
