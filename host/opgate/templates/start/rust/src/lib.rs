//! Policy `{{name}}`: Namespaces name their team.

use opgate_sdk::{Report, Review, Target, policy, rule, rules};

static NAMESPACE: Target = Target {
    groups: &[""],
    versions: &["v1"],
    resources: &["namespaces"],
    kind: "Namespace",
    ..Target::EMPTY
};

policy! {
    name: "{{name}}",
    title: "Namespaces name their team",
    rules: [RULES],
    routes: [NAMESPACE => evaluate],
}

rules![NS_1];

rule! {
    /// a Namespace has the label team
    ///
    /// `metadata.labels.team` has a value. On UPDATE the rule evaluates only a changed label.
    ///
    /// # Why
    ///
    /// The costs and the alerts of a Namespace go to its team.
    ///
    /// # Remediation
    ///
    /// Set the label to the name of the team.
    ///
    /// # Accepted
    ///
    /// `labels: {team: payments}`
    ///
    /// # Rejected
    ///
    /// `labels: {}`
    NS_1: Deny {
        name: "namespace-team",
        on: [NAMESPACE: Create | Update],
        source: ["house rules, section 1"],
    }
}

fn evaluate(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(namespace) = review.object else { return };
    let team = "/metadata/labels/team";
    // On UPDATE, only a change of the label is the author's to fix.
    if review.touches_json(namespace, team) && namespace.text_or_empty(team).is_empty() {
        report.add(&NS_1, "metadata.labels.team", "the label team is missing");
    }
}
