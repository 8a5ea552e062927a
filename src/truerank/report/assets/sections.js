"use strict";
/* The sections of one model, but for curves and threshold. */

function strip(places) {
  if (!places || places.value === null) return null;
  const at = (value) => Math.max(0, Math.min(100, 100 * value)) + "%";
  const bar = el("span", { class: "strip", "aria-hidden": "true" });
  if (places.low !== null && places.high !== null) {
    bar.append(el("i", { class: "range", style: { left: at(places.low), width: `calc(${at(places.high)} - ${at(places.low)})` } }));
  }
  if (places.chance !== null) bar.append(el("i", { class: "chance", style: { left: at(places.chance) } }));
  bar.append(el("i", { class: "value", style: { left: at(places.value) } }));
  return bar;
}

/* Metrics that say most at a glance, where a result has them. */
const HEROES = ["precision@1", "hit@1", "map@r", "h_ap", "mrep", "auc", "tar", "eer", "accuracy", "mrr", "map", "dir"];

function heroes(headline) {
  const known = headline.rows.filter((row) => row.places && row.places.value !== null);
  const rank = (row) => { const at = HEROES.findIndex((name) => name === row.metric || row.metric.startsWith(name + "@far")); return at < 0 ? HEROES.length : at; };
  const first = known.slice().sort((a, b) => rank(a) - rank(b)).slice(0, 4);
  const place = headline.header.findIndex((name) => name.endsWith("interval"));
  return el("div", { class: "heroes" }, ...first.map((row) => {
    const interval = place > 0 && row.cells[place] !== "-" ? row.cells[place] : "";
    return el("div", { class: "hero" },
      el("h3", { text: row.cells[0] }),
      el("p", { class: "big" }, row.cells[1], el("span", { text: " %" })),
      strip(row.places),
      el("p", { class: "small", text: interval ? interval : "no interval" }));
  }));
}

function scoresSection(model) {
  const { header, rows, csv } = model.headline;
  const numeric = (place) => place > 0;
  const body = rows.map((row) => el("tr", {},
    ...row.cells.map((cell, place) => place
      ? el("td", { class: "number " + header[place], text: cell || "" })
      : el("th", { scope: "row" }, el("span", { class: "metric", text: cell, title: row.title }), el("small", { text: row.reason || row.words }))),
    el("td", { class: "striped" }, strip(row.places))));
  const heads = [...header.map((name, place) => el("th", { scope: "col", class: numeric(place) ? "number " + name : null, text: name })), el("th", { scope: "col" }, el("span", { class: "hidden", text: "place between 0 and 100 %" }))];
  return section("scores", "Scores", null,
    model.missing ? el("p", { class: "notice", text: model.missing }) : null,
    heroes(model.headline),
    el("div", { class: "table" },
      el("div", { class: "tools" }, el("span", { class: "key", "aria-hidden": "true" }, el("i", { class: "value" }), "score", el("i", { class: "range" }), "interval", el("i", { class: "chance" }), "chance"), csvButton("scores.csv", () => csv)),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" },
        el("table", { id: "headline" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body)))),
    notes(model.notes));
}

function partsSection(model) {
  if (!model.parts.length) return null;
  return section("classes", "Classes and groups", "Where the score comes from, the worst first. Click a column to sort.",
    tabs("Parts of the result", model.parts.map((table) => ({ name: table.title, make: () => dataTable(table) }))));
}

function confusionSection(model) {
  if (!model.confusions || !model.confusions.rows.length) return null;
  return section("confused", "Confused classes", "The class of the query, and the wrong class that stands first in its place.", dataTable(model.confusions));
}

function tileOf(model, about, side) {
  const picture = model.thumbnails && model.thumbnails[side + about.row];
  const name = about.label === undefined || about.label === null ? "row " + about.row : about.label;
  if (picture) return el("img", { src: picture, alt: name, decoding: "async" });
  return el("span", { class: "blank", "aria-hidden": "true", text: name.slice(0, 24) });
}

function neighbour(model, about, rank) {
  const right = about.shares === "right";
  const kind = right ? "right" : about.shares ? "near" : "wrong";
  const verdict = right ? "right" : about.shares ? "near miss: " + levelName(about.shares) : "wrong";
  return el("li", { class: "neighbour " + kind },
    tileOf(model, about, "g"),
    el("span", { class: "verdict", text: verdict }),
    el("span", { class: "name", text: about.label === undefined ? "row " + about.row : about.label || "no label", title: about.id || "row " + about.row }),
    el("span", { class: "small", text: `${rank}. at ${Number(about.distance.toPrecision(4))}` }));
}

