// Bundles the policy and the SDK in one file, with the source map for the positions of errors.

import { build } from 'esbuild';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';

import { needsCluster } from '../src/describe.js';
import { Failure } from './failure.js';

const COMMON = {
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'neutral',
  mainFields: ['module', 'main'],
  target: 'es2022',
  legalComments: 'none',
  logLevel: 'silent',
};

/** One copy of the SDK, whatever the policy's directory resolves. */
const aliasOf = (sdk) => ({ '@opgate/policy': join(sdk, 'src', 'index.js') });

async function run(options) {
  try {
    return await build({ ...COMMON, ...options });
  } catch (error) {
    const of = ({ location, text }) => (location ? `${location.file}:${location.line}:${location.column + 1}: ${text}` : text);
    throw new Failure((error.errors ?? [{ text: error.message }]).map(of).join('\n'));
  }
}

/** The declaration of a policy, for the build. */
export async function declared(directory, entry, sdk) {
  const { outputFiles } = await run({ absWorkingDir: directory, alias: aliasOf(sdk), entryPoints: [join(directory, entry)], outfile: 'policy.js' });
  const code = Buffer.from(outputFiles[0].contents).toString('base64');
  let module;
  try {
    module = await import(`data:text/javascript;base64,${code}`);
  } catch (error) {
    throw new Failure(`${entry}: ${error.message}`);
  }
  const policy = module.default;
  if (!Array.isArray(policy?.rules) || !Array.isArray(policy.routes)) {
    throw new Failure(`${entry}: there is no policy; write export default policy({…})`);
  }
  return policy;
}

/** Files for `node --test`: node does not read TypeScript. Packages are imported, not bundled. */
export async function tests(directory, entry) {
  const output = join(directory, 'dist', 'test');
  await rm(output, { recursive: true, force: true });
  await mkdir(output, { recursive: true });
  const sources = [];
  if (existsSync(join(directory, 'cases'))) {
    const contents = `import { cases } from '@opgate/policy/testing';\nimport policy from ${JSON.stringify(`./${entry}`)};\ncases(policy, 'cases');\n`;
    sources.push(['cases.test.mjs', { stdin: { contents, resolveDir: directory, sourcefile: 'cases.test.js' } }]);
  }
  const own = existsSync(join(directory, 'test')) ? readdirSync(join(directory, 'test')) : [];
  for (const name of own.filter((it) => /\.test\.[jt]s$/.test(it))) {
    sources.push([name.replace(/[jt]s$/, 'mjs'), { entryPoints: [join(directory, 'test', name)] }]);
  }
  if (sources.length === 0) throw new Failure('there are no tests: write cases/<RULE>.yaml, or test/<NAME>.test.js');
  const files = [];
  for (const [name, options] of sources) {
    const path = join(output, name);
    const { outputFiles } = await run({ ...options, absWorkingDir: directory, outfile: path, platform: 'node', packages: 'external', sourcemap: 'inline' });
    await writeFile(path, outputFiles[0].contents);
    files.push(path);
  }
  return files;
}

/** The bundle, and whether the policy reads the cluster. */
export async function bundled({ directory, entry, policy, version, sdk }) {
  const isCluster = needsCluster(policy);
  const source = (name) => JSON.stringify(join(sdk, 'src', name));
  const contents = `${isCluster ? `import ${source('component-cluster.js')};` : ''}
import { component } from ${source('component.js')};
import policy from ${JSON.stringify(`./${entry}`)};
export const { describe, validateSettings, validate } = component(policy, ${JSON.stringify(version)});
`;
  const { outputFiles } = await run({
    absWorkingDir: directory,
    stdin: { contents, resolveDir: directory, sourcefile: join(sdk, 'src', 'entry.js') },
    outfile: join(directory, 'policy.js'),
    external: ['opgate:policy/*'],
    alias: aliasOf(sdk),
    sourcemap: 'external',
    sourcesContent: false,
  });
  const of = (end) => outputFiles.find(({ path }) => path.endsWith(end)).text;
  return { code: `${of('.js')}\n${sourceMap(JSON.parse(of('.map')), directory, sdk)}\n`, isCluster };
}

/** The source map as a statement. Files of the SDK have no name, so that the position of an error is in the policy. */
function sourceMap({ sources, mappings }, directory, sdk) {
  const names = sources.map((source) => {
    const path = resolve(directory, source);
    return path.startsWith(join(sdk, 'src')) ? '' : relative(directory, path);
  });
  return `globalThis.opgateSourceMap = ${JSON.stringify({ sources: names, mappings })};`;
}
