// Runs the YAML cases of a folder natively, as tests of node: what each rule accepts, rejects and skips.
// `opgate policy test` runs the same cases through the component.
//
//   cases/<RULE>.yaml, cases/objects.yaml ─▶ case ─▶ judge ─▶ compare with what the case says

import { deepStrictEqual } from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';

import { unescape } from './pointer.js';
import { judge } from './testing.js';

const KEYS = ['name', 'create', 'update', 'delete', 'with', 'with-old', 'request', 'folder', 'catalog', 'files', 'patch', 'directories',
  'compressedSize', 'compressedSizeIsMore', 'settings', 'cluster', 'at', 'message', 'starts', 'level', 'findings', 'also', 'skipped', 'notes', 'reason'];

/** Declares a test for each case of a folder, and one that every rule has cases. */
export function cases(policy, folder = 'cases') {
  const objects = readYaml(join(folder, 'objects.yaml'), true) ?? {};
  const files = readdirSync(folder).filter((name) => name.endsWith('.yaml') && name !== 'objects.yaml');
  const covered = new Map();
  for (const name of files.sort()) {
    const path = join(folder, name);
    const file = readYaml(path);
    if (file.rule !== basename(name, '.yaml')) throw new Error(`${path}: rule is ${file.rule}: the name of a file is its rule`);
    const rule = policy.rules.find(({ id }) => id === file.rule);
    if (rule === undefined) throw new Error(`${path}: the policy has no rule ${file.rule}`);
    for (const expects of ['accept', 'reject', 'skip']) {
      for (const entry of file[expects] ?? []) {
        const whose = `${file.rule}: ${entry.name}`;
        const unknown = Object.keys(entry).find((key) => !KEYS.includes(key));
        if (unknown !== undefined) throw new Error(`${path}: ${entry.name}: there is no key ${unknown}`);
        covered.set(`${file.rule} ${expects}`, true);
        const skip = (entry.folder ?? entry.catalog) !== undefined && 'about files: opgate policy test runs it';
        test(whose, { skip }, () => holds(policy, rule, file, expects, entry, objects));
      }
    }
  }
  test('every rule is accepted and rejected by a case', () => {
    const needed = policy.rules.flatMap(({ id, reads }) => [`${id} accept`, `${id} reject`, ...(reads.length > 0 ? [`${id} skip`] : [])]);
    deepStrictEqual(needed.filter((it) => !covered.has(it)), [], 'cases that are missing');
  });
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

function holds(policy, rule, file, expects, entry, objects) {
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
  const verdict = judge(policy, {
    user: '',
    ...request,
    ...(resource === undefined && version === undefined ? {} : { resource: resourceOf(subject, resource, version) }),
    operation,
    object: changed(object, entry.with),
    oldObject: changed(old, operation === 'delete' ? entry.with : entry['with-old']),
    settings: entry.settings ?? file.settings ?? {},
    cluster: cluster === 'none' ? undefined : cluster.map(named),
  });
  const own = entry.message ?? entry.starts;
  const wanted = [...(own === undefined ? [] : [entry]), ...(entry.findings ?? []), ...(entry.also ?? [])].map((it) => ({
    ...it,
    rule: it === entry ? rule.id : (it.rule ?? rule.id),
  }));
  const counts = (id) => file.others !== 'ignored' || id === rule.id || wanted.some((it) => it.rule === id);
  compare(policy, verdict.violations.filter((it) => counts(it.rule)), wanted);
  const skipped = [...new Set([...(entry.skipped ?? []), ...(expects === 'skip' ? [rule.id] : [])])].sort();
  deepStrictEqual(verdict.skipped.map((it) => it.rule).filter((id) => counts(id) || skipped.includes(id)).sort(), skipped, 'rules that are not evaluated');
  if (entry.notes) deepStrictEqual(Object.fromEntries(verdict.auditAnnotations.map(({ key, value }) => [key, value])), entry.notes);
  if (entry.reason) deepStrictEqual(verdict.reason, entry.reason);
}

function resourceOf(object, resource, version) {
  const parts = String(object.apiVersion).split('/');
  const [group, own] = parts.length > 1 ? parts : ['', parts[0]];
  return { group, version: version ?? own, resource: resource ?? `${object.kind.toLowerCase()}s` };
}

/** Compares findings in what the case says of them: the level is that of the rule unless it says another. */
function compare(policy, found, wanted) {
  const level = ({ rule, level: given }) => given ?? policy.rules.find(({ id }) => id === rule)?.level;
  const say = (it) => ({ rule: it.rule, level: level(it), at: it.at, message: it.message ?? it.starts });
  const rest = [...found];
  const actual = [];
  for (const it of wanted) {
    const fits = (other) => other.rule === it.rule && (it.at === undefined || other.field === it.at) && other.level === level(it) &&
      (it.message === undefined ? other.message.startsWith(it.starts) : other.message === it.message);
    const place = rest.findIndex(fits);
    if (place >= 0) {
      rest.splice(place, 1);
      actual.push(say(it));
    }
  }
  actual.push(...rest.map(({ rule, level: given, field, message }) => ({ rule, level: given, at: field, message })));
  deepStrictEqual(actual, wanted.map(say), 'findings');
}

/** Puts values in their places, by pointer; null takes away. */
function change(document, changes) {
  for (const [pointer, value] of Object.entries(changes)) {
    const tokens = pointer.slice(1).split('/').map(unescape);
    const name = tokens.pop();
    let place = document;
    for (const token of tokens) {
      if (Array.isArray(place) && !(token in place)) throw new Error(`there is no place ${pointer} in the object`);
      place = place[token] ??= {};
    }
    if (Array.isArray(place)) {
      const index = Number(name);
      if (!(index < place.length)) place.push(value);
      else if (value === null) place.splice(index, 1);
      else place[index] = value;
    } else if (value === null) {
      delete place[name];
    } else {
      place[name] = value;
    }
  }
  return document;
}
