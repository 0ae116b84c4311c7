// Tests of the types: `tsc` fails for an error, and for a missing expected error.

import { Document, Selector, Shape, pods as podSpecs, policy, read, rule, sample, target } from '@opgate/policy';
import type { Report, Review } from '@opgate/policy';
import { checkSettings, describe, evaluate } from '@opgate/policy/testing';

interface Settings {
  max?: number;
}

const pod = target({ versions: ['v1'], resources: ['pods'], kind: 'Pod', names: { exclude: ['a-*'] } });
const pods = read({ version: 'v1', resource: 'pods', indexes: [{ name: 'node', field: '/spec/nodeName' }] });
const one = rule({ id: 'T-1', name: 'one-pod', level: 'warn', title: 'one', on: [{ target: pod, operations: ['create'] }], reads: [pods], sources: ['here'] });

// @ts-expect-error: no such level
rule({ id: 'T-2', level: 'off', title: 'two', on: [], sources: ['here'] });
// @ts-expect-error: no such operation
rule({ id: 'T-2', level: 'deny', title: 'two', on: [{ target: pod, operations: ['patch'] }], sources: ['here'] });
// @ts-expect-error: no sources
rule({ id: 'T-2', level: 'deny', title: 'two', on: [] });

const declared = policy<Settings>({
  name: 'types',
  title: 'types',
  rules: [one],
  routes: [{ on: pod, evaluate: look }],
  checkSettings: ({ max }) => (max === 0 ? [{ pointer: '/max', message: 'at least 1' }] : []),
});

function look(review: Review<{ spec?: { nodeName?: string } }, Settings>, report: Report): void {
  const node: string | undefined = review.object?.spec?.nodeName;
  const max: number = review.settings.max ?? 1;
  const names = report.orSkip([one], 'Pods', () => pods.names({ matches: [{ index: 'node', values: [node ?? ''] }] }));
  if (names !== undefined && names.length > max) report.add(one, 'spec.nodeName', `${names[0]?.name}`);
  // @ts-expect-error: a rule, not its id
  report.add('T-1', '', '');
  // @ts-expect-error: there may be no document
  review.document.text('/a');
  const number: bigint | undefined = Document.parse('{}').integer('/a');
  const { objects, complete } = sample({ group: 'a.b', version: 'v1', resource: 'cs' });
  const selector: Selector | undefined = review.document?.selector('/spec/selector') ?? Selector.fromMap({ a: 'b' });
  const shape = Shape.struct({ nodeName: Shape.scalar, ports: Shape.list(Shape.pointer({})) });
  // @ts-expect-error: a shape, not its name
  Shape.list('scalar');
  if (review.touches('/spec', shape) && selector?.matches({ a: 'b' })) console.warn('touched', node);
  for (const container of podSpecs.inObject(objects[0]!, 'Pod')?.containers(objects[0]!) ?? []) console.log(container.field, container.value.image);
  if (complete && objects.length > 0 && number !== undefined) report.skip(one, '', 'never');
}

const { violations } = evaluate(declared, { object: { kind: 'Pod' }, settings: { max: 2 }, cluster: [] });
export default [violations[0]?.message, checkSettings(declared, {}).length, describe(declared)];
