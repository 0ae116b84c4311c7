// Fixes of violations: the changes of an object after which it does not violate a rule.

import { checked } from './pointer.js';

export class Fix {
  #title;
  #safety;
  #edits = [];

  constructor(title, safety) {
    this.#title = String(title);
    this.#safety = safety;
  }

  /** A fix that needs no review: the object means the same, or there is only one way to satisfy the rule. */
  static safe(title) {
    return new Fix(title, 'safe');
  }

  /** A fix that a person needs to review: it changes what the object does, or guesses a value. */
  static needsReview(title) {
    return new Fix(title, 'unsafe');
  }

  /** Replaces or adds a value. Objects on the way that are missing are created. */
  set(pointer, value) {
    return this.#with('set', { pointer: checked(pointer), value: JSON.stringify(value) });
  }

  /** Inserts an element in a list: before the one at the pointer, or at the end with `/list/-`. */
  insert(pointer, value) {
    return this.#with('insert', { pointer: checked(pointer), value: JSON.stringify(value) });
  }

  /** Removes a member or an element. */
  remove(pointer) {
    return this.#with('remove', checked(pointer));
  }

  /** Renames a member, in its place. */
  renameKey(pointer, name) {
    return this.#with('rename-key', { pointer: checked(pointer), name: String(name) });
  }

  /** Moves a file of a bundle (`/spec/files/3`), or one of its documents, to another path in the directory. */
  moveFile(pointer, path) {
    return this.#with('move-file', { pointer: checked(pointer), path: String(path) });
  }

  #with(tag, val) {
    this.#edits.push({ tag, val });
    return this;
  }

  /** The record of the contract. */
  get record() {
    return { title: this.#title, safety: this.#safety, edits: this.#edits };
  }
}
