"""Any folder of images: the folders around an image are its labels, from coarse to fine.

root/dog/1.jpg has the label dog; root/animal/dog/1.jpg has two levels. Where all folders at the top
are called train, val, test, query or gallery, they are the splits.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import find_images, find_root, split_rows
from truerank.errors import InputError

__all__ = ["SPLITS", "read_folder"]

SPLITS = ("train", "val", "test", "query", "gallery")


def read_folder(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Images by folder. A fine label is its whole path, so that animal/other is not plant/other."""
    folder = find_root(name, root, ())
    paths = list(find_images(folder))
    if not paths:
        raise InputError(f"{name} expects images in folders named by their label in {root}.")
    parts = [path.split("/")[:-1] for path in paths]
    tops = {part[0] if part else "" for part in parts}
    has_splits = tops <= set(SPLITS) and any(len(part) > 1 for part in parts)
    if has_splits:
        splits = split_rows(part[0] for part in parts)
        parts = [part[1:] for part in parts]
    depths = {len(part): path for part, path in zip(parts, paths, strict=True)}
    if len(depths) > 1 or 0 in depths:
        shown = " and ".join(depths[depth] for depth in sorted(depths)[:2])
        raise InputError(
            f"every image of {Path(root)} must lie in equally many folders, at least one, which "
            f"are its labels. Got {shown}."
        )
    (levels,) = depths
    labels = np.array([["/".join(part[: i + 1]) for i in range(levels)] for part in parts])
    return Dataset(
        name,
        ImageFiles(paths, folder),
        labels if levels > 1 else labels[:, 0],
        (*(f"level{number}" for number in range(1, levels)), "label"),
        ids=np.array(paths),
        splits=splits if has_splits else {},
    )
