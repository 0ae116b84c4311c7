//! The namespaces that an OperatorGroup selects: by names, by a selector, or all.

use opgate_sdk::cluster::Query;
use opgate_sdk::{Document, Fix, Kind, Report, Review, escape, rule, rules};

use super::Group;
use crate::group_surface::{SELECTOR, Selection, has_requirements};
use crate::kinds::GROUP;
use crate::reads::NAMESPACES;

rules![OPG_08, OPG_09, OPG_10, OPG_11, OPG_34];

/// `names` are the target namespaces.
pub(super) fn check(
    review: &Review<'_>,
    object: &Document,
    names: &[String],
    report: &mut Report<'_>,
) {
    check_names_and_selector(object, names, report);
    check_tenant(review, object, names, report);
}

rule! {
    /// an OperatorGroup has one target namespace, or all
    ///
    /// `spec.targetNamespaces` has at most one entry, and `spec.selector` has neither `matchLabels`
    /// nor `matchExpressions`. The rule evaluates an UPDATE only if it changes one of the two
    /// fields.
    ///
    /// # Why
    ///
    /// Several target namespaces work today, but the documentation advises against them because a
    /// later release may drop them (OpenShift 4.12, Operators, *Target namespace selection*). It
    /// prints examples with both, so the rule only warns.
    ///
    /// # Remediation
    ///
    /// Use a group for one namespace, or omit `targetNamespaces` and `selector` for all namespaces.
    /// For several tenants, create one namespace with a group for each. Set the rule to `off` in
    /// `rules` if you need several targets.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {targetNamespaces: [my-namespace]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {targetNamespaces: [a, b]}
    /// ```
    ///
    /// `message: listing multiple namespaces via spec.targetNamespaces or use of a label selector
    /// via spec.selector is not recommended, as the support for more than one target namespace in
    /// an Operator group will likely be removed in a future release`
    OPG_08: Warn {
        name: "single-or-all-target-namespaces",
        on: [GROUP: Create | Update],
        source: ["OCP 4.12 L3361-3371, L3832-3843", "OCP 4.15 L2339-2642"],
    }
}

rule! {
    /// an OperatorGroup has target namespaces or a selector, not both
    ///
    /// An OperatorGroup with entries in `spec.targetNamespaces` has no `matchLabels` and no
    /// `matchExpressions` in `spec.selector`. An empty selector (`{}`) is not reported. The rule
    /// evaluates an UPDATE only if it changes one of the two fields.
    ///
    /// # Why
    ///
    /// OLM ignores the selector if the group names namespaces, so the group does not work where its
    /// author may expect it (OpenShift 4.12, Operators, *Target namespace selection*).
    ///
    /// # Remediation
    ///
    /// Keep the field that you intend to use, and remove the other.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {selector: {}, targetNamespaces: [local]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {selector: {matchLabels: {a: b}}, targetNamespaces: [local]}
    /// ```
    ///
    /// `message: spec.selector is ignored because spec.targetNamespaces is set`
    OPG_09: Warn {
        name: "no-selector-with-target-namespaces",
        on: [GROUP: Create | Update],
        source: ["OCP 4.12 L3375, L3439-3457", "OLM pkg/controller/operators/olm/operatorgroup.go"],
    }
}

rule! {
    /// a selector is not empty: an empty one selects all namespaces
    ///
    /// A `spec.selector` that is present, in a group without target names, has `matchLabels` or
    /// `matchExpressions`. The rule reports an empty selector (`{}`) and one that has other members
    /// only. The rule evaluates an UPDATE only if it changes `spec.selector` or
    /// `spec.targetNamespaces`.
    ///
    /// # Why
    ///
    /// Such a group selects all namespaces. The Kubernetes API server removes unknown members, so a
    /// selector that is written as a plain map of labels, like one printed example, becomes empty
    /// (OpenShift 4.12, Operators, *Target namespace selection*).
    ///
    /// # Remediation
    ///
    /// Put the labels below `matchLabels`. For a group for all namespaces, remove the selector.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {selector: {matchLabels: {cool.io/prod: "true"}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {selector: {cool.io/prod: "true"}}
    /// ```
    ///
    /// `message: spec.selector has neither matchLabels nor matchExpressions: the Operator group
    /// selects all namespaces`
    OPG_10: Warn {
        name: "no-empty-operator-group-selector",
        on: [GROUP: Create | Update],
        source: ["OCP 4.12 L3361-3368, L3375-3383", "OLM pkg/controller/operators/olm/operatorgroup.go"],
    }
}

/// The combination of target names and the selector.
fn check_names_and_selector(object: &Document, names: &[String], report: &mut Report<'_>) {
    let selects = has_requirements(object);
    if names.len() > 1 || selects {
        let field = if selects { "spec.selector" } else { "spec.targetNamespaces" };
        let message = "listing multiple namespaces via spec.targetNamespaces or use of a label selector via spec.selector is not recommended, as the support for more than one target namespace in an Operator group will likely be removed in a future release";
        report.add(&OPG_08, field, message);
    }
    if !names.is_empty() && selects {
        let message = "spec.selector is ignored because spec.targetNamespaces is set";
        report.add(&OPG_09, "spec.selector", message);
        report.set_fix(&OPG_09, || {
            Some(Fix::safe("remove the selector, which is ignored").remove(SELECTOR))
        });
    }
    if names.is_empty() && !selects && object.kind(SELECTOR) == Kind::Object {
        let message = "spec.selector has neither matchLabels nor matchExpressions: the Operator group selects all namespaces";
        report.add(&OPG_10, "spec.selector", message);
        report.set_fix(&OPG_10, || {
            let is_empty = object.length(SELECTOR) == Some(0);
            let fix = Fix::safe("remove the empty selector: the group is for all namespaces");
            is_empty.then(|| fix.remove(SELECTOR)).or_else(|| move_to_match_labels(object))
        });
    }
}

