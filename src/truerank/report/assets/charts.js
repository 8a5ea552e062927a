"use strict";
/* Charts: drawn when they come into view, in the colours of the page, light or dark. */

/* Okabe and Ito's colours, which all eyes tell apart, lighter on a dark page; dashes differ, too. */
const ON_LIGHT = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"];
const ON_DARK = ["#56B4E9", "#F0B429", "#2CC79B", "#E7A1CC", "#FF8D4D", "#9DB2FF"];
const DARK = matchMedia("(prefers-color-scheme: dark)");
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const CONFIG = { displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: "hover", modeBarButtons: [["toImage"]], scrollZoom: false };
const charts = new Set();
let printing = false;

function colour(number) {
  const these = DARK.matches && !printing ? ON_DARK : ON_LIGHT;
  return these[number % these.length];
}

const PRINTED = { text: "#000000", muted: "#444444", line: "#dddddd", accent: "#2457c5", paper: "#ffffff" };

function theme() {
  if (printing) return PRINTED;
  const style = getComputedStyle(document.documentElement);
  const take = (name) => style.getPropertyValue(name).trim();
  return { text: take("--text"), muted: take("--muted"), line: take("--line"), accent: take("--accent"), paper: take("--paper") };
}

function themed(layout) {
  const colours = theme();
  const axis = (given) => Object.assign({
    gridcolor: colours.line, linecolor: colours.line, zeroline: false, automargin: true, ticks: "outside", tickcolor: colours.line, ticklen: 4,
    tickfont: { color: colours.muted, size: 12 }, fixedrange: true, showline: true,
  }, given, given && given.title ? { title: { text: given.title, font: { color: colours.muted, size: 13 }, standoff: 10 } } : {});
  return Object.assign({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
    font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif", color: colours.text, size: 13 },
    margin: { l: 8, r: 12, t: 10, b: 8 }, showlegend: false, modebar: { bgcolor: "rgba(0,0,0,0)", color: colours.line, activecolor: colours.accent },
    legend: { orientation: "h", traceorder: "normal", y: 1.02, yanchor: "bottom", x: 0, font: { color: colours.text } },
    hoverlabel: { bgcolor: colours.paper, bordercolor: colours.line, font: { color: colours.text } },
  }, layout, { xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis) });
}

/* `make` gives { data, layout }; it is asked again when the colours of the page change. */
function chart(label, make, options = {}) {
  const place = el("div", { class: "chart " + (options.class || ""), role: "img", "aria-label": label });
  const mine = { place, drawn: false, draw };
  function draw() {
    const { data, layout } = make();
    mine.drawn = true;
    return Plotly.react(place, data, themed(layout), Object.assign({ toImageButtonOptions: { filename: options.file || "chart" } }, CONFIG));
  }
  place.redraw = () => (mine.drawn ? draw() : null);
  charts.add(mine);
  if (window.Plotly) watch.observe(place);
  return place;
}

/* The page is there before the charts' own script, which stands last. */
addEventListener("DOMContentLoaded", () => {
  for (const one of charts) watch.observe(one.place);
});

const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    const mine = [...charts].find((one) => one.place === entry.target);
    if (mine && !mine.drawn) mine.draw();
  }
}, { rootMargin: "300px" });

function forgetCharts() {
  for (const one of charts) {
    watch.unobserve(one.place);
    if (one.drawn) Plotly.purge(one.place);
  }
  charts.clear();
}

function drawAll() {
  for (const one of charts) if (!one.place.isConnected) charts.delete(one); /* of a tab that was left */
  return Promise.all([...charts].map((one) => one.draw()));
}

DARK.addEventListener("change", () => {
  for (const one of charts) if (one.drawn) one.draw();
});
addEventListener("beforeprint", () => {
  printing = true;
  document.querySelectorAll("tr[hidden]").forEach((row) => { row.hidden = false; });
  drawAll();
});
addEventListener("afterprint", () => { printing = false; drawAll(); });

function wideScreen() {
  return innerWidth > 736;
}

function card(title, text, chartElement) {
  return el("figure", { class: "card" },
    el("figcaption", {}, el("h3", { text: title }), text ? el("p", { text }) : null), chartElement);
}

function faint(hex, opacity) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${opacity})`;
}
