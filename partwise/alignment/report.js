// The list of sentence pairs of an alignment report: filtered by words and by kinds of errors.
"use strict";
(() => {
  const { make } = report;
  const list = document.getElementById("pair-list");
  if (!list) return;
  const items = [...list.querySelectorAll("details[data-wrong]")];
  const search = make("input", { type: "search", placeholder: "a word" });
  const kind = make("select", {});
  const kinds = [["", "all pairs"], ["wrong", "with wrong links"], ["missed", "with missed links"], ["right", "all right"]];
  kind.append(...kinds.map(([value, text]) => make("option", { value }, text)));
  const order = make("select", {});
  order.append(...[["worst", "most errors first"], ["place", "as in the data"]].map(([v, t]) => make("option", { value: v }, t)));
  const shown = make("output", { "aria-live": "polite" });
  const unfold = make("button", { type: "button", class: "button" }, "Unfold all");

  function update() {
    const word = search.value.trim().toLowerCase();
    let n = 0;
    for (const item of items) {
      const wrong = Number(item.dataset.wrong), missed = Number(item.dataset.missed);
      const fits = { "": true, wrong: wrong > 0, missed: missed > 0, right: wrong + missed === 0 }[kind.value];
      item.hidden = !(fits && (word === "" || item.dataset.words.toLowerCase().includes(word)));
      n += item.hidden ? 0 : 1;
    }
    shown.textContent = `${n} of ${items.length} pairs`;
  }

  function sort() {
    const key = order.value === "worst"
      ? (item) => -(Number(item.dataset.wrong) + Number(item.dataset.missed))
      : (item) => Number(item.dataset.place);
    list.append(...items.map((item, k) => [key(item), k, item]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((x) => x[2]));
  }

  search.addEventListener("input", update);
  kind.addEventListener("change", update);
  order.addEventListener("change", sort);
  unfold.addEventListener("click", () => {
    const visible = items.filter((item) => !item.hidden);
    const open = visible.some((item) => !item.open);
    visible.forEach((item) => { item.open = open; });
    unfold.textContent = open ? "Fold all" : "Unfold all";
  });
  list.before(make("div", { class: "filters" },
    make("label", {}, "Search", search), make("label", {}, "Show", kind), make("label", {}, "Order", order), unfold, shown));
  update();
})();
