"""Halves that hold nothing of each other: copies of rows, without a way back to the whole.

A data set and rows come in; a data set goes out whose images, labels, ids and groups are its own.
A subset would not do: it keeps the whole array of images alive behind its row numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageArray, ImageFiles, ImageRows
from truerank.errors import InputError

__all__ = ["check_images", "extract", "half_of"]

Rows = npt.NDArray[np.int64]
SHOWN = 3


def extract(data: Dataset, rows: Rows) -> Dataset:
    """These rows as a data set of their own; splits other than the test's sides are dropped."""
    return replace(half_of(data, rows), images=_extract_images(data.images, rows))


def half_of(data: Dataset, rows: Rows) -> Dataset:
    """The same while the whole is at hand: its images are still those of the whole."""
    part = data.subset(rows)
    sides = {name: kept for name, kept in part.splits.items() if name in ("query", "gallery")}
    return replace(part, splits=sides if len(sides) == 2 else {})


def _extract_images(images: Sequence[Any], rows: Rows) -> Sequence[Any]:
    if isinstance(images, ImageRows):
        return _extract_images(images.images, images.rows[rows])
    if isinstance(images, ImageArray):
        return ImageArray(np.ascontiguousarray(images.array[rows]))
    if isinstance(images, ImageFiles):
        return ImageFiles([images.path(row) for row in rows.tolist()])
    return [np.array(images[row]) for row in rows.tolist()]


def check_images(data: Dataset) -> None:
    """Decode every image that is a file once; damaged ones are named before any training."""
    images = data.images
    base = images.images if isinstance(images, ImageRows) else images
    if isinstance(base, ImageArray):
        return

    def problem(row: int) -> str | None:
        try:
            images[row]
        except InputError as error:
            return str(error)
        return None

    with ThreadPoolExecutor() as pool:
        found = [one for one in pool.map(problem, range(len(images))) if one is not None]
    if found:
        more = f" ({len(found) - SHOWN} more like these)" if len(found) > SHOWN else ""
        raise InputError(
            f"{len(found)} of {len(images)} images cannot be read: {' '.join(found[:SHOWN])}{more}"
        )
