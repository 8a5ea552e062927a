"""The peaks of GOM's mean curves: the cells that can hold the maximum, then their steps.

The first pass bounds the curves on every cell; what another cell beats is discarded, and the few
that are left are walked through step by step, in integers, in a second pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core.curve import POINTS
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import PairObserver, Part
from truerank.engine.threads import PerThread
from truerank.families.gom import kernels as gom_kernels
from truerank.families.gom.axis import STEPS
from truerank.families.gom.collect import Gom
from truerank.families.gom.profiles import Profiles
from truerank.space import Distances, Rows

__all__ = ["Peak", "peaks", "peaks_at_points"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Peak:
    """A maximum, as a sum over queries in integers, and the smallest threshold that has it."""

    total: int
    tau: float


def peaks_at_points(gom: Gom, number: int) -> list[Peak]:
    """The lower, expected and upper peak of a curve of `gom` at the points of the trapezoid."""
    sums = gom.sums_at_points()[number][:, :: POINTS // 100]
    return [Peak(int(row.max()), float(row.argmax() / 100)) for row in sums]


def peaks(gom: Gom, frozen: bool, sweep: Callable[[list[PairObserver]], None]) -> list[Peak]:
    """The lower, expected and upper peak of mVP, and those of mReP, over all thresholds."""
    bounds = gom.bounds(frozen)
    grid = gom.axis.grid()
    # Bounds and steps are rounded separately: a query may be off by one on each side.
    slack = 4 * sum(len(rows) for rows, _ in gom.kept)
    cells: set[int] = set()
    for at_start, at_most in bounds:
        cells.update(np.flatnonzero(at_most + slack >= at_start.max()).tolist())
    ranges: list[tuple[float, float]] = []
    for cell in sorted(cells):
        low = float(np.nextafter(grid[cell], -np.inf)) if cell else -np.inf
        high = float(grid[min(cell + 1, STEPS)])
        if cell - 1 in cells:
            ranges[-1] = (ranges[-1][0], high)
        else:
            ranges.append((low, high))
    observer = _Steps(gom, ranges, frozen)
    sweep([observer])
    found = []
    for curve in range(6):
        highest, nearest = 0, np.inf
        for number, (low, _) in enumerate(observer.ranges):
            at, change = observer.steps(number)
            order = np.argsort(at, kind="stable")
            at, running = at[order], np.cumsum(change[curve][order])
            ends = np.append(at[1:] != at[:-1], True)
            if not ends.any():
                continue
            at, running = at[ends], running[ends]
            top = int(np.argmax(running))
            where = low if at[top] == -np.inf else float(at[top])
            if (running[top], -where) > (highest, -nearest):
                highest, nearest = int(running[top]), where
        found.append(Peak(highest, float(gom.axis.tau(np.array([nearest]))[0])))
    return found


class _Steps(PairObserver):
    """Observes the steps of every query's curves in some ranges of distances."""

    whole_rows = True

    def __init__(self, gom: Gom, ranges: list[tuple[float, float]], frozen: bool) -> None:
        self._frozen = frozen
        self.ranges, self._one, self._axis = ranges, gom.one, gom.axis
        self._of: dict[int, tuple[Profiles, int]] = {
            int(row): (profiles, q)
            for rows, profiles in gom.kept
            for q, row in enumerate(rows)
            if profiles.offsets[q] < profiles.offsets[q + 1]
        }
        self._parts: PerThread[list[list[tuple[Distances, Integers]]]] = PerThread(
            lambda: [[] for _ in ranges]
        )

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        for start, rows in self._axis.block(block).ranked():
            numbers = block.rows[start : start + len(rows)]
            for row, number in zip(rows, numbers.tolist(), strict=True):
                if number in self._of:
                    self._walk(row[: np.searchsorted(row, np.inf)], *self._of[number])

    def _walk(self, ranked: Distances, profiles: Profiles, q: int) -> None:
        for (low, high), part in zip(self.ranges, self._parts.mine(), strict=True):
            first, last = np.searchsorted(ranked, [low, high], side="right")
            at = np.empty(last - first + 1)
            change = np.empty((6, last - first + 1), np.int64)
            count = gom_kernels.events(
                profiles.offsets, profiles.distance, profiles.sums, profiles.found,
                profiles.last, ranked, q, low, high, self._frozen, self._one, change, at, 0,
            )  # fmt: skip
            part.append((at[:count], change[:, :count]))

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {str(number): self.steps(number) for number in range(len(self.ranges))}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        for number, steps in enumerate(self._parts.mine()):
            steps.append(part[str(number)])

    def steps(self, number: int) -> tuple[Distances, Integers]:
        """Distances and changes of the six sums at each, of one range, in no order."""
        parts = [part for thread in self._parts.all() for part in thread[number]]
        return (
            np.concatenate([*(at for at, _ in parts), np.empty(0)]),
            np.concatenate([*(change for _, change in parts), np.empty((6, 0), np.int64)], axis=1),
        )
