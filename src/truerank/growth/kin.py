"""Tie groups of kin: queries that have as many mates and as many other items as one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.groups import TieGroups

__all__ = ["Kin"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Kin:
    """Groups of queries with R mates and M others each; a query owns those from its offset on."""

    relevant: int
    others: int
    offsets: Integers
    before: Integers
    """Others strictly nearer."""
    tied: Integers
    mates: Integers
    seen: Integers
    """Mates strictly nearer."""
    numbers: Integers
    """The groups' places among those of all queries."""

    @property
    def kind(self) -> tuple[int, int]:
        """What kin have in common: R and M."""
        return self.relevant, self.others

    @cached_property
    def last(self) -> Integers:
        """Others before mates that come last in their groups."""
        return self.before + self.tied

    @staticmethod
    def all(groups: TieGroups) -> Iterator[tuple[Integers | slice, Kin]]:
        """The places of queries with as many mates and as many others, and their groups."""
        mates = groups.mates
        others = groups.candidates - mates
        sizes = np.diff(groups.offsets)
        total = np.concatenate([[0], np.cumsum(groups.relevant)])
        seen = total[:-1] - np.repeat(total[groups.offsets[:-1]], sizes)
        columns = (groups.before - seen, groups.size - groups.relevant, groups.relevant, seen)
        base = int(others.max(initial=0)) + 1
        kinds, number = np.unique(mates * base + others, return_inverse=True)
        if len(kinds) == 1:
            every = np.arange(len(seen))
            relevant, rest = divmod(int(kinds[0]), base)
            yield slice(0, len(mates)), Kin(relevant, rest, groups.offsets, *columns, every)
            return
        order = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[order], np.arange(len(kinds) + 1))
        for place, kind in enumerate(kinds.tolist()):
            queries = order[cuts[place] : cuts[place + 1]]
            offsets = np.concatenate([[0], np.cumsum(sizes[queries])])
            mine = np.arange(offsets[-1])
            mine += np.repeat(groups.offsets[queries] - offsets[:-1], sizes[queries])
            before, tied, own, prior = (column[mine] for column in columns)
            relevant, rest = divmod(kind, base)
            yield queries, Kin(relevant, rest, offsets, before, tied, own, prior, mine)

    @staticmethod
    def joined(kins: list[Kin]) -> Kin:
        """All queries of kin with as many mates and others, one after the other."""
        ends = np.cumsum([0, *(kin.offsets[-1] for kin in kins)])
        offsets = [kin.offsets[:-1] + start for kin, start in zip(kins, ends, strict=False)]
        columns = ("before", "tied", "mates", "seen", "numbers")
        return Kin(
            *kins[0].kind,
            np.concatenate([*offsets, ends[-1:]]),
            *(np.concatenate([getattr(kin, name) for kin in kins]) for name in columns),
        )
