"use strict";
/* Tables that can be sorted, searched, leafed through and written as CSV: ten rows at first. */

const PAGE = 10;
const MOST_OPEN = 50; /* rows up to which one click shows them all */
let tableNumber = 0;

function asNumber(cell) {
  return typeof cell === "number" ? cell : parseFloat(cell.replace(/^[<+ ]+/, ""));
}

function dataTable(table) {
  const id = "table-" + ++tableNumber;
  const numeric = table.columns.map((one) => one.kind !== "text");
  const state = { search: "", page: 0, column: -1, direction: 1 };
  if (table.sorted) {
    state.column = table.sorted[0];
    state.direction = table.sorted[1] === "ascending" ? 1 : -1;
  }
  const all = table.rows.map((row) => ({ row, key: row.map((cell) => String(cell)).join("\u0000").toLowerCase() }));
  const body = el("tbody");
  const heads = table.columns.map((column, place) => {
    const button = el("button", { type: "button", title: column.hint || null, text: column.name, on: { click: () => sortBy(place) } });
    return el("th", { scope: "col", class: numeric[place] ? "number" : null }, button);
  });
  const tell = el("span", { class: "tell", role: "status", "aria-live": "polite" });
  const search = el("input", {
    type: "search", id: id + "-search", placeholder: "Search", "aria-label": "Search in " + table.title, "aria-controls": id,
    on: { input: () => { state.search = search.value.toLowerCase(); state.page = 0; draw(); } },
  });
  const back = el("button", { type: "button", class: "quiet", text: "‹", "aria-label": "Previous page", on: { click: () => turn(-1) } });
  const on = el("button", { type: "button", class: "quiet", text: "›", "aria-label": "Next page", on: { click: () => turn(1) } });
  const every = el("button", { type: "button", class: "quiet", "aria-expanded": "false", on: { click: () => { size = size === PAGE ? MOST_OPEN : PAGE; state.page = 0; draw(); } } });
  let size = PAGE;
  let found = all;

  function turn(by) {
    state.page += by;
    draw();
  }

  function sortBy(place) {
    if (state.column === place) state.direction *= -1;
    else {
      state.column = place;
      state.direction = numeric[place] ? -1 : 1;
    }
    state.page = 0;
    draw();
  }

  function compare(a, b) {
    const left = a.row[state.column], right = b.row[state.column];
    const none = (value) => value === null || value === undefined || value === "";
    if (none(left) || none(right)) return none(left) - none(right);
    if (numeric[state.column]) return state.direction * (asNumber(left) - asNumber(right));
    return state.direction * String(left).localeCompare(String(right), "en", { numeric: true });
  }

  function draw() {
    found = state.search ? all.filter((one) => one.key.includes(state.search)) : all.slice();
    if (state.column >= 0) found.sort(compare);
    const pages = Math.max(1, Math.ceil(found.length / size));
    state.page = Math.max(0, Math.min(state.page, pages - 1));
    body.replaceChildren(...found.slice(state.page * size, (state.page + 1) * size).map(({ row }) =>
      el("tr", {}, ...row.map((cell, place) => el(place ? "td" : "th", {
        scope: place ? null : "row", class: numeric[place] ? "number" : null, text: shown(cell, table.columns[place]),
      })))));
    heads.forEach((head, place) => {
      const order = state.column !== place ? "none" : state.direction > 0 ? "ascending" : "descending";
      head.setAttribute("aria-sort", order);
    });
    const first = found.length ? state.page * size + 1 : 0;
    const last = Math.min(found.length, (state.page + 1) * size);
    tell.textContent = found.length > size ? `${count(first)} to ${count(last)} of ${count(found.length)}` : `${count(found.length)} ${found.length === 1 ? "row" : "rows"}`;
    back.disabled = state.page === 0;
    on.disabled = state.page >= pages - 1;
    back.hidden = on.hidden = found.length <= MOST_OPEN;
    every.hidden = found.length <= PAGE || found.length > MOST_OPEN;
    every.textContent = size === PAGE ? `Show all ${count(found.length)}` : `Show ${PAGE}`;
    every.setAttribute("aria-expanded", String(size !== PAGE));
  }

  draw();
  const tools = el("div", { class: "tools" },
    table.rows.length > PAGE ? search : null, tell, back, on, every,
    csvButton(table.file, () => csvText(table.columns, found.map((one) => one.row))));
  return el("div", { class: "table" }, tools,
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title },
      el("table", { id }, el("thead", {}, el("tr", {}, ...heads)), body)),
    table.note ? el("p", { class: "note", text: table.note }) : null);
}

/* The first ten rows of a table that is not sorted, and a button below for the others. */
function collapsed(rows) {
  rows.slice(PAGE).forEach((row) => { row.hidden = true; });
  if (rows.length <= PAGE + 1) {
    rows.forEach((row) => { row.hidden = false; });
    return null;
  }
  const button = el("button", { type: "button", class: "quiet", text: `Show all ${count(rows.length)}`, "aria-expanded": "false", on: { click: () => {
    const open = button.getAttribute("aria-expanded") === "true";
    rows.slice(PAGE).forEach((row) => { row.hidden = open; });
    button.setAttribute("aria-expanded", String(!open));
    button.textContent = open ? `Show all ${count(rows.length)}` : `Show ${PAGE}`;
  } } });
  return button;
}

/* Several views of which one is shown: buttons above, as a list of tabs. */
function tabs(label, entries) {
  if (entries.length === 1) return entries[0].make();
  const panel = el("div", { role: "tabpanel", tabindex: "-1" });
  const buttons = entries.map((entry, place) => el("button", {
    type: "button", role: "tab", text: entry.name, on: { click: () => choose(place), keydown: move },
  }));
  function choose(place) {
    buttons.forEach((button, number) => {
      button.setAttribute("aria-selected", String(number === place));
      button.tabIndex = number === place ? 0 : -1;
    });
    panel.replaceChildren(entries[place].make());
  }
  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(event.target) + step + buttons.length) % buttons.length;
    choose(next);
    buttons[next].focus();
    event.preventDefault();
  }
  choose(0);
  return el("div", { class: "tabs" }, el("div", { role: "tablist", "aria-label": label }, ...buttons), panel);
}
