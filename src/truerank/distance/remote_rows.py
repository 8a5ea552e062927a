"""Integer rows that stay on a GPU or on a cluster, and the sums over them that are made there.

Sums are of integers modulo 2^64, so their order does not matter; torch's CPU device gives the
same bits. On a cluster there is one piece of rows per shard: the process that began the run
holds no row, and tasks take rows out or add them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank._util.cluster import Call, Cluster, fetch
from truerank._util.types import Array
from truerank.distance.distance_kernels import FACTORS, SEEDS, SHIFTS

if TYPE_CHECKING:
    from truerank.distance.digests import Digests


CHUNK_NUMBERS = 1 << 24
"""Numbers that are worked on at a time."""
_SIGN = -(1 << 63)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None))
"""Shifts and factors of truerank.distance.digests.mix."""


class DeviceRows:
    """Integer rows on a device, in the place of an array; what is asked for is fetched."""

    dtype = np.dtype(np.int32)
    ndim = 2

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.shape: tuple[int, int] = (int(tensor.shape[0]), int(tensor.shape[1]))
        self.nbytes = 4 * self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> npt.NDArray[np.int32]:
        if isinstance(index, np.ndarray):
            index = self._sent(index)
        found: npt.NDArray[np.int32] = self.tensor[index].cpu().numpy()
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype)

    def astype(self, dtype: Any) -> npt.NDArray[Any]:
        """All rows in main memory, as other numbers."""
        return self[:].astype(dtype)

    def on(self, device: Any) -> Any:
        """The rows on this device."""
        return self.tensor.to(device)

    def _sent(self, array: npt.NDArray[Any]) -> Any:
        import torch

        return torch.from_numpy(np.array(array)).to(self.tensor.device)

    def _chunks(self) -> Iterator[tuple[slice, Any]]:
        step = max(1, CHUNK_NUMBERS // self.shape[1])
        for start in range(0, len(self), step):
            some = slice(start, start + step)
            yield some, self.tensor[some].long()

    def products(
        self, other: DeviceRows, query: npt.NDArray[np.int64], item: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """X_q . Y_g of single pairs: integers, so that no order of summation shows."""
        out = np.empty(query.size, np.int64)
        step = max(1, CHUNK_NUMBERS // self.shape[1])
        for start in range(0, query.size, step):
            some = slice(start, start + step)
            x = self.tensor[self._sent(query[some])].long()
            x *= other.tensor[self._sent(item[some])]
            out[some] = x.sum(1).cpu().numpy()
        return out

    def squares(self) -> npt.NDArray[np.int64]:
        """|X|^2 of every row."""
        return self._summed(lambda rows: rows * rows).view(np.int64)

    def scrambled_sums(self, *, signed: bool) -> npt.NDArray[np.uint64]:
        """Sums modulo 2^64 of truerank.distance.digests.mix of the numbers, or of their sizes."""
        return self._summed(lambda rows: _mixed(rows if signed else rows.abs()))

    def weighted_sum(self, weights: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The sum modulo 2^64 of all rows, each times its weight."""
        by_row = self._sent(weights.view(np.int64))
        total = sum((rows * by_row[some, None]).sum(0) for some, rows in self._chunks())
        found: npt.NDArray[np.int64] = total.cpu().numpy()
        return found.view(np.uint64)

    def sums_with(self, reference: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The product modulo 2^64 of each row with another one."""
        other = self._sent(reference.view(np.int64))
        return self._summed(lambda rows: rows * other)

    def _summed(self, of: Any) -> npt.NDArray[np.uint64]:
        import torch

        out = torch.empty(len(self), dtype=torch.int64, device=self.tensor.device)
        for some, rows in self._chunks():
            out[some] = of(rows).sum(1)
        found: npt.NDArray[np.int64] = out.cpu().numpy()
        return found.view(np.uint64)

    def digests(self) -> tuple[Digests, npt.NDArray[np.int64]]:
        """The digest of each row, as distance.digests.row_digests gives it, and an order of
        the rows by the second half of it."""
        import torch

        if self.tensor.device.type == "cuda" and find_spec("triton") is not None:
            from truerank.distance import digest_kernels

            state = digest_kernels.row_digests(self.tensor)
        else:
            state = self._digests()
        order = torch.argsort(state[:, 1] ^ _SIGN)  # as of unsigned numbers
        found: npt.NDArray[np.int64] = state.cpu().numpy()
        return found.view(np.uint64), order.cpu().numpy()

    def _digests(self) -> Any:
        """The digests, by operations of torch on whole columns."""
        import torch

        def both(numbers: Iterable[int]) -> Any:
            array = np.array(list(numbers), np.uint64).view(np.int64)[:, None]
            return torch.from_numpy(array).to(self.tensor.device)

        factor, shift = both(FACTORS), both(SHIFTS)
        kept = both((1 << (64 - by)) - 1 for by in SHIFTS)  # torch shifts the sign in
        state = both(SEEDS).repeat(1, len(self)) * factor
        state ^= (state >> shift) & kept
        for column in self.tensor.T:
            state ^= column
            state *= factor
            state ^= (state >> shift) & kept
        return state.T.contiguous()


def _mixed(numbers: Any) -> Any:
    """truerank.distance.digests.mix of 64-bit integers."""
    for shift, factor in _MIX:
        numbers = numbers ^ ((numbers >> shift) & ((1 << (64 - shift)) - 1))
        if factor is not None:
            numbers = numbers * (factor - (1 << 64))
    return numbers


# Rows that a cluster holds, a piece for each shard: read and rounded there, by its workers.
#
# Pieces stand for an array of integer rows. In the process that began the run no row is held:
# what is asked for is taken out by tasks, and sums over rows are made by tasks. In a worker a
# piece is seen where its machine holds it, and comes from another machine where it does not.


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
