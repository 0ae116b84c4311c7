// The exports of the package: the API for policies.

export { fileTarget, policy, read, rule, target } from './declare.js';
export { ClusterRead, ReadError, sample } from './cluster.js';
export { Document } from './document.js';
export { Fix } from './fix.js';
export { log } from './log.js';
export * as pods from './pods.js';
export { escape } from './pointer.js';
export { Report } from './report.js';
export { Request, Review } from './review.js';
export { Selector, SelectorError } from './selector.js';
export { Shape } from './shape.js';
