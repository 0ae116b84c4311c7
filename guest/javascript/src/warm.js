// Runs the SDK once on a small policy while the component is built. The engine compiles a function
// when it is first called: after this, the snapshot has the SDK compiled, and no call does that again.
//
// It does not run the author's functions, because the snapshot would hold the values of their variables.

import { policy, read, rule, target } from './declare.js';
import { describe } from './describe.js';
import { Document } from './document.js';
import { evaluate, settingsErrors } from './evaluate.js';
import { host } from './host.js';
import { Plain } from './plain.js';
import { Request, Review } from './review.js';

const THING = target({ versions: ['v1'], resources: ['things'], kind: 'Thing' });
const OTHERS = read({ version: 'v1', resource: 'others' });
const on = [{ target: THING, operations: ['create', 'update'] }];
const ONE = rule({ id: 'T-1', level: 'deny', title: 'one', on, sources: ['warm'] });
const TWO = rule({ id: 'T-2', level: 'warn', title: 'two', on, reads: [OTHERS], enabledBy: ['/two'], sources: ['warm'] });
const WARM = policy({ name: 'warm', title: 'warm', rules: [ONE, TWO], routes: [{ on: THING, evaluate: look }] });

function look(review, report) {
  if (!review.touches('/metadata/name') || review.object.kind !== 'Thing') return;
  report.orSkip([TWO], 'Others', () => OTHERS.get('', review.document.text('/kind')));
  report.add(ONE, 'spec', `${review.name} in ${review.namespace}`);
  if (report.isOn(TWO)) report.add(TWO, 'spec', review.request.user.username);
}

export function warmUp() {
  // No call of the host is possible while the component is built.
  const { get } = host;
  host.get = () => {
    throw Object.assign(new Error(), { payload: { tag: 'no-cluster', val: '' } });
  };
  const parts = { name: () => 'a', namespace: () => 'b', user: () => ({ username: '', uid: '', groups: [] }) };
  const document = (name) => new Document(new Plain({ kind: 'Thing', metadata: { name } }));
  const exempt = { users: ['x'], groups: ['y'] };
  for (const [operation, old, settings] of [
    ['create', undefined, {}],
    ['update', document('b'), { two: true, exempt, messages: { prefixRuleId: true, skippedRules: 'warn' } }],
  ]) {
    const review = new Review(new Request(operation, parts), document('a'), old, new Document(new Plain(settings)));
    evaluate(WARM, review, 1n);
    settingsErrors(WARM, settings);
  }
  describe(WARM);
  host.get = get;
}
