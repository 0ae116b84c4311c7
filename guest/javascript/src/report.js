// The report of one review: the violations, and the rules that could not be evaluated.
//
//   add ─▶ level (configuration, settings, rule) ─▶ exempt? ─▶ at most 256, shared by the rules ─▶ verdict
//   skip ──────────────────────────────────────────────────▶ skipped, warnings by `messages` ──────┘
//
// The Rust SDK does the same in guest/sdk/src/report.rs: both return the same verdict, byte for byte.

import { ReadError } from './cluster.js';
import { byId } from './declare.js';
import { at, compare, has } from './pointer.js';

/** Maximum number of violations in a verdict, and maximum bytes of texts, see wit/policy.wit. */
const MAX_VIOLATIONS = 256;
const MAX_MESSAGE_BYTES = 4_096;
const MAX_FIELD_BYTES = 1_024;

export class Report {
  static MAX_VIOLATIONS = MAX_VIOLATIONS;
  #review;
  #rules;
  /** The violations of each rule: {rule, given, level, first: [[order, violation]], count}. */
  #found = [];
  #skipped = [];
  #annotations = new Map();
  #reason;
  #count = 0;

  /** `rules` are those of the policy; the report rejects others. */
  constructor(review, rules) {
    this.#review = review;
    this.#rules = rules;
  }

  /**
   * Adds a violation: the field as Kubernetes writes it, and one sentence for the user who sent the request.
   * `fix` is a Fix, or undefined.
   */
  add(rule, field, message, fix) {
    this.#add(rule, undefined, field, message, fix);
  }

  /** `add` with another level than the rule's, if none is configured. */
  addAs(level, rule, field, message, fix) {
    this.#add(rule, level, field, message, fix);
  }

  /** Counts violations without their texts. */
  addCount(rule, count) {
    if (count > 0) this.#of(rule, undefined).count += count;
  }

  /** Adds a violation for each of the things. `texts` returns [field, message]; it is called only for those that fit. */
  addEach(rule, things, texts) {
    let more = 0;
    let taken = 0;
    for (const thing of things) {
      if (taken < MAX_VIOLATIONS) {
        const [field, message] = texts(thing);
        this.add(rule, field, message);
        taken += 1;
      } else {
        more += 1;
      }
    }
    this.addCount(rule, more);
  }

  #add(rule, given, field, message, fix) {
    const found = this.#of(rule, given);
    if (found.level === undefined) return;
    found.count += 1;
    if (found.first.length < MAX_VIOLATIONS) {
      this.#count += 1;
      const texts = { field: String(field), message: String(message) };
      const violation = { rule: rule.id, level: found.level, ...texts, logicalLocation: [], fix: fix?.record };
      found.first.push([this.#count, violation]);
    }
  }

  #of(rule, given) {
    const known = this.#found.find((found) => found.rule === rule && found.given === given);
    if (known) return known;
    this.#declared(rule);
    const level = this.#applies(rule) ? this.#level(rule, given) : undefined;
    const found = { rule, given, level, first: [], count: 0 };
    this.#found.push(found);
    return found;
  }

