// The fixes of a case's violations, applied to its object: as the host does in common/edit, for native tests. Files of bundles
// are not moved: `opgate policy test` runs cases with files.

import { child, unescape } from './pointer.js';

const tokensOf = (pointer) => (pointer === '' ? [] : pointer.slice(1).split('/').map(unescape));
const pointerOf = ({ tag, val }) => tokensOf(tag === 'remove' ? val : val.pointer);
const startsWith = (tokens, other) => other.every((token, index) => tokens[index] === token);

/** Applies the fixes that can be applied together, in their order. Throws if one does not fit the object. */
export function applyFixes(object, fixes) {
  const applied = [];
  for (const fix of fixes) {
    if (applied.some((earlier) => conflict(earlier, fix))) continue;
    applied.push(fix);
    for (const edit of fix.edits) {
      const why = apply(object, edit);
      if (why !== undefined) throw new Error(`the fix ${JSON.stringify(fix.title)} cannot be applied: ${why}`);
    }
  }
}

function conflict(left, right) {
  return left.edits.some((one) =>
    right.edits.some((other) => {
      const [a, b] = [pointerOf(one), pointerOf(other)];
      return startsWith(a, b) || startsWith(b, a) || shifts(one, a, b) || shifts(other, b, a);
    }),
  );
}

/** Whether an edit changes what another pointer leads to. */
function shifts({ tag, val }, own, other) {
  if (own.length === 0) return true;
  const [around, last] = [own.slice(0, -1), own.at(-1)];
  if (!startsWith(other, around)) return false;
  switch (tag) {
    case 'insert':
      return last !== '-';
    case 'remove':
      return /^(0|[1-9][0-9]*)$/.test(last);
    case 'rename-key':
      return other[around.length] === val.name;
    default:
      return false;
  }
}

/** Applies an edit. Returns the reason if it does not fit. */
function apply(object, edit) {
  const { tag, val } = edit;
  const tokens = pointerOf(edit);
  const last = tokens.pop();
  if (last === undefined || tag === 'move-file') return 'native tests do not apply it';
  let around = object;
  for (const token of tokens) {
    if (tag === 'set' && !Array.isArray(around) && (child(around, token) ?? null) === null && isObject(around)) around[token] = {};
    around = child(around, token);
  }
  const value = tag === 'set' || tag === 'insert' ? JSON.parse(val.value) : undefined;
  if (tag === 'insert') {
    const at = last === '-' ? around?.length : Number(last);
    if (!Array.isArray(around) || !(at <= around.length)) return 'the value around it is not a list of that length';
    around.splice(at, 0, value);
  } else if (tag === 'set') {
    if (!isObject(around) && child(around, last) === undefined) return 'there is nothing around it';
    around[last] = value;
  } else if (child(around, last) === undefined) {
    return 'there is nothing at its pointer';
  } else if (tag === 'remove') {
    if (Array.isArray(around)) around.splice(Number(last), 1);
    else delete around[last];
  } else {
    if (last !== val.name && child(around, val.name) !== undefined) return `there is already a member ${JSON.stringify(val.name)}`;
    const moved = around[last];
    delete around[last];
    around[val.name] = moved;
  }
  return undefined;
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
