"""Stanford Online Products: Ebay_train.txt and Ebay_test.txt beside twelve folders of images."""

from __future__ import annotations

import os

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import check_images, find_root, read_rows, split_rows

__all__ = ["read_products"]

COLUMNS = "image_id class_id super_class_id path"


def read_products(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Articles from a market place; the folder of an image, "bicycle_final", is its super-class."""
    lists = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}
    folder = find_root(name, root, tuple(lists.values()), inside=("Stanford_Online_Products",))
    paths, labels, splits = [], [], []
    for split, file in lists.items():
        for _, article, _, path in read_rows(folder / file, COLUMNS, skip=1):
            paths.append(path)
            labels.append((path.split("/")[0].removesuffix("_final"), article))
            splits.append(split)
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels),
        ("super_class", "article"),
        ids=np.array(paths),
        splits=split_rows(splits),
    )
