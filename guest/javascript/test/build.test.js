// The output of the build: documentation, positions of errors, the package, and the templates with their cases.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { bundled, declared } from '../build/bundle.js';
import { withDocs } from '../build/docs.js';
import { compiled } from '../build/engine.js';
import { panicked } from '../src/source_position.js';

const SDK = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const TEMPLATES = resolve(SDK, '../../host/opgate/templates');

/** A directory with the SDK as its package. */
function directory(context, fill) {
  const path = mkdtempSync(join(tmpdir(), 'opgate-policy-'));
  context.after(() => rmSync(path, { recursive: true }));
  fill(path);
  mkdirSync(join(path, 'node_modules/@opgate'), { recursive: true });
  symlinkSync(SDK, join(path, 'node_modules/@opgate/policy'));
  symlinkSync(join(SDK, 'node_modules/typescript'), join(path, 'node_modules/typescript'));
  return path;
}

function filled(path) {
  for (const entry of readdirSync(path, { withFileTypes: true, recursive: true }).filter((it) => it.isFile())) {
    const file = join(entry.parentPath ?? entry.path, entry.name);
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll('{{name}}', 'house-images').replaceAll('{{dependency}}', '0.7.0'));
  }
}

for (const [language, size, name] of ['typescript', 'javascript'].flatMap((it) => [[it, 'start', 'NS-1: no team'], [it, 'example', 'IMG-3: another registry']])) {
  test(`the template ${size} in ${language} passes its cases`, (context) => {
    const path = directory(context, (to) => {
      cpSync(join(TEMPLATES, size, language), to, { recursive: true });
      filled(to);
    });
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(SDK, 'build/index.js'), 'test', path], { encoding: 'utf8', env: bare() });
    assert.equal(status, 0, stdout + stderr);
    assert.ok(stdout.includes(name), stdout);
  });
}

/** The environment without the variable that a test of node sets for its children. */
function bare() {
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  return env;
}

test('documentation is a section at the end, and no line of it is the heading of a rule', () => {
  const component = Buffer.from('\0asm\x0d\0\x01\0', 'latin1');
  const docs = `\n    The requirement.\n\n    # Why\n\n    ## A-2\n\n        code\n  `;
  const section = withDocs(component, [{ id: 'A-1', docs }, { id: 'A-2', docs: '' }]).subarray(component.length);
  const text = '## A-1\n The requirement.\n\n # Why\n\n ## A-2\n\n     code\n\n';
  assert.deepEqual([...section.subarray(0, 3)], [0, 1 + 11 + Buffer.byteLength(text), 11]);
  assert.equal(section.subarray(3).toString(), `opgate-docs${text}`);
  assert.equal(withDocs(component, [{ id: 'A-1', docs: '' }]).length, component.length);
});

test('functions of the bindings are compiled, and none gets further than its first step', () => {
  const bindings = `
const called = [];
const took = {};
class import_document_0_6_0$Document { text(p) { called.push('text'); var handle0 = this.handle; took.text = handle0; } }
class import_request_0_6_0$Request { name() { called.push('name'); var handle0 = this.handle; took.name = handle0; } }
function import_opgate_policy_cluster_0_6_0$get(arg0) { called.push('get'); var { group } = arg0; took.get = group; }
function _utf8AllocateAndEncode(s, realloc) { called.push('encode'); took.encode = realloc(s); }
async function export_validate(arg0) { called.push('validate'); Object.defineProperty({}, 'a', { value: arg0 }); took.validate = arg0; }
async function export_describe() { called.push('describe'); }
`;
  const { called, took, isWhole } = new Function(`${bindings}${compiled(bindings)}
return { called, took, isWhole: Object.defineProperty({}, 'a', { value: 1 }).a === 1 };`)();
  assert.deepEqual([called.sort(), took, isWhole], [['encode', 'get', 'name', 'text', 'validate'], {}, true]);
  assert.doesNotThrow(() => new Function(compiled('nothing that is known'))());
});

