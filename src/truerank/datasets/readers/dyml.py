"""DyML-Vehicle, -Animal and -Product: training labels in three levels, tests by level.

Vehicle and Animal have one benchmark for each level, bmk_coarse, bmk_middle and bmk_fine, with its
own queries and gallery and only that level's labels. Product has one test set with all levels.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import check_images, find_root, read_lines, split_rows
from truerank.errors import InputError

__all__ = ["LEVELS", "read_dyml_benchmark", "read_dyml_product", "read_dyml_train"]

LEVELS = ("coarse", "middle", "fine")
TRAIN_LIST, TEST_LIST = "train/label.csv", "mini-bmk_all_in_one/label.csv"


def read_dyml_train(name: str, root: str | os.PathLike[str]) -> Dataset:
    """The training set with its three levels; the tests are in `read_dyml_benchmark`."""
    folder = find_root(name, root, (TRAIN_LIST,))
    paths, labels = _table(folder, TRAIN_LIST, "train/imgs", [f"{level}_id" for level in LEVELS])
    return _dataset(name, folder, paths, np.array(labels), LEVELS, ["train"] * len(paths))


def read_dyml_product(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Training set and test set, both with three levels; the test is searched in itself."""
    folder = find_root(name, root, (TRAIN_LIST, TEST_LIST))
    columns = [f"{level}_id" for level in LEVELS]
    paths, labels = _table(folder, TRAIN_LIST, "train/imgs", columns)
    more_paths, more_labels = _table(folder, TEST_LIST, "mini-bmk_all_in_one/imgs", columns)
    splits = ["train"] * len(paths) + ["test"] * len(more_paths)
    # Class numbers of different files are not comparable: the prefix makes them different.
    sides = [("train/", row) for row in labels] + [("test/", row) for row in more_labels]
    named = np.array([[side + cell for cell in row] for side, row in sides])
    return _dataset(name, folder, paths + more_paths, named, LEVELS, splits)


def read_dyml_benchmark(level: str, name: str, root: str | os.PathLike[str]) -> Dataset:
    """One level: the training set with its labels, and that level's queries and gallery."""
    sides = {split: f"bmk_{level}/{split}.csv" for split in ("query", "gallery")}
    folder = find_root(name, root, (TRAIN_LIST, *sides.values()))
    paths, rows = _table(folder, TRAIN_LIST, "train/imgs", [f"{level}_id"])
    labels = [f"train/{row[0]}" for row in rows]
    splits = ["train"] * len(paths)
    for split, file in sides.items():
        more_paths, more_rows = _table(folder, file, f"bmk_{level}/{split}", ["labels"])
        paths += more_paths
        labels += [f"test/{row[0]}" for row in more_rows]
        splits += [split] * len(more_paths)
    return _dataset(name, folder, paths, np.array(labels), (level,), splits)


def _table(
    folder: Path, file: str, images: str, columns: list[str]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Image paths and the cells of some columns.

    As distributed, no line break follows the header, "fname, labels0.jpg, 5": the first image is
    glued to the last name. It counts all the same.
    """
    path = folder / file
    lines = read_lines(path)
    header = re.match(r"fname((?:\s*,\s*(?:coarse_id|middle_id|fine_id|labels?))+)", lines[0])
    if header is None:
        raise InputError(
            f"{path} must begin with 'fname' and the columns {', '.join(columns)}. "
            f"Got {lines[0][:60]!r}."
        )
    names = [name.strip() for name in header[1].split(",")[1:]]
    missing = [column for column in columns if column not in names]
    if missing:
        raise InputError(f"{path} has no column {missing[0]!r}; it has {', '.join(names)}.")
    places = [1 + names.index(column) for column in columns]
    glued = lines[0][header.end() :].lstrip(", ")
    paths, rows = [], []
    for line in ([glued] if glued else []) + lines[1:]:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 1 + len(names):
            raise InputError(f"{path} must hold {1 + len(names)} cells in a line. Got {line!r}.")
        paths.append(f"{images}/{cells[0]}")
        rows.append(tuple(cells[place] for place in places))
    return paths, rows


def _dataset(
    name: str,
    folder: Path,
    paths: list[str],
    labels: npt.NDArray[np.str_],
    levels: tuple[str, ...],
    splits: list[str],
) -> Dataset:
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        labels,
        levels,
        ids=np.array(paths),
        splits=split_rows(splits),
    )
