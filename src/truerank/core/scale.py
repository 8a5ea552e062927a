"""Scales: what the grades of relevant items are worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Scale"]


@dataclass(frozen=True)
class Scale:
    """What the grades of a view mean: levels 1..L of a hierarchy, or judgements."""

    values: npt.NDArray[np.float64]
    judged: bool = False
