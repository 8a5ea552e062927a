"use strict";
/* The curves of one model or of several, each curve a chart. */

const SHARE = { tickformat: ".0%" };
const AT_FAR = { title: "false accept rate (log)", type: "log", tickformat: "~%", nticks: 4 }; /* more would overlap: 0.00002% is long */
const KNOWN = {
  roc: { title: "ROC", text: "Pairs of one class accepted, for every rate of false accepts.", x: AT_FAR, y: Object.assign({ title: "true accept rate" }, SHARE), marks: ["far", "tar"] },
  det: { title: "DET", text: "The two kinds of error against each other; lower left is better.", x: AT_FAR, y: { title: "false reject rate (log)", type: "log", tickformat: "~%" }, marks: ["far", "frr"] },
  pr: { title: "Precision and recall", text: "How clean the accepted pairs are, for every share of positive pairs accepted.", x: Object.assign({ title: "recall" }, SHARE), y: Object.assign({ title: "precision" }, SHARE) },
  f1: { title: "F1", text: "The balance of precision and recall over thresholds.", x: { title: "threshold" }, y: Object.assign({ title: "F1" }, SHARE) },
  cmc: { title: "CMC", text: "How often a relevant item is among the first items.", x: { title: "rank (log)", type: "log", dtick: "D2" }, y: Object.assign({ title: "hit rate" }, SHARE) },
  dir: { title: "DIR over FAR", text: "Queries identified, for every share of unmated queries accepted.", x: Object.assign({}, AT_FAR, { title: "unmated queries accepted (log)", tickvals: [1e-5, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1] }), y: Object.assign({ title: "identified" }, SHARE) },
  mrep: { title: "mReP", text: "Ranking and accepting at once, over all thresholds.", x: { title: "τ" }, y: Object.assign({ title: "mReP" }, SHARE) },
  mvp: { title: "mVP", text: "How clean and complete the accepted items are.", x: { title: "τ" }, y: Object.assign({ title: "mVP" }, SHARE) },
  mrp: { title: "mRP", text: "How well the accepted relevant items are ranked.", x: { title: "τ" }, y: Object.assign({ title: "mRP" }, SHARE) },
  mfr: { title: "mFR", text: "How much queries with nothing to find accept; lower is better.", x: { title: "τ" }, y: Object.assign({ title: "mFR" }, SHARE) },
  utility: { title: "Utility of the classes", text: "One threshold serves classes unevenly: the mean, and half of the classes around it.", x: { title: "threshold" }, y: Object.assign({ title: "utility" }, SHARE) },
  severity: { title: "Severity", text: "Wrong first items by what they still share with the query.", y: Object.assign({ title: "share of queries" }, SHARE) },
  levels: { title: "Levels", text: "How often the nearest item is right, level by level.", y: Object.assign({ title: "precision at 1" }, SHARE) },
  scores: { title: "Distances", text: "Distances of positive and negative pairs.", x: { title: "distance" }, y: { title: "density of pairs" } },
};
const ORDER = ["cmc", "roc", "det", "pr", "f1", "dir", "scores", "utility", "mrep", "mvp", "mrp", "mfr", "levels", "severity"];
const NO_LINE = new Set(["threshold", "low", "high", "simultaneous_low", "simultaneous_high", "lower", "expected", "upper"]);
const CLASS = "class ";

/* Where no metric asked for a curve, the stops of the slider draw it. */
function withStops(model) {
  const curves = Object.assign({}, model.curves);
  const stops = model.stops;
  if (!stops || !stops.values.far || !stops.values.frr) return curves;
  const { far, tar, frr } = stops.values;
  const points = far.length;
  const kept = (columns) => ({ points, columns });
  if (!curves.roc) curves.roc = kept({ far, tar });
  if (!curves.det) curves.det = kept({ far, frr });
  if (!curves.scores) {
    const every = 20, distance = [], from = [], mates = [], others = [];
    for (let at = every, last = 0; at < points; at += every) {
      const ends = [last, at].map((place) => Number(stops.threshold[place]));
      if (!(Math.abs(ends[1] - ends[0]) > 0)) continue; /* what lies there joins the next bin */
      from.push(ends[0]);
      distance.push(ends[1]);
      mates.push(tar[at] - tar[last]);
      others.push(far[at] - far[last]);
      last = at;
    }
    curves.scores = kept({ distance, from, mates, others });
  }
  return curves;
}

