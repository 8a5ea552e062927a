"""Scores of a result at other gallery sizes: in smaller ones exact, in larger ones by a fit.

The fit takes a score's place in a normal distribution as a straight line over the logarithm of
the gallery size, through sizes from a third of the gallery on. The same line through sizes from
a third of a tenth to a tenth predicts the whole gallery, where the score is known: that error
stands beside each value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, shortened
from truerank._util.text import TextTable, count
from truerank.core.curve import Curve
from truerank.core.registry import display_name
from truerank.core.score import AtSize, Score
from truerank.result import tables

if TYPE_CHECKING:
    from truerank.result.result import Attribute


# What a result knows of galleries of other sizes: scores at each, their curve, and a fit.


Whole = TypeVar("Whole", bound="Galleries")


class Galleries:
    """The part of a Result that looks at galleries of other sizes."""

    provenance: dict[str, Any]
    _scores: dict[str, Score]
    _at_sizes: dict[int, AtSize]
    _attributes: dict[str, Attribute]
    units: npt.NDArray[np.int64] | None
    level_units: dict[str, npt.NDArray[np.int64]]

    @property
    def gallery_sizes(self) -> tuple[int, ...]:
        """The sizes at which `at_gallery` tells the scores."""
        return tuple(self._at_sizes)

    def at_gallery(self: Whole, size: int) -> Whole:
        """The scores in a gallery of so many items, of the sizes that were evaluated.

        They are exact means over all galleries that keep each query's mates and draw as large a
        share of its other items, with bounds for ties and intervals. Metrics without such a law
        are listed in `skipped`. Read back from JSON they hold no values of single queries.

        Examples
        --------
        >>> import truerank
        >>> x, y = [[0.0, 1], [0, 3], [3, 1], [1, 1]], ["a", "a", "b", "b"]
        >>> r = truerank.evaluate(x, y, metrics="mrr", distance="euclidean", gallery_sizes=[2, 4])
        >>> r.at_gallery(2)["mrr"].value, r["mrr"].value, r.at_gallery(4)["mrr"] is r["mrr"]
        (0.875, 0.75, True)
        """
        if isinstance(size, bool) or size not in self._at_sizes:
            known = ", ".join(f"{one:,}" for one in self._at_sizes) or "none"
            raise InputError(
                f"this result has no scores at a gallery of {shortened(size)} items; there are "
                f"{known}; evaluate with gallery_sizes, or extrapolate beyond the gallery."
            )
        found = self._at_sizes[size]
        make: Any = type(self)
        part: Whole = make(
            found.scores,
            skipped=found.reasons,
            provenance=self.provenance | {"gallery_size": found.size},
            attributes=self._attributes,
            units=self.units,
            level_units=self.level_units,
        )
        return part

    def extrapolate(self, size: int) -> Extrapolation:
        """What a fit expects of a gallery that is larger than the one evaluated.

        It is no measurement: each expectation comes with the error that the same fit makes when it
        foretells the whole gallery from a tenth of it, and the real error was within that one in
        few simulated cases (the print says in how many). It needs gallery_sizes of both, as
        `truerank.result.gallery_sizes.sizes_for` lists them.
        """
        gallery = self.provenance.get("gallery")
        if not isinstance(gallery, int):
            raise InputError(
                "this result has no gallery of known size; evaluate embeddings instead."
            )
        return extrapolate(list(self._at_sizes.values()), self._scores, gallery, size)

    def growth_text(self, sizes: Iterable[int] | None = None, *, rule: bool = False) -> str:
        """Scores at some or all gallery sizes of the result, beside each other as plain text."""
        shown_sizes = self._at_sizes if sizes is None else set(sizes)
        every = sorted(
            (one for one in self._at_sizes.values() if one.size in shown_sizes),
            key=lambda one: one.size,
        )
        names = list(dict.fromkeys(name for one in every for name in one.scores))
        header = tables.interval_header(self.provenance)
        rows = []
        for name in names:
            shown = tables.number(name)
            scores = [one.scores.get(name) for one in every]
            rows.append(
                [tables.marked(name), *(shown(None if s is None else s.value) for s in scores)]
            )
            ends = [tables.MISSING if s is None else tables.interval(s) for s in scores]
            if set(ends) != {tables.MISSING}:
                rows.append([f"  {header}", *ends])
        sentences = [
            "Columns: items in the gallery. Exact means over all smaller galleries; each query's "
            "relevant items stay.",
            *(f"No {display_name(name)}: {why}." for name, why in every[0].reasons.items()),
            *self._why_no_interval(every),
        ]
        columns = ["metric", *(f"{one.size:,}" for one in every)]
        return tables.laid_out(TextTable(columns, rows), sentences, rule=rule)

    def _why_no_interval(self, every: list[AtSize]) -> list[str]:
        """A sentence for each reason, other than that of the whole gallery, why scores in smaller
        ones have no interval."""
        which: dict[str, dict[str, list[str]]] = {}
        for one in every:
            for name, score in one.scores.items():
                reason = score.interval_reason
                if reason is not None and reason != self._scores[name].interval_reason:
                    which.setdefault(reason, {}).setdefault(name, []).append(f"{one.size:,}")
        lines = []
        for reason, names in which.items():
            told = "; ".join(
                f"{display_name(name)} at {', '.join(sizes)}" for name, sizes in names.items()
            )
            lines.append(f"No interval for {told}: {reason}.")
        return lines


def growth_curve(at_sizes: Iterable[AtSize]) -> Curve:
    """Scores over the size of the gallery: the value of each metric, and where there are some,
    expected and upper bound over ties and the ends of the interval."""
    every = sorted(at_sizes, key=lambda one: one.size)
    columns: dict[str, npt.NDArray[Any]] = {"size": np.array([one.size for one in every])}
    for name in every[0].scores if every else ():
        scores = [one.scores[name] for one in every if name in one.scores]
        if len(scores) < len(every):
            continue
        columns[name] = np.array([score.value for score in scores])
        if any(score.tied for score in scores):
            columns[f"{name} expected"] = np.array([score.expected for score in scores])
            columns[f"{name} upper"] = np.array([score.upper for score in scores])
        if any(score.interval is not None for score in scores):
            ends = np.array([score.interval or (np.nan, np.nan) for score in scores])
            columns[f"{name} low"], columns[f"{name} high"] = ends.T.copy()
    return Curve("growth", columns)


def save_sizes(at_sizes: Mapping[int, AtSize]) -> list[dict[str, Any]]:
    """Scores at gallery sizes as plain JSON values."""
    return [one.to_dict() for one in at_sizes.values()]


def read_sizes(data: Iterable[Mapping[str, Any]] | None) -> list[AtSize]:
    """The inverse of save_sizes."""
    return [AtSize.from_dict(one) for one in data or ()]


def check_sizes(sizes: Any, gallery: int) -> tuple[int, ...]:
    """Different sizes of sub-galleries, ascending; refuses what is none."""
    if isinstance(sizes, (str, bytes)) or not np.iterable(sizes):
        raise InputError(
            "The 'gallery_sizes' parameter must be whole numbers, such as (100, 1000). "
            f"Got {shortened(sizes)} instead."
        )
    found = set()
    for size in sizes:
        if (
            isinstance(size, (bool, np.bool_))
            or not isinstance(size, (int, np.integer))
            or size < 1
        ):
            raise InputError(
                "The 'gallery_sizes' parameter must be whole numbers from 1 on. "
                f"Got {shortened(size)} instead."
            )
        if size > gallery:
            raise InputError(
                f"gallery_sizes has {int(size):,}, and the gallery has {count(gallery, 'item')}; "
                "pass smaller gallery_sizes, and predict larger ones with result.extrapolate."
            )
        found.add(int(size))
    return tuple(sorted(found))


# A fit beyond the gallery: what scores may become in a larger one, and how far it errs.


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
        sentences += [
            f"No extrapolation of {display_name(name)}: {why}."
            for name, why in self.skipped.items()
        ]
        table = TextTable(["metric", f"at {self.size:,}", "error at gallery"], rows)
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
