// From the declarations of a policy to its descriptor in the contract. The Rust SDK does the same in
// guest/sdk/src/describe.rs: both return the same descriptor for the same declarations.
//
//   rules, sorted by id ─┬─▶ rules
//     on, of each ───────┼─▶ matches: for each route, the operations and the rules that apply to them
//     reads, of each ────┼─▶ reads, each with the rules that need it
//     samples, of each ──┴─▶ sampling rules
//   settings, and those that all policies have in common ─▶ schema

import { isFileTarget } from './declare.js';

const OPERATIONS = ['create', 'update', 'delete', 'connect'];
const TEXTS = { type: 'array', items: { type: 'string' }, default: [] };

export function describe(policy) {
  const { rules } = policy;
  return {
    name: policy.name,
    version: policy.version ?? '0.0.0',
    title: policy.title,
    rules: rules.map(describeRule),
    matches: matches(policy),
    reads: reads(policy).map((it) => it.describe(rules.filter((rule) => rule.reads.includes(it)).map((rule) => rule.id))),
    samplingRules: rules.filter((rule) => rule.samples).map((rule) => rule.id),
    settingsSchema: schema(policy),
  };
}

/** The reads of the rules, each once. */
export function reads(policy) {
  return [...new Set(policy.rules.flatMap((rule) => rule.reads))];
}

/** Whether a policy needs the world `cluster-policy`. */
export function needsCluster(policy) {
  return policy.rules.some((rule) => rule.samples || rule.reads.length > 0);
}

const appliesTo = (rule, target, operation) => rule.on.some((on) => on.target === target && on.operations.includes(operation));

/** The requests that each route gets. Operations to which the same rules apply are one entry. */
export function matches(policy) {
  const all = [];
  policy.routes.forEach((route, number) => {
    const ofRoute = [];
    for (const operation of OPERATIONS) {
      const rules = policy.rules.filter((rule) => appliesTo(rule, route.on, operation)).map((rule) => rule.id);
      if (rules.length === 0) continue;
      const same = ofRoute.find((known) => known.rules.join(' ') === rules.join(' '));
      if (same) same.operations.push(operation);
      else ofRoute.push(match(route.on, operation, rules, number));
    }
    all.push(...ofRoute);
  });
  return all;
}

function match(target, operation, rules, route) {
  return {
    groups: target.groups,
    versions: target.versions,
    resources: target.resources,
    operations: [operation],
    namespace: target.namespace,
    namespaces: target.namespaces,
    names: target.names,
    rules,
    advisory: target.advisory,
    route,
    matchConditions: Object.entries(target.conditions).map(([name, expression]) => ({ name, expression })),
    namespaceSelector: target.namespaceSelector,
    enabledBy: target.enabledBy,
  };
}

function describeRule(rule) {
  return {
    id: rule.id,
    name: rule.name,
    title: rule.title,
    defaultLevel: rule.enabledBy ? 'off' : rule.level,
    enabledBy: rule.enabledBy ?? rule.deniesWith,
    kinds: [...new Set(rule.on.map((on) => on.target.kind))],
    operations: OPERATIONS.filter((operation) => rule.on.some((on) => on.operations.includes(operation))),
    sources: rule.sources,
  };
}

/** JSON Schema of the settings: the policy's own, and the common ones that its rules need. */
function schema(policy) {
  const common = {};
  if (policy.routes.some((route) => !isFileTarget(route.on))) {
    common.ratcheting = {
      description: 'Omit violations in fields that an UPDATE does not change.',
      type: 'boolean',
      default: true,
    };
    const exceptions = policy.rules.filter((rule) => rule.noExemptions).map((rule) => rule.id);
    const but = exceptions.length > 0 ? ` but ${exceptions.join(' and ')}` : '';
    common.exempt = object({ users: TEXTS, groups: TEXTS }, `Identities to which no rule${but} applies.`);
  }
  const needs = needsCluster(policy)
    ? 'cluster objects that are not available'
    : policy.rules.some((rule) => rule.maySkip) && 'files that are not available';
  common.messages = object({
    prefixRuleId: { description: "Put the rule's id before its message.", type: 'boolean', default: false },
    ...(needs && {
      skippedRules: {
        description: `Whether to warn of a rule that is skipped because it needs ${needs}.`,
        enum: ['omit', 'warn'],
        default: 'omit',
      },
    }),
  });
  common.rules = {
    description: 'Levels that the configuration gives to rules; written by the host.',
    type: 'object',
    readOnly: true,
  };
  for (const name of Object.keys(policy.settings)) {
    if (Object.hasOwn(common, name)) throw new TypeError(`policy ${policy.name}: all policies have the setting ${name}; remove it from settings`);
  }
  return JSON.stringify({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `Settings of the policy ${policy.name}`,
    type: 'object',
    additionalProperties: false,
    properties: { ...common, ...policy.settings },
  });
}

function object(properties, description) {
  const described = description === undefined ? {} : { description };
  return { ...described, type: 'object', additionalProperties: false, properties };
}
