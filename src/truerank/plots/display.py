"""Display of a curve of one or several models: axes, style, drawing and saving.

A new kind of curve gets its axes in `AXES`; a metric family or result/curves.py computes its
points. Axes are those of the field: FAR on a logarithmic axis, DET in normal deviates. A saved
figure has the same bytes from the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from statistics import NormalDist
from textwrap import wrap
from typing import Any

import numpy as np

from truerank._util.errors import InputError, shortened
from truerank._util.files import atomic_path
from truerank._util.installed import install
from truerank._util.text import level_name, visible
from truerank._util.types import Reals
from truerank.core import registry
from truerank.core.curve import POINTWISE, SECOND, Curve
from truerank.core.registry import display_name
from truerank.result.curves import NONE, Mark

# The axes of each curve, as the field draws them: FAR in logarithms, DET in normal deviates.


PERCENT = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99)
"""Rates that are written at an axis of normal deviates."""
_NORMAL = NormalDist()
LEAST = 1e-9
MOST_RATE = 0.6
"""Largest error rate on axes of normal deviates, unless a marked score is larger."""
FULL = 0.75
"""A share that reaches this is drawn up to 100 %; a lower one up to a tenth above its maximum."""
FLAT = 0.01
"""An axis in logarithms begins where a curve reaches this share."""
LEAST_RECALL = 0.01
"""Precision at a lower recall is that of a few pairs, and leaps from 0 to 1."""


@dataclass(frozen=True)
class CurveAxes:
    """How a kind of curve is drawn."""

    x: str
    y: str
    """What is written at the axes."""
    scale: str = "linear"
    """Of the abscissa: linear, log, or probit (then the ordinate's, too)."""
    steps: bool = False
    share: bool = True
    """Whether the ordinate is a share, from 0 to 1, which is written in percent."""
    beside: tuple[tuple[str, str], ...] = ()
    """Further columns that are drawn of a single model, with their names."""


_FAR = "false accept rate (FAR)"
_TAU = "threshold τ"
PAIRS = {"mates": "positive pairs", "others": "negative pairs"}
"""The columns of the curve of distances, in words."""
AXES = {
    "roc": CurveAxes(_FAR, "true accept rate (TAR)", "log"),
    "det": CurveAxes(_FAR, "false reject rate (FRR)", "probit"),
    "pr": CurveAxes("recall", "precision"),
    "f1": CurveAxes(
        "distance threshold", "F1, precision, recall",
        beside=(("precision", "precision"), ("recall", "recall")),
    ),
    "cmc": CurveAxes("rank k", "Recall@k (hit@k)", steps=True),
    "dir": CurveAxes("FAR: unmated queries accepted", "DIR: mated queries identified", "log"),
    "mrp": CurveAxes(_TAU, "GOM RP"),
    "mvp": CurveAxes(_TAU, "GOM VP"),
    "mrep": CurveAxes(_TAU, "GOM ReP"),
    "mfr": CurveAxes(_TAU, "GOM FR"),
    "utility": CurveAxes("distance threshold", "utility of the classes"),
    "growth": CurveAxes("items in the gallery", "score", "log"),
    "scores": CurveAxes("distance", "density of pairs", share=False),
    "levels": CurveAxes("level of the labels", "Precision@1"),
    "severity": CurveAxes("finest level shared with the wrong first item", "share of queries"),
}  # fmt: skip


def axes_of(curve: str) -> CurveAxes:
    """The axes of a curve by its name, whatever its options."""
    kind, _, options = curve.partition("@")
    known = AXES.get(kind, CurveAxes("", curve))
    return replace(known, y=f"{known.y}, {options}") if options else known


def prepare(axes: Any, kind: CurveAxes, ranges: Sequence[tuple[float, float]]) -> None:
    """Scales, limits and labels; `ranges` are the positive numbers drawn, from least to most."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xlabel(kind.x)
    axes.set_ylabel(kind.y)
    if kind.scale == "log":
        axes.set_xscale("log")
        if ranges[0][1] <= 1.0:
            axes.set_xlim(ranges[0][0], 1.0)
        else:  # sizes
            axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    if kind.scale == "probit":
        axes.set_xscale("function", functions=(probit, _back))
        axes.set_yscale("function", functions=(probit, _back))
        for axis, limits in zip((axes.xaxis, axes.yaxis), ranges, strict=True):
            axis.set_major_locator(FixedLocator([r for r in PERCENT if r >= limits[0] / 2]))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda rate, _: f"{100 * rate:g} %"))
        axes.set_xlim(ranges[0])
        axes.set_ylim(ranges[1])
    elif kind.share:
        most = axes.dataLim.y1
        axes.set_ylim(0.0, 1.02 if most >= FULL or not most > 0 else 1.1 * most)
        percent_axis(axes.yaxis)


def percent_axis(axis: Any, unit: str = " %") -> None:
    """Write shares in percent, or differences in percentage points."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.6g}{unit}"))


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
NOTHING = "nothing"
FIRST_RANKS = 50
FEW_POINTS = 12
"""A line of so many points has a dot at each."""


