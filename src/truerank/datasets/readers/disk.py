"""Helpers of all readers: find the folder, read its lists, say what was expected where."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError

__all__ = [
    "check_images",
    "find_images",
    "find_root",
    "read_lines",
    "read_rows",
    "split_rows",
    "whole_number",
]

Rows = npt.NDArray[np.int64]

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})


def find_root(
    name: str, root: str | os.PathLike[str], expected: Sequence[str], inside: Sequence[str] = ()
) -> Path:
    """The folder that holds all of `expected`: the root, or one of the folders `inside` it."""
    root = Path(root)
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise InputError(f"{name} is read from a folder; {root} {what}.")
    for folder in (root, *(root / inner for inner in inside)):
        if all((folder / item).exists() for item in expected):
            return folder
    missing = [item for item in expected if not (root / item).exists()]
    elsewhere = f" (or in {' or '.join(inside)} inside it)" if inside else ""
    raise InputError(
        f"{name} expects {_listed(expected)} in {root}{elsewhere}; {_listed(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not there."
    )


def _listed(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that hold something."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text.") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        raise InputError(f"{path} is empty.")
    return lines


def read_rows(path: Path, columns: str, *, skip: int = 0) -> list[list[str]]:
    """The cells of each line; `columns` names them, and only the last may hold spaces."""
    width = len(columns.split())
    rows = []
    for number, line in enumerate(read_lines(path)[skip:], skip + 1):
        cells = line.split(maxsplit=width - 1)
        if len(cells) != width:
            raise InputError(f"line {number} of {path} must be '{columns}'. Got {line!r}.")
        rows.append(cells)
    return rows


def whole_number(cell: str, path: Path) -> int:
    """The integer in a cell of a list."""
    try:
        return int(cell)
    except ValueError:
        raise InputError(f"{path} must hold a whole number where {cell!r} is.") from None


def find_images(folder: Path) -> Iterator[str]:
    """Paths of all images below a folder, relative to it, sorted; hidden files are left out."""
    seen = {os.path.realpath(folder)}
    found = []
    for here, folders, files in os.walk(folder, followlinks=True):
        kept = []
        for inner in folders:
            real = os.path.realpath(os.path.join(here, inner))
            if not inner.startswith(".") and real not in seen:  # a link may lead back up
                seen.add(real)
                kept.append(inner)
        folders[:] = kept
        below = os.path.relpath(here, folder)
        for file in files:
            if not file.startswith(".") and os.path.splitext(file)[1].lower() in SUFFIXES:
                found.append(file if below == "." else f"{below}/{file}".replace(os.sep, "/"))
    yield from sorted(found)


def check_images(name: str, root: Path, paths: Sequence[str]) -> None:
    """Refuse lists whose images are not there; the first and the last stand for all."""
    if not len(paths):
        raise InputError(f"{name} lists no images in {root}.")
    for path in (paths[0], paths[-1]):
        if not (root / path).is_file():
            raise InputError(
                f"{name} lists {path}, which is not in {root}: unpack the images there."
            )


def split_rows(names: Iterable[Any]) -> dict[str, Rows]:
    """Row numbers by the name of each row's split, in order of first appearance."""
    column = np.array([str(name) for name in names])
    return {name: np.flatnonzero(column == name) for name in dict.fromkeys(column.tolist())}
