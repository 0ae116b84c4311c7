// The declared fields of cluster objects. The host keeps no other fields, so an undeclared field would look like
// a missing one: such a read throws, whatever the object holds. The host rejects it as well; here the error has
// its location in the source of the policy.
//
//   part {read, base} ─┬─ check(part, pointer, access) ─▶ an Error with the field to declare
//                      └─ valueAt(part, handle, pointer) ─▶ plain values; a proxy for objects kept in part

import { escape } from './pointer.js';

const ALWAYS = ['/metadata/name', '/metadata/namespace', '/metadata/uid', '/metadata/resourceVersion', '/metadata/labels',
  '/metadata/deletionTimestamp'];
const MAX_POINTER = 256;

const decoder = new TextDecoder();
const tokensOf = (pointer) => (pointer === '' ? [] : pointer.slice(1).split('/'));

/** The declared fields of whole objects. */
export function wholeOf(read) {
  const { fields, keys } = read;
  const declared = { fields: [...ALWAYS, ...fields].map(tokensOf), keys: keys.map(tokensOf), known: new Map() };
  return { read, declared, base: '' };
}

/** The position of a pointer relative to a pattern: `unrelated`, `above`, `each`, `same`, `child` or `below`. */
function positionOf(wanted, found) {
  const common = Math.min(wanted.length, found.length);
  for (let i = 0; i < common; i++) {
    if (wanted[i] !== '*' && wanted[i] !== found[i]) return 'unrelated';
  }
  if (wanted.length > found.length) return wanted[found.length] === '*' ? 'each' : 'above';
  if (wanted.length === found.length) return 'same';
  return wanted.length + 1 === found.length ? 'child' : 'below';
}

/** Maximum number of cached answers: policies read the elements of a list by the same pointers. */
const MAX_KNOWN = 1_000;

/** `lackingIn` with a cache. */
function lacking({ declared, base }, pointer, access) {
  const full = base + pointer;
  const question = `${access} ${full}`;
  const { known } = declared;
  if (known.has(question)) return known.get(question);
  const answer = lackingIn(declared, full, access);
  if (known.size < MAX_KNOWN) known.set(question, answer);
  return answer;
}

/**
 * The kept part of a value if a read needs more: `nothing`, `parts` or `name`; undefined if the declaration covers
 * the read. The access is `kind`, `boolean`, `scalar`, `members` or `whole`.
 */
function lackingIn({ fields, keys }, pointer, access) {
  const found = tokensOf(pointer);
  let kept = 'nothing';
  let hasAllMembers = false;
  const above = (position) => {
    kept = 'parts';
    hasAllMembers ||= position === 'each';
  };
  for (const field of fields) {
    const position = positionOf(field, found);
    if (position === 'same' || position === 'child' || position === 'below') return undefined;
    if (position !== 'unrelated') above(position);
  }
  for (const names of keys) {
    const position = positionOf(names, found);
    if (position === 'same' && ['kind', 'members', 'whole'].includes(access)) return undefined;
    if (position === 'child') {
      if (['kind', 'boolean', 'whole'].includes(access)) return undefined;
      kept = 'name';
    }
    if (position === 'above' || position === 'each') above(position);
  }
  if (access === 'kind' && kept === 'parts') return undefined;
  if (access === 'members' && hasAllMembers) return undefined;
  if (access === 'whole' && hasAllMembers && lackingIn({ fields, keys }, `${pointer}/*`, access) === undefined) return undefined;
  return kept === 'parts' && (access === 'boolean' || access === 'scalar') ? 'nothing' : kept;
}

/** Throws unless the declaration covers a read of the value at a pointer. */
export function check(part, pointer, access) {
  const kept = lacking(part, pointer, access);
  if (kept !== undefined) throw new Error(words(part.read, part.base + pointer, kept));
}

function words({ group, version, resource }, pointer, kept) {
  const of = `${group === '' ? '' : `${group}/`}${version}/${resource}`;
  const shown = shortened(pointer);
  const add = `add ${JSON.stringify(shortened(pointer.replaceAll(/\/[0-9]+(?=\/|$)/g, '/*')))} to \`fields\``;
  if (kept === 'nothing') return `the policy read '${shown}' of ${of}, which its read does not declare: ${add}`;
  if (kept === 'name') return `the policy read the value of '${shown}' of ${of}, of which its read declares only the name: ${add}`;
  if (pointer === '') return `the policy read all of an object of ${of}, of which its read declares only some fields: read these by their pointers`;
  return `the policy read all of '${shown}' of ${of}, of which its read declares only parts: ${add}, or read the parts by their pointers`;
}

