"""Curves as a result's JSON keeps them: some of their points, so that no eye sees a difference.

Of a curve of many points those are left out that lie, on an axis as long as their range, within a
two-thousandth of the straight lines between the others (the edges of a band, within a thousandth),
whether the abscissa (of a DET curve, also the ordinate) is linear or logarithmic; the worst of more
than 1,000 are kept. Columns go by name, so that a later version may add some; a version that is not
known is not drawn.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve, is_band

__all__ = ["VERSION", "read_curves", "save_curves", "thinned"]

VERSION = 1
MOST_POINTS = 1000
MOST_NUMBERS = 32_000
"""Numbers of all curves together, of up to 30 characters each: they stay below a megabyte."""
INVISIBLE = 1 / 2000
BOTH_LOGARITHMIC = ("det",)
"""Curves that are drawn with an ordinate in logarithms, too."""

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def save_curves(curves: Mapping[str, Curve]) -> dict[str, Any]:
    """Curves by name as plain JSON values; `points` is how many there were."""
    kept = {name: thinned(curve) for name, curve in curves.items()}
    most = _common_limit([(len(kept[name]), len(curve)) for name, curve in curves.items()])
    saved = {}
    for name, curve in curves.items():
        points = kept[name] if len(kept[name]) <= most else thinned(curve, most)
        columns = {column: _plain(values[points]) for column, values in curve.items()}
        saved[name] = {"points": len(next(iter(curve.values()))), "columns": columns}
        if curve.band_reason is not None:
            saved[name]["band_reason"] = curve.band_reason
    return {"version": VERSION, "curves": saved}


def _common_limit(sizes: list[tuple[int, int]]) -> int:
    """Most points that a curve may keep, from (points, columns) that each would need."""
    left, columns = MOST_NUMBERS, sum(width for _, width in sizes)
    for points, width in sorted(sizes):
        if points * columns > left:
            return left // columns
        left, columns = left - points * width, columns - width
    return MOST_POINTS


def read_curves(data: Mapping[str, Any] | None) -> dict[str, Curve]:
    """The curves that were saved; none of those of a version that is not known."""
    if data is None or data["version"] != VERSION:
        return {}
    return {
        name: Curve(
            name,
            {column: _array(values) for column, values in one["columns"].items()},
            one.get("band_reason"),
        )
        for name, one in data["curves"].items()
    }


def _plain(values: npt.NDArray[Any]) -> list[Any]:
    if values.dtype.kind == "U":  # the names of bars
        return list(values.tolist())
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _array(values: list[Any]) -> npt.NDArray[Any]:
    if values and all(isinstance(value, str) for value in values):
        return np.array(values, np.str_)
    if all(isinstance(value, int) for value in values):
        return np.array(values, np.int64)
    return np.array([np.nan if value is None else value for value in values], np.float64)


def thinned(curve: Curve, most: int = MOST_POINTS) -> Integers:
    """The numbers of the points that are enough to draw a curve, ascending, `most` at most.

    Bars are all kept: they have names in place of an abscissa.
    """
    if next(iter(curve.values())).dtype.kind == "U":
        return np.arange(len(next(iter(curve.values()))))
    first, *others = (_filled(np.asarray(values, np.float64)) for values in curve.values())
    count = len(first)
    if count <= most:
        return np.arange(count)
    scales = [first, _logs(first)] if first.min() >= 0 else [first]
    planes = []
    for name, column in zip(list(curve)[1:], others, strict=True):
        share = 0.5 if is_band(name) else 1.0
        axes = [(x, column) for x in scales]
        if curve.name in BOTH_LOGARITHMIC:
            axes.append((_logs(first), _logs(column)))
        planes += [(_on_axis(x), share * _on_axis(y)) for x, y in axes]
    return _simplified(planes, count, most)


def _simplified(planes: list[tuple[Reals, Reals]], count: int, most: int) -> Integers:
    """Douglas and Peucker's points: what is farthest from its chord comes first, as it must."""

    def worst(start: int, stop: int) -> tuple[float, int, int, int]:
        inside = slice(start + 1, stop)
        away = np.max([_from_chord(x, y, start, stop, inside) for x, y in planes], axis=0)
        at = int(np.argmax(away))
        return -float(away[at]), start, start + 1 + at, stop

    kept, stretches = [0, count - 1], [worst(0, count - 1)]
    while stretches and len(kept) < most:
        away, start, cut, stop = heapq.heappop(stretches)
        if -away <= INVISIBLE:
            break
        kept.append(cut)
        for left, right in ((start, cut), (cut, stop)):
            if right - left > 1:
                heapq.heappush(stretches, worst(left, right))
    return np.sort(np.array(kept, np.int64))


def _from_chord(x: Reals, y: Reals, start: int, stop: int, inside: slice) -> Reals:
    """How far points are above or below the line between two others; beyond it, if that rises."""
    across, up = x[stop] - x[start], y[stop] - y[start]
    if across != 0:
        chord = y[start] + (x[inside] - x[start]) / across * up
        return np.asarray(np.abs(y[inside] - chord), np.float64)
    low, high = min(y[start], y[stop]), max(y[start], y[stop])
    return np.asarray(np.abs(y[inside] - np.clip(y[inside], low, high)), np.float64)


def _filled(values: Reals) -> Reals:
    """Values with something between their neighbours for those that are not finite."""
    finite = np.flatnonzero(np.isfinite(values))
    if not len(finite):
        return np.zeros(len(values))
    return np.asarray(np.interp(np.arange(len(values)), finite, values[finite]), np.float64)


def _logs(values: Reals) -> Reals:
    """Logarithms; what is not positive, and off such an axis, is put at its end."""
    positive = values[values > 0]
    if not len(positive):
        return np.zeros(len(values))
    return np.asarray(np.log10(np.maximum(values, positive.min())), np.float64)


def _on_axis(values: Reals) -> Reals:
    """Values as shares of the length of their axis."""
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros(len(values))
