#!/usr/bin/env node
// Runs the program of the package for this system, which npm installs as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { optionalDependencies } = require("../package.json");

// The packages for this system, the better one first. npm installs one by the C library that it finds; where it finds
// another one than this, there is no use in insisting.
function packageNames() {
  const { platform, arch } = process;
  const name = `@opgate/cli-${platform}-${arch}`;
  if (platform !== "linux") return [name];
  const isMusl = !process.report?.getReport().header.glibcVersionRuntime;
  return isMusl ? [`${name}-musl`, name] : [name, `${name}-musl`];
}

function program() {
  const file = process.platform === "win32" ? "opgate.exe" : "opgate";
  const names = packageNames();
  for (const name of names) {
    try {
      return require.resolve(`${name}/${file}`);
    } catch {
      // The next one.
    }
  }
  const version = optionalDependencies[names[0]];
  if (version) {
    console.error(
      `error: the package ${names[0]} is missing: npm was run with --omit=optional, or with a package-lock.json of another system; npm install ${names[0]}@${version}`,
    );
  } else {
    const systems = Object.keys(optionalDependencies).map((name) => name.replace("@opgate/cli-", ""));
    const hint =
      process.platform === "win32" && process.arch === "arm64" ? "; Node.js for x64 runs the one for win32-x64" : "";
    console.error(
      `error: there is no opgate for ${process.platform}-${process.arch}${hint}; there is one for ${systems.join(", ")}`,
    );
  }
  process.exit(3);
}

const path = program();
let child;
// Before the start: a signal that comes during it waits for the handler, instead of ending this process alone.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // At Ctrl-C in a terminal, the child has the signal from there, and ends.
  const isSent = signal === "SIGINT" && process.stdin.isTTY;
  process.on(signal, () => isSent || child.kill(signal));
}
child = spawn(path, process.argv.slice(2), { stdio: "inherit", windowsHide: true });
child.on("error", (error) => {
  console.error(`error: ${error.message}`);
  process.exit(3);
});
child.on("exit", (code, signal) => {
  process.exit(code ?? 128 + (constants.signals[signal] ?? 0));
});
