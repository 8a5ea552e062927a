"""Tie groups split by share of the gallery: its items in the order of their shares, each alone.

The thresholds, the relevant and the excluded pairs are the CPU's; the device counts one range of
items after the other, by the same kernels that count the whole gallery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truerank.engine import kernels
from truerank.engine.counts import Counts, Shares, TieGroups
from truerank.engine.cpu import begin_counts
from truerank.engine.cuda.counting import NOTHING
from truerank.engine.cuda.transfer import sent
from truerank.engine.cuda.worker import Span, Worker
from truerank.relevance import View
from truerank.space.base import Rows, Space

if TYPE_CHECKING:
    from truerank.engine import Settings

__all__ = ["Splitter"]


class Splitter:
    """A worker for each way to cut the gallery into shares."""

    def __init__(self, worker: Worker, view: View, space: Space, shares: Shares) -> None:
        self._view, self._space, self._shares, self._worker = view, space, shares, worker
        self._ways: list[tuple[Worker, list[tuple[int, Span]]]] = []
        for column in shares.item.T:
            order = np.argsort(column, kind="stable")
            ends = np.searchsorted(column[order], np.arange(shares.columns + 1)).tolist()
            spans = [(share, (ends[share], ends[share + 1])) for share in range(shares.columns)]
            held = [(share, span) for share, span in spans if span[0] < span[1]]
            self._ways.append((worker.reordered(order), held))

    def count(self, rows: Rows, limits: Settings) -> TieGroups:
        """Tie groups of a block of queries with few relevant items, split."""
        counts, candidates = begin_counts(
            self._space, rows, self._view, self._shares, distances=self._worker.pairs
        )
        assert counts.split is not None
        edges = sent(_edges(counts), self._worker.device)
        for way, (worker, spans) in enumerate(self._ways):
            filtered = worker.filter_pays(rows, edges, limits)
            found = np.empty((2, len(spans), len(counts.distance)), np.int64)
            for place, (_, span) in enumerate(spans):
                found[:, place] = worker.tally(rows, edges, limits, span, filtered).steps()
            columns = np.array([share for share, _ in spans])
            kernels.add_turned(found[0], columns, counts.split[0])
            kernels.add_turned(found[1], columns, counts.split[1])
            if way == 0:
                counts.between += found[0].sum(axis=0)
                counts.equal += found[1].sum(axis=0)
        return counts.tie_groups(candidates, self._shares.queries[rows])


def _edges(counts: Counts) -> np.ndarray:
    """The thresholds as a matrix, a row for each query, right-aligned."""
    sizes = np.diff(counts.offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(counts.distance)) - counts.offsets[owner]
    width = int(sizes.max())
    edges = np.full((len(sizes), width), NOTHING)
    edges[owner, width - sizes[owner] + place] = counts.distance
    return edges
