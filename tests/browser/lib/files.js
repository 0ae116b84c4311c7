// Serves a directory on the loopback interface, for pages that are files.

import { readFile } from "node:fs/promises";
import http from "node:http";
import path from "node:path";

const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".mjs": "text/javascript; charset=utf-8",
  ".wasm": "application/wasm",
};

// Starts a server for the files of a directory. `headers` are sent with each file.
export async function serveFiles(directory, headers = {}) {
  const root = path.resolve(directory);
  const server = http.createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const file = path.join(root, decodeURIComponent(pathname));
    // A browser asks for the icon of every page.
    if (pathname === "/favicon.ico") {
      return response.writeHead(204).end();
    }
    try {
      if (!file.startsWith(root + path.sep)) {
        throw new Error("outside of the directory");
      }
      const content = await readFile(file);
      response.writeHead(200, { "content-type": TYPES[path.extname(file)] ?? "application/octet-stream", ...headers });
      response.end(content);
    } catch {
      response.writeHead(404).end("no such file");
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
