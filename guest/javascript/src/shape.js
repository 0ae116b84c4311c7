// Kubernetes semantic equality of values whose Go type is known. `equality.Semantic.DeepEqual` compares decoded Go
// values, not JSON: members that the type does not have make no difference, a missing field that is not a pointer has its
// zero value, and an empty list is the same as none. The Rust SDK does the same in guest/sdk/src/shape.rs.

import { escape } from './pointer.js';

const NOTHING = ['missing', 'null'];

export class Shape {
  #kind;
  #inner;

  constructor(kind, inner) {
    this.#kind = kind;
    this.#inner = inner;
    Object.freeze(this);
  }

  /** A text, a boolean or a number: missing is the same as the zero value. */
  static scalar = new Shape('scalar');

  /** A struct by value, with the shapes of its fields by JSON name. */
  static struct(fields) {
    return new Shape('struct', fieldsOf(fields));
  }

  /** A pointer to a struct: missing is not the same as `{}`. */
  static pointer(fields) {
    return new Shape('pointer', fieldsOf(fields));
  }

  /** A list: missing is the same as `[]`, and the order matters. */
  static list(item) {
    return new Shape('list', shaped(item, 'list'));
  }

  /** Whether the values at one pointer in two documents are semantically equal. */
  equal(left, right, pointer) {
    const isWhole = this.#kind === 'scalar' || (left.isWhole(pointer) && right.isWhole(pointer));
    return (isWhole && left.equal(pointer, right, pointer)) || this.#differsInSpellingOnly(left, right, pointer);
  }

  #differsInSpellingOnly(left, right, pointer) {
    const both = (kinds) => kinds.includes(left.kind(pointer)) && kinds.includes(right.kind(pointer));
    const areFieldsEqual = () => this.#inner.every(([name, shape]) => shape.equal(left, right, `${pointer}/${escape(name)}`));
    switch (this.#kind) {
      case 'scalar':
        return isZero(left, pointer) && isZero(right, pointer);
      case 'struct':
        return both([...NOTHING, 'object']) && areFieldsEqual();
      case 'pointer':
        return both(['object']) && areFieldsEqual();
      default: {
        if (isEmpty(left, pointer) && isEmpty(right, pointer)) return true;
        if (!both(['list'])) return false;
        const length = left.length(pointer);
        if (right.length(pointer) !== length) return false;
        for (let index = 0; index < length; index += 1) {
          if (!this.#inner.equal(left, right, `${pointer}/${index}`)) return false;
        }
        return true;
      }
    }
  }
}

function fieldsOf(fields) {
  return Object.entries(fields).map(([name, shape]) => [name, shaped(shape, name)]);
}

function shaped(shape, name) {
  if (!(shape instanceof Shape)) throw new TypeError(`${name}: write Shape.scalar, Shape.struct({…}), Shape.pointer({…}) or Shape.list(…)`);
  return shape;
}

function isEmpty(document, pointer) {
  const kind = document.kind(pointer);
  return NOTHING.includes(kind) || (kind === 'list' && document.length(pointer) === 0);
}

function isZero(document, pointer) {
  switch (document.kind(pointer)) {
    case 'missing':
    case 'null':
      return true;
    case 'boolean':
      return document.boolean(pointer) === false;
    case 'number':
      return document.number(pointer) === 0;
    case 'text':
      return document.text(pointer) === '';
    default:
      return false;
  }
}
