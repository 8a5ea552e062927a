"""Cars-196: pictures and annotations in any of the forms in which they are passed on.

These are cars_annos.mat with car_ims (one list for all), the devkit's two lists with cars_train and
cars_test, or these lists as CSV. The .mat files need scipy.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import (
    check_images,
    find_images,
    find_root,
    read_lines,
    split_rows,
    whole_number,
)
from truerank.errors import InputError

__all__ = ["read_cars"]

LAST_TRAIN_CLASS = 98
"""The last model of the training half; by custom the second half tests."""

ALL_IN_ONE = "cars_annos"
LISTS = {
    "train": ("cars_train_annos", "anno_train"),
    "test": ("cars_test_annos_withlabels", "anno_test"),
}
FOLDERS = ("cars_{0}", "car_data/{0}", "car_data/car_data/{0}")


def read_cars(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Cars by model. Which of the two lists names a picture is for classification; see the split.

    The standard split of metric learning goes by model: 1 to 98 train, 99 to 196 test.
    """
    folder = find_root(name, root, ())
    if list_of_all := _find(folder, (ALL_IN_ONE,)):
        paths, models = _annotations(list_of_all, "relative_im_path")
    else:
        paths, models = [], []
        for part, stems in LISTS.items():
            file = _find(folder, stems)
            if file is None:
                raise InputError(
                    f"{name} expects {ALL_IN_ONE}.mat, or {LISTS['train'][0]} and "
                    f"{LISTS['test'][0]} (.mat or .csv), in {folder} or in devkit inside it; "
                    f"{stems[0]} is not there."
                )
            files, numbers = _annotations(file, "fname")
            paths += _locate(name, folder, part, files)
            models += numbers
    check_images(name, folder, paths)
    labels = np.array(models, np.int64)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        labels,
        ("model",),
        ids=np.array(paths),
        splits=split_rows(np.where(labels <= LAST_TRAIN_CLASS, "train", "test")),
    )


def _find(folder: Path, stems: tuple[str, ...]) -> Path | None:
    candidates = (
        folder / place / f"{stem}{suffix}"
        for stem in stems
        for place in ("", "devkit")
        for suffix in (".mat", ".csv")
    )
    return next((file for file in candidates if file.is_file()), None)


def _annotations(file: Path, path_column: str) -> tuple[list[str], list[int]]:
    """File names and model numbers of an annotation file."""
    if file.suffix == ".csv":
        return _read_csv(file, path_column)
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise InputError(f"reading {file} needs scipy: pip install scipy.") from error
    try:
        entries = np.atleast_1d(loadmat(file, squeeze_me=True)["annotations"])
        return (
            [str(path) for path in entries[path_column]],
            [int(number) for number in entries["class"]],
        )
    except Exception as error:  # whatever the parser says of another or a damaged file
        raise InputError(
            f"{file} must be a MATLAB file with 'annotations' that have the fields "
            f"{path_column} and class."
        ) from error


def _read_csv(file: Path, path_column: str) -> tuple[list[str], list[int]]:
    """A CSV list with a header; or without, as file, four corners of a box, model."""
    rows = list(csv.reader(read_lines(file)))
    names = [cell.strip().lower() for cell in rows[0]]
    if path_column in names and "class" in names:
        path, number = names.index(path_column), names.index("class")
        rows = rows[1:]
    else:
        path, number = 0, len(names) - 1
    if any(len(row) != len(names) for row in rows):
        raise InputError(f"the rows of {file} must have one number of cells.")
    return [row[path] for row in rows], [whole_number(row[number], file) for row in rows]


def _locate(name: str, folder: Path, part: str, files: list[str]) -> list[str]:
    """The path of each file, which may lie in a folder of its model."""
    for place in (pattern.format(part) for pattern in FOLDERS):
        if (folder / place).is_dir():
            found = {path.split("/")[-1]: f"{place}/{path}" for path in find_images(folder / place)}
            return [found.get(file, f"{place}/{file}") for file in files]
    raise InputError(
        f"{name} expects the pictures in one of the folders "
        f"{', '.join(pattern.format(part) for pattern in FOLDERS)} in {folder}."
    )
