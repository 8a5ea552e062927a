"""The cache of fetched data sets: $TRUERANK_CACHE, else truerank in the user's cache folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt

from truerank.errors import InputError
from truerank.files import read_archive

__all__ = ["cached_file", "read_cached"]


def cached_file(name: str, version: str) -> Path:
    """The cached file of a data set; a new version is a new file."""
    chosen = os.environ.get("TRUERANK_CACHE")
    if chosen:
        folder = Path(chosen)
    else:
        home = os.environ.get("XDG_CACHE_HOME")
        # The standard has relative paths ignored.
        folder = Path(home) if home and os.path.isabs(home) else Path.home() / ".cache"
        folder = folder / "truerank"
    return folder / f"{name}-{version}.npz"


def read_cached(
    name: str, file: Path, is_right: Callable[[dict[str, npt.NDArray[Any]]], bool]
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a fetched data set, as `data get` has written them."""
    if file.exists() and not file.is_file():
        raise InputError(
            f"{name} is read from the file that 'truerank data get {name}' writes; {file} is none."
        )
    if not file.is_file():
        raise InputError(
            f"{name} is not in the cache ({file} does not exist): run 'truerank data get {name}'."
        )
    try:
        arrays = read_archive(file)
        right = is_right(arrays)
    except Exception:  # whatever numpy or zipfile say of a damaged file
        right = False
    if not right:
        raise InputError(f"{file} is damaged: run 'truerank data get {name} --force'.")
    return arrays
