// The page that evaluates the built-in policies in the browser: it agrees with the binary on every case of every policy.
//
//     cargo xtask browser DIR ─▶ files ─▶ Chromium: worker.js ─▶ decisions ─┬▶ equal
//     opgate policy test -o json ───────────────────────────────▶ decisions ─┘

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { Evaluator } from "../../host/browser/page/evaluator.js";
import { findViolations, openPage, overflow, startBrowser, textOf } from "./lib/browser.js";
import { serveFiles } from "./lib/files.js";
import { run, TOP } from "./lib/opgate.js";

const POLICIES = path.join(TOP, "guest/policies");
// The number of policies that opgate has, and of cases that they have at least: a missing one would not be noticed.
const POLICY_COUNT = 15;
const MIN_CASE_COUNT = 5_000;
// Cases that one script in a page evaluates.
const BATCH_SIZE = 250;
// Pages that evaluate at the same time.
const PAGES = 2;

let directory, browser, files;
before(async () => {
  directory = mkdtempSync(path.join(tmpdir(), "opgate-try-it-"));
  execFileSync("cargo", ["xtask", "browser", directory], { cwd: TOP, stdio: ["ignore", "inherit", "inherit"] });
  browser = await startBrowser();
  files = await serveFiles(directory);
});
after(async () => {
  await browser?.close();
  await files?.stop();
  rmSync(directory, { recursive: true });
});

// Returns what the binary decides on the cases of a policy.
function decideWithBinary(policy) {
  const cases = `guest/policies/${policy}/cases`;
  return JSON.parse(run(["policy", "test", "--policy", policy, "--cases", cases, "-o", "json"])).cases;
}

// In a page: starts a worker with the cases of a policy, and returns their number.
async function startCases(policy, script = "worker.js") {
  globalThis.worker?.terminate();
  const worker = new Worker(script, { type: "module" });
  const pending = new Map();
  let next = 0;
  // A message without an answer says that the evaluation starts.
  worker.onmessage = ({ data }) => data.isStarted || pending.get(data.id)(data);
  globalThis.worker = worker;
  globalThis.ask = (task, argument) => {
    worker.postMessage({ id: next, task, argument });
    return new Promise((resolve) => pending.set(next++, resolve));
  };
  const { value, error } = await globalThis.ask("cases", { policy });
  if (error) {
    throw new Error(error);
  }
  globalThis.cases = value;
  return value.length;
}

// In a page: evaluates some of the cases.
async function evaluateCases(policy, start, end) {
  const decided = [];
  for (const one of globalThis.cases.slice(start, end)) {
    const { value, error } = await globalThis.ask("evaluateCase", { policy, case: one });
    decided.push({ rule: one.rule, name: one.name, value, error });
  }
  return decided;
}

async function decideInBrowser(page, policy) {
  const count = await page.evaluate(startCases, policy);
  const decided = [];
  while (decided.length < count) {
    decided.push(...(await page.evaluate(evaluateCases, policy, decided.length, decided.length + BATCH_SIZE)));
  }
  return decided;
}

// Returns a decision of the browser as the binary prints it.
function toBinaryForm({ value, error }, expected) {
  if (error !== undefined || value?.policyError) {
    return { error: error ?? value.policyError };
  }
  const { violations = [], skipped = [], auditAnnotations = {}, reason = null } = value ?? {};
  const isDenied = violations.some(({ effect }) => effect === "deny");
  return {
    violations: violations.map(({ rule, effect, field, message }) => ({ rule, level: effect, field, message })),
    skipped,
    auditAnnotations,
    // Without a denial, clients do not see the reason, and the binary prints that of the case.
    reason: isDenied ? (reason === "Forbidden" ? null : reason) : (expected?.reason ?? null),
  };
}

// Returns the differences between the decisions of the browser and of the binary on the same cases, a text each.
function differences(policy, decided, expected) {
  const name = ({ rule, name }) => `${policy} ${rule} / ${name}`;
  const found = [];
  if (decided.length !== expected.length) {
    found.push(`${policy}: ${decided.length} cases in the browser, ${expected.length} in the binary`);
  }
  decided.forEach((one, index) => {
    const other = expected[index];
    const actual = toBinaryForm(one, other?.decision);
    // The page has no fixes.
    const { fixes: _, ...decision } = other?.decision ?? {};
    try {
      assert.equal(name(one), other && name(other));
      assert.deepEqual(actual, decision);
    } catch {
      found.push(`${name(one)}\n  browser: ${JSON.stringify(actual)}\n  binary:  ${JSON.stringify(other?.decision)}`);
    }
  });
  return found;
}

