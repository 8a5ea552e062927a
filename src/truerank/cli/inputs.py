"""What commands read: embeddings with labels, scores of trials, and options that are lists."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Any

from truerank import files
from truerank.core import registry
from truerank.errors import InputError
from truerank.files import Bundle, read_npy
from truerank.taxonomy import Taxonomy
from truerank.wording import count

__all__ = [
    "add_columns",
    "chosen_metrics",
    "expand",
    "level_names",
    "read_ids",
    "read_matrix",
    "read_runs",
    "read_side",
    "split_metrics",
    "whole_numbers",
]


def read_side(
    path: Path | None, labels: Path | None, levels: list[str] | None, option: str | None = None
) -> Bundle:
    """Embeddings from one file, if any, and the rest from the labels file where there is one.

    `option` says how to name that file, if there must be labels.
    """
    bundle = files.read_side(path, labels, levels)
    if bundle.labels is None and option is not None:
        raise InputError(f"{path} holds no labels; pass {option} FILE.")
    return bundle


def read_ids(path: Path) -> Any:
    """Read the ids in a file, which must hold some."""
    return _read_column(path, "ids", "id")


def add_columns(side: Bundle, ids: Path | None, groups: Path | None) -> None:
    """Put the ids and groups of files of their own in the place of those that a side has."""
    if ids is not None:
        side.ids = read_ids(ids)
    if groups is not None:
        side.groups = _read_column(groups, "groups", "group or camera")


def _read_column(path: Path, field: str, called: str) -> Any:
    """Read one column of a file; an array without a name is that column."""
    column = getattr(files.read(path, lone=field), field)
    if column is None:
        raise InputError(f"{path} holds no {field}: expected a column or array called {called}.")
    return column


def read_matrix(path: Path) -> Any:
    """A matrix of numbers from a .npy file."""
    array = read_npy(path)
    if array.ndim != 2:
        raise InputError(f"{path} must be a (queries, gallery) matrix. Got {array.shape}.")
    return array


def read_runs(results: tuple[Path, ...], runs: tuple[str, ...]) -> list[Path | list[Path]]:
    """The models of a command line: each of RESULTS, then the files of each --runs.

    A part of --runs between commas may be a pattern, which names all files that match it, sorted.
    A single file beside RESULTS is refused: a shell expands --runs a-*.json to that.
    """
    models: list[Path | list[Path]] = list(results)
    for text in runs:
        files = [
            path for part in text.split(",") if part.strip() for path in _matches(part.strip())
        ]
        if len(files) == 1 and results:
            pattern = re.sub(r"[0-9]+(?=[^0-9]*$)", "*", str(files[0]))  # of the seed
            raise InputError(
                f"--runs names one file, {files[0]}, beside {count(len(results), 'file')} without "
                f"--runs, each of which would be a model. Write the runs of a model with commas, "
                f"--runs {files[0]},{results[0]}, or as a pattern in quotes, --runs '{pattern}', "
                "which the shell leaves alone. A model with a single run needs no --runs."
            )
        if len(set(files)) < len(files):
            twice = next(path for path in files if files.count(path) > 1)
            raise InputError(f"--runs {text} names {twice} twice; name each run of a model once.")
        models.append(files)
    return models


def _matches(part: str) -> list[Path]:
    """The file that a part of --runs names, or the files that match it, sorted."""
    if Path(part).exists() or not re.search(r"[*?\[]", part):
        return [Path(part)]
    found = sorted(glob.glob(part, recursive=True))
    if not found:
        raise InputError(f"no file matches {part!r}, a pattern of --runs.")
    return [Path(path) for path in found]


def expand(path: Path | None, *sides: Bundle) -> None:
    """Replace finest labels by their paths in the taxonomy of a file."""
    if path is None:
        return
    taxonomy = Taxonomy.read(path)
    for side in sides:
        if isinstance(side.labels, dict):
            raise InputError("--taxonomy takes the finest labels alone; leave the levels out.")
        if side.labels is not None:
            side.labels = taxonomy.levels(side.labels)


def level_names(levels: str | None) -> list[str] | None:
    """The columns that --levels names."""
    return None if levels is None else [name.strip() for name in levels.split(",")]


def chosen_metrics(text: str | None) -> list[str] | str | None:
    """The metrics that --metrics names; 'all' and no choice stay what they are."""
    return text if text is None or text == "all" else split_metrics(text)


def split_metrics(text: str) -> list[str]:
    """'map@r hit@10' and 'map@10,divisor=min,mrr': one string for each name."""
    joined = re.sub(r"\s*,\s*", ",", text.strip(" ,"))
    return [one for part in joined.split() for one in registry.divided(part)]


def whole_numbers(option: str, text: str | None) -> list[int]:
    """The numbers of an option such as '100,1000'; none if it was left out."""
    found = []
    for part in re.split(r"[,\s]+", text.strip(" ,")) if text is not None else ():
        if not re.fullmatch(r"[0-9]{1,15}", part) or int(part) < 1:
            raise InputError(
                f"{option} takes whole numbers, divided by commas, such as 100,1000. Got {text!r}."
            )
        found.append(int(part))
    return found