test('an error has its place in the source of the policy', async (context) => {
  const source = `import { policy } from '@opgate/policy';
interface Thing { spec: { a: number } }
function look(thing?: Thing): number {
  return thing!.spec.a;
}
export default policy({ name: 'a', title: 'a', rules: [], routes: [], checkSettings: (settings) => void look(settings) });
`;
  const path = directory(context, (to) => {
    mkdirSync(join(to, 'src'));
    writeFileSync(join(to, 'src/policy.ts'), source);
  });
  const policy = await declared(path, 'src/policy.ts', SDK);
  const { code, isCluster } = await bundled({ directory: path, entry: 'src/policy.ts', policy, version: '1.0.0', sdk: SDK });
  assert.equal(isCluster, false);
  const map = JSON.parse(code.match(/opgateSourceMap = (.*);/)[1]);
  assert.deepEqual(map.sources.filter((it) => it !== ''), ['src/policy.ts']);
  const line = code.split('\n').findIndex((it) => it.includes('thing.spec.a')) + 1;
  const column = code.split('\n')[line - 1].indexOf('spec') + 1;
  const error = Object.assign(new TypeError('no'), { stack: `checked@p.js:3:7\nlook@p.js:${line}:${column}\n` });
  assert.match(panicked(error, map), /^panicked at src\/policy.ts:4:\d+: TypeError: no$/);
  assert.equal(panicked('text', map), 'panicked: text');
  assert.equal(panicked(Object.create(null), undefined), 'panicked: {}');
});

test('functions of the author do not run while the component is built', async (context) => {
  const source = `import { policy, rule, target } from '@opgate/policy';
const on = target({ versions: ['v1'], resources: ['as'], kind: 'A' });
const one = rule({ id: 'A-1', level: 'deny', title: 'a', on: [{ target: on, operations: ['create'] }], sources: ['a'] });
const called = () => { throw new Error('called'); };
export default policy({ name: 'a', title: 'a', rules: [one], routes: [{ on, evaluate: called }], checkSettings: called });
`;
  const path = directory(context, (to) => writeFileSync(join(to, 'policy.js'), source));
  const policy = await declared(path, 'policy.js', SDK);
  const { code } = await bundled({ directory: path, entry: 'policy.js', policy, version: '1.0.0', sdk: SDK });
  // The imports of the component. Nothing calls them before the snapshot.
  const none = 'data:text/javascript,export class Document {} export const log = () => {};';
  writeFileSync(join(path, 'built.mjs'), code.replaceAll(/"opgate:policy\/[a-z]+@[0-9.]+"/g, JSON.stringify(none)));
  const run = "const { describe } = await import('./built.mjs'); process.stdout.write(describe().version);";
  assert.equal(execFileSync(process.execPath, ['--input-type=module', '-e', run], { cwd: path, encoding: 'utf8' }), '1.0.0');
});

test('mistakes in a directory are errors with their location', (context) => {
  for (const [files, text] of [
    [{}, /src\/policy.ts: there is no such file; "main" of package.json/],
    [{ 'policy.js': 'export default 1;' }, /policy.js: there is no policy; write export default policy/],
    [{ 'policy.js': 'export default (' }, /error: policy.js:1:\d+: Unexpected end of file/],
    [{ 'policy.js': "import { rule } from '@opgate/policy';\nrule({ id: 'A' });" }, /error: policy.js: rule A: level is missing/],
  ]) {
    const path = directory(context, (to) => {
      const main = Object.keys(files)[0];
      writeFileSync(join(to, 'package.json'), JSON.stringify({ name: 'a', version: '1.0.0', main }));
      for (const [name, content] of Object.entries(files)) writeFileSync(join(to, name), content);
    });
    const { status, stderr } = spawnSync(process.execPath, [join(SDK, 'build/index.js'), 'build', path], { encoding: 'utf8' });
    assert.deepEqual([status, text.test(stderr)], [1, true], stderr);
  }
});

test('the package has the contract and its licence', () => {
  const listed = execFileSync('npm', ['pack', '--dry-run', '--json'], { cwd: SDK, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const files = JSON.parse(listed.slice(listed.indexOf('['))).flatMap((it) => it.files.map(({ path }) => path));
  for (const file of ['LICENSE', 'README.md', 'wit/policy.wit', 'types/index.d.ts', 'src/index.js', 'build/index.js']) {
    assert.ok(files.includes(file), `${file} is not in ${files.join(', ')}`);
  }
  assert.equal(readFileSync(join(SDK, 'wit/policy.wit'), 'utf8'), readFileSync(join(SDK, '../../wit/policy.wit'), 'utf8'));
});
