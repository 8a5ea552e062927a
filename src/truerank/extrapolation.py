"""A fit beyond the gallery: what scores may become in a larger one, and how far it errs.

A score's place in a normal distribution is taken as a straight line over the logarithm of the
gallery's size, through sizes from a third of the gallery on. The same line through sizes from a
third of a tenth to a tenth foretells the whole gallery, where the truth is known: that error stands
beside each value, and does not foretell how far a value really errs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from truerank import tables
from truerank.core.score import Score
from truerank.errors import InputError, shortened
from truerank.growth.at_size import AtSize
from truerank.typesetting import Table
from truerank.wording import count

__all__ = ["SEEN", "Extrapolation", "Foretold", "extrapolate", "sizes_for"]

TENTH = 10
REACH = 3.4
"""A line goes through sizes down to one over this of the largest."""
STEP = 10**0.25
FEWEST = 3
"""Sizes that a line is fitted through."""
DIGITS = 10
"""Logarithms differ in their last bits from machine to machine; so many digits do not."""
NORMAL = NormalDist()
SEEN = (
    "This error is no bound: where galleries ten times as large were simulated, the real one "
    "stayed within it in 8 to 30 % of the data sets in 7 of 13 cases, and in 54 to 79 % in the "
    "others; in one case values were off by 44 points on average."
)
"""How far the stated error can be trusted."""


@dataclass(frozen=True)
class Foretold:
    """What a fit expects of one metric."""

    metric: str
    size: int
    value: float
    error: float
    """What the fit through sizes up to a tenth of the gallery made of the whole one, less what the
    score really is there."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, marked as extrapolated."""
        return {
            "metric": self.metric,
            "gallery_size": self.size,
            "extrapolated": True,
            "value": self.value,
            "error_at_gallery": self.error,
        }


class Extrapolation(Mapping[str, Foretold]):
    """Expectations by metric string; prints as a table that says what it is."""

    def __init__(
        self, size: int, gallery: int, foretold: Mapping[str, Foretold], skipped: Mapping[str, str]
    ) -> None:
        self.size, self.gallery = size, gallery
        self._foretold = dict(foretold)
        self.skipped = dict(skipped)
        """Metrics that no line can be fitted to, with the reason."""

    def __getitem__(self, metric: str) -> Foretold:
        return self._foretold[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self._foretold)

    def __len__(self) -> int:
        return len(self._foretold)

    def __str__(self) -> str:
        rows = [
            [
                tables.marked(name),
                tables.number(name)(one.value),
                f"{100 * one.error:+.2f}",
            ]
            for name, one in self.items()
        ]
        sentences = [
            f"EXTRAPOLATED to a gallery of {self.size:,} from one of "
            f"{count(self.gallery, 'item')}: no measurement. The error is what the same fit, "
            f"through sizes up to a tenth of the gallery, makes of the whole one. {SEEN}"
        ]
        sentences += [f"Not foretold, {name}: {why}." for name, why in self.skipped.items()]
        table = Table(["metric", f"at {self.size:,}", "error at gallery"], rows)
        return tables.laid_out(table, sentences)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "extrapolated": True,
            "gallery_size": self.size,
            "gallery": self.gallery,
            "notes": [SEEN],
            "metrics": {name: one.to_dict() for name, one in self.items()},
            "skipped": dict(self.skipped),
        }


def sizes_for(gallery: int) -> tuple[int, ...]:
    """Sizes at which to evaluate so that a fit has what it needs: three for each of its lines.

    Examples
    --------
    >>> sizes_for(10_000)
    (316, 562, 1000, 3162, 5623, 10000)
    """
    steps = [gallery, gallery // TENTH, *(round(gallery / STEP**step) for step in (1, 2, 5, 6))]
    return tuple(sorted({size for size in steps if size >= 1}))


def extrapolate(
    at_sizes: Sequence[AtSize], scores: Mapping[str, Score], gallery: int, size: Any
) -> Extrapolation:
    """What each metric that has a law is expected to be in a gallery of `size` items."""
    if isinstance(size, bool) or not isinstance(size, int) or size <= gallery:
        raise InputError(
            f"extrapolation is for galleries of more than the {count(gallery, 'item')} that were "
            f"evaluated; Got {shortened(size)}; smaller ones are exact, by at_gallery."
        )
    smaller = [one for one in at_sizes if one.size < gallery]
    early, late = _of_lines([one.size for one in smaller], gallery)
    if early is None or late is None:
        wanted = sizes_for(gallery)
        if None in _of_lines(wanted, gallery):
            raise InputError(f"a gallery of {count(gallery, 'item')} is too small for a fit.")
        raise InputError(
            f"a fit needs {FEWEST} sizes from a third of the gallery on, and {FEWEST} from a third "
            "of a tenth to a tenth of it; evaluate with "
            f"gallery_sizes=[{', '.join(map(str, wanted))}]."
        )
    foretold, skipped = {}, {}
    for name in smaller[0].scores:
        whole = scores[name].value if name in scores else math.nan
        points = [(one.size, one.scores[name].value) for one in smaller]
        line = _line([*(point for point in points if point[0] in late), (gallery, whole)])
        before = _line([point for point in points if point[0] in early])
        if line is None or before is None:
            skipped[name] = "a score of 0 or 1 has no place on a line"
            continue
        error = float(f"{_at(before, gallery) - whole:.{DIGITS}g}")
        value = float(f"{_at(line, size):.{DIGITS}g}")
        foretold[name] = Foretold(name, size, value, error)
    return Extrapolation(size, gallery, foretold, skipped)


def _of_lines(sizes: Sequence[int], gallery: int) -> tuple[list[int] | None, list[int] | None]:
    """The sizes of the line up to a tenth of the gallery and of that up to all of it; None where
    there are too few."""
    early = [n for n in sizes if TENTH * n <= gallery <= REACH * TENTH * n]
    late = [n for n in sizes if n < gallery <= REACH * n]
    return early if len(early) >= FEWEST else None, late if len(late) + 1 >= FEWEST else None


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float] | None:
    """Height at 1 and slope over log size, by least squares; None where a score is 0 or 1."""
    if not all(0.0 < value < 1.0 for _, value in points):
        return None
    x = [math.log(size) for size, _ in points]
    y = [NORMAL.inv_cdf(value) for _, value in points]
    middle, height = math.fsum(x) / len(x), math.fsum(y) / len(y)
    across = math.fsum((one - middle) ** 2 for one in x)
    up = math.fsum((a - middle) * (b - height) for a, b in zip(x, y, strict=True))
    return height - up / across * middle, up / across


def _at(line: tuple[float, float], size: int) -> float:
    return NORMAL.cdf(line[0] + line[1] * math.log(size))