function kindOf(name) {
  return name.split("@")[0];
}

function lines(name, columns, label, number, several = false) {
  const names = Object.keys(columns);
  const x = columns[names[0]];
  const mine = colour(number);
  const found = [];
  if (typeof x[0] === "string") {
    const y = columns[names[1]];
    const bar = { type: "bar", x: x.map(plain), y, name: plain(label), marker: { color: mine }, hovertemplate: "%{x}: %{y:.2%}<extra></extra>" };
    const away = (end, sign) => y.map((value, at) => (end[at] === null ? 0 : sign * (end[at] - value)));
    if (columns.low) bar.error_y = { type: "data", symmetric: false, array: away(columns.high, 1), arrayminus: away(columns.low, -1), color: theme().muted, thickness: 1.5 };
    return [bar];
  }
  if (kindOf(name) === "scores") {
    /* bins need not be equal: a step is as high as its share over its bin's width */
    const density = (shares) => shares.map((share, at) => share / Math.abs(x[at] - columns.from[at]));
    return ["mates", "others"].flatMap((kind, place) => {
      const ends = ["low", "high"].map((end) => columns[(place ? "others_" : "") + end]);
      const pairs = place ? "negative pairs" : "positive pairs";
      const told = several ? pairs + ", " + plain(label) : pairs;
      const edges = !ends[0] ? [] : ends.map((end, high) => ({
        x, y: density(end.map((value, at) => (value === null ? columns[kind][at] : value))), mode: "lines", line: { width: 0, shape: "vh" }, hoverinfo: "skip", showlegend: false,
        fill: high ? "tonexty" : "none", fillcolor: faint(colour(place), 0.35),
      }));
      return [...edges, {
        x, y: density(columns[kind]), text: columns[kind].map((share) => percent(share) + " %"), name: told, mode: "lines", fill: "tozeroy",
        line: { shape: "vh", width: 1.5, color: colour(place), dash: DASHES[number] },
        fillcolor: faint(colour(place), 0.15), hovertemplate: "up to %{x:.4~g}: %{text}<extra>" + told + "</extra>",
      }];
    });
  }
  const shape = kindOf(name) === "cmc" ? "hv" : "linear";
  const band = (low, high, opacity) => {
    if (!columns[low] || !columns[high]) return;
    const told = x.map((_, at) => at).filter((at) => columns[low][at] !== null && columns[high][at] !== null);
    const edge = (end, more) => found.push(Object.assign({ x: told.map((at) => x[at]), y: told.map((at) => columns[end][at]), mode: "lines", line: { width: 0, shape }, hoverinfo: "skip", showlegend: false }, more));
    edge(low, {});
    edge(high, { fill: "tonexty", fillcolor: faint(mine, opacity) });
  };
  for (const one of names.filter((each) => each.startsWith(CLASS))) {
    found.push({ x, y: columns[one], mode: "lines", line: { color: faint(theme().muted.startsWith("#") ? theme().muted : "#888888", 0.35), width: 0.8 }, name: plain(one), showlegend: false, hovertemplate: "%{x:.4~g}: %{y:.2%}<extra>" + plain(one) + "</extra>" });
  }
  band("q25", "q75", 0.18);
  if (columns.low) band("low", "high", 0.2);
  else if (columns.lower && columns.upper) band("lower", "upper", 0.3);
  const drawn = names.find((one) => one === "lower") || names.slice(1).find((one) => !NO_LINE.has(one));
  if (!drawn) return found;
  const text = x.map((_, at) => {
    const said = [];
    if (columns.low && columns.low[at] !== null) said.push(percent(columns.low[at]) + " to " + percent(columns.high[at]) + " %");
    if (columns.threshold && names[0] !== "threshold" && columns.threshold[at] !== null) said.push("at threshold " + Number(columns.threshold[at].toPrecision(6)));
    return said.join("<br>");
  });
  found.push({
    x, y: columns[drawn], text, name: plain(label), mode: "lines", line: { color: mine, width: 2.2, dash: DASHES[number % DASHES.length], shape },
    hovertemplate: "%{x:.4~g}: %{y:.2%}<br>%{text}<extra>" + plain(label) + "</extra>",
  });
  return found;
}

