// Transpiles components for browsers, and writes the folder of the page: `cargo xtask browser` runs it.
//
//   node build.mjs COMPONENTS POLICIES JCO OUT
//
// COMPONENTS has the component of the host, `browser.wasm`, and one for each policy. POLICIES has a directory for each
// policy, with its cases. JCO is a directory in which package.json is installed. OUT gets the files.

import { copyFile, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [components, policies, jco, out] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const HOST = 'browser';
const PAGE_FILES = ['index.html', 'try-it.css', 'try-it.js', 'worker.js', 'evaluator.js'];

const resolved = createRequire(pathToFileURL(join(jco, 'package.json'))).resolve('@bytecodealliance/jco-transpile');
const { transpileBytes } = await import(pathToFileURL(resolved));

/** Replaces a pattern that must occur. */
function replace(source, pattern, by) {
  const replaced = source.replaceAll(pattern, by);
  if (replaced === source) throw new Error(`the output of jco has no ${pattern}: adapt build.mjs`);
  return replaced;
}

/** Adapts the script that jco writes for a component. */
function adapt(name, source) {
  // A decoder drops a byte order mark at the start of each text, unless it is told not to.
  const adapted = replace(source, 'new TextDecoder()', "new TextDecoder('utf-8', { ignoreBOM: true })");
  if (name !== HOST) return adapted;
  // A resource in a list is disposed of by a function that sees these names: with `var`, those of the last element.
  return replace(adapted, /\bvar (handle\d+ = dataView|rsc\d+ = new\.target)/g, 'const $1');
}

/** Transpiles a component into a directory. */
async function transpile(name, directory) {
  const bytes = await readFile(join(components, `${name}.wasm`));
  const options = {
    name,
    instantiation: 'async',
    noComponentErrorWrapping: true,
    emitTypescriptDeclarations: false,
    nodejsCompat: false,
  };
  const { files } = await transpileBytes(bytes, options);
  await mkdir(directory, { recursive: true });
  for (const [path, content] of Object.entries(files)) {
    if (path.endsWith('.d.ts')) continue;
    const isScript = path.endsWith('.js');
    await writeFile(join(directory, path), isScript ? adapt(name, new TextDecoder().decode(content)) : content);
  }
}

/** Writes the cases of a policy: examples for the page. */
async function writeCases(policy) {
  const directory = join(policies, policy, 'cases');
  const names = (await readdir(directory)).filter((name) => name.endsWith('.yaml')).sort();
  const files = await Promise.all(names.map(async (name) => [name, await readFile(join(directory, name), 'utf8')]));
  await writeFile(join(out, 'policies', policy, 'cases.json'), JSON.stringify(files));
}

/** Describes a policy for the list of the page. */
async function describe(policy) {
  const { Evaluator } = await import(pathToFileURL(join(out, 'evaluator.js')));
  const read = async (path) => readFile(join(out, path));
  const evaluator = await Evaluator.create(read, (path) => import(pathToFileURL(join(out, path))));
  const { name, version, title, matches } = await evaluator.describe(policy);
  const resources = matches.flatMap(({ groups, resources }) =>
    groups.flatMap((group) => resources.map((resource) => `${group}/${resource.split('/')[0]}`)),
  );
  return { name, version, title, resources: [...new Set(resources)] };
}

await mkdir(out, { recursive: true });
for (const name of PAGE_FILES) await copyFile(join(here, name), join(out, name));
await transpile(HOST, join(out, 'host'));
const names = (await readdir(components)).filter((name) => name.endsWith('.wasm') && name !== `${HOST}.wasm`).sort();
const list = [];
for (const name of names) {
  const policy = name.slice(0, -'.wasm'.length);
  await transpile(policy, join(out, 'policies', policy));
  await writeCases(policy);
  list.push(await describe(policy));
}
await writeFile(join(out, 'policies.json'), JSON.stringify(list, null, 1));
