// Evaluates a request: calls the functions of the routes that match, and makes the verdict.

import { Report } from './report.js';

/** Bit n of `routes` (a BigInt) selects the function of route n. */
export function judge(policy, review, routes) {
  const report = new Report(review, policy.rules);
  let rest = routes;
  for (let number = 0; rest > 0n && number < policy.routes.length; number += 1, rest >>= 1n) {
    if ((rest & 1n) === 1n) synchronous(policy.routes[number].judge(review, report));
  }
  return report.finish();
}

/** The errors of the settings, as a list. */
export function settingsErrors(policy, settings) {
  const errors = synchronous(policy.checkSettings(settings)) ?? [];
  return [...errors].map(({ pointer, message }) => ({ pointer: String(pointer), message: String(message) }));
}

/** What an async function finds after its first `await` would come too late for the verdict. */
function synchronous(result) {
  if (typeof result?.then === 'function') {
    throw new TypeError('judge and checkSettings must not be async: nothing in a policy waits');
  }
  return result;
}
