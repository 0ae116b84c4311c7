"use strict";
(() => {
  const form = document.getElementById("try");
  const drop = document.getElementById("drop");
  const list = document.getElementById("dropped");
  const state = document.getElementById("state");
  const result = document.getElementById("result");
  const button = form.querySelector("button[type=submit]");
  const remove = document.getElementById("remove");
  const inputs = [...form.querySelectorAll("input[type=file]")];
  // Files with their paths.
  let dropped = [];

  function announceFiles() {
    remove.hidden = dropped.length === 0 && inputs.every((input) => input.value === "");
    const count = dropped.length;
    list.textContent = count === 0 ? "Or drop files or a directory here" : `${count} dropped: ${dropped[0][0]}${count > 1 ? ", …" : ""}`;
  }

  function removeFiles() {
    dropped = [];
    inputs.forEach((input) => (input.value = ""));
    announceFiles();
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
      state.textContent = heading?.textContent ?? `The server responded with status ${response.status}`;
      button.disabled = false;
      heading?.focus();
    } catch (error) {
      state.textContent = "Nothing was evaluated: choose the files again if they have changed, or start opgate ui again";
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
    if (entries.length === 0 || button.disabled) {
      return;
    }
    removeFiles();
    button.disabled = true;
    state.textContent = "Reading the files";
    try {
      const files = [];
      for (const entry of entries) {
        await collect(entry, files);
      }
      dropped = files;
      state.textContent = "";
    } catch (error) {
      state.textContent = `The files cannot be read: ${error.message}`;
    }
    button.disabled = false;
    announceFiles();
  });
  remove.addEventListener("click", () => {
    removeFiles();
    document.getElementById("files").focus();
  });
  form.addEventListener("change", (event) => {
    if (event.target.type === "file") {
      dropped = [];
      announceFiles();
    }
  });
  announceFiles();
})();
