"""Display of a curve of one or several models: axes, style, drawing and saving.

Axes are those of the field: FAR on a logarithmic axis, DET in normal deviates. A saved figure
has the same bytes from the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from truerank._util.errors import InputError
from truerank._util.files import atomic_path
from truerank._util.installed import install
from truerank._util.text import visible
from truerank._util.types import Reals
from truerank.core.curve import POINTWISE, SECOND, Curve
from truerank.result.curves import Mark

# The axes of each curve, as the field draws them: FAR in logarithms, DET in normal deviates.


PERCENT = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.4)
"""Rates that are written at an axis of normal deviates."""
_NORMAL = NormalDist()
LEAST = 1e-9
MOST_RATE = 0.6
"""Of errors, on axes of normal deviates."""


@dataclass(frozen=True)
class CurveAxes:
    """How a kind of curve is drawn."""

    x: str
    y: str
    """What is written at the axes."""
    scale: str = "linear"
    """Of the abscissa: linear, log, or probit (then the ordinate's, too)."""
    legend: str = "lower right"
    steps: bool = False
    share: bool = True
    """Whether the ordinate is a share, from 0 to 1."""
    percent: bool = True
    """Whether the ordinate is written in percent."""
    sizes: bool = False
    """Whether the abscissa counts items, and is no rate."""


_FAR = "false accept rate"
PAIRS = {"mates": "positive pairs", "others": "negative pairs"}
"""The columns of the curve of distances, in words."""
AXES = {
    "roc": CurveAxes(_FAR, "true accept rate", "log"),
    "det": CurveAxes(_FAR, "false reject rate", "probit", "upper right"),
    "pr": CurveAxes("recall", "precision", legend="lower left"),
    "f1": CurveAxes("threshold", "F1", legend="best"),
    "cmc": CurveAxes("rank", "hit rate", steps=True),
    "dir": CurveAxes("share of unmated queries accepted", "identified", "log", "upper left"),
    "mrp": CurveAxes("τ", "mRP", legend="best"),
    "mvp": CurveAxes("τ", "mVP", legend="best"),
    "mrep": CurveAxes("τ", "mReP", legend="best"),
    "mfr": CurveAxes("τ", "mFR", legend="best"),
    "utility": CurveAxes("threshold", "utility of the classes", legend="best"),
    "growth": CurveAxes("size of the gallery", "score", "log", "best", sizes=True),
    "scores": CurveAxes("distance", "density of pairs", legend="best", share=False, percent=False),
    "levels": CurveAxes("level", "nearest item is right", legend="best"),
    "severity": CurveAxes("shared by a wrong first item", "share of queries", share=False),
}


def axes_of(curve: str) -> CurveAxes:
    """The axes of a curve by its name, whatever its options."""
    return AXES.get(curve.partition("@")[0], CurveAxes("", curve, legend="best"))


def prepare(axes: Any, kind: CurveAxes, least: tuple[float, float]) -> None:
    """Scales, limits and labels; `least` is the smallest positive number on each axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

    axes.set_xlabel(kind.x)
    axes.set_ylabel(kind.y)
    if kind.scale == "log":
        axes.set_xscale("log")
        if not kind.sizes:
            axes.set_xlim(least[0], 1.0)
    if kind.scale == "probit":
        axes.set_xscale("function", functions=(probit, _back))
        axes.set_yscale("function", functions=(probit, _back))
        for axis, low in zip((axes.xaxis, axes.yaxis), least, strict=True):
            axis.set_major_locator(FixedLocator([rate for rate in PERCENT if rate >= low / 2]))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda rate, _: f"{100 * rate:g}%"))
        axes.set_xlim(least[0], MOST_RATE)
        axes.set_ylim(least[1], MOST_RATE)
    elif kind.share:
        axes.set_ylim(0.0, 1.02)
    if kind.percent and kind.scale != "probit":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))


def probit(rates: Any) -> Reals:
    """Normal deviates of rates; those of 0 and 1 are put at the ends of an axis."""
    clipped = np.clip(np.asarray(rates, np.float64), LEAST, 1 - LEAST)
    return np.asarray(np.vectorize(_NORMAL.inv_cdf, otypes=[float])(clipped), np.float64)


def _back(deviates: Any) -> Reals:
    back = np.vectorize(_NORMAL.cdf, otypes=[float])
    return np.asarray(back(np.asarray(deviates, np.float64)), np.float64)


# A curve of one model or several, drawn: what scikit-learn calls a Display.


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
        """Distances of positive and negative pairs: filled steps; of further models lines alone.

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
            shown = PAIRS[kind]
            drawn.set_label(shown if len(self.models) == 1 else f"{model.name}: {shown}")
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


# How figures look: colours that all eyes tell apart, and dashes that differ besides.


COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Okabe and Ito's, as in the page."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (9, 3)))
SIZE = (4.6, 3.4)
"""Inches: a column of a paper."""


def check_matplotlib() -> None:
    """Refuse to begin where nothing could be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(f"a plot needs matplotlib: {install('plot')}.") from error


def new_axes(size: tuple[float, float] = SIZE) -> Any:
    """Axes of a new figure, which a notebook shows."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def tidy(axes: Any) -> None:
    """A light grid behind, and no frame above and to the right."""
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def plain_text(text: Any) -> Any:
    """A text of matplotlib's that shows names as they are.

    Dollar signs begin no formula, and control letters, which no SVG may hold, are written out.
    """
    text.set_parse_math(False)
    text.set_text(visible(text.get_text()))
    return text


# Figures as files: the same bytes from the same numbers, and never half a file.


NO_DATE: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def save_figure(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure, in the format of the file's ending, in one step."""
    from matplotlib import rc_context

    kind = path.suffix.lower().removeprefix(".")
    # ids of an SVG's parts are random unless they are salted
    with rc_context({"svg.hashsalt": "truerank"}), atomic_path(path) as partial:
        figure.savefig(partial, format=kind, dpi=200, metadata=NO_DATE.get(kind), **options)
