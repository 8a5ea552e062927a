"""A map of the classes: their centres, on the two axes along which they differ most (PCA)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.ranked import AtHand

__all__ = ["map_of_centres"]

Reals = npt.NDArray[np.float64]
MOST_CLASSES = 2000


def map_of_centres(found: AtHand) -> dict[str, Any] | None:
    """The centres of the queries' classes in two dimensions, the largest classes first.

    Rows count by their directions where distances do. None where there are no classes, or no
    points whose distances are those of the ranking.
    """
    task, points = found.task, found.space.vectors()
    if points is None or task.levels is None:
        return None
    classes, number, size = np.unique(task.query_codes, return_inverse=True, return_counts=True)
    if len(classes) < 3:
        return None
    centres = np.zeros((len(classes), points.shape[1]))
    np.add.at(centres, number, points)
    centres /= size[:, None]
    places, share = _principal(centres)
    order = np.lexsort((classes, -size))[:MOST_CLASSES]
    names = task.levels.finest.values
    scale = float(np.abs(places).max()) or 1.0
    return {
        "labels": [str(names[code]) for code in classes[order].tolist()],
        "x": np.round(places[order, 0] / scale, 5).tolist(),
        "y": np.round(places[order, 1] / scale, 5).tolist(),
        "queries": size[order].tolist(),
        "classes": len(classes),
        "share": [round(one, 5) for one in share],
    }


def _principal(centres: Reals) -> tuple[Reals, list[float]]:
    """Places on the first two principal axes, and the share of the variance along each.

    The larger ends of an axis point to the right and up, so that no sign is left to chance.
    """
    rows = centres - centres.mean(axis=0)
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
