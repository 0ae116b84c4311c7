"use strict";
(() => {
  const form = document.getElementById("try");
  const drop = document.getElementById("drop");
  const list = document.getElementById("dropped");
  const state = document.getElementById("state");
  const result = document.getElementById("result");
  const button = form.querySelector("button");
  // Files with their paths.
  let dropped = [];

  function announceFiles() {
    const count = dropped.length;
    list.textContent = count === 0 ? "Or drop files or a directory here" : `${count} dropped: ${dropped[0][0]}${count > 1 ? ", …" : ""}`;
  }

  function readAll(directory) {
    const reader = directory.createReader();
    const entries = [];
    return new Promise((resolve, reject) => {
      const next = () =>
        reader.readEntries((some) => {
          if (some.length === 0) {
            resolve(entries);
          } else {
            entries.push(...some);
            next();
          }
        }, reject);
      next();
    });
  }

  async function collect(entry, files) {
    if (entry instanceof File) {
      files.push([entry.name, entry]);
    } else if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      files.push([entry.fullPath.replace(/^\/+/, ""), file]);
    } else {
      for (const inner of await readAll(entry)) {
        await collect(inner, files);
      }
    }
  }

  async function evaluate() {
    const data = new FormData(form);
    const chosen = data.getAll("files").filter((file) => file.name !== "");
    data.delete("files");
    for (const file of chosen) {
      data.append("files", file, file.webkitRelativePath || file.name);
    }
    for (const [path, file] of dropped) {
      data.append("files", file, path);
    }
    button.disabled = true;
    state.textContent = "Evaluating";
    try {
      const response = await fetch("./?fragment", { method: "POST", body: data, cache: "no-store" });
      result.innerHTML = await response.text();
      const heading = document.getElementById("outcome");
      state.textContent = heading.textContent;
      button.disabled = false;
      heading.focus();
    } catch (error) {
      state.textContent = "The server does not respond: start opgate ui again";
    }
    button.disabled = false;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    evaluate();
  });
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    // The items are empty after the first pause.
    const entries = items.map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
    const files = [];
    for (const entry of entries) {
      await collect(entry, files);
    }
    dropped = files;
    form.querySelectorAll("input[type=file]").forEach((input) => (input.value = ""));
    announceFiles();
  });
  form.addEventListener("change", (event) => {
    if (event.target.type === "file") {
      dropped = [];
      announceFiles();
    }
  });
  announceFiles();
})();
