// The declarations of a policy: targets, reads, rules, and the policy itself. Each function adds defaults and
// rejects invalid members, so that a mistake shows when the module is loaded.

import { ClusterRead } from './cluster.js';
import { checked } from './pointer.js';

const MAX_SOURCES = 16;
const OPERATIONS = ['create', 'update', 'delete', 'connect'];
/** The group of documents that opgate creates from files. */
const FILES = 'opgate.dev';

/** The members of a declaration with defaults. An unknown member is a spelling mistake. */
function members(what, given, defaults) {
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(defaults, name)) {
      throw new TypeError(`${what}: there is no member ${JSON.stringify(name)}; the members are ${Object.keys(defaults).join(', ')}`);
    }
  }
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(set) };
}

function required(what, given, names) {
  for (const name of names) {
    if (given[name] === undefined) throw new TypeError(`${what}: ${name} is missing`);
  }
}

const json = (selector) => (typeof selector === 'string' ? selector : JSON.stringify(selector));
const patterns = (what, given) => members(what, given ?? {}, { include: [], exclude: [] });

/** Requests for one kind of object. Every list must match; `*` matches all. */
export function target(given) {
  const what = `target ${given.kind ?? ''}`;
  required(what, given, ['versions', 'resources', 'kind']);
  const made = members(what, given, {
    groups: [''],
    versions: [],
    resources: [],
    kind: '',
    namespace: undefined,
    namespaces: undefined,
    names: undefined,
    advisory: false,
    conditions: {},
    namespaceSelector: '',
    enabledBy: [],
  });
  made.namespaces = patterns(`${what}: namespaces`, made.namespaces);
  made.names = patterns(`${what}: names`, made.names);
  made.namespaceSelector = json(made.namespaceSelector);
  made.enabledBy.forEach(checked);
  return Object.freeze(made);
}

/** A kind of document that opgate creates from files, in the group `opgate.dev`. */
export function fileTarget(kind, resources) {
  return target({ groups: [FILES], versions: ['v1alpha1'], resources, kind });
}

export const isFileTarget = (it) => it.groups.length === 1 && it.groups[0] === FILES;

/** Objects of the cluster that rules need. */
export function read(given) {
  const what = `read of ${given.resource ?? ''}`;
  required(what, given, ['version', 'resource']);
  const made = members(what, given, {
    group: '',
    version: '',
    resource: '',
    fields: [],
    keys: [],
    labelSelector: '',
    namespace: undefined,
    indexes: [],
    enabledBy: [],
  });
  made.labelSelector = json(made.labelSelector);
  [...made.fields, ...made.keys, ...made.enabledBy].forEach(checked);
  made.indexes = made.indexes.map((index) => {
    required(`${what}: index ${index.name ?? ''}`, index, ['name', 'field']);
    checked(index.field);
    return members(`${what}: index ${index.name}`, index, { name: '', field: '', separator: '' });
  });
  return new ClusterRead(made);
}

/** A rule: a requirement, and the requests to which it applies. */
export function rule(given) {
  const what = `rule ${given.id ?? ''}`;
  required(what, given, ['id', 'level', 'title', 'on', 'sources']);
  const made = members(what, given, {
    id: '',
    name: '',
    level: 'deny',
    title: '',
    docs: '',
    on: [],
    reads: [],
    samples: false,
    enabledBy: undefined,
    deniesWith: [],
    noExemptions: false,
    maySkip: false,
    sources: [],
  });
  if (!/^[A-Za-z0-9.-]{1,40}$/.test(made.id)) {
    throw new TypeError(`${what}: an id has letters, digits, "-" and ".", at most 40`);
  }
  if (made.level !== 'deny' && made.level !== 'warn') throw new TypeError(`${what}: level is "deny" or "warn"`);
  if (!/^([a-z0-9]+(-[a-z0-9]+)*)?$/.test(made.name) || made.name.length > 50) {
    throw new TypeError(`${what}: a name has letters a to z, digits and "-", at most 50: "image-digest"`);
  }
  if (typeof made.noExemptions !== 'boolean') throw new TypeError(`${what}: noExemptions is true or false`);
  if (!Array.isArray(made.sources) || made.sources.length > MAX_SOURCES || made.sources.some((it) => typeof it !== 'string')) {
    throw new TypeError(`${what}: sources is a list of at most ${MAX_SOURCES} texts`);
  }
  [...(made.enabledBy ?? []), ...made.deniesWith].forEach(checked);
  made.on = made.on.map(({ target: of, operations }) => {
    if (typeof of?.kind !== 'string') throw new TypeError(`${what}: on has elements {target, operations}`);
    for (const operation of operations) {
      if (!OPERATIONS.includes(operation)) {
        throw new TypeError(`${what}: there is no operation ${JSON.stringify(operation)}; there are ${OPERATIONS.join(', ')}`);
      }
    }
    return { target: of, operations: [...operations] };
  });
  for (const needed of made.reads) {
    if (!(needed instanceof ClusterRead)) throw new TypeError(`${what}: reads has results of read({…})`);
  }
  return Object.freeze(made);
}

/** A policy: its rules, and the functions that evaluate requests. */
export function policy(given) {
  const what = `policy ${given.name ?? ''}`;
  required(what, given, ['name', 'title', 'rules', 'routes']);
  const made = members(what, given, {
    name: '',
    version: undefined,
    title: '',
    rules: [],
    routes: [],
    settings: {},
    checkSettings: () => [],
  });
  if (made.routes.length > 64) throw new TypeError(`${what}: ${made.routes.length} routes, at most 64`);
  for (const route of made.routes) {
    if (typeof route.on?.kind !== 'string' || typeof route.evaluate !== 'function') {
      throw new TypeError(`${what}: routes has elements {on: target, evaluate: function}`);
    }
  }
  const ids = made.rules.map((it) => it.id);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== undefined) throw new TypeError(`${what}: two rules have the id ${twice}`);
  const names = made.rules.map((it) => it.name).filter((name) => name !== '');
  const twiceNamed = names.find((name, index) => names.indexOf(name) !== index);
  if (twiceNamed !== undefined) throw new TypeError(`${what}: two rules have the name ${twiceNamed}`);
  for (const it of made.rules) {
    for (const { target: on } of it.on) {
      if (!made.routes.some((route) => route.on === on)) {
        throw new TypeError(`${what}: rule ${it.id} applies to ${on.kind}, and no route has that target`);
      }
    }
  }
  // In the order of their IDs: `CSV-99` comes before `CSV-100`.
  made.rules = [...made.rules].sort((a, b) => byId(a.id, b.id));
  return Object.freeze(made);
}

/** Compares ids of rules. */
export function byId(a, b) {
  const sortKey = (id) => {
    const at = id.lastIndexOf('-');
    return at < 0 ? [id, ''] : [id.slice(0, at), id.slice(at + 1)];
  };
  const [[prefix, number], [otherPrefix, other]] = [sortKey(a), sortKey(b)];
  if (prefix !== otherPrefix) return prefix < otherPrefix ? -1 : 1;
  if (number.length !== other.length) return number.length - other.length;
  return number < other ? -1 : number > other ? 1 : 0;
}