/// The members of the selector as labels, if all of them are texts.
fn move_to_match_labels(object: &Document) -> Option<Fix> {
    const MAX_BYTES: usize = 4 << 10;
    let members = object.keys(SELECTOR);
    let is_text = |key: &String| object.kind(&format!("{SELECTOR}/{}", escape(key))) == Kind::Text;
    let labels = object.raw(SELECTOR).filter(|labels| labels.len() <= MAX_BYTES)?;
    let labels = String::from_utf8(labels).ok()?;
    let fix = Fix::needs_review("write the labels below matchLabels");
    members.iter().all(is_text).then(|| fix.set(SELECTOR, format!("{{\"matchLabels\":{labels}}}")))
}

rule! {
    /// the OperatorGroup of a tenant targets the tenant's namespace only
    ///
    /// In the namespaces that the setting `operatorGroup.tenantNamespaces` lists, by name or as
    /// `prefix*`, an OperatorGroup has exactly one entry in `spec.targetNamespaces`, and that entry
    /// is another namespace. Its selector has neither `matchLabels` nor `matchExpressions`. The
    /// rule reports nothing while the setting is missing, even if `rules` sets its level. The rule
    /// evaluates an UPDATE only if it changes `spec.targetNamespaces` or `spec.selector`.
    ///
    /// # Why
    ///
    /// For clusters with several tenants the documentation recommends a separate namespace for each
    /// tenant's Operators, with a group for the tenant's namespace only. The tenant then neither
    /// sees nor uses the Operator's pod and account (OpenShift 4.12, Operators, *Recommended
    /// solution for multitenant clusters*).
    ///
    /// # Remediation
    ///
    /// Set only the tenant's namespace in `spec.targetNamespaces`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The setting is [team1-operator].
    /// metadata: {name: team1-operatorgroup, namespace: team1-operator}
    /// spec: {targetNamespaces: [team1]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: team1-operatorgroup, namespace: team1-operator}
    /// spec: {targetNamespaces: [team1, team2]}
    /// ```
    ///
    /// `message: tenant Operator group must define only the tenant's namespace in
    /// spec.targetNamespaces`
    OPG_34: Deny {
        name: "tenant-group-targets-own-namespace",
        on: [GROUP: Create | Update],
        enabled_by: ["/operatorGroup/tenantNamespaces"],
        source: ["OCP 4.12 L4729-4735, L6423, L6442-6457", "OCP 4.15 L2946-2979, L4478-4545"],
    }
}

fn check_tenant(review: &Review<'_>, object: &Document, names: &[String], report: &mut Report<'_>) {
    let setting = "/operatorGroup/tenantNamespaces";
    let own = review.namespace();
    let covers = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => own.starts_with(prefix),
        None => own == pattern,
    };
    if !review.settings.has(setting) || !review.settings.texts(setting).iter().any(covers) {
        return;
    }
    let one_other = matches!(names, [name] if name != own && !name.is_empty());
    if !one_other || has_requirements(object) {
        let message = "tenant Operator group must define only the tenant's namespace in spec.targetNamespaces";
        report.add(&OPG_34, "spec.targetNamespaces", message);
    }
}

rule! {
    /// a selector matches a Namespace
    ///
    /// A `spec.selector` with `matchLabels` or `matchExpressions` matches at least one Namespace.
    /// The rule does not evaluate groups with target names: these namespaces need not exist. The
    /// own namespace of the group counts only if it matches. The rule evaluates an UPDATE only if
    /// it changes the selection of the spec. The rule reads Namespaces.
    ///
    /// # Why
    ///
    /// A group without targets has no namespace to work in: OLM marks every CSV in its namespace as
    /// failed with the reason `NoTargetNamespaces` until a Namespace matches (OLM
    /// `pkg/controller/operators/olm/operator.go`).
    ///
    /// # Remediation
    ///
    /// Label a Namespace so that it matches the selector, or correct the selector. `kubectl get
    /// namespaces -l LABEL` lists the matches.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The Namespace target-ns has the label app=app-a.
    /// spec: {selector: {matchLabels: {app: app-a}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # No Namespace has the label a=app-a.
    /// spec: {selector: {matchLabels: {a: app-a}}}
    /// ```
    ///
    /// `message: no targetNamespaces are matched operatorgroups namespace selection`
    OPG_11: Warn {
        name: "operator-group-selector-matches-namespace",
        on: [GROUP: Create | Update],
        reads: [NAMESPACES],
        source: ["OCP 4.12 L3359, L3383", "OLM pkg/controller/operators/olm/operatorgroup.go, pkg/controller/operators/olm/operator.go"],
    }
}

impl Group<'_> {
    pub(super) fn check_selection_not_empty(&self, report: &mut Report<'_>) {
        let Selection::Labels(labels) = Selection::of(self.object) else { return };
        if !self.review.touches_json(self.object, "/spec") || !report.is_on(&OPG_11) {
            return;
        }
        if self.review.ratchet_base().is_some() && self.keeps_targets() {
            return;
        }
        // A query for existence costs less than a list, unless the list is already known.
        let query = Query { label_selector: Some(&labels), ..Query::default() };
        let any = match self.targets.get() {
            Some(Ok(targets)) => Ok(!targets.is_empty()),
            _ => NAMESPACES.any(query),
        };
        if report.or_skip(&[&OPG_11], "Namespaces", any) == Some(false) {
            let message = "no targetNamespaces are matched operatorgroups namespace selection";
            report.add(&OPG_11, "spec.selector", message);
        }
    }
}
