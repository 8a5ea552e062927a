"""Each pair once: where the queries are the gallery, a product serves both of its rows.

Queries stand in the order of their blocks, rows that are no query behind them, all in pieces of
equal size. Of the pieces a <= b only the tiles (a, b) are multiplied; a tile is counted for the
queries of a and, turned over, for those of b. Once all tiles of a block's pieces are done, so is
the block: earlier pieces have met it before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block
from truerank.engine.cuda import tensor_filter
from truerank.engine.cuda.counting import Begun, DeviceTally
from truerank.engine.cuda.rows import InnerProducts, free_bytes
from truerank.engine.cuda.transfer import DeviceQueries
from truerank.settings import Settings
from truerank.space.base import Rows

if TYPE_CHECKING:
    from truerank.engine.cuda.worker import Worker

__all__ = ["count_all"]

SIDE = 1 << 14
"""Most rows of a piece: their integers stay in the device's cache while pairs are refined."""
SMALL = 1 << 13
"""Rows below which all pairs are computed as fast."""
LISTED = 1 / 16
"""Items that may lie within the farthest mate: of more, products are better written down."""
_TRIED = 256
_BYTES = 64
"""Memory that a relevant pair takes."""


@dataclass(frozen=True)
class _Piece:
    """Some rows of the gallery that stand one after the other, most often queries of one block."""

    queries: DeviceQueries
    tally: DeviceTally | None
    """Counts of the queries; None for rows that are none."""
    fold: Any
    """(rows, ways): the columns of each row's folds, if anything is split."""
    sure: Any
    lost: Any
    last: Any
    """The least product of what may lie within each query's farthest mate."""
    most: Any
    """The most open items that a tile has left of each query."""

    def __len__(self) -> int:
        return len(self.queries)


@dataclass(frozen=True)
class _PieceRows:
    """A piece's rows, as long as they are needed: in half precision, and as integers with norms."""

    halves: Any
    integers: Any
    norm: Any


def count_all(
    worker: Worker, blocks: Sequence[Rows], limits: Settings, folds: GalleryFolds | None
) -> Iterator[Block] | None:
    """The blocks' tie groups; None where each pair must be, or had better be, computed twice."""
    space = worker.filterable
    if (
        space is None
        or not (space.one_side and space.resident)
        or limits.method not in ("auto", "symmetric")
    ):
        return None
    gallery = space.space.gallery
    asked = sum(map(len, blocks))
    if limits.method == "auto" and (gallery < SMALL or 2 * asked <= gallery):
        return None
    worker.keep_items(space)
    if worker.items is None:
        return None
    middle = len(blocks) // 2
    tried = worker.begin(blocks[middle], folds)
    if limits.method == "auto" and not _pays(worker, space, tried, limits):
        return None
    begun: list[Begun] = []
    held = 0
    for number, rows in enumerate(blocks):
        begun.append(tried if number == middle else worker.begin(rows, folds))
        held += _BYTES * len(begun[-1].lists.query)
        if held > free_bytes(worker.device) // 4:
            return None
    return _Symmetric(worker, space, begun, limits, folds).blocks()


