// The comparison of screenshots: it accepts other fonts, and no blank or other page.

import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";

import { startBrowser } from "./lib/browser.js";
import { TOP } from "./lib/opgate.js";
import { differenceOf, MAX_DIFFERENCE } from "./lib/screenshot.js";

const IMAGES = path.join(TOP, "docs/images");

let browser, page;

before(async () => {
  browser = await startBrowser();
  page = await browser.newPage();
});

after(() => browser?.close());

// Returns an image of a page of this size.
async function draw(html, { width, height }) {
  await page.setViewport({ width, height });
  await page.setContent(html);
  return Buffer.from(await page.screenshot());
}

// Returns the size in the header of an image.
const sizeOf = (image) => ({ width: image.readUInt32BE(16), height: image.readUInt32BE(20) });

test("blank page differs from each image of the documentation", async () => {
  const names = (await readdir(IMAGES)).filter((name) => name.endsWith(".png"));
  assert.ok(names.length >= 4, `${names}`);
  for (const name of names) {
    const stored = await readFile(path.join(IMAGES, name));
    const blank = await draw("", sizeOf(stored));
    assert.equal(await differenceOf(page, stored, stored), 0, name);
    const difference = await differenceOf(page, stored, blank);
    assert.ok(difference > MAX_DIFFERENCE, `${name}: ${difference}`);
  }
});

test("blank pages are no screenshots", async () => {
  const blank = await draw("", { width: 320, height: 200 });
  assert.equal(await differenceOf(page, blank, blank), 1);
});

test("page in another font is the same page", async () => {
  const size = { width: 960, height: 720 };
  const paragraph = `<p>${"opgate evaluates manifests, bundles and recorded reviews. ".repeat(8)}</p>`;
  const inFont = (font) => `<body style="font: ${font}"><h1>Rules</h1>${paragraph.repeat(6)}<pre>kind: Bundle</pre>`;
  const one = await draw(inFont("16px sans-serif"), size);
  for (const font of ["16px serif", "16px monospace", "15px sans-serif"]) {
    const difference = await differenceOf(page, one, await draw(inFont(font), size));
    assert.ok(difference > 0 && difference <= MAX_DIFFERENCE, `${font}: ${difference}`);
  }
});
