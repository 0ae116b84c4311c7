// Screenshots of the documentation: each is compared with the page, or written with SCREENSHOTS=write.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { TOP } from "./opgate.js";

// Maximum bytes of an image.
const MAX_BYTES = 100 << 10;

// Maximum share of pixels that differ: versions of Chromium and fonts draw letters differently.
const MAX_DIFFERENCE = 0.15;

// Takes a screenshot of the visible part of a page, and compares it with `docs/images/NAME.png`.
export async function checkScreenshot(page, name) {
  const file = path.join(TOP, "docs/images", `${name}.png`);
  const taken = Buffer.from(await page.screenshot({ type: "png", optimizeForSpeed: false }));
  if (process.env.SCREENSHOTS === "write") {
    assert.ok(taken.length <= MAX_BYTES, `${name}: ${taken.length} bytes`);
    await writeFile(file, taken);
    return;
  }
  const stored = await readFile(file);
  const difference = await compare(page, stored, taken);
  assert.ok(difference <= MAX_DIFFERENCE, `${file} differs from the page (${difference}): replace it with SCREENSHOTS=write .ci/browser`);
}

// Returns the share of different pixels; 1 for another size. The browser decodes the images.
async function compare(page, one, other) {
  const context = await page.browser().createBrowserContext();
  const blank = await context.newPage();
  const share = await blank.evaluate(async (images) => {
    const pixels = [];
    for (const image of images) {
      const response = await fetch(`data:image/png;base64,${image}`);
      const bitmap = await createImageBitmap(await response.blob());
      const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
      canvas.drawImage(bitmap, 0, 0);
      pixels.push(canvas.getImageData(0, 0, bitmap.width, bitmap.height));
    }
    const [first, second] = pixels;
    if (first.width !== second.width || first.height !== second.height) {
      return 1;
    }
    let different = 0;
    for (let at = 0; at < first.data.length; at += 4) {
      const distance = [0, 1, 2].reduce((sum, part) => sum + Math.abs(first.data[at + part] - second.data[at + part]), 0);
      different += distance > 96 ? 1 : 0;
    }
    return different / (first.data.length / 4);
  }, [one.toString("base64"), other.toString("base64")]);
  await context.close();
  return share;
}