@dataclass(frozen=True)
class DrawnModel:
    """One model of a figure: its name, its curve, and the points to be marked."""

    name: str
    curve: Curve
    marks: list[Mark]
    band: str | None = None
    """What the legend calls the confidence band, if one was asked for."""


@dataclass(kw_only=True)
class PlotDisplay:
    """A figure: what is drawn, and where."""

    ax_: Any = None
    """The matplotlib axes, once it is drawn."""
    figure_: Any = None
    lines_: list[Any] = field(default_factory=list)
    """A line for each model (bars, or both histograms, where these are drawn)."""
    bands_: list[Any] = field(default_factory=list)
    drawn_: dict[str, Any] = field(default_factory=dict)
    """The numbers of a figure of classes or rows."""
    _named: dict[str, Any] = field(default_factory=dict, repr=False)
    """The legend: what is drawn, by its name."""


@dataclass
class CurveDisplay(PlotDisplay):
    """A figure of one curve; `plot` draws it, into axes of yours or new ones."""

    curve: str
    """The curve's name."""
    models: list[DrawnModel]
    metric: str | None = None
    """The metric that a curve of growth shows."""

    def plot(self, ax: Any = None) -> CurveDisplay:
        """Draw, and return this display."""
        self.ax_ = new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        kind = axes_of(self.curve)
        if self.metric is not None:
            share = registry.find(self.metric).unit == "share"
            kind = replace(kind, y=display_name(self.metric), share=share)
        if kind.beside and len(self.models) > 1:
            kind = replace(kind, y="F1", beside=())
        bars = next(iter(self.models[0].curve.values())).dtype.kind == "U"
        for number, model in enumerate(self.models):
            if len(self.models) > 1:
                self._named[model.name] = None  # models come first in the legend
            if bars:
                self._bars(model, number)
            elif "mates" in model.curve:
                self._histograms(model, number)
            else:
                self._line(model, number, kind)
        if self.curve == "det":
            (drawn,) = self.ax_.plot(
                [LEAST, 1 - LEAST], [LEAST, 1 - LEAST], ":", color=GREY, linewidth=1
            )
            self._named["FAR = FRR"] = drawn
        marked = dict.fromkeys(mark.metric for model in self.models for mark in model.marks)
        for name, shape in zip(marked, cycle(MARKERS), strict=False):
            self._mark(name, shape)
        band = self.models[0].band
        if band is not None and self.bands_:
            self._named[band.removesuffix(" at each point") if bars else band] = self.bands_[0]
        prepare(self.ax_, kind, self._ranges())
        tidy(self.ax_)
        add_legend(self.ax_, self._named, self._why_no_band(), grow=ax is None)
        return self

    def _colour(self, number: int) -> str:
        return colours(self.ax_)[number % len(COLOURS)]

    def _line(self, model: DrawnModel, number: int, kind: CurveAxes) -> None:
        """A line with its band, and the classes behind it if it is their mean."""
        curve, axes = model.curve, self.ax_
        colour = self._colour(number)
        x, y = next(iter(curve.values())), _line_of(curve)
        known = np.isfinite(x)
        if kind.scale == "log":
            known &= x > 0
        if self.curve == "cmc":
            known &= x <= FIRST_RANKS
        if self.curve == "pr":
            known &= x >= LEAST_RECALL
        self._classes(curve, x, colour)
        if "low" in curve:
            told = known & np.isfinite(curve["low"])
            drawn = axes.fill_between(
                x[told], curve["low"][told], curve["high"][told], color=colour,
                alpha=shade(axes), linewidth=0, step="post" if kind.steps else None,
            )  # fmt: skip
            self.bands_.append(drawn)
        style = {"color": colour, "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.6}
        if int(known.sum()) <= FEW_POINTS:
            style["marker"], style["markersize"] = "o", 4
        draw = axes.step if kind.steps else axes.plot
        where = {"where": "post"} if kind.steps else {}
        self.lines_ += draw(x[known], y[known], **style, **where)
        if len(self.models) > 1:
            self._named[model.name] = self.lines_[-1]
        elif kind.beside or "q25" in curve:
            self._named["F1" if kind.beside else "mean of the classes"] = self.lines_[-1]
            for place, (column, name) in enumerate(kind.beside, 1):
                (self._named[name],) = axes.plot(
                    x[known], curve[column][known], color=self._colour(place), linewidth=1.1,
                    linestyle=DASHES[place],
                )  # fmt: skip

    def _classes(self, curve: Curve, x: Reals, colour: str) -> None:
        """The middle half of the classes, and single ones of a single model, behind their mean."""
        if "q25" not in curve:
            return
        one = len(self.models) == 1
        style = {"color": GREY if one else colour, "alpha": shade(self.ax_)}
        drawn = self.ax_.fill_between(x, curve["q25"], curve["q75"], linewidth=0, **style)
        self._named.setdefault("middle half of the classes", drawn)
        for name in curve if one else ():
            if name.startswith(CLASS):
                (drawn,) = self.ax_.plot(x, curve[name], color=GREY, linewidth=0.5, alpha=0.7)
                self._named.setdefault("best and worst classes", drawn)

    def _mark(self, metric: str, shape: str) -> None:
        """The operating points of all models in one metric; its name goes into the legend."""
        name, handle = display_name(metric), None
        for number, model in enumerate(self.models):
            for mark in (mark for mark in model.marks if mark.metric == metric):
                (handle,) = self.ax_.plot(
                    [mark.x], [mark.y], shape, color=self._colour(number), markersize=5.5,
                    markeredgecolor=foreground(self.ax_), markeredgewidth=0.6, zorder=5,
                )  # fmt: skip
                if len(self.models) == 1 and mark.threshold is not None:
                    name += f", threshold {mark.threshold:.4g}"
        self._named[name] = handle

    def _why_no_band(self) -> str:
        """Why there is no band where one was asked for."""
        for model in self.models:
            if model.band is not None and model.curve.band_reason is not None:
                reason = model.curve.band_reason.partition(";")[0].rstrip(".")
                return f"No interval: {reason}."
        return ""

    def _histograms(self, model: DrawnModel, number: int) -> None:
        """Distances of positive and negative pairs: filled steps; of several models outlines.

        Bins need not be equal, so that a step is as high as its share over its bin's width.
        """
        curve, one = model.curve, len(self.models) == 1
        borders = np.append(curve["from"][:1], curve["distance"])
        width = np.abs(np.diff(borders))
        for place, kind in enumerate(("mates", "others")):
            colour = self._colour(2 * place if one else number)
            drawn = self.ax_.stairs(
                curve[kind] / width, borders, color=colour, fill=one, linewidth=1.3,
                alpha=0.25 + shade(self.ax_) if one else 1.0,
                linestyle="-" if one else DASHES[place],
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
                        color=colour,
                    )
                )  # fmt: skip
            self._named[PAIRS[kind] if one else f"{model.name}: {PAIRS[kind]}"] = drawn
            self._named.pop(model.name, None)
            self.lines_.append(drawn)

    def _bars(self, model: DrawnModel, number: int) -> None:
        """Bars with their intervals, those of all models side by side."""
        names, *_ = model.curve.values()
        value = _line_of(model.curve)
        width = 0.8 / len(self.models)
        at = np.arange(len(names)) + width * (number - (len(self.models) - 1) / 2)
        colour = self._colour(number)
        self.lines_.append(self.ax_.bar(at, value, 0.92 * width, color=colour, alpha=0.85))
        if len(self.models) > 1:
            self._named[model.name] = self.lines_[-1]
        if "low" in model.curve:
            away = np.abs(np.stack([model.curve["low"], model.curve["high"]]) - value)
            style = {"fmt": "none", "color": foreground(self.ax_)}
            self.bands_.append(self.ax_.errorbar(at, value, np.nan_to_num(away), **style))
        shown = [NOTHING if name == NONE else visible(level_name(name)) for name in names.tolist()]
        for text in self.ax_.set_xticks(np.arange(len(names)), shown):
            plain_text(text.label1)

    def _ranges(self) -> list[tuple[float, float]]:
        """The least and the largest positive number that is drawn on each axis."""
        found = []
        for place in (0, 1):
            values = [np.ones(1) * (MOST_RATE if self.curve == "det" else 1.0)]
            for model in self.models:
                first, second, *_ = model.curve.values()
                if first.dtype.kind != "U":
                    shown = np.maximum(first, second) <= MOST_RATE
                    if self.curve != "det":
                        shown = second >= FLAT
                    column = (first, second)[place][shown]
                    values.append(column[np.isfinite(column) & (column > 0)])
                marked = [(mark.x, mark.y)[place] for mark in model.marks]
                values.append(np.array([at for at in marked if at > 0]))
            every = np.concatenate(values)
            found.append((float(every.min()), float(every.max())))
        if self.curve == "det":  # with room for a mark at the end
            return [(least, float(_back(probit(most) + 0.12))) for least, most in found]
        return found


