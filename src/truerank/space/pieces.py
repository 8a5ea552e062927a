"""Rows that a cluster holds, a piece for each shard: read and rounded there, by its workers.

Pieces stand for an array of integer rows. In the process that began the run no row is held: what is
asked for is taken out by tasks, and sums over rows are made by tasks. In a worker a piece is seen
where its machine holds it, and comes from another machine where it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cluster import Call, Cluster, fetch

__all__ = ["Pieces", "over", "take_rows", "work_on"]

Array = npt.NDArray[Any]


class Pieces:
    """Integer rows in pieces; `member` says which of the arrays of a piece these are."""

    ndim = 2

    def __init__(
        self,
        cluster: Cluster | None,
        references: Sequence[Any],
        counts: Sequence[int],
        dimension: int,
        member: str,
        dtype: npt.DTypeLike,
    ) -> None:
        self._cluster = cluster
        self._references, self._member = list(references), member
        self._starts = np.cumsum([0, *counts])
        self.shape = (int(self._starts[-1]), dimension)
        self.dtype = np.dtype(dtype)
        self.nbytes = self.shape[0] * dimension * self.dtype.itemsize

    def __getstate__(self) -> dict[str, Any]:
        """What a worker gets: it sees pieces where they are."""
        return {**vars(self), "_cluster": None}

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Array:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            inside = self._inside(start, stop) if step == 1 else None
            if inside is not None:
                return inside
            index = np.arange(start, stop, step)
        index = np.asarray(index)
        out = np.empty((len(index), self.shape[1]), self.dtype)
        number = np.searchsorted(self._starts, index, "right") - 1
        wanted = {n: np.flatnonzero(number == n) for n in np.unique(number).tolist()}
        given = {n: index[places] - self._starts[n] for n, places in wanted.items()}
        for n, rows in self._each(f"{__name__}:take_rows", {n: (g,) for n, g in given.items()}):
            out[wanted[n]] = rows
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype)

    def astype(self, dtype: npt.DTypeLike) -> Array:
        """All rows in another type."""
        return self[:].astype(dtype)

    def each(
        self, target: str, by_row: Sequence[Array] = (), shared: Sequence[Any] = ()
    ) -> list[Any]:
        """What a function of a piece's rows, its part of `by_row`, and `shared` gives, in order."""
        starts = self._starts.tolist()
        given = {
            n: (*(one[starts[n] : starts[n + 1]] for one in by_row), *shared)
            for n in range(len(self._references))
        }
        found = dict(self._each(f"{__name__}:work_on", {n: (target, *g) for n, g in given.items()}))
        return [found[n] for n in range(len(self._references))]

    def products(
        self, target: str, left: Array, query: npt.NDArray[Any], item: npt.NDArray[Any]
    ) -> npt.NDArray[np.int64]:
        """Products of single pairs, made where the items are: only what they need travels.

        `target` names the function of (items, queries, query, item) that makes them.
        """
        out = np.empty(len(item), np.int64)
        number = np.searchsorted(self._starts, item, "right") - 1
        wanted = {n: np.flatnonzero(number == n) for n in np.unique(number).tolist()}
        given = {}
        for n, places in wanted.items():
            rows, mine = np.unique(query[places], return_inverse=True)
            given[n] = (target, left[rows], mine, item[places] - self._starts[n])
        for n, found in self._each(f"{__name__}:work_on", given):
            out[wanted[n]] = found
        return out

    def _inside(self, start: int, stop: int) -> Array | None:
        """Consecutive rows of one piece, which a worker need not copy."""
        if self._cluster is not None or stop <= start:
            return None
        number = int(np.searchsorted(self._starts, start, "right")) - 1
        if stop > self._starts[number + 1]:
            return None
        low = int(self._starts[number])
        rows: Array = _member(fetch(self._references[number]), self._member)
        return rows[start - low : stop - low]

    def _each(self, target: str, given: dict[int, tuple[Any, ...]]) -> Any:
        """Yield (number, answer) of a function of each of these pieces, in any order."""
        module, name = target.split(":")
        if self._cluster is None:
            function = getattr(import_module(module), name)
            for number, some in given.items():
                yield number, function([], self._member, *some, fetch(self._references[number]))
            return
        calls = (
            Call(number, target, given=(self._member, *some), after=(self._references[number],))
            for number, some in given.items()
        )
        with closing(self._cluster.gather(calls)) as answers:
            yield from answers


def _member(piece: dict[str, Array | None], member: str) -> Array:
    """An array of a piece; zeros where it has none, as a piece without short rows."""
    found = piece[member]
    if found is not None:
        return found
    rows = piece["integers"]
    assert rows is not None
    return np.zeros(rows.shape, np.int16)


def take_rows(held: list[Any], member: str, index: npt.NDArray[np.int64], piece: Any) -> Array:
    """A task: some rows of a piece."""
    rows: Array = _member(piece, member)[index]
    return rows


def work_on(held: list[Any], member: str, target: str, *given: Any) -> Any:
    """A task: "module:function" of a piece's rows and what else it is given."""
    module, name = target.split(":")
    *more, piece = given
    return getattr(import_module(module), name)(_member(piece, member), *more)


def over(
    rows: Any, target: str, by_row: Sequence[Array] = (), shared: Sequence[Any] = ()
) -> list[Any]:
    """What a function of rows gives, piece by piece; of an array, that of all of it."""
    if isinstance(rows, Pieces):
        return rows.each(target, by_row, shared)
    module, name = target.split(":")
    return [getattr(import_module(module), name)(rows, *by_row, *shared)]
