"""Columns at gallery sizes: every query's values of some metrics, as they come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.column import Column, as_run
from truerank.core.groups import TieGroups
from truerank.growth.kin import Kin
from truerank.growth.laws import drawn_of, law_of
from truerank.growth.records import Map
from truerank.growth.values import Growth

__all__ = ["GrownColumns"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
ENOUGH = 1 << 20
"""Tie groups that are worth a call: what they share is computed once for all of them."""


class GrownColumns:
    """The columns of a pass that have a law, at each size."""

    def __init__(self, growth: Growth, columns: list[Column], queries: int) -> None:
        self.growth = growth
        self.columns = [column for column in columns if law_of(column.metric) is not None]
        self.places = {column.metric: at for at, column in enumerate(self.columns)}
        """The place of each metric's column."""
        shape = (len(growth.sizes), len(self.columns), 3, queries)
        self.values = np.full(shape, np.nan)
        self._open: list[tuple[int, Integers, Kin]] = []

    def fill(self, rows: Integers, parts: Mapping[int, tuple[Integers, Any]]) -> None:
        """Take some queries, from any thread, to be filled in by `settle`; `parts` are those with a
        mate of each grade, and their groups."""
        for grade in {column.grade for column in self.columns}:
            chosen, some = parts[grade]
            groups = some if isinstance(some, TieGroups) else some.tie_groups()
            if len(groups):
                mine = rows[chosen]
                kins = Kin.all(groups)
                self._open += [(grade, mine[queries], kin) for queries, kin in kins]

    @property
    def is_enough(self) -> bool:
        """Whether so many queries came in that they are to be filled in."""
        return sum(len(kin.before) for _, _, kin in self._open) >= ENOUGH

    def settle(self, each: Map = map) -> None:
        """Fill in the queries that came in."""
        alike: dict[tuple[int, ...], list[tuple[Integers, Kin]]] = {}
        for grade, rows, kin in self._open:
            alike.setdefault((grade, *kin.kind), []).append((rows, kin))
        self._open.clear()
        for (grade, *_), some in alike.items():
            columns = [at for at, column in enumerate(self.columns) if column.grade == grade]
            metrics = [self.columns[at].metric for at in columns]
            runs = [as_run(rows) for rows, _ in some]
            found = self.growth.of_kin([kin for _, kin in some], metrics, each)
            for number, place, at, values in found:
                self.values[place, columns[at]][:, runs[number]] = values

    def at(self, size: int) -> list[Column]:
        """The filled columns at one of the sizes, with as many candidates as it leaves; those of a
        grade share their arrays of mates and candidates."""
        place = self.growth.sizes.index(size)
        counts: dict[int, tuple[Integers, Integers]] = {}
        found = []
        for column, values in zip(self.columns, self.values[place], strict=True):
            if column.grade not in counts:
                mates = column.totals.sum(axis=1)
                others, number = np.unique(column.candidates - mates, return_inverse=True)
                drawn = [drawn_of(int(some), size, self.growth.gallery) for some in others]
                left = mates + np.array(drawn, np.int64)[number]
                counts[column.grade] = (column.totals, left)
            found.append(
                Column(column.metric, column.grade, column.scale, values, *counts[column.grade])
            )
        return found
