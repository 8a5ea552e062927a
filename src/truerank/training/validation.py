"""The validation score of an epoch: MAP@R on the model's own device, else by `evaluate`.

On the device the rows are those of the exact cosine, integers whose products and sums a float64
holds: the ranking is that of `evaluate`, ties included, and only the mean may differ in its last
bits. Mates of the query's own group are junk there too. Whatever has other rules, such as junk
labels, shared ids or a gallery of its own, is left to `evaluate`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.datasets.base import Dataset
from truerank.errors import InputError
from truerank.evaluation import evaluate
from truerank.space.grid import unit_grid

__all__ = ["map_at_r", "validation_score"]

ROWS = 512
"""Queries at a time."""


def validation_score(
    embeddings: npt.NDArray[np.float32], data: Dataset, metric: str, device: torch.device
) -> float:
    """The value of a metric of embeddings of a data set's images."""
    if metric == "map@r" and _is_plain(data):
        value = map_at_r(embeddings, data.fine_labels, device, data.groups)
        if value is not None:
            return value
    arguments = data.task_arguments()
    score = evaluate(embeddings, **arguments, metrics=[metric], confidence=None)[metric]
    if math.isnan(score.value):
        raise InputError(f"{metric} is undefined on the validation classes: {score.reason}")
    return score.value


def _is_plain(data: Dataset) -> bool:
    """Whether every image is searched for among all others, by its finest label and its group."""
    if data.junk_labels or data.splits:
        return False
    return data.ids is None or len(set(data.ids.tolist())) == len(data)


def map_at_r(
    embeddings: Any, labels: Any, device: torch.device, groups: Any = None
) -> float | None:
    """MAP@R of leave-one-out search by cosine, pessimistic where distances tie.

    Mates of the query's own group count as neither right nor wrong. None where this is not the
    place to compute it: rows without a direction or at right angles, which have rules of their own,
    labels without a mate, or a device without float64.

    Examples
    --------
    >>> import torch
    >>> from truerank.training.validation import map_at_r
    >>> rows = [[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0]]
    >>> map_at_r(rows, ["a", "a", "b", "b"], torch.device("cpu"))
    1.0
    """
    if device.type == "mps":
        return None
    integers, zero = unit_grid(np.asarray(embeddings, np.float64))
    codes = np.unique(np.asarray(labels), return_inverse=True)[1]
    unseen = _within(codes, groups)
    mates = np.bincount(codes)[codes] - np.bincount(unseen)[unseen]
    if zero.any() or not mates.any():
        return None
    rows = torch.from_numpy(integers).to(device, torch.float64)
    squares = (rows * rows).sum(1)
    classes = torch.from_numpy(codes).to(device)
    junk = torch.from_numpy(unseen).to(device)
    wanted = torch.from_numpy(mates).to(device)
    depth = int(mates.max())
    places = torch.arange(1, depth + 1, device=device, dtype=torch.float64)
    parts = []
    for start in range(0, len(rows), ROWS):
        part = slice(start, start + ROWS)
        products = rows[part] @ rows.T
        if bool((products == 0).any()):
            return None
        distances = squares[part, None] + squares - 2 * products
        same = classes[part, None] == classes
        keys = 2 * distances.to(torch.int64) + same  # of equal ones, those of other classes first
        keys[junk[part, None] == junk] = torch.iinfo(torch.int64).max
        first = keys.topk(depth, dim=1, largest=False, sorted=True).values
        found = ((first & 1) == 1) & (places <= wanted[part, None])
        found &= first != torch.iinfo(torch.int64).max
        hits = found.cumsum(1).to(torch.float64)
        parts.append((found * hits / places).sum(1) / wanted[part].clamp_min(1))
    values = torch.cat(parts).cpu().numpy()[mates > 0]
    return math.fsum(values.tolist()) / len(values)


def _within(codes: npt.NDArray[np.intp], groups: Any) -> npt.NDArray[np.intp]:
    """Numbers that a query shares with the rows it never meets: itself, mates of its group."""
    if groups is None:
        return np.arange(len(codes))
    pairs = np.stack([codes, np.unique(np.asarray(groups), return_inverse=True)[1]], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
