"""Forest plots: scores of models with their intervals, or differences of models, by metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from truerank._util.errors import InputError
from truerank._util.text import LOWER
from truerank.analysis.compare import Comparison
from truerank.core import registry
from truerank.core.registry import display_name
from truerank.plots.display import (
    COLOURS,
    GREY,
    SIZE,
    PlotDisplay,
    add_legend,
    check_matplotlib,
    colours,
    foreground,
    new_axes,
    percent_axis,
    plain_text,
    tidy,
)
from truerank.result.result import Result

LINE = 0.17
ROW = 0.08
"""Inches for each line, and for each of its intervals."""
ABOVE_ONE = 0.16
"""How far above its mean a model's runs are drawn, in rows."""


@dataclass(frozen=True)
class ForestRow:
    """A value with its interval, on one line of a figure."""

    line: str
    """What is written beside the line; rows of one line stand below each other."""
    series: str
    """What the legend calls it."""
    value: float
    interval: tuple[float, float] | None
    colour: int = 0
    sure: bool | None = True
    """False for a hollow marker, None for a cross: of a difference without a test."""
    runs: tuple[float, ...] = ()
    """Values of single runs, if there are several."""


@dataclass
class ForestDisplay(PlotDisplay):
    """A figure of values with intervals; `plot` draws it, into axes of yours or new ones."""

    rows: list[ForestRow]
    """From top to bottom."""
    axis: str
    """What is written below."""
    percent: bool = True
    zero: bool = False
    """Whether a line marks 0."""
    interval: str = "interval"

    def plot(self, ax: Any = None) -> ForestDisplay:
        """Draw, and return this display."""
        lines = list(dict.fromkeys(row.line for row in self.rows))
        size = (SIZE[0], 0.95 + LINE * max(3, len(lines)) + ROW * len(self.rows))
        self.ax_ = axes = new_axes(size) if ax is None else ax
        self.figure_ = axes.figure
        if self.zero:
            axes.axvline(0.0, color=foreground(axes), linewidth=0.8)
        for place, line in enumerate(lines):
            mine = [row for row in self.rows if row.line == line]
            for number, row in enumerate(mine):
                self._row(place + 0.7 * ((number + 0.5) / len(mine) - 0.5), row)
        for text in axes.set_yticks(range(len(lines)), lines):
            plain_text(text.label1)
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_xlabel(self.axis, loc="right")
        if self.percent and not self.zero:
            low, high = axes.get_xlim()
            axes.set_xlim(max(low, -0.02), min(high, 1.02))
        if self.percent:
            percent_axis(axes.xaxis, "" if self.zero else " %")
        tidy(axes)
        if self.interval in self._named:
            self._named[self.interval] = self._named.pop(self.interval)  # the last name
        lower = any(line.endswith(LOWER) for line in lines)
        add_legend(axes, self._named, f"{LOWER} lower is better" if lower else "", grow=ax is None)
        return self

    def _row(self, at: float, row: ForestRow) -> None:
        """A marker with its interval, and the runs above it."""
        from matplotlib.lines import Line2D

        axes = self.ax_
        palette = colours(axes)
        colour = palette[row.colour % len(COLOURS)] if row.sure else GREY
        if row.runs:
            (drawn,) = axes.plot(
                row.runs, [at - ABOVE_ONE] * len(row.runs), "o", color=palette[1], markersize=3.5,
                alpha=0.8,
            )  # fmt: skip
            self._named.setdefault("runs", drawn)
        if row.interval is not None:
            axes.plot(row.interval, [at, at], color=colour, linewidth=1.8, solid_capstyle="butt")
        (drawn,) = axes.plot(
            [row.value], [at], "x" if row.sure is None else "o", color=colour, markersize=4.5,
            markeredgewidth=1.3, markerfacecolor=colour if row.sure else axes.get_facecolor(),
        )  # fmt: skip
        self._named.setdefault(row.series, drawn)
        if row.interval is not None and self.interval not in self._named:
            self._named[self.interval] = Line2D([], [], color=foreground(axes), linewidth=1.8)


