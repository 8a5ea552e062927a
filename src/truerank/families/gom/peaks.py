"""Where the mean curves of GOM are highest: cells that can hold the maximum, then their steps.

The first pass bounds the curves on every cell; what another cell beats is discarded, and the few
that are left are walked through step by step, in integers, in a second pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.engine.sight import Sight
from truerank.engine.watch import PerThread, Watcher
from truerank.families.gom import kernels as gom_kernels
from truerank.families.gom.axis import STEPS
from truerank.families.gom.collect import Gom, Profiles
from truerank.space import Distances

__all__ = ["Peak", "peaks"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Peak:
    """A maximum, as a sum over queries in integers, and the smallest distance that has it."""

    total: int
    distance: float


def peaks(gom: Gom, sweep: Callable[[list[Watcher]], None]) -> list[Peak]:
    """The peaks of mVP and of the lower, expected and upper mReP."""
    bounds = gom.bounds
    grid = gom.axis.grid()
    # Bounds and steps are rounded to integers apart: a query may be off by one on each side.
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
    watcher = _Steps(gom, ranges)
    sweep([watcher])
    found = []
    for curve in range(4):
        best = Peak(0, np.inf)
        for number, (low, _) in enumerate(watcher.ranges):
            at, change = watcher.steps(number)
            order = np.argsort(at, kind="stable")
            at, running = at[order], np.cumsum(change[curve][order])
            ends = np.append(at[1:] != at[:-1], True)
            if not ends.any():
                continue
            at, running = at[ends], running[ends]
            top = int(np.argmax(running))
            where = low if at[top] == -np.inf else float(at[top])
            if (running[top], -where) > (best.total, -best.distance):
                best = Peak(int(running[top]), where)
        found.append(best)
    return found


class _Steps(Watcher):
    whole_rows = True

    def __init__(self, gom: Gom, ranges: list[tuple[float, float]]) -> None:
        self.ranges, self._one = ranges, gom.one
        self._of: dict[int, tuple[Profiles, int]] = {
            int(row): (profiles, q)
            for rows, profiles in gom.kept
            for q, row in enumerate(rows)
            if profiles.offsets[q] < profiles.offsets[q + 1]
        }
        self._parts: PerThread[list[list[tuple[Distances, Integers]]]] = PerThread(
            lambda: [[] for _ in ranges]
        )

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        for start, rows in sight.ranked():
            numbers = sight.rows[start : start + len(rows)]
            for row, number in zip(rows, numbers.tolist(), strict=True):
                if number in self._of:
                    self._walk(row[: np.searchsorted(row, np.inf)], *self._of[number])

    def _walk(self, ranked: Distances, profiles: Profiles, q: int) -> None:
        for (low, high), part in zip(self.ranges, self._parts.mine(), strict=True):
            first, last = np.searchsorted(ranked, [low, high], side="right")
            at = np.empty(last - first + 1)
            change = np.empty((4, last - first + 1), np.int64)
            count = gom_kernels.events(
                profiles.offsets, profiles.distance, profiles.sums, profiles.found, ranked,
                q, low, high, self._one, change, at, 0,
            )  # fmt: skip
            part.append((at[:count], change[:, :count]))

    def steps(self, number: int) -> tuple[Distances, Integers]:
        """Distances and changes of the four sums at each, of one range, in no order."""
        parts = [part for thread in self._parts.all() for part in thread[number]]
        return (
            np.concatenate([at for at, _ in parts]),
            np.concatenate([change for _, change in parts], axis=1),
        )