test("page decides every case of every policy as the binary does", async (context) => {
  const policies = readdirSync(POLICIES).sort();
  assert.equal(policies.length, POLICY_COUNT);
  const listed = JSON.parse(readFileSync(path.join(directory, "policies.json"), "utf8"));
  assert.deepEqual(listed.map(({ name }) => name), policies);
  // The largest first, so that the pages end at about the same time.
  const size = (policy) => readFileSync(path.join(directory, "policies", policy, "cases.json")).length;
  const left = policies.sort((one, other) => size(other) - size(one));
  const [found, counts] = [[], []];
  const compare = async () => {
    const page = await openPage(browser, `${files.url}index.html`);
    for (let policy = left.shift(); policy; policy = left.shift()) {
      const decided = await decideInBrowser(page, policy);
      found.push(...differences(policy, decided, decideWithBinary(policy)));
      counts.push({ policy, count: decided.length });
    }
    assert.deepEqual(page.problems(), []);
    await page.closeAll();
  };
  await Promise.all(Array.from({ length: PAGES }, compare));
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  for (const { policy, count } of counts) {
    context.diagnostic(`${policy}: ${count} cases`);
  }
  context.diagnostic(`${total} cases of ${counts.length} policies, ${found.length} differences`);
  assert.deepEqual(found, []);
  assert.ok(total >= MIN_CASE_COUNT, `${total} cases`);
});

// A worker in which other tasks can run while a policy is instantiated: Chromium instantiates small modules at once.
const YIELDING_WORKER = 'import "./yield.js";\nimport "./worker.js";\n';
const YIELD = `const { instantiate } = WebAssembly;
WebAssembly.instantiate = async (...inputs) => {
  await new Promise((resolve) => setTimeout(resolve));
  return instantiate(...inputs);
};
`;

test("tasks that are sent at once are decided as alone", async () => {
  writeFileSync(path.join(directory, "yielding-worker.js"), YIELDING_WORKER);
  writeFileSync(path.join(directory, "yield.js"), YIELD);
  const page = await openPage(browser, `${files.url}index.html`);
  await page.evaluate(startCases, "operator-group", "yielding-worker.js");
  const input = readExample("manifests/operators.yaml");
  const texts = { input, configuration: "", policy: "operator-group" };
  const tasks = [readExample("manifests/allowed.yaml"), ""].map((cluster) => ({ ...texts, cluster }));
  const [alone, together] = await page.evaluate(async (all) => {
    const evaluate = (argument) => globalThis.ask("evaluate", argument).then(({ value, error }) => JSON.stringify(value ?? error));
    const one = [];
    for (const argument of all) {
      one.push(await evaluate(argument));
    }
    return [one, await Promise.all(all.map(evaluate))];
  }, tasks);
  assert.deepEqual(together, alone);
  assert.notEqual(alone[0], alone[1]);
  await page.closeAll();
});

// Opens the page, and returns it with a function that evaluates texts.
async function openForm() {
  const page = await openPage(browser, `${files.url}index.html`);
  await page.waitForFunction(() => document.getElementById("status").textContent === "ready");
  const evaluate = async (texts) => {
    await page.evaluate((values) => {
      for (const id of ["input", "configuration", "cluster", "policy"]) {
        document.getElementById(id).value = values[id] ?? "";
      }
      document.getElementById("result").replaceChildren();
      document.getElementById("form").requestSubmit();
    }, texts);
    await page.waitForSelector("#result article, #result .errors");
    await page.waitForSelector("#evaluate:enabled");
    return textOf(page, "#result");
  };
  return { page, evaluate };
}

const EXAMPLES = path.join(import.meta.dirname, "try_it");
const readExample = (name) => readFileSync(path.join(EXAMPLES, name), "utf8");

// Returns the violations that `opgate check` finds in a file, as the page shows them.
function checkWithBinary(name, status) {
  const results = JSON.parse(run(["check", path.join(EXAMPLES, name), "-o", "json"], { status }));
  const lines = results.flatMap(({ violations }) =>
    violations.map(({ effect, rule, message, field, location }) => `${effect} ${rule}: ${message} | ${field}, line ${location.line}, column ${location.column}`),
  );
  return { lines: lines.sort(), outcomes: results.map(({ kind, name: object, ok }) => `${kind} ${object}: ${ok ? "allowed" : "denied"}`) };
}

