"""Arrays between main memory and a device, side streams, and pairs listed on the device.

Relevant and excluded pairs of equal codes are expanded on the device; masks and judgements are
listed by the view and sent. The CPU device of tests has no streams.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.distance.base import Rows
from truerank.distance.remote_rows import DeviceRows, Pieces
from truerank.task.relevance import LabelView, TreeView, View

_NUMBERS = 1 << 26
"""Numbers of a cluster's rows that are sent at a time."""


def sent(array: npt.NDArray[Any], device: Any) -> Any:
    """An array copied to a device; torch takes none that must not be written to, as a cluster's."""
    whole = np.ascontiguousarray(array)
    if not whole.flags.writeable:
        # A GPU copies anyway; a second copy in main memory would be one for each worker.
        whole = unlocked(whole) if torch.device(device).type == "cuda" else whole.copy()
    return torch.from_numpy(whole).to(device)


def unlocked(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view of the same memory that numpy would let be written to; it is valid as long as the
    array is, and for reading alone."""
    if not array.nbytes:
        return array.copy()
    memory = (ctypes.c_byte * array.nbytes).from_address(array.ctypes.data)
    view: npt.NDArray[Any] = np.frombuffer(memoryview(memory), array.dtype).reshape(array.shape)
    return view


def sent_rows(integers: Any, device: Any) -> Any:
    """Integer rows on a device; those that a cluster holds come there piece by piece."""
    if isinstance(integers, DeviceRows):
        return integers.on(device)
    if not isinstance(integers, Pieces):
        return sent(integers, device)
    step = max(1, _NUMBERS // integers.shape[1])
    some = torch.from_numpy(np.empty(0, integers.dtype))
    out = torch.empty(integers.shape, dtype=some.dtype, device=device)
    for start in range(0, len(integers), step):
        out[start : start + step] = sent(integers[start : start + step], device)
    return out


def fetched(tensor: Any) -> npt.NDArray[Any]:
    """A tensor in main memory, through pinned pages: others are ten times slower to fill."""
    if tensor.device.type != "cuda":
        own: npt.NDArray[Any] = tensor.numpy()
        return own
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    array: npt.NDArray[Any] = pinned.copy_(tensor).numpy()
    return array


@dataclass(frozen=True)
class DeviceQueries:
    """The numbers of some queries, in main memory and on a device."""

    rows: Rows
    there: Any

    @staticmethod
    def of(rows: Rows, device: Any) -> DeviceQueries:
        """Queries whose numbers are sent to the device once."""
        return DeviceQueries(rows, sent(rows, device))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_run(self) -> bool:
        """Whether these queries, in ascending order, follow one another without a gap."""
        return int(self.rows[-1]) - int(self.rows[0]) + 1 == len(self.rows)

    def part(self, some: slice) -> DeviceQueries:
        """Some of the queries."""
        return DeviceQueries(self.rows[some], self.there[some])


def settled(device: Any) -> None:
    """Wait for what this thread has asked of a device: others, with streams of their own, may use
    it then."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


class DeviceCache:
    """Arrays on a device that are asked for again and again, by any thread."""

    def __init__(self, device: Any) -> None:
        self._device, self._lock = device, Lock()
        self._held: dict[int, tuple[npt.NDArray[Any], Any]] = {}

    def __call__(self, array: npt.NDArray[Any]) -> Any:
        """The array on the device, sent the first time; it must not change."""
        with self._lock:
            if id(array) not in self._held:
                there = sent(array, self._device)
                settled(self._device)
                self._held[id(array)] = (array, there)
            return self._held[id(array)][1]


# Streams of a device: work that goes on side by side. The CPU device of tests has none.


@cache
def side_stream(device: Any, number: int) -> Any:
    """One of a few streams of a device, kept for all calls of the process.

    cuBLAS keeps a workspace for every stream that it has met, and torch keeps free memory by
    stream: with new streams for each call, both would grow from call to call.
    """
    return torch.cuda.Stream(device)


class Lane:
    """One of a few streams beside that in which a device works by default."""

    def __init__(self, device: Any, number: int) -> None:
        self._stream = side_stream(device, number) if device.type == "cuda" else None

    @contextmanager
    def after(self, *moments: Any) -> Iterator[None]:
        """What is asked for within goes this way, once these moments have come."""
        if self._stream is None:
            yield
            return
        for one in moments:
            if one is not None:
                self._stream.wait_event(one)
        with torch.cuda.stream(self._stream):
            yield


def moment(device: Any) -> Any:
    """When all is done that has been asked for here so far."""
    if device.type != "cuda":
        return None
    return torch.cuda.current_stream(device).record_event()


def wait_for(device: Any, *moments: Any) -> None:
    """Let what is asked for here from now on wait for these moments."""
    for one in moments:
        if one is not None:
            torch.cuda.current_stream(device).wait_event(one)


# Lists of relevant and of excluded pairs, on the device.


@dataclass(frozen=True)
class Lists:
    """Relevant pairs, sorted by query, with their grades from 1; and excluded pairs."""

    query: Any
    item: Any
    grade: Any
    excluded_query: Any
    excluded_item: Any


class DevicePairs:
    """Lists of relevant and excluded pairs for any block of queries."""

    def __init__(self, view: View, device: Any) -> None:
        self._view, self._device = view, device
        self._by_code = False
        if not isinstance(view, LabelView) or view.exclusions.masks:
            return
        self._by_code = True
        self._relevant = _Rule(self, view.query, view.item)
        self._rules = [_Rule(self, rule.query, rule.item) for rule in view.exclusions.rules]
        self._deeper: list[tuple[Any, Any]] = []
        self._lowest = 1
        if isinstance(view, TreeView):
            self._lowest = view.lowest
            levels = zip(*view.paths, strict=True)
            self._deeper = [
                (self.send(query), self.send(item)) for query, item in list(levels)[view.lowest :]
            ]

    def send(self, array: Any) -> Any:
        """A numpy array on the device."""
        return sent(array, self._device)

    def block(self, queries: DeviceQueries) -> Lists:
        """The pairs of these queries, which are numbered from 0."""
        if not self._by_code:
            pairs = self._view.block(queries.rows)
            parts = (pairs.relevant.query, pairs.relevant.item, pairs.grade)
            excluded = (pairs.excluded.query, pairs.excluded.item)
            return Lists(*(self.send(part) for part in (*parts, *excluded)))
        chosen = queries.there
        query, item = self._relevant.pairs(chosen)
        for rule in self._rules:
            kept = torch.nonzero(~rule.holds(chosen[query], item)).flatten()
            query, item = query[kept], item[kept]
        grade = torch.full_like(query, self._lowest)
        for of_query, of_item in self._deeper:
            grade += of_query[chosen[query]] == of_item[item]
        return Lists(query, item, grade, *self._excluded(chosen))

    def grade_rows(self, queries: DeviceQueries) -> Any:
        """The grade of every item for these queries, uint8; excluded ones have theirs."""
        if not self._by_code:
            return self.send(self._view.grade_rows(queries.rows).astype(np.uint8))
        from truerank.engine.cuda.ranking_kernels import common_grades

        chosen = queries.there
        levels = [(self._relevant.query, self._relevant.item), *self._deeper]
        query = torch.stack([of_query[chosen].to(torch.int32) for of_query, _ in levels])
        item = torch.stack([of_item.to(torch.int32) for _, of_item in levels])
        return common_grades(query, item, self._lowest)

    def excluded(self, queries: DeviceQueries) -> tuple[Any, Any]:
        """The excluded pairs of these queries."""
        if self._by_code:
            return self._excluded(queries.there)
        pairs = self._view.exclusions.pairs(queries.rows, self._view.items)
        return self.send(pairs.query), self.send(pairs.item)

    def _excluded(self, chosen: Any) -> tuple[Any, Any]:
        """Every excluded pair once: those of a rule that no earlier rule has."""
        queries, items = [], []
        for number, rule in enumerate(self._rules):
            query, item = rule.pairs(chosen)
            for earlier in self._rules[:number]:
                fresh = torch.nonzero(~earlier.holds(chosen[query], item)).flatten()
                query, item = query[fresh], item[fresh]
            queries.append(query)
            items.append(item)
        if not queries:
            nothing = torch.empty(0, dtype=torch.int64, device=self._device)
            return nothing, nothing
        return torch.cat(queries), torch.cat(items)


class _Rule:
    """The pairs with equal codes; no item carries a negative code."""

    def __init__(self, owner: DevicePairs, query: Any, item: Any) -> None:
        self.query, self.item = owner.send(query), owner.send(item)
        codes, self._order = torch.sort(self.item, stable=True)
        known = self.query.clamp(min=0)
        self._start = torch.searchsorted(codes, known)
        self._stop = torch.searchsorted(codes, known, right=True)
        self._stop = torch.where(self.query < 0, self._start, self._stop)

    def holds(self, rows: Any, item: Any) -> Any:
        """Which of these pairs have equal codes."""
        code = self.query[rows]
        return (code == self.item[item]) & (code >= 0)

    def pairs(self, rows: Any) -> tuple[Any, Any]:
        """For each row, numbered from 0, all items with its code."""
        start = self._start[rows]
        counts = self._stop[rows] - start
        number = torch.arange(len(rows), device=rows.device)
        query = torch.repeat_interleave(number, counts)
        first = torch.cumsum(counts, 0) - counts
        position = torch.arange(len(query), device=rows.device) + (start - first)[query]
        return query, self._order[position]
