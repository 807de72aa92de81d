// What every page has: sortable tables, switches between views, and a record of what went wrong.
"use strict";
const report = (() => {
  const root = document.documentElement;
  window.addEventListener("error", (event) => { root.dataset.error = event.message; });

  /** An element with attributes and children; text children are text, never HTML. */
  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("--")) element.style.setProperty(key, value);
      else element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  function data(id) {
    return JSON.parse(document.getElementById(id).textContent);
  }

  function sortKey(cell) {
    const text = cell.textContent.trim();
    const value = Number(text.replace(/\u2212/g, "-").replace(/[,%\u00a0 ]/g, ""));
    return text !== "" && !Number.isNaN(value) ? value : text;
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        // Numbers are wanted the largest first, names from A on; a second click turns it round.
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [sortKey(row.cells[column]), row]);
        const numbers = rows.every(([key]) => typeof key === "number");
        const now = head.getAttribute("aria-sort");
        const up = now ? now === "descending" : !numbers;
        rows.sort(([a], [b]) => (up ? compare(a, b) : compare(b, a)));
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  function switching(box) {
    const show = () => {
      const chosen = box.querySelector("input:checked").value;
      box.querySelectorAll("[data-view]").forEach((view) => { view.hidden = view.dataset.view !== chosen; });
    };
    box.addEventListener("change", show);
    show();
  }

  document.querySelectorAll("table[data-sortable]").forEach(sortable);
  document.querySelectorAll("[data-switch]").forEach(switching);
  // Scripts that follow run before this event; the page is ready if none of them failed.
  document.addEventListener("DOMContentLoaded", () => {
    if (!root.dataset.error) root.dataset.ready = "1";
  });
  return { make, data };
})();
