//! Other OperatorGroups that provide the same APIs in the same namespaces.

use opgate_sdk::{Document, Level, Report, rule, rules};

use super::Group;
use crate::apis::ApiSet;
use crate::group_surface::{PROVIDED_APIS, STATIC_PROVIDED_APIS, Selection, targets_with_own};
use crate::kinds::GROUP;
use crate::olm_reason::{self, OlmReason};
use crate::reads::{GROUPS, NAMESPACES};
use crate::{conflicting_groups, targets};

rules![OPG_18];

fn is_static(group: &Document) -> bool {
    group.boolean(STATIC_PROVIDED_APIS).unwrap_or_default()
}

rule! {
    /// OperatorGroups that work in the same namespace do not provide the same API
    ///
    /// No other OperatorGroup that works in one of the group's namespaces has an API of the group's
    /// annotation `olm.providedAPIs`. A group works in its targets (see OPG-16) and, if it has any,
    /// in its own namespace; another group counts by its spec and by its status, also while it is
    /// being deleted. If an UPDATE does not change the targets and `spec.staticProvidedAPIs`, the
    /// rule evaluates only the APIs that it adds. The rule only warns, and reports nothing if
    /// `rules` sets it to `deny`, in two cases: one of OLM's identities (`identities.olm`) writes
    /// the annotation of a group that is not static, or new targets leave the group with no more
    /// namespaces and APIs than it had. It reads OperatorGroups and, for selectors, Namespaces.
    ///
    /// # Why
    ///
    /// Two Operators would act on the same objects (OpenShift 4.12, Operators, *Operator group
    /// intersection*). OLM then marks member CSVs as failed with the reason
    /// `InterOperatorGroupOwnerConflict`.
    ///
    /// # Remediation
    ///
    /// Choose targets in which the other group does not work; the own namespaces count too.
    /// Alternatively, remove the Operator or the group that you need less. If your group is static
    /// and does not need the API, remove it from the annotation.
    ///
    /// # Accepted
    ///
    /// `ns/g` for `ns-1`, where the other group with `Goose.v1alpha1.birds.com` is `ns-2/g` for
    /// `ns-3`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # ns/g has the target ns-1 and provides Goose.v1alpha1.birds.com.
    /// metadata:
    ///   namespace: ns-4
    ///   annotations: {olm.providedAPIs: Goose.v1alpha1.birds.com}
    /// spec: {targetNamespaces: [ns-1]}
    /// ```
    ///
    /// `message: intersecting operatorgroups provide the same apis: OperatorGroup ns/g (namespaces:
    /// ns-1) also provides Goose.v1alpha1.birds.com; choose other target namespaces, or remove the
    /// other Operator or group (InterOperatorGroupOwnerConflict)`
    OPG_18: Deny {
        name: "no-intersecting-provided-apis",
        on: [GROUP: Create | Update],
        reads: [GROUPS, NAMESPACES],
        source: ["OCP 4.12 L3869-3876", "OLM pkg/controller/operators/olm/operator.go"],
    }
}

impl Group<'_> {
    pub(super) fn check_conflicts(&self, report: &mut Report<'_>) {
        if !report.is_on(&OPG_18) {
            return;
        }
        let review = self.review;
        let mut apis = ApiSet::parse(&self.object.text_or_empty(PROVIDED_APIS));
        let mut only_warns = false;
        if let Some(old) = review.old_of_update() {
            let old_apis = ApiSet::parse(&old.text_or_empty(PROVIDED_APIS));
            let same_spec = self.keeps_targets() && is_static(old) == is_static(self.object);
            if same_spec && review.ratchet_base().is_some() {
                // This change does not add the APIs of the old object.
                apis = apis.iter().filter(|api| !old_apis.contains(api)).cloned().collect();
            }
            if same_spec
                && !is_static(self.object)
                && !self.object.equal(PROVIDED_APIS, old, PROVIDED_APIS)
                && review.may_be_olm()
            {
                // OLM's writes are never denied, at any level.
                if report.is_configured_to_deny(&OPG_18) {
                    return;
                }
                only_warns = true;
            }
        }
        if apis.is_empty() {
            return;
        }
        let needed = "OperatorGroups and Namespaces";
        let own = review.name(self.object);
        let namespace = review.namespace();
        let conflicting = self.targets().and_then(|targets| {
            conflicting_groups::find_conflicts(
                (namespace, &own),
                &targets_with_own(targets, namespace),
                &apis,
            )
        });
        let Some(conflicting) = report.or_skip(&[&OPG_18], needed, conflicting) else { return };
        if conflicting.is_empty() {
            return;
        }
        if !only_warns && self.adds_no_apis(&apis) {
            // A step towards a fix is not denied. A configured level would turn the warning into a
            // denial.
            if report.is_configured_to_deny(&OPG_18) {
                return;
            }
            only_warns = true;
        }
        let message = conflicting_groups::conflict_message(&conflicting);
        let field = if !review.is_update() || self.keeps_targets() {
            "metadata.annotations[olm.providedAPIs]"
        } else {
            "spec"
        };
        if only_warns {
            report.add_as(Level::Warn, &OPG_18, field, message);
        } else {
            let reason = OlmReason::InterOperatorGroupOwnerConflict;
            olm_reason::add(report, reason, &OPG_18, field, message);
        }
    }

    /// Whether an UPDATE leaves the group with no more APIs and namespaces than it had. Any
    /// conflict then existed before.
    fn adds_no_apis(&self, apis: &ApiSet) -> bool {
        let Some(old) = self.review.ratchet_base() else { return false };
        let old_apis = ApiSet::parse(&old.text_or_empty(PROVIDED_APIS));
        let namespace = self.review.namespace();
        // The status is ignored: a user could have written it for this purpose.
        let old_targets = || targets::select_namespaces(Selection::of(old));
        let narrower = || match (self.targets(), old_targets()) {
            (Ok(new), Ok(old)) => {
                targets_with_own(new, namespace).is_within(&targets_with_own(&old, namespace))
            }
            _ => false,
        };
        is_static(old) == is_static(self.object)
            && apis.iter().all(|api| old_apis.contains(api))
            && narrower()
    }

    /// Reports a user who writes fields that only OLM writes and is not in the list of OLM's
    /// identities: the list may be wrong.
    pub(super) fn check_annotation_writer(&self, report: &mut Report<'_>) {
        let changed = |old: &Document| !self.object.equal(PROVIDED_APIS, old, PROVIDED_APIS);
        if self.review.old_of_update().is_some_and(changed)
            && self.object.boolean(STATIC_PROVIDED_APIS) != Some(true)
            && !self.review.may_be_olm()
        {
            report.warn_unlisted_user("writes olm.providedAPIs");
        }
    }
}
