"""Principal axes (PCA): where points lie on the two directions along which they differ most."""

from __future__ import annotations

import numpy as np

from truerank._util.types import Reals


def principal_axes(points: Reals) -> tuple[Reals, list[float]]:
    """Places of points on their first two principal axes, and the share of the variance along each.

    The larger ends of an axis point to the right and up, so that no sign is left to chance.
    """
    rows = points - points.mean(axis=0)
    wide = rows.shape[0] < rows.shape[1]
    values, vectors = np.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if wide:
        places = vectors[:, :2] * np.sqrt(values[:2])
    else:
        places = rows @ vectors[:, :2]
    if places.shape[1] < 2:
        places = np.column_stack([places, np.zeros(len(places))])
    for axis in places.T:
        if -axis.min() > axis.max():
            axis *= -1
    total = float(values.sum()) or 1.0
    share = [float(value) / total for value in values[:2]]
    return places, [*share, 0.0][:2]
