//! The spec of an OperatorGroup. These rules read nothing else.

use std::collections::HashSet;

use opgate_sdk::go::quote;
use opgate_sdk::{
    Document, Fix, Report, Review, Selector, SelectorError, Shape, corrections, escape, rule, rules,
};

use super::selection;
use crate::group_surface::{SELECTOR, TARGETS};
use crate::kinds::GROUP;
use crate::lists;

rules![OPG_04, OPG_05, OPG_06, OPG_07];

const STRATEGY: &str = "/spec/upgradeStrategy";
const STRATEGIES: [&str; 2] = ["Default", "TechPreviewUnsafeFailForward"];

pub(crate) fn check(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let is_v1 = review.request.resource().version == "v1";
    let new_names = review.touches_json(object, TARGETS);
    let new_selector = review.touches_json(object, SELECTOR);
    let names = lists::texts(object, TARGETS);
    if new_names {
        check_namespace_names(object, &names, review.is_update(), report);
        if is_v1 {
            check_duplicate_names(&names, report);
        }
    }
    if new_selector && let Err(message) = parse_selector(object) {
        report.add(&OPG_05, "spec.selector", message);
        report.set_fix(&OPG_05, || spell_operator(object));
    }
    if is_v1 && review.touches(object, STRATEGY, &Shape::Scalar) {
        check_strategy(object, report);
    }
    if new_names || new_selector {
        selection::check(review, object, &names, report);
    }
}

rule! {
    /// target namespaces are not empty: a group for all namespaces has none
    ///
    /// No entry of `spec.targetNamespaces` is the empty string. A group for all namespaces omits
    /// both `targetNamespaces` and `selector`. The rule evaluates an UPDATE only if it changes
    /// `spec.targetNamespaces`.
    ///
    /// # Why
    ///
    /// OLM writes the empty name to `status.namespaces` of a group for all namespaces, but it
    /// rejects the name in the spec and does not set the targets of the group (OpenShift 4.12,
    /// Operators, *Target namespace selection*; OLM
    /// `pkg/controller/operators/olm/operatorgroup.go`).
    ///
    /// # Remediation
    ///
    /// For all namespaces, remove `targetNamespaces` and `selector`. Otherwise remove the empty
    /// entry.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
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
        name: "valid-target-namespaces",
        on: [GROUP: Create | Update],
        source: ["OCP 4.12 L3329-3383, L6447-6457, L6526-6535", "OLM pkg/controller/operators/olm/operatorgroup.go"],
    }
}

fn check_namespace_names(
    object: &Document,
    names: &[String],
    is_update: bool,
    report: &mut Report<'_>,
) {
    if names.iter().any(String::is_empty) {
        let message =
            format!("TargetNamespaces cannot contain NamespaceAll: [{}]", names.join(" "));
        report.add(&OPG_04, "spec.targetNamespaces", message);
        report.set_fix(&OPG_04, || remove_empty_names(object, names, is_update));
    }
}

rule! {
    /// each target namespace of a v1 OperatorGroup is listed once
    ///
    /// `spec.targetNamespaces` of a `v1` OperatorGroup lists each namespace once. The rule does not
    /// evaluate groups of `v1alpha2`. It evaluates an UPDATE only if it changes
    /// `spec.targetNamespaces`.
    ///
    /// # Why
    ///
    /// The CRD of `v1` declares the list as a set, so a Kubernetes API server with that CRD rejects
    /// duplicates by itself (`crds/operators.coreos.com_operatorgroups.yaml` of the Operator
    /// Framework API). The rule reports the same for manifests that have not reached the API server
    /// yet.
    ///
    /// # Remediation
    ///
    /// Remove the entry at the index that the message names. Indexes start at 0.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
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
        name: "no-duplicate-target-namespaces",
        on: [GROUP: Create | Update],
        source: ["api crds/operators.coreos.com_operatorgroups.yaml"],
    }
}

fn check_duplicate_names(names: &[String], report: &mut Report<'_>) {
    let mut seen = HashSet::with_capacity(names.len());
    let mut twice = names.iter().enumerate().filter(|(_, name)| !seen.insert(name.as_str()));
    for (index, name) in twice.by_ref().take(Report::MAX_VIOLATIONS) {
        let field = format!("spec.targetNamespaces[{index}]");
        let message = format!("{field}: Duplicate value: {}", quote(name));
        report.add(&OPG_06, field, message);
        report.set_fix(&OPG_06, || {
            Some(Fix::safe("remove the duplicate").remove(format!("{TARGETS}/{index}")))
        });
    }
    report.add_count(&OPG_06, twice.count());
}

