// Documents: handles of the host, which a policy reads by pointer or as plain values.
//
// `value` copies the JSON text from the host once and parses it. That is one call of the host for all of a
// document; a look-up by pointer is one call, whatever the size of the document.

import { below, check, isWhole, keptAt, valueAt } from './declared.js';
import { host } from './host.js';
import { Plain } from './plain.js';
import { at, checked } from './pointer.js';
import { Selector } from './selector.js';

const decoder = new TextDecoder();
const dispose = Symbol.dispose ?? Symbol.for('dispose');

export class Document {
  #handle;
  #value;
  #isParsed = false;
  #part;

  /** `part` has the declared fields of a cluster object. */
  constructor(handle, part) {
    this.#handle = handle;
    this.#part = part;
  }

  /** The pointer, checked. */
  #at(pointer, access) {
    checked(pointer);
    if (this.#part !== undefined) check(this.#part, pointer, access);
    return pointer;
  }

  /** A document from JSON text, for example that of an annotation. Throws if the text is not JSON. */
  static parse(json) {
    try {
      return new Document(host.Document.parse(json));
    } catch (error) {
      throw new SyntaxError(error?.payload ?? error?.message ?? String(error));
    }
  }

  /** The whole document as a plain value, parsed at the first use. */
  get value() {
    if (!this.#isParsed) {
      this.#value = this.json('');
      this.#isParsed = true;
    }
    return this.#value;
  }

  /** The plain value at a pointer; undefined if there is none. */
  json(pointer) {
    if (this.#part !== undefined) return valueAt(this.#part, () => this.#handle, checked(pointer));
    const raw = this.#handle.raw(checked(pointer));
    return raw === undefined ? undefined : JSON.parse(decoder.decode(raw));
  }

  kind(pointer) {
    return this.#handle.kind(this.#at(pointer, 'kind'));
  }

  /** Whether there is a value other than `null`. */
  has(pointer) {
    const kind = this.kind(pointer);
    return kind !== 'missing' && kind !== 'null';
  }

  text(pointer) {
    return this.#handle.text(this.#at(pointer, 'scalar'));
  }

  boolean(pointer) {
    return this.#handle.boolean(this.#at(pointer, 'boolean'));
  }

  integer(pointer) {
    return this.#handle.integer(this.#at(pointer, 'scalar'));
  }

  number(pointer) {
    return this.#handle.number(this.#at(pointer, 'scalar'));
  }

  length(pointer) {
    return this.#handle.length(this.#at(pointer, 'members'));
  }

  keys(pointer) {
    return this.#handle.keys(this.#at(pointer, 'members'));
  }

  /** The texts in the list at a pointer, without elements of other kinds. */
  texts(pointer) {
    return this.list(pointer).filter((element) => typeof element === 'string');
  }

  /** The elements of the list at a pointer as plain values; none if there is anything else. */
  list(pointer) {
    const found = this.#part === undefined ? at(this.value, pointer) : this.json(pointer);
    return Array.isArray(found) ? found : [];
  }

  /** The part at a pointer as a document; undefined if there is nothing. The host copies nothing. */
  at(pointer) {
    const handle = this.#handle.at(this.#at(pointer, 'kind'));
    return handle === undefined ? undefined : owned(handle, below(this.#part, pointer));
  }

  /**
   * The label selector at a pointer; undefined if there is none. Throws a SelectorError if an API server rejects it.
   */
  selector(pointer) {
    return Selector.from(this.json(pointer));
  }

  /** The selector of the map of labels at a pointer; undefined if it selects nothing. Throws a SelectorError. */
  mapSelector(pointer) {
    return Selector.fromMap(this.json(pointer));
  }

  /** Whether the labels at a pointer match a selector. */
  matches(pointer, selector) {
    return selector.matches(this.json(pointer));
  }

  /** Whether all of the value at a pointer is there: of a cluster object, only the declared fields are. */
  isWhole(pointer) {
    return this.#part === undefined || isWhole(this.#part, checked(pointer));
  }

  raw(pointer) {
    return this.#handle.raw(this.#at(pointer, 'whole'));
  }

  size(pointer) {
    return this.#handle.size(this.#at(pointer, 'kind'));
  }

  /** Whether two values are equal for Kubernetes. */
  equal(pointer, other, otherPointer) {
    this.#at(pointer, 'whole');
    other.#at(otherPointer, 'whole');
    if (this.#handle instanceof Plain !== other.#handle instanceof Plain) {
      return new Plain(this.value).equal(pointer, new Plain(other.value), otherPointer);
    }
    return this.#handle.equal(pointer, other.#handle, otherPointer);
  }

  /** Drops the handle, and keeps the content: a call may have 1,000 handles. */
  static detach(document) {
    const handle = document.#handle;
    if (handle instanceof Plain) return;
    const part = document.#part;
    const plain = new Plain(part === undefined ? document.value : keptAt(part, handle));
    document.#handle = plain;
    handle[dispose]?.();
  }
}

/** Documents with handles that the policy owns, oldest first. The bindings do not drop used handles. */
const withHandle = [];
const MAX_HANDLES = 700;

/** A document whose handle belongs to the policy; see the constructor of Document. */
export function owned(handle, part) {
  const document = new Document(handle, part);
  if (!(handle instanceof Plain)) {
    withHandle.push(document);
    if (withHandle.length > MAX_HANDLES) Document.detach(withHandle.shift());
  }
  return document;
}
