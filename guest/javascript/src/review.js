// A review for rules: the request, the old object, the user who sent it, and the settings. The first read of
// each part is a call of the host; the SDK keeps the result.

import { at, has, texts } from './pointer.js';

/** The user of requests that `opgate check` creates from files. */
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

  /** Whether the host uses fixes: for files it does, for requests of an API server it does not. */
  get wantsFixes() {
    return this.#part('wantsFixes');
  }
}

export class Review {
  #isExempt;
  #ratchetBase;

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
    this.#isExempt ??= this.#readIsExempt();
    return this.#isExempt;
  }

  #readIsExempt() {
    const { settings } = this;
    if (!has(settings, '/exempt')) return false;
    const { username, groups } = this.request.user;
    return texts(settings, '/exempt/users').includes(username) || texts(settings, '/exempt/groups').some((group) => groups.includes(group));
  }

  /** Whether the request is an UPDATE of an object. */
  isUpdate() {
    return this.oldOfUpdate() !== undefined;
  }

  /** The document before an UPDATE. */
  oldOfUpdate() {
    return this.operation === 'update' ? this.oldDocument : undefined;
  }

  /**
   * The document before an UPDATE, if the report omits violations in unchanged fields: by the setting
   * `ratcheting`, which is on unless set, and for an object that is being deleted.
   */
  ratchetBase() {
    this.#ratchetBase ??= { old: this.#readRatchetBase() };
    return this.#ratchetBase.old;
  }

  #readRatchetBase() {
    const old = this.document && this.oldOfUpdate();
    if (old === undefined) return undefined;
    return at(this.settings, '/ratcheting') !== false || this.document.has('/metadata/deletionTimestamp') ? old : undefined;
  }

  /**
   * Whether a rule must evaluate the value at the pointer: always on CREATE, on UPDATE only if it changed. With a
   * shape, values are compared as their Go types are.
   */
  touches(pointer, shape) {
    const old = this.ratchetBase();
    if (old === undefined) return true;
    return !(shape === undefined ? this.document.equal(pointer, old, pointer) : shape.equal(this.document, old, pointer));
  }

  /** Whether the object is a manifest in a file: `opgate check` sent the request, and not in an audit. */
  isFromFile() {
    const { username, groups } = this.request.user;
    return username === CHECK_USER && !groups.includes('opgate:audit');
  }

  /** Whether the object is a manifest of a bundle in files. */
  isFromBundle() {
    const { username, groups } = this.request.user;
    return username === CHECK_USER && groups.includes('opgate:bundle');
  }

  /** Whether an audit evaluates an object that a cluster stores: its author is unknown. */
  isAudit() {
    const { username, groups } = this.request.user;
    return username === CHECK_USER && groups.includes('opgate:audit');
  }
}
