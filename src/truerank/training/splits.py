"""Class-disjoint splits, always the same ones: classes in sorted order, cut into equal parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError

if TYPE_CHECKING:
    from truerank.datasets.base import Dataset

__all__ = ["check_disjoint", "class_folds"]


def class_folds(labels: Any, folds: int) -> list[npt.NDArray[np.int64]]:
    """The rows of each fold: no class is in two, and sizes differ by at most one class.

    Parameters
    ----------
    labels : (N,) array
    folds : int

    Returns
    -------
    list of row numbers

    Examples
    --------
    >>> from truerank.training.splits import class_folds
    >>> [rows.tolist() for rows in class_folds(["b", "a", "c", "a", "d"], 2)]
    [[0, 1, 3], [2, 4]]
    """
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    if len(classes) < folds:
        raise InputError(
            f"{len(classes)} classes cannot be cut into {folds} folds; lower data.folds, or set "
            "data.fold to null to train without validation."
        )
    fold_of_class = np.empty(len(classes), np.int64)
    for number, part in enumerate(np.array_split(np.arange(len(classes)), folds)):
        fold_of_class[part] = number
    return [np.flatnonzero(fold_of_class[codes] == number) for number in range(folds)]


def check_disjoint(train: Dataset, validation: Dataset) -> None:
    """Refuse a class that is both trained on and validated on."""
    shared = np.intersect1d(train.fine_labels, validation.fine_labels)
    if len(shared):
        raise InputError(
            f"{len(shared)} classes are in both training and validation, {shared[0]!r} for one; "
            "validation needs classes of its own."
        )
