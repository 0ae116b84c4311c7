// What every page must fulfil, in light and dark, on phones, tablets and screens.

import assert from "node:assert/strict";

import { findViolations, openPage, overflow } from "./browser.js";

const WIDTHS = [360, 768, 1600];
const THEMES = ["light", "dark"];

// Opens an address in all widths and themes. `prepare` brings the page into a state.
export async function checkAccessibility(browser, url, prepare = async () => {}) {
  for (const width of WIDTHS) {
    for (const theme of THEMES) {
      const page = await openPage(browser, url, { width, theme });
      await prepare(page);
      const place = `${url}, ${theme}, ${width} px`;
      assert.deepEqual(await findViolations(page), [], place);
      assert.equal(await overflow(page), 0, `${place}: the page scrolls horizontally`);
      assert.deepEqual(page.problems(), [], place);
      await page.closeAll();
    }
  }
}
