"""A curve of one model or several, drawn: what scikit-learn calls a Display."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve import POINTWISE, SECOND, Curve
from truerank.operating_marks import Mark
from truerank.plots.axes import MOST_RATE, CurveAxes, axes_of, prepare
from truerank.plots.style import COLOURS, DASHES, new_axes, plain_text, tidy
from truerank.typesetting import visible

__all__ = ["CurveDisplay", "DrawnModel"]

Reals = npt.NDArray[np.float64]
LINE = ("lower", "value", "tar", "frr", "f1", "precision", "mean")
"""The columns of which the first that a curve has is its line."""
CLASS = "class "
FIRST_RANKS = 50


@dataclass(frozen=True)
class DrawnModel:
    """One model of a figure: its name, its curve, and the points to be marked."""

    name: str
    curve: Curve
    marks: list[Mark]


@dataclass
class CurveDisplay:
    """A figure of one curve; `plot` draws it, into axes of yours or new ones."""

    curve: str
    """The curve's name."""
    models: list[DrawnModel]
    ax_: Any = None
    """The matplotlib axes, once it is drawn."""
    figure_: Any = None
    lines_: list[Any] = field(default_factory=list)
    """A line for each model (bars, or both histograms, where these are drawn)."""
    bands_: list[Any] = field(default_factory=list)

    def plot(self, ax: Any = None) -> CurveDisplay:
        """Draw, and return this display."""
        self.ax_ = new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        kind = axes_of(self.curve)
        for number, model in enumerate(self.models):
            columns = list(model.curve.values())
            if columns[0].dtype.kind == "U":
                self._bars(model, number)
            elif "mates" in model.curve:
                self._histograms(model, number)
            else:
                self._line(model, number, kind)
        prepare(self.ax_, kind, self._least())
        tidy(self.ax_)
        self._name(kind)
        return self

    def _line(self, model: DrawnModel, number: int, kind: CurveAxes) -> None:
        """A line with its band, its marks, and the classes behind it if it is their mean."""
        curve, axes = model.curve, self.ax_
        colour = COLOURS[number % len(COLOURS)]
        x, y = next(iter(curve.values())), _line_of(curve)
        known = np.isfinite(x)
        if kind.scale == "log":
            known &= x > 0
        if self.curve == "cmc":
            known &= x <= FIRST_RANKS
        if "low" in curve:
            told = known & np.isfinite(curve["low"])
            drawn = axes.fill_between(
                x[told], curve["low"][told], curve["high"][told], color=colour, alpha=0.18,
                linewidth=0, step="post" if kind.steps else None,
            )  # fmt: skip
            self.bands_.append(drawn)
        if len(self.models) == 1:
            self._classes(curve, x)
        style = {"color": colour, "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.6}
        draw = axes.step if kind.steps else axes.plot
        where = {"where": "post"} if kind.steps else {}
        self.lines_ += draw(x[known], y[known], **style, **where)
        for mark in model.marks:
            self._mark(mark, colour)

    def _classes(self, curve: Curve, x: Reals) -> None:
        """The middle half of the classes, and single ones, behind their mean."""
        axes = self.ax_
        if "q25" in curve:
            axes.fill_between(
                x, curve["q25"], curve["q75"], color="#999999", alpha=0.2, linewidth=0
            )
        for name in curve:
            if name.startswith(CLASS):
                axes.plot(x, curve[name], color="#888888", linewidth=0.5, alpha=0.5)

    def _mark(self, mark: Mark, colour: str) -> None:
        at = (mark.x, mark.y)
        self.ax_.plot(*zip(at, strict=True), "o", color=colour, markersize=5, zorder=5)
        if len(self.models) == 1:
            text = mark.metric
            if mark.threshold is not None:
                text += f" (at {mark.threshold:.4g})"
            offset, align = ((6, -3), "left") if mark.x < 0.3 else ((-6, -3), "right")
            plain_text(
                self.ax_.annotate(
                    text, at, xytext=offset, textcoords="offset points", fontsize=7, ha=align,
                    va="top", color="#444444",
                )
            )  # fmt: skip

    def _histograms(self, model: DrawnModel, number: int) -> None:
        """How near mates are, and others: two filled steps; of further models lines alone.

        Bins need not be equal, so that a step is as high as its share over its bin's width.
        """
        curve = model.curve
        borders = np.append(curve["from"][:1], curve["distance"])
        width = np.abs(np.diff(borders))
        for place, kind in enumerate(("mates", "others")):
            drawn = self.ax_.stairs(
                curve[kind] / width, borders, color=COLOURS[2 * place], fill=number == 0,
                alpha=0.45 if number == 0 else 1.0, linestyle=DASHES[number % len(DASHES)],
            )  # fmt: skip
            low, high = (f"{SECOND if place else ''}{end}" for end in POINTWISE)
            if low in curve:
                edges = [
                    np.where(np.isfinite(curve[end]), curve[end], curve[kind]) / width
                    for end in (low, high)
                ]
                self.bands_.append(
                    self.ax_.stairs(
                        edges[1], borders, baseline=edges[0], fill=True, alpha=0.3, linewidth=0,
                        color=COLOURS[2 * place],
                    )
                )  # fmt: skip
            drawn.set_label(kind if len(self.models) == 1 else f"{model.name}: {kind}")
            self.lines_.append(drawn)

    def _bars(self, model: DrawnModel, number: int) -> None:
        """Bars with their intervals, those of all models side by side."""
        names, *_ = model.curve.values()
        value = _line_of(model.curve)
        width = 0.8 / len(self.models)
        at = np.arange(len(names)) + width * (number - (len(self.models) - 1) / 2)
        colour = COLOURS[number % len(COLOURS)]
        self.lines_.append(self.ax_.bar(at, value, 0.92 * width, color=colour, alpha=0.85))
        if "low" in model.curve:
            away = np.abs(np.stack([model.curve["low"], model.curve["high"]]) - value)
            self.bands_.append(
                self.ax_.errorbar(at, value, np.nan_to_num(away), fmt="none", color="#222222")
            )
        shown = [visible(name) for name in names.tolist()]
        for text in self.ax_.set_xticks(np.arange(len(names)), shown):
            plain_text(text.label1)

    def _least(self) -> tuple[float, float]:
        """The smallest positive number that is drawn on each axis."""
        found = []
        for place in (0, 1):
            values = [np.ones(1)]
            for model in self.models:
                first, second, *_ = model.curve.values()
                if first.dtype.kind != "U":
                    shown = (second <= MOST_RATE) | (self.curve != "det")
                    column = (first, second)[place][shown]
                    values.append(column[np.isfinite(column) & (column > 0)])
            found.append(float(np.concatenate(values).min()))
        return found[0], found[1]

    def _name(self, kind: CurveAxes) -> None:
        """The legend, where there is more than one thing to name."""
        histograms = "mates" in self.models[0].curve
        if len(self.models) == 1 and not histograms:
            return
        labels = [line.get_label() for line in self.lines_]
        if not histograms:
            labels = [model.name for model in self.models]
        # matplotlib leaves out what begins with an underscore
        shown = ["\u200b" + label if label.startswith("_") else label for label in labels]
        legend = self.ax_.legend(self.lines_, shown, loc=kind.legend, frameon=False, fontsize=8)
        for text in legend.get_texts():
            plain_text(text)


def _line_of(curve: Curve) -> Reals:
    """The column that is drawn: the one that is known to be, or else the second."""
    name = next((name for name in LINE if name in curve), list(curve)[1])
    return np.asarray(curve[name], np.float64)
