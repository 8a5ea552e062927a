"""The curves of GOM's metrics and of mFR over the axis of thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core import registry
from truerank.core.curve import ENDS, POINTS, Curve
from truerank.families.gom.axes import GomAxes

__all__ = ["BARE", "GomCurve", "curves_on", "of_gom"]

MEANS = ("mrp", "mvp", "mrep", "mrep@fp=frozen")
BARE = 2
"""So many of them, the first, have no confidence band."""


@dataclass(frozen=True)
class GomCurve:
    """One of the curves on an axis."""

    name: str
    number: int
    """RP, VP, ReP and frozen ReP come first, in the order in which they are collected; then FR."""
    like: str
    """The name of the metric that it is the curve of."""
    limit: int | None = None
    """The B of a curve of FR."""

    @property
    def with_mate(self) -> bool:
        """Whether it is a mean over the queries with a mate; otherwise over those without."""
        return self.limit is None


def curves_on(family: GomAxes, scale: str) -> list[GomCurve]:
    """The curves on a scale's axis, those that there is a query for."""
    gom, mates = family.seen[scale], family.context.with_mate
    if isinstance(gom, str):
        return []
    end = "" if scale == "fixed" else f"scale={scale}"
    found = []
    for number, name in enumerate(MEANS if mates.any() else ()):
        joint = ("," if "@" in name else "@") if end else ""
        found.append(GomCurve(name + joint + end, number, name.partition("@")[0]))
    for place, limit in enumerate(gom.limits if not mates.all() else ()):
        name = str(registry.parse(f"mfr@b={limit},scale={scale}"))
        found.append(GomCurve(name, len(MEANS) + place, "mfr", limit))
    return found


def of_gom(family: GomAxes, scale: str) -> dict[str, Curve]:
    """The curves of GOM on a scale's axis, by name."""
    gom, mates = family.on(scale), family.context.with_mate
    tau = np.arange(POINTS + 1) / POINTS
    found = {}
    for one in curves_on(family, scale):
        queries = int((mates if one.with_mate else ~mates).sum())
        if one.limit is None:
            rows = dict(zip(ENDS, gom.curve(one.number, queries), strict=True))
        else:
            rows = {"value": gom.false_curve(one.limit, queries)}
        found[one.name] = Curve(one.name, {"tau": tau, **rows})
    return found
