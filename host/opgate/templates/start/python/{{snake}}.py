"""Policy `{{name}}`: Namespaces name their team."""

from opgate_policy import CREATE, DENY, UPDATE, Policy, Report, Review, Rule, Target

NAMESPACE = Target(groups=[""], versions=["v1"], resources=["namespaces"], kind="Namespace")

NS_1 = Rule(
    "NS-1",
    """
    a Namespace has the label team

    `metadata.labels.team` has a value. On UPDATE the rule evaluates only a changed label.

    # Why

    The costs and the alerts of a Namespace go to its team.

    # Remediation

    Set the label to the name of the team.

    # Accepted

    `labels: {team: payments}`

    # Rejected

    `labels: {}`
    """,
    name="namespace-team",
    level=DENY,
    on={NAMESPACE: [CREATE, UPDATE]},
    sources=["house rules, section 1"],
)

POLICY = Policy(name="{{name}}", version="1.0.0", title="Namespaces name their team", rules=[NS_1])


@POLICY.evaluate(NAMESPACE)
def evaluate(review: Review, report: Report) -> None:
    team = "/metadata/labels/team"
    # On UPDATE, only a change of the label is the author's to fix.
    if review.object and review.touches(team) and not review.object.text(team):
        report.add(NS_1, "metadata.labels.team", "the label team is missing")
