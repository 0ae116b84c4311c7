// Runs a policy natively: the same functions on plain objects, without WebAssembly.

import { nativeCluster, groupAndVersion, pluralOf } from './cluster-native.js';
import { describe as describePolicy, matches, reads } from './describe.js';
import { Document } from './document.js';
import { evaluate as evaluateReview, settingsErrors } from './evaluate.js';
import { host } from './host.js';
import { Plain } from './plain.js';
import { at, has } from './pointer.js';
import { Report } from './report.js';
import { Request, Review } from './review.js';

/**
 * Evaluates a request: `{object, oldObject, operation, settings, cluster, …}`. The operation is `update` with an
 * old object, otherwise `create`. `cluster` is a list of objects; without it there is no cluster state to query.
 */
export function evaluate(policy, testRequest) {
  const { settings = {}, cluster } = testRequest;
  const { request, review } = reviewOf(policy, testRequest);
  const routes = matchesOf(policy, request, settings).reduce((bits, match) => bits | (1n << BigInt(match.route)), 0n);
  return during(cluster && nativeCluster(reads(policy), cluster, settings), () => evaluateReview(policy, review, routes));
}

/** Whether a rule evaluates a request: a route for the rule matches it, and the rule is on. */
export function isEvaluated(policy, rule, testRequest) {
  const { request, review } = reviewOf(policy, testRequest);
  const isMatched = matchesOf(policy, request, testRequest.settings ?? {}).some(({ rules }) => rules.includes(rule.id));
  return isMatched && new Report(review, policy.rules).isOn(rule);
}

/** The request and the review of a test request. */
function reviewOf(policy, testRequest) {
  const { object, oldObject, settings = {} } = testRequest;
  const operation = testRequest.operation ?? (oldObject === undefined ? 'create' : 'update');
  const subject = object ?? oldObject;
  const resource = testRequest.resource ?? resourceOf(policy, subject);
  const request = {
    uid: '00000000-0000-0000-0000-000000000000',
    operation,
    kind: kindOf(subject),
    resource,
    subResource: testRequest.subResource ?? '',
    name: testRequest.name ?? at(subject, '/metadata/name') ?? '',
    namespace: testRequest.namespace ?? at(subject, '/metadata/namespace') ?? '',
    user: { username: testRequest.user ?? 'test', uid: '', groups: testRequest.groups ?? [] },
    dryRun: testRequest.dryRun ?? false,
    wantsFixes: true,
  };
  const document = (value) => (value === undefined || value === null ? undefined : new Document(new Plain(structuredClone(value))));
  const parts = Object.fromEntries(Object.entries(request).map(([name, value]) => [name, () => value]));
  return { request, review: new Review(new Request(operation, parts), document(object), document(oldObject), document(settings)) };
}

/** The errors of `checkSettings`: a list of `{pointer, message}`. */
export function checkSettings(policy, settings) {
  return settingsErrors(policy, settings);
}

/** The descriptor of the policy. */
export function describe(policy) {
  return describePolicy(policy);
}

/** Runs with cluster state, and returns the lines of the log with the verdict. */
function during(cluster, run) {
  const before = { ...host };
  const log = [];
  Object.assign(host, cluster ?? {});
  host.log = (severity, message) => log.push({ severity, message });
  try {
    return { ...run(), log };
  } finally {
    Object.assign(host, before);
  }
}

function kindOf(object) {
  const [group, version] = groupAndVersion(object);
  return { group, version, kind: object?.kind ?? '' };
}

/** The resource of an object: that of a target of its kind, or else the plural of its kind. */
function resourceOf(policy, object) {
  const { group, version, kind } = kindOf(object);
  const fits = (list, value) => list.includes('*') || list.includes(value);
  const on = policy.routes.map((route) => route.on).find((it) => it.kind === kind && fits(it.groups, group) && fits(it.versions, version));
  const named = on?.resources.find((it) => it !== '*' && !it.includes('/'));
  return { group, version, resource: named ?? pluralOf(kind) };
}

/** The match rules that a request fits, as the host finds them. */
function matchesOf(policy, request, settings) {
  const { group, version, resource } = request.resource;
  const name = request.subResource === '' ? resource : `${resource}/${request.subResource}`;
  const any = (list, found) => list.some((it) => it === '*' || it === found || it === `${resource}/*`);
  const isNamespace = group === '' && resource === 'namespaces';
  const namespace = isNamespace ? request.name : request.namespace;
  const fits = (match) =>
    (match.enabledBy.length === 0 || match.enabledBy.some((it) => has(settings, it) && at(settings, it) !== false)) &&
    match.operations.includes(request.operation) &&
    any(match.groups, group) &&
    any(match.versions, version) &&
    any(match.resources, name) &&
    (match.namespace === undefined || (at(settings, match.namespace.pointer) ?? match.namespace.default) === request.namespace) &&
    (namespace === '' || isNamed(match.namespaces, namespace)) &&
    (request.name === '' || isNamed(match.names, request.name));
  return matches(policy).filter(fits);
}

function isNamed({ include, exclude }, name) {
  const fits = (pattern) => {
    const parts = pattern.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'));
    return new RegExp(`^${parts.join('.*')}$`, 's').test(name);
  };
  return (include.length === 0 || include.some(fits)) && !exclude.some(fits);
}
