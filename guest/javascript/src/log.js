// Lines for the host's log. The host adds the name of the policy, and keeps 64 lines of a call.

import { host } from './host.js';

const write = (severity) => (...parts) => {
  host.log(severity, parts.map((part) => (typeof part === 'string' ? part : inspect(part))).join(' '));
};

function inspect(part) {
  if (part instanceof Error) return String(part);
  try {
    return JSON.stringify(part) ?? String(part);
  } catch {
    return String(part);
  }
}

export const log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
