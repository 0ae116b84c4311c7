// The exports of the package: the API for policies.

export { fileTarget, policy, read, rule, target } from './declare.js';
export { ClusterRead, ReadError, sample } from './cluster.js';
export { Document } from './document.js';
export { log } from './log.js';
export { escape } from './pointer.js';
export { Report } from './report.js';
export { Request, Review } from './review.js';
