// Write admission policies for opgate: what a policy imports.

export { policy, read, rule, target, targetOfFiles } from './declare.js';
export { ClusterRead, ReadError, sample } from './cluster.js';
export { Document } from './document.js';
export { log } from './log.js';
export { escape } from './pointer.js';
export { Report } from './report.js';
export { Request, Review } from './review.js';
