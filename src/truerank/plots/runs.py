"""Display of models x runs in one metric: a dot per run, the mean of a model, its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from truerank._util.errors import InputError
from truerank._util.text import LOWER, visible
from truerank.analysis.compare import Comparison
from truerank.analysis.differences import Standing
from truerank.core import registry
from truerank.core.registry import field_names
from truerank.plots.display import COLOURS, SIZE, check_matplotlib, new_axes, plain_text, tidy

ROW = 0.32
"""Inches for each model."""
ABOVE_ONE = 0.16
"""How far above its mean's line a model's runs are drawn, in rows."""


@dataclass
class RunsDisplay:
    """A figure of the runs of models; `plot` draws it, into axes of yours or new ones."""

    metric: str
    rows: list[Standing]
    """The models, from top to bottom."""
    ax_: Any = None
    """The matplotlib axes, once it is drawn."""
    figure_: Any = None

    def plot(self, ax: Any = None) -> RunsDisplay:
        """Draw, and return this display."""
        from matplotlib.ticker import PercentFormatter

        self.ax_ = axes = new_axes(size_of(len(self.rows))) if ax is None else ax
        self.figure_ = axes.figure
        for place, row in enumerate(self.rows):
            self._row(place, row)
        names = axes.set_yticks(range(len(self.rows)), [visible(row.model) for row in self.rows])
        for text in names:
            plain_text(text.label1)
        axes.set_ylim(len(self.rows) - 0.5, -0.5)
        known = registry.find(self.metric)
        name = field_names([self.metric])[self.metric]
        axes.set_xlabel(name if known.higher_is_better else f"{name} {LOWER}")
        if known.unit == "share":
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
        tidy(axes)
        legend = axes.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=7
        )
        for text in legend.get_texts():
            plain_text(text)
        return self

    def _row(self, place: int, row: Standing) -> None:
        """One model; what a legend says once is labelled where it first occurs."""
        axes = self.ax_
        if row.interval is not None:
            level = "" if row.confidence is None else f"{100 * row.confidence:g} % "
            axes.plot(
                row.interval, [place, place], color=COLOURS[0], linewidth=1.6,
                solid_capstyle="butt", label=self._once(f"{level}interval"),
            )  # fmt: skip
        if row.runs > 1:
            axes.plot(
                row.values, [place - ABOVE_ONE] * len(row.values), "o", color=COLOURS[1],
                markersize=3.5, alpha=0.8, linestyle="none", label=self._once("runs"),
            )  # fmt: skip
        several = any(one.runs > 1 for one in self.rows)
        axes.plot(
            [row.value], [place], "D", color=COLOURS[0], markersize=5, linestyle="none",
            label=self._once("mean" if several else "score"),
        )  # fmt: skip

    def _once(self, label: str) -> str | None:
        """A label that no line has yet; matplotlib leaves None out of a legend."""
        return None if label in self.ax_.get_legend_handles_labels()[1] else label


def size_of(models: int) -> tuple[float, float]:
    """Inches of a figure with so many models."""
    return SIZE[0], 1.0 + ROW * max(2, models)


def plot_runs(comparison: Comparison, metric: str | None = None, ax: Any = None) -> RunsDisplay:
    """Draw the runs of the models of a comparison in one metric.

    Parameters
    ----------
    comparison : Comparison
    metric : str, optional
        One of its metrics; may be left out where there is one.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    """
    check_matplotlib()
    if ax is not None and not hasattr(ax, "fill_between"):
        raise InputError(f"ax must be axes of matplotlib. Got {type(ax).__name__}.")
    compared = list(dict.fromkeys(row.metric for row in comparison.standings))
    if metric is None and len(compared) > 1:
        raise InputError(
            f"name the metric to draw; {len(compared)} are compared: {', '.join(compared)}."
        )
    chosen = compared[0] if metric is None else str(registry.parse(metric))
    if chosen not in compared:
        raise InputError(f"{chosen} is not compared here; there are {', '.join(compared)}.")
    rows = {row.model: row for row in comparison.standings if row.metric == chosen}
    return RunsDisplay(chosen, [rows[name] for name in comparison.models]).plot(ax)
