// Levels, exemptions, the limit of violations and skipped rules: the same as in guest/sdk/src/report.rs.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Fix, policy, rule, target } from '../src/index.js';
import { checkSettings, evaluate } from '../src/testing.js';

const thing = target({ versions: ['v1'], resources: ['things'], kind: 'Thing' });
const on = [{ target: thing, operations: ['create', 'update', 'delete'] }];
const one = rule({ id: 'T-1', level: 'deny', title: 'one', on, sources: [] });
const two = rule({ id: 'T-2', level: 'warn', title: 'two', on, deniesWith: ['/strict'], sources: [] });
const three = rule({ id: 'T-3', level: 'warn', title: 'three', on, enabledBy: ['/three'], noExemptions: true, sources: [] });

function report(settings, fill, more = {}) {
  const declared = policy({ name: 't', title: 't', rules: [one, two, three], routes: [{ on: thing, evaluate: (review, it) => fill(it, review) }] });
  const object = { apiVersion: 'v1', kind: 'Thing', metadata: { name: 'a' } };
  return evaluate(declared, { object, settings, user: 'me', ...more });
}

const levels = (verdict) => verdict.violations.map((it) => `${it.rule} ${it.level}`);

test('the level is that of the configuration, then of settings, then of the rule', () => {
  for (const [settings, expected] of [
    [{}, ['T-1 deny', 'T-2 warn']],
    [{ rules: { 'T-1': 'off', 'T-2': 'deny' } }, ['T-2 deny']],
    [{ rules: { 'T-1': 'warn', 'T-3': 'deny' } }, ['T-1 warn', 'T-2 warn', 'T-3 deny']],
    [{ strict: true }, ['T-1 deny', 'T-2 deny']],
    [{ strict: 'deny', three: [] }, ['T-1 deny', 'T-2 deny', 'T-3 warn']],
    [{ strict: 'warn', three: false }, ['T-1 deny', 'T-2 warn']],
    [{ three: null }, ['T-1 deny', 'T-2 warn']],
    [{ three: 1, exempt: { users: ['me'] } }, ['T-3 warn']],
    [{ three: 1, exempt: { groups: ['us'] } }, ['T-3 warn']],
    [{ exempt: { users: ['you'] } }, ['T-1 deny', 'T-2 warn']],
  ]) {
    const fill = (it) => [one, two, three].forEach((rule) => it.add(rule, 'spec', 'no'));
    assert.deepEqual(levels(report(settings, fill, { groups: ['us'] })), expected, JSON.stringify(settings));
  }
  assert.deepEqual(levels(report({}, (it) => it.addAs('warn', one, 'spec', 'no'))), ['T-1 warn']);
});

test('too many violations are shared and counted', () => {
  const { violations } = report({}, (it) => {
    for (let n = 0; n < 1_000; n += 1) it.add(two, `f${n}`, 'é'.repeat(3_000));
    it.add(one, 'x'.repeat(2_000), 'no');
  });
  assert.equal(violations.length, 256);
  assert.ok(violations.every((it) => Buffer.byteLength(it.message) <= 4_096));
  assert.deepEqual([violations[255].rule, violations[255].field.length], ['T-1', 1_024]);
  assert.match(violations[254].message, /^745 more violations of this rule are omitted; é/);
});

test('texts are made for what fits', () => {
  let made = 0;
  const { violations } = report({}, (it) => it.addEach(one, Array(1_000).keys(), (n) => [`f${n}`, `${(made += 1)}`]));
  assert.deepEqual([violations.length, made], [256, 256]);
  assert.deepEqual([violations[255].field, violations[255].message], ['f255', '744 more violations of this rule are omitted; 256']);
});

test('skipped rules are reported', () => {
  const fill = (it) => {
    it.skipPart(two, 'spec', 'half is missing');
    it.skip(one, '', 'all is missing');
    it.skip(one, '', 'really');
    it.skip(three, '', 'it is off');
  };
  const skipped = [{ rule: 'T-1', reason: 'all is missing' }, { rule: 'T-2', reason: 'in part: half is missing' }];
  assert.deepEqual(report({}, fill).skipped, skipped);
  const { violations } = report({ messages: { skippedRules: 'warn' }, rules: { 'T-1': 'deny' } }, fill);
  assert.deepEqual(violations.map((it) => [it.level, it.field, it.message]), [['warn', 'spec', 'T-2 was evaluated in part: half is missing']]);
});

test('annotations, reason and prefix', () => {
  const verdict = report({ messages: { prefixRuleId: true } }, (it) => {
    for (const word of ['b', 'a', 'b', '\u{1f6d2}', '\uff01']) it.annotate('k', word);
    it.setReason('Invalid');
    it.add(one, '', 'no');
    assert.deepEqual([it.denials(one), it.denies(one), it.isOn(three)], [1, true, false]);
  });
  assert.deepEqual(verdict.auditAnnotations, [{ key: 'k', value: 'a b \uff01 \u{1f6d2}' }]);
  assert.deepEqual([verdict.reason, verdict.violations[0].message], ['Invalid', 'T-1: no']);
});

