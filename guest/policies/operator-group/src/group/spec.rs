//! The spec of an OperatorGroup, judged without a look at anything else.

use std::collections::HashSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, Review, Selector, Shape, escape, rule, rules};

use crate::groups::{SELECTOR, TARGETS, has_requirements};
use crate::kinds::GROUP;
use crate::lists;

rules![OPG_04, OPG_05, OPG_06, OPG_07, OPG_08, OPG_09, OPG_10, OPG_34];

const STRATEGY: &str = "/spec/upgradeStrategy";
const STRATEGIES: [&str; 2] = ["Default", "TechPreviewUnsafeFailForward"];

pub(crate) fn judge(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let is_v1 = review.request.resource().version == "v1";
    let new_names = review.touches_json(object, TARGETS);
    let new_selector = review.touches_json(object, SELECTOR);
    let names = lists::texts(object, TARGETS);
    if new_names {
        named_namespaces(&names, report);
        if is_v1 {
            named_once(&names, report);
        }
    }
    if new_selector && let Err(message) = selector(object) {
        report.add(&OPG_05, "spec.selector", message);
    }
    if is_v1 && review.touches(object, STRATEGY, &Shape::Scalar) {
        strategy(object, report);
    }
    if new_names || new_selector {
        selection(object, &names, report);
        tenant(review, object, &names, report);
    }
}

rule! {
    /// the target namespaces are names: a group for all namespaces names none
    ///
    /// No entry of `spec.targetNamespaces` is the empty string. A group for all namespaces omits
    /// both `targetNamespaces` and `selector`. An UPDATE is judged where it changes
    /// `spec.targetNamespaces`.
    ///
    /// # Why
    ///
    /// OLM writes the empty name to `status.namespaces` of a group for all namespaces, but it
    /// refuses the name in the spec and does not set the targets of the group (OpenShift 4.12,
    /// Operators, *Target namespace selection*; OLM
    /// `pkg/controller/operators/olm/operatorgroup.go`).
    ///
    /// # Repair
    ///
    /// For all namespaces, remove `targetNamespaces` and `selector`. Otherwise remove the empty
    /// entry.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {targetNamespaces: [team1]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {targetNamespaces: ["", ns-a]}
    /// ```
    ///
    /// `message: TargetNamespaces cannot contain NamespaceAll: [ ns-a]`
    ///
    /// The brackets hold the whole list.
    OPG_04: Deny {
        on: [GROUP: Create | Update],
        source: "OCP 4.12 L3329-3383, L6447-6457, L6526-6535; OLM pkg/controller/operators/olm/operatorgroup.go",
    }
}

fn named_namespaces(names: &[String], report: &mut Report<'_>) {
    if names.iter().any(String::is_empty) {
        let message =
            format!("TargetNamespaces cannot contain NamespaceAll: [{}]", names.join(" "));
        report.add(&OPG_04, "spec.targetNamespaces", message);
    }
}

rule! {
    /// each target namespace of a v1 OperatorGroup is named once
    ///
    /// `spec.targetNamespaces` of a `v1` OperatorGroup names each namespace once. Groups of
    /// `v1alpha2` are not judged. An UPDATE is judged where it changes `spec.targetNamespaces`. The
    /// rule reports up to 20 duplicates.
    ///
    /// # Why
    ///
    /// The CRD of `v1` declares the list as a set, so a Kubernetes API server with that CRD refuses
    /// duplicates by itself (`crds/operators.coreos.com_operatorgroups.yaml` of the Operator
    /// Framework API). The rule says the same about manifests that have not reached the API server
    /// yet.
    ///
    /// # Repair
    ///
    /// Remove the entry at the index that the message names. Indexes start at 0.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: operators.coreos.com/v1
    /// spec: {targetNamespaces: [a, b]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: operators.coreos.com/v1
    /// spec: {targetNamespaces: [a, a]}
    /// ```
    ///
    /// `message: spec.targetNamespaces[1]: Duplicate value: "a"`
    OPG_06: Deny {
        on: [GROUP: Create | Update],
        source: "api crds/operators.coreos.com_operatorgroups.yaml",
    }
}

fn named_once(names: &[String], report: &mut Report<'_>) {
    let mut seen = HashSet::with_capacity(names.len());
    let twice = names.iter().enumerate().filter(|(_, name)| !seen.insert(name.as_str()));
    report.add_each(&OPG_06, twice, |(index, name)| {
        let field = format!("spec.targetNamespaces[{index}]");
        let message = format!("{field}: Duplicate value: {}", quote(name));
        (field, message)
    });
}

