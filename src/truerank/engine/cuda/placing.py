"""Which kind of space on a device belongs to a space in main memory."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from truerank.engine.cuda.rows import DeviceSpace, Elementwise, InnerProducts
from truerank.engine.cuda.sourced import SourcedProducts
from truerank.space.base import Space
from truerank.space.elementwise import Cityblock, Hamming
from truerank.space.inner import Dot, Euclidean, SquaredDistance
from truerank.space.sourced import SourcedCosine

__all__ = ["place"]


def place(space: Space, device: Any, kernels: ModuleType) -> DeviceSpace:
    """The space on this device."""
    if isinstance(space, SourcedCosine):
        return SourcedProducts(space, device, kernels)
    if isinstance(space, (SquaredDistance, Euclidean, Dot)):
        return InnerProducts(space, device, kernels)
    if isinstance(space, (Cityblock, Hamming)):
        return Elementwise(space, device, kernels)
    return DeviceSpace(space, device, kernels)
