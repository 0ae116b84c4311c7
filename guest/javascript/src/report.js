// The report of one review: the findings, and the rules that could not be evaluated.
//
//   add ─▶ level (configuration, settings, rule) ─▶ exempt? ─▶ at most 256, shared by the rules ─▶ verdict
//   skip ────────────────────────────────────────────────────▶ skipped, warnings where asked for ──┘
//
// The Rust SDK does the same in guest/sdk/src/report.rs: both give the same verdict, byte for byte.

import { ReadError } from './cluster.js';
import { byPlace } from './declare.js';
import { at, compare, has } from './pointer.js';

/** Findings that a verdict has room for. */
const ROOM = 256;
/** Bytes of texts that the host accepts, see wit/policy.wit. */
const MESSAGE = 4_096;
const FIELD = 1_024;

export class Report {
  static ROOM = ROOM;
  #review;
  #rules;
  /** The findings of each rule: {rule, given, level, first: [[place, violation]], count}. */
  #found = [];
  #skipped = [];
  #notes = new Map();
  #reason;
  #count = 0;

  /** `rules` are those of the policy, to refuse others. */
  constructor(review, rules) {
    this.#review = review;
    this.#rules = rules;
  }

  /** Adds a finding: the field as Kubernetes writes it, and one sentence for who sent the request. */
  add(rule, field, message) {
    this.#add(rule, undefined, field, message);
  }

  /** `add` with another level than the rule's, if none is configured. */
  addAs(level, rule, field, message) {
    this.#add(rule, level, field, message);
  }

  /** Counts findings that are not written out. */
  addMore(rule, more) {
    if (more > 0) this.#of(rule, undefined).count += more;
  }

  /** A finding for each of the things. `texts` gives [field, message], and only for those that fit. */
  addEach(rule, things, texts) {
    let more = 0;
    let taken = 0;
    for (const thing of things) {
      if (taken < ROOM) {
        const [field, message] = texts(thing);
        this.add(rule, field, message);
        taken += 1;
      } else {
        more += 1;
      }
    }
    this.addMore(rule, more);
  }

  #add(rule, given, field, message) {
    const found = this.#of(rule, given);
    if (found.level === undefined) return;
    found.count += 1;
    if (found.first.length < ROOM) {
      this.#count += 1;
      const violation = { rule: rule.id, level: found.level, field: String(field), message: String(message), about: [] };
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

  /** Number of findings of a rule so far that deny the request. */
  denials(rule) {
    const own = this.#found.filter((found) => found.rule === rule && found.level === 'deny');
    return own.reduce((sum, found) => sum + found.count, 0);
  }

  /** The reason of a denial, `Forbidden` unless set. */
  setReason(reason) {
    this.#reason = String(reason);
  }

  /** Adds a word to the API server's audit log. Words with the same key are in one annotation. */
  note(key, word) {
    if (!this.#notes.has(key)) this.#notes.set(key, new Set());
    this.#notes.get(key).add(String(word));
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
    return rule.offUntil === undefined || rule.offUntil.some((pointer) => has(settings, pointer) && at(settings, pointer) !== false);
  }

  /** Whether findings of a rule deny the request. */
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
    return rule.exempt === 'never' || !this.#review.isExempt();
  }

  /** Records that a rule could not be evaluated, and why. Only the first reason for a rule counts. */
  skip(rule, field, why) {
    this.#missing(rule, field, why, false);
  }

  /** Records that a rule could only be evaluated in part, and why. */
  skipPart(rule, field, why) {
    this.#missing(rule, field, why, true);
  }

  #missing(rule, field, why, isPart) {
    this.#declared(rule);
    if (!this.#skipped.some((known) => known.rule === rule)) {
      this.#skipped.push({ rule, field: String(field), why: String(why), isPart });
    }
  }

  /**
   * The answer of the cluster: what `ask` returns. If there is none, the rules that need it are skipped,
   * and the answer is undefined. `needed` names the objects: `Namespaces`.
   */
  answer(rules, needed, ask) {
    try {
      return ask();
    } catch (error) {
      if (!(error instanceof ReadError)) throw error;
      if (error.tag === 'invalid') return undefined;
      const reason = error.tag === 'absent' ? '' : `: ${error.message}`;
      for (const rule of rules) this.skip(rule, '', `the cluster's ${needed} are not available${reason}`);
      return undefined;
    }
  }

  /** The verdict. */
  finish() {
    const { settings } = this.#review;
    // A rule that is off is not skipped.
    const skipped = this.#skipped.filter(({ rule }) => this.isOn(rule)).sort((a, b) => byPlace(a.rule.id, b.rule.id));
    if (skipped.length > 0 && at(settings, '/messages/skippedRules') === 'warn') {
      for (const { rule, field, why, isPart } of skipped) {
        // Without a cluster, a rule that the configuration sets to deny would deny every request.
        if (this.#configured(rule) === 'deny') continue;
        const how = isPart ? 'evaluated in part' : 'not evaluated';
        const message = `${rule.id} was ${how}: ${why}`;
        const warning = { rule: rule.id, level: 'warn', field, message, about: [] };
        this.#found.push({ rule, given: 'warn', level: 'warn', first: [[Infinity, warning]], count: 1 });
      }
    }
    const violations = shareOut(this.#found);
    const isPrefixed = violations.length > 0 && at(settings, '/messages/prefixRuleId') === true;
    for (const violation of violations) {
      if (isPrefixed) violation.message = `${violation.rule}: ${violation.message}`;
      violation.message = cut(violation.message, MESSAGE);
      violation.field = cut(violation.field, FIELD);
    }
    const annotation = ([key, words]) => ({ key, value: [...words].sort(compare).join(' ') });
    return {
      violations,
      reason: this.#reason,
      auditAnnotations: this.#notes.size > 0 ? [...this.#notes].map(annotation) : [],
      skipped: skipped.map(({ rule, why, isPart }) => ({ rule: rule.id, reason: isPart ? `in part: ${why}` : why })),
    };
  }
}

/** As many findings of each rule as fit into a verdict together, in the order of their addition. */
function shareOut(found) {
  const fits = (each) => found.reduce((sum, { first }) => sum + Math.min(first.length, each), 0) <= ROOM;
  let share = ROOM;
  while (share > 1 && !fits(share)) share -= 1;
  const places = [];
  for (const { first, count } of found) {
    const kept = first.slice(0, share);
    const more = count - kept.length;
    if (more > 0 && kept.length > 0) {
      const [, last] = kept[kept.length - 1];
      // A message that is too long is cut, and this is the important part.
      last.message = `${more} more findings of this rule are left out; ${last.message}`;
    }
    places.push(...kept);
  }
  return places.sort(([a], [b]) => (a === b ? 0 : a - b)).map(([, violation]) => violation);
}

/** Cuts a text after so many bytes of UTF-8, between characters. */
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
