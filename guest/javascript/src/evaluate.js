// Evaluates a request: calls the functions of the routes that match, and returns the verdict.

import { Report } from './report.js';

/** Bit n of `routes` (a BigInt) selects the function of route n. */
export function evaluate(policy, review, routes) {
  const report = new Report(review, policy.rules);
  let rest = routes;
  for (let number = 0; rest > 0n && number < policy.routes.length; number += 1, rest >>= 1n) {
    if ((rest & 1n) === 1n) synchronous(policy.routes[number].evaluate(review, report));
  }
  return report.finish();
}

/** The errors of the settings, as a list. */
export function settingsErrors(policy, settings) {
  const errors = synchronous(policy.checkSettings(settings)) ?? [];
  return [...errors].map(({ pointer, message }) => ({ pointer: String(pointer), message: String(message) }));
}

/** Violations that an async function adds after its first `await` would miss the verdict. */
function synchronous(result) {
  if (typeof result?.then === 'function') {
    throw new TypeError('evaluate and checkSettings must not be async: a policy cannot wait');
  }
  return result;
}
