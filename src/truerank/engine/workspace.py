"""Workspace: large arrays that are used again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Workspace"]


class Workspace:
    """Large arrays by name, used again for block after block: fresh memory is slow to touch."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[Any]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: type) -> npt.NDArray[Any]:
        """An array of this shape with anything in it."""
        size = math.prod(shape)
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.empty(size, dtype)
        return self._held[name][:size].reshape(shape)