const shortened = (text) => (text.length > MAX_POINTER ? `${text.slice(0, MAX_POINTER)}…` : text);

/** The declared fields of the value at a pointer; undefined if all of it is declared. */
export function below(part, pointer) {
  if (part === undefined) return undefined;
  return lacking(part, pointer, 'scalar') === undefined ? undefined : { ...part, base: part.base + pointer };
}

/** Whether the declaration covers all of the value at a pointer. */
export const isWhole = (part, pointer) => lacking(part, pointer, 'whole') === undefined;

function parsed(handle, pointer) {
  const raw = handle.raw(pointer);
  return raw === undefined ? undefined : JSON.parse(decoder.decode(raw));
}

/**
 * The value at a pointer as plain values. An object that is kept in part is a proxy, which reads a member at its
 * first use, and throws if it is not declared. `handle()` returns the handle.
 */
export function valueAt(part, handle, pointer) {
  if (isWhole(part, pointer)) return parsed(handle(), pointer);
  check(part, pointer, 'kind');
  const kind = handle().kind(pointer);
  if (kind === 'missing') return undefined;
  if (kind === 'list') {
    check(part, pointer, 'members');
    return Array.from({ length: handle().length(pointer) }, (_, index) => valueAt(part, handle, `${pointer}/${index}`));
  }
  return kind === 'object' ? new Proxy({}, membersOf(part, handle, pointer)) : null;
}

/** Names that the language itself reads. */
const isReadByLanguage = (name) => typeof name === 'symbol' || name === 'toJSON' || name === 'then' || name in Object.prototype;

function membersOf(part, handle, pointer) {
  const at = (name) => `${pointer}/${escape(name)}`;
  const isDeclared = (name) => lacking(part, at(name), 'kind') === undefined;
  const child = (target, name) => {
    if (!Object.hasOwn(target, name)) {
      const value = valueAt(part, handle, at(name));
      if (value === undefined) return undefined;
      Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
    }
    return target[name];
  };
  const isOurs = (name) => typeof name === 'string' && (!isReadByLanguage(name) || isDeclared(name));
  return {
    get: (target, name) => (isOurs(name) ? child(target, name) : Reflect.get(target, name)),
    has: (target, name) => (isOurs(name) ? child(target, name) !== undefined : Reflect.has(target, name)),
    getOwnPropertyDescriptor(target, name) {
      if (isOurs(name)) child(target, name);
      return Reflect.getOwnPropertyDescriptor(target, name);
    },
    ownKeys(target) {
      check(part, pointer, 'members');
      for (const name of handle().keys(pointer)) child(target, name);
      return Reflect.ownKeys(target);
    },
  };
}

/** The kept part of the value at a pointer as plain values, for a document whose handle is dropped. */
export function keptAt(part, handle, pointer = '') {
  if (isWhole(part, pointer)) return parsed(handle, pointer);
  if (lacking(part, pointer, 'kind') !== undefined) return undefined;
  const kind = handle.kind(pointer);
  if (kind === 'missing') return undefined;
  if (kind !== 'object' && kind !== 'list') return null;
  const tokens = tokensOf(part.base + pointer);
  const patterns = [...part.declared.fields, ...part.declared.keys];
  const isInPart = lacking(part, pointer, 'members') !== undefined;
  if (kind === 'list') {
    const length = isInPart ? 0 : handle.length(pointer);
    return Array.from({ length }, (_, index) => keptAt(part, handle, `${pointer}/${index}`) ?? null);
  }
  const declared = patterns.filter((it) => positionOf(it, tokens) === 'above').map((it) => it[tokens.length]);
  const names = isInPart ? new Set(declared) : handle.keys(pointer).map(escape);
  const members = [...names].map((token) => [token.replaceAll('~1', '/').replaceAll('~0', '~'), keptAt(part, handle, `${pointer}/${token}`)]);
  return Object.fromEntries(members.filter(([, value]) => value !== undefined));
}
