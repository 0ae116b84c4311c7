// Runs the YAML cases of a directory natively, as tests of node: requests that each rule accepts, rejects and skips.
// `opgate policy test` runs the same cases through the component.
//
//   cases/<RULE>.yaml, cases/objects.yaml ─▶ case ─▶ evaluate ─▶ compare with the case

import { deepStrictEqual } from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';

import { applyFixes } from './edits.js';
import { evaluate, isEvaluated } from './native.js';
import { unescape } from './pointer.js';

/** Members for the expected outcome: a case with `fixes` does not inherit these. */
const OUTCOME = ['field', 'level', 'message', 'messagePrefix', 'violations', 'otherViolations', 'skipped', 'auditAnnotations', 'reason', 'fixed'];
/** Members of which a case with `fixes` replaces entries of the same name. */
const MERGED = ['with', 'withOld', 'files', 'patch', 'directory', 'catalog', 'request'];
const MEMBERS = [...OUTCOME, ...MERGED, 'name', 'fixes', 'matches', 'create', 'update', 'delete', 'directories', 'compressedSize',
  'compressedSizeIsMore', 'settings', 'cluster'];

/** Declares a test for each case of a directory, and one that every rule has cases. */
export function cases(policy, directory = 'cases') {
  const objects = readYaml(join(directory, 'objects.yaml'), true) ?? {};
  const files = readdirSync(directory).filter((name) => name.endsWith('.yaml') && name !== 'objects.yaml');
  const covered = new Map();
  for (const name of files.sort()) {
    const path = join(directory, name);
    const file = readYaml(path);
    if (file.rule !== basename(name, '.yaml')) throw new Error(`${path}: rule is ${file.rule}: the name of a file is its rule`);
    const rule = policy.rules.find(({ id }) => id === file.rule);
    if (rule === undefined) throw new Error(`${path}: the policy has no rule ${file.rule}`);
    for (const expects of ['accept', 'reject', 'skip']) {
      for (const written of file[expects] ?? []) {
        const entry = written.fixes === undefined ? written : inherited(written, file.reject ?? [], path);
        const title = `${file.rule}: ${entry.name}`;
        const unknown = Object.keys(entry).find((member) => !MEMBERS.includes(member));
        if (unknown !== undefined) throw new Error(`${path}: ${entry.name}: there is no member ${unknown}`);
        covered.set(`${file.rule} ${expects}`, true);
        const skip = (entry.directory ?? entry.catalog) !== undefined && 'a case with files: opgate policy test runs it';
        test(title, { skip }, () => check(policy, rule, file, expects, entry, objects));
      }
    }
  }
  test('every rule is accepted and rejected by a case', () => {
    const needed = policy.rules.flatMap(({ id, reads }) => [`${id} accept`, `${id} reject`, ...(reads.length > 0 ? [`${id} skip`] : [])]);
    deepStrictEqual(needed.filter((it) => !covered.has(it)), [], 'missing cases');
  });
}

/** A case with the subject of the rejected one that it fixes. */
function inherited(entry, rejected, path) {
  const fixed = rejected.find(({ name }) => name === entry.fixes);
  if (fixed === undefined) throw new Error(`${path}: ${entry.name}: there is no rejected case ${entry.fixes}`);
  const subject = Object.fromEntries(Object.entries(fixed).filter(([name]) => !OUTCOME.includes(name)));
  const own = Object.entries(entry).map(([name, value]) => [name, MERGED.includes(name) ? { ...subject[name], ...value } : value]);
  return { ...subject, ...Object.fromEntries(own) };
}

function readYaml(path, isOptional = false) {
  let text;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (isOptional && error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return parse(text);
  } catch (error) {
    throw new Error(`${path}: ${error.message}`);
  }
}

