"use strict";
/* Several models: differences, groups, and who solves which query; and benchmarks. */

function differencesChart(found) {
  const table = found.differences;
  const pairs = [...new Set(table.rows.map((row) => row[1] + "\u0000" + row[2]))];
  const makeFor = (pair) => () => {
    const rows = table.rows.map((row, place) => [row, table.places[place]]).filter(([row, at]) => at && at[0] !== null && row[1] + "\u0000" + row[2] === pair);
    const [first, second] = pair.split("\u0000");
    const sure = (row) => row[7].endsWith("is better");
    const x = rows.map(([, at]) => 100 * at[0]);
    return { data: [{
      x, y: rows.map(([row]) => plain(row[0])), mode: "markers", marker: { size: 10, color: rows.map(([row]) => (sure(row) ? colour(0) : theme().paper)), line: { color: colour(0), width: 2 } },
      error_x: { type: "data", symmetric: false, array: rows.map(([, at], place) => (at[2] === null ? 0 : 100 * at[2] - x[place])), arrayminus: rows.map(([, at], place) => (at[1] === null ? 0 : x[place] - 100 * at[1])), color: colour(0), thickness: 2, width: 4 },
      text: rows.map(([row]) => plain(row[7])), hovertemplate: "%{y}: %{x:+.2f} points<br>%{text}<extra></extra>",
    }], layout: {
      xaxis: { title: plain(first) + " minus " + plain(second) + ", points" }, yaxis: { type: "category", autorange: "reversed" },
      shapes: [{ type: "line", x0: 0, x1: 0, y0: 0, y1: 1, yref: "paper", line: { color: theme().muted, width: 1, dash: "dot" } }],
    } };
  };
  return tabs("Pairs of models", pairs.map((pair) => ({ name: pair.split("\u0000").join(" – "), make: () => chart("Differences with their intervals", makeFor(pair), { class: "tall full", file: "differences" }) })));
}

function solvedView(pair, columns) {
  const kinds = [["both solve", pair.both], ["only " + pair.first, pair.only_first], ["only " + pair.second, pair.only_second], ["neither", pair.neither]];
  const total = kinds.reduce((sum, [, number]) => sum + number, 0);
  const table = (name, rows, all) => ({
    title: "Only " + name + " solves", file: "solved-by-one.csv", sorted: null, rows,
    note: rows.length < all ? `The first ${count(rows.length)} of ${count(all)}.` : "",
    columns: columns.map((one) => ({ name: one, kind: one === "query" ? "count" : "text" })),
  });
  const tiles = kinds.map(([name, number]) => el("div", { class: "tile" }, el("dt", { text: name }), el("dd", { text: count(number) }), el("p", { text: percent(total ? number / total : null, 1) + " % of the queries" })));
  return el("div", {}, el("dl", { class: "tiles four" }, ...tiles),
    el("div", { class: "pair" },
      el("div", {}, el("h3", { text: "Only " + pair.first }), dataTable(table(pair.first, pair.first_list, pair.only_first), { page: 8 })),
      el("div", {}, el("h3", { text: "Only " + pair.second }), dataTable(table(pair.second, pair.second_list, pair.only_second), { page: 8 }))));
}

function comparisonSections(found) {
  if (!found) return [];
  const parts = [section("comparison", "Comparison", "Differences, paired over the same classes, with their intervals. A hollow dot is a difference that chance may have made, or that could not be tested.",
    differencesChart(found), el("div", { class: "gap" }, dataTable(found.differences, { page: 20 })),
    el("div", { class: "gap" }, el("h3", { text: "Groups" }),
      el("p", { class: "lead", text: "Models that share a letter have no significant difference in that metric." }),
      dataTable(found.scores, { page: 20 })), notes(found.notes))];
  if (found.solved) {
    parts.push(section("solved", "Who solves which query", "A query is solved if the nearest item is relevant, ties counted as misses.",
      tabs("Pairs of models", found.solved.pairs.map((pair) => ({ name: pair.first + " – " + pair.second, make: () => solvedView(pair, found.solved.columns) })))));
  }
  return parts;
}

function benchmarkSections(benchmarks) {
  return benchmarks.map((one, place) => section("benchmark-" + place, "Benchmark " + one.name, null,
    tabs("Tables", one.tables.map((table) => ({ name: table.title, make: () => dataTable(table, { page: 40 }) }))),
    notes(one.notes),
    el("div", { class: "figures" }, ...one.figures.map((figure) => el("figure", { class: "card paper" }, el("figcaption", {}, el("h3", { text: figure.name.replace(/[_-]/g, " ") })), el("img", { src: figure.image, alt: figure.name }))))));
}
