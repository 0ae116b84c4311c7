// Other objects of the cluster: what a policy declares with `read`, and asks while it judges. `sample`
// asks for what nobody declared.

import { wholeOf } from './declared.js';
import { owned } from './document.js';
import { host } from './host.js';

/** Sizes of pages, and the longest name that the host accepts, see wit/policy.wit. */
const DOCUMENTS = 256;
const NAMES = 16_384;
const NAME = 4_096;
const MOST_SAMPLED = 500;

/**
 * Why there is no answer: `absent`, there is no cluster to ask; `invalid`, a selector is wrong;
 * `unavailable`, with the reason, one clause for people.
 */
export class ReadError extends Error {
  constructor(tag, why) {
    super(why);
    this.name = 'ReadError';
    this.tag = tag;
  }
}

/** Calls the host. An error that a policy can do something about becomes a ReadError. */
function ask(what, call) {
  try {
    return call();
  } catch (error) {
    const { tag, val } = error?.payload ?? {};
    if (tag === undefined) throw error;
    if (tag === 'denied') throw new Error(`${what}: ${val}`);
    throw new ReadError(tag === 'not-granted' ? 'unavailable' : tag, val);
  }
}

const fits = (name) => (name.length > NAME ? '' : name);

export class ClusterRead {
  constructor(declared) {
    Object.assign(this, declared);
    this.part = wholeOf(this);
    this.gvr = { group: declared.group, version: declared.version, resource: declared.resource };
  }

  describe(rules) {
    const { gvr: resource, fields, keys, labels, namespace, indexes, enabledBy } = this;
    return { resource, fields, keys, labels, namespace, indexes, rules, enabledBy };
  }

  /** One object; null if it does not exist. */
  get(namespace, name) {
    const isTooLong = namespace.length > NAME || name.length > NAME;
    const handle = ask(this.resource, () => host.get(this.gvr, isTooLong ? '' : namespace, isTooLong ? '' : name));
    return handle === undefined || handle === null ? null : owned(handle, this.part);
  }

  /** The objects that match, in byte order of namespace and name, page by page. */
  *list(query = {}) {
    for (let after; ; ) {
      const page = ask(this.resource, () => host.list(this.gvr, asked(query, after, DOCUMENTS))).map((handle) => owned(handle, this.part));
      const last = page.at(-1);
      after = last && { namespace: last.text('/metadata/namespace') ?? '', name: last.text('/metadata/name') ?? '' };
      yield* page;
      if (page.length < DOCUMENTS) return;
    }
  }

  /** Namespaces and names of the objects that match. */
  names(query = {}) {
    const names = [];
    for (;;) {
      const page = ask(this.resource, () => host.names(this.gvr, asked(query, names.at(-1), NAMES)));
      for (const name of page) names.push(name);
      if (page.length < NAMES) return names;
    }
  }

  /** Whether any object matches. */
  any(query = {}) {
    return ask(this.resource, () => host.names(this.gvr, asked(query, undefined, 1))).length > 0;
  }
}

function asked(query, after, limit) {
  const { namespace, labels, matches = [] } = query;
  return {
    namespace: namespace === undefined ? undefined : fits(namespace),
    labels: labels === undefined || typeof labels === 'string' ? labels : JSON.stringify(labels),
    matches: matches.map(({ index, values, absent = false }) => ({ index, values, absent })),
    after,
    limit,
  };
}

/**
 * The first objects of a resource, whole: `{objects, complete}`. The call with the question ends, and the
 * host calls the policy again with the answer, so ask early.
 */
export function sample(resource, limit = MOST_SAMPLED) {
  if ([resource.group, resource.version, resource.resource].some((name) => name.length > NAME)) {
    return { objects: [], complete: true };
  }
  const most = Math.min(Math.max(Math.trunc(limit), 1), MOST_SAMPLED);
  const { objects, complete } = ask(resource.resource, () => host.sample(resource, most));
  return { objects: objects.map((handle) => owned(handle)), complete };
}
