"""What a result knows of galleries of other sizes: scores at each, their curve, and a fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from truerank import tables
from truerank.core.curve import Curve
from truerank.errors import InputError, shortened
from truerank.extrapolation import Extrapolation, extrapolate
from truerank.growth.at_size import AtSize
from truerank.typesetting import Table
from truerank.wording import count

if TYPE_CHECKING:
    from truerank.attributes import Attribute
    from truerank.core.score import Score

__all__ = ["Galleries", "check_sizes", "growth_curve", "read_sizes", "save_sizes"]


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
        `truerank.extrapolation.sizes_for` lists them.
        """
        gallery = self.provenance.get("gallery")
        if not isinstance(gallery, int):
            raise InputError("this result has no gallery whose growth could be foretold.")
        return extrapolate(list(self._at_sizes.values()), self._scores, gallery, size)

    def growth_text(self, sizes: Iterable[int] | None = None, *, rule: bool = False) -> str:
        """Scores at some or all gallery sizes of the result, beside each other as plain text."""
        shown_sizes = self._at_sizes if sizes is None else set(sizes)
        every = sorted(
            (one for one in self._at_sizes.values() if one.size in shown_sizes),
            key=lambda one: one.size,
        )
        names = list(dict.fromkeys(name for one in every for name in one.scores))
        rows = []
        for name in names:
            shown = tables.number(name)
            scores = [one.scores.get(name) for one in every]
            rows.append(
                [tables.marked(name), *(shown(None if s is None else s.value) for s in scores)]
            )
            ends = ["" if s is None else tables.interval(s) for s in scores]
            if any(ends):
                rows.append(["  interval", *ends])
        sentences = [
            "Columns: items in the gallery. Exact means over all smaller galleries; each query's "
            "mates stay.",
            *(f"Not told, {name}: {why}." for name, why in every[0].reasons.items()),
            *self._why_no_interval(every),
        ]
        header = ["metric", *(f"{one.size:,}" for one in every)]
        return tables.laid_out(Table(header, rows), sentences, rule=rule)

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
            told = "; ".join(f"{name} at {', '.join(sizes)}" for name, sizes in names.items())
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
                f"a gallery of {count(gallery, 'item')} cannot tell of one of {int(size):,}; pass "
                "smaller gallery_sizes, and have larger ones foretold by result.extrapolate."
            )
        found.add(int(size))
    return tuple(sorted(found))
