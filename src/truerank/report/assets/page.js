"use strict";
/* The page: sections of the chosen model, and what is about all of them. */

const DATA = JSON.parse(document.getElementById("data").textContent);
const LINKS = { scores: "Scores", comparison: "Comparison", "head-to-head": "Head-to-head", curves: "Curves", threshold: "Threshold", classes: "Classes", confusions: "Confusions", queries: "Queries", severity: "Severity", map: "Map", checks: "Checks", reproduce: "Reproduce" };

function show(number) {
  const model = DATA.models[number];
  forgetCharts();
  sliderListeners.length = 0;
  sliderValues = null;
  const several = DATA.models.length > 1;
  whose = several ? model.name : "";
  const parts = [];
  if (model) {
    const threshold = DATA.sections.includes("threshold") ? thresholdSection(model) : null; /* curves mark where its slider stands */
    const own = [queriesSection(model), threshold, partsSection(model), confusionSection(model), severitySection(model), mapSection(model), checksSection(model), provenanceSection(model)];
    const [curves, scores] = [curvesSection(model), scoresSection(model, several)];
    parts.push(...comparisonSections(DATA.comparison), ...(several ? [curves, own[0], scores] : [scores, own[0], curves]), ...own.slice(1));
    document.getElementById("facts").replaceChildren(el("dl", { class: "chips" }, ...model.facts.map(([name, text]) => el("div", {}, el("dt", { text: name }), el("dd", { text })))));
  }
  const sections = parts.filter((one) => one && DATA.sections.includes(one.id));
  sections.push(...benchmarkSections(DATA.benchmarks));
  document.getElementById("main").replaceChildren(...sections);
  document.getElementById("links").replaceChildren(...sections.map((one) => el("li", {}, el("a", { href: "#" + one.id, text: LINKS[one.id] || "Benchmark" }))));
  if (several) {
    const choice = el("select", { id: "model", on: { change: () => { const top = scrollY; show(Number(choice.value)); scrollTo(0, top); document.getElementById("model").focus(); } } },
      ...DATA.models.map((one, place) => el("option", { value: place, text: one.name, selected: place === number })));
    document.getElementById("switch").replaceChildren(el("label", { for: "model", class: "hidden", text: "Model" }), choice);
  }
}

show(0);
