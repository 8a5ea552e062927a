"use strict";
/* The sections of one model, but for curves and threshold. */

/* Where a score, its interval and chance lie between 0 and 100 %. */
function placed(places) {
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

function heroes(headline) {
  return el("div", { class: "heroes" }, ...headline.first.map((metric) => headline.rows.find((row) => row.metric === metric)).filter((row) => row.places.value !== null).map((row) =>
    el("div", { class: "hero", title: row.words },
      el("h3", { text: row.cells[0] }),
      el("p", { class: "big" }, row.cells[1], el("span", { text: " %" })),
      placed(row.places),
      el("p", { class: "small", text: row.interval || "no interval" }))));
}

function scoresSection(model, several) {
  const { header, rows, csv } = model.headline;
  const classOf = (place) => (place ? "number c-" + header[place].replace(/[^a-z]+/g, "") : null);
  const body = rows.map((row) => el("tr", {},
    ...row.cells.map((cell, place) => place
      ? el("td", { class: classOf(place), text: cell || DASH })
      : el("th", { scope: "row" }, el("span", { class: "metric", text: cell, title: row.metric }), el("small", { text: row.reason || row.words }))),
    el("td", { class: "placed" }, placed(row.places))));
  const heads = [...header.map((name, place) => el("th", { scope: "col", class: classOf(place), text: place ? name : "metric (%)" })), el("th", { scope: "col", class: "placed" }, el("span", { class: "hidden", text: "place between 0 and 100 %" }))];
  const bounds = header.includes("upper bound") ? "Where ties leave more than one number, the score is the lower bound." : "";
  const table = el("div", { class: "table" },
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" },
        el("table", { id: "headline" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body))),
      el("div", { class: "tools below" }, collapsed(body), el("span", { class: "key" }, el("span", {}, el("i", { class: "value" }), "score"), el("span", {}, el("i", { class: "range" }), "interval"), el("span", {}, el("i", { class: "chance" }), "chance"), bounds), csvButton("scores.csv", () => csv)));
  return section("scores", "Scores", null,
    model.missing ? el("p", { class: "notice", text: model.missing }) : null,
    heroes(model.headline),
    several ? moreNow("All scores with intervals, chance and ties", table) : table,
    notes(model.notes));
}

function partsSection(model) {
  if (!model.parts || !model.parts.length) return null;
  return section("classes", "Classes and groups", "The score of each part of the queries, the worst first.",
    tabs("Parts of the result", model.parts.map((table) => ({ name: table.title, make: () => dataTable(table) }))));
}

/* Tiles: a picture, or words where there is none, framed by whether the item is relevant. */

function pictureOf(side, row) {
  const held = DATA.thumbnails;
  return held && (held[side + row] || (DATA.one_side && held[(side === "g" ? "q" : "g") + row]));
}

function titleOf(row) {
  return row.label !== undefined && row.label !== null && row.label !== "" ? row.label : row.id || "row " + row.row;
}

function about(row) {
  return [["label", row.label], ["id", row.id], ["group", row.group], ["row", String(row.row)]].filter(([, text]) => text);
}

function verdictOf(item) {
  return item.shares === "right" ? "relevant" : item.shares ? "near miss: same " + levelName(item.shares) : "irrelevant";
}

function tile(row, side, { kind = "", rank = null, about: facts }) {
  const picture = pictureOf(side, row.row);
  const title = titleOf(row);
  const words = facts.map(([name, text]) => name + " " + text).join("\n");
  return el("button", { type: "button", class: "tile-of " + kind + (picture ? "" : " words"), title: words, "aria-label": words.replace(/\n/g, ", "), on: { click: () => enlarge(picture, title, facts) } },
    picture ? el("img", { src: picture, alt: "", decoding: "async" }) : el("span", { text: title }),
    rank === null ? null : el("b", { text: count(rank) }));
}

function enlarge(picture, title, facts) {
  const box = el("dialog", { class: "larger" },
    picture ? el("img", { src: picture, alt: title }) : null,
    el("h3", { text: title }),
    el("dl", { class: "facts" }, ...facts.flatMap(([name, text]) => [el("dt", { text: name }), el("dd", { text })])),
    el("form", { method: "dialog" }, el("button", { class: "quiet", text: "Close", on: { click: (event) => { event.preventDefault(); box.close(); } } })));
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  document.body.append(box);
  box.showModal();
}

