#!/usr/bin/env node
// Runs the program of the package for this system, which npm installs as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

function packageName() {
  const { platform, arch } = process;
  const isMusl = platform === "linux" && !process.report?.getReport().header.glibcVersionRuntime;
  return `@opgate/cli-${platform}-${arch}${isMusl ? "-musl" : ""}`;
}

function program() {
  const file = process.platform === "win32" ? "opgate.exe" : "opgate";
  const name = packageName();
  try {
    return require.resolve(`${name}/${file}`);
  } catch {
    console.error(
      `error: the package ${name} is missing: there is no opgate for this system, or npm was run with --omit=optional`,
    );
    process.exit(3);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit", windowsHide: true });
const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
for (const signal of signals) {
  // At Ctrl-C in a terminal, the child has the signal from there, and ends.
  const isSent = signal === "SIGINT" && process.stdin.isTTY;
  process.on(signal, () => isSent || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`error: ${error.message}`);
  process.exit(3);
});
child.on("exit", (code, signal) => {
  process.exit(code ?? 128 + (constants.signals[signal] ?? 0));
});
