// What the pages do with scripts: local times, pause of live parts, rows of a tail.
// Everything can be read without it.
"use strict";

(() => {
  const two = (number) => String(number).padStart(2, "0");

  function localTimes(root) {
    for (const each of root.querySelectorAll("time[datetime]:not([title])")) {
      const at = new Date(each.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      each.title = each.textContent;
      const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      each.textContent = `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
    }
  }

  localTimes(document);
  for (const each of document.querySelectorAll(".zone")) {
    each.textContent = `of ${Intl.DateTimeFormat().resolvedOptions().timeZone || "this browser"}`;
  }

  const live = document.getElementById("live");
  const state = document.querySelector(".live-state");
  const button = document.querySelector(".pause");
  if (!live || !state || !button) return;

  let paused = matchMedia("(prefers-reduced-motion: reduce)").matches;

  function show(text) {
    state.hidden = false;
    state.textContent = text;
  }

  function showPause() {
    button.hidden = false;
    button.textContent = paused ? "Go on" : "Pause";
    button.setAttribute("aria-pressed", String(paused));
    show(paused ? "Paused" : "Live");
  }

  button.addEventListener("click", () => {
    paused = !paused;
    showPause();
  });

  // A part is not replaced while somebody works in it: focus or selected text would be lost.
  function isInUse() {
    const selected = document.getSelection();
    const hasText = selected && !selected.isCollapsed && live.contains(selected.anchorNode);
    const focus = document.activeElement;
    return hasText || (focus !== live && live.contains(focus));
  }

  live.addEventListener("htmx:sseBeforeMessage", (event) => {
    const isTail = live.dataset.rows !== undefined;
    if (paused || (!isTail && isInUse())) event.preventDefault();
  });
  live.addEventListener("htmx:sseMessage", () => {
    localTimes(live);
    const rows = live.querySelector("tbody");
    const most = Number(live.dataset.rows || 0);
    while (most && rows && rows.rows.length > most) rows.deleteRow(-1);
    const now = new Date();
    show(`Live, ${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}`);
  });
  live.addEventListener("htmx:sseError", () => show("No connection to the console"));
  live.addEventListener("htmx:sseOpen", showPause);
  showPause();
})();