/* The nearest items of a query; the first relevant one stands at the end if it is farther off. */
function tiles(query, most) {
  const facts = (item, rank) => [["rank", count(rank)], ["", verdictOf(item)], ...about(item), ["distance", String(Number(item.distance.toPrecision(4)))]].map(([name, text]) => [name || "verdict", text]);
  const kind = (item) => (item.shares === "right" ? "right" : item.shares ? "near" : "wrong");
  const made = (item, rank) => el("li", { class: rank === query.first_mate ? "first" : null }, tile(item, "g", { kind: kind(item), rank, about: facts(item, rank) }));
  const list = query.neighbours.slice(0, most).map((item, place) => made(item, place + 1));
  const far = query.first && query.first_mate > most;
  if (far) {
    list.pop();
    const last = made(query.first, query.first_mate);
    last.className = "first far";
    list.push(last);
  }
  return el("ol", { class: "neighbours", "aria-label": "Nearest items" + (far ? ", and the first relevant one" : "") }, ...list);
}

const SHOWN = 5;

function queryList(model, queries) {
  const metric = model.ranked.shown;
  const made = queries.map((query) => el("article", { class: "query" },
    el("div", { class: "asked" }, tile(query, "q", { about: about(query) }),
      el("div", {},
        el("h3", { text: titleOf(query) }),
        el("p", { class: "small", text: `${metric} ${percent(query.value)} %` }),
        el("p", { class: "small", text: `${count(query.mates)} relevant ${query.mates === 1 ? "item" : "items"}, the first at rank ${count(query.first_mate)}` }))),
    tiles(query, 9)));
  const rest = made.slice(SHOWN);
  return el("div", { class: "queries" }, ...made.slice(0, SHOWN), rest.length ? more(`${count(rest.length)} more`, () => el("div", {}, ...rest)) : null);
}

function legend(queries) {
  const near = queries.some((query) => query.neighbours.some((one) => one.shares && one.shares !== "right"));
  return el("p", { class: "key" }, ...[["right", "relevant"], ...(near ? [["near", "near miss: shares a coarser level"]] : []), ["wrong", "irrelevant"]].map(([kind, text]) => el("span", {}, el("i", { class: "frame " + kind }), text)),
    el("span", { text: "The number is the rank; after … comes the first relevant item. Click a tile for details." }));
}

function queriesSection(model) {
  const ranked = model.ranked;
  if (!ranked) return null;
  const entries = [["Worst queries", ranked.worst], ["Best queries", ranked.best]].filter(([, list]) => list.length);
  return section("queries", "Queries", `The queries with the lowest and the highest ${ranked.shown}. Among items at the same distance irrelevant ones come first, as in the score.`,
    tabs("Queries", entries.map(([name, list]) => ({ name, make: () => queryList(model, list) }))), legend([...ranked.worst, ...ranked.best]));
}

/* Classes that are taken for one another: a matrix of few classes, pictures of pairs, a table. */
function confusionSection(model) {
  const found = model.confusions;
  if (!found || !found.table.rows.length) return null;
  const rows = found.table.rows;
  const pictures = found.examples.some(([query]) => pictureOf("q", query.row));
  const cards = () => el("ul", { class: "confusions" }, ...found.examples.map(([query, item], at) => el("li", {},
    tile({ ...query, label: rows[at][0] }, "q", { about: about({ ...query, label: rows[at][0] }) }), el("span", { "aria-hidden": "true", text: "→" }), tile({ ...item, label: rows[at][1] }, "g", { kind: "wrong", about: about({ ...item, label: rows[at][1] }) }),
    el("p", {}, el("strong", { text: rows[at][0] }), " found ", el("strong", { text: rows[at][1] }), el("small", { text: ` in ${count(rows[at][2])} of ${count(rows[at][3])} queries` })))));
  const table = () => dataTable(found.table);
  return section("confusions", "Confusions", "The class of the query, and the class of the irrelevant item that is found first.",
    found.classes ? confusionMatrix(found) : pictures ? cards() : table(),
    found.classes || pictures ? more("All pairs as a table", table) : null);
}

