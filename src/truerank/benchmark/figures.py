"""Figures of a benchmark as SVG and PNG: gains, history, sensitivity, learning curves, reruns.

Without matplotlib nothing is drawn, and a warning says so; a later --resume draws what is missing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import DEFAULT, Layout
from truerank.benchmark.methods import Method
from truerank.benchmark.papers import CLAIMED, SOURCE, shown_name
from truerank.benchmark.plan import Plan
from truerank.benchmark.statistics import PARTS
from truerank.benchmark.table import Table
from truerank.errors import TruerankWarning
from truerank.files import atomic_path
from truerank.losses.registry import SearchRange

__all__ = ["draw_figures", "search_figures"]

COLOURS = {"concatenated": "#d55e00", "separated": "#0072b2"}  # told apart by colour-blind eyes
KINDS = ("svg", "png")


def draw_figures(
    config: BenchmarkConfig,
    layout: Layout,
    methods: Sequence[Method],
    plan: Plan,
    table: Table,
) -> None:
    """Draw all figures into the folder `figures`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        warnings.warn(
            "no figures were drawn: they need matplotlib (pip install matplotlib).",
            TruerankWarning,
            stacklevel=3,
        )
        return
    trained = [method for method in methods if method.is_trained]
    metric = config.protocol.metric
    layout.figures.mkdir(exist_ok=True)
    drawn: dict[str, Any] = {}
    for baseline in ("contrastive", "triplet"):
        if any(method.name == baseline for method in trained) and len(trained) > 1:
            drawn[f"gain_over_{baseline}"] = _gains(Figure, table, baseline, metric)
    drawn["reruns"] = _reruns(Figure, table, metric)
    drawn["curves"] = _curves(Figure, trained, plan, metric)
    drawn |= search_figures(Figure, plan)
    for name, figure in drawn.items():
        for kind in KINDS:
            with atomic_path(layout.figures / f"{name}.{kind}") as partial:
                figure.savefig(partial, format=kind, dpi=150, bbox_inches="tight")


def search_figures(figure_class: Any, plan: Plan) -> dict[str, Any]:
    """Figures that need the searches alone, by name: their history, and what parameters do."""
    metric = plan.config.protocol.metric
    drawn = {"search": _history(figure_class, plan.methods, plan, metric)}
    for method in plan.methods:
        if method.space:
            name = f"sensitivity-{method.name}"
            drawn[name] = _sensitivity(figure_class, method, plan, metric)
    return drawn


def _rows(table: Table) -> list[dict[str, Any]]:
    return [row for row in table.rows if "parameters" in row]


def _gains(figure_class: Any, table: Table, baseline: str, metric: str) -> Any:
    """Relative improvement over a baseline, as the paper's Figure 5."""
    rows = [row for row in _rows(table) if row["method"] != baseline]
    base = table.row(baseline)
    figure = figure_class(figsize=(max(5.0, 0.6 * len(rows)), 3.6))
    axes = figure.subplots()
    for place, part in enumerate(PARTS):
        below = base[part][metric]["mean"]
        values = [
            100 * (row[part][metric]["mean"] / below - 1) if below else math.nan for row in rows
        ]
        at = [number + 0.4 * (place - 0.5) for number in range(len(rows))]
        axes.bar(at, values, 0.38, color=COLOURS[part], label=part)
    axes.axhline(0, color="black", linewidth=0.8)
    claimed = 100 * CLAIMED[baseline]
    source = f"{SOURCE.partition(',')[0]} et al. 2020"
    axes.axhline(
        claimed, color="grey", linestyle="--", linewidth=1,
        label=f"many papers claim more than this ({source})",
    )  # fmt: skip
    axes.set_xticks(range(len(rows)), [row["name"] for row in rows], rotation=45, ha="right")
    axes.set_ylabel(f"{metric} over {baseline} [%]")
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    return figure


