/** Runs a policy natively, for `node --test`. */

import type { GroupVersionResource, Json, Level, Operation, Policy, SettingsError } from './index.js';

/** A request to judge. */
export interface Given {
  object?: Json;
  oldObject?: Json;
  /** `update` with an old object, otherwise `create`, unless set. */
  operation?: Operation;
  settings?: Json;
  /** The objects of the cluster; without it there is no cluster to ask. */
  cluster?: Json[];
  user?: string;
  groups?: string[];
  /** Those of the object unless set. */
  name?: string;
  namespace?: string;
  resource?: GroupVersionResource;
  subResource?: string;
  dryRun?: boolean;
}

export interface Verdict {
  violations: { rule: string; level: Level; field: string; message: string; about: string[] }[];
  reason: string | undefined;
  auditAnnotations: { key: string; value: string }[];
  skipped: { rule: string; reason: string }[];
  /** What the policy wrote to the log. */
  log: { severity: string; message: string }[];
}

/** Judges a request, with the functions of the policy's routes that it matches. */
export function judge(policy: Policy, given: Given): Verdict;
/** What `checkSettings` finds. */
export function checkSettings(policy: Policy, settings: Json): SettingsError[];
/** The descriptor, as the host gets it. */
export function describe(policy: Policy): Json;
/** Declares a test for each case of a folder, `cases` unless set. */
export function cases(policy: Policy, folder?: string): void;
