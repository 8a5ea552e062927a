"""Re-identification: the layouts of Market-1501, VeRi-776 and MSMT17.

Labels are people or vehicles, groups are cameras. By custom label -1 is junk, which is neither
right nor wrong, and 0 is a distractor, which is wrong for every query as any other negative.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import (
    check_images,
    find_images,
    find_root,
    read_rows,
    split_rows,
    whole_number,
)
from truerank.errors import InputError

__all__ = ["JUNK", "read_market", "read_msmt17", "read_veri"]

JUNK = -1

MARKET_FOLDERS = {"train": "bounding_box_train", "query": "query", "gallery": "bounding_box_test"}
VERI_FOLDERS = {"train": "image_train", "query": "image_query", "gallery": "image_test"}
MSMT17_LISTS = {
    "train": ("list_train.txt", "list_val.txt"),
    "query": ("list_query.txt",),
    "gallery": ("list_gallery.txt",),
}
MSMT17_FOLDERS = (("mask_train_v2", "mask_test_v2"), ("train", "test"))
"""Folders of the second version, in which faces are blurred, and of the first."""


def read_market(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Files such as 0002_c1s1_000451_03.jpg in three folders: identity 2, camera 1."""
    return _read_folders(name, root, MARKET_FOLDERS, inside=("Market-1501-v15.09.15",))


def read_veri(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Files such as 0002_c002_00030600_0.jpg in three folders: vehicle 2, camera 2.

    The junk of jk_image.txt, the query's vehicle seen by the query's camera, follows from labels
    and groups. Queries lie in the gallery as well; they share an id with themselves.
    """
    return _read_folders(name, root, VERI_FOLDERS, inside=("VeRi",))


def _read_folders(
    name: str, root: str | os.PathLike[str], folders: dict[str, str], inside: tuple[str, ...]
) -> Dataset:
    folder = find_root(name, root, tuple(folders.values()), inside)
    paths, ids, labels, cameras, splits = [], [], [], [], []
    for split, part in folders.items():
        for file in find_images(folder / part):
            match = re.match(r"(-1|\d+)_c(\d+)", file)
            if match is None:
                raise InputError(
                    f"{name} expects files such as 0002_c1s1_000451_03.jpg (identity 2, camera 1) "
                    f"in {folder / part}. Got {file!r}."
                )
            paths.append(f"{part}/{file}")
            ids.append(file)
            labels.append(int(match[1]))
            cameras.append(int(match[2]))
            splits.append(split)
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels, np.int64),
        ("identity",),
        ids=np.array(ids),
        groups=np.array(cameras, np.int64),
        splits=split_rows(splits),
        junk_labels=(JUNK,) if JUNK in labels else (),
    )


def read_msmt17(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Lists of files such as 0000/0000_000_01_0303morning_0008_0.jpg: person 0, camera 1.

    The people of the training set and of the test set are different and are both counted from 0,
    so that a label carries its side: "train/0000", "test/0000". What the authors kept for
    validation belongs to the training set, as in published results.
    """
    lists = tuple(file for files in MSMT17_LISTS.values() for file in files)
    folder = find_root(name, root, lists, inside=("MSMT17_V2", "MSMT17_V1", "MSMT17"))
    train, test = _msmt17_folders(name, folder)
    paths, labels, cameras, splits = [], [], [], []
    for split, files in MSMT17_LISTS.items():
        side, part = ("train", train) if split == "train" else ("test", test)
        for file in files:
            for path, person in read_rows(folder / file, "path person"):
                match = re.match(r"\d+_\d+_(\d+)_", path.split("/")[-1])
                if match is None:
                    raise InputError(
                        f"{folder / file} must list files such as "
                        f"0000/0000_000_01_0303morning_0008_0.jpg. Got {path!r}."
                    )
                paths.append(f"{part}/{path}")
                labels.append(f"{side}/{whole_number(person, folder / file):04d}")
                cameras.append(int(match[1]))
                splits.append(split)
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels),
        ("identity",),
        ids=np.array(paths),
        groups=np.array(cameras, np.int64),
        splits=split_rows(splits),
    )


def _msmt17_folders(name: str, folder: Path) -> tuple[str, str]:
    for train, test in MSMT17_FOLDERS:
        if (folder / train).is_dir() and (folder / test).is_dir():
            return train, test
    raise InputError(
        f"{name} expects the folders {' or '.join(' and '.join(pair) for pair in MSMT17_FOLDERS)} "
        f"in {folder}."
    )
