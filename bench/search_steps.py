"""Where the time of a filtered search goes: the seconds of each step, by events of the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from truerank.engine.cuda.rows import InnerProducts, half_rows, place
from truerank.engine.cuda.search import FilteredSearch
from truerank.engine.cuda.torch_kernels import MISSED
from truerank.engine.cuda.transfer import DeviceQueries, fetched

__all__ = ["search_steps"]

TURNS = 3
NAMES = {
    "queries": "queries to half precision",
    "half_products": "products of the sample",
    "limits": "limits from the sample",
    "near_parts": "products",
    "write_down": "items written down",
    "choose": "items chosen",
    "measure": "exact distances",
    "order": "order",
    "fetched": "to main memory",
}


def search_steps(
    space: Any, device: Any, kernels: Any, filters: Any, rows: Any, k: int
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Mean seconds of each step of a search for these queries, and what it found in some of them.

    What no step accounts for is the host's: launches, allocations, waiting.
    """
    placed = place(space, device, kernels)
    if not isinstance(placed, InnerProducts) or filters is None:
        return {}, {}
    half = half_rows(placed)
    if half is None:
        return {}, {}
    clock = _Clock(device)
    kept = _Timed(half, clock)
    search = FilteredSearch(placed, kept, _Timed(filters, clock))  # type: ignore[arg-type]
    fetch, total = clock.timed("fetched", fetched), 0.0
    for turn in range(TURNS + 1):
        clock.settle()
        start = time.perf_counter()
        found = search.nearest(DeviceQueries.of(rows, device), k)
        for part in found.parts:
            fetch(part)
        clock.settle()
        if turn:
            total += time.perf_counter() - start
        else:  # the first turn compiles and allocates
            clock.forget()
    steps = {NAMES[name]: spent / TURNS for name, spent in clock.seconds().items()}
    whole = total / TURNS
    return {**steps, "between them": whole - sum(steps.values())}, clock.told(len(rows))


class _Clock:
    """Begin and end of every call, as the device sees them; on the CPU, as the host does."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._spent: dict[str, list[tuple[Any, Any]]] = {}
        self._chosen: list[tuple[Any, Any]] = []

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose calls are noted."""

        def call(*given: Any) -> Any:
            begin = self._now()
            found = work(*given)
            self._spent.setdefault(name, []).append((begin, self._now()))
            if name == "choose":
                self._chosen.append((given[1], given[7]))
            return found

        return call

    def _now(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self) -> dict[str, float]:
        """The sum for each function."""
        self.settle()
        return {
            name: sum(self._between(*pair) for pair in pairs) for name, pairs in self._spent.items()
        }

    def _between(self, begin: Any, end: Any) -> float:
        if self._device.type != "cuda":
            return float(end - begin)
        return float(begin.elapsed_time(end)) / 1000

    def told(self, queries: int) -> dict[str, dict[str, float]]:
        """Items written down and chosen for a query, and how many queries failed in a turn."""
        written = np.concatenate([count.cpu().numpy() % MISSED for count, _ in self._chosen])
        chosen = np.concatenate([number.cpu().numpy() for _, number in self._chosen])
        turns = queries * TURNS
        return {
            NAMES["write_down"]: {"a_query": round(float(written.sum()) / turns, 1)},
            NAMES["choose"]: {
                "a_query": round(float(chosen.sum()) / turns, 1),
                "failed": round(float((chosen == 0).sum()) / TURNS, 1),
            },
        }

    def settle(self) -> None:
        """Wait for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def forget(self) -> None:
        """Begin anew."""
        self._spent.clear()
        self._chosen.clear()


class _Timed:
    """An object or a module whose functions of known names are timed."""

    def __init__(self, timed: Any, clock: _Clock) -> None:
        self._timed, self._clock = timed, clock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._timed, name)
        return self._clock.timed(name, found) if name in NAMES and callable(found) else found