rule! {
    /// the selector of an OperatorGroup is a label selector
    ///
    /// `spec.selector` is a label selector of Kubernetes, also where `targetNamespaces` makes it of
    /// no effect. The operators of `matchExpressions` are `In`, `NotIn`, `Exists` and
    /// `DoesNotExist`; the first two need values, the others take none. Keys and values have the
    /// syntax of labels. Other members of the selector are ignored. An UPDATE is judged where it
    /// changes `spec.selector`.
    ///
    /// # Why
    ///
    /// OLM converts the selector before it looks at anything else. Where that fails, it works out
    /// no target namespaces for the group (OLM `pkg/controller/operators/olm/operatorgroup.go`).
    /// OpenShift 4.12, Operators, *Target namespace selection*, describes the field.
    ///
    /// # Repair
    ///
    /// Correct the first mistake, which the message names, and apply the group again. Use
    /// `matchLabels` for plain comparisons.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {selector: {matchLabels: {something.cool.io/cluster-monitoring: "true"}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {selector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}
    /// ```
    ///
    /// `message: "Equals" is not a valid label selector operator`
    ///
    /// With `operator: In` and no values: `message: values: Invalid value: []string(nil): for 'in',
    /// 'notin' operators, values set can't be empty`
    OPG_05: Deny {
        on: [GROUP: Create | Update],
        source: "OCP 4.12 L3359-3368, L3841-3843; OLM pkg/controller/operators/olm/operatorgroup.go",
    }
}

/// What upstream says against the selector.
fn selector(object: &Document) -> Result<(), String> {
    let mut selector = Selector::default();
    for key in object.keys("/spec/selector/matchLabels") {
        let value = object.text_or_empty(&format!("/spec/selector/matchLabels/{}", escape(&key)));
        selector.label(&key, &value)?;
    }
    for expression in object.items("/spec/selector/matchExpressions") {
        let (key, operator) =
            (expression.text_or_empty("/key"), expression.text_or_empty("/operator"));
        let values = lists::texts(&expression, "/values");
        selector.expression(&key, &operator, values.iter().map(String::as_str))?;
    }
    Ok(())
}

rule! {
    /// the upgrade strategy of a v1 OperatorGroup is a known one
    ///
    /// `spec.upgradeStrategy` of a `v1` OperatorGroup, where it is set, is `Default` or
    /// `TechPreviewUnsafeFailForward`. Groups of `v1alpha2` are not judged. An UPDATE is judged
    /// where it changes the field.
    ///
    /// # Why
    ///
    /// The CRD of `v1` lists these two values, and a Kubernetes API server with that CRD refuses
    /// any other (`crds/operators.coreos.com_operatorgroups.yaml` of the Operator Framework API).
    /// OLM itself treats an unknown value as `Default`.
    ///
    /// # Repair
    ///
    /// Set one of the two values, or remove the field.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {upgradeStrategy: Default, targetNamespaces: [a]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {upgradeStrategy: FailForward}
    /// ```
    ///
    /// `message: spec.upgradeStrategy: Unsupported value: "FailForward": supported values:
    /// "Default", "TechPreviewUnsafeFailForward"`
    OPG_07: Deny {
        on: [GROUP: Create | Update],
        source: "api crds/operators.coreos.com_operatorgroups.yaml",
    }
}

fn strategy(object: &Document, report: &mut Report<'_>) {
    if let Some(strategy) = object.text(STRATEGY)
        && !STRATEGIES.contains(&strategy.as_str())
    {
        let message = format!(
            "spec.upgradeStrategy: Unsupported value: {}: supported values: \"Default\", \"TechPreviewUnsafeFailForward\"",
            quote(&strategy)
        );
        report.add(&OPG_07, "spec.upgradeStrategy", message);
    }
}

rule! {
    /// an OperatorGroup has one target namespace, or all
    ///
    /// `spec.targetNamespaces` has at most one entry, and `spec.selector` has neither `matchLabels`
    /// nor `matchExpressions`. An UPDATE is judged where it changes one of the two fields.
    ///
    /// # Why
    ///
    /// Several target namespaces work today, but the documentation advises against them because a
    /// later release may drop them (OpenShift 4.12, Operators, *Target namespace selection*). It
    /// prints examples with both, so the rule only warns.
    ///
    /// # Repair
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
        on: [GROUP: Create | Update],
        source: "OCP 4.12 L3361-3371, L3832-3843; OCP 4.15 L2339-2642",
    }
}

