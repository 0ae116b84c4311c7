// The position of an error in the policy's source: from the stack of the engine and the source map that the
// build appends to the bundle. Nothing here runs unless a call fails.

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** An error as the administrator reads it: `panicked at src/policy.ts:61:24: TypeError: …`. */
export function panicked(error, map = globalThis.opgateSourceMap) {
  const text = textOf(error);
  const position = positionOf(String(error?.stack ?? ''), map);
  return position === undefined ? `panicked: ${text}` : `panicked at ${position}: ${text}`;
}

function textOf(error) {
  try {
    if (error instanceof Error) return `${error.name}: ${error.message}`;
    return typeof error === 'string' ? error : (JSON.stringify(error) ?? String(error));
  } catch {
    return 'an error without a text';
  }
}

/** The first position of a stack that is in the policy's source: `src/policy.ts:61:24`. */
export function positionOf(stack, map) {
  let mappings;
  for (const [, line, column] of stack.matchAll(/:(\d+):(\d+)\)?$/gm)) {
    if (map === undefined) return undefined;
    mappings ??= decoded(map.mappings);
    const segments = mappings[Number(line) - 1] ?? [];
    const segment = segments.findLast((it) => it.column < Number(column)) ?? segments[0];
    // The build leaves the names of the SDK's own files empty.
    const source = segment && map.sources[segment.source];
    if (source) return `${source}:${segment.line + 1}:${segment.sourceColumn + 1}`;
  }
  return undefined;
}

/** The segments of each line, of a source map of version 3. */
function decoded(mappings) {
  let [source, line, sourceColumn] = [0, 0, 0];
  return mappings.split(';').map((group) => {
    let column = 0;
    const segments = [];
    for (const text of group.split(',')) {
      const numbers = numbersOf(text);
      if (numbers.length < 4) continue;
      column += numbers[0];
      source += numbers[1];
      line += numbers[2];
      sourceColumn += numbers[3];
      segments.push({ column, source, line, sourceColumn });
    }
    return segments;
  });
}

/** Numbers of base 64, five bits for each digit, the sign in the lowest bit. */
function numbersOf(text) {
  const numbers = [];
  let [number, shift] = [0, 0];
  for (const digit of text) {
    const bits = DIGITS.indexOf(digit);
    number += (bits & 31) << shift;
    shift += 5;
    if (bits < 32) {
      numbers.push(number & 1 ? -(number >> 1) : number >> 1);
      [number, shift] = [0, 0];
    }
  }
  return numbers;
}
