// The list of errors of a sequence report: filters, pages, explanations, and a fragment that holds it all.
"use strict";
(() => {
  const box = document.getElementById("error-list");
  if (!box) return;
  const { make, data } = report;
  const errors = data("report-data").errors;
  const { labels, types, known, sentences } = errors;
  const PAGE = 20;
  const EMPTY = { text: "", gold: "", predicted: "", low: 0, high: 100, order: "text", page: 1, open: "" };
  const state = { ...EMPTY };
  const percent = (p) => `${(100 * p).toFixed(1)}%`;
  const signed = (x) => (x < 0 ? "\u2212" : "+") + Math.abs(x).toFixed(3);
  const many = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

  for (const sentence of sentences) {
    sentence.text = sentence.words.join(" ").toLowerCase();
    sentence.wrong = Object.keys(sentence.why).map(Number).sort((a, b) => a - b);
    sentence.surest = Math.max(...sentence.wrong.map((t) => sentence.p[t]));
  }

  // Filters

  const wears = (code, wanted) => !wanted || labels[code] === wanted || types[code] === wanted;

  /** Positions of the wrong labels that all filters on labels let through. */
  function hits(sentence) {
    const low = state.low / 100, high = state.high / 100;
    return sentence.wrong.filter((t) =>
      wears(sentence.gold[t], state.gold) && wears(sentence.predicted[t], state.predicted) &&
      sentence.p[t] >= low && sentence.p[t] <= high);
  }

  const orders = {
    text: ["in the order of the data", (a, b) => a.i - b.i],
    sure: ["the surest mistakes first", (a, b) => b.surest - a.surest || a.i - b.i],
    unsure: ["the least sure first", (a, b) => a.surest - b.surest || a.i - b.i],
    many: ["the most mistakes first", (a, b) => b.wrong.length - a.wrong.length || a.i - b.i],
  };

  function matching() {
    const text = state.text.toLowerCase();
    const found = [];
    for (const sentence of sentences) {
      if (!sentence.text.includes(text)) continue;
      const positions = hits(sentence);
      if (positions.length) found.push({ sentence, positions });
    }
    const order = orders[state.order][1];
    return found.sort((a, b) => order(a.sentence, b.sentence));
  }

  // Controls

  const controls = {};

  function choice(name, title, side) {
    const used = new Set(sentences.flatMap((s) => s.wrong.map((t) => s[side][t])));
    const codes = [...used].sort((a, b) => labels[a].localeCompare(labels[b], "en"));
    const kinds = [...new Set(codes.map((code) => types[code]))].sort((a, b) => a.localeCompare(b, "en"));
    const select = make("select", { name }, make("option", { value: "" }, "any"));
    const group = (label, values) => make("optgroup", { label }, ...values.map((v) => make("option", { value: v }, v)));
    const names = codes.map((code) => labels[code]);
    const plain = names.filter((label) => !kinds.includes(label));
    select.append(group(plain.length ? "types" : "labels", kinds));
    if (plain.length) select.append(group("labels", plain));
    controls[name] = select;
    return make("label", {}, title, select);
  }

  function bound(name, title) {
    controls[name] = make("input", { type: "number", name, min: 0, max: 100, step: 1, "aria-label": title });
    return controls[name];
  }

  controls.text = make("input", { type: "search", name: "text", autocomplete: "off" });
  controls.order = make("select", { name: "order" },
    ...Object.entries(orders).map(([value, [title]]) => make("option", { value }, title)));
  const clear = make("button", { type: "reset", class: "button" }, "Clear");
  const form = make("form", { class: "filters", "aria-label": "Filter the errors" },
    make("label", {}, "sentence contains", controls.text),
    choice("gold", "gold", "gold"),
    choice("predicted", "predicted", "predicted"),
    make("fieldset", { class: "pair" }, make("legend", {}, "probability of the wrong label, %"),
      make("div", {}, bound("low", "lowest probability in percent"), "–", bound("high", "highest probability in percent"))),
    make("label", {}, "order", controls.order), clear);
  const status = make("p", { class: "status", role: "status" });
  const list = make("div", { class: "errors" });
  const back = make("button", { type: "button", class: "button" }, "← Previous");
  const next = make("button", { type: "button", class: "button" }, "Next →");
  const where = make("span");
  const pager = make("div", { class: "pager", role: "group", "aria-label": "Pages of errors" }, back, where, next);
  box.append(form, status, list, pager);

  // One sentence

  function side(title, parts, kind, largest) {
    const rows = parts.map(([name, value]) => {
      const width = { class: kind, "--w": `${(100 * Math.abs(value)) / largest}%` };
      return make("tr", width, make("td", { class: "feature" }, name), make("td", { class: "r" }, signed(value)));
    });
    const body = rows.length ? make("table", {}, make("tbody", {}, ...rows)) : make("p", {}, "nothing");
    return make("div", {}, make("b", {}, title), body);
  }

  function explanation(sentence, t) {
    const why = sentence.why[t];
    const chosen = labels[sentence.predicted[t]], gold = sentence.gold[t];
    const parts = why.rest[0] ? [...why.parts, [`${many(why.rest[0], "smaller one")} together`, why.rest[1]]] : why.parts;
    const largest = Math.max(...parts.map(([, value]) => Math.abs(value)), 1e-12);
    const note = known[gold] ? "" : ` The gold label ${labels[gold]} was never seen in training.`;
    return make("div", { class: "why", id: `why-${sentence.i}-${t}` },
      make("p", {}, "Why ", make("b", { class: "bad" }, chosen), ` (${percent(sentence.p[t])}) and not `,
        make("b", { class: known[gold] ? "gold" : "" }, why.rival), ` (${percent(why.p_rival)}) for “${sentence.words[t]}”? ` +
        `With the other labels as predicted, it leads by ${signed(why.margin)}.${note}`),
      make("div", { class: "sides" },
        side(`for ${chosen}`, parts.filter(([, value]) => value > 0), "for", largest),
        side(`for ${why.rival}`, parts.filter(([, value]) => value <= 0), "against", largest)));
  }

  function token(sentence, t, positions) {
    const p = sentence.p[t], word = sentence.words[t], label = labels[sentence.predicted[t]];
    if (!sentence.why[t]) {
      const unsure = Math.round(100 * (1 - p));
      const shown = { class: unsure >= 3 ? "token unsure" : "token", title: `${label}, ${percent(p)}`, "--a": Math.min(70, unsure * 1.2) };
      return make("span", shown, word, make("small", {}, label === "O" ? "" : label));
    }
    const gold = labels[sentence.gold[t]], key = `${sentence.i}:${t}`;
    const button = make("button", {
      type: "button", "data-token": key, class: positions.includes(t) && narrowed() ? "token wrong hit" : "token wrong",
      "--a": Math.round(12 + 50 * p), "aria-expanded": String(state.open === key),
      title: `gold ${gold} (${percent(sentence.p_gold[t])}), predicted ${label} (${percent(p)})`,
      "aria-label": `${word}: gold ${gold}, predicted ${label} with ${percent(p)}; explain`,
    }, word, make("small", { class: "gold" }, gold), make("small", { class: "bad" }, `${label} ${Math.round(100 * p)}%`));
    button.addEventListener("click", () => {
      state.open = state.open === key ? "" : key;
      render();
      remember();
      box.querySelector(`[data-token="${key}"]`).focus();
    });
    return button;
  }

  const narrowed = () => Boolean(state.gold || state.predicted || state.low > 0 || state.high < 100);

  function card({ sentence, positions }) {
    const place = sentence.place ? ` · ${sentence.place}` : "";
    const tokens = sentence.words.map((_, t) => token(sentence, t, positions));
    const [i, t] = state.open.split(":").map(Number);
    return make("article", { class: "error", "data-sentence": sentence.i },
      make("p", { class: "where" }, `sentence ${sentence.i + 1}${place} · ${many(sentence.wrong.length, "wrong label")}`),
      make("div", { class: "tokens" }, ...tokens),
      state.open && i === sentence.i && sentence.why[t] ? explanation(sentence, t) : null);
  }

  // All of it

  function render() {
    const found = matching();
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    state.page = Math.min(Math.max(1, state.page), pages);
    const first = (state.page - 1) * PAGE;
    list.replaceChildren(...found.slice(first, first + PAGE).map(card));
    const tokens = found.reduce((sum, one) => sum + one.positions.length, 0);
    status.textContent = found.length
      ? `${many(tokens, "wrong label")} in ${many(found.length, "sentence")}, of ${sentences.length.toLocaleString("en")} listed`
      : `No sentence matches, of ${sentences.length.toLocaleString("en")} listed`;
    where.textContent = `page ${state.page} of ${pages}`;
    back.disabled = state.page === 1;
    next.disabled = state.page === pages;
    pager.hidden = pages === 1;
    const root = document.documentElement.dataset;
    root.matchingSentences = found.length;
    root.matchingTokens = tokens;
    root.page = state.page;
    root.pages = pages;
  }

  function remember() {
    const changed = Object.keys(EMPTY).filter((key) => state[key] !== EMPTY[key]);
    const fragment = changed.map((key) => `${key}=${encodeURIComponent(state[key])}`).join("&");
    try { history.replaceState(null, "", fragment ? `#${fragment}` : "#errors"); } catch { /* not allowed here: no matter */ }
  }

  const inRange = (value, other) => (value === "" || Number.isNaN(Number(value)) ? other : Math.min(100, Math.max(0, Number(value))));

  function readForm() {
    for (const key of ["text", "gold", "predicted", "order"]) state[key] = controls[key].value;
    state.low = inRange(controls.low.value, 0);
    state.high = inRange(controls.high.value, 100);
    state.page = 1;
    state.open = "";
    render();
    remember();
  }

  function writeForm() {
    for (const [key, control] of Object.entries(controls)) {
      if (control.tagName === "SELECT" && ![...control.options].some((option) => option.value === state[key])) {
        control.append(make("option", { value: state[key] }, state[key]));
      }
      control.value = state[key];
    }
  }

  /** Filters from the fragment, such as #gold=PER&low=90; false where it holds none. */
  function readFragment() {
    const fragment = location.hash.slice(1);
    if (!fragment.includes("=")) return false;
    Object.assign(state, EMPTY);
    for (const part of fragment.split("&")) {
      const at = part.indexOf("=");
      const key = part.slice(0, at);
      let value = part.slice(at + 1);
      try { value = decodeURIComponent(value); } catch { /* as it stands */ }
      if (key === "low" || key === "high") state[key] = inRange(value, EMPTY[key]);
      else if (key === "page") state.page = Math.max(1, parseInt(value, 10) || 1);
      else if (key === "order") state.order = Object.hasOwn(orders, value) ? value : "text";
      else if (Object.hasOwn(EMPTY, key)) state[key] = value;
    }
    return true;
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", readForm);
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    Object.assign(state, EMPTY);
    writeForm();
    render();
    remember();
  });
  const turn = (by) => { state.page += by; state.open = ""; render(); remember(); box.scrollIntoView(); };
  back.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  window.addEventListener("hashchange", () => {
    if (!readFragment()) return;
    writeForm();
    render();
    document.getElementById("errors").scrollIntoView();
  });
  const filtered = readFragment();
  writeForm();
  render();
  if (filtered) document.getElementById("errors").scrollIntoView();
})();
