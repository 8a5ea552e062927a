"""Arrays between main memory and a device."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.space.base import Rows

__all__ = ["Queries", "Shelf", "fetched", "sent", "settled"]


def sent(array: npt.NDArray[Any], device: Any) -> Any:
    """On the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def fetched(tensor: Any) -> npt.NDArray[Any]:
    """In main memory, through pinned pages: others are ten times slower to fill."""
    if tensor.device.type != "cuda":
        own: npt.NDArray[Any] = tensor.numpy()
        return own
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    array: npt.NDArray[Any] = pinned.copy_(tensor).numpy()
    return array


@dataclass(frozen=True)
class Queries:
    """The numbers of some queries, in main memory and on a device."""

    rows: Rows
    there: Any

    @staticmethod
    def of(rows: Rows, device: Any) -> Queries:
        """Sent once for all who ask."""
        return Queries(rows, sent(rows, device))

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, some: slice) -> Queries:
        """Some of them."""
        return Queries(self.rows[some], self.there[some])


def settled(device: Any) -> None:
    """Wait for what this thread has asked of a device: others, with streams of their own, may use
    it then."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


class Shelf:
    """Arrays on a device that are asked for again and again, by any thread."""

    def __init__(self, device: Any) -> None:
        self._device, self._lock = device, Lock()
        self._held: dict[int, tuple[npt.NDArray[Any], Any]] = {}

    def __call__(self, array: npt.NDArray[Any]) -> Any:
        """On the device from the first time on; the array must not change."""
        with self._lock:
            if id(array) not in self._held:
                there = sent(array, self._device)
                settled(self._device)
                self._held[id(array)] = (array, there)
            return self._held[id(array)][1]
