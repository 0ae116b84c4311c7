// What the SDK gets from its surroundings: the imports of the component (component.js), or their
// replacement in native tests (testing.js).
//
//   log(severity, message)
//   Document.parse(json) ─▶ handle, with the functions of `opgate:policy/document`
//   get, list, names, sample ─▶ `opgate:policy/cluster`; they throw {payload: {tag, val}}

import { Plain } from './plain.js';

const absent = () => {
  throw Object.assign(new Error('there is no cluster'), { payload: { tag: 'absent', val: 'there is no cluster' } });
};

export const host = {
  log(severity, message) {
    globalThis.console?.error(`${severity}: ${message}`);
  },
  Document: Plain,
  get: absent,
  list: absent,
  names: absent,
  sample: absent,
};
