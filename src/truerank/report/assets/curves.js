"use strict";
/* The curves of one model or of several, each curve a chart. */

const SHARE = { tickformat: ".0%" };
const AT_FAR = { title: "false accept rate (log)", type: "log", tickformat: "~%", nticks: 4 }; /* more would overlap: 0.00002% is long */
/* Rates that are written at an axis of normal deviates, and the largest error rate there, as the library's plots have them. */
const RATES = [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.4, 0.6];
const MOST_RATE = 0.6;
const KNOWN = {
  roc: { title: "ROC", text: "True against false accepts of pairs.", x: AT_FAR, y: Object.assign({ title: "true accept rate" }, SHARE), marks: ["far", "tar"] },
  det: { title: "DET", text: "Both errors in normal deviates; lower is better.", x: { title: "false accept rate" }, y: { title: "false reject rate" }, marks: ["far", "frr"], probit: true },
  pr: { title: "Precision and recall", text: "Precision of the accepted pairs over their recall.", x: Object.assign({ title: "recall" }, SHARE), y: Object.assign({ title: "precision" }, SHARE) },
  f1: { title: "F1", text: "Balance of precision and recall over thresholds.", x: { title: "threshold" }, y: Object.assign({ title: "F1" }, SHARE) },
  cmc: { title: "CMC", text: "A relevant item among the first items.", x: { title: "rank (log)", type: "log", tickvals: [1, 2, 5, 10, 20, 50], range: [0, Math.log10(50)] }, y: Object.assign({ title: "hit rate" }, SHARE) },
  dir: { title: "DIR over FPIR", text: "Identified against accepted unmated queries.", x: Object.assign({}, AT_FAR, { title: "unmated queries accepted (log)", tickvals: [1e-5, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1] }), y: Object.assign({ title: "identified" }, SHARE) },
  mrep: { title: "GOM ReP", text: "Ranking and accepting, over all thresholds.", x: { title: "τ" }, y: Object.assign({ title: "GOM ReP" }, SHARE) },
  mvp: { title: "GOM VP", text: "Overlap of the accepted and the relevant items.", x: { title: "τ" }, y: Object.assign({ title: "GOM VP" }, SHARE) },
  mrp: { title: "GOM RP", text: "How well the accepted relevant items are ranked.", x: { title: "τ" }, y: Object.assign({ title: "GOM RP" }, SHARE) },
  mfr: { title: "GOM FR", text: "What unmated queries accept; lower is better.", x: { title: "τ" }, y: Object.assign({ title: "GOM FR" }, SHARE) },
  utility: { title: "Utility of the classes", text: "Mean over classes, and the middle half of them.", x: { title: "threshold" }, y: Object.assign({ title: "utility" }, SHARE) },
  severity: { title: "Severity", text: "Irrelevant first items by what they share with the query.", y: Object.assign({ title: "share of queries" }, SHARE) },
  levels: { title: "Levels", text: "The nearest item is right, level by level.", y: Object.assign({ title: "precision at 1" }, SHARE) },
  scores: { title: "Distances", text: "Positive pairs filled, negative pairs as a line.", x: { title: "distance" }, y: { title: "density of pairs" } },
};
const ORDER = ["cmc", "roc", "det", "scores", "dir", "mrep", "pr", "levels", "f1", "utility", "mvp", "mrp", "mfr", "severity"];
const FIRST = 6; /* curves shown before those that a click opens */
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
      const tint = colour(several ? number : 0);
      const edges = !ends[0] ? [] : ends.map((end, high) => ({
        x, y: density(end.map((value, at) => (value === null ? columns[kind][at] : value))), mode: "lines", line: { width: 0, shape: "vh" }, hoverinfo: "skip", showlegend: false,
        fill: high ? "tonexty" : "none", fillcolor: faint(tint, 0.35),
      }));
      return [...edges, {
        x, y: density(columns[kind]), text: columns[kind].map((share) => percent(share) + " %"), name: told, mode: "lines", fill: place ? "none" : "tozeroy",
        line: { shape: "vh", width: place ? 1.8 : 1, color: place && !several ? colour(4) : tint, dash: DASHES[number] },
        fillcolor: faint(tint, several ? 0.22 : 0.3), hovertemplate: "up to %{x:.4~g}: %{text}<extra>" + told + "</extra>",
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

/* Acklam's rational approximation of the normal quantile: an error below 1.2e-9 of its value. */
function probit(rate) {
  const p = Math.min(Math.max(rate, 1e-9), 1 - 1e-9);
  const poly = (c, x) => c.reduce((sum, one) => sum * x + one, 0);
  const a = [-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269, -30.66479806614716, 2.506628277459239];
  const b = [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572, 1];
  const c = [-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968, 2.938163982698783];
  const d = [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1];
  if (p < 0.02425 || p > 0.97575) {
    const q = Math.sqrt(-2 * Math.log(Math.min(p, 1 - p)));
    return (p < 0.5 ? 1 : -1) * (poly(c, q) / poly(d, q));
  }
  const q = p - 0.5;
  return (q * poly(a, q * q)) / poly(b, q * q);
}

/* Both axes in normal deviates, from where the other rate is below MOST_RATE. */
function inDeviates(data, layout) {
  const least = [1, 1];
  for (const one of data) {
    one.x.forEach((x, at) => {
      const y = one.y[at];
      if (x > 0 && y > 0 && x <= MOST_RATE && y <= MOST_RATE) { least[0] = Math.min(least[0], x); least[1] = Math.min(least[1], y); }
    });
    one.customdata = one.x.map((x, at) => [percent(x, 4), percent(one.y[at], 2)]);
    one.hovertemplate = (one.hovertemplate || "").replace("%{x:.4~g}: %{y:.2%}", "FAR %{customdata[0]} %, FRR %{customdata[1]} %").replace(": %{y:.2%}", ": FRR %{customdata[1]} %");
    one.x = one.x.map(probit);
    one.y = one.y.map(probit);
  }
  [layout.xaxis, layout.yaxis].forEach((axis, at) => {
    const low = Math.min(least[at], 0.1);
    const shown = RATES.filter((rate) => rate >= low / 2);
    Object.assign(axis, { range: [probit(low), probit(MOST_RATE)], tickvals: shown.map(probit), ticktext: shown.map((rate) => Number((100 * rate).toPrecision(6)) + "%"), rangemode: "normal" });
  });
}

/* The rate of false accepts below which no curve rises: nothing is seen there. */
function firstRate(data) {
  const ends = data.filter((one) => one.mode === "lines" && one.hoverinfo !== "skip").map((one) => {
    const at = one.x.findIndex((x, place) => x > 0 && one.y[place] >= 0.02);
    return at < 0 ? 1 : one.x[at];
  });
  const marks = data.filter((one) => one.mode === "markers").flatMap((one) => one.x.filter((x) => x > 0));
  const low = Math.min(0.1, ...ends, ...marks);
  return Math.floor(Math.log10(low) + 1e-9);
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
  const text = "Overlap of accepted and relevant items (VP), their ranking (RP), both combined (ReP).";
  return card("Retrieval and verification", text, chart("Curves of GOM ReP, VP and RP. " + text, make, { file: "gom" }));
}

/* The line of a model as it is in all charts. */
function dashOf(number) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of Object.entries({ width: 34, height: 8, "aria-hidden": "true" })) svg.setAttribute(name, value);
  for (const [name, value] of Object.entries({ x1: 1, x2: 33, y1: 4, y2: 4, "stroke-width": 2.6, class: "ink" + (number % 6), "stroke-dasharray": ["", "8 5", "2 4", "8 4 2 4", "14 5", "14 4 2 4"][number % 6] })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

function curvesSection(shownModel) {
  const made = curveCharts(DATA.models, shownModel);
  if (!made.length) return null;
  const cards = (some) => el("div", { class: "cards" + (some.length % 3 === 1 && some.length > 1 ? " two" : "") }, ...some.map((one) => one()));
  const rest = made.slice(FIRST);
  const key = DATA.models.length > 1 ? el("div", { class: "legend" }, ...DATA.models.map((one, at) => el("span", {}, dashOf(at), one.name))) : null;
  return section("curves", "Curves", null, key, cards(made.slice(0, FIRST)), rest.length ? more(`${count(rest.length)} more ${rest.length === 1 ? "curve" : "curves"}`, () => cards(rest)) : null);
}

function curveCharts(models, shownModel) {
  const several = models.length > 1;
  const all = models.map(withStops);
  if (!DATA.sections.includes("curves")) return [];
  const asked = models.flatMap((model) => model.headline.rows.map((row) => row.metric));
  const frozen = asked.some((metric) => metric.includes("frozen"));
  const together = !several && GOM.every((name) => all[0][name]);
  const names = [...new Set(all.flatMap(Object.keys))].filter((name) => name !== "severity" && (frozen || !name.includes("frozen")));
  const rank = (name) => { const at = ORDER.indexOf(kindOf(name)); return at < 0 ? ORDER.length : at; };
  names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  return names.filter((name) => !together || !GOM.includes(name) || name === "mrep").map((name) => () => {
    if (together && name === "mrep") return gomChart(all[0], models[0].marks);
    const known = KNOWN[kindOf(name)] || { title: name, text: "" };
    const title = name === kindOf(name) ? known.title : known.title + " (" + name + ")";
    const make = () => {
      const data = all.flatMap((curves, number) => (curves[name] ? lines(name, several ? withoutClasses(curves[name].columns) : curves[name].columns, models[number].name, number, several) : []));
      data.push(...models.flatMap((model, number) => taken((model.marks || {})[name], number, several)));
      const mine = (all[models.indexOf(shownModel)] || {})[name];
      if (mine && !several) data.push(...marked(mine, name, sliderValues));
      const layout = { xaxis: Object.assign({}, known.x), yaxis: Object.assign({ rangemode: "tozero" }, known.y), showlegend: false, barmode: "group" };
      if (data.some((one) => one.type === "bar")) layout.xaxis.type = "category"; /* a level may be called "1" */
      if (known.y && known.y.type !== "log" && kindOf(name) !== "scores") layout.yaxis.rangemode = "tozero";
      if (known.probit) inDeviates(data, layout);
      if (kindOf(name) === "roc") layout.xaxis.range = [firstRate(data), 0];
      return { data, layout };
    };
    const drawn = chart(title + ". " + known.text, make, { file: name.replace(/[^a-z0-9_-]+/gi, "-") });
    if (known.marks && !several) sliderListeners.push(() => drawn.redraw());
    return card(title, known.text, drawn);
  });
}

let sliderValues = null;
const sliderListeners = [];
