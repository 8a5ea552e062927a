"""Splits of a benchmark: rows for the search with their folds, and the test split.

The same data set gives the same rows every time, and a hash over ids and labels notices when it
does not. Workers get copies of rows, since a subset would keep the whole array of images in
memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError
from truerank._util.files import to_json
from truerank.datasets.base import Dataset, ImageArray, ImageFiles, ImageRows
from truerank.io.reading import read_json
from truerank.training.sampler import class_folds

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Splits:
    """Row numbers into the data set; folds are row numbers into its search half."""

    search: Rows
    test: Rows
    folds: list[Rows]
    names: list[str]
    """What each row of the data set is called: its id, or "row N" where ids repeat."""
    digest: str
    """Of ids, labels and the part of every row."""

    def to_dict(self) -> dict[str, Any]:
        """Row ids by part, and the hash."""
        search = [self.names[row] for row in self.search]
        return {
            "digest": self.digest,
            "search": search,
            "test": [self.names[row] for row in self.test],
            "folds": [[search[row] for row in fold] for fold in self.folds],
        }


def make_splits(data: Dataset, split: str, folds: int) -> Splits:
    """Halve a data set, and cut the search half into class-disjoint folds.

    Parameters
    ----------
    data : Dataset
    split : str
        "classes": the data set's own training and test classes, or the first and the second half
        of its classes. "stratified": the classes below each coarsest label are dealt out in turn,
        to the halves and to the folds. "images": the first half of each class's images is searched
        on, the other tested. "official": the data set's own training and test images, whose classes
        may be the same. Anything else is a JSON file with the ids of "search" and "test".
    folds : int
    """
    names = _names(data)
    if split in ("classes", "official"):
        search, test = _by_classes(data, shared=split == "official")
    elif split == "stratified":
        search, test = _dealt(data.labels, 2)
    elif split == "images":
        search, test = _by_images(data)
    else:
        search, test = _by_file(Path(split), names)
    labels = data.fine_labels[search]
    if split == "stratified":
        parts = _dealt(data.labels[search], folds)
    else:
        parts = class_folds(data.class_numbers[search], folds)
    for number, rows in enumerate(parts):
        kept = np.unique(labels[rows], return_counts=True)[1]
        if kept.max(initial=0) < 2:
            raise InputError(
                f"no class of fold {number} has two images, so that no query is mated; "
                "set fewer folds."
            )
    total = sha256()
    part = np.zeros(len(data), np.int64)
    part[search], part[test] = 1, 2
    paths = data.labels.reshape(len(data), -1).tolist()
    for name, path, where in zip(names, paths, part.tolist(), strict=True):
        total.update(json.dumps([name, [str(label) for label in path], where]).encode())
    return Splits(search, test, parts, names, total.hexdigest())


def _names(data: Dataset) -> list[str]:
    if data.ids is not None:
        names = [str(one) for one in data.ids.tolist()]
        if len(set(names)) == len(names):
            return names
    return [f"row {row}" for row in range(len(data))]


def _by_classes(data: Dataset, *, shared: bool) -> tuple[Rows, Rows]:
    if "train" in data.splits:
        test = [data.splits[name] for name in ("test", *_sides(data)) if name in data.splits]
        if test:
            search, tested = data.splits["train"], np.unique(np.concatenate(test))
            both = np.intersect1d(data.fine_labels[search], data.fine_labels[tested])
            if len(both) and not shared:
                raise InputError(
                    f"{len(both)} classes of {data.name} are in its training and its test split, "
                    f"{both[0]!r} for one; data.split: official is for such a data set, or images."
                )
            return search, tested
    if shared:
        raise InputError(f"{data.name} has no training and test split; set data.split: images.")
    first, second = class_folds(data.class_numbers, 2)
    return first, second


def _sides(data: Dataset) -> list[str]:
    """The splits of queries and galleries: of one test, or of a test for each level."""
    ends = [f"-{level}" for level in data.tests] or [""]
    return [f"{side}{end}" for end in ends for side in ("query", "gallery")]


def _dealt(labels: npt.NDArray[Any], parts: int) -> list[Rows]:
    """The rows of each part: the classes below every coarsest label, in order, dealt in turn."""
    if labels.ndim == 1:
        raise InputError("data.split: stratified needs labels of several levels; these have one.")
    paths, codes = np.unique(labels.astype(str), axis=0, return_inverse=True)
    if len(paths) < parts:
        raise InputError(f"{len(paths)} classes cannot be dealt into {parts} parts.")
    # Paths are sorted, so that those below one label follow one another: dealing on from label to
    # label leaves sizes that differ by at most one class, below each label and in all.
    part = np.arange(len(paths)) % parts
    return [np.flatnonzero(part[codes.ravel()] == number) for number in range(parts)]


def _by_images(data: Dataset) -> tuple[Rows, Rows]:
    search, test = [], []
    _, codes = np.unique(data.fine_labels, return_inverse=True)
    for code in range(int(codes.max(initial=-1)) + 1):
        rows = np.flatnonzero(codes == code)
        half = (len(rows) + 1) // 2
        search.append(rows[:half])
        test.append(rows[half:])
    return np.sort(np.concatenate(search)), np.sort(np.concatenate(test))


def _by_file(path: Path, names: list[str]) -> tuple[Rows, Rows]:
    if not path.is_file():
        raise InputError(
            "data.split must be classes, stratified, images, official or a JSON file with the ids "
            f"of search and test. Got {path.name!r}, and there is no file {path}."
        )
    given = read_json(path)
    if not isinstance(given, dict) or not {"search", "test"} <= set(given):
        raise InputError(f"{path} must hold the lists of ids 'search' and 'test'.")
    place = {name: row for row, name in enumerate(names)}
    parts = []
    for part in ("search", "test"):
        ids = [str(one) for one in given[part]]
        missing = [one for one in ids if one not in place]
        if missing:
            raise InputError(f"{path} names {missing[0]!r}, which the data set does not have.")
        if not ids or len(set(ids)) < len(ids):
            raise InputError(f"the list {part!r} of {path} must hold different ids.")
        parts.append(np.sort(np.array([place[one] for one in ids], np.int64)))
    if np.intersect1d(parts[0], parts[1]).size:
        raise InputError(f"{path} has an id in both 'search' and 'test'.")
    return parts[0], parts[1]


def write_splits(splits: Splits, path: Path) -> None:
    """Write row ids and their hash."""
    to_json(splits.to_dict(), path)


def check_unchanged(splits: Splits, path: Path) -> None:
    """Refuse to resume with other data, or with other folds, than a benchmark began with."""
    saved = read_json(path)
    if not isinstance(saved, dict) or saved.get("digest") != splits.digest:
        raise InputError(
            f"the data are not those that {path} was made for: ids, labels or the split differ; "
            "name another folder."
        )
    if saved.get("folds") != splits.to_dict()["folds"]:
        raise InputError(
            f"the folds in {path} are not those of its data in this version: earlier ones sorted "
            "numbered classes as text (1, 10, 100, 2), this one sorts them as numbers. "
            " Name another folder, or finish this one with the version that began it."
        )


# Halves that hold nothing of each other: copies of rows, without a way back to the whole.
#
# A data set and rows come in; a data set goes out whose images, labels, ids and groups are its
# own. A subset would not do: it keeps the whole array of images alive behind its row numbers.


SHOWN = 3


def extract(data: Dataset, rows: Rows) -> Dataset:
    """These rows as a data set of their own; splits other than the test's sides are dropped."""
    return replace(half_of(data, rows), images=_extract_images(data.images, rows))


def half_of(data: Dataset, rows: Rows) -> Dataset:
    """The same while the whole is at hand: its images are still those of the whole."""
    part = data.subset(rows)
    sides = {name: part.splits[name] for name in _sides(part) if name in part.splits}
    return replace(part, splits=sides if len(sides) >= 2 else {})


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
