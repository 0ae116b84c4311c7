// A document of plain values: the functions of the host's handle, for native tests and for documents
// whose handle has been dropped.

import { at, compare } from './pointer.js';

/** The functions of `opgate:policy/document` on a plain value. */
export class Plain {
  constructor(value) {
    this.root = value;
  }

  static parse(json) {
    return new Plain(JSON.parse(json));
  }

  kind(pointer) {
    const value = at(this.root, pointer);
    if (value === undefined) return 'missing';
    if (value === null) return 'null';
    if (Array.isArray(value)) return 'list';
    return { boolean: 'boolean', number: 'number', string: 'text', object: 'object' }[typeof value];
  }

  text(pointer) {
    const value = at(this.root, pointer);
    return typeof value === 'string' ? value : undefined;
  }

  boolean(pointer) {
    const value = at(this.root, pointer);
    return typeof value === 'boolean' ? value : undefined;
  }

  integer(pointer) {
    const value = at(this.root, pointer);
    return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  }

  number(pointer) {
    const value = at(this.root, pointer);
    return typeof value === 'number' ? value : undefined;
  }

  length(pointer) {
    const value = at(this.root, pointer);
    if (Array.isArray(value)) return value.length;
    return typeof value === 'object' && value !== null ? Object.keys(value).length : undefined;
  }

  keys(pointer) {
    const value = at(this.root, pointer);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? Object.keys(value).sort(compare) : [];
  }

  at(pointer) {
    const value = at(this.root, pointer);
    return value === undefined ? undefined : new Plain(value);
  }

  raw(pointer) {
    const value = at(this.root, pointer);
    return value === undefined ? undefined : new TextEncoder().encode(JSON.stringify(value));
  }

  size(pointer) {
    return this.raw(pointer)?.length;
  }

  equal(pointer, other, otherPointer) {
    return isEqual(at(this.root, pointer), at(other.root, otherPointer));
  }
}

/** Equal for Kubernetes: `null` and an empty list are the same as a missing value. */
function isEqual(a, b) {
  const isNothing = (value) => value === undefined || value === null || (Array.isArray(value) && value.length === 0);
  if (isNothing(a) || isNothing(b)) return isNothing(a) && isNothing(b);
  if (typeof a !== 'object' || typeof b !== 'object') return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a)) return a.length === b.length && a.every((element, index) => isEqual(element, b[index]));
  const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => isEqual(own(a, name), own(b, name)));
}
