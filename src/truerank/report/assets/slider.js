"use strict";
/* The threshold: 1,001 stops, and at each what the library gives for that threshold. */

const TILES = [
  ["far", "FAR", "of the negative pairs accepted", 4],
  ["frr", "FRR", "of the positive pairs rejected", 2],
  ["tar", "TAR", "of the positive pairs accepted", 2],
  ["dir", "DIR", "of the mated queries find a relevant item first and accept it", 2],
  ["open_set_far", "FPIR", "of the unmated queries accept an item", 2],
  ["vp", "GOM VP", "overlap of the accepted and the relevant items", 2],
  ["rep", "GOM ReP", "this overlap and the ranking of the accepted items, combined", 2],
];
const WORST_COLUMNS = [
  { name: "class", kind: "text" },
  { name: "FRR", kind: "percent", decimals: 2 },
  { name: "FAR", kind: "percent", decimals: 4 },
  { name: "utility", kind: "percent", decimals: 2 },
];

const FEWEST_TRIALS = 5;

/* As choose_threshold does it, in the same order of operations. */
function servedWorst(served, stop) {
  return served.worst[stop].split(";").map((text) => {
    const [place, first, second] = text.split(" ").map(Number);
    const [ofFirst, ofSecond] = served.trials[place];
    let frr, far, utility;
    if (served.kind === "pairs") {
      frr = 1 - first / ofFirst;
      far = second / ofSecond;
      const both = (1 - frr) + (1 - far);
      utility = both > 0 ? (2 * (1 - frr) * (1 - far)) / both : 0;
    } else {
      frr = ofFirst ? first / ofFirst : null;
      far = ofSecond ? second / ofSecond : null;
      utility = 1 - Math.max(frr === null ? 0 : frr, far === null ? 0 : far);
    }
    return [served.labels[place], frr, far, utility];
  });
}

function lastWhere(values, test) {
  for (let at = values.length - 1; at >= 0; at--) if (test(values[at])) return at;
  return -1;
}

function presets(values) {
  const found = [];
  if (values.far) {
    for (const [rate, name] of [[0.001, "FAR ≤ 0.1 %"], [0.01, "FAR ≤ 1 %"], [0.1, "FAR ≤ 10 %"]]) {
      const at = lastWhere(values.far, (far) => far <= rate);
      if (at >= 0) found.push([name, at]);
    }
  }
  if (values.far && values.frr) {
    let best = 0;
    values.far.forEach((far, at) => {
      if (Math.abs(far - values.frr[at]) < Math.abs(values.far[best] - values.frr[best])) best = at;
    });
    found.push(["equal errors", best]);
  }
  return found;
}