def _line_of(curve: Curve) -> Reals:
    """The column that is drawn: the one that is known to be, or else the second."""
    name = next((name for name in LINE if name in curve), list(curve)[1])
    return np.asarray(curve[name], np.float64)


# How figures look: colours that colour-blind people can distinguish, and dashes that differ too.
# Texts and grids have the colours of the style in use, so that figures are legible on a dark
# ground, too.


COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Okabe and Ito's, as in the page."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (9, 3)))
MARKERS = "osD^vP"
SIZE = (4.6, 3.4)
"""Inches: a column of a paper."""
GREY = "#8a8a8a"
LETTER, LINE_HEIGHT = 0.055, 0.15
"""Inches of a letter and of a line in a legend."""
MOST_BESIDE = 3
"""Names of a legend beside each other, where they are short."""
NOTE = 66
"""Letters of a line of a note."""


def check_matplotlib(ax: Any = None) -> None:
    """Refuse to begin where nothing could be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(f"a plot needs matplotlib: {install('plot')}.") from error
    if ax is not None and not hasattr(ax, "fill_between"):
        raise InputError(f"ax must be axes of matplotlib. Got {shortened(ax)}.")


def new_axes(size: tuple[float, float] = SIZE) -> Any:
    """Axes of a new figure, which a notebook shows."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def foreground(axes: Any) -> Any:
    """The colour of texts, in the style in use."""
    return axes.xaxis.label.get_color()


