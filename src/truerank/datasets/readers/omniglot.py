"""Omniglot: images_background and images_evaluation, each alphabet/character/drawing.png."""

from __future__ import annotations

import os
import re

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import check_images, find_images, find_root, split_rows
from truerank.errors import InputError

__all__ = ["read_omniglot"]

FOLDERS = {"train": "images_background", "test": "images_evaluation"}


def read_omniglot(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Characters of fifty alphabets; the group is who drew: file 0709_14.png is by drawer 14.

    Each alphabet had twenty drawers of its own, so that a drawer is known by both.
    """
    folder = find_root(name, root, tuple(FOLDERS.values()), inside=("python", "omniglot/python"))
    paths, labels, drawers, splits = [], [], [], []
    for split, part in FOLDERS.items():
        for path in find_images(folder / part):
            match = re.fullmatch(r"([^/]+)/([^/]+)/\d+_(\d+)\.png", path)
            if match is None:
                raise InputError(
                    f"{name} expects alphabet/character/0001_01.png in {folder / part}. "
                    f"Got {path!r}."
                )
            alphabet, character, drawer = match.groups()
            paths.append(f"{part}/{path}")
            labels.append((alphabet, f"{alphabet}/{character}"))
            drawers.append(f"{alphabet}/{drawer}")
            splits.append(split)
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels),
        ("alphabet", "character"),
        ids=np.array(paths),
        groups=np.array(drawers),
        splits=split_rows(splits),
    )
