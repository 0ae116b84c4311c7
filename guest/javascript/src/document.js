// Documents: handles of the host, which a policy reads by pointer or as plain values.
//
// `value` copies the JSON text out of the host once and parses it. That is one call of the host for all
// of a document; a look-up by pointer is one call each, whatever the size of the document.

import { host } from './host.js';
import { Plain } from './plain.js';
import { at, checked } from './pointer.js';

const decoder = new TextDecoder();
const dispose = Symbol.dispose ?? Symbol.for('dispose');

export class Document {
  #handle;
  #value;
  #isParsed = false;

  constructor(handle) {
    this.#handle = handle;
  }

  /** A document from JSON text, for example that of an annotation. Throws if it is none. */
  static parse(json) {
    try {
      return new Document(host.Document.parse(json));
    } catch (error) {
      throw new SyntaxError(error?.payload ?? error?.message ?? String(error));
    }
  }

  /** All of it as a plain value, parsed at the first look. */
  get value() {
    if (!this.#isParsed) {
      this.#value = this.json('');
      this.#isParsed = true;
    }
    return this.#value;
  }

  /** The plain value at a pointer; undefined if there is none. */
  json(pointer) {
    const raw = this.#handle.raw(checked(pointer));
    return raw === undefined ? undefined : JSON.parse(decoder.decode(raw));
  }

  kind(pointer) {
    return this.#handle.kind(checked(pointer));
  }

  /** Whether there is a value other than `null`. */
  has(pointer) {
    const kind = this.kind(pointer);
    return kind !== 'missing' && kind !== 'null';
  }

  text(pointer) {
    return this.#handle.text(checked(pointer));
  }

  boolean(pointer) {
    return this.#handle.boolean(checked(pointer));
  }

  integer(pointer) {
    return this.#handle.integer(checked(pointer));
  }

  number(pointer) {
    return this.#handle.number(checked(pointer));
  }

  length(pointer) {
    return this.#handle.length(checked(pointer));
  }

  keys(pointer) {
    return this.#handle.keys(checked(pointer));
  }

  /** The texts in the list at a pointer, without elements of other kinds. */
  texts(pointer) {
    return this.list(pointer).filter((element) => typeof element === 'string');
  }

  /** The elements of the list at a pointer as plain values; none if there is anything else. */
  list(pointer) {
    const found = at(this.value, pointer);
    return Array.isArray(found) ? found : [];
  }

  /** The part at a pointer as a document; undefined if there is nothing. The host copies nothing. */
  at(pointer) {
    const handle = this.#handle.at(checked(pointer));
    return handle === undefined ? undefined : owned(handle);
  }

  raw(pointer) {
    return this.#handle.raw(checked(pointer));
  }

  size(pointer) {
    return this.#handle.size(checked(pointer));
  }

  /** Whether two values are equal for Kubernetes. */
  equal(pointer, other, otherPointer) {
    if (this.#handle instanceof Plain !== other.#handle instanceof Plain) {
      return new Plain(this.value).equal(checked(pointer), new Plain(other.value), checked(otherPointer));
    }
    return this.#handle.equal(checked(pointer), other.#handle, checked(otherPointer));
  }

  /** Drops the handle, and keeps the content: a call may have 1,000 handles. */
  static detach(document) {
    const handle = document.#handle;
    if (handle instanceof Plain) return;
    const plain = new Plain(document.value);
    document.#handle = plain;
    handle[dispose]?.();
  }
}

/** Handles that the policy got, oldest first. The bindings drop none by themselves once they were used. */
const taken = [];
const MOST = 700;

/** A document whose handle belongs to the policy. */
export function owned(handle) {
  const document = new Document(handle);
  if (!(handle instanceof Plain)) {
    taken.push(document);
    if (taken.length > MOST) Document.detach(taken.shift());
  }
  return document;
}