def is_dark(axes: Any) -> bool:
    """Whether the ground of the axes is dark."""
    from matplotlib.colors import to_rgb

    return float(np.dot(to_rgb(axes.get_facecolor()), (0.2126, 0.7152, 0.0722))) < 0.4


def colours(axes: Any) -> tuple[str, ...]:
    """The colours of models; on a dark ground the light blue comes before the dark one."""
    return (COLOURS[-1], *COLOURS[1:-1], COLOURS[0]) if is_dark(axes) else COLOURS


def shade(axes: Any) -> float:
    """Opacity of bands."""
    return 0.35 if is_dark(axes) else 0.2


def tidy(axes: Any) -> None:
    """A light grid behind, and no frame above and to the right."""
    axes.grid(visible=True, alpha=0.2 if is_dark(axes) else 0.4, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def add_legend(
    axes: Any, named: Mapping[str, Any], note: str = "", *, grow: bool = False, **options: Any
) -> None:
    """A legend above the axes, where it covers nothing: what is drawn by its names, and a note.

    `grow` makes the figure higher if the legend has more than two lines.
    """
    if not named and not note:
        return
    # matplotlib leaves out what begins with an underscore
    shown = ["\u200b" + name if name.startswith("_") else name for name in named]
    widest = 0.6 + LETTER * max(map(len, shown), default=0)
    room = axes.bbox.width / axes.figure.dpi / 0.78  # inches, with those of the axis to the left
    beside = max(1, min(MOST_BESIDE, int(room / widest)))
    legend = axes.legend(
        [*named.values()], shown, frameon=False, fontsize=7.5, loc="lower right",
        bbox_to_anchor=(1.0, 1.0), ncols=beside,
        title="\n".join(wrap(note, NOTE)), title_fontsize=7, borderaxespad=0.2, **options,
    )  # fmt: skip
    for text in (*legend.get_texts(), legend.get_title()):
        plain_text(text)
    lines = -(-len(shown) // beside)
    if grow and lines > 2:
        wide, high = axes.figure.get_size_inches()
        axes.figure.set_size_inches(wide, high + LINE_HEIGHT * (lines - 2))


def plain_text(text: Any) -> Any:
    """A text of matplotlib's that shows names as they are.

    Dollar signs begin no formula, and control letters, which no SVG may hold, are written out.
    """
    text.set_parse_math(False)
    text.set_text("\n".join(map(visible, text.get_text().split("\n"))))
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