function confusionMatrix(found) {
  const place = new Map(found.classes.map(([name], at) => [name, at]));
  const names = found.classes.map(([name]) => name);
  const drawn = chart("Confusion matrix: share of the queries of a class by the class found first", () => {
    const z = names.map(() => names.map(() => 0));
    found.table.rows.forEach(([query, item, times, of]) => { if (place.has(item)) z[place.get(query)][place.get(item)] = times / of; });
    return {
      data: [{ type: "heatmap", z, x: names.map(plain), y: names.map(plain), zmin: 0, colorscale: [[0, faint(colour(4), 0)], [1, colour(4)]], xgap: 1, ygap: 1, hovertemplate: "%{y} found %{x}: %{z:.1%}<extra></extra>", colorbar: { tickformat: ".0%", thickness: 10, outlinewidth: 0, tickfont: { color: theme().muted } } }],
      layout: { xaxis: { title: "class found first", type: "category", constrain: "domain", showgrid: false }, yaxis: { title: "class of the query", type: "category", autorange: "reversed", scaleanchor: "x", constrain: "domain", showgrid: false } },
    };
  }, { class: names.length > 16 ? "square" : "map", file: "confusions" });
  return drawn;
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
  return section("severity", "Severity of errors", "Queries whose first item is irrelevant, by the finest level that it shares with the query.",
    el("div", { class: "pair" }, drawn, dataTable(table)));
}

const SYMBOLS = ["circle", "square", "triangle-up"];

function mapSection(model) {
  const found = model.map;
  if (!found) return null;
  const count_ = found.x.length;
  const name = (at) => (found.titles ? found.titles[at] : "row " + found.rows[at]);
  const makeFor = (kind) => () => {
    const groups = kind ? found.kinds[kind].values.map((value, code) => ({ value, code, rows: found.kinds[kind].codes.flatMap((one, at) => (one === code ? [at] : [])) })).filter((one) => one.rows.length) : [{ value: "", code: 0, rows: found.x.map((_, at) => at) }];
    if (kind !== "nearest item") groups.sort((a, b) => b.rows.length - a.rows.length);
    const tint = (at) => (kind === "nearest item" ? [colour(0), colour(4), theme().muted][groups[at].code] : colour(at));
    return { data: groups.map((one, at) => ({
      type: "scatter", mode: "markers", x: one.rows.map((row) => found.x[row]), y: one.rows.map((row) => found.y[row]), name: plain(one.value) + "  " + count(one.rows.length),
      text: one.rows.map((row) => plain(name(row))), hovertemplate: "%{text}<extra>" + plain(one.value) + "</extra>",
      marker: { size: count_ > 1000 ? 5.5 : 7.5, opacity: 0.8, color: tint(at), symbol: SYMBOLS[Math.floor(at / 6) % 3], line: { width: 0.5, color: theme().paper } },
    })), layout: {
      showlegend: Boolean(kind), legend: wideScreen() ? { orientation: "v", x: 1.02, y: 1, xanchor: "left", yanchor: "top", font: { color: theme().text }, itemsizing: "constant" } : { orientation: "h", x: 0, y: -0.12, yanchor: "top", font: { color: theme().text, size: 11 }, itemsizing: "constant" },
      xaxis: { title: found.share ? `first principal axis (${percent(found.share[0], 1)} % of the variance)` : "first coordinate", showticklabels: false, ticks: "", showgrid: false },
      yaxis: { title: found.share ? `second (${percent(found.share[1], 1)} %)` : "second coordinate", showticklabels: false, ticks: "", showgrid: false, scaleanchor: "x" },
    } };
  };
  const kinds = Object.keys(found.kinds);
  const called = (kind) => (kind === "nearest item" ? "By the nearest item" : "By " + levelName(kind));
  const sampled = count_ < found.queries ? ` ${count(count_)} of ${count(found.queries)} queries, evenly spaced.` : "";
  const lead = found.share ? "Queries on the first two principal axes of the embeddings (PCA). Points that overlap here may be far apart on the other axes." : "Each query at the given coordinates.";
  const columns = [{ name: "row", kind: "text" }, { name: found.titles ? "label" : "name", kind: "text" }, { name: "x", kind: "number" }, { name: "y", kind: "number" }];
  return section("map", "Map of the rows", lead + sampled,
    tabs("Colors", (kinds.length ? kinds : [null]).map((kind) => ({ name: kind ? called(kind) : "Rows", make: () => chart("Map of the rows" + (kind ? ", by " + kind : ""), makeFor(kind), { class: "map", file: "map" }) }))),
    el("div", { class: "tools below" }, el("span", { class: "key" }), csvButton("map.csv", () => csvText(columns, found.rows.map((row, at) => [String(row), name(at), found.x[at], found.y[at]])))));
}

