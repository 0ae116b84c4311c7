// HTML reports: `opgate check -o html`.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { checkAccessibility } from "./lib/accessible.js";
import { openPage, startBrowser, tabOrder, textOf } from "./lib/browser.js";
import { serveFiles } from "./lib/files.js";
import { run } from "./lib/opgate.js";
import { DENIED_MANIFEST, HOSTILE_NAME } from "./lib/reviews.js";
import { checkScreenshot } from "./lib/screenshot.js";

let browser, directory, files, records;

before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "opgate-browser-"));
  const hostile = DENIED_MANIFEST.replace("my-bundle", JSON.stringify(HOSTILE_NAME));
  await writeFile(path.join(directory, "good.yaml"), DENIED_MANIFEST);
  await writeFile(path.join(directory, "hostile.yaml"), hostile);
  const inputs = ["good.yaml", "hostile.yaml"];
  const options = { cwd: directory, status: 1 };
  await writeFile(path.join(directory, "report.html"), run(["check", "-o", "html", ...inputs], options));
  await writeFile(path.join(directory, "one.html"), run(["check", "-o", "html", "good.yaml"], options));
  records = JSON.parse(run(["check", "-o", "json", ...inputs], options));
  browser = await startBrowser();
  files = await serveFiles(directory);
});

after(async () => {
  await browser?.close();
  await files?.stop();
  await rm(directory, { recursive: true, force: true });
});

test("report shows every violation of the result, and runs nothing", async () => {
  const page = await openPage(browser, `${files.url}report.html`);
  const shown = await page.$$eval(".violations li", (items) => items.map((item) => item.innerText));
  const violations = records.flatMap((record) => record.violations);
  assert.ok(violations.length > 1);
  assert.equal(shown.length, violations.length);
  for (const { rule, field, location } of violations) {
    const place = location ? `${location.file}:${location.line}:${location.column}` : field;
    assert.ok(shown.some((text) => text.includes(rule) && text.includes(place)), `${rule} ${place}`);
  }
  assert.equal(await page.$("img, script, main b"), null);
  assert.ok(!/[\u202e\u200b\u001b]/.test(await page.content()));
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("links lead from violations to their remediation, by keyboard", async () => {
  const page = await openPage(browser, `${files.url}report.html`);
  const order = await tabOrder(page);
  assert.ok(order.length > 2);
  assert.deepEqual(order.filter(({ isShown }) => !isShown), []);
  await page.focus(".violations a");
  await page.keyboard.press("Enter");
  const target = await page.evaluate(() => document.querySelector(location.hash).innerText);
  assert.ok(target.includes(await textOf(page, ".violations a")), target);
  await page.closeAll();
});

test("report is accessible", async () => {
  await checkAccessibility(browser, `${files.url}report.html`);
});

test("screenshot is up to date", async () => {
  const page = await openPage(browser, `${files.url}one.html`, { width: 1000, height: 900 });
  await checkScreenshot(page, "report");
  await page.closeAll();
});
