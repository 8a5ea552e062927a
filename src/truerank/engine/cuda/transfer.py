"""Arrays between main memory and a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["fetched", "sent"]


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