function queryList(model, queries) {
  const metric = model.ranked.metric;
  return el("div", { class: "queries" }, ...queries.map((query) => el("article", { class: "query" },
    el("div", { class: "asked" }, tileOf(model, query, "q"),
      el("div", {},
        el("h3", { text: query.label === undefined ? "row " + query.row : query.label || "no label" }),
        el("p", { class: "small", text: [query.id || "row " + query.row, query.group].filter(Boolean).join(", ") }),
        el("p", { class: "small", text: `${metric} ${percent(query.value)} %, ${query.mates} ${query.mates === 1 ? "relevant item" : "relevant items"}` + (query.first_mate ? `, the first at rank ${count(query.first_mate)}` : "") }))),
    el("ol", { class: "neighbours", tabindex: "0", "aria-label": "Ranked neighbours" }, ...query.neighbours.map((one, place) => neighbour(model, one, place + 1))))));
}

function queriesSection(model) {
  const ranked = model.ranked;
  if (!ranked) return null;
  const entries = [["Worst queries", ranked.worst], ["Best queries", ranked.best]].filter(([, list]) => list.length);
  return section("queries", "Queries", `The queries with the lowest and the highest ${ranked.metric}, and what each finds first. Of items at one distance the wrong ones stand first, as the score has it.`,
    tabs("Queries", entries.map(([name, list]) => ({ name, make: () => queryList(model, list) }))));
}

function severitySection(model) {
  const found = model.severity;
  if (!found) return null;
  const total = found.errors.reduce((a, b) => a + b, 0);
  const table = {
    title: "Severity of errors", file: "severity.csv", note: found.band_reason ? `No confidence band: ${found.band_reason}.` : "", sorted: null,
    columns: [{ name: "a wrong first item", kind: "text" }, { name: "queries", kind: "count" }, { name: "of the errors", kind: "percent", decimals: 2 }, { name: "of all queries", kind: "percent", decimals: 2 }],
    rows: found.names.map((name, place) => [name, found.errors[place], found.errors[place] / total, found.errors[place] / found.queries]),
  };
  const away = (ends, sign) => ends.map((end, at) => (end === null ? 0 : sign * (end - found.errors[at])));
  const bars = () => (found.low ? { error_x: { type: "data", symmetric: false, array: away(found.high, 1), arrayminus: away(found.low, -1), color: theme().muted, thickness: 1.5 } } : {});
  const drawn = chart("Errors by what they share with the query", () => ({
    data: [{ ...bars(), type: "bar", orientation: "h", y: found.names.map(plain), x: found.errors, marker: { color: found.names.map((_, place) => faint(colour(0), 0.35 + (0.65 * (place + 1)) / found.names.length)) }, hovertemplate: "%{y}: %{x:,}<extra></extra>" }],
    layout: { xaxis: { title: "queries", rangemode: "tozero" }, yaxis: { autorange: "reversed", type: "category" } },
  }), { class: "low", file: "severity" });
  return section("severity", "Severity of errors", "Not all errors are equal: what a wrong first item still shares with the query, the mildest first.",
    el("div", { class: "pair" }, drawn, dataTable(table)));
}

