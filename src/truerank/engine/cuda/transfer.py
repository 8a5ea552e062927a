"""Arrays between main memory and a device."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.space.base import Rows
from truerank.space.device_rows import DeviceRows
from truerank.space.pieces import Pieces

__all__ = ["DeviceCache", "DeviceQueries", "fetched", "sent", "sent_rows", "settled", "unlocked"]

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
