"use strict";
(() => {
  const main = document.getElementById("main");
  const button = document.getElementById("pause");
  const state = document.getElementById("state");
  // Milliseconds. With the response, a denial is visible within a second.
  const INTERVAL = 800;
  let paused = false;
  let shown = null;
  let timer;

  function announce(text) {
    if (state.textContent !== text) {
      state.textContent = text;
    }
  }

  function isSelecting() {
    const selection = document.getSelection();
    return !selection.isCollapsed && main.contains(selection.anchorNode);
  }

  // Elements like this one. New rows are added at the top, so the last one stays the last one.
  function alike(element) {
    const href = element.getAttribute("href");
    const all = [...main.querySelectorAll("a, [tabindex]")];
    return all.filter((other) => other.id === element.id && other.getAttribute("href") === href).reverse();
  }

  function replace(html) {
    const focused = document.activeElement;
    const position = main.contains(focused) ? alike(focused).indexOf(focused) : -1;
    const offsets = new Map([...main.querySelectorAll(".scroll")].map((area) => [area.id, area.scrollLeft]));
    main.innerHTML = html;
    for (const area of main.querySelectorAll(".scroll")) {
      area.scrollLeft = offsets.get(area.id) ?? 0;
    }
    if (position >= 0) {
      alike(focused)[position]?.focus({ preventScroll: true });
    }
  }

  async function update() {
    clearTimeout(timer);
    if (paused || document.hidden) {
      return;
    }
    try {
      const response = await fetch("?fragment", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!response.ok) {
        throw new Error(`status ${response.status}`);
      }
      const html = await response.text();
      if (!paused && html !== shown && !isSelecting()) {
        replace(html);
        shown = html;
      }
      if (!paused) {
        announce("Updated every second");
      }
    } catch (error) {
      announce("The server does not respond; trying again");
    }
    clearTimeout(timer);
    timer = setTimeout(update, INTERVAL);
  }

  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume updates" : "Pause updates";
    announce(paused ? "Paused" : "Updated every second");
    update();
  });
  document.addEventListener("visibilitychange", update);
  button.hidden = false;
  update();
})();
