// JSON pointers (RFC 6901) on plain values: for settings, which the SDK has parsed, for detached documents and for
// native tests. Other documents are in the host.

/** Throws unless a pointer is empty or begins with a slash: other pointers would silently find nothing. */
export function checked(pointer) {
  if (typeof pointer !== 'string') {
    throw new TypeError(`a JSON pointer is a text, not ${typeof pointer}: write "/spec/name"`);
  }
  if (pointer !== '' && pointer.charCodeAt(0) !== 47) {
    throw new TypeError(`'${pointer}' is not a JSON pointer: write '/${pointer}'`);
  }
  return pointer;
}

/** Escapes a name for use as a token of a JSON pointer. */
export function escape(name) {
  return name.includes('~') || name.includes('/') ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name;
}

/** The name that a token of a pointer encodes. */
export function unescape(token) {
  return token.includes('~') ? token.replaceAll('~1', '/').replaceAll('~0', '~') : token;
}

/** The member or element of a value; undefined if there is none. */
export function child(value, name) {
  if (Array.isArray(value)) {
    return /^(0|[1-9][0-9]{0,9})$/.test(name) ? value[Number(name)] : undefined;
  }
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** The value at a pointer; undefined if there is none. */
export function at(value, pointer) {
  if (checked(pointer) === '') return value;
  let found = value;
  for (const token of pointer.slice(1).split('/')) {
    found = child(found, unescape(token));
    if (found === undefined) return undefined;
  }
  return found;
}

/** Whether there is a value other than `null`. */
export function has(value, pointer) {
  const found = at(value, pointer);
  return found !== undefined && found !== null;
}

/** The texts in the list at a pointer, without elements of other kinds. */
export function texts(value, pointer) {
  const found = at(value, pointer);
  return Array.isArray(found) ? found.filter((element) => typeof element === 'string') : [];
}

/** Compares texts as bytes of UTF-8, as the host sorts. */
export function compare(a, b) {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) {
      // Surrogates encode larger numbers than all other units.
      const isPaired = (unit) => unit >= 0xd800 && unit <= 0xdfff;
      return isPaired(x) !== isPaired(y) ? (isPaired(x) ? 1 : -1) : x - y;
    }
  }
  return a.length - b.length;
}
