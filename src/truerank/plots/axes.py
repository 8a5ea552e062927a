"""The axes of each curve, as the field draws them: FAR in logarithms, DET in normal deviates."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["AXES", "MOST_RATE", "CurveAxes", "axes_of", "prepare"]

Reals = npt.NDArray[np.float64]
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
AXES = {
    "roc": CurveAxes(_FAR, "true accept rate", "log"),
    "det": CurveAxes(_FAR, "false reject rate", "probit", "upper right"),
    "pr": CurveAxes("recall", "precision", legend="lower left"),
    "f1": CurveAxes("threshold", "F1", legend="best"),
    "cmc": CurveAxes("rank", "hit rate", steps=True),
    "dir": CurveAxes("share of strangers accepted", "identified", "log", "upper left"),
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
