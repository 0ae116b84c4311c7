// Cluster state for native tests: answers queries from a list of objects. Like the host, it keeps only the declared
// fields, and rejects undeclared reads.

import { at, compare, unescape } from './pointer.js';
import { Plain } from './plain.js';

const ALWAYS = ['/metadata/name', '/metadata/namespace', '/metadata/uid', '/metadata/labels',
  '/metadata/resourceVersion', '/metadata/deletionTimestamp'];

const refuse = (tag, val) => {
  throw Object.assign(new Error(val), { payload: { tag, val } });
};

/** The functions of `opgate:policy/cluster` for a policy with these reads. */
export function nativeCluster(reads, objects, settings) {
  const all = [...objects].sort((a, b) => compare(namespaceOf(a), namespaceOf(b)) || compare(nameOf(a), nameOf(b)));
  const kept = (gvr) => {
    const read = reads.find((it) => it.group === gvr.group && it.version === gvr.version && it.resource === gvr.resource);
    if (read === undefined) refuse('not-declared', 'not declared');
    const only = read.namespace && (at(settings, read.namespace.pointer) ?? read.namespace.default);
    const isIn = (object) => (only === undefined || namespaceOf(object) === only) && selects(parsed(read.labelSelector), object);
    return { read, objects: all.filter((object) => isOf(object, gvr) && isIn(object)) };
  };
  const select = (gvr, query) => {
    const { read, objects: found } = kept(gvr);
    const selector = query.labelSelector === undefined ? {} : parsed(query.labelSelector);
    const conditions = query.matches.map((match) => {
      const index = read.indexes.find((it) => it.name === match.index);
      if (index === undefined) refuse('not-declared', `there is no index ${JSON.stringify(match.index)}`);
      return { ...match, index };
    });
    const fits = (object) =>
      (query.namespace === undefined || namespaceOf(object) === query.namespace) &&
      selects(selector, object) &&
      conditions.every(({ index, values, includeMissing }) => {
        const has = indexed(object, index);
        return has.length === 0 ? includeMissing : has.some((value) => values.includes(value));
      }) &&
      isAfter(object, query.after);
    return { read, objects: found.filter(fits).slice(0, query.limit) };
  };
  return {
    get(gvr, namespace, name) {
      const { read, objects: found } = kept(gvr);
      const object = found.find((it) => namespaceOf(it) === namespace && nameOf(it) === name);
      return object && new Plain(projected(object, read));
    },
    list(gvr, query) {
      const { read, objects: found } = select(gvr, query);
      return found.map((object) => new Plain(projected(object, read)));
    },
    names(gvr, query) {
      return select(gvr, query).objects.map((object) => ({ namespace: namespaceOf(object), name: nameOf(object) }));
    },
    sample(gvr, limit) {
      const found = all.filter((object) => isOf(object, { ...gvr, version: undefined }));
      return { objects: found.slice(0, limit).map((object) => new Plain(object)), complete: found.length <= limit };
    },
  };
}

const nameOf = (object) => at(object, '/metadata/name') ?? '';
const namespaceOf = (object) => at(object, '/metadata/namespace') ?? '';

/** The plural of a kind by its spelling: `networkpolicies`. */
export function pluralOf(kind) {
  const name = kind.toLowerCase();
  if (name.endsWith('y')) return `${name.slice(0, -1)}ies`;
  return name.endsWith('s') ? `${name}es` : `${name}s`;
}

function isOf(object, { group, version, resource }) {
  const [own, ownVersion] = groupAndVersion(object);
  const isVersion = version === undefined || version === ownVersion;
  return own === group && isVersion && pluralOf(object.kind ?? '') === resource;
}

/** Group and version of an object. */
export function groupAndVersion(object) {
  const parts = String(object?.apiVersion ?? '').split('/');
  return parts.length > 1 ? parts : ['', parts[0]];
}

function isAfter(object, after) {
  if (after === undefined) return true;
  return (compare(namespaceOf(object), after.namespace) || compare(nameOf(object), after.name)) > 0;
}

function parsed(selector) {
  if (selector === '') return {};
  try {
    return JSON.parse(selector);
  } catch (error) {
    return refuse('invalid', error.message);
  }
}

/** Whether a label selector selects an object. */
function selects({ matchLabels = {}, matchExpressions = [] }, object) {
  const labels = at(object, '/metadata/labels') ?? {};
  const isEqual = Object.entries(matchLabels).every(([name, value]) => labels[name] === value);
  return (
    isEqual &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const has = Object.hasOwn(labels, key);
      if (operator === 'In') return has && values.includes(labels[key]);
      if (operator === 'NotIn') return !has || !values.includes(labels[key]);
      if (operator === 'Exists') return has;
      if (operator === 'DoesNotExist') return !has;
      return refuse('invalid', `${JSON.stringify(operator)} is not a valid label selector operator`);
    })
  );
}

/** The texts of an object in an index. */
function indexed(object, { field, separator }) {
  let found = [object];
  const tokens = field.slice(1).split('/');
  tokens.forEach((token, place) => {
    const isLast = place === tokens.length - 1;
    if (isLast && token === '#') found = found.flatMap((value) => (isObject(value) ? Object.keys(value) : []));
    else if (isLast && token.includes('{')) found = found.filter(isObject).map((value) => filled(token, value));
    else if (token === '*') found = found.flatMap((value) => (typeof value === 'object' && value !== null ? Object.values(value) : []));
    else found = found.map((value) => at(value, `/${token}`));
  });
  const texts = found.filter((value) => typeof value === 'string');
  return separator === '' ? texts : texts.flatMap((text) => text.split(separator).map((it) => it.trim()).filter((it) => it !== ''));
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** `{group}~1{version}` with the texts of an object. */
function filled(token, object) {
  return unescape(token.replaceAll(/\{([^}]*)\}/g, (_, name) => {
    const value = object[unescape(name)];
    return (typeof value === 'string' ? value : '').replaceAll('~', '~0').replaceAll('/', '~1');
  }));
}

/** The kept part of an object: the declared fields, and the names of members. */
function projected(object, { fields, keys }) {
  const all = [...ALWAYS, ...fields].map((pointer) => tokensOf(pointer));
  const kept = part(object, all);
  for (const pointer of keys) {
    const value = at(object, pointer);
    if (!isObject(value)) continue;
    const names = Object.fromEntries(Object.keys(value).map((name) => [name, true]));
    set(kept, tokensOf(pointer), names);
  }
  return kept;
}

const tokensOf = (pointer) => pointer.slice(1).split('/').map(unescape);

/** The part of a value below paths, where `*` is every element or member. */
function part(value, paths) {
  if (paths.some((path) => path.length === 0)) return value;
  if (typeof value !== 'object' || value === null) return undefined;
  const below = (name) => paths.filter(([first]) => first === '*' || first === name).map((path) => path.slice(1));
  const children = Object.entries(value).map(([name, element]) => [name, below(name).length > 0 ? part(element, below(name)) : undefined]);
  // Elements keep their indices.
  if (Array.isArray(value)) return children.map(([, element]) => element ?? null);
  return Object.fromEntries(children.filter(([, element]) => element !== undefined));
}

function set(object, tokens, value) {
  const last = tokens.at(-1);
  let place = object;
  for (const token of tokens.slice(0, -1)) place = place[token] ??= {};
  place[last] = value;
}
