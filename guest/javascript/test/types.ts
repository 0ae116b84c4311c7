// What the types accept and refuse. `tsc` is the test: an error that is expected and does not come is one.

import { Document, policy, read, rule, sample, target } from '@opgate/policy';
import type { Report, Review } from '@opgate/policy';
import { checkSettings, describe, judge } from '@opgate/policy/testing';

interface Settings {
  most?: number;
}

const pod = target({ versions: ['v1'], resources: ['pods'], kind: 'Pod', names: { exclude: ['a-*'] } });
const pods = read({ version: 'v1', resource: 'pods', indexes: [{ name: 'node', field: '/spec/nodeName' }] });
const one = rule({ id: 'T-1', level: 'warn', title: 'one', on: [{ target: pod, operations: ['create'] }], reads: [pods], source: 'here' });

// @ts-expect-error: no such level
rule({ id: 'T-2', level: 'off', title: 'two', on: [], source: 'here' });
// @ts-expect-error: no such operation
rule({ id: 'T-2', level: 'deny', title: 'two', on: [{ target: pod, operations: ['patch'] }], source: 'here' });
// @ts-expect-error: no source
rule({ id: 'T-2', level: 'deny', title: 'two', on: [] });

const declared = policy<Settings>({
  name: 'types',
  title: 'types',
  rules: [one],
  routes: [{ on: pod, judge: look }],
  checkSettings: ({ most }) => (most === 0 ? [{ pointer: '/most', message: 'at least 1' }] : []),
});

function look(review: Review<{ spec?: { nodeName?: string } }, Settings>, report: Report): void {
  const node: string | undefined = review.object?.spec?.nodeName;
  const most: number = review.settings.most ?? 1;
  const names = report.or_skip([one], 'Pods', () => pods.names({ matches: [{ index: 'node', values: [node ?? ''] }] }));
  if (names !== undefined && names.length > most) report.add(one, 'spec.nodeName', `${names[0]?.name}`);
  // @ts-expect-error: a rule, not its id
  report.add('T-1', '', '');
  // @ts-expect-error: there may be no document
  review.document.text('/a');
  const number: bigint | undefined = Document.parse('{}').integer('/a');
  const { objects, complete } = sample({ group: 'a.b', version: 'v1', resource: 'cs' });
  if (complete && objects.length > 0 && number !== undefined) report.skip(one, '', 'never');
}

const { violations } = judge(declared, { object: { kind: 'Pod' }, settings: { most: 2 }, cluster: [] });
export default [violations[0]?.message, checkSettings(declared, {}).length, describe(declared)];
