// The host of the SDK: the imports of the component (component.js), or their replacement in native tests
// (native.js).
//
//   log(severity, message)
//   Document.parse(json) ─▶ handle, with the functions of `opgate:policy/document`
//   get, list, names, sample ─▶ `opgate:policy/cluster`; they throw {payload: {tag, val}}

import { Plain } from './plain.js';

const noCluster = () => {
  throw Object.assign(new Error('there is no cluster'), { payload: { tag: 'no-cluster', val: 'there is no cluster' } });
};

export const host = {
  log(severity, message) {
    globalThis.console?.error(`${severity}: ${message}`);
  },
  Document: Plain,
  get: noCluster,
  list: noCluster,
  names: noCluster,
  sample: noCluster,
};
