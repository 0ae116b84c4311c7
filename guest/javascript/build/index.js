#!/usr/bin/env node
// `opgate-policy build [DIR]`: from the source of a policy to its component. `opgate-policy test` runs its
// tests natively.
//
//   src/policy.ts ─▶ tsc (types) ─┬▶ esbuild (one file) ─▶ componentize-js (engine and snapshot) ─▶ + docs ─▶ module of opgate.yaml
//   cases/, test/ ────────────────┴▶ node --test

import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

import { bundled, declared, tests } from './bundle.js';
import { withDocs } from './docs.js';
import { componentize } from './engine.js';
import { Failure } from './failure.js';

const PACKAGE = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const USAGE = `Usage: opgate-policy build [DIR]
       opgate-policy test [DIR] [--coverage]

build: Check the types, and write the component. The source is the member "main" of package.json (default: src/policy.ts),
       and the component is the file of the member "module" of the policy in opgate.yaml.
test:  Check the types, and run the cases in the directory cases and the files test/*.test.js (or .ts) natively, with node.
       --coverage prints the lines that they run.`;

/** All features of componentize-js are disabled, so that the component imports only opgate:policy. */
const NO_FEATURES = ['stdio', 'random', 'clocks', 'http', 'fetch-event'];

async function build(directory) {
  const about = JSON.parse(await text(join(directory, 'package.json')));
  const entry = entryOf(directory, about);
  checkTypes(directory);
  const policy = await declared(directory, entry, PACKAGE);
  const output = await outputOf(directory, policy.name);
  const { code, isCluster } = await bundled({ directory, entry, policy, version: about.version ?? '0.0.0', sdk: PACKAGE });
  const bundle = `${output.replace(/\.wasm$/, '')}.js`;
  await mkdir(dirname(output), { recursive: true });
  await writeFile(bundle, code);
  const worldName = isCluster ? 'cluster-policy' : 'policy';
  const made = componentize({ sourcePath: bundle, witPath: witOf(), worldName, disableFeatures: NO_FEATURES });
  const { component } = await made.catch((error) => {
    throw new Failure(`the policy cannot be loaded for a component: ${error.message}`);
  });
  await writeFile(`${output}.new`, withDocs(component, policy.rules));
  await rename(`${output}.new`, output);
  console.log(`${relative(process.cwd(), output)}: ${policy.name}, ${policy.rules.length} rule${policy.rules.length === 1 ? '' : 's'}, ${(component.length / 2 ** 20).toFixed(1)} MiB`);
}

async function test(directory, options) {
  const entry = entryOf(directory, JSON.parse(await text(join(directory, 'package.json'))));
  checkTypes(directory);
  const files = await tests(directory, entry);
  const coverage = options.includes('--coverage') ? ['--experimental-test-coverage'] : [];
  const { status } = spawnSync(process.execPath, ['--enable-source-maps', '--test', ...coverage, '--test-reporter=spec', ...files], { cwd: directory, stdio: 'inherit' });
  process.exitCode = status ?? 1;
}

function entryOf(directory, { main }) {
  const entry = [main, 'src/policy.ts', 'src/policy.js'].find((name) => name !== undefined && existsSync(join(directory, name)));
  if (entry === undefined) throw new Failure(`${join(directory, main ?? 'src/policy.ts')}: there is no such file; "main" of package.json names the source of the policy`);
  return entry;
}

/** Checks types first: a mistake is a line of the source, not of the bundle. */
function checkTypes(directory) {
  if (!existsSync(join(directory, 'tsconfig.json'))) return;
  let tsc;
  try {
    const about = createRequire(join(directory, 'package.json')).resolve('typescript/package.json');
    tsc = join(dirname(about), 'bin', 'tsc');
  } catch {
    throw new Failure('typescript is not installed: add it to devDependencies, or remove tsconfig.json');
  }
  const { status } = spawnSync(process.execPath, [tsc, '--noEmit', '-p', directory], { stdio: 'inherit' });
  if (status !== 0) throw new Failure('the types do not fit');
}

/** The path of the component in opgate.yaml. */
async function outputOf(directory, name) {
  const path = join(directory, 'opgate.yaml');
  if (!existsSync(path)) return join(directory, 'dist', `${name}.wasm`);
  const { policies } = parse(await text(path)) ?? {};
  const module = policies?.find((it) => it.name === name)?.module;
  if (module === undefined) throw new Failure(`${path}: no policy ${name} with a module; the build puts the component there`);
  if (/^[a-z]+:\/\//.test(module)) throw new Failure(`${path}: module of ${name} is ${module}; the build needs a path`);
  return resolve(directory, module);
}

/** The contract: in the repository the one file, in the package a copy. */
function witOf() {
  const top = resolve(PACKAGE, '..', '..');
  return existsSync(join(top, 'guest', 'javascript', 'package.json')) ? join(top, 'wit') : join(PACKAGE, 'wit');
}

async function text(path) {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new Failure(`${path}: ${error.code === 'ENOENT' ? 'there is no such file' : error.message}`);
  }
}

const OPTIONS = { build: [], test: ['--coverage'] };
const [command, ...args] = process.argv.slice(2);
const run = { build, test }[command];
const options = args.filter((it) => it.startsWith('-'));
const [directory = '.', ...rest] = args.filter((it) => !it.startsWith('-'));
if (run === undefined || rest.length > 0 || options.some((it) => !OPTIONS[command].includes(it))) {
  console.error(USAGE);
  process.exit(command === '--help' || command === '-h' ? 0 : 2);
}
try {
  await run(resolve(directory), options);
} catch (error) {
  console.error(`error: ${error instanceof Failure ? error.message : (error?.stack ?? error)}`);
  process.exit(1);
}
