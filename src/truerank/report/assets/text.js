"use strict";
/* Text and numbers: elements whose content is always text, and numbers as Python prints them. */

const DASH = "-";
const ABOUT_ALL = new Set(["comparison", "head-to-head", "curves"]);
let whose = ""; /* the model that sections are about, where there are several */

function el(tag, options, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/* "level 2" for a level that is called 2; a name of its own as it is. */
function levelName(name) {
  return /^[0-9]+$/.test(name) ? "level " + name : name;
}

/* Digits after the point, half to even on exact halves: Python's rule, not that of toFixed. */
function fixed(value, decimals) {
  const [whole, rest] = Math.abs(value).toFixed(80).split(".");
  if (/^50*$/.test(rest.slice(decimals))) {
    const kept = rest.slice(0, decimals);
    const last = decimals ? kept[decimals - 1] : whole[whole.length - 1];
    if (Number(last) % 2 === 0) {
      const sign = value < 0 || Object.is(value, -0) ? "-" : "";
      return sign + whole + (decimals ? "." + kept : "");
    }
  }
  return value.toFixed(decimals);
}

function percent(value, decimals = 2) {
  return value === null || value === undefined ? DASH : fixed(100 * value, decimals);
}

function count(value) {
  return value === null || value === undefined ? DASH : String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function shown(value, column) {
  if (value === null || value === undefined || value === "") return DASH;
  if (column.kind === "percent") return percent(value, column.decimals);
  if (column.kind === "count") return count(value);
  if (column.kind === "number" && typeof value === "number") return String(Number(value.toPrecision(6)));
  return String(value);
}

/* Control letters and letters that turn the line around, written out as Python does. */
function visible(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, (letter) => {
    const known = { "\t": "\\t", "\n": "\\n", "\r": "\\r" }[letter];
    const code = letter.charCodeAt(0).toString(16);
    return known || (code.length > 2 ? "\\u" + code.padStart(4, "0") : "\\x" + code.padStart(2, "0"));
  });
}

/* A spreadsheet must not take text for a formula: the rule of the library's own CSV. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = visible(String(value));
  const number = /^[-+]?[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?$/.test(text);
  if (typeof value === "string" && /^[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(text) && !number) text = "'" + text;
  return /[",]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
}

function csvText(columns, rows) {
  const lines = [columns.map((one) => csvCell(one.in_files || one.name))];
  for (const row of rows) lines.push(row.map(csvCell));
  return lines.map((line) => line.join(",")).join("\n") + "\n";
}

function download(name, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function csvButton(name, text) {
  return el("button", {
    type: "button", class: "quiet", text: "CSV", "data-file": name,
    "aria-label": "Download this table as " + name, on: { click: () => download(name, text()) },
  });
}

/* Charts read some tags in their texts: none of ours is meant as one. */
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function section(id, title, lead, ...children) {
  return el("section", { id, "aria-labelledby": id + "-title" },
    el("h2", { id: id + "-title" }, title, ABOUT_ALL.has(id) || !whose ? null : el("span", { class: "whose", text: " " + whose })),
    lead ? el("p", { class: "lead", text: lead }) : null,
    ...children);
}

/* What most readers can do without: closed, and drawn when it is opened. */
function more(summary, make) {
  const made = el("details", { class: "more" }, el("summary", { text: summary }));
  made.addEventListener("toggle", () => { if (made.open && made.children.length === 1) made.append(make()); });
  return made;
}

function moreNow(summary, element) {
  return el("details", { class: "more" }, el("summary", { text: summary }), element);
}

function notes(sentences, summary = "How to read this") {
  if (!sentences || !sentences.length) return null;
  return el("details", { class: "more notes" }, el("summary", { text: summary }), el("ul", {}, ...sentences.map((text) => el("li", { text }))));
}
