"""Waiting for a GPU asleep: a process that asks for a number keeps a core busy until it is there.

Batches are launched some way ahead of the GPU and no further, and what is waited for is an event
that wakes the process. Where several trainings share a machine, the cores are free for others.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

__all__ = ["Pace"]

AHEAD = 32
"""Batches that may be launched and not yet done: the GPU never waits for the next one."""


class Pace:
    """How far the launching of batches may be ahead of a device; on a CPU they never are."""

    def __init__(self, device: torch.device) -> None:
        self._waits = device.type == "cuda"
        self._launched: deque[Any] = deque()

    def launched(self) -> None:
        """Say that a batch was launched; waits for one of long ago."""
        if not self._waits:
            return
        event = torch.cuda.Event(blocking=True)
        event.record()
        self._launched.append(event)
        if len(self._launched) > AHEAD:
            self._launched.popleft().synchronize()

    def catch_up(self) -> None:
        """Wait for all that was launched."""
        while self._launched:
            self._launched.popleft().synchronize()
