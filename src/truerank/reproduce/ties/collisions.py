"""Collisions: neighbours in the order of distances that lie closer together than some bound.

The bound is the paper's epsilon, one and the same number for three distances with three units; or
it follows each distance's own spread; or it is a number of units in the last place of float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DISTANCES", "collision_map", "count_collisions", "distance_rows", "spread"]

DISTANCES = ("cosine", "euclidean", "cityblock")
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def distance_rows(rows: npt.NDArray[Any], distance: str) -> Reals:
    """(N, N - 1): each row's distances to all others in float64, ascending."""
    import torch

    points = torch.from_numpy(np.ascontiguousarray(rows, np.float64))
    if distance == "cosine":
        units = torch.nn.functional.normalize(points, dim=1)
        found = (1 - units @ units.T).numpy()
    else:
        power = {"euclidean": 2.0, "cityblock": 1.0}[distance]
        direct = "donot_use_mm_for_euclid_dist"  # as scipy does: differences, not products
        found = torch.cdist(points, points, p=power, compute_mode=direct).numpy()
    others = found[~np.eye(len(found), dtype=bool)].reshape(len(found), -1)
    return np.sort(others, axis=1)


def spread(ranked: Reals) -> float:
    """The standard deviation of all distances."""
    return float(ranked.std())


def _close(ranked: Reals, epsilon: float | None, places: int) -> Flags:
    """Which neighbours collide: nearer than epsilon, or within so many last places of float32."""
    if epsilon is not None:
        return np.asarray(np.diff(ranked, axis=1) < epsilon)
    bits = np.maximum(ranked, 0.0).astype(np.float32).view(np.int32).astype(np.int64)
    return np.asarray(np.diff(bits, axis=1) <= places)


def count_collisions(ranked: Reals, epsilon: float | None = None, places: int = 0) -> int:
    """Neighbours that collide, over all rows."""
    return int(_close(ranked, epsilon, places).sum())


def collision_map(ranked: Reals, epsilon: float | None = None, places: int = 0) -> Flags:
    """(N, N - 1): whether the item at each rank collides with the one before or behind it."""
    close = _close(ranked, epsilon, places)
    nothing = np.zeros((len(ranked), 1), bool)
    return np.asarray(np.hstack([close, nothing]) | np.hstack([nothing, close]), bool)
