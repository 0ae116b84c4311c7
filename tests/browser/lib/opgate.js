// The binary under test: its commands, and servers that end with the test.

import { spawn, spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const TOP = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const OPGATE = process.env.OPGATE && path.resolve(process.env.OPGATE_FROM ?? TOP, process.env.OPGATE);

// Milliseconds until a server serves, on a loaded machine.
const START_TIMEOUT = 120_000;

// Variables of no other configuration and of no cluster.
const ENVIRONMENT = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith("OPGATE") && !name.startsWith("KUBE")),
);

// Runs a command. Returns its standard output; `status` is the expected exit status.
export function run(args, { cwd = TOP, status = 0, input = "" } = {}) {
  const done = spawnSync(OPGATE, args, { cwd, input, env: ENVIRONMENT, encoding: "utf8", maxBuffer: 64 << 20 });
  if (done.status !== status) {
    throw new Error(`opgate ${args.join(" ")}: expected exit status ${status}, got ${done.status}\n${done.stderr}`);
  }
  return done.stdout;
}

// Starts a command that serves, and waits for a line of its output. Returns the match and a function that ends it.
async function start(args, cwd, pattern) {
  const child = spawn(OPGATE, args, { cwd, env: ENVIRONMENT, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  let text = "";
  const found = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${pattern} within ${START_TIMEOUT} ms:\n${text}`)), START_TIMEOUT);
    const read = (data) => {
      text = (text + data).slice(-64_000);
      const match = pattern.exec(text);
      if (match) {
        clearTimeout(timer);
        resolve(match);
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", (status) => {
      clearTimeout(timer);
      reject(new Error(`it ended with status ${status}:\n${text}`));
    });
  });
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  try {
    return { match: await found, stop };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

// Starts `opgate serve --ui` in an empty directory. `ops` is the address of the ops port.
export async function serve(directory, args = []) {
  run(["certs", "issue", "--out", "tls", "--name", "localhost"], { cwd: directory });
  const ports = ["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--drain-delay", "0s"];
  const all = ["serve", "--ui", "--tls-dir", "tls", ...ports, ...args];
  const { match, stop } = await start(all, directory, /serving address=(\S+) ops=(\S+)/);
  const ca = await readFile(path.join(directory, "tls/ca.crt"));
  const [, webhook, ops] = match;
  return { ops: `http://${ops}`, review: (body) => review(webhook, ca, body), stop };
}

// Starts `opgate ui`. `url` is the printed address.
export async function localPage(directory, args = []) {
  const { match, stop } = await start(["ui", "--listen", "127.0.0.1:0", ...args], directory, /(http:\/\/127\.0\.0\.1:\d+\/)/);
  return { url: match[1], stop };
}

// Sends a review, as an API server does. Returns the response.
async function review(address, ca, body) {
  const [host, port] = address.split(":");
  const options = { host, port, ca, servername: "localhost", method: "POST", path: "/validate?timeout=10s" };
  const headers = { "content-type": "application/json", host: "localhost" };
  const { status, text } = await request(https, { ...options, headers }, JSON.stringify(body));
  if (status !== 200) {
    throw new Error(`status ${status}: ${text}`);
  }
  return JSON.parse(text).response;
}

// Sends a request with any method and headers, which a browser would not allow.
export async function send(url, { method = "GET", headers = {}, body } = {}) {
  const { hostname, port, pathname, search } = new URL(url);
  return request(http, { hostname, port, path: pathname + search, method, headers }, body);
}

function request(client, options, body) {
  return new Promise((resolve, reject) => {
    const sent = client.request(options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (data) => (text += data));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
