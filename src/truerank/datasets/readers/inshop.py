"""In-Shop Clothes Retrieval (DeepFashion): one list that says train, query or gallery."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import check_images, find_root, read_lines, split_rows
from truerank.errors import InputError

__all__ = ["read_inshop"]

LIST = "list_eval_partition.txt"


def read_inshop(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Clothes by item; the list may lie in Eval and the images in Img, as they are distributed."""
    partition = find_root(name, root, (LIST,), inside=("Eval",)) / LIST
    paths, items, splits = [], [], []
    for number, line in enumerate(read_lines(partition)[2:], 3):  # a count, then the columns
        cells = line.split()
        if len(cells) != 3 or cells[2] not in ("train", "query", "gallery"):
            raise InputError(
                f"line {number} of {partition} must be 'image_name item_id evaluation_status' with "
                f"the status train, query or gallery. Got {line!r}."
            )
        paths.append(cells[0])
        items.append(cells[1])
        splits.append(cells[2])
    images = Path(root) / "Img" if (Path(root) / "Img" / "img").is_dir() else Path(root)
    check_images(name, images, paths)
    return Dataset(
        name,
        ImageFiles(paths, images),
        np.array(items),
        ("item",),
        ids=np.array(paths),
        splits=split_rows(splits),
    )
