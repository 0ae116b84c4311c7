/** Runs a policy natively, for `node --test`. */

import type { GroupVersionResource, Json, Level, Operation, Policy, SettingsError } from './index.js';

/** A request to evaluate. */
export interface TestRequest {
  object?: Json;
  oldObject?: Json;
  /** `update` with an old object, otherwise `create`, unless set. */
  operation?: Operation;
  settings?: Json;
  /** The cluster objects. Without this member there is no cluster state to query. */
  cluster?: Json[];
  user?: string;
  groups?: string[];
  /** By default those of the object. */
  name?: string;
  namespace?: string;
  resource?: GroupVersionResource;
  subResource?: string;
  dryRun?: boolean;
}

/** A fix as the contract has it. The value of an edit is JSON text. */
export interface FixRecord {
  title: string;
  safety: 'safe' | 'unsafe';
  edits: { tag: 'set' | 'insert' | 'remove' | 'rename-key' | 'move-file'; val: Json }[];
}

export interface Verdict {
  violations: { rule: string; level: Level; field: string; message: string; logicalLocation: string[]; fix?: FixRecord }[];
  reason: string | undefined;
  auditAnnotations: { key: string; value: string }[];
  skipped: { rule: string; reason: string }[];
  /** The lines of the policy in the log. */
  log: { severity: string; message: string }[];
}

/** Evaluates a request with the functions of the routes that it matches. */
export function evaluate(policy: Policy, request: TestRequest): Verdict;
/** The errors of `checkSettings`. */
export function checkSettings(policy: Policy, settings: Json): SettingsError[];
/** The descriptor of the policy. */
export function describe(policy: Policy): Json;
/** Declares a test for each case of a directory, `cases` unless set. */
export function cases(policy: Policy, directory?: string): void;