rule! {
    /// a selector stands alone: next to target namespaces it has no effect
    ///
    /// An OperatorGroup with entries in `spec.targetNamespaces` has no `matchLabels` and no
    /// `matchExpressions` in `spec.selector`. An empty selector (`{}`) is not reported. An UPDATE
    /// is judged where it changes one of the two fields.
    ///
    /// # Why
    ///
    /// OLM ignores the selector as soon as the group names namespaces, so the group does not work
    /// where its author may expect it (OpenShift 4.12, Operators, *Target namespace selection*).
    ///
    /// # Repair
    ///
    /// Keep the one of the two fields that says what you mean, and remove the other.
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
        on: [GROUP: Create | Update],
        source: "OCP 4.12 L3375, L3439-3457; OLM pkg/controller/operators/olm/operatorgroup.go",
    }
}

rule! {
    /// a selector says what it selects: an empty one selects all namespaces
    ///
    /// A `spec.selector` that is present, in a group without target names, has `matchLabels` or
    /// `matchExpressions`. The rule reports an empty selector (`{}`) and one that has other members
    /// only. An UPDATE is judged where it changes `spec.selector` or `spec.targetNamespaces`.
    ///
    /// # Why
    ///
    /// Such a group selects all namespaces. The Kubernetes API server removes unknown members, so a
    /// selector that is written as a plain map of labels, as one printed example is, ends up empty
    /// (OpenShift 4.12, Operators, *Target namespace selection*).
    ///
    /// # Repair
    ///
    /// Put the labels below `matchLabels`. If the group is meant for all namespaces, remove the
    /// selector.
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
        on: [GROUP: Create | Update],
        source: "OCP 4.12 L3361-3368, L3375-3383; OLM pkg/controller/operators/olm/operatorgroup.go",
    }
}

/// How names and selector go together.
fn selection(object: &Document, names: &[String], report: &mut Report<'_>) {
    let selects = has_requirements(object);
    if names.len() > 1 || selects {
        let field = if selects { "spec.selector" } else { "spec.targetNamespaces" };
        let message = "listing multiple namespaces via spec.targetNamespaces or use of a label selector via spec.selector is not recommended, as the support for more than one target namespace in an Operator group will likely be removed in a future release";
        report.add(&OPG_08, field, message);
    }
    if !names.is_empty() && selects {
        let message = "spec.selector is ignored because spec.targetNamespaces is set";
        report.add(&OPG_09, "spec.selector", message);
    }
    if names.is_empty() && !selects && object.kind(SELECTOR) == Kind::Object {
        let message = "spec.selector has neither matchLabels nor matchExpressions: the Operator group selects all namespaces";
        report.add(&OPG_10, "spec.selector", message);
    }
}

rule! {
    /// the OperatorGroup of a tenant targets the tenant's namespace only
    ///
    /// In the namespaces that the setting `operatorGroup.tenantNamespaces` lists, by name or as
    /// `prefix*`, an OperatorGroup has exactly one entry in `spec.targetNamespaces`, and that entry
    /// is another namespace. Its selector has neither `matchLabels` nor `matchExpressions`. The
    /// rule finds nothing while the setting is missing, even where `rules` gives it a level. An
    /// UPDATE is judged where it changes `spec.targetNamespaces` or `spec.selector`.
    ///
    /// # Why
    ///
    /// For clusters with several tenants the documentation recommends a namespace of its own for
    /// each tenant's Operators, with a group for the tenant's namespace only. The tenant then
    /// neither sees nor uses the Operator's pod and account (OpenShift 4.12, Operators,
    /// *Recommended solution for multitenant clusters*).
    ///
    /// # Repair
    ///
    /// Name the tenant's namespace, and nothing else, in `spec.targetNamespaces`.
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
        on: [GROUP: Create | Update],
        off_until: ["/operatorGroup/tenantNamespaces"],
        source: "OCP 4.12 L4729-4735, L6423, L6442-6457; OCP 4.15 L2946-2979, L4478-4545",
    }
}

fn tenant(review: &Review<'_>, object: &Document, names: &[String], report: &mut Report<'_>) {
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