function withoutClasses(columns) {
  return Object.fromEntries(Object.entries(columns).filter(([name]) => !name.startsWith(CLASS)));
}

/* Where scores of the result were taken, by name. */
function taken(marks, number, several) {
  if (!marks || !marks.length) return [];
  const at = (place) => marks.map((mark) => mark[place]);
  const text = marks.map((mark) => plain(mark[0]) + (mark[3] === null ? "" : " at threshold " + Number(mark[3].toPrecision(6))));
  return [{ x: at(1), y: at(2), text, mode: "markers", marker: { symbol: "diamond", size: 9, color: colour(several ? number : 4) }, showlegend: false, hovertemplate: "%{text}: %{y:.2%}<extra></extra>" }];
}

function marked(curve, name, values) {
  const known = KNOWN[kindOf(name)];
  if (!known || !known.marks || !values) return [];
  const [x, y] = known.marks.map((one) => values[one]);
  if (x === undefined || y === undefined) return [];
  return [{ x: [x], y: [y], mode: "markers", marker: { size: 12, color: theme().paper, line: { color: theme().accent, width: 3 } }, showlegend: false, hovertemplate: "the slider stands here<extra></extra>" }];
}

const GOM = ["mrep", "mvp", "mrp"];

/* The three curves of one model that share their axes. */
function gomChart(curves, marks) {
  const held = GOM.filter((name) => curves[name]);
  const make = () => ({
    data: held.flatMap((name, number) => [...lines(name, curves[name].columns, KNOWN[name].title, number), ...taken((marks || {})[name], number, true)]),
    layout: { showlegend: true, xaxis: { title: "τ" }, yaxis: Object.assign({ rangemode: "tozero" }, SHARE) },
  });
  const text = "Accepted items over all thresholds: clean and complete (mVP), well ranked (mRP), both (mReP).";
  return card("Retrieval and verification", text, chart("Curves of mReP, mVP and mRP. " + text, make, { file: "gom" }));
}

function curveCharts(models, shownModel) {
  const several = models.length > 1;
  const all = models.map(withStops);
  const asked = models.flatMap((model) => model.headline.rows.map((row) => row.metric));
  const frozen = asked.some((metric) => metric.includes("frozen"));
  const together = !several && GOM.every((name) => all[0][name]);
  const names = [...new Set(all.flatMap(Object.keys))].filter((name) => name !== "severity" && (frozen || !name.includes("frozen")));
  const rank = (name) => { const at = ORDER.indexOf(kindOf(name)); return at < 0 ? ORDER.length : at; };
  names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  return names.filter((name) => !together || !GOM.includes(name) || name === "mrep").map((name) => {
    if (together && name === "mrep") return gomChart(all[0], models[0].marks);
    const known = KNOWN[kindOf(name)] || { title: name, text: "" };
    const title = name === kindOf(name) ? known.title : known.title + " (" + name + ")";
    const make = () => {
      const data = all.flatMap((curves, number) => (curves[name] ? lines(name, several ? withoutClasses(curves[name].columns) : curves[name].columns, models[number].name, number, several) : []));
      data.push(...models.flatMap((model, number) => taken((model.marks || {})[name], number, several)));
      const mine = all[models.indexOf(shownModel)][name];
      if (mine && !several) data.push(...marked(mine, name, sliderValues));
      const layout = { xaxis: Object.assign({}, known.x), yaxis: Object.assign({ rangemode: "tozero" }, known.y), showlegend: several || kindOf(name) === "scores", barmode: "group" };
      if (data.some((one) => one.type === "bar")) layout.xaxis.type = "category"; /* a level may be called "1" */
      if (known.y && known.y.type !== "log" && kindOf(name) !== "scores") layout.yaxis.rangemode = "tozero";
      return { data, layout };
    };
    const drawn = chart(title + ". " + known.text, make, { file: name.replace(/[^a-z0-9_-]+/gi, "-") });
    if (known.marks && !several) sliderListeners.push(() => drawn.redraw());
    return card(title, known.text, drawn);
  });
}

let sliderValues = null;
const sliderListeners = [];
