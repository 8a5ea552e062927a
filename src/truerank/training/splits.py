"""Class-disjoint splits, always the same ones: classes in order, cut into equal parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.datasets.base import Dataset, class_numbers
from truerank.errors import InputError

__all__ = ["check_disjoint", "class_folds"]


def class_folds(labels: Any, folds: int) -> list[npt.NDArray[np.int64]]:
    """Return the rows of each fold: ranges of classes in order, whose sizes differ by at most one.

    Parameters
    ----------
    labels : (N,) array
        A label for each row. Classes that are numbered are in the order of their numbers, also
        where the numbers are text ("2" before "10"); others are in the order of their names.
    folds : int

    Returns
    -------
    list of row numbers

    Examples
    --------
    >>> from truerank.training.splits import class_folds
    >>> [rows.tolist() for rows in class_folds(["b", "a", "c", "a", "d"], 2)]
    [[0, 1, 3], [2, 4]]
    >>> [rows.tolist() for rows in class_folds(["10", "2", "1", "30"], 2)]
    [[1, 2], [0, 3]]
    """
    codes = class_numbers(labels)
    classes = int(codes.max(initial=-1)) + 1
    if classes < folds:
        raise InputError(
            f"{classes} classes cannot be cut into {folds} folds; lower data.folds, or set "
            "data.fold to null to train without validation."
        )
    fold_of_class = np.empty(classes, np.int64)
    for number, part in enumerate(np.array_split(np.arange(classes), folds)):
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
