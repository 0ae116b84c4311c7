// Chromium without a window, and pages that record everything a page must not do.
//
//     startBrowser() ─▶ openPage(browser, url) ─▶ page ─▶ page.problems(), findViolations(page)

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

import puppeteer from "puppeteer-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Milliseconds that a page may take for one step, on a loaded machine.
export const STEP_TIMEOUT = 30_000;

// Starts Chromium without a network other than this machine's: no name resolves.
export async function startBrowser() {
  const sandbox = process.getuid() === 0 ? ["--no-sandbox"] : [];
  return puppeteer.launch({
    executablePath: CHROMIUM,
    args: [
      ...sandbox,
      "--disable-dev-shm-usage",
      "--disable-gpu",
      "--font-render-hinting=none",
      "--force-color-profile=srgb",
      "--hide-scrollbars",
      // The tests use the address, and names of rebinding attacks.
      "--host-resolver-rules=MAP *.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    ],
  });
}

// Opens an address in a page of its own. `theme` is `light` or `dark`.
export async function openPage(browser, url, { width = 1024, height = 768, theme = "light", scripts = true } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(STEP_TIMEOUT);
  const problems = record(page, new URL(url).origin);
  await page.setJavaScriptEnabled(scripts);
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  const response = await page.goto(url);
  return Object.assign(page, {
    status: response.status(),
    // Everything that went wrong so far: console errors, violations of the security policy, requests to other hosts.
    problems: () => problems,
    closeAll: () => context.close(),
  });
}

function record(page, origin) {
  const problems = [];
  page.on("console", (message) => {
    if (["error", "warn", "assert"].includes(message.type())) {
      problems.push(`console ${message.type()}: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => problems.push(`exception: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith("data:,")) {
      problems.push(`request to ${url}`);
    }
  });
  page.on("dialog", async (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  return problems;
}

// Returns what axe-core finds on the page, a line for each element: an empty list on an accessible page.
export async function findViolations(page) {
  // Not an element of the page, whose security policy allows no other script.
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations", "passes"] }));
  if (passes.length === 0) {
    throw new Error("axe-core has checked nothing");
  }
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}: ${node.failureSummary}`));
}

// Returns by how many pixels the page is wider than its window.
export async function overflow(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

// Returns the visible text of an element.
export async function textOf(page, selector) {
  return page.$eval(selector, (element) => element.innerText);
}

// Returns the cells of a table as texts, a list for each row.
export async function rowsOf(page, selector) {
  return page.$$eval(`${selector} tbody tr`, (rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim())));
}

// Presses Tab until the focus returns to the start, and describes each element: its name, and whether its focus shows.
export async function tabOrder(page, limit = 200) {
  const order = [];
  for (let step = 0; step < limit; step += 1) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(describeFocus);
    if (focused === null || order.some((other) => other.path === focused.path)) {
      break;
    }
    order.push(focused);
  }
  return order;
}

function describeFocus() {
  const element = document.activeElement;
  if (element === null || element === document.body) {
    return null;
  }
  const path = [];
  for (let at = element; at !== document.body && at; at = at.parentElement) {
    path.unshift([...at.parentElement.children].indexOf(at));
  }
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const isInView = box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
  return {
    path: path.join("."),
    name: (element.innerText || element.id || element.getAttribute("name") || "").trim().split("\n")[0],
    tag: element.tagName.toLowerCase(),
    top: Math.round(box.top + scrollY),
    isShown: isInView && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
  };
}