function check(policy, rule, file, expects, entry, objects) {
  const named = (value) => {
    if (typeof value !== 'string') return value;
    if (!Object.hasOwn(objects, value)) throw new Error(`objects.yaml has no ${value}`);
    return objects[value];
  };
  const [operation, old, object] =
    entry.create !== undefined ? ['create', undefined, entry.create]
    : entry.update !== undefined ? ['update', ...entry.update]
    : ['delete', entry.delete, undefined];
  const changed = (value, changes) => value && change(structuredClone(named(value)), changes ?? {});
  const cluster = entry.cluster ?? file.cluster ?? 'none';
  const { version, resource, ...request } = entry.request ?? {};
  const subject = named(object ?? old);
  const evaluated = changed(object, entry.with);
  const testRequest = {
    user: '',
    ...request,
    ...(resource === undefined && version === undefined ? {} : { resource: resourceOf(subject, resource, version) }),
    operation,
    object: evaluated,
    oldObject: changed(old, operation === 'delete' ? entry.with : entry.withOld),
    settings: entry.settings ?? file.settings ?? {},
    cluster: cluster === 'none' ? undefined : cluster.map(named),
  };
  if (expects === 'accept') compareEvaluated(isEvaluated(policy, rule, testRequest), rule, entry);
  const verdict = evaluate(policy, testRequest);
  const own = entry.message ?? entry.messagePrefix;
  const wanted = [...(own === undefined ? [] : [entry]), ...(entry.violations ?? []), ...(entry.otherViolations ?? [])].map((it) => ({
    ...it,
    rule: it === entry ? rule.id : (it.rule ?? rule.id),
  }));
  const counts = (id) => file.otherRules !== 'ignored' || id === rule.id || wanted.some((it) => it.rule === id);
  compare(policy, verdict.violations.filter((it) => counts(it.rule)), wanted);
  const skipped = [...new Set([...(entry.skipped ?? []), ...(expects === 'skip' ? [rule.id] : [])])].sort();
  deepStrictEqual(verdict.skipped.map((it) => it.rule).filter((id) => counts(id) || skipped.includes(id)).sort(), skipped, 'skipped rules');
  const annotations = verdict.auditAnnotations.map(({ key, value }) => [key, value]);
  if (entry.auditAnnotations) deepStrictEqual(Object.fromEntries(annotations), entry.auditAnnotations);
  if (entry.reason) deepStrictEqual(verdict.reason, entry.reason);
  compareFixed(verdict.violations.filter((it) => it.rule === rule.id), evaluated, entry.fixed, named);
}

/** The rule evaluates an accepted case, which would pass otherwise whatever the rule does, unless the case has `matches: false`. */
function compareEvaluated(isEvaluatedByRule, rule, { matches = true }) {
  if (isEvaluatedByRule === matches) return;
  throw new Error(
    matches
      ? `vacuous: ${rule.id} does not evaluate the request; change the request, or write \`matches: false\``
      : `it has \`matches: false\`, and ${rule.id} evaluates the request`,
  );
}

/** Every fix of the rule fits the object. `fixed` is the object after them: changes as in `with`, an object, or its name. */
function compareFixed(violations, object, fixed, named) {
  const fixes = violations.map(({ fix }) => fix).filter((fix) => fix !== undefined);
  if (fixes.length === 0 && fixed !== undefined) throw new Error('fixed: no violation of the rule has a fix');
  if (fixes.length === 0 || object === undefined) return;
  const found = structuredClone(object);
  applyFixes(found, fixes);
  if (fixed === undefined) return;
  const areChanges = typeof fixed === 'object' && Object.keys(fixed).length > 0 && Object.keys(fixed).every((name) => name.startsWith('/'));
  deepStrictEqual(found, areChanges ? change(structuredClone(object), fixed) : named(fixed), 'fixed');
}

function resourceOf(object, resource, version) {
  const parts = String(object.apiVersion).split('/');
  const [group, own] = parts.length > 1 ? parts : ['', parts[0]];
  return { group, version: version ?? own, resource: resource ?? `${object.kind.toLowerCase()}s` };
}

/** Compares violations with those of the case. The level is that of the rule unless the case has another. */
function compare(policy, found, wanted) {
  const level = ({ rule, level: given }) => given ?? policy.rules.find(({ id }) => id === rule)?.level;
  const shown = (it) => ({ rule: it.rule, level: level(it), field: it.field, message: it.message ?? it.messagePrefix });
  const rest = [...found];
  const actual = [];
  for (const it of wanted) {
    const fits = (other) => other.rule === it.rule && (it.field === undefined || other.field === it.field) && other.level === level(it) &&
      (it.message === undefined ? other.message.startsWith(it.messagePrefix) : other.message === it.message);
    const index = rest.findIndex(fits);
    if (index >= 0) {
      rest.splice(index, 1);
      actual.push(shown(it));
    }
  }
  actual.push(...rest.map(({ rule, level: given, field, message }) => ({ rule, level: given, field, message })));
  deepStrictEqual(actual, wanted.map(shown), 'violations');
}

/** Sets values by pointer; null removes. */
function change(document, changes) {
  for (const [pointer, value] of Object.entries(changes)) {
    const tokens = pointer.slice(1).split('/').map(unescape);
    const name = tokens.pop();
    let parent = document;
    for (const token of tokens) {
      if (Array.isArray(parent) && !(token in parent)) throw new Error(`there is no ${pointer} in the object`);
      parent = parent[token] ??= {};
    }
    if (Array.isArray(parent)) {
      const index = Number(name);
      if (!(index < parent.length)) parent.push(value);
      else if (value === null) parent.splice(index, 1);
      else parent[index] = value;
    } else if (value === null) {
      delete parent[name];
    } else {
      parent[name] = value;
    }
  }
  return document;
}