def forest(
    results: Sequence[Result], names: Sequence[str], *, metric: Any = None, ax: Any = None
) -> ForestDisplay:
    """Draw the scores of models in several metrics, each with its interval.

    `metric` names the metrics; by default all shares that every result has.
    """
    check_matplotlib(ax)
    held = [name for name in results[0] if all(name in result for result in results)]
    chosen = _shares(held) if metric is None else registry.parse_among(_several(metric), held)
    rows = [
        ForestRow(
            _line(one), name if len(results) > 1 else "score", score.value, score.interval, number
        )
        for one in chosen
        for number, (name, result) in enumerate(zip(names, results, strict=True))
        for score in [result[one]]
        if score.reason is None
    ]
    facts = results[0].provenance.get("intervals") or {}
    return ForestDisplay(
        rows, "score", percent=_is_share(chosen), interval=_interval(facts.get("confidence"))
    ).plot(ax)


def forest_of_models(comparison: Comparison, metric: str, ax: Any = None) -> ForestDisplay:
    """Draw the models of a comparison in one metric: mean, interval and a dot for each run."""
    check_matplotlib(ax)
    (chosen,) = _compared(comparison, [str(registry.parse(metric))])
    held = {row.model: row for row in comparison.standings if row.metric == chosen}
    several = any(row.runs > 1 for row in held.values())
    rows = [
        ForestRow(
            name, "mean of the runs" if several else "score", row.value, row.interval,
            runs=row.values if row.runs > 1 else (),
        )
        for name in comparison.models
        for row in [held[name]]
    ]  # fmt: skip
    confidence = next((row.confidence for row in held.values() if row.interval), None)
    return ForestDisplay(
        rows, _line(chosen), percent=_is_share([chosen]), interval=_interval(confidence)
    ).plot(ax)


def forest_of_differences(
    comparison: Comparison, metric: Any = None, ax: Any = None
) -> ForestDisplay:
    """Draw the differences of the models of a comparison, a line per metric and pair of models.

    The colour is that of the better model. A hollow marker is no significant difference, after
    Holm's correction; a cross is a difference without a test.
    """
    check_matplotlib(ax)
    names = list(dict.fromkeys(row.metric for row in comparison.differences))
    chosen = _shares(names) if metric is None else _compared(comparison, _several(metric))
    rows = []
    for row in comparison.differences:
        if row.metric not in chosen:
            continue
        higher = registry.find(row.metric).higher_is_better
        better = row.first if (row.value > 0) == higher else row.second
        sure = None if row.adjusted_p is None else row.adjusted_p < 1 - comparison.confidence
        series = "no significant difference" if sure is False else "no test"
        line = _line(row.metric)
        if len(comparison.models) > 2:
            line += f": {row.first} - {row.second}"
        rows.append(
            ForestRow(
                line, f"{better} is better" if sure else series, row.value, row.interval,
                comparison.models.index(better), sure,
            )
        )  # fmt: skip
    pair = "first minus second model"
    if len(comparison.models) == 2:
        pair = f"{comparison.differences[0].first} minus {comparison.differences[0].second}"
    share = _is_share(chosen)
    return ForestDisplay(
        rows, f"{pair}{', percentage points' if share else ''}", percent=share, zero=True,
        interval=_interval(comparison.confidence),
    ).plot(ax)  # fmt: skip


def _line(metric: str) -> str:
    """The name of a metric beside its line."""
    name = display_name(metric)
    return name if registry.find(metric).higher_is_better else f"{name} {LOWER}"


def _interval(confidence: Any) -> str:
    return f"{100 * confidence:g} % interval" if isinstance(confidence, float) else "interval"


def _several(metric: str | Iterable[str]) -> list[str]:
    return [str(one) for one in registry.parse_all(metric)]


def _compared(comparison: Comparison, metrics: list[str]) -> list[str]:
    """These metrics; refused if one of them is not compared."""
    known = list(dict.fromkeys(row.metric for row in comparison.standings))
    for name in metrics:
        if name not in known:
            raise InputError(f"{name} is not compared here; there are {', '.join(known)}.")
    return metrics


def _is_share(metrics: Iterable[str]) -> bool:
    return all(registry.find(name).unit == "share" for name in metrics)


def _shares(metrics: list[str]) -> list[str]:
    """The metrics that are shares: thresholds have another axis."""
    return [name for name in metrics if _is_share([name])] or metrics
