// The exports of the component. The build writes an entry that calls `component` with the policy:
//
//   policy.ts ─▶ component(policy, version) ─▶ describe, validateSettings, validate
//
// All of this runs while the component is built: the descriptor, the rules and the compiled functions of
// the SDK are in the snapshot that every call starts from.

import { Document as Handle } from 'opgate:policy/document@0.7.0';
import { log as hostLog } from 'opgate:policy/log@0.7.0';

import { describe } from './describe.js';
import { Document } from './document.js';
import { evaluate, settingsErrors } from './evaluate.js';
import { host } from './host.js';
import { log } from './log.js';
import { Request, Review } from './review.js';
import { panicked } from './source_position.js';
import { removeUnsupported } from './unsupported.js';
import { warmUp } from './warm.js';

const optional = (handle) => (handle === undefined || handle === null ? undefined : new Document(handle));

/** The exports for a policy. The version is that of the package, unless the policy names one. */
export function component(declared, version) {
  const policy = { version, ...defined(declared) };
  const descriptor = describe(policy);
  warmUp();
  removeUnsupported();
  let isBuilt = false;
  // No call of the host is possible while the component is built.
  host.log = (severity, message) => isBuilt && hostLog(severity, message);
  host.Document = Handle;
  const { debug, info, warn, error } = log;
  globalThis.console = { debug, log: info, info, warn, error, trace: debug };

  /** An error reaches the log before the call ends as a policy error. */
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
      // The bindings treat a thrown value that is no Error as the error of the result.
      if (errors.length > 0) throw errors;
    },
    validate: guarded((operation, routes, request, object, old, settings) => {
      const review = new Review(new Request(operation, request), optional(object), optional(old), new Document(settings));
      return evaluate(policy, review, routes);
    }),
  };
}

/** The members of a declaration that are set. */
function defined(declared) {
  return Object.fromEntries(Object.entries(declared).filter(([, value]) => value !== undefined));
}