function mapSection(model) {
  const found = model.centres;
  if (!found) return null;
  const shares = found.share.map((one) => percent(one, 1) + " %");
  const more = found.classes > found.labels.length ? ` The ${count(found.labels.length)} largest of ${count(found.classes)} classes are drawn.` : "";
  const drawn = chart("Map of the centres of the classes", () => {
    const largest = Math.max(...found.queries);
    const scored = found.scores && found.scores.some((one) => one !== null);
    return { data: [{
      x: found.x, y: found.y, mode: "markers", text: found.labels.map((label, place) => plain(label) + "<br>" + count(found.queries[place]) + " queries" + (scored ? "<br>" + plain(found.metric) + " " + percent(found.scores[place]) + " %" : "")),
      hovertemplate: "%{text}<extra></extra>",
      marker: {
        size: found.queries.map((one) => 6 + 10 * Math.sqrt(one / largest)), opacity: 0.9, line: { width: 0.6, color: DARK.matches && !printing ? theme().muted : theme().paper },
        color: scored ? found.scores.map((one) => (one === null ? null : 100 * one)) : colour(0), colorscale: "Cividis", cmin: 0, cmax: 100, showscale: Boolean(scored),
        colorbar: scored ? { title: { text: plain(found.metric) + " (%)", side: "right", font: { color: theme().muted } }, thickness: 10, outlinewidth: 0, tickfont: { color: theme().muted } } : undefined,
      },
    }], layout: {
      xaxis: { title: "first axis, " + shares[0] + " of the variance", showticklabels: false, ticks: "", showgrid: false, constrain: "domain" },
      yaxis: { title: "second axis, " + shares[1], showticklabels: false, ticks: "", showgrid: false, scaleanchor: "x", constrain: "domain" },
    } };
  }, { class: "square", file: "map" });
  const columns = [{ name: "class", kind: "text" }, { name: "queries", kind: "count" }, { name: "x", kind: "number" }, { name: "y", kind: "number" }];
  return section("map", "Map of the classes", "Centres of the classes on the two axes along which they differ most (PCA). Classes that lie together are those that a model may confuse; two axes never tell the whole story." + more,
    drawn, el("p", { class: "note" }, csvButton("class-centres.csv", () => csvText(columns, found.labels.map((label, place) => [label, found.queries[place], found.x[place], found.y[place]])))));
}

function tiesSection(model) {
  const found = model.ties;
  if (!found) return null;
  const lead = "Where, down each query's ranking, items stand at exactly the same distance, so that nothing orders them.";
  if (!found.tied) return section("ties", "Ties", `Of ${count(found.queries)} queries looked at, none meets two items at one distance: nothing here is left to chance.`);
  const drawn = chart("Tie map: share of tied items by query and rank", () => ({
    data: [{ type: "heatmap", z: found.share, x: found.ranks.map((_, place) => place), y: found.share.map((_, place) => place), customdata: found.share.map(() => found.ranks), zmin: 0, colorscale: [[0, faint(colour(0), 0)], [1, colour(0)]], hovertemplate: "from rank %{customdata}: %{z:.1%} tied<extra></extra>", colorbar: { tickformat: ".0%", thickness: 10, outlinewidth: 0, tickfont: { color: theme().muted } } }],
    layout: { xaxis: { title: "rank (log)", tickmode: "array", tickvals: found.ranks.map((_, place) => place).filter((place) => place % 8 === 0), ticktext: found.ranks.filter((_, place) => place % 8 === 0).map(count) }, yaxis: { title: "queries, by label", autorange: "reversed", showticklabels: false, ticks: "" } },
  }), { class: "full", file: "ties" });
  return section("ties", "Ties", `${lead} ${count(found.queries)} queries; ${percent(found.tied, 2)} % of their items are tied. After Nicolaou et al., 2018.`, drawn);
}

function auditSection(model) {
  const found = model.audit;
  if (!found) return null;
  const items = found.findings.map((one) => el("li", { class: "finding " + one.severity },
    el("span", { class: "badge", text: one.severity }),
    el("div", {}, el("p", { text: one.message }), el("p", { class: "small", text: one.advice }),
      one.rows.length ? el("p", { class: "small", text: "Rows " + one.rows.map((rows) => rows.join(" and ")).join(", ") + (one.count > one.rows.length ? ", …" : "") }) : null)));
  const clean = found.findings.every((one) => one.severity === "note");
  const columns = ["name", "severity", "count", "message", "advice", "rows"].map((name) => ({ name, kind: name === "count" ? "count" : "text" }));
  return section("audit", "Audit", `What could make these scores lie, looked for in the ${found.of}.` + (clean ? " No problems found." : ""),
    items.length ? el("ul", { class: "findings" }, ...items) : null,
    el("details", { class: "notes" }, el("summary", { text: "What was measured" }), el("ul", {}, ...found.measured.map((text) => el("li", { text })))),
    el("p", { class: "note" }, csvButton("audit.csv", () => csvText(columns, found.findings.map((one) => columns.map(({ name }) => (name === "rows" ? one.rows.map((rows) => rows.join(" ")).join("; ") : one[name])))))));
}

function provenanceSection(model) {
  const found = model.provenance;
  const facts = found.facts.flatMap(([name, text]) => [el("dt", { text: name }), el("dd", { text })]);
  return section("provenance", "How to run it again", "The same rows and labels give the same numbers, to the last bit, on any machine; the digests say whether they are the same.",
    el("dl", { class: "facts" }, ...facts),
    found.again ? el("pre", { tabindex: "0" }, el("code", { text: found.again })) : null);
}
