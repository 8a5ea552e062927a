"""Devices: the name that a user gives in, the engine that will run out."""

from __future__ import annotations

from truerank.engine import cuda
from truerank.errors import InputError
from truerank.jit import compiled

__all__ = ["DEVICES", "resolve_device"]

DEVICES = ("auto", "cpu", "cuda", "reference")
_LARGE = 1 << 27
"""Pairs from which a GPU, found and warmed up, is faster than the CPU."""


def resolve_device(device: str, pairs: int = 0) -> str:
    """The engine that will run: "cpu" (compiled), "cuda" or "reference" (pure numpy).

    "auto" looks for a GPU, which imports torch, only for as many pairs as make it worth the while.
    """
    if not isinstance(device, str) or device not in DEVICES:
        raise InputError(
            f"The 'device' parameter must be one of {', '.join(DEVICES)}. Got {device!r} instead."
        )
    if device == "auto":
        if pairs >= _LARGE and cuda.likely() and cuda.unavailable() is None:
            return "cuda"
        return "cpu" if compiled else "reference"
    if device == "cuda":
        cuda.check()
    if device == "cpu" and not compiled:
        raise InputError("device='cpu' needs numba; install it or use device='reference'.")
    return device
