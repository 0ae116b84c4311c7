// `opgate serve --ui`: the page for administrators on the ops port.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { checkAccessibility } from "./lib/accessible.js";
import { openPage, rowsOf, startBrowser, tabOrder, textOf } from "./lib/browser.js";
import { run, send, serve, TOP } from "./lib/opgate.js";
import { deniedBundle, HOSTILE_NAME } from "./lib/reviews.js";
import { checkScreenshot } from "./lib/screenshot.js";

let browser, directory, server;

before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "opgate-browser-"));
  browser = await startBrowser();
  server = await serve(directory, ["--cluster-state", path.join(TOP, "tests/context/demo.json")]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

const open = (address, options) => openPage(browser, server.ops + address, options);

async function deny(namespace, name, user) {
  const response = await server.review(deniedBundle(namespace, name, user));
  assert.equal(response.allowed, false);
  return response;
}

// Waits until a review of this name is on the page. Returns the milliseconds from the call.
async function waitForReview(page, name) {
  const began = performance.now();
  await page.waitForFunction((text) => document.getElementById("reviews")?.innerText.includes(text), { polling: 50 }, name);
  return performance.now() - began;
}

test("denial appears within a second, without a reload", async () => {
  const page = await open("/ui/");
  await page.evaluate(() => (globalThis.isFirstLoad = true));
  const times = [];
  for (const name of ["one", "two", "three"]) {
    await deny("team-a", name);
    times.push(await waitForReview(page, name));
  }
  // A loaded machine may miss one of three.
  assert.ok(Math.min(...times) < 1_000, `${times}`);
  assert.equal(await page.evaluate(() => globalThis.isFirstLoad), true);
  assert.equal(await textOf(page, "#state"), "Updated every second");
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("denial shows rule, message, remediation and the objects that were read", async () => {
  const answer = await deny("team-b", "explained", "alice");
  const [cause] = answer.status.details.causes;
  const page = await open("/ui/");
  await waitForReview(page, "explained");
  const [row] = (await rowsOf(page, "#reviews")).filter((cells) => cells[3] === "team-b/explained");
  const [time, decision, request, , user, violations, read] = row;
  assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  assert.deepEqual([decision, request, user], ["denied", "CREATE core.rukpak.io/v1alpha1/bundles", "alice"]);
  assert.ok(violations.includes(`${cause.reason}: ${cause.message}`), violations);
  assert.match(violations, /Fix: \S+/);
  assert.match(read, /^–$|\d+ of \S+/);
  // The link leads to the documentation.
  await page.click("#pause");
  await Promise.all([page.waitForNavigation(), page.click(`#reviews a[href="rules/${cause.reason}"]`)]);
  assert.equal(await textOf(page, "h1"), cause.reason);
  await page.closeAll();
});

test("pause stops the updates until they are resumed", async () => {
  const page = await open("/ui/");
  await page.waitForFunction(() => document.getElementById("state").textContent === "Updated every second");
  await page.click("#pause");
  assert.equal(await textOf(page, "#state"), "Paused");
  let requests = 0;
  page.on("request", () => (requests += 1));
  await deny("team-a", "while-paused");
  // Another page has it: this one had the time to request it as well.
  const other = await open("/ui/");
  await waitForReview(other, "while-paused");
  await deny("team-a", "later");
  await waitForReview(other, "later");
  await other.closeAll();
  assert.equal(requests, 0);
  assert.ok(!(await textOf(page, "main")).includes("while-paused"));
  await page.click("#pause");
  await waitForReview(page, "while-paused");
  assert.equal(await textOf(page, "#pause"), "Pause updates");
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("selected text and focus survive updates", async () => {
  await deny("team-a", "focused");
  const page = await open("/ui/");
  await waitForReview(page, "focused");
  const link = '#reviews a[href^="rules/"]';
  await page.focus(link);
  const focused = await page.evaluate(() => document.activeElement.href);
  await deny("team-a", "newer");
  await waitForReview(page, "newer");
  assert.equal(await page.evaluate(() => document.activeElement.href), focused);
  await page.closeAll();
});

test("keyboard reaches everything in order, with visible focus", async () => {
  await deny("team-a", "keyboard");
  const page = await open("/ui/");
  await waitForReview(page, "keyboard");
  const header = await tabOrder(page, 4);
  assert.deepEqual(header.map(({ name }) => name), ["Skip to content", "Overview", "Rules", "Pause updates"]);
  await page.keyboard.press("Enter");
  assert.equal(await textOf(page, "#state"), "Paused");
  const inMain = await tabOrder(page);
  assert.ok(inMain.length > 4, `${inMain.length}`);
  assert.deepEqual([...header, ...inMain].filter(({ isShown }) => !isShown), []);
  const sorted = inMain.toSorted((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
  assert.deepEqual(inMain, sorted);
  // The first link skips the navigation.
  await page.evaluate(() => document.querySelector(".skip").focus());
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.closeAll();
});

test("texts of tenants stay texts", async () => {
  await deny("<b>bold</b>", HOSTILE_NAME, "<i>user</i>");
  await deny("team-c", "long".repeat(50_000));
  const page = await open("/ui/", { width: 360 });
  await waitForReview(page, "<b>bold</b>");
  const text = await textOf(page, "#reviews");
  assert.ok(text.includes("<script>alert(1)</script>") && text.includes("\\u{202e}"), text);
  assert.equal(await page.$("#reviews b, #reviews i, #reviews img, #reviews script"), null);
  assert.ok(!/[\u202e\u200b\u001b]/.test(await page.content()));
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("page shows what the API says", async () => {
  const page = await open("/ui/");
  await page.waitForFunction(() => document.getElementById("state").textContent !== "");
  await page.click("#pause");
  const metrics = (await send(`${server.ops}/metrics`)).text;
  const value = (pattern) => Number(metrics.match(pattern)?.[1]);
  const ok = value(/^opgate_requests_total\{code="200"\} (\d+)$/m);
  assert.ok(ok > 0 && (await textOf(page, "main")).includes(`${ok} with status 200`), `${ok}`);
  const ready = await send(`${server.ops}/readyz?verbose`);
  assert.equal(ready.status, 200);
  assert.equal(await textOf(page, "section[aria-labelledby=server] dd"), "ready");
  const { policies } = JSON.parse((await send(`${server.ops}/policies`)).text);
  const rows = await rowsOf(page, "#policy-table");
  const expected = policies.map(({ name, version, mode, onError }) => [name, version, mode, onError]);
  assert.deepEqual(rows.map(([name, , version, , , mode, onError]) => [name, version, mode, onError]), expected);
  const denials = [...metrics.matchAll(/^opgate_violations_total\{(.*)\} (\d+)$/gm)];
  const counted = new Map();
  for (const [, labels, count] of denials) {
    const rule = labels.match(/rule="([^"]*)"/)[1];
    counted.set(rule, (counted.get(rule) ?? 0) + Number(count));
  }
  const shown = new Map((await rowsOf(page, "#by-rule")).map(([rule, , count]) => [rule, Number(count)]));
  assert.deepEqual(shown, counted);
  await page.closeAll();
});

test("rule browser lists, searches and filters the rules", async () => {
  const all = JSON.parse(run(["rules", "-o", "json"]));
  const ids = (rules) => rules.map(({ id }) => id).sort();
  const page = await open("/ui/rules");
  const shown = async () => (await rowsOf(page, "#rules")).map(([id]) => id).sort();
  const search = async () => Promise.all([page.waitForNavigation(), page.click("form button")]);
  const omitted = Number((await textOf(page, "main")).match(/(\d+) more are not shown/)?.[1] ?? 0);
  assert.equal((await shown()).length + omitted, all.length);
  assert.equal(await textOf(page, "#found"), `${all.length} of ${all.length} rules`);
  await page.type("#q", "rpk-0");
  await page.focus("#q");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  assert.deepEqual(await shown(), ids(all.filter(({ id }) => id.startsWith("RPK-0"))));
  await page.select("#kind", "BundleDeployment");
  await search();
  const both = all.filter(({ id, kinds }) => id.startsWith("RPK-0") && kinds.includes("BundleDeployment"));
  assert.deepEqual(await shown(), ids(both));
  await page.$eval("#q", (input) => (input.value = ""));
  await page.select("#kind", "");
  const chapter = "OCP 4.12: Chapter 2. Understanding Operators";
  await page.select("#chapter", chapter);
  await search();
  const found = await shown();
  assert.ok(found.length > 10 && found.length < all.length, `${found.length}`);
  assert.equal(await page.$eval("#chapter", (select) => select.value), chapter);
  // A rule leads back to its chapter.
  await Promise.all([page.waitForNavigation(), page.click("#rules tbody a")]);
  await Promise.all([page.waitForNavigation(), page.click('main a[href^="../rules?chapter="]')]);
  assert.ok((await shown()).length > 0);
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("page works without JavaScript", async () => {
  await deny("team-a", "plain");
  const page = await open("/ui/", { scripts: false });
  assert.ok((await page.content()).includes("team-a/plain"));
  assert.equal(await page.$eval("#pause", (button) => button.hidden), true);
  await page.closeAll();
});

test("website with a rebound name cannot read the page", async () => {
  const { port } = new URL(server.ops);
  const page = await openPage(browser, `http://rebinding.example:${port}/ui/`);
  assert.equal(page.status, 421);
  assert.ok(!(await page.content()).includes("team-a"));
  await page.closeAll();
});

test("pages are accessible", async () => {
  await deny("team-a", "accessible");
  await checkAccessibility(browser, `${server.ops}/ui/`, (page) => waitForReview(page, "accessible"));
  await checkAccessibility(browser, `${server.ops}/ui/rules?q=rpk`);
  await checkAccessibility(browser, `${server.ops}/ui/rules/RPK-01`);
});

test("screenshots are up to date", async () => {
  const own = await mkdtemp(path.join(tmpdir(), "opgate-browser-"));
  const fresh = await serve(own, ["--cluster-state", path.join(TOP, "tests/context/demo.json")]);
  try {
    for (const [namespace, name, user] of [["shop", "shop-operator", "alice"], ["monitoring", "metrics", "bob"]]) {
      await fresh.review(deniedBundle(namespace, name, user));
    }
    const page = await openPage(browser, `${fresh.ops}/ui/`, { width: 960, height: 640 });
    await waitForReview(page, "metrics");
    await page.click("#pause");
    await page.evaluate(fixTexts);
    await checkScreenshot(page, "overview");
    await page.goto(`${fresh.ops}/ui/rules?kind=Bundle`);
    await checkScreenshot(page, "rules");
    await page.closeAll();
  } finally {
    await fresh.stop();
    await rm(own, { recursive: true, force: true });
  }
});

// Replaces everything that differs between two runs.
function fixTexts() {
  document.querySelectorAll("time").forEach((time) => (time.textContent = "2026-01-31T12:00:00Z"));
  document.querySelectorAll("code").forEach((code) => {
    if (/^[0-9a-f]{12}$/.test(code.textContent)) {
      code.textContent = "0123456789ab";
    }
  });
  document.activeElement.blur();
}
