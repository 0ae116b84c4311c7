// Native tests of a policy, for `node --test`.

export { cases } from './cases.js';
export { checkSettings, describe, evaluate } from './native.js';
