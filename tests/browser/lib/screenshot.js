// Screenshots of the documentation: each is compared with the page, or written with SCREENSHOTS=write.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { TOP } from "./opgate.js";

// Maximum bytes of an image.
const MAX_BYTES = 100 << 10;

// Maximum share of blocks that differ: versions of Chromium and fonts draw and wrap texts differently.
export const MAX_DIFFERENCE = 0.5;

// A block has something from this mean distance from the background, of 1, and differs from another one by more than
// this factor.
const MIN_INK = 0.01;
const MAX_RATIO = 4;

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
  const difference = await differenceOf(page, stored, taken);
  assert.ok(difference <= MAX_DIFFERENCE, `${file} differs from the page (${difference}): replace it with SCREENSHOTS=write .ci/browser`);
}

// Returns the share of blocks that differ, of those in which an image has something; 1 for another size. The browser of
// the page decodes the images.
export async function differenceOf(page, one, other) {
  const context = await page.browser().createBrowserContext();
  const empty = await context.newPage();
  const images = await empty.evaluate(readBlocks, [one.toString("base64"), other.toString("base64")]);
  await context.close();
  const [first, second] = images;
  if (first.width !== second.width || first.height !== second.height) {
    return 1;
  }
  const pairs = first.blocks.map((ink, at) => [ink, second.blocks[at]].sort((low, high) => low - high));
  const used = pairs.filter(([, high]) => high >= MIN_INK);
  const different = used.filter(([low, high]) => low * MAX_RATIO < high);
  return used.length === 0 ? 1 : different.length / used.length;
}

// In a page: reads images, and returns the mean distance of each block of pixels from the most frequent color.
async function readBlocks(images) {
  const size = 32;
  const read = async (image) => {
    const response = await fetch(`data:image/png;base64,${image}`);
    const bitmap = await createImageBitmap(await response.blob());
    const { width, height } = bitmap;
    const canvas = new OffscreenCanvas(width, height).getContext("2d");
    canvas.drawImage(bitmap, 0, 0);
    const { data } = canvas.getImageData(0, 0, width, height);
    const colors = new Map();
    for (let at = 0; at < data.length; at += 4) {
      const color = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
      colors.set(color, (colors.get(color) ?? 0) + 1);
    }
    const [background] = [...colors].reduce((most, entry) => (entry[1] > most[1] ? entry : most));
    const columns = Math.ceil(width / size);
    const blocks = new Array(columns * Math.ceil(height / size)).fill(0);
    for (let at = 0; at < data.length; at += 4) {
      const [x, y] = [(at / 4) % width, Math.floor(at / 4 / width)];
      const distance = [16, 8, 0].reduce((sum, shift, part) => sum + Math.abs(data[at + part] - ((background >> shift) & 255)), 0);
      blocks[Math.floor(y / size) * columns + Math.floor(x / size)] += distance / 765 / size ** 2;
    }
    return { width, height, blocks };
  };
  return Promise.all(images.map(read));
}