test('a violation has the changes of its fix, in their order', () => {
  const fix = Fix.needsReview('change all')
    .set('/metadata/labels/app', 'a')
    .insert('/list/-', [1])
    .remove('/old')
    .renameKey('/from', 'to')
    .moveFile('/spec/files/0', 'b.yaml');
  const { violations } = report({}, (it) => {
    it.add(one, '', 'no', fix);
    it.addAs('warn', two, '', 'no', Fix.safe('nothing'));
    it.add(two, '', 'no');
  });
  assert.deepEqual(violations.map((it) => it.fix), [
    {
      title: 'change all',
      safety: 'unsafe',
      edits: [
        { tag: 'set', val: { pointer: '/metadata/labels/app', value: '"a"' } },
        { tag: 'insert', val: { pointer: '/list/-', value: '[1]' } },
        { tag: 'remove', val: '/old' },
        { tag: 'rename-key', val: { pointer: '/from', name: 'to' } },
        { tag: 'move-file', val: { pointer: '/spec/files/0', path: 'b.yaml' } },
      ],
    },
    { title: 'nothing', safety: 'safe', edits: [] },
    undefined,
  ]);
  assert.throws(() => Fix.safe('x').set('spec', 1), /'spec' is not a JSON pointer: write '\/spec'/);
});

test('an update touches what changed, unless the settings want all', () => {
  const oldObject = { apiVersion: 'v1', kind: 'Thing', metadata: { name: 'a' }, a: [1], b: [] };
  const of = (settings, object) => {
    const touched = [];
    const look = (_, review) => touched.push(...['/a', '/b', '/c'].filter((pointer) => review.touches(pointer)));
    report(settings, look, { oldObject, object: { ...oldObject, ...object } });
    return touched;
  };
  assert.deepEqual(of({}, { a: [2], b: null }), ['/a']);
  assert.deepEqual(of({ ratcheting: false }, {}), ['/a', '/b', '/c']);
  assert.deepEqual(of({ ratcheting: false }, { metadata: { deletionTimestamp: 'now' } }), []);
  report({}, (_, review) => assert.deepEqual([review.object, review.oldObject?.kind], [undefined, 'Thing']), { operation: 'delete', oldObject });
});

test('mistakes of the author are said where they are made', () => {
  const strange = rule({ id: 'T-9', level: 'deny', title: 'nine', on, sources: [] });
  for (const [fill, text] of [
    [(it) => it.add(strange, '', ''), /T-9 is no rule of the policy: add it to rules/],
    [(it) => it.add('T-1', '', ''), /T-1 is no rule of the policy/],
    [(_, review) => review.document.text('spec/a'), /'spec\/a' is not a JSON pointer: write '\/spec\/a'/],
    [async () => {}, /must not be async/],
  ]) {
    const declared = policy({ name: 't', title: 't', rules: [one], routes: [{ on: thing, evaluate: (review, it) => fill(it, review) }] });
    assert.throws(() => evaluate(declared, { object: { apiVersion: 'v1', kind: 'Thing' } }), text);
  }
  for (const [declare, text] of [
    [() => rule({ id: 'T-1', level: 'deny', title: 'x', on, sources: [], tittle: 'x' }), /rule T-1: there is no member "tittle"/],
    [() => rule({ id: 'T 1', level: 'deny', title: 'x', on, sources: [] }), /an id has letters/],
    [() => rule({ id: 'T-1', name: 'Not kebab', level: 'deny', title: 'x', on, sources: [] }), /a name has letters a to z/],
    [() => rule({ id: 'T-1', level: 'deny', title: 'x', on, sources: 'here' }), /sources is a list of at most 16 texts/],
    [() => rule({ id: 'T-1', level: 'deny', title: 'x', on, sources: [], enabledBy: ['x'] }), /'x' is not a JSON pointer: write '\/x'/],
    [() => target({ versions: ['v1'], kind: 'Pod' }), /target Pod: resources is missing/],
    [() => policy({ name: 't', title: 't', rules: [one, one], routes: [{ on: thing, evaluate() {} }] }), /two rules have the id T-1/],
    [() => policy({ name: 't', title: 't', rules: [one], routes: [] }), /rule T-1 applies to Thing, and no route has that target/],
  ]) {
    assert.throws(declare, text);
  }
});

test('settings are checked', () => {
  const wrong = [{ pointer: '/a', message: 'no' }];
  const declared = policy({ name: 't', title: 't', rules: [], routes: [], checkSettings: ({ a }) => (a ? wrong : undefined) });
  assert.deepEqual([checkSettings(declared, { a: 1 }), checkSettings(declared, {})], [wrong, []]);
});
