// Cases in YAML, natively: one that fixes another one has its subject, and `fixed` is the object after the fixes.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { applyFixes } from '../src/edits.js';
import { Fix, policy, rule, target } from '../src/index.js';
import { cases } from '../src/testing.js';

const thing = target({ groups: ['a.io'], versions: ['v1'], resources: ['things'], kind: 'Thing' });
const one = rule({ id: 'T-1', level: 'deny', title: 't', on: [{ target: thing, operations: ['create'] }], sources: [] });
const declared = policy({
  name: 't',
  title: 't',
  rules: [one],
  routes: [{
    on: thing,
    evaluate(review, report) {
      if (review.object.spec?.a === 1 && review.object.spec.b !== 2) report.add(one, 'spec.b', 'set b', Fix.safe('set b').set('/spec/b', 2));
    },
  }],
});

const directory = mkdtempSync(join(tmpdir(), 'opgate-cases-'));
after(() => rmSync(directory, { recursive: true }));
writeFileSync(join(directory, 'T-1.yaml'), `rule: T-1
cluster: []
reject:
- {name: no b, create: {apiVersion: a.io/v1, kind: Thing, metadata: {name: a}}, with: {/spec/a: 1}, message: set b, fixed: {/spec/b: 2}}
accept:
- {name: with b, fixes: no b, with: {/spec/b: 2}}
- {name: another thing, matches: false, create: {apiVersion: a.io/v1, kind: Other, metadata: {name: a}}}
`);
cases(declared, directory);

test('an accepted case fails if its rule does not evaluate it, and the other way around', () => {
  const subject = mkdtempSync(join(tmpdir(), 'opgate-vacuous-'));
  after(() => rmSync(subject, { recursive: true }));
  mkdirSync(join(subject, 'cases'));
  const thing = (kind) => `create: {apiVersion: a.io/v1, kind: ${kind}, metadata: {name: a}}`;
  writeFileSync(join(subject, 'cases', 'T-1.yaml'), `rule: T-1
accept:
- {name: another kind, ${thing('Other')}}
- {name: another operation, delete: {apiVersion: a.io/v1, kind: Thing, metadata: {name: a}}}
- {name: a rule that is off, ${thing('Thing')}, settings: {rules: {T-1: "off"}}}
- {name: evaluated in fact, ${thing('Thing')}, matches: false}
- {name: evaluated, ${thing('Thing')}}
`);
  const source = (name) => JSON.stringify(new URL(`../src/${name}.js`, import.meta.url).href);
  writeFileSync(join(subject, 'policy.test.mjs'), `
import { policy, rule, target } from ${source('index')};
import { cases } from ${source('testing')};
const thing = target({ groups: ['a.io'], versions: ['v1'], resources: ['things'], kind: 'Thing' });
const one = rule({ id: 'T-1', level: 'deny', title: 't', on: [{ target: thing, operations: ['create'] }], sources: [] });
cases(policy({ name: 't', title: 't', rules: [one], routes: [{ on: thing, evaluate() {} }] }), ${JSON.stringify(join(subject, 'cases'))});
`);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = spawnSync(process.execPath, ['--test', '--test-reporter=tap', 'policy.test.mjs'], { cwd: subject, env, encoding: 'utf8' });
  const results = Object.fromEntries([...stdout.matchAll(/^(ok|not ok) \d+ - T-1: (.*)$/gm)].map(([, result, name]) => [name, result]));
  assert.deepEqual(results, {
    'another kind': 'not ok',
    'another operation': 'not ok',
    'a rule that is off': 'not ok',
    'evaluated in fact': 'not ok',
    evaluated: 'ok',
  }, stdout);
  assert.match(stdout, /vacuous: T-1 does not evaluate the request; change the request, or write `matches: false`/);
  assert.match(stdout, /it has `matches: false`, and T-1 evaluates the request/);
});

test('fixes are applied together unless they conflict', () => {
  const fixed = (object, ...fixes) => {
    applyFixes(object, fixes.map((fix) => fix.record));
    return object;
  };
  const fix = () => Fix.safe('fix');
  for (const [object, fixes, expected] of [
    [{ a: { x: 1, y: 2 } }, [fix().set('/b/c~1d', 1).renameKey('/a/x', 'z').remove('/a/y')], { a: { z: 1 }, b: { 'c/d': 1 } }],
    [{ l: [1, 2], m: [] }, [fix().insert('/l/-', 3), fix().insert('/l/0', 0), fix().insert('/m/-', 1)], { l: [1, 2, 3], m: [1] }],
    [{ l: [1, 2, 3] }, [fix().remove('/l/0'), fix().remove('/l/1'), fix().set('/m', 1)], { l: [2, 3], m: 1 }],
    [{ a: null }, [fix().set('/a/b/c', true)], { a: { b: { c: true } } }],
    [{ a: 1 }, [fix().set('/a', 2), fix().set('/a', 3)], { a: 2 }],
    [{ a: 1 }, [fix().renameKey('/a', 'b'), fix().set('/b', 3)], { b: 1 }],
  ]) {
    assert.deepEqual(fixed(object, ...fixes), expected);
  }
  for (const [object, wrong] of [
    [{ a: 1 }, fix().set('/a/b', 1)],
    [{ a: 1 }, fix().remove('/b')],
    [{ l: [] }, fix().insert('/l/1', 1)],
    [{ a: 1, b: 2 }, fix().renameKey('/a', 'b')],
    [{ l: [] }, fix().set('/l/0', 1)],
  ]) {
    assert.throws(() => fixed(object, wrong), /the fix "fix" cannot be applied/);
  }
});
