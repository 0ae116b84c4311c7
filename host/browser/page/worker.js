// Evaluates in a worker, which the page can end. A task has an id, and its answer has the same. `isStarted` is sent
// before the evaluation, when all that it needs was loaded: from then on, the page limits the time.

import { ConfigurationError, Evaluator, InputError, attempt } from './evaluator.js';

/** A group or resource of a policy that matches all. */
const ANY = '*';

const read = async (path) => {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.arrayBuffer();
};
const ready = Promise.all([Evaluator.create(read, (path) => import(`./${path}`)), read('policies.json')]);
const loaded = new Map();

/** The value of a function of the host, or its error as an `InputError`. */
function unwrap(call) {
  const result = attempt(call);
  if ('error' in result) throw new InputError([result.error].flat().join('\n'));
  return result.value;
}

/** A loaded policy. The last configurations are kept. */
async function load(evaluator, name, configuration) {
  const key = `${name} ${configuration}`;
  if (!loaded.has(key)) {
    if (loaded.size >= 64) loaded.clear();
    loaded.set(key, await evaluator.load(name, configuration));
  }
  return loaded.get(key);
}

/** The policies that may match the resources of some inputs, each with its configuration. */
function entries(list, host, configurationText, policy, inputs) {
  const file = JSON.parse(unwrap(() => host.readConfiguration(configurationText)));
  const common = file?.common ?? {};
  const all = file?.policies ?? list.map(({ name }) => ({ name, policy: name, configuration: common }));
  const known = new Map(list.map((entry) => [entry.name, entry]));
  const unknown = all.find((entry) => !known.has(entry.policy));
  if (unknown) throw new ConfigurationError([`there is no built-in policy ${JSON.stringify(unknown.policy)}`]);
  const wanted = all.filter((entry) => !policy || entry.policy === policy);
  if (policy && wanted.length === 0) throw new ConfigurationError([`the configuration has no policy ${policy}`]);
  const resources = inputs.map(({ review }) => JSON.parse(review).request.resource);
  const matches = (name) =>
    known.get(name).resources.some((resource) => {
      const [group, plural] = resource.split('/');
      return resources.some((found) => [found.group ?? '', ANY].includes(group) && [found.resource, ANY].includes(plural));
    });
  return wanted.filter((entry) => policy || matches(entry.policy));
}

/** The decisions on all inputs of a text. */
async function evaluate({ input, configuration, cluster, policy }, start) {
  const [evaluator, listBytes] = await ready;
  const list = JSON.parse(new TextDecoder().decode(listBytes));
  const { host } = evaluator;
  const inputs = JSON.parse(unwrap(() => host.readInputs(input)));
  const state = cluster.trim() === '' ? undefined : unwrap(() => host.readCluster(cluster));
  const policies = entries(list, host, configuration, policy, inputs);
  const settings = (entry, isFile) => JSON.stringify({ ...entry.configuration, files: isFile });
  for (const entry of policies) {
    for (const isFile of new Set(inputs.map((one) => one.isFile))) await load(evaluator, entry.policy, settings(entry, isFile));
  }
  start();
  const results = [];
  const located = [];
  for (const [index, { kind, name, isFile, review }] of inputs.entries()) {
    const decisions = [];
    for (const entry of policies) {
      const policy = await load(evaluator, entry.policy, settings(entry, isFile));
      const decision = await evaluator.evaluate(entry.policy, policy, review, state);
      if (!decision) continue;
      located.push(...decision.violations.map((violation) => ({ index, violation })));
      decisions.push({ ...decision, policy: entry.name });
    }
    results.push({ kind, name, decisions });
  }
  const fields = located.map(({ index, violation }) => [index, violation.field]);
  const places = JSON.parse(host.locate(input, fields));
  located.forEach(({ violation }, number) => {
    [violation.line, violation.column] = places[number] ?? [];
  });
  return results;
}

/** The cases of a policy. */
async function cases({ policy }) {
  const [evaluator] = await ready;
  const files = JSON.parse(new TextDecoder().decode(await read(`policies/${policy}/cases.json`)));
  const descriptor = await evaluator.describe(policy);
  return JSON.parse(unwrap(() => evaluator.host.readCases(descriptor, files)));
}

/** The decision on a case, which has its own configuration and cluster state. */
async function evaluateCase({ policy, case: one }) {
  const [evaluator] = await ready;
  const settings = await load(evaluator, policy, one.configuration);
  return evaluator.evaluate(policy, settings, one.review, one.cluster ?? undefined);
}

const tasks = { evaluate, cases, evaluateCase };

async function handle({ data: { id, task, argument } }) {
  try {
    const start = () => self.postMessage({ id, isStarted: true });
    self.postMessage({ id, value: await tasks[task](argument, start) });
  } catch (error) {
    const isExpected = error instanceof ConfigurationError || error instanceof InputError;
    self.postMessage({ id, error: isExpected ? error.message : `opgate failed: ${error?.message ?? error}` });
  }
}

// The host has the state of one call, so that a task starts when the last one has ended.
let last = Promise.resolve();
self.onmessage = (event) => {
  last = last.then(() => handle(event));
};