def _pays(worker: Worker, space: InnerProducts, begun: Begun, limits: Settings) -> bool:
    """Whether few items lie within the farthest mates of a block, and few of these stay open."""
    some = slice(None, None, -(-len(begun.queries) // _TRIED))
    queries, edges = begun.queries.part(some), begun.tally.edges[some]
    halves = worker.items[0].take(queries.there)
    norm = space.unit_queries(queries)[1]
    _, lost = tensor_filter.thresholds(edges, norm, halves, worker.items[1], space.slack)
    sample = worker.items[0].part(0, min(space.space.gallery, SIDE))
    products = halves.rows.float() @ sample.rows.float().T
    listed = products[: len(queries), : len(sample.length)] >= lost[:, -1:]
    if float(listed.double().mean()) > LISTED:
        return False
    return worker.filter_pays(space, begun.queries, begun.tally.edges, limits)


class _Symmetric:
    """The pieces of a gallery, and the tables that their tiles are listed in."""

    def __init__(
        self,
        worker: Worker,
        space: InnerProducts,
        begun: list[Begun],
        limits: Settings,
        folds: GalleryFolds | None,
    ) -> None:
        self._worker, self._space, self._limits = worker, space, limits
        self._begun, self._folds = begun, folds
        room = free_bytes(worker.device) // 8
        self._side = max(1, min(SIDE, 16 * limits.gallery_rows, math.isqrt(room // 24)))
        self._room = worker.places(self._side)
        self._pieces: list[list[_Piece]] = [self._cut(one.queries, one.tally) for one in begun]
        asked = np.zeros(space.space.gallery, bool)
        for one in begun:
            asked[one.queries.rows] = True
        others = np.flatnonzero(~asked)
        if len(others):
            self._pieces.append(self._cut(DeviceQueries.of(others, worker.device), None))

    def _cut(self, queries: DeviceQueries, tally: DeviceTally | None) -> list[_Piece]:
        """Pieces of equal size."""
        number = -(-len(queries) // self._side)
        step = -(-len(queries) // number)
        some = [slice(start, start + step) for start in range(0, len(queries), step)]
        return [
            self._piece(queries.part(one), None if tally is None else tally.part(one))
            for one in some
        ]

    def _piece(self, queries: DeviceQueries, tally: DeviceTally | None) -> _Piece:
        fold = None
        if self._folds is not None:
            fold = self._worker.cached(self._folds.item)[queries.there]
        most = torch.zeros(len(queries), dtype=torch.int32, device=self._worker.device)
        if tally is None:
            never = torch.full_like(most, torch.inf, dtype=torch.float32)
            return _Piece(queries, None, fold, None, None, never, most)
        halves = self._halves(queries)
        norm = self._space.unit_queries(queries)[1]
        extremes = self._worker.items[1]
        sure, lost = tensor_filter.thresholds(
            tally.edges, norm, halves, extremes, self._space.slack
        )
        return _Piece(queries, tally, fold, sure, lost, lost[:, -1].contiguous(), most)

    def _halves(self, queries: DeviceQueries) -> Any:
        return self._worker.items[0].take(queries.there)

    def blocks(self) -> Iterator[Block]:
        """Each block once its last tile is done."""
        for number, one in enumerate(self._begun):
            for place, piece in enumerate(self._pieces[number]):
                left = self._rows(piece)
                self._tile(piece, piece, left, left)
                behind = [*self._pieces[number][place + 1 :]]
                behind += [other for later in self._pieces[number + 1 :] for other in later]
                for other in behind:
                    self._tile(piece, other, left, self._rows(other))
            most = torch.cat([piece.most for piece in self._pieces[number]])
            self._worker.count_again(one.queries, one.tally, most, self._room, self._limits)
            self._pieces[number] = []
            yield self._worker.finish(one, self._folds)

    def _rows(self, piece: _Piece) -> _PieceRows:
        queries, space = piece.queries, self._space
        halves = self._halves(queries).rows
        return _PieceRows(halves, space.query_rows(queries), space.query_norm(queries))

    def _tile(self, piece: _Piece, other: _Piece, left: _PieceRows, right: _PieceRows) -> None:
        """Count the tile of two pieces for both, or a piece's own for itself."""
        filters = self._worker.filters
        mine = self._lists(piece, other)
        turned = None
        if other is not piece and other.tally is not None:
            turned = self._lists(other, piece)
        both = None if turned is None else (other.last, *turned)
        filters.near_products(left.halves, right.halves, piece.last, *mine, both)
        self._settle(piece, left, other.fold, right, *mine)
        if turned is not None:
            self._settle(other, right, piece.fold, left, *turned)

    def _lists(self, piece: _Piece, other: _Piece) -> tuple[Any, Any]:
        """How many items are listed for each query, and room for them."""
        shape, device = (len(piece), len(other)), self._worker.device
        found = torch.zeros(len(piece), dtype=torch.int32, device=device)
        return found, torch.empty(shape, dtype=torch.int64, device=device)

    def _settle(
        self, piece: _Piece, own: _PieceRows, fold: Any, others: _PieceRows, listed: Any, near: Any
    ) -> None:
        """Count the rows of another piece that are listed, and refine what stays open."""
        tally, filters = piece.tally, self._worker.filters
        if tally is None:
            return
        split = None if tally.split is None else replace(tally.split, fold=fold)
        found = torch.zeros(len(piece), dtype=torch.int32, device=near.device)
        shape = (len(piece), self._room)
        entries = torch.empty(shape, dtype=torch.int32, device=near.device)
        filters.settle(piece.sure, piece.lost, listed, near, tally.bins, found, entries, split)
        filters.refine(
            own.integers,
            others.integers,
            own.norm,
            others.norm,
            self._space.mode,
            tally.edges,
            found,
            entries,
            tally.bins,
            tally.equal,
            split,
        )
        torch.maximum(piece.most, found, out=piece.most)