test("manifests are decided as opgate check decides them, with message and line", async () => {
  const { page, evaluate } = await openForm();
  for (const [name, status, count] of [
    ["manifests/allowed.yaml", 0, 0],
    ["manifests/list.json", 0, 1],
    ["manifests/operators.yaml", 1, 4],
  ]) {
    await evaluate({ input: readExample(name) });
    const shown = await page.$$eval("#result .violation", (items) =>
      items.map((item) => {
        const [effect, rule, message, place] = ["span", ".rule", ".message", ".place"].map((part) => item.querySelector(part).textContent);
        return `${effect} ${rule}: ${message} | ${place}`;
      }),
    );
    const expected = checkWithBinary(name, status);
    assert.equal(expected.lines.length, count, name);
    assert.deepEqual(shown.sort(), expected.lines, name);
    const outcomes = await page.$$eval("#result .outcome", (titles) => titles.map((title) => title.textContent.replace(" with warnings", "")));
    assert.deepEqual(outcomes, expected.outcomes, name);
  }
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("configuration and cluster state change the decision", async () => {
  const { page, evaluate } = await openForm();
  const input = readExample("manifests/operators.yaml");
  const cluster = readExample("manifests/allowed.yaml");
  for (const [texts, expected, absent] of [
    [{ input, policy: "operator-group" }, "OPG-01 was not evaluated", "Multiple OperatorGroup found"],
    [{ input, cluster, policy: "operator-group" }, "Multiple OperatorGroup found in the same namespace", "OPG-01 was not evaluated"],
    [{ input, configuration: readExample("one-policy.yaml") }, "OperatorGroup second: allowed with warnings", "SUB-09"],
    [{ input, configuration: readExample("invalid.yaml") }, "5:1: unknown key", "allowed"],
    [{ input, configuration: readExample("unknown-setting.yaml") }, "unknown setting `exemptt`; did you mean", "allowed"],
    [{ input: "a: [1" }, "1:4: unclosed bracket", "allowed"],
    [{ input: '{"kind": "AdmissionReview", "request": {"uid": "u"}}' }, "document 1: request.resource is missing", "allowed"],
    [{ input: "a: 1" }, "document 1: /apiVersion is missing: not a Kubernetes object", "allowed"],
    [{ input: "" }, "nothing to evaluate", "allowed"],
    [{ input: "x".repeat(1_000_001) }, "input: more than 1000000 characters", "allowed"],
    [{ input: "apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: <b>a</b>}\n" }, "Unknown <b>a</b>: allowed", "denied"],
  ]) {
    const shown = await evaluate(texts);
    assert.ok(shown.includes(expected), `${expected}: ${shown}`);
    assert.ok(!shown.includes(absent), `${absent}: ${shown}`);
  }
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("an example of a policy is filled in and evaluated", async () => {
  const { page } = await openForm();
  await page.select("#policy", "pod-security");
  await page.waitForSelector("#example:enabled");
  const value = await page.$$eval("#example option", (options) => options.find((option) => option.text.endsWith("(reject)")).value);
  await page.select("#example", value);
  await page.waitForSelector("#result .violation");
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("page is accessible, and fits a narrow window", async () => {
  for (const theme of ["light", "dark"]) {
    const page = await openPage(browser, `${files.url}index.html`, { width: 360, theme });
    await page.waitForFunction(() => document.getElementById("status").textContent === "ready");
    assert.deepEqual(await findViolations(page), []);
    assert.equal(await overflow(page), 0);
    await page.closeAll();
  }
});

test("a page that takes too long stops, and evaluates again", async () => {
  const { page, evaluate } = await openForm();
  // Every object is evaluated by each of the policies: more than the time that the page gives them.
  const object = readExample("manifests/allowed.yaml");
  const input = Array.from({ length: 999 }, () => object).join("---\n");
  const policies = Array.from({ length: 200 }, (_, index) => `- {name: policy-${index}, module: "builtin:operator-group"}\n`).join("");
  const stopped = await evaluate({ input, configuration: `apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n${policies}` });
  assert.match(stopped, /^stopped after 5 seconds$/);
  assert.match(await evaluate({ input: object }), /OperatorGroup group: allowed/);
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("an instance without memory is tried again, and other errors are not", async () => {
  const outOfMemory = new RangeError("WebAssembly.instantiate(): Out of memory");
  // Instantiates after some failures.
  const create = (errors) => {
    const instantiate = async () => {
      const error = errors.shift();
      if (error) {
        throw error;
      }
      return { evaluation: "the host" };
    };
    return Evaluator.create(undefined, async () => ({ instantiate }));
  };
  const evaluator = await create([outOfMemory, outOfMemory]);
  assert.equal(evaluator.host, "the host");
  await assert.rejects(create(Array.from({ length: 100 }, () => outOfMemory)), outOfMemory);
  await assert.rejects(create([new TypeError("no function")]), TypeError);
});
