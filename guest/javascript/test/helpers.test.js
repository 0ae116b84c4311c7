// The helpers for selectors, shapes and pods hold the cases in guest/cases/helpers.json, as those of the other SDKs do.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Document, pods, Selector, SelectorError, Shape, policy, read, rule, target } from '../src/index.js';
import { evaluate } from '../src/testing.js';

const TABLE = JSON.parse(readFileSync(new URL('../../cases/helpers.json', import.meta.url), 'utf8'));

function cases(list) {
  assert.ok(TABLE[list].length > 5, list);
  return TABLE[list].map((given) => [given, Document.parse(JSON.stringify(given))]);
}

/** The outcome of a case, in the words of the table. */
function outcome(document, read) {
  try {
    const selector = read();
    return selector === undefined ? { none: true } : { matches: document.matches('/labels', selector) };
  } catch (error) {
    assert.ok(error instanceof SelectorError, error.stack);
    return { error: error.message };
  }
}

const expected = ({ matches, none, error }) => (none ? { none } : error === undefined ? { matches } : { error });

test('selectors select and fail as in Kubernetes', () => {
  for (const [given, document] of cases('selectors')) {
    assert.deepEqual(outcome(document, () => document.selector('/selector')), expected(given), given.case);
    assert.deepEqual(outcome(document, () => Selector.from(given.selector)), expected(given), given.case);
  }
  for (const [given, document] of cases('mapSelectors')) {
    assert.deepEqual(outcome(document, () => document.mapSelector('/selector')), expected(given), given.case);
  }
  const text = Selector.from({ matchLabels: { a: 'b' }, matchExpressions: [{ key: 'c', operator: 'NotIn', values: ['z', 'd'] }, { key: 'e', operator: 'Exists' }, { key: 'f', operator: 'DoesNotExist' }] });
  assert.equal(`${text}`, 'a in (b),c notin (d,z),e,!f');
});

/** The shape of a case: `scalar`, or an object with one member. */
function shape(given) {
  if (given === 'scalar') return Shape.scalar;
  const [[name, inner]] = Object.entries(given);
  return Shape[name](name === 'list' ? shape(inner) : Object.fromEntries(Object.entries(inner).map(([field, it]) => [field, shape(it)])));
}

test('shapes compare as Go compares decoded values', () => {
  for (const [given] of cases('shapes')) {
    const side = (name) => Document.parse(JSON.stringify({ value: given[name] }));
    const [left, right] = [side('left'), side('right')];
    assert.equal(shape(given.shape).equal(left, right, '/value'), given.equal, given.case);
    assert.equal(shape(given.shape).equal(right, left, '/value'), given.equal, `${given.case}, in the other order`);
  }
  assert.throws(() => Shape.struct({ a: 'text' }), /a: write Shape.scalar/);
});

test('pods and their templates have their containers', () => {
  for (const [given, document] of cases('pods')) {
    const object = document.at('/object');
    const csv = given.kind === 'ClusterServiceVersion';
    const found = csv ? pods.inCsv(object) : [pods.inObject(object, given.kind)].filter((it) => it !== undefined);
    const specs = found.map((spec) => ({
      name: spec.name,
      pointer: spec.pointer,
      field: spec.field,
      containers: [...spec.containers(object)].map(({ list, index, pointer, field, value }) => {
        return { list, index, pointer, field, image: typeof value.image === 'string' ? value.image : null };
      }),
    }));
    assert.deepEqual(specs, given.specs, given.case);
  }
});

test('an update touches what differs for the Go type, and helpers read declared fields of the cluster', () => {
  const budget = target({ groups: ['policy'], versions: ['v1'], resources: ['poddisruptionbudgets'], kind: 'PodDisruptionBudget' });
  const others = read({ version: 'v1', resource: 'pods', fields: ['containers', 'initContainers', 'ephemeralContainers'].map((list) => `/spec/${list}/*/image`) });
  const one = rule({ id: 'T-1', level: 'deny', title: 't', on: [{ target: budget, operations: ['create', 'update'] }], reads: [others], sources: [] });
  const selectorShape = Shape.pointer({ matchLabels: Shape.struct({ app: Shape.scalar }) });
  const declared = policy({
    name: 't',
    title: 't',
    rules: [one],
    routes: [{
      on: budget,
      evaluate(review, report) {
        if (!review.touches('/spec/selector', selectorShape)) return;
        const selector = review.document.selector('/spec/selector');
        for (const pod of report.orSkip([one], 'Pods', () => [...others.list()]) ?? []) {
          if (!pod.matches('/metadata/labels', selector)) continue;
          for (const { value } of pods.inObject(pod, 'Pod').containers(pod)) report.add(one, 'spec.selector', value.image);
        }
      },
    }],
  });
  const pod = (name, app, image) => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'a', labels: { app } }, spec: { containers: [{ name: 'c', image }] } });
  const object = (spec) => ({ apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', metadata: { name: 'b', namespace: 'a' }, spec });
  const cluster = [pod('x', 'shop', 'i'), pod('y', 'cart', 'j')];
  const selector = { matchLabels: { app: 'shop' } };
  const images = (request) => evaluate(declared, { cluster, ...request }).violations.map(({ message }) => message);
  assert.deepEqual(images({ object: object({ selector }) }), ['i']);
  assert.deepEqual(images({ object: object({ selector: { ...selector, matchExpressions: [] } }), oldObject: object({ selector }) }), []);
  assert.deepEqual(images({ object: object({ selector }), oldObject: object({ selector: {} }) }), ['i']);
});