rule! {
    /// the selector of an OperatorGroup is a label selector
    ///
    /// `spec.selector` is a Kubernetes label selector, even if it has no effect because of
    /// `targetNamespaces`. The operators of `matchExpressions` are `In`, `NotIn`, `Exists` and
    /// `DoesNotExist`; the first two need values, the others accept none. Keys and values have the
    /// syntax of labels. Other members of the selector are ignored. The rule evaluates an UPDATE
    /// only if it changes `spec.selector`.
    ///
    /// # Why
    ///
    /// OLM converts the selector before it evaluates anything else. If the conversion fails, OLM
    /// computes no target namespaces for the group (OLM
    /// `pkg/controller/operators/olm/operatorgroup.go`). OpenShift 4.12, Operators, *Target
    /// namespace selection*, describes the field.
    ///
    /// # Remediation
    ///
    /// Correct the first mistake, which the message quotes, and apply the group again. Use
    /// `matchLabels` for plain comparisons.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
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
        name: "valid-operator-group-selector",
        on: [GROUP: Create | Update],
        source: ["OCP 4.12 L3359-3368, L3841-3843", "OLM pkg/controller/operators/olm/operatorgroup.go"],
    }
}

/// Upstream's error for the selector, if it has one.
fn parse_selector(object: &Document) -> Result<(), SelectorError> {
    let mut selector = Selector::default();
    for key in object.keys("/spec/selector/matchLabels") {
        let value = object.text_or_empty(&format!("/spec/selector/matchLabels/{}", escape(&key)));
        selector.add_match_label(&key, &value)?;
    }
    for expression in object.items("/spec/selector/matchExpressions") {
        let (key, operator) =
            (expression.text_or_empty("/key"), expression.text_or_empty("/operator"));
        let values = lists::texts(&expression, "/values");
        selector.add_match_expression(&key, &operator, values.iter().map(String::as_str))?;
    }
    Ok(())
}

rule! {
    /// the upgrade strategy of a v1 OperatorGroup is a valid one
    ///
    /// `spec.upgradeStrategy` of a `v1` OperatorGroup, if it is set, is `Default` or
    /// `TechPreviewUnsafeFailForward`. The rule does not evaluate groups of `v1alpha2`. It
    /// evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// The CRD of `v1` lists these two values, and a Kubernetes API server with that CRD rejects
    /// any other (`crds/operators.coreos.com_operatorgroups.yaml` of the Operator Framework API).
    /// OLM itself treats an unknown value as `Default`.
    ///
    /// # Remediation
    ///
    /// Set one of the two values, or remove the field.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
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
        name: "valid-operator-group-upgrade-strategy",
        on: [GROUP: Create | Update],
        source: ["api crds/operators.coreos.com_operatorgroups.yaml"],
    }
}

fn check_strategy(object: &Document, report: &mut Report<'_>) {
    if let Some(strategy) = object.text(STRATEGY)
        && !STRATEGIES.contains(&strategy.as_str())
    {
        let message = format!(
            "spec.upgradeStrategy: Unsupported value: {}: supported values: \"Default\", \"TechPreviewUnsafeFailForward\"",
            quote(&strategy)
        );
        report.add(&OPG_07, "spec.upgradeStrategy", message);
        report.set_fix(&OPG_07, || corrections::spelling(STRATEGY, &strategy, &STRATEGIES));
    }
}

/// The list without empty names. Without any other name, the group is for all namespaces and has no list.
fn remove_empty_names(object: &Document, names: &[String], is_update: bool) -> Option<Fix> {
    const MAX_REMOVED: usize = 16;
    if names.iter().all(String::is_empty) {
        return Some(select_all(object));
    }
    // The members of an existing group depend on its namespaces.
    if is_update {
        return None;
    }
    let mut seen = HashSet::new();
    let mut is_removed = |name: &String| name.is_empty() || !seen.insert(name.clone());
    let removed = names.iter().enumerate().filter(|(_, name)| is_removed(name));
    let removed: Vec<usize> = removed.map(|(index, _)| index).take(MAX_REMOVED).collect();
    // The last one first: a removal moves the elements behind it.
    let fix = Fix::needs_review("remove the empty names and the duplicates");
    Some(removed.iter().rev().fold(fix, |fix, index| fix.remove(format!("{TARGETS}/{index}"))))
}

/// The group for all namespaces. Its author may have meant the selector, if there is one.
fn select_all(object: &Document) -> Fix {
    if object.has(SELECTOR) {
        let title = "remove the list and the selector: the group is for all namespaces";
        return Fix::needs_review(title).remove(TARGETS).remove(SELECTOR);
    }
    Fix::safe("remove the list: the group is for all namespaces").remove(TARGETS)
}

/// The first operator of the selector that is not spelled like those of Kubernetes.
fn spell_operator(object: &Document) -> Option<Fix> {
    const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
    const EXPRESSIONS: &str = "/spec/selector/matchExpressions";
    let rows = object.rows(EXPRESSIONS, &["/operator"]);
    let mut rows = rows.iter().enumerate();
    let (index, row) = rows.find(|(_, row)| !OPERATORS.contains(&row.text_or_empty(0)))?;
    let pointer = format!("{EXPRESSIONS}/{index}/operator");
    corrections::spelling(&pointer, row.text_or_empty(0), &OPERATORS)
}
