// Label selectors of Kubernetes. The Rust SDK does the same in guest/sdk/src/selector.rs, and both hold the cases in
// guest/cases/helpers.json.
//
//   Selector.from(value), Selector.fromMap(labels), document.selector(pointer) ─▶ Selector ─▶ matches(labels)

import { labelKeyError, labelValueError } from './label_names.js';
import { compare } from './pointer.js';

/** Maximum number of values that an error names, and of bytes of a text in one. */
const MAX_LISTED_VALUES = 64;
const MAX_SHOWN_BYTES = 1_024;
const OPERATORS = ['In', 'NotIn', 'Exists', 'DoesNotExist'];

/** A selector that an API server rejects: the reason, in the words of Kubernetes. */
export class SelectorError extends Error {
  name = 'SelectorError';
}

export class Selector {
  #requirements = [];

  /** The selector of a `metav1.LabelSelector`; undefined for `undefined` and `null`. */
  static from(value) {
    if (isNothing(value)) return undefined;
    if (!isObject(value)) throw wrong('the selector', 'an object');
    const selector = new Selector();
    selector.#addLabels(value.matchLabels, 'matchLabels');
    const expressions = value.matchExpressions;
    if (isNothing(expressions)) return selector;
    if (!Array.isArray(expressions)) throw wrong('matchExpressions', 'a list');
    for (const [index, expression] of expressions.entries()) selector.#addExpression(expression, `matchExpressions[${index}]`);
    return selector;
  }

  /** The selector of a map of labels, as of a Service; undefined if it is missing, `null` or empty: it selects nothing. */
  static fromMap(labels) {
    const selector = new Selector();
    selector.#addLabels(labels, 'the selector');
    return selector.isEmpty ? undefined : selector;
  }

  #addLabels(labels, name) {
    if (isNothing(labels)) return;
    if (!isObject(labels)) throw wrong(name, 'an object');
    for (const key of Object.keys(labels).sort(compare)) {
      this.#add(key, 'In', [textOf(labels[key], `a value of ${name}`)]);
    }
  }

  #addExpression(expression, name) {
    if (expression !== null && !isObject(expression)) throw wrong(name, 'an object');
    const key = textOf(expression?.key, `${name}.key`);
    const operator = textOf(expression?.operator, `${name}.operator`);
    const values = expression?.values ?? [];
    if (!Array.isArray(values)) throw wrong(`${name}.values`, 'a list');
    const texts = values.map((value, index) => textOf(value, `${name}.values[${index}]`));
    if (!OPERATORS.includes(operator)) throw new SelectorError(`${quoted(operator)} is not a valid label selector operator`);
    this.#add(key, operator, texts);
  }

  #add(key, operator, values) {
    const errors = [];
    const why = labelKeyError(key);
    if (why !== undefined) errors.push(`key: Invalid value: ${quoted(key)}: ${why}`);
    if (operator === 'In' || operator === 'NotIn') {
      if (values.length === 0) errors.push("values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't be empty");
    } else if (values.length > 0) {
      const listed = values.slice(0, MAX_LISTED_VALUES).map(quoted).join(', ');
      errors.push(`values: Invalid value: []string{${listed}}: values set must be empty for exists and does not exist`);
    }
    let count = 0;
    for (const [index, value] of values.entries()) {
      const error = count < MAX_LISTED_VALUES ? labelValueError(value) : undefined;
      if (error !== undefined) {
        errors.push(`values[${index}][${truncated(key)}]: Invalid value: ${quoted(value)}: ${error}`);
        count += 1;
      }
    }
    if (errors.length > 0) throw new SelectorError(errors.length === 1 ? errors[0] : `[${errors.join(', ')}]`);
    this.#requirements.push({ key, operator, values: new Set(values) });
  }

  /** Whether it has no requirements, and so matches all objects. */
  get isEmpty() {
    return this.#requirements.length === 0;
  }

  /** Whether an object with these labels is selected. `undefined` and `null` are no labels. */
  matches(labels) {
    const label = (key) => (isObject(labels) && Object.hasOwn(labels, key) ? textOrNone(labels[key]) : undefined);
    return this.#requirements.every(({ key, operator, values }) => {
      const value = label(key);
      switch (operator) {
        case 'In':
          return value !== undefined && values.has(value);
        // As in Kubernetes, an object without the label satisfies `NotIn`.
        case 'NotIn':
          return value === undefined || !values.has(value);
        case 'Exists':
          return value !== undefined;
        default:
          return value === undefined;
      }
    });
  }

  /** The notation of `kubectl -l`. */
  toString() {
    return this.#requirements
      .map(({ key, operator, values }) => {
        if (operator === 'Exists') return key;
        if (operator === 'DoesNotExist') return `!${key}`;
        return `${key} ${operator === 'In' ? 'in' : 'notin'} (${[...values].sort(compare).join(',')})`;
      })
      .join(',');
  }
}

const isNothing = (value) => value === undefined || value === null;
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const wrong = (what, expected) => new SelectorError(`${what} is not ${expected}`);

/** The text of a label. As in Go, `null` is the empty text. */
const textOrNone = (value) => (value === null ? '' : typeof value === 'string' ? value : undefined);

/** A text. Go reads a missing one and `null` as empty. */
function textOf(value, name) {
  if (isNothing(value)) return '';
  if (typeof value !== 'string') throw wrong(name, 'a text');
  return value;
}

/** The part of a text that an error shows. */
function truncated(text) {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= MAX_SHOWN_BYTES) return text;
  let end = MAX_SHOWN_BYTES;
  while (end > 0 && (bytes[end] & 0xc0) === 0x80) end -= 1;
  return new TextDecoder().decode(bytes.subarray(0, end));
}

const ESCAPES = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t', '\0': '\\0' };
function quoted(text) {
  // eslint-disable-next-line no-control-regex
  const escaped = truncated(text).replaceAll(/["\\\u0000-\u001f\u007f-\u009f]/g, (it) => ESCAPES[it] ?? `\\u{${it.charCodeAt(0).toString(16)}}`);
  return `"${escaped}"`;
}
