// The descriptor: order of rules, matches by operation, reads, and the schema of the settings.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fileTarget, policy, read, rule, target } from '../src/index.js';
import { describe } from '../src/testing.js';

const pod = target({ versions: ['v1'], resources: ['pods'], kind: 'Pod', namespaces: { include: ['team-*'] }, conditions: { a: 'true' } });
const file = fileTarget('PlainBundle', ['plainbundles']);
const names = read({ version: 'v1', resource: 'namespaces', labelSelector: { matchLabels: { a: 'b' } } });
const made = (id, on, more) => rule({ id, level: 'deny', title: id, on, sources: ['s'], ...more });

const RULES = [
  made('A-100', [{ target: pod, operations: ['delete'] }], { noExemptions: true, name: 'no-deletion' }),
  made('A-99', [{ target: pod, operations: ['update', 'create'] }, { target: file, operations: ['create'] }], { reads: [names] }),
  made('A-2', [{ target: pod, operations: ['create', 'update'] }], { level: 'warn', deniesWith: ['/strict'], reads: [names] }),
];
const evaluate = () => {};

test('rules are in the order of their ids, and matches follow from them', () => {
  const it = describe(policy({ name: 't', version: '2.0.0', title: 't', rules: RULES, routes: [{ on: pod, evaluate }, { on: file, evaluate }] }));
  assert.deepEqual(it.rules.map(({ id, defaultLevel, enabledBy, kinds, operations }) => [id, defaultLevel, enabledBy, kinds, operations]), [
    ['A-2', 'warn', ['/strict'], ['Pod'], ['create', 'update']],
    ['A-99', 'deny', [], ['Pod', 'PlainBundle'], ['create', 'update']],
    ['A-100', 'deny', [], ['Pod'], ['delete']],
  ]);
  assert.deepEqual(it.matches.map(({ route, operations, rules }) => [route, operations, rules]), [
    [0, ['create', 'update'], ['A-2', 'A-99']],
    [0, ['delete'], ['A-100']],
    [1, ['create'], ['A-99']],
  ]);
  assert.deepEqual(it.matches[0].namespaces, { include: ['team-*'], exclude: [] });
  assert.deepEqual(it.rules.map(({ name, sources }) => [name, sources]), [['', ['s']], ['', ['s']], ['no-deletion', ['s']]]);
  assert.deepEqual(it.matches[0].matchConditions, [{ name: 'a', expression: 'true' }]);
  assert.deepEqual(it.reads.map(({ resource, labelSelector, rules }) => [resource.resource, labelSelector, rules]), [
    ['namespaces', '{"matchLabels":{"a":"b"}}', ['A-2', 'A-99']],
  ]);
  const { properties } = JSON.parse(it.settingsSchema);
  assert.deepEqual(Object.keys(properties), ['ratcheting', 'exempt', 'messages', 'rules']);
  assert.equal(properties.exempt.description, 'Identities to which no rule but A-100 applies.');
});

test('a policy of files has fewer common settings', () => {
  const rules = [made('F-1', [{ target: file, operations: ['create'] }], { maySkip: true })];
  const of = (settings) => describe(policy({ name: 't', title: 't', rules, routes: [{ on: file, evaluate }], settings }));
  const { properties } = JSON.parse(of({ own: { type: 'string' } }).settingsSchema);
  assert.deepEqual(Object.keys(properties), ['messages', 'rules', 'own']);
  assert.match(properties.messages.properties.skippedRules.description, /needs files that are not available/);
  assert.throws(() => of({ rules: {} }), /all policies have the setting rules/);
});