/* Data errors that distort scores, and ties. */
function checksSection(model) {
  const audit = model.audit, ties = model.ties;
  if (!audit && !ties) return null;
  const parts = [];
  if (audit) {
    const items = audit.findings.map((one) => el("li", { class: "finding " + one.severity },
      el("span", { class: "badge", text: one.severity }),
      el("div", {}, el("p", { text: one.message }), el("p", { class: "small", text: one.advice + (one.rows.length ? " Rows " + one.rows.map((rows) => rows.join(" and ")).join(", ") + (one.count > one.rows.length ? ", …" : ".") : "") }))));
    const columns = ["name", "severity", "count", "message", "advice", "rows"].map((name) => ({ name, kind: name === "count" ? "count" : "text" }));
    const clean = audit.findings.every((one) => one.severity === "note");
    if (clean) parts.push(el("p", { class: "fine", text: `No error or warning in the ${audit.of}.` }));
    parts.push(items.length ? el("ul", { class: "findings" }, ...items) : null);
    parts.push(el("div", { class: "tools below" }, notes(audit.measured, "What was measured"), csvButton("audit.csv", () => csvText(columns, audit.findings.map((one) => columns.map(({ name }) => (name === "rows" ? one.rows.map((rows) => rows.join(" ")).join("; ") : one[name])))))));
  }
  if (ties) {
    parts.push(el("p", { class: "fine gap", text: ties.tied
      ? `${percent(ties.tied, 2)} % of the items in the rankings of ${count(ties.queries)} queries have exactly the distance of another item.`
      : `No ties: in the rankings of ${count(ties.queries)} queries no two items have the same distance.` }));
    if (ties.tied) parts.push(more("Where in the rankings the ties are", () => tieMap(ties)));
  }
  const other = audit && audit.findings.some((one) => one.message.includes("leave-one-out")) && audit.of === "gallery" ? " Scores named here are those of the gallery searched in itself, not those of this page." : "";
  return section("checks", "Data checks", "Duplicates, leaks, collapsed embeddings and ties: what could make the scores misleading." + other, ...parts);
}

function tieMap(found) {
  const drawn = chart("Tie map: share of tied items by query and rank", () => ({
    data: [{ type: "heatmap", z: found.share, x: found.ranks.map((_, place) => place), y: found.share.map((_, place) => place), customdata: found.share.map(() => found.ranks), zmin: 0, colorscale: [[0, faint(colour(0), 0)], [1, colour(0)]], hovertemplate: "from rank %{customdata}: %{z:.1%} tied<extra></extra>", colorbar: { tickformat: ".0%", thickness: 10, outlinewidth: 0, tickfont: { color: theme().muted } } }],
    layout: { xaxis: { title: "rank (log)", tickmode: "array", tickvals: found.ranks.map((_, place) => place).filter((place) => place % 8 === 0), ticktext: found.ranks.filter((_, place) => place % 8 === 0).map(count) }, yaxis: { title: "queries, in the order of their labels", autorange: "reversed", showticklabels: false, ticks: "" } },
  }), { class: "full", file: "ties" });
  return el("div", {}, drawn, el("p", { class: "note", text: "After Nicolaou et al., 2018." }));
}

function provenanceSection(model) {
  const found = model.provenance;
  if (!found) return null;
  const facts = found.facts.flatMap(([name, text]) => [el("dt", { text: name }), el("dd", { text })]);
  return section("reproduce", "Reproduce", "The same rows and labels give the same numbers to the last bit on any machine. Equal digests mean the same rows and labels.",
    el("dl", { class: "facts columns" }, ...facts),
    found.again ? more("The call in Python", () => el("pre", { tabindex: "0" }, el("code", { text: found.again }))) : null);
}
