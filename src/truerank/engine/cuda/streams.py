"""Streams of a device: work that goes on side by side. The CPU device of tests has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

__all__ = ["Lane", "moment", "side_stream", "wait_for"]


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
