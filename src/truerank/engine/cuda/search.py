"""Nearest neighbours by the GPUs of this machine: each searches for blocks of queries in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Lock
from types import ModuleType
from typing import Any

import torch

from truerank.engine import cuda
from truerank.engine.cuda.exact_search import search_exactly
from truerank.engine.cuda.filtered_search import FilteredSearch
from truerank.engine.cuda.half_rows import half_rows
from truerank.engine.cuda.placing import place
from truerank.engine.cuda.rows import InnerProducts
from truerank.engine.cuda.transfer import DeviceQueries, fetched
from truerank.engine.cuda.worker import own_filters
from truerank.space.base import Distances, Rows, Space
from truerank.space.probe import probe

__all__ = ["Search", "Searches", "search_kernels"]

Lists = tuple[Distances, Rows, Rows]
"""Distances and items, (queries, k) each, and how many items lie at the last distance."""


class Search:
    """One device with a space on it; `filters` are the search's kernels, None for exact tiles."""

    def __init__(
        self, space: Space, device: Any, kernels: ModuleType, filters: ModuleType | None
    ) -> None:
        self._device = device
        self._space = place(space, device, kernels)
        probe(space, lambda some: self._tiles_of(some, space, kernels))
        self._filtered = None
        if isinstance(self._space, InnerProducts) and filters is not None:
            half = half_rows(self._space)
            if half is not None:
                self._filtered = FilteredSearch(self._space, half, filters)

    def _tiles_of(self, some: Space, own: Space, kernels: ModuleType) -> Any:
        """How the device makes tiles of a space of the probe."""
        return (self._space if some is own else place(some, self._device, kernels)).tiles

    def nearest(self, rows: Rows, k: int, method: str = "auto") -> Lists:
        """The k nearest items of some queries; `method` as in the settings."""
        queries = DeviceQueries.of(rows, self._device)
        filtered = None if method == "float64" else self._filtered
        if filtered is not None and (method != "auto" or filtered.pays(k)):
            found = filtered.nearest(queries, k)
        else:
            found = search_exactly(self._space, queries, k)
        return fetched(found.distance), fetched(found.item), fetched(found.tied)


class Searches:
    """The GPUs of this machine; `devices`, `kernels` and `filters` are for tests."""

    def __init__(
        self,
        space: Space,
        devices: Sequence[str] | None = None,
        kernels: ModuleType | None = None,
        filters: ModuleType | None = None,
    ) -> None:
        names = devices or [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        self.space, self._devices = space, [torch.device(name) for name in names]
        self._kernels = kernels or cuda.best_kernels(self._devices[0])
        self._filters = filters
        self._made: dict[int, Search] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._devices)

    def run(
        self, blocks: Iterable[Rows], k: int, method: str, take: Callable[[Rows, Lists], None]
    ) -> None:
        """Search for blocks of queries; `take` is given the lists of each, one at a time."""
        left, taking = iter(blocks), Lock()

        def work(number: int) -> None:
            while True:
                with self._lock:
                    rows = next(left, None)
                if rows is None:
                    return
                lists = self._search(number, rows, k, method)
                with taking:
                    take(rows, lists)

        with ThreadPoolExecutor(len(self._devices)) as pool:
            for done in [pool.submit(work, number) for number in range(len(self._devices))]:
                done.result()

    def _search(self, number: int, rows: Rows, k: int, method: str) -> Lists:
        device = self._devices[number]
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext(), torch.no_grad():
            if number not in self._made:  # by the one thread of this device
                filters = self._filters or search_kernels(device, self._kernels)
                self._made[number] = Search(self.space, device, self._kernels, filters)
            return self._made[number].nearest(rows, k, method)


def search_kernels(device: Any, kernels: ModuleType) -> ModuleType | None:
    """The kernels of the filtered search, where the device can be trusted with half precision."""
    if own_filters(device, kernels) is None:
        return None
    from truerank.engine.cuda import search_kernels as own

    return own
