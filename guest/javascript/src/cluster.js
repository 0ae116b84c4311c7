// Cluster state: a policy declares its reads with `read`, and queries them during an evaluation. `sample`
// reads objects of undeclared kinds.

import { wholeOf } from './declared.js';
import { owned } from './document.js';
import { host } from './host.js';

/** Maximum sizes of pages, names and samples that the host accepts, see wit/policy.wit. */
const MAX_DOCUMENTS = 256;
const MAX_NAMES = 16_384;
const MAX_NAME_LENGTH = 4_096;
const MAX_SAMPLE_OBJECTS = 500;

/**
 * Why there is no answer: `no-cluster`, there is no cluster state to query; `invalid`, a selector is
 * invalid; `unavailable`, with the reason, one clause for people.
 */
export class ReadError extends Error {
  constructor(tag, reason) {
    super(reason);
    this.name = 'ReadError';
    this.tag = tag;
  }
}

/** Calls the host. An error that a policy can handle becomes a ReadError. */
function send(what, call) {
  try {
    return call();
  } catch (error) {
    const { tag, val } = error?.payload ?? {};
    if (tag === undefined) throw error;
    if (tag === 'not-declared') throw new Error(`${what}: ${val}`);
    throw new ReadError(tag === 'not-granted' ? 'unavailable' : tag, val);
  }
}

const fits = (name) => (name.length > MAX_NAME_LENGTH ? '' : name);

export class ClusterRead {
  constructor(declared) {
    Object.assign(this, declared);
    this.part = wholeOf(this);
    this.gvr = { group: declared.group, version: declared.version, resource: declared.resource };
  }

  describe(rules) {
    const { gvr: resource, fields, keys, labelSelector, namespace, indexes, enabledBy } = this;
    return { resource, fields, keys, labelSelector, namespace, indexes, rules, enabledBy };
  }

  /** One object; null if it does not exist. */
  get(namespace, name) {
    const isTooLong = namespace.length > MAX_NAME_LENGTH || name.length > MAX_NAME_LENGTH;
    const handle = send(this.resource, () => host.get(this.gvr, isTooLong ? '' : namespace, isTooLong ? '' : name));
    return handle === undefined || handle === null ? null : owned(handle, this.part);
  }

  /** The objects that match, in byte order of namespace and name, page by page. */
  *list(query = {}) {
    for (let after; ; ) {
      const page = send(this.resource, () => host.list(this.gvr, toWit(query, after, MAX_DOCUMENTS))).map((handle) => owned(handle, this.part));
      const last = page.at(-1);
      after = last && { namespace: last.text('/metadata/namespace') ?? '', name: last.text('/metadata/name') ?? '' };
      yield* page;
      if (page.length < MAX_DOCUMENTS) return;
    }
  }

  /** Namespaces and names of the objects that match. */
  names(query = {}) {
    const names = [];
    for (;;) {
      const page = send(this.resource, () => host.names(this.gvr, toWit(query, names.at(-1), MAX_NAMES)));
      for (const name of page) names.push(name);
      if (page.length < MAX_NAMES) return names;
    }
  }

  /** Whether any object matches. */
  any(query = {}) {
    return send(this.resource, () => host.names(this.gvr, toWit(query, undefined, 1))).length > 0;
  }
}

function toWit(query, after, limit) {
  const { namespace, labelSelector, matches = [] } = query;
  return {
    namespace: namespace === undefined ? undefined : fits(namespace),
    labelSelector: labelSelector === undefined || typeof labelSelector === 'string' ? labelSelector : JSON.stringify(labelSelector),
    matches: matches.map(({ index, values, includeMissing = false }) => ({ index, values, includeMissing })),
    after,
    limit,
  };
}

/**
 * The first objects of a resource, whole: `{objects, complete}`. The first call of it ends the call of the
 * policy, and the host calls the policy again with the objects, so sample early.
 */
export function sample(resource, limit = MAX_SAMPLE_OBJECTS) {
  if ([resource.group, resource.version, resource.resource].some((name) => name.length > MAX_NAME_LENGTH)) {
    return { objects: [], complete: true };
  }
  const clamped = Math.min(Math.max(Math.trunc(limit), 1), MAX_SAMPLE_OBJECTS);
  const { objects, complete } = send(resource.resource, () => host.sample(resource, clamped));
  return { objects: objects.map((handle) => owned(handle)), complete };
}
