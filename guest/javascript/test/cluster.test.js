// Reads of cluster state: fields, pages, indexes, and queries without an answer.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { host } from '../src/host.js';
import { policy, read, ReadError, rule, sample, target } from '../src/index.js';
import { Plain } from '../src/plain.js';
import { evaluate } from '../src/testing.js';

const thing = target({ versions: ['v1'], resources: ['things'], kind: 'Thing' });
const pods = read({
  version: 'v1',
  resource: 'pods',
  fields: ['/spec/containers/*/image'],
  keys: ['/data'],
  indexes: [
    { name: 'image', field: '/spec/containers/*/image' },
    { name: 'group', field: '/spec/refs/*/{group}~1{kind}' },
    { name: 'teams', field: '/metadata/annotations/teams', separator: ',' },
  ],
});
const one = rule({ id: 'T-1', level: 'deny', title: 'one', on: [{ target: thing, operations: ['create'] }], reads: [pods], sources: [] });

const pod = (name, image, more = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'a', labels: { app: name }, annotations: { teams: `${name}, all` } },
  spec: { containers: [{ name: 'c', image }], refs: [{ group: 'g', kind: 'K' }], nodeName: 'n' },
  ...more,
});

function ask(look, cluster) {
  const declared = policy({ name: 't', title: 't', rules: [one], routes: [{ on: thing, evaluate: look }] });
  return evaluate(declared, { object: { apiVersion: 'v1', kind: 'Thing' }, cluster });
}

test('only what is declared is kept', () => {
  ask(() => {
    const found = pods.get('a', 'p');
    assert.equal(found.value.spec.containers[0].image, 'i');
    assert.deepEqual(found.list('/spec/containers').map((it) => it.image), ['i']);
    assert.deepEqual(found.value.data, { k: true });
    assert.equal(found.value.metadata.deletionTimestamp, undefined);
    assert.equal(pods.get('a', 'q'), null);
    assert.equal(pods.get('a', 'x'.repeat(5_000)), null);
  }, [pod('p', 'i', { data: { k: 'secret' } })]);
});

test('reads of undeclared fields throw errors that name the declaration', () => {
  const of = 'of v1/pods, which its read does not declare: add';
  const parts = 'of v1/pods, of which its read declares only parts: add';
  const by = ', or read the parts by their pointers';
  for (const [look, expected] of [
    [(it) => it.text('/spec/nodeName'), `the policy read '/spec/nodeName' ${of} "/spec/nodeName" to \`fields\``],
    [(it) => it.has('/spec/nodeName'), `the policy read '/spec/nodeName' ${of} "/spec/nodeName" to \`fields\``],
    [(it) => it.value.spec.nodeName, `the policy read '/spec/nodeName' ${of} "/spec/nodeName" to \`fields\``],
    [(it) => 'nodeName' in it.value.spec, `the policy read '/spec/nodeName' ${of} "/spec/nodeName" to \`fields\``],
    [(it) => Object.hasOwn(it.value.spec, 'nodeName'), `the policy read '/spec/nodeName' ${of} "/spec/nodeName" to \`fields\``],
    [(it) => it.at('/spec').text('/nodeName'), `the policy read '/spec/nodeName' ${of} "/spec/nodeName" to \`fields\``],
    [(it) => it.value.spec.containers[0].name, `the policy read '/spec/containers/0/name' ${of} "/spec/containers/*/name" to \`fields\``],
    [(it) => it.value.kind, `the policy read '/kind' ${of} "/kind" to \`fields\``],
    [(it) => it.list('/spec/refs'), `the policy read '/spec/refs' ${of} "/spec/refs" to \`fields\``],
    [(it) => it.raw('/spec'), `the policy read all of '/spec' ${parts} "/spec" to \`fields\`${by}`],
    [(it) => Object.keys(it.value.spec), `the policy read all of '/spec' ${parts} "/spec" to \`fields\`${by}`],
    [(it) => ({ ...it.value.spec }), `the policy read all of '/spec' ${parts} "/spec" to \`fields\`${by}`],
    [(it) => it.raw(''), 'the policy read all of an object of v1/pods, of which its read declares only some fields: read these by their pointers'],
    [(it) => JSON.stringify(it.value), 'the policy read all of an object of v1/pods, of which its read declares only some fields: read these by their pointers'],
    [(it) => it.text('/data/k'), `the policy read the value of '/data/k' of v1/pods, of which its read declares only the name: add "/data/k" to \`fields\``],
    [(it) => it.integer('spec/replicas'), "'spec/replicas' is not a JSON pointer: write '/spec/replicas'"],
  ]) {
    ask(() => {
      const found = pods.get('a', 'p');
      assert.throws(() => look(found), (error) => error.message === expected || assert.equal(error.message, expected));
    }, [pod('p', 'i', { data: { k: 'secret' } })]);
  }
});

