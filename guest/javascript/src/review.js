// A review for rules: the request, the object before it, the user who sent it, and the settings. Every
// part is a call of the host at the first look, and then kept.

import { at, has, texts } from './pointer.js';

/** The user of requests that `opgate check` makes of files. */
export const CHECK_USER = 'opgate:check';

/** The request, without its objects. */
export class Request {
  #handle;
  #kept = new Map();

  constructor(operation, handle) {
    this.operation = operation;
    this.#handle = handle;
  }

  #part(name) {
    if (!this.#kept.has(name)) this.#kept.set(name, this.#handle[name]());
    return this.#kept.get(name);
  }

  get uid() {
    return this.#part('uid');
  }

  get kind() {
    return this.#part('kind');
  }

  get resource() {
    return this.#part('resource');
  }

  get subResource() {
    return this.#part('subResource');
  }

  get name() {
    return this.#part('name');
  }

  get namespace() {
    return this.#part('namespace');
  }

  get user() {
    return this.#part('user');
  }

  get dryRun() {
    return this.#part('dryRun');
  }
}

export class Review {
  #isExempt;
  #spares;

  /** `document`, `oldDocument` and `settingsDocument` are documents of the host. */
  constructor(request, document, oldDocument, settingsDocument) {
    this.request = request;
    this.document = request.operation === 'delete' ? undefined : document;
    this.oldDocument = oldDocument;
    this.settingsDocument = settingsDocument;
  }

  get operation() {
    return this.request.operation;
  }

  /** The object as a plain value; undefined on DELETE. */
  get object() {
    return this.document?.value;
  }

  /** The object before; undefined on CREATE and CONNECT. */
  get oldObject() {
    return this.oldDocument?.value;
  }

  get settings() {
    return this.settingsDocument.value;
  }

  /** Name of the object. */
  get name() {
    return this.document?.text('/metadata/name') ?? this.request.name;
  }

  get namespace() {
    return this.request.namespace;
  }

  /** Whether the settings exempt the user who sent the request. */
  isExempt() {
    this.#isExempt ??= this.#asksIfExempt();
    return this.#isExempt;
  }

  #asksIfExempt() {
    const { settings } = this;
    if (!has(settings, '/exempt')) return false;
    const { username, groups } = this.request.user;
    return texts(settings, '/exempt/users').includes(username) || texts(settings, '/exempt/groups').some((group) => groups.includes(group));
  }

  /** Whether the request is not an UPDATE of an object. */
  creates() {
    return this.updatesFrom() === undefined;
  }

  /** The document before an UPDATE. */
  updatesFrom() {
    return this.operation === 'update' ? this.oldDocument : undefined;
  }

  /**
   * The document before an UPDATE, if findings about what did not change are left out: by the setting
   * `ratcheting`, which is on unless set, and for an object that is being deleted.
   */
  spares() {
    this.#spares ??= { old: this.#asksWhatToSpare() };
    return this.#spares.old;
  }

  #asksWhatToSpare() {
    const old = this.document && this.updatesFrom();
    if (old === undefined) return undefined;
    return at(this.settings, '/ratcheting') !== false || this.document.has('/metadata/deletionTimestamp') ? old : undefined;
  }

  /** Whether a rule that looks at this pointer has to judge: always on CREATE, on UPDATE if the value changed. */
  touches(pointer) {
    const old = this.spares();
    return old === undefined || !this.document.equal(pointer, old, pointer);
  }

  /** Whether the object is a manifest that `opgate check` reads of a file. */
  isOfAFile() {
    const { username, groups } = this.request.user;
    return username === CHECK_USER && !groups.includes('opgate:audit');
  }

  /** Whether the object is a manifest of a bundle in files. */
  isInBundle() {
    const { username, groups } = this.request.user;
    return username === CHECK_USER && groups.includes('opgate:bundle');
  }

  /** Whether an audit asks about an object that a cluster holds: nobody knows who wrote it. */
  isStored() {
    const { username, groups } = this.request.user;
    return username === CHECK_USER && groups.includes('opgate:audit');
  }
}
