// The exports of the component. The build makes an entry that calls `component` with the policy:
//
//   policy.ts ─▶ component(policy, version) ─▶ describe, validateSettings, validate
//
// All of this runs while the component is built: the descriptor, the rules and the compiled functions of
// the SDK are in the snapshot that every call starts from.

import { Document as Handle } from 'opgate:policy/document@0.6.0';
import { log as hostLog } from 'opgate:policy/log@0.6.0';

import { describe } from './describe.js';
import { Document } from './document.js';
import { host } from './host.js';
import { judge, settingsErrors } from './judge.js';
import { log } from './log.js';
import { panicked } from './place.js';
import { Request, Review } from './review.js';
import { warmUp } from './warm.js';
import { takeAway } from './without.js';

const optional = (handle) => (handle === undefined || handle === null ? undefined : new Document(handle));

/** The exports for a policy. The version is that of the package, unless the policy names one. */
export function component(declared, version) {
  const policy = { version, ...without(declared) };
  const descriptor = describe(policy);
  warmUp();
  takeAway();
  let isBuilt = false;
  // No call of the host is possible while the component is built.
  host.log = (severity, message) => isBuilt && hostLog(severity, message);
  host.Document = Handle;
  const { debug, info, warn, error } = log;
  globalThis.console = { debug, log: info, info, warn, error, trace: debug };

  /** What is thrown reaches the log before the call ends as a policy error. */
  const guarded = (call) => (...args) => {
    isBuilt = true;
    try {
      return call(...args);
    } catch (error) {
      const text = panicked(error);
      hostLog('error', text);
      throw new Error(text);
    }
  };
  return {
    describe: guarded(() => descriptor),
    validateSettings(settings) {
      const errors = guarded(() => settingsErrors(policy, new Document(settings).value))();
      // For the bindings, what is thrown and no Error is the error of the result.
      if (errors.length > 0) throw errors;
    },
    validate: guarded((operation, routes, request, object, old, settings) => {
      const review = new Review(new Request(operation, request), optional(object), optional(old), new Document(settings));
      return judge(policy, review, routes);
    }),
  };
}

/** The declaration without members that are not set. */
function without(declared) {
  return Object.fromEntries(Object.entries(declared).filter(([, value]) => value !== undefined));
}
