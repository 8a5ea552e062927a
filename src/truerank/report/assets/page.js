"use strict";
/* The page: sections of the chosen model, and what is about all of them. */

const DATA = JSON.parse(document.getElementById("data").textContent);
const LINKS = { scores: "Scores", comparison: "Comparison", solved: "Solved", curves: "Curves", threshold: "Threshold", classes: "Classes", confused: "Confused", queries: "Queries", severity: "Severity", map: "Map", ties: "Ties", audit: "Audit", provenance: "Again" };

function curvesSection(model) {
  const made = curveCharts(DATA.models, model);
  if (!made.length) return null;
  return section("curves", "Curves", DATA.models.length > 1 ? "All models on the same axes." : null, el("div", { class: "cards" }, ...made));
}

function show(number) {
  const model = DATA.models[number];
  forgetCharts();
  sliderListeners.length = 0;
  sliderValues = null;
  const several = DATA.models.length > 1;
  whose = several ? model.name : "";
  const parts = [];
  if (model) {
    const threshold = thresholdSection(model);
    const own = [scoresSection(model), threshold, partsSection(model), confusionSection(model), queriesSection(model), severitySection(model), mapSection(model), tiesSection(model), auditSection(model), provenanceSection(model)];
    const curves = curvesSection(model);
    parts.push(...comparisonSections(DATA.comparison), ...(several ? [curves, own[0]] : [own[0], curves]), ...own.slice(1));
    document.getElementById("facts").replaceChildren(el("dl", { class: "chips" }, ...model.facts.map(([name, text]) => el("div", {}, el("dt", { text: name }), el("dd", { text })))));
  }
  parts.push(...benchmarkSections(DATA.benchmarks));
  const sections = parts.filter(Boolean);
  document.getElementById("main").replaceChildren(...sections);
  document.getElementById("links").replaceChildren(...sections.map((one) => el("li", {}, el("a", { href: "#" + one.id, text: LINKS[one.id] || "Benchmark" }))));
  if (several) {
    const choice = el("select", { id: "model", on: { change: () => { const top = scrollY; show(Number(choice.value)); scrollTo(0, top); document.getElementById("model").focus(); } } },
      ...DATA.models.map((one, place) => el("option", { value: place, text: one.name, selected: place === number })));
    document.getElementById("switch").replaceChildren(el("label", { for: "model", text: "Model" }), choice);
  }
}

show(0);
