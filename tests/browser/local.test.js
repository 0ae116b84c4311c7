// `opgate ui`: the page on the loopback interface for Operator and policy authors.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { checkAccessibility } from "./lib/accessible.js";
import { openPage, rowsOf, startBrowser, tabOrder, textOf } from "./lib/browser.js";
import { serveFiles } from "./lib/files.js";
import { localPage, run } from "./lib/opgate.js";
import { deniedBundle, DENIED_MANIFEST, HOSTILE_NAME } from "./lib/reviews.js";
import { checkScreenshot } from "./lib/screenshot.js";

let browser, directory, local;

before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "opgate-browser-"));
  browser = await startBrowser();
  local = await localPage(directory);
});

after(async () => {
  await browser?.close();
  await local?.stop();
  await rm(directory, { recursive: true, force: true });
});

const open = (options) => openPage(browser, local.url, options);

async function fill(page, text, selector = "#text") {
  await page.$eval(selector, (area, value) => (area.value = value), text);
}

// Sends the form, and waits for the outcome. Returns its heading.
async function evaluate(page) {
  await page.$eval("#result", (result) => result.replaceChildren());
  await page.click("form button[type=submit]");
  await page.waitForSelector("#outcome");
  return textOf(page, "#outcome");
}

test("pasted manifest is evaluated as by opgate check", async () => {
  const file = path.join(directory, "pasted.yaml");
  await writeFile(file, DENIED_MANIFEST);
  const [record] = JSON.parse(run(["check", "-o", "json", file], { status: 1 }));
  const page = await open();
  await fill(page, DENIED_MANIFEST);
  assert.equal(await evaluate(page), "Result: 0 passed, 1 denied, 0 errors");
  const shown = await page.$$eval(".violations li", (items) => items.map((item) => item.innerText));
  assert.equal(shown.length, record.violations.length);
  for (const { rule, message, location } of record.violations) {
    const found = shown.filter((text) => text.includes(rule) && text.includes(message));
    assert.equal(found.length, 1, rule);
    assert.ok(!location || found[0].includes(`pasted.yaml:${location.line}:${location.column}`), found[0]);
  }
  // The location in the text, with the message below it.
  const { line } = record.violations.find(({ rule }) => rule === "RPK-02").location;
  const marked = await page.$$eval("pre .line", (lines) => lines.map((one) => [one.querySelector("mark")?.innerText, one.innerText]));
  assert.equal(marked[line - 1][0], "source:");
  assert.ok(marked[line - 1][1].includes("RPK-02"), marked[line - 1][1]);
  assert.equal(await page.evaluate(() => document.activeElement.id), "outcome");
  assert.equal(await textOf(page, "#state"), await textOf(page, "#outcome"));
  await Promise.all([page.waitForNavigation(), page.click('pre a[href="rules/RPK-02"]')]);
  assert.equal(await textOf(page, "h1"), "RPK-02");
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("chosen files and directories are evaluated by their names", async () => {
  const bundle = path.join(directory, "my-bundle");
  await mkdir(path.join(bundle, "manifests"), { recursive: true });
  await writeFile(path.join(bundle, "manifests/bundle.yaml"), DENIED_MANIFEST);
  const page = await open();
  const input = await page.$("#directory");
  await input.uploadFile(bundle);
  assert.match(await evaluate(page), /1 denied/);
  const text = await textOf(page, "#result");
  assert.ok(text.includes("my-bundle/manifests/bundle.yaml:7:3") && text.includes("PlainBundle"), text);
  await page.reload();
  const files = await page.$("#files");
  await files.uploadFile(path.join(bundle, "manifests/bundle.yaml"));
  assert.match(await evaluate(page), /1 denied/);
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

// Drops a file or a directory, as a user does.
async function dropPath(page, file) {
  const area = await page.$("#drop");
  await area.scrollIntoView();
  const { x, y } = await area.clickablePoint();
  const session = await page.createCDPSession();
  const data = { items: [], files: [file], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"]) {
    await session.send("Input.dispatchDragEvent", { type, x, y, data });
  }
  await session.detach();
}

test("dropped files and directories are evaluated", async () => {
  const dropped = path.join(directory, "dropped");
  await mkdir(path.join(dropped, "manifests"), { recursive: true });
  await writeFile(path.join(dropped, "manifests/one.yaml"), DENIED_MANIFEST);
  await writeFile(path.join(dropped, "manifests/two.yaml"), DENIED_MANIFEST.replace("my-bundle", "other"));
  const page = await open();
  for (const [file, text, location] of [
    [path.join(dropped, "manifests/one.yaml"), "1 dropped: one.yaml", "one.yaml:7:3"],
    [dropped, "2 dropped: dropped/manifests/", "dropped/manifests/two.yaml:7:3"],
  ]) {
    await dropPath(page, file);
    await page.waitForFunction((start) => document.getElementById("dropped").textContent.startsWith(start), {}, text);
    assert.match(await evaluate(page), /1 denied/);
    assert.ok((await textOf(page, "#result")).includes(location), location);
  }
  // Without files, a text is evaluated again.
  await page.click("#remove");
  assert.match(await textOf(page, "#dropped"), /^Or drop files/);
  await fill(page, DENIED_MANIFEST);
  assert.match(await evaluate(page), /1 denied/);
  assert.match(await textOf(page, "#result"), /pasted\.yaml:7:3/);
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("review, profile and cluster state are evaluated", async () => {
  const page = await open();
  await fill(page, JSON.stringify(deniedBundle("team-a", "reviewed")));
  await page.select("#profile", "ocp-4.12");
  await page.click("summary");
  await fill(page, "apiVersion: v1\nkind: List\nitems: []\n", "#cluster-state");
  assert.match(await evaluate(page), /1 denied/);
  await fill(page, "a: [", "#cluster-state");
  assert.equal(await evaluate(page), "Not evaluated");
  assert.match(await textOf(page, "#result"), /cluster-state\.yaml/);
  await page.closeAll();
});

test("form works without JavaScript", async () => {
  const page = await open({ scripts: false });
  await page.type("#text", "kind: X\n");
  await Promise.all([page.waitForNavigation(), page.click("form button[type=submit]")]);
  assert.match(await textOf(page, "#outcome"), /^Result: /);
  assert.equal(await page.$eval("#text", (area) => area.value), "kind: X\n");
  await page.closeAll();
});

test("texts of the input stay texts", async () => {
  const page = await open({ width: 360 });
  const name = JSON.stringify(HOSTILE_NAME);
  await fill(page, DENIED_MANIFEST.replace("my-bundle", name).replace("core-rukpak-io-plain", `${name} # ${"long".repeat(500)}`));
  assert.match(await evaluate(page), /denied/);
  assert.equal(await page.$("#result img, #result script"), null);
  assert.ok(!/[\u202e\u200b\u001b]/.test(await page.$eval("#result", (result) => result.innerHTML)));
  assert.deepEqual(page.problems(), []);
  await page.closeAll();
});

test("other websites cannot send the form", async () => {
  const site = path.join(directory, "site");
  await mkdir(site);
  const attack = `<form action="${local.url}" method="post" enctype="multipart/form-data"><input name="text" value="kind: X"><input name="token" value="0"></form><button>go</button><script>document.querySelector("button").onclick = () => document.forms[0].submit();</script>`;
  await writeFile(path.join(site, "index.html"), `<!doctype html><title>x</title>${attack}`);
  const files = await serveFiles(site);
  const page = await openPage(browser, `${files.url}index.html`);
  const [response] = await Promise.all([page.waitForNavigation(), page.click("button")]);
  assert.equal(response.status(), 403);
  const rebound = await openPage(browser, local.url.replace("127.0.0.1", "rebinding.example"));
  assert.equal(rebound.status, 421);
  assert.ok(!(await rebound.content()).includes("token"));
  await rebound.closeAll();
  await page.closeAll();
  await files.stop();
});

test("keyboard reaches the form and the result in order", async () => {
  const page = await open();
  await fill(page, DENIED_MANIFEST);
  await page.evaluate(() => document.body.focus());
  const order = await tabOrder(page);
  const names = order.map(({ tag, name }) => name || tag);
  const expected = ["Skip to content", "Try it", "Rules", "text", "files", "directory", "profile", "Cluster state", "Evaluate"];
  assert.deepEqual(names.map((name, at) => (order[at].tag === "select" ? "profile" : order[at].tag === "textarea" ? "text" : name)).slice(0, expected.length), expected);
  assert.deepEqual(order.filter(({ isShown }) => !isShown), []);
  await page.focus("form button[type=submit]");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#outcome");
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.getElementById("result").contains(document.activeElement)));
  await page.closeAll();
});

test("rule browser has all rules", async () => {
  const all = JSON.parse(run(["rules", "-o", "json"]));
  const page = await openPage(browser, `${local.url}rules`);
  const shown = await rowsOf(page, "#rules");
  const omitted = Number((await textOf(page, "main")).match(/(\d+) more are not shown/)?.[1] ?? 0);
  assert.equal(shown.length + omitted, all.length);
  await page.closeAll();
});

test("pages are accessible", async () => {
  await checkAccessibility(browser, local.url);
  await checkAccessibility(browser, local.url, async (page) => {
    await fill(page, DENIED_MANIFEST);
    await evaluate(page);
  });
  await checkAccessibility(browser, `${local.url}rules/CSV-92`);
});

test("screenshot is up to date", async () => {
  const page = await open({ width: 960, height: 720 });
  await fill(page, DENIED_MANIFEST);
  await evaluate(page);
  await page.evaluate(() => {
    document.activeElement.blur();
    document.getElementById("profile").scrollIntoView();
  });
  await checkScreenshot(page, "try-it");
  await page.closeAll();
});
