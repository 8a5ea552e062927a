"use strict";
/* Several models: a forest table of differences, and who solves which query; and benchmarks. */

/* Round ticks that cover a range, about five of them. */
function ticks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
  const found = [];
  for (let at = Math.floor(low / step); at <= Math.ceil(high / step); at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/* A row for each metric: both scores, and the difference where it lies between all others. */
function forest(found, pair) {
  const [first, second] = pair.split("\u0000");
  const mine = found.rows.map((row, at) => ({ row, at })).filter(({ row }) => row[1] === first && row[2] === second);
  const ends = mine.flatMap(({ at }) => (found.places[at] || []).filter((one) => one !== null).map((one) => 100 * one));
  const marks = ticks(Math.min(0, ...ends), Math.max(0, ...ends));
  const [low, high] = [marks[0], marks[marks.length - 1]];
  const left = (share) => ((100 * share - low) / (high - low)) * 100;
  const axis = el("span", { class: "axis", "aria-hidden": "true" }, ...marks.map((one) => el("i", { class: one ? null : "origin", style: { left: left(one / 100) + "%" }, text: (one > 0 ? "+" : one < 0 ? "−" : "") + Math.abs(one) })));
  const rows = mine.map(({ row, at }) => {
    const sure = row[7].endsWith("is better");
    const plot = el("span", { class: "forest" + (sure ? " sure" : ""), "aria-hidden": "true", title: row[7] }, el("i", { class: "zero", style: { left: left(0) + "%" } }));
    const place = found.places[at];
    if (place) {
      if (place[1] !== null) plot.append(el("i", { class: "range", style: { left: left(place[1]) + "%", width: left(place[2]) - left(place[1]) + "%" } }));
      plot.append(el("i", { class: "dot", style: { left: left(place[0]) + "%" } }));
    }
    const better = (name) => (row[7] === name + " is better" ? "number best" : "number");
    return el("tr", {},
      el("th", { scope: "row", title: found.words[at], text: row[0] }),
      el("td", { class: better(first), text: found.scores[at][0] }), el("td", { class: better(second), text: found.scores[at][1] }),
      el("td", { class: "plot" }, plot),
      el("td", { class: "number difference", text: row[3].replace("-", "−") }),
      el("td", { class: "number wide", text: row[4].replace(/-/g, "−") || DASH }),
      el("td", { class: "number wide", text: row[6] || "no test" }));
  });
  const head = (text, kind) => el("th", { scope: "col", class: kind, text, title: text });
  return el("div", { class: "table" },
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences" },
      el("table", { class: "forests" },
        el("thead", {}, el("tr", {}, head("metric (%)", null), head(first, "number model"), head(second, "number model"), el("th", { scope: "col", class: "plot", "aria-label": "Difference in points" }, axis), head("difference", "number difference"), head(found.confidence + " interval", "number wide"), head("p (Holm)", "number wide"))),
        el("tbody", {}, ...rows))),
    el("div", { class: "tools below" }, collapsed(rows), el("span", { class: "key" }, el("span", {}, el("i", { class: "dot sure" }), "significant"), el("span", {}, el("i", { class: "dot" }), "not significant or not tested"), el("span", { text: first + " minus " + second + ", in points" })),
      csvButton(found.file, () => csvText(found.columns, found.rows))));
}

function pairsOf(table) {
  return [...new Set(table.rows.map((row) => row[1] + "\u0000" + row[2]))];
}

function solvedView(pair, columns) {
  const kinds = [["both", pair.both], ["only " + pair.first, pair.only_first], ["only " + pair.second, pair.only_second], ["neither", pair.neither]];
  const total = kinds.reduce((sum, [, number]) => sum + number, 0);
  const table = (name, rows, all) => ({
    title: "Only " + name, file: "solved-by-one.csv", sorted: null, rows,
    note: rows.length < all ? `The first ${count(rows.length)} of ${count(all)}.` : "",
    columns: columns.map((one) => ({ name: one, kind: one === "query" ? "count" : "text" })),
  });
  const bar = el("div", { class: "shares", "aria-hidden": "true" }, ...kinds.map(([, number], at) => el("i", { class: "share" + at, style: { width: (total ? (100 * number) / total : 0) + "%" } })));
  const legend = el("dl", { class: "solved" }, ...kinds.map(([name, number], at) => el("div", {}, el("dt", {}, el("i", { class: "share" + at, "aria-hidden": "true" }), name), el("dd", { text: count(number) }), el("dd", { class: "small", text: percent(total ? number / total : null, 1) + " %" }))));
  const sides = [[pair.first, pair.first_list, pair.only_first, 0], [pair.second, pair.second_list, pair.only_second, 1]];
  const shown = pair.strips && sides.some(([, , , side]) => pair.strips[side].length);
  return el("div", {}, bar, legend,
    shown ? el("div", { class: "pair" }, ...sides.map(([name, , all, side]) => el("div", {},
      el("h3", { text: all ? "Solved only by " + name + ", largest differences first" : "No query is solved only by " + name }),
      ...pair.strips[side].map((both) => versus(both, [pair.first, pair.second]))))) : null,
    more("Lists of these queries", () => el("div", { class: "pair" }, ...sides.map(([name, list, all]) => el("div", {}, el("h3", { text: "Only " + name }), dataTable(table(name, list, all)))))));
}

/* One query, and what each of two models finds first. */
function versus(both, names) {
  const query = both.first;
  return el("article", { class: "query versus" },
    el("div", { class: "asked" }, tile(query, "q", { about: about(query) }), el("p", { class: "small", text: titleOf(query) })),
    el("div", {}, ...[both.first, both.second].map((one, at) => el("div", { class: "by" },
      el("p", { class: "small", text: names[at] + (one.first_mate > 1 ? `: first relevant item at rank ${count(one.first_mate)}` : "") }),
      tiles(one, 5)))));
}

function comparisonSections(found) {
  if (!found) return [];
  const differences = tabs("Pairs of models", pairsOf(found.differences).map((pair) => ({ name: pair.split("\u0000").join(" – "), make: () => forest(found.differences, pair) })));
  const parts = [section("comparison", "Comparison", null, differences,
    found.scores ? more("Scores, and models without a significant difference", () => el("div", {}, el("p", { class: "lead", text: "Models that share a letter have no significant difference in that metric." }), dataTable(found.scores))) : null,
    notes(found.notes))];
  if (found.solved) {
    parts.push(section("head-to-head", "Head-to-head", "A query is solved if its nearest item is relevant, and no irrelevant item is at the same distance.",
      tabs("Pairs of models", found.solved.pairs.map((pair) => ({ name: pair.first + " – " + pair.second, make: () => solvedView(pair, found.solved.columns) })))));
  }
  return parts;
}

function benchmarkSections(benchmarks) {
  return benchmarks.map((one, place) => section("benchmark-" + place, "Benchmark " + one.name, null,
    tabs("Tables", one.tables.map((table) => ({ name: table.title, make: () => dataTable(table) }))),
    notes(one.notes),
    el("div", { class: "figures" }, ...one.figures.map((figure) => el("figure", { class: "card paper" }, el("figcaption", {}, el("h3", { text: figure.name.replace(/[_-]/g, " ") })), el("img", { src: figure.image, alt: figure.name }))))));
}
