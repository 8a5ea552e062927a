"""The CMC curve, from where every query's nearest mate stands; families draw the other curves.

A curve is a mapping from the names of its columns to arrays of one length, the abscissa first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core import registry
from truerank.core.average import mean
from truerank.core.curve import FIRST_RANKS, POINTWISE, SIMULTANEOUS, Curve, rank_ladder
from truerank.core.curve_moves import CurveMoves
from truerank.core.groups import TieGroups
from truerank.core.metric import Metric
from truerank.core.scale import Scale
from truerank.errors import InputError, shortened
from truerank.stats.bands import put_band

__all__ = ["FIRST_RANKS", "FirstMates", "check_ranks", "up_to"]

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
ENDS = ("lower", "expected", "upper")
MOST_RANKS = 1_000_000


@dataclass(frozen=True)
class FirstMates:
    """The tie group of every query's nearest mate: all that the CMC curve depends on."""

    before: Integers
    size: Integers
    relevant: Integers
    moves: CurveMoves | None = None
    """The curve without each fold, at the ranks of a ladder, where bands are wanted."""
    confidence: float = 0.95
    band_reason: str | None = None
    """Why there is no band, if one was wanted."""

    def cmc(self, ranks: Integers, with_band: bool = True) -> Curve:
        """hit@k for each of these ranks, with its tie bounds and its bands."""
        triples, times = self._distinct
        before, size, relevant = triples
        groups = TieGroups(
            np.arange(len(times) + 1),
            before,
            size,
            relevant.astype(np.int32)[:, None],
            before + size,
        )
        hit = registry.ranking(Metric("hit", 1)).per_query
        one = Scale(np.ones(1))
        last = int((before + size).max(initial=1))  # behind it all are found
        some, place = np.unique(np.minimum(ranks, last), return_inverse=True)
        found = [hit(groups, Metric("hit", rank), one) for rank in some.tolist()]
        values = np.array([[mean(end, times) for end in triple] for triple in found]).T
        columns = dict(zip(ENDS, values.reshape(len(ENDS), -1)[:, place], strict=True))
        if with_band and self.moves is not None:
            band = self._band(self.moves)
            for name in (*POINTWISE, *SIMULTANEOUS):
                if name in band:
                    columns[name] = np.interp(ranks, band["rank"], band[name])
        return Curve("cmc", {"rank": ranks, **columns}, self.band_reason)

    def every_rank(self) -> Curve:
        """The curve as far as it rises: all of the first ranks, and ever fewer of those behind."""
        last = int((self.before + self.size).max(initial=1))
        return self.cmc(rank_ladder(last))

    def _band(self, moves: CurveMoves) -> Curve:
        """The curve at some ranks with its bands, made when it is first asked for."""
        if self._made:
            return self._made[0]
        last = int((self.before + self.size).max(initial=1))
        curve = self.cmc(rank_ladder(last), with_band=False)
        ladder = rank_ladder(moves.items or last)
        at = np.searchsorted(ladder, np.minimum(curve["rank"], ladder[-1]))
        self._made.append(_widened(put_band(curve, moves.at(at), self.confidence)))
        return self._made[0]

    @cached_property
    def _made(self) -> list[Curve]:
        return []

    @cached_property
    def _distinct(self) -> tuple[Integers, Integers]:
        """The different triples of (before, size, relevant), and how many queries have each."""
        triples = np.stack([self.before, self.size, self.relevant])
        return np.unique(triples, axis=1, return_counts=True)


def _widened(curve: Curve) -> Curve:
    """The curve with the narrowest pointwise band that holds its own and never falls.

    Behind a rank at which all queries but a few have found a mate, intervals are wide again: at
    each rank the band reaches down to the lowest limit from there on, and up to the highest so far.
    """
    if POINTWISE[0] not in curve:
        return curve
    low, high = (curve[name] for name in POINTWISE)
    ends = np.fmin.accumulate(low[::-1])[::-1], np.fmax.accumulate(high)
    known = [np.where(np.isnan(low), np.nan, end) for end in ends]
    return Curve(curve.name, {**curve, **dict(zip(POINTWISE, known, strict=True))})


def check_ranks(ranks: object) -> None:
    """Refuse what is no number of ranks that a curve can have."""
    if type(ranks) is not int or not 1 <= ranks <= MOST_RANKS:
        raise InputError(
            f"The 'ranks' parameter must be an int >= 1 and at most {MOST_RANKS:,}. "
            f"Got {shortened(ranks)}."
        )


def up_to(cmc: Curve, ranks: int) -> Curve:
    """The points of a CMC curve up to a rank; where it has ended, it goes on as it is."""
    kept = cmc["rank"] <= ranks
    columns = {name: values[kept] for name, values in cmc.items()}
    if ranks > cmc["rank"][-1]:
        columns = {name: np.append(values, values[-1]) for name, values in columns.items()}
        columns["rank"][-1] = ranks
    return Curve("cmc", columns, cmc.band_reason)
