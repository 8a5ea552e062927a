"""CUB-200-2011: images.txt and image_class_labels.txt beside the folder images."""

from __future__ import annotations

import os

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import (
    check_images,
    find_root,
    read_rows,
    split_rows,
    whole_number,
)
from truerank.errors import InputError

__all__ = ["read_cub"]

LAST_TRAIN_CLASS = 100
"""The last species of the training half; by custom the second half tests."""


def read_cub(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Birds by species; train_test_split.txt is for classification and is not used."""
    lists = ("images.txt", "image_class_labels.txt", "classes.txt", "images")
    folder = find_root(name, root, lists, inside=("CUB_200_2011",))
    species = dict(read_rows(folder / lists[2], "class_id name"))
    of_image = dict(read_rows(folder / lists[1], "image_id class_id"))
    paths, labels, splits = [], [], []
    for image, path in read_rows(folder / lists[0], "image_id path"):
        number = of_image.get(image, "")
        if number not in species:
            raise InputError(
                f"image {image} of {folder / lists[0]} has no class in {lists[1]} and {lists[2]}."
            )
        paths.append(path)
        labels.append(species[number])
        is_train = whole_number(number, folder / lists[2]) <= LAST_TRAIN_CLASS
        splits.append("train" if is_train else "test")
    check_images(name, folder / "images", paths)
    return Dataset(
        name,
        ImageFiles(paths, folder / "images"),
        np.array(labels),
        ("species",),
        ids=np.array(paths),
        splits=split_rows(splits),
    )