  #declared(rule) {
    if (!this.#rules.includes(rule)) {
      throw new TypeError(`${rule?.id ?? rule} is no rule of the policy: add it to rules, and report the rule itself, not its id`);
    }
  }

  /** Number of violations of a rule so far that deny the request. */
  denials(rule) {
    const own = this.#found.filter((found) => found.rule === rule && found.level === 'deny');
    return own.reduce((sum, found) => sum + found.count, 0);
  }

  /** The reason of a denial, `Forbidden` unless set. */
  setReason(reason) {
    this.#reason = String(reason);
  }

  /** Adds a word to the API server's audit log. Words with the same key are in one annotation. */
  annotate(key, word) {
    if (!this.#annotations.has(key)) this.#annotations.set(key, new Set());
    this.#annotations.get(key).add(String(word));
  }

  /** The level that the configuration sets for a rule. */
  #configured(rule) {
    const level = at(this.#review.settings, '/rules')?.[rule.id];
    return typeof level === 'string' ? level : undefined;
  }

  /** Whether a rule is on: by its configured level, or else by default or by one of its settings. */
  isOn(rule) {
    const level = this.#configured(rule);
    return level === undefined ? this.#isOnBySettings(rule) : level !== 'off';
  }

  /** A setting turns a rule on if it is present and not `false`. */
  #isOnBySettings(rule) {
    const { settings } = this.#review;
    return rule.enabledBy === undefined || rule.enabledBy.some((pointer) => has(settings, pointer) && at(settings, pointer) !== false);
  }

  /** Whether violations of a rule deny the request. */
  denies(rule) {
    return this.#level(rule, undefined) === 'deny';
  }

  #level(rule, given) {
    const configured = this.#configured(rule);
    if (configured === 'off') return undefined;
    if (configured !== undefined) return configured === 'deny' ? 'deny' : 'warn';
    if (!this.#isOnBySettings(rule)) return undefined;
    const denies = (pointer) => [true, 'deny'].includes(at(this.#review.settings, pointer));
    const level = given ?? rule.level;
    return level === 'warn' && rule.deniesWith.some(denies) ? 'deny' : level;
  }

  #applies(rule) {
    return rule.noExemptions || !this.#review.isExempt();
  }

  /** Records that a rule could not be evaluated, with the reason. Only the first reason of a rule counts. */
  skip(rule, field, reason) {
    this.#skip(rule, field, reason, false);
  }

  /** Records that a rule could only be evaluated in part, with the reason. */
  skipPart(rule, field, reason) {
    this.#skip(rule, field, reason, true);
  }

  #skip(rule, field, reason, isPart) {
    this.#declared(rule);
    if (!this.#skipped.some((known) => known.rule === rule)) {
      this.#skipped.push({ rule, field: String(field), reason: String(reason), isPart });
    }
  }

  /**
   * The result of `query`, which reads cluster state. If there is no answer, skips the rules that need it, and
   * returns undefined. `needed` names the objects: `Namespaces`.
   */
  orSkip(rules, needed, query) {
    try {
      return query();
    } catch (error) {
      if (!(error instanceof ReadError)) throw error;
      if (error.tag === 'invalid') return undefined;
      const reason = error.tag === 'no-cluster' ? '' : `: ${error.message}`;
      for (const rule of rules) this.skip(rule, '', `the cluster's ${needed} are not available${reason}`);
      return undefined;
    }
  }

  /** The verdict. */
  finish() {
    const { settings } = this.#review;
    // A rule that is off is not skipped.
    const skipped = this.#skipped.filter(({ rule }) => this.isOn(rule)).sort((a, b) => byId(a.rule.id, b.rule.id));
    if (skipped.length > 0 && at(settings, '/messages/skippedRules') === 'warn') {
      for (const { rule, field, reason, isPart } of skipped) {
        // Without a cluster, a rule that the configuration sets to deny would deny every request.
        if (this.#configured(rule) === 'deny') continue;
        const how = isPart ? 'evaluated in part' : 'not evaluated';
        const message = `${rule.id} was ${how}: ${reason}`;
        const warning = { rule: rule.id, level: 'warn', field, message, logicalLocation: [], fix: undefined };
        this.#found.push({ rule, given: 'warn', level: 'warn', first: [[Infinity, warning]], count: 1 });
      }
    }
    const violations = shareOut(this.#found);
    const isPrefixed = violations.length > 0 && at(settings, '/messages/prefixRuleId') === true;
    for (const violation of violations) {
      if (isPrefixed) violation.message = `${violation.rule}: ${violation.message}`;
      violation.message = cut(violation.message, MAX_MESSAGE_BYTES);
      violation.field = cut(violation.field, MAX_FIELD_BYTES);
    }
    const annotation = ([key, words]) => ({ key, value: [...words].sort(compare).join(' ') });
    return {
      violations,
      reason: this.#reason,
      auditAnnotations: this.#annotations.size > 0 ? [...this.#annotations].map(annotation) : [],
      skipped: skipped.map(({ rule, reason, isPart }) => ({ rule: rule.id, reason: isPart ? `in part: ${reason}` : reason })),
    };
  }
}

/** The violations of each rule that fit in one verdict, in the order of their addition. */
function shareOut(found) {
  const fits = (each) => found.reduce((sum, { first }) => sum + Math.min(first.length, each), 0) <= MAX_VIOLATIONS;
  let share = MAX_VIOLATIONS;
  while (share > 1 && !fits(share)) share -= 1;
  const shown = [];
  for (const { first, count } of found) {
    const kept = first.slice(0, share);
    const more = count - kept.length;
    if (more > 0 && kept.length > 0) {
      const [, last] = kept[kept.length - 1];
      // The count comes first, because a long message is cut at its end.
      last.message = `${more} more violations of this rule are omitted; ${last.message}`;
    }
    shown.push(...kept);
  }
  return shown.sort(([a], [b]) => (a === b ? 0 : a - b)).map(([, violation]) => violation);
}

/** Cuts a text after at most `limit` bytes of UTF-8, between characters. */
function cut(text, limit) {
  if (text.length * 3 <= limit) return text;
  let bytes = 0;
  let end = 0;
  for (const character of text) {
    const code = character.codePointAt(0);
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > limit) return text.slice(0, end);
    end += character.length;
  }
  return text;
}
