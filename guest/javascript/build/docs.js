// The documentation of the rules, as a custom section `opgate-docs` at the end of the component: it is never in the
// memory of a call.

const SECTION = 'opgate-docs';

/** A number in LEB128, seven bits in a byte. */
function leb128(number) {
  const bytes = [];
  for (let rest = number; ; ) {
    const byte = rest & 0x7f;
    rest >>>= 7;
    if (rest === 0) return Buffer.from([...bytes, byte]);
    bytes.push(byte | 0x80);
  }
}

/** The component with a section of Markdown: `## IMG-1` before the text of each rule. */
export function withDocs(component, rules) {
  const documented = rules.filter(({ docs }) => docs.trim() !== '');
  if (documented.length === 0) return Buffer.from(component);
  const text = Buffer.from(documented.map(({ id, docs }) => `## ${id}\n${dedented(docs)}\n\n`).join(''));
  const name = Buffer.from(SECTION);
  const content = Buffer.concat([leb128(name.length), name, text]);
  return Buffer.concat([component, Buffer.from([0]), leb128(content.length), content]);
}

/**
 * A text without the indentation that its lines have in common. Each line gets a space, which the host removes:
 * a heading in the text never begins another rule.
 */
export function dedented(text) {
  const lines = text.replace(/^\n/, '').trimEnd().split('\n');
  const depths = lines.filter((line) => line.trim() !== '').map((line) => line.search(/\S/));
  const depth = Math.min(...depths, Infinity);
  return lines.map((line) => ` ${line.slice(depth)}`.trimEnd()).join('\n');
}