def _reruns(figure_class: Any, table: Table, metric: str) -> Any:
    """A dot for each rerun, with its mean and interval; default parameters as a cross."""
    rows = _rows(table)
    figure = figure_class(figsize=(9, 0.6 + 0.32 * len(rows)))
    for axes, part in zip(figure.subplots(1, 2, sharey=True), PARTS, strict=True):
        for number, row in enumerate(rows):
            score = row[part][metric]
            values = [100 * value for value in score["values"]]
            axes.plot(values, [number] * len(values), "o", color=COLOURS[part], alpha=0.5)
            axes.plot([100 * score["mean"]], [number], "|", color="black", markersize=12)
            if score["interval"] is not None:
                axes.hlines(number, *(100 * end for end in score["interval"]), color="black")
            default = row["default"][part].get(metric)
            if default is not None:
                axes.plot([100 * default["mean"]], [number], "x", color="grey")
        for row in (one for one in table.rows if one["kind"] == "untrained"):
            if metric in row[part]:
                axes.axvline(100 * row[part][metric]["mean"], color="grey", linestyle=":")
        axes.set_title(f"{part} (cross: default parameters; dots: reruns)", fontsize=8)
        axes.set_xlabel(f"{metric} [%]")
        axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
    return figure


def _panels(figure_class: Any, count: int) -> tuple[Any, list[Any]]:
    columns = min(4, count)
    lines = -(-count // columns)
    figure = figure_class(figsize=(3 * columns, 2.2 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for extra in panels[count:]:
        extra.axis("off")
    return figure, panels[:count]


def _history(figure_class: Any, methods: Sequence[Method], plan: Plan, metric: str) -> Any:
    """Every trial's score, and the best so far."""
    figure, panels = _panels(figure_class, len(methods))
    for axes, method in zip(panels, methods, strict=True):
        scores = [100 * (trial.score or 0.0) for trial in plan.studies.finished(method.name)]
        best = [max(scores[: number + 1]) for number in range(len(scores))]
        axes.plot(scores, "o", markersize=3, color=COLOURS["separated"])
        axes.step(range(len(best)), best, where="post", color="black", linewidth=1)
        axes.set_title(shown_name(method), fontsize=9)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("trial", fontsize=8)
        axes.set_ylabel(_searched(method, metric), fontsize=7)
    return figure


def _searched(method: Method, metric: str) -> str:
    """What a search raises, as an axis has it."""
    if method.objective is None:
        return f"validation {metric} [%]"
    return f"- 100 x validation {method.objective.minimise}"


def _curves(figure_class: Any, methods: Sequence[Method], plan: Plan, metric: str) -> Any:
    """The validation metric of the reruns' trainings over the epochs."""
    figure, panels = _panels(figure_class, len(methods))
    for axes, method in zip(panels, methods, strict=True):
        for rerun in plan.reruns:
            if rerun == DEFAULT:
                continue
            for outcome in plan.outcomes(method.name, rerun):
                points = [(point[0], point[2]) for point in outcome.curve if point[2] is not None]
                axes.plot(
                    [epoch for epoch, _ in points],
                    [100 * value for _, value in points],
                    color=COLOURS["separated"], alpha=0.5, linewidth=0.8,
                )  # fmt: skip
        axes.set_title(shown_name(method), fontsize=9)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("epoch", fontsize=8)
        axes.set_ylabel(f"validation {metric} [%]", fontsize=7)
    return figure


def _sensitivity(figure_class: Any, method: Method, plan: Plan, metric: str) -> Any:
    """A trial's score over each parameter."""
    figure, panels = _panels(figure_class, len(method.space))
    trials = plan.studies.finished(method.name)
    best = plan.studies.best(method.name)
    for axes, (name, space) in zip(panels, method.space.items(), strict=True):
        is_range = isinstance(space, SearchRange)
        values = [trial.parameters[name] for trial in trials]
        shown = values if is_range else [str(value) for value in values]
        axes.plot(shown, [100 * (trial.score or 0.0) for trial in trials], "o", markersize=3,
                  color=COLOURS["separated"])  # fmt: skip
        here = best.parameters[name]
        axes.plot(
            [here if is_range else str(here)], [100 * (best.score or 0.0)], "*", color="black"
        )
        if isinstance(space, SearchRange):
            if space.log:
                axes.set_xscale("log")
            axes.set_xlim(space.low, space.high)
        axes.set_xlabel(name, fontsize=8)
        axes.set_ylabel(_searched(method, metric), fontsize=7)
    figure.suptitle(shown_name(method), fontsize=9)
    return figure
