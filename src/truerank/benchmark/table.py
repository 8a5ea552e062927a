"""The table of a benchmark: numbers from reruns.csv, with what is needed to believe them.

Its JSON holds no time and no path: the same trainings give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from truerank.benchmark import table_forms
from truerank.benchmark.config import RESERVED, SPLITS, BenchmarkConfig
from truerank.benchmark.deviations import deviations
from truerank.benchmark.groups import compare_methods, over_classes, read_runs, verdict
from truerank.benchmark.layout import DEFAULT, Layout
from truerank.benchmark.linear import TITLE
from truerank.benchmark.looks import read_reruns
from truerank.benchmark.methods import Method, at_border
from truerank.benchmark.openings import Openings
from truerank.benchmark.papers import shown_name, year_of
from truerank.benchmark.plan import Plan
from truerank.benchmark.statistics import PARTS, numbers, spread, trend
from truerank.benchmark.study import BEHIND
from truerank.files import to_json, write_text
from truerank.result import Result

__all__ = ["Table", "make_table"]


@dataclass(frozen=True)
class Table:
    """The finished table; `content` is what table.json holds."""

    content: dict[str, Any]

    def __str__(self) -> str:
        return table_forms.as_text(self.content)

    def _repr_markdown_(self) -> str:
        return table_forms.as_markdown(self.content)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A mapping for each row, in the order of the table."""
        rows: list[dict[str, Any]] = self.content["rows"]
        return rows

    def row(self, method: str) -> dict[str, Any]:
        """The row of a method."""
        return next(row for row in self.rows if row["method"] == method)

    def write(self, layout: Layout) -> None:
        """Write it as JSON, CSV, Markdown and LaTeX."""
        to_json(self.content, layout.table("json"))
        write_text(layout.table("csv"), table_forms.as_csv(self.content))
        write_text(layout.table("md"), table_forms.as_markdown(self.content))
        write_text(layout.table("tex"), table_forms.as_latex(self.content))


def make_table(
    config: BenchmarkConfig,
    layout: Layout,
    methods: Sequence[Method],
    plan: Plan,
    openings: Openings,
) -> Table:
    """Put the table together from the folder's files."""
    found = numbers(read_reruns(layout.reruns))
    metric = config.protocol.metric
    trained = [method for method in methods if method.is_trained]
    runs = read_runs(layout, [one.name for one in trained], plan.reruns, plan.folds)
    compared = {part: compare_methods(runs[part], metric) for part in PARTS}
    linear = config.shared.model.trunk == "frozen"
    rows = [_baseline_row(name, found[name]) for name in RESERVED]
    for method in methods:
        if not method.is_trained:
            rows.append(_finished_row(method, found[method.name]))
            continue
        row = _row(method, found[method.name], plan)
        row["ranks"] = {part: compared[part]["ranks"][method.name] for part in PARTS}
        row["second_looks"] = openings.second_looks(method.name)
        rows.append(row)
    brought = [method.name for method in methods if not method.is_trained]
    beside = read_runs(layout, RESERVED, ["0"], plan.folds), read_runs(layout, brought, ["0"], 0)
    every = {part: runs[part] | beside[0][part] | beside[1][part] for part in PARTS}
    for row in rows:
        _put_classes(row, every)
    protocol = config.protocol
    protocol_rows = [row for row in rows if "parameters" in row]
    content = {
        "title": TITLE if linear else f"{config.data.name}, {config.shared.model.trunk}",
        "lane": "linear" if linear else "end to end",
        "data": config.data.name,
        "split": config.data.split if config.data.split in SPLITS else "file",
        "preset": protocol.preset,
        "folds": protocol.folds,
        "trials": protocol.trials,
        "startup": protocol.startup,
        "reruns": protocol.reruns,
        "seed": protocol.seed,
        "metric": metric,
        "metrics": config.metrics,
        "dimensions": config.shared.model.dimensions,
        "deviations": deviations(config),
        "rows": rows,
        "comparison": {part: {k: compared[part][k] for k in ("pairs", "method")} for part in PARTS},
        "verdict": None if linear else {part: verdict(runs[part], metric) for part in PARTS},
        "spread": {part: spread(protocol_rows, part, metric) for part in PARTS},
        "trend": {part: trend(protocol_rows, part, metric) for part in PARTS},
        "openings": {
            "count": openings.count,
            "second_looks": openings.second_looks(),
            "head": openings.head,
        },
    }
    return Table(content)


def _put_classes(row: dict[str, Any], runs: dict[str, dict[str, list[Result]]]) -> None:
    """Put the interval over test classes beside each score's interval over the reruns."""
    for part in PARTS:
        for metric, score in row[part].items():
            score["classes"] = over_classes(runs[part][row["method"]], metric)


def _baseline_row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "method": name,
        "name": {"untrained": "Untrained", "untrained+pca": "Untrained + PCA"}[name],
        "kind": "untrained",
        **{part: found.get(part, {}) for part in PARTS},
        "notes": [],
    }


def _finished_row(method: Method, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "method": method.name,
        "name": method.name,
        "kind": "finished",
        **{part: found.get(part, {}) for part in PARTS},
        "notes": ["outside the protocol"],
    }


def _row(method: Method, found: dict[str, Any], plan: Plan) -> dict[str, Any]:
    best = plan.studies.best(method.name)
    trials = plan.studies.finished(method.name)
    borders = {
        name: border
        for name, value in best.parameters.items()
        if (border := at_border(method.space[name], value)) is not None
    }
    again = [
        outcome
        for rerun in plan.reruns
        if rerun != DEFAULT
        for outcome in plan.outcomes(method.name, rerun)
    ]
    notes = []
    if method.objective is not None:
        goal = method.objective
        notes.append(
            f"searched for the smallest {goal.minimise} that keeps up with {goal.of} less "
            f"{100 * goal.less:g} points"
        )
        if best.score is not None and best.score <= BEHIND:
            notes.append("no trial kept up")
    for name, border in borders.items():
        notes.append(f"{name} at the {border} end of its range")
    diverged = sum(trial.state == "diverged" for trial in trials)
    if diverged:
        notes.append(f"{diverged} of {len(trials)} trials diverged")
    lost = sum(outcome.state == "diverged" for outcome in again)
    if lost:
        notes.append(f"{lost} of {len(again)} trainings of the reruns diverged")
    idle = sum(outcome.best_epoch == 0 for outcome in again)
    if idle:
        notes.append(f"{idle} of {len(again)} trainings were best before they began")
    return {
        "method": method.name,
        "name": shown_name(method),
        "year": year_of(method),
        "kind": method.kind,
        **{part: found.get(part, {}) for part in PARTS},
        "default": {part: found.get(f"default {part}", {}) for part in PARTS},
        "validation": {
            "score": best.score,
            "default": trials[0].score,
            "best_trial": best.number,
        },
        "parameters": best.parameters,
        "default_parameters": dict(method.defaults),
        "borders": borders,
        "diverged_trials": diverged,
        "notes": notes,
    }