function thresholdSection(model) {
  const stops = model.stops;
  if (!stops) return null;
  const values = stops.values, last = stops.threshold.length - 1;
  const similar = model.distance === "similarity";
  const named = presets(values);
  const start = named.find(([name]) => name.includes(" 1 %")) || named[named.length - 1] || ["", Math.floor(last / 2)];
  const rule = el("output", { class: "rule", for: "threshold-slider" });
  const slider = el("input", {
    type: "range", id: "threshold-slider", min: 0, max: last, step: 1, value: start[1], "aria-describedby": "threshold-rule",
    "aria-label": "Threshold", on: { input: () => show(Number(slider.value)) },
  });
  const tiles = TILES.filter(([name]) => values[name]).map(([name, short, text, decimals]) => ({ name, decimals, element: tile(name, short, text) }));
  const served = stops.served;
  /* of classes with a few trials each the worst are many, all at 0 */
  const judged = served && Math.max(...served.trials.map(([positive]) => positive)) >= FEWEST_TRIALS;
  if (judged) {
    tiles.push({ name: "utility_low", decimals: 2, element: tile("utility_low", "Lowest utility", "of the class served worst") });
    tiles.push({ name: "utility_median", decimals: 2, element: tile("utility_median", "Median utility", `over ${count(served.classes)} classes`) });
  }
  const worst = el("div", { id: "served-worst" });
  const worstColumns = WORST_COLUMNS.map((one) => (one.name === "FAR" && served && served.kind === "searches" ? Object.assign({}, one, { decimals: 2 }) : one));
  const chips = named.map(([name, at]) => el("button", { type: "button", class: "chip", text: name, "aria-pressed": "false", on: { click: () => { slider.value = at; show(at); } } }));
  const code = el("code", { id: "threshold-code" });
  const errors = chart("Both kinds of error over the threshold, with a line where the slider stands", () => {
    const x = stops.threshold.map(Number);
    const line = (name, place, text) => ({ x, y: values[name], name: text, mode: "lines", line: { color: colour(place), width: 2.2, dash: DASHES[place] }, hovertemplate: "%{x:~g}: %{y:.2%}<extra>" + text + "</extra>" });
    const data = [];
    if (values.far) data.push(line("far", 4, "FAR"));
    if (values.frr) data.push(line("frr", 0, "FRR"));
    if (values.dir) data.push(line("dir", 2, "DIR"));
    const here = Number(stops.threshold[Number(slider.value)]);
    return { data, layout: {
      showlegend: true, xaxis: { title: (similar ? "" : model.distance + " ") + (similar ? "similarity" : "distance"), autorange: similar ? "reversed" : true }, yaxis: { tickformat: ".0%", range: [0, 1.02] },
      shapes: [{ type: "line", x0: here, x1: here, y0: 0, y1: 1, yref: "paper", line: { color: theme().accent, width: 2 } }],
    } };
  }, { class: "low", file: "threshold" });

  function tile(name, short, text) {
    return el("div", { class: "tile" }, el("dt", { text: short }), el("dd", { id: "stop-" + name }), el("p", { text }));
  }

  let waiting = false; /* charts follow once a frame, however fast the slider moves */
  function show(stop) {
    const threshold = stops.threshold[stop];
    const what = served && served.kind === "searches" ? "an item" : "a pair";
    rule.replaceChildren(`Accept ${what} if its ${similar ? "similarity is at least" : model.distance + " distance is at most"} `, el("strong", { id: "threshold-rule", text: threshold }));
    slider.setAttribute("aria-valuetext", threshold);
    sliderValues = { stop };
    for (const name of Object.keys(values)) sliderValues[name] = values[name][stop];
    if (judged) {
      const rows = servedWorst(served, stop);
      sliderValues.utility_low = rows.length ? rows[0][3] : null;
      sliderValues.utility_median = served.median[stop];
      worst.replaceChildren(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Classes served worst" }, el("table", {},
        el("thead", {}, el("tr", {}, ...worstColumns.map((one) => el("th", { scope: "col", class: one.kind === "text" ? null : "number", text: one.name })))),
        el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, place) => el(place ? "td" : "th", { scope: place ? null : "row", class: place ? "number" : null, text: shown(cell, worstColumns[place]) }))))))));
    }
    for (const one of tiles) {
      const value = sliderValues[one.name];
      one.element.querySelector("dd").textContent = value === null || value === undefined ? DASH : percent(value, one.decimals) + " %";
    }
    code.textContent = `metrics=["fmr@tau=${threshold}", "fnmr@tau=${threshold}", "dir@tau=${threshold}"]`;
    chips.forEach((chip, place) => chip.setAttribute("aria-pressed", String(named[place][1] === stop)));
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        errors.redraw();
        for (const listen of sliderListeners) listen();
      });
    }
  }

  show(start[1]);
  const columns = [{ name: "threshold", kind: "text" }, ...TILES.filter(([name]) => values[name]).map(([name]) => ({ name, kind: "number" }))];
  const allRows = () => stops.threshold.map((text, stop) => [text, ...columns.slice(1).map((one) => values[one.name][stop])]);
  return section("threshold", "Threshold", null,
    el("div", { class: "panel" },
      el("div", {},
        el("p", {}, rule), slider,
        el("div", { class: "presets", role: "group", "aria-label": "Thresholds for" }, ...chips),
        el("dl", { class: "tiles", "aria-live": "polite" }, ...tiles.map((one) => one.element))),
      errors),
    el("p", { class: "note" }, "Each position shows what the library computes: ", code, " ", csvButton("thresholds.csv", () => csvText(columns, allRows()))),
    judged ? moreNow("Worst classes at this threshold", worst) : null);
}
