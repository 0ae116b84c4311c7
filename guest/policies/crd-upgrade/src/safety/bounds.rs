//! Minima and maxima.

use opgate_sdk::rule;

use super::change::Change;
use crate::schema::{Keyword, Schema};
use crate::targets::CRD;

rule! {
    /// no minimum or maximum is introduced or tightened
    ///
    /// In each version that both CRDs have, for each schema that both have: `maximum`, `maxItems`,
    /// `maxLength` and `maxProperties` are neither introduced nor decreased, `minimum`, `minItems`,
    /// `minLength` and `minProperties` neither introduced nor increased. Removing or relaxing a
    /// limit is safe. The message starts with the keyword.
    ///
    /// The rule applies to UPDATEs that change a schema. The setting `crd.upgradeSafety` can turn
    /// it off, or make it deny.
    ///
    /// # Why
    ///
    /// Objects that are stored with a larger (or smaller) value stay unchanged, but can no longer
    /// be updated, not even to remove a finalizer. Clients that send such values fail.
    ///
    /// # Remediation
    ///
    /// Restore the previous bound, and remove an introduced bound. Let the Operator report values
    /// outside of the new bound in the status, or add a version to `spec.versions` with the new
    /// bound, and keep the old one.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// size: {type: integer, maximum: 10} # 9 before
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// size: {type: integer, minimum: 10} # 1 before
    /// # message: 'v1alpha1: ^.spec.size: minimum: minimum increased : 1 -> 10'
    /// ```
    pub(crate) CRD_23: Warn {
        name: "crd-limits-not-tightened",
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: ["crdify test/maxvaluedecreased, test/minvalueincreased"],
    }
}
/// The change of a minimum or maximum.
pub(super) fn bound_change<'t>(
    keyword: Keyword,
    old: &Schema<'t>,
    new: &Schema<'t>,
) -> Option<Change<'t>> {
    let is_maximum = match keyword {
        Keyword::Maximum | Keyword::MaxItems | Keyword::MaxLength | Keyword::MaxProperties => true,
        Keyword::Minimum | Keyword::MinItems | Keyword::MinLength | Keyword::MinProperties => false,
        _ => return None,
    };
    let (was, is) = (old.number(keyword), new.number(keyword)?);
    if is_maximum {
        was.is_none_or(|was| is < was).then_some(Change::Maximum(keyword, was, is))
    } else {
        was.is_none_or(|was| is > was).then_some(Change::Minimum(keyword, was, is))
    }
}
