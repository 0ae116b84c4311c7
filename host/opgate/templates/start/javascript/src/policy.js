// Policy `{{name}}`: Namespaces name their team.

import { policy, rule, target } from '@opgate/policy';

const namespace = target({ groups: [''], versions: ['v1'], resources: ['namespaces'], kind: 'Namespace' });

const hasTeam = rule({
  id: 'NS-1',
  name: 'namespace-team',
  level: 'deny',
  title: 'a Namespace has the label team',
  docs: `
    \`metadata.labels.team\` has a value. On UPDATE the rule evaluates only a changed label.

    # Why

    The costs and the alerts of a Namespace go to its team.

    # Remediation

    Set the label to the name of the team.

    # Accepted

    \`labels: {team: payments}\`

    # Rejected

    \`labels: {}\`
  `,
  on: [{ target: namespace, operations: ['create', 'update'] }],
  sources: ['house rules, section 1'],
});

export default policy({
  name: '{{name}}',
  title: 'Namespaces name their team',
  rules: [hasTeam],
  routes: [{ on: namespace, evaluate }],
});

function evaluate(review, report) {
  const team = '/metadata/labels/team';
  // On UPDATE, only a change of the label is the author's to fix.
  if (review.touches(team) && !review.document?.text(team)) {
    report.add(hasTeam, 'metadata.labels.team', 'the label team is missing');
  }
}