test('objects are found by namespace, labels and index', () => {
  const cluster = [pod('b', 'y'), pod('a', 'x'), { ...pod('c', 'x'), spec: {} }];
  ask(() => {
    const names = (query) => pods.names(query).map((it) => it.name).join(' ');
    assert.equal(names(), 'a b c');
    assert.equal(names({ matches: [{ index: 'image', values: ['x'] }] }), 'a');
    assert.equal(names({ matches: [{ index: 'image', values: ['x'], includeMissing: true }] }), 'a c');
    assert.equal(names({ matches: [{ index: 'group', values: ['g/K'] }] }), 'a b');
    assert.equal(names({ matches: [{ index: 'teams', values: ['b'] }] }), 'b');
    assert.equal(names({ labelSelector: { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['a'] }] } }), 'b c');
    assert.equal(names({ namespace: 'z' }), '');
    assert.equal(pods.any({ namespace: 'a' }), true);
    assert.deepEqual([...pods.list()].map((it) => it.text('/metadata/name')), ['a', 'b', 'c']);
  }, cluster);
});

test('pages follow each other', () => {
  const cluster = Array.from({ length: 600 }, (_, n) => pod(`p${String(n).padStart(3, '0')}`, 'i'));
  ask(() => {
    const names = [...pods.list()].map((it) => it.text('/metadata/name'));
    assert.deepEqual([names.length, names[0], names[599]], [600, 'p000', 'p599']);
  }, cluster);
});

test('without an answer the rule is skipped', () => {
  const look = (review, report) => assert.equal(report.orSkip([one], 'Pods', () => pods.get('a', 'p')), undefined);
  assert.deepEqual(ask(look).skipped, [{ rule: 'T-1', reason: "the cluster's Pods are not available" }]);
  assert.throws(() => ask(() => pods.get('a', 'p')), ReadError);
  assert.throws(() => ask(() => read({ version: 'v1', resource: 'secrets' }).names(), []), /^Error: secrets: not declared/);
  const labelSelector = { matchExpressions: [{ key: 'a', operator: 'Is' }] };
  assert.deepEqual(ask((_, report) => report.orSkip([one], 'Pods', () => pods.any({ labelSelector })), [pod('p', 'i')]).skipped, []);
});

test('a sample has whole objects', () => {
  const kinds = { group: 'x.y', version: 'v1', resource: 'things' };
  const cluster = [{ apiVersion: 'x.y/v2', kind: 'Thing', metadata: { name: 'a' }, spec: 1 }, { apiVersion: 'x.y/v1', kind: 'Thing' }];
  ask(() => {
    assert.deepEqual(sample(kinds, 1).complete, false);
    assert.deepEqual(sample(kinds).objects.map((it) => it.value.spec), [undefined, 1]);
  }, cluster);
});

test('a call never has 1,000 handles, and what it lists stays readable', () => {
  let live = 0;
  let most = 0;
  class Handle {
    constructor(name) {
      this.plain = new Plain({ metadata: { name } });
      most = Math.max(most, (live += 1));
    }
    kind(pointer) {
      return this.plain.kind(pointer);
    }
    text(pointer) {
      return this.plain.text(pointer);
    }
    raw(pointer) {
      return this.plain.raw(pointer);
    }
    [Symbol.dispose ?? Symbol.for('dispose')]() {
      live -= 1;
    }
  }
  const before = { ...host };
  let next = 0;
  host.list = (_, { limit }) => Array.from({ length: next < 2_560 ? limit : 0 }, () => new Handle(`n${(next += 1)}`));
  try {
    const all = [...pods.list()];
    assert.deepEqual([all.length, all[0].text('/metadata/name'), all.at(-1).text('/metadata/name')], [2_560, 'n1', 'n2560']);
    assert.ok(most < 990, `${most} handles`);
  } finally {
    Object.assign(host, before);
  }
});
